"""The launchers: in every shell of this machine, whatever the home's path, the arguments and the environment hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import perdure_pm
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import UsageFault
from perdure_pm.ops import launchers
from perdure_pm.ops.launchers import write_command_launcher, write_host_launchers, write_pm_launcher
from perdure_pm.store.layout import Layout
from perdure_pm.store.protection import read_protection

pytestmark = pytest.mark.platforms("linux", "darwin")

GENERATION = "7-0123456789ab"
RUNTIME = "0123456789ab.2"
SEED = "abcdef012345"
SHELLS = [
    words
    for words in (
        ["sh"],
        ["dash"],
        ["bash", "--posix"],
        ["busybox", "sh"],
        ["ksh"],
        ["zsh", "--emulate", "sh"],
        ["yash"],
    )
    if shutil.which(words[0])
]
SPEAKING = '#!/bin/sh\nprintf \'%s\\0\' "$0" "$@"\n'
"""Stands for a program: says how it was started."""
HARD = ["", " ", "a b", "'", '"', "\\", "$HOME", "`x`", "new\nline", "end\n", "*", "-n", "--", "ä", "\t"]


class Home:
    """A home with launchers, where programs that say how they were started stand for the real ones."""

    def __init__(self, path: Path) -> None:
        self.layout = Layout(path)
        self.environment = self.layout.generation(GENERATION) / "venv" / "bin"
        self.runtime = self.layout.runtime(RUNTIME)
        filesystem = LocalFilesystem()
        write_host_launchers(filesystem, self.layout, ["perdure", "other"])
        write_pm_launcher(filesystem, self.layout)
        self.point("default", GENERATION)
        self.speak(self.environment / "python")
        self.speak(self.runtime / "venv" / "bin" / "python")
        (self.runtime / "entry.py").write_text("", encoding="utf-8")
        self.layout.runtime_pointer.write_text(f"{RUNTIME}\n", encoding="ascii")
        (self.layout.seed(SEED) / "pm").mkdir(parents=True)
        (self.layout.seed(SEED) / "pm" / "bootstrap.py").write_text("", encoding="utf-8")
        self.layout.seed_pointer.write_text(f"{SEED}\n", encoding="ascii")

    def point(self, profile: str, text: str) -> None:
        self.layout.pointer(profile).parent.mkdir(parents=True, exist_ok=True)
        self.layout.pointer(profile).write_text(f"{text}\n", encoding="ascii")

    @staticmethod
    def speak(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SPEAKING, encoding="ascii")
        path.chmod(0o755)


@pytest.fixture
def speaking(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def start(command: Sequence[str | Path], *, path: str = "/nowhere", **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "PYTHONPATH": "/trap", "PYTHONHOME": "/trap", **more}
    return subprocess.run(
        [str(word) for word in command], env=environment, capture_output=True, text=True, check=False, timeout=20
    )


def said(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the words that a program was started with, its own name first."""
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split("\0")[:-1]


@pytest.mark.proves("launcher-any-shell")
@pytest.mark.parametrize("shell", SHELLS, ids=[words[0] for words in SHELLS])
@pytest.mark.parametrize("name", ["home", "ho me", "quote'\"", "new\nline", "end\n", "$x`y`", "-n", "[a]*?"])
def test_every_word_arrives_in_every_shell_from_every_home(tmp_path: Path, shell: list[str], name: str) -> None:
    """No program is needed on the PATH where no link is followed."""
    program = shutil.which(shell[0])
    assert program is not None
    home = Home(tmp_path / name)
    environment = home.environment
    launched = start([program, *shell[1:], home.layout.bin / "perdure", *HARD])
    assert said(launched) == [str(environment / "python"), "-I", str(environment / "perdure"), *HARD]
    launched = start([program, *shell[1:], home.layout.bin / "perdure-pm", *HARD])
    entry = home.runtime / "entry.py"
    assert said(launched) == [str(home.runtime / "venv" / "bin" / "python"), "-I", str(entry), *HARD]


@pytest.mark.proves("launcher-any-shell")
def test_a_launcher_is_found_through_links_and_from_anywhere(speaking: Home, tmp_path: Path) -> None:
    folder = tmp_path / "a b\n"
    folder.mkdir()
    absolute, relative, chain = folder / "absolute\n", folder / "relative", folder / "chain"
    absolute.symlink_to(speaking.layout.bin / "perdure")
    relative.symlink_to(os.path.relpath(speaking.layout.bin / "perdure", folder))
    chain.symlink_to("relative")
    linked_bin = tmp_path / "linked bin"
    linked_bin.symlink_to(speaking.layout.bin)
    tools = "/usr/bin:/bin"
    same_name = folder / "bin"
    same_name.symlink_to(speaking.layout.bin)
    for path in (absolute, relative, chain, linked_bin / "perdure", same_name / "perdure"):
        words = said(start([path, "x"], path=tools))
        assert os.path.realpath(words[0]) == str(speaking.environment / "python"), path
        assert words[1:2] + words[3:] == ["-I", "x"]
    found = start(["sh", "-c", "cd / && chain x"], path=f"{folder}:{tools}")
    assert said(found)[3:] == ["x"]
    beside = subprocess.run(
        ["sh", "perdure", "x"], cwd=speaking.layout.bin, capture_output=True, text=True, check=True, env={"PATH": tools}
    )
    assert said(beside)[3:] == ["x"]


@pytest.mark.proves("launcher-any-shell")
@pytest.mark.parametrize("command", ["perdure", "perdure-pm"])
@pytest.mark.parametrize("variable", ["__PYVENV_LAUNCHER__", "PYTHONEXECUTABLE"])
def test_no_variable_that_misleads_an_isolated_interpreter_reaches_it(
    speaking: Home, command: str, variable: str
) -> None:
    """Isolated or not, a venv's interpreter takes PYTHONEXECUTABLE for its own place, and loses its packages."""
    for python in (speaking.environment / "python", speaking.runtime / "venv" / "bin" / "python"):
        python.write_text(f'#!/bin/sh\nprintf %s "${{{variable}-unset}}"\n', encoding="ascii")
    assert start([speaking.layout.bin / command], **{variable: "/trap"}).stdout == "unset"


@pytest.mark.proves("launcher-refuses")
@pytest.mark.parametrize("command", ["perdure", "perdure-pm"])
def test_what_is_no_file_in_a_pointers_place_is_not_waited_for(speaking: Home, command: str) -> None:
    for pointer in (speaking.layout.pointer("default"), speaking.layout.runtime_pointer, speaking.layout.seed_pointer):
        pointer.unlink()
        os.mkfifo(pointer)
    assert start([speaking.layout.bin / command]).returncode == (8 if command == "perdure-pm" else 1)


@pytest.mark.proves("launcher-any-shell")
def test_a_loop_of_links_ends_by_itself(speaking: Home, tmp_path: Path) -> None:
    """The kernel refuses to start one; a shell that is given one must not turn for ever."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    assert start(["sh", first], path="/usr/bin:/bin").returncode != 0


@pytest.mark.proves("launcher-pm")
def test_perdure_pm_hands_over_without_touching_the_generation(speaking: Home) -> None:
    shutil.rmtree(speaking.layout.generations)
    words = said(start([speaking.layout.bin / "perdure", "pm", "status", "a b"]))
    assert words[0] == str(speaking.runtime / "venv" / "bin" / "python")
    assert words[3:] == ["status", "a b"]


@pytest.mark.proves("launcher-pm")
def test_pm_is_a_word_like_any_other_to_another_command(speaking: Home) -> None:
    words = said(start([speaking.layout.bin / "other", "pm", "status"]))
    assert words == [
        str(speaking.environment / "python"),
        "-I",
        str(speaking.environment / "other"),
        "pm",
        "status",
    ]


@pytest.mark.proves("launcher-refuses")
@pytest.mark.parametrize("pointer", [None, "", "../../../tmp", "7-0123/x", "$(touch x)", "A", "7 8"])
def test_without_a_pointer_nothing_is_started_and_a_person_is_told(speaking: Home, pointer: str | None) -> None:
    """Case 51: no fallback to what PYTHONPATH or the PATH would give."""
    if pointer is None:
        speaking.layout.pointer("default").unlink()
    else:
        speaking.point("default", pointer)
    ended = start([speaking.layout.bin / "perdure", "doctor"], path=os.environ["PATH"])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error: nothing is installed in this home (profile default)\n"
        f'  try: "{speaking.layout.home}/bin/perdure-pm" install\n'
    )


@pytest.mark.proves("launcher-refuses")
@pytest.mark.parametrize("profile", ["../../x", ".", "..", "a/b", "a b", "nothing"])
def test_a_profile_that_is_none_starts_nothing(speaking: Home, profile: str) -> None:
    ended = start([speaking.layout.bin / "perdure"], PERDURE_PROFILE=profile)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"(profile {profile})" in ended.stderr


@pytest.mark.proves("launcher-refuses")
def test_another_profile_starts_its_own_generation(speaking: Home) -> None:
    speaking.point("work", "8-ba9876543210")
    other = speaking.layout.generation("8-ba9876543210") / "venv" / "bin" / "python"
    speaking.speak(other)
    assert said(start([speaking.layout.bin / "perdure"], PERDURE_PROFILE="work"))[0] == str(other)


@pytest.mark.proves("launcher-refuses")
def test_a_pointer_without_a_newline_counts_too(speaking: Home) -> None:
    speaking.layout.pointer("default").write_text(GENERATION, encoding="ascii")
    assert said(start([speaking.layout.bin / "perdure"]))[0] == str(speaking.environment / "python")


@pytest.mark.proves("launcher-refuses")
def test_an_interpreter_that_is_gone_is_told_with_a_way_out(speaking: Home) -> None:
    """Case 74."""
    python = speaking.environment / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    ended = start([speaking.layout.bin / "perdure"])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"error: generation {GENERATION} cannot start: its interpreter is gone\n"
        f'  try: "{speaking.layout.home}/bin/perdure-pm" install\n'
    )


# PM's own launcher


@pytest.mark.proves("launcher-rescues")
@pytest.mark.parametrize("broken", ["pointer", "strange pointer", "interpreter", "entry", "runtime"])
def test_a_runtime_that_cannot_start_is_left_to_the_seed(speaking: Home, tmp_path: Path, broken: str) -> None:
    if broken == "pointer":
        speaking.layout.runtime_pointer.unlink()
    elif broken == "strange pointer":
        speaking.layout.runtime_pointer.write_text("../../x\n", encoding="ascii")
    elif broken == "interpreter":
        (speaking.runtime / "venv" / "bin" / "python").unlink()
    elif broken == "entry":
        (speaking.runtime / "entry.py").unlink()
    else:
        shutil.rmtree(speaking.runtime)
    python = tmp_path / "bin" / "python3"
    speaking.speak(python)
    words = said(start([speaking.layout.bin / "perdure-pm", "run", "--", *HARD], path=str(python.parent)))
    home = str(speaking.layout.home)
    bootstrap = f"{home}/pm/seed/{SEED}/pm/bootstrap.py"
    assert words == [str(python), "-I", bootstrap, "--home", home, "rescue", "run", "--", *HARD]


@pytest.mark.proves("launcher-rescues")
def test_the_homes_own_python_comes_first_and_one_that_is_too_old_is_passed_over(
    speaking: Home, tmp_path: Path
) -> None:
    shutil.rmtree(speaking.runtime)
    old, good = tmp_path / "bin" / "python3", tmp_path / "bin" / "python3.12"
    speaking.speak(good)
    old.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    old.chmod(0o755)
    assert said(start([speaking.layout.bin / "perdure-pm"], path=str(old.parent)))[0] == str(good)
    own = speaking.layout.interpreters / "cpython-3.13.0" / "bin" / "python3"
    speaking.speak(own)
    assert said(start([speaking.layout.bin / "perdure-pm"], path=str(old.parent)))[0] == str(own)


@pytest.mark.proves("launcher-rescues")
@pytest.mark.parametrize("lost", ["pointer", "folder"])
def test_without_a_seed_a_person_is_told(speaking: Home, lost: str) -> None:
    shutil.rmtree(speaking.runtime)
    if lost == "pointer":
        speaking.layout.seed_pointer.unlink()
    else:
        shutil.rmtree(speaking.layout.seed(SEED))
    ended = start([speaking.layout.bin / "perdure-pm", "status"], path=os.environ["PATH"])
    assert (ended.returncode, ended.stdout) == (8, "")
    assert ended.stderr == (
        "error: PM's runtime and the seed that rebuilds it are gone from this home\n"
        f'  try: python3 pm/bootstrap.py --home "{speaking.layout.home}" up   (in a checkout of Perdure)\n'
    )


@pytest.mark.proves("launcher-json")
@pytest.mark.parametrize("shell", SHELLS, ids=[words[0] for words in SHELLS])
@pytest.mark.parametrize("name", ["home", 'qu"ote\\', "ä ☃", "new\nline\t"])
def test_a_refusal_of_the_launcher_is_json_where_json_was_asked_for(
    tmp_path: Path, shell: list[str], name: str
) -> None:
    home = Home(tmp_path / name)
    shutil.rmtree(home.runtime)
    program = str(shutil.which(shell[0]))
    launcher = home.layout.bin / "perdure-pm"
    nowhere = start([program, *shell[1:], launcher, "status", "--json"])
    if not Path("/usr/bin/python3").exists() and not Path("/usr/local/bin/python3").exists():
        assert envelope(nowhere, 1)["code"] == "interpreter-missing"
    shutil.rmtree(home.layout.seeds)
    for words, variables in ((["status", "--json"], {}), (["status"], {"PERDURE_JSON": "True"})):
        error = envelope(start([program, *shell[1:], launcher, *words], **variables), 8)
        assert (error["code"], error["state"], error["retry"]) == ("integrity", "needs-recovery", "after-change")
        shown = re.sub(r"[\x00-\x1f]", "\ufffd", str(home.layout.home))
        assert error["hint"] == f'python3 pm/bootstrap.py --home "{shown}" up   (in a checkout of Perdure)'
    said = start([program, *shell[1:], launcher, "run", "--", "--json"])
    assert (said.returncode, said.stdout, said.stderr[:7]) == (8, "", "error: ")


def envelope(ended: subprocess.CompletedProcess[str], code: int) -> dict[str, str]:
    """Return the one error of an answer in JSON."""
    assert (ended.returncode, ended.stderr) == (code, ""), ended
    answer = json.loads(ended.stdout)
    assert (answer["schema"], answer["status"], answer["exit_code"]) == (1, "failed", code)
    error: dict[str, str]
    (error,) = answer["errors"]
    return error


# Writing them


def test_an_unchanged_launcher_keeps_its_inode(speaking: Home) -> None:
    path = speaking.layout.bin / "perdure"
    before = path.stat()
    write_host_launchers(LocalFilesystem(), speaking.layout, ["perdure"])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.proves("launcher-written-inside")
def test_a_link_in_a_launchers_place_is_replaced_and_not_followed(speaking: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="utf-8")
    path = speaking.layout.bin / "perdure"
    path.unlink()
    path.symlink_to(outside)
    write_host_launchers(LocalFilesystem(), speaking.layout, ["perdure"])
    assert outside.read_text(encoding="utf-8") == "mine"
    assert not path.is_symlink()
    assert os.access(path, os.X_OK)


@pytest.mark.proves("launcher-written-inside")
@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-x", "a b", "a\nb", "a;b", "$x", "ä"])
def test_a_name_that_is_no_command_is_refused(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path / "home")
    with pytest.raises(UsageFault):
        write_host_launchers(LocalFilesystem(), layout, [name])
    with pytest.raises(UsageFault):
        write_command_launcher(LocalFilesystem(), layout, name, "store/x")
    assert not layout.home.exists()


@pytest.mark.proves("launcher-written-inside")
def test_a_package_of_a_host_is_started_from_the_store(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "ho me")
    write_command_launcher(LocalFilesystem(), layout, "tool", "store/packages/tool-1.0/bin/tool")
    Home.speak(layout.packages / "tool-1.0" / "bin" / "tool")
    assert said(start([layout.bin / "tool", *HARD])) == [f"{layout.home}/store/packages/tool-1.0/bin/tool", *HARD]
    with pytest.raises(UsageFault):
        write_command_launcher(LocalFilesystem(), layout, "tool", 'store/"; rm -rf "')


TEMPLATES = Path(launchers.__file__).parent.parent / "launcher"
FILLED = {"@COMMAND@": "perdure", "@ENVIRONMENT@\r\n": 'set "NAME=a value"\r\n', "@TARGET@": "store/packages/x/x"}


@pytest.mark.parametrize(
    "template", sorted(path.name for path in TEMPLATES.glob("*.*") if path.suffix in {".sh", ".cmd"})
)
def test_every_placeholder_is_one_that_gets_filled(template: str) -> None:
    text = (TEMPLATES / template).read_text(encoding="ascii")
    whose = {
        "@COMMAND@": {"host", "handover", "external"},
        "@ENVIRONMENT@": {"host"},
        "@PROTECT@": {"host"},
        "@POLICY@": {"protect"},
        "@TARGET@": {"command", "activate"},
        "@PYTHON@": {"activate"},
    }
    expected = {name for name, kinds in whose.items() if template.partition(".")[0] in kinds}
    assert set(re.findall(r"@[A-Z]+@", text)) == expected


@pytest.mark.parametrize("kind", ["host", "pm", "command"])
def test_a_launcher_for_windows_is_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated and reviewed, not tried: what can be checked without Windows is checked here."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        text = launchers._template(kind).replace("@PROTECT@\r\n", launchers._protection("require"))
    for placeholder, value in FILLED.items():
        text = text.replace(placeholder, value)
    assert "@" not in text.replace("@echo off", "")
    assert text.isascii()
    lines = text.split("\r\n")
    assert lines.pop() == ""
    assert not any("\n" in line or "\r" in line for line in lines)
    labels = {line[1:] for line in lines if line.startswith(":")}
    assert {found for line in lines for found in re.findall(r"goto (\w+)", line)} <= labels
    assert lines[0] == "@echo off"
    assert "not yet tried on Windows" in lines[1]
    assert lines[-1].startswith("exit /b")
    assert text.count("(") == text.count(")")
    assert all(line.count('"') % 2 == 0 for line in lines if not line.startswith("rem"))
    assert ("set " in text) == ("setlocal DisableDelayedExpansion" in text), (
        "an exclamation mark in a path is no command"
    )


@pytest.mark.parametrize("kind", ["host", "pm", "command"])
def test_a_launcher_for_a_shell_is_plain_posix(kind: str) -> None:
    text = launchers._template(kind).replace("@COMMAND@", "x").replace("@TARGET@", "x")
    assert text.startswith("#!/bin/sh\n")
    code = [line.strip() for line in text.splitlines() if not line.strip().startswith("#")]
    for word in ("[[", "local ", "function ", "source ", "${BASH", "pipefail", "<<<", "&>", "echo -", "==", "type "):
        assert not any(word in line for line in code), word
    for shell in SHELLS:
        subprocess.run([*shell, "-n", "/dev/stdin"], input=text, text=True, check=True, capture_output=True)


@pytest.mark.proves("cli-exit-codes")
@pytest.mark.parametrize("where", ["import", "prepare"])
def test_an_interrupt_before_the_command_line_is_there_is_one_line(tmp_path: Path, where: str) -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    (tmp_path / "files.json").write_text('{"files": {}}', encoding="ascii")
    (tmp_path / "record.json").write_text(f'{{"inputs": {{"python": {{"version": "{version}"}}}}}}', encoding="ascii")
    entry = Path(shutil.copy(Path(perdure_pm.__file__).parent / "launcher" / "entry.py", tmp_path / "entry.py"))
    cli = tmp_path / "perdure_pm" / "cli"
    cli.mkdir(parents=True)
    (cli.parent / "__init__.py").write_text("", encoding="ascii")
    text = "def main(): ...\ndef prepare(home): raise KeyboardInterrupt\n"
    (cli / "__init__.py").write_text(text if where == "prepare" else "raise KeyboardInterrupt\n", encoding="ascii")
    ended = subprocess.run([sys.executable, entry], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "error: interrupted\n  state: unchanged\n"
    ended = subprocess.run([sys.executable, entry, "--json"], capture_output=True, text=True, check=False)
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.returncode, ended.stderr, error["code"]) == (130, "", "cancelled")


@pytest.mark.parametrize("policy", ["require", "prefer"])
def test_a_launcher_says_whether_it_protects_and_one_that_was_changed_is_told(home: Path, policy: str) -> None:
    layout, filesystem = Layout(home), LocalFilesystem()
    write_pm_launcher(filesystem, layout)
    write_host_launchers(filesystem, layout, ["perdure"], {"protect": "off", "A": "# host.protect: off"}, policy)
    assert read_protection(layout, "perdure") == policy
    assert launchers.find_launcher_faults(layout, ["perdure"]) == []
    path = layout.bin / "perdure"
    for shell in SHELLS:
        subprocess.run([*shell, "-n", path], check=True, capture_output=True)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"$environment/bin/python" -I "$@"', "true"), encoding="utf-8")
    assert launchers.find_launcher_faults(layout, ["perdure"]) == [f"the launcher {path} is not what PM writes"]
    write_host_launchers(filesystem, layout, ["perdure"])
    assert [read_protection(layout, command) for command in ("perdure", "absent")] == ["off", "off"]


def test_a_launcher_for_windows_refuses_what_it_cannot_protect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    refusing, saying = launchers._protection("require"), launchers._protection("prefer")
    assert refusing.endswith("exit /b 1\r\n")
    assert "echo error: " in refusing
    assert "exit" not in saying
    assert "echo notice: " in saying

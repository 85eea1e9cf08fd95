"""PM's own runtime: selected again without a write, built beside when something changed, rebuilt when it is damaged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, differences, execute, fingerprint, interpreters
from tests.system.mirror import Mirror

SELECTION = ("pm/current", "profiles/default/current", "profiles/default/history.jsonl")
AUDIT = """
import os, sys
banned = "yaml ruamel packaging click rich perdure perdure_compat tomllib pip venv ensurepip".split()
def refuse(event, arguments):
    if event == "import" and arguments[0].split(".")[0] in banned:
        os.write(2, ("IMPORTED " + arguments[0] + chr(10)).encode())
        os._exit(99)
sys.addaudithook(refuse)
sys.argv = sys.argv[1:]
import runpy
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def damage(path: Path, *, to: bytes | None) -> None:
    """Replace a read-only file's bytes in place, as a careless tool would; `None` deletes it."""
    path.parent.chmod(0o755)
    if to is None:
        path.unlink()
    else:
        path.chmod(0o644)
        path.write_bytes(to)


def module(installation: Installation, name: str) -> Path:
    """Return a file in the runtime's site-packages."""
    (found,) = installation.runtime_path.glob(f"venv/lib/python3.*/site-packages/{name}")
    return found


@pytest.fixture
def without_checkout(own: Installation, tmp_path: Path) -> Installation:
    """The home, whose checkout is gone and whose caches are all there is to build from."""
    config = own.home / "config.yaml"
    config.write_text(
        config.read_text(encoding="utf-8").replace(str(own.checkout), str(tmp_path / "gone")), encoding="utf-8"
    )
    own.pm("install").succeeded()  # takes the policy over from the changed configuration
    return own.with_environment(PERDURE_OFFLINE="1")


@pytest.mark.proves("runtime-bare-parent")
def test_the_parent_imports_nothing_but_the_standard_library(own: Installation, warm_home: Path) -> None:
    """Case 1: every import of the process that a person starts is watched, for a first build and for none."""
    there = replace(own, home=warm_home)
    words = ["--home", str(warm_home), "up", "--offline"]
    command: list[str | Path] = [own.python, "-I", "-S", "-c", AUDIT, own.checkout / "pm" / "bootstrap.py"]
    command += words
    for _turn in ("builds", "finds"):
        there.run(command).succeeded()
    there.perdure("--version").succeeded()


@pytest.mark.proves("runtime-beside")
def test_another_interpreter_that_is_asked_for_gives_a_new_runtime_beside_the_old_one(own: Installation) -> None:
    """Case 3: workers that run from the old one still can."""
    other = second_python(own)
    old, running = own.runtime, own.runtime_path
    with still_running(running) as process:
        own.up("--offline", "--python", other).succeeded()
        assert own.runtime != old
        assert process.poll() is None
        assert set(own.runtimes) == {old, own.runtime}
        own.run([running / "venv" / "bin" / "python", "-I", running / "entry.py", "--version"]).succeeded()
    record = json.loads((own.runtime_path / "record.json").read_bytes())
    assert record["inputs"]["python"]["path"] == os.path.realpath(other)
    recorded = json.loads((own.generation_path / "record.json").read_bytes())["interpreter"]
    assert recorded["path"] == os.path.realpath(other), "the app follows"
    before = {name: (own.home / name).read_bytes() for name in SELECTION}
    own.up("--offline").succeeded()  # nothing asked for: what is there is as good as any
    assert before == {name: (own.home / name).read_bytes() for name in SELECTION}


def second_python(installation: Installation) -> Path:
    """Return another usable interpreter of this machine, or skip."""
    found = [path for path in interpreters((3, 11), (3, 14)) if path != installation.python]
    if not found:
        pytest.skip("no second Python of at least 3.11 on this machine")
    return found[0]


class still_running:  # noqa: N801 - reads as a sentence in a with statement
    """A process that was started from a runtime and sleeps until the block ends."""

    def __init__(self, runtime: Path) -> None:
        self.command = [str(runtime / "venv" / "bin" / "python"), "-I", "-c", "import click, sys; sys.stdin.read()"]

    def __enter__(self) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE)
        return self.process

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0


@pytest.mark.proves("runtime-beside")
def test_a_changed_lock_gives_a_new_runtime_and_leaves_the_generation(own: Installation, own_checkout: Path) -> None:
    """Case 3; the app's lock is another file, so the generation stays."""
    lock = own_checkout / "pm" / "uv.lock"
    lock.write_text(lock.read_text(encoding="utf-8") + "\n# a new lock\n", encoding="utf-8")
    old = own.runtime
    before = fingerprint(own.generation_path)
    replace(own, checkout=own_checkout).up("--offline").succeeded()
    assert own.runtime != old
    assert set(own.runtimes) == {old, own.runtime}
    assert differences(before, fingerprint(own.generation_path)) == []
    assert own.receipts()[-1]["status"] == "noop"


@pytest.mark.proves("runtime-beside")
def test_a_changed_module_of_the_same_version_gives_a_new_runtime(own: Installation, own_checkout: Path) -> None:
    source = own_checkout / "pm" / "perdure_pm" / "__init__.py"
    source.write_text(source.read_text(encoding="utf-8") + "\nCHANGED = True\n", encoding="utf-8")
    replace(own, checkout=own_checkout).up("--offline").succeeded()
    assert "CHANGED" in module(own, "perdure_pm/__init__.py").read_text(encoding="utf-8")


@pytest.mark.proves("runtime-rescued")
@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("perdure_pm/worker.py", None),
        pytest.param("click/core.py", None, marks=pytest.mark.slow),
        ("perdure_pm/cli/entry.py", b""),
    ],
    ids=["own module gone", "package's module gone", "truncated"],
)
def test_a_damaged_runtime_is_rebuilt_by_the_launcher_from_its_seed(
    without_checkout: Installation, name: str, to: bytes | None
) -> None:
    """Case 4: with the checkout gone and no network; the generation is untouched."""
    home, old = without_checkout, without_checkout.runtime
    path = module(home, name)
    before = fingerprint(home.generation_path)
    good = path.read_bytes()
    damage(path, to=to)
    answer = home.pm("status", "--json").succeeded()
    assert answer.json["data"]["generation"]["id"] == home.generation
    assert home.runtime != old
    assert module(home, name).read_bytes() == good
    assert differences(before, fingerprint(home.generation_path)) == []
    assert "rebuilt" in answer.err
    assert home.pm("status", "--json").succeeded().err == "", "the second time there is nothing to do"


@pytest.mark.proves("runtime-rescued")
def test_damage_of_the_same_size_that_reached_the_cache_is_healed_too(
    own: Installation, mirror: Callable[..., Mirror]
) -> None:
    """Case 72 for PM itself: the file shares its bytes with the cache, from which they must not come back."""
    path = module(own, "click/core.py")
    good, old = path.read_bytes(), own.runtime
    damage(path, to=b"!" * len(good))  # changes the time too, so the byte code beside it does not answer for it
    answer = own.with_environment(PERDURE_INDEX_URL=mirror().url).pm("status", "--json").succeeded()
    assert "cannot be imported" in answer.err
    assert own.runtime != old
    assert module(own, "click/core.py").read_bytes() == good


@pytest.mark.proves("runtime-rescued")
@pytest.mark.parametrize(
    "lost",
    [
        "venv",
        "record.json",
        "../../current",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("venv/bin/python", "entry.py", "files.json", ".")),
    ],
)
def test_a_runtime_that_cannot_start_is_rebuilt_by_the_launcher(without_checkout: Installation, lost: str) -> None:
    home = without_checkout
    path = Path(os.path.normpath(home.runtime_path / lost))
    path.parent.chmod(0o755)
    LocalFilesystem().remove_tree(path)
    home.pm("status", "--json").succeeded()
    home.pm("install", "--json").succeeded()


@pytest.mark.proves("runtime-rescued")
def test_the_base_interpreter_of_pm_goes_and_another_rescues_it(
    own: Installation, warm_home: Path, tmp_path: Path
) -> None:
    """Cases 74 and 86: the Python of PM and app is gone; the launcher finds another, and install repairs the app."""
    base = copied_python(own, tmp_path / "python")
    there = replace(own, home=warm_home).with_environment(PERDURE_OFFLINE="1")
    there.up("--python", base).succeeded()
    assert str(base) in (there.runtime_path / "record.json").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "python")
    broken = there.perdure("--version")
    assert broken.code == 1
    assert "its interpreter is gone" in broken.err
    hint = broken.err.splitlines()[-1].partition("try: ")[2]
    with_python = there.with_environment(PATH=f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}")
    with_python.run(["sh", "-c", hint]).succeeded()
    there.perdure("--version").succeeded()
    assert there.pm("status", "--json").succeeded().json["data"]["findings"] == []


def copied_python(installation: Installation, target: Path) -> Path:
    """Return the interpreter of a copy of the base installation, without its packages and tests."""
    skip = shutil.ignore_patterns("__pycache__", "site-packages", "test", "tests", "*.a", "idlelib", "share", "include")
    shutil.copytree(sys.base_prefix, target, symlinks=True, ignore=skip)
    python = target / "bin" / Path(os.path.realpath(installation.python)).name
    asked = execute([python, "-I", "-c", "import ssl, sys; print(sys.prefix)"])
    if asked.code != 0 or asked.out.strip() != str(target):
        pytest.skip("this Python does not run from a copy")
    return python


@pytest.mark.proves("runtime-kill")
@pytest.mark.parametrize(
    "after", [1.0, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (0.1, 0.3, 0.6, 1.5, 2.0, 3.0))]
)
def test_a_killed_build_leaves_the_old_runtime_and_its_remains_go_with_the_next(
    own: Installation, own_checkout: Path, after: float
) -> None:
    """Case 5."""
    source = own_checkout / "pm" / "perdure_pm" / "__init__.py"
    source.write_text(source.read_text(encoding="utf-8") + "\nNEWER = True\n", encoding="utf-8")
    there = replace(own, checkout=own_checkout).with_environment(PERDURE_OFFLINE="1")
    old = own.runtime
    process = subprocess.Popen(
        [*map(str, there.bootstrap_command()), "up"],
        env=dict(there.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    folder = own.home / "pm" / "runtimes"
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) == 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert own.runtime == old or (own.runtime_path / "record.json").is_file()
    own.pm("status", "--json").succeeded()
    there.up().succeeded()
    assert own.runtime != old
    unsealed = [path.name for path in folder.iterdir() if not (path / "record.json").is_file()]
    assert unsealed == []
    assert list((own.home / "cache" / "tmp").iterdir()) == []


@pytest.mark.proves("runtime-uv-checked")
@pytest.mark.parametrize("damage_to", ["truncated", pytest.param("changed", marks=pytest.mark.slow)])
def test_a_damaged_uv_is_named_never_run_and_fetched_again(
    own: Installation, mirror: Callable[..., Mirror], damage_to: str
) -> None:
    """Case 93: its hash stands in PM's own lock."""
    there = own.with_environment(PERDURE_INDEX_URL=mirror().url)
    (uv,) = (own.home / "tools" / "uv").glob("*/uv")
    good = uv.read_bytes()
    trap = own.home.with_name("trap")
    script = f"#!/bin/sh\ntouch '{trap}'\n".encode()
    uv.unlink()  # a file of its own: it is linked from the session's home
    uv.write_bytes(good[:4096] if damage_to == "truncated" else script.ljust(len(good), b"#"))
    uv.chmod(0o755)
    words = ("doctor",) if damage_to == "truncated" else ("doctor", "--deep")
    problems = there.pm(*words, "--json").json["data"]["problems"]
    assert [problem["code"] for problem in problems] == ["uv-damaged"]
    there.pm("repair").succeeded()
    assert uv.read_bytes() == good
    assert not trap.exists()
    there.pm("doctor", "--deep").succeeded()


# Lazy installs


@pytest.fixture
def lazy_off(own: Installation) -> Installation:
    own.pm("config", "set", "install.lazy", "false").succeeded()
    return own.with_environment(PERDURE_OFFLINE="1")


@pytest.mark.proves("runtime-lazy-off")
@pytest.mark.parametrize("how", ["config", "variable", "flag", "hand edit", "broken yaml"])
def test_lazy_off_refuses_a_rescue_before_anything_is_fetched(own: Installation, how: str) -> None:
    """Cases 12 and 14: exactly one failed receipt, exit 10, nothing downloaded, nothing else changed."""
    words: tuple[str, ...] = ("status", "--json")
    there = own
    config = own.home / "config.yaml"
    if how == "config":
        own.pm("config", "set", "install.lazy", "false").succeeded()
    elif how == "variable":
        there = own.with_environment(PERDURE_NO_LAZY="1")
    elif how == "flag":
        words = (*words, "--no-lazy")
    elif how == "hand edit":
        config.write_text(config.read_text(encoding="utf-8") + "install:\n  lazy: false\n", encoding="utf-8")
    else:
        config.write_text("install: [\n", encoding="utf-8")
    LocalFilesystem().remove_tree(own.runtime_path / "venv")
    LocalFilesystem().remove_tree(own.home / "tools")
    before, receipts = fingerprint(own.home, without=("receipts",)), len(own.receipts())
    answer = there.pm(*words)
    assert answer.code == 10
    assert answer.json["status"] == "refused"
    assert answer.error["code"] == "lazy-install-refused"
    assert differences(before, fingerprint(own.home, without=("receipts",))) == []
    (receipt,) = own.receipts()[receipts:]
    assert (receipt["operation"], receipt["status"]) == ("rescue", "refused")
    assert receipt["error"]["code"] == "lazy-install-refused"


@pytest.mark.proves("runtime-lazy-off")
@pytest.mark.parametrize(
    "words",
    [
        ("self", "rebuild"),
        pytest.param(("install",), marks=pytest.mark.slow),
        ("--profile", "default", "install", "--json"),
    ],
)
def test_what_a_person_asks_for_in_so_many_words_is_not_lazy(lazy_off: Installation, words: tuple[str, ...]) -> None:
    """Case 12, the other half: the refusal's own hint is one of these."""
    LocalFilesystem().remove_tree(lazy_off.runtime_path / "venv")
    refused = lazy_off.pm("status")
    assert refused.code == 10
    assert refused.err.splitlines()[-1].strip() == f'try: "{lazy_off.home / "bin" / "perdure-pm"}" self rebuild'
    lazy_off.pm(*words).succeeded()
    lazy_off.pm("status").succeeded()


@pytest.mark.proves("runtime-lazy-off")
def test_lazy_off_and_a_ready_installation_is_no_hindrance(lazy_off: Installation) -> None:
    """Case 13."""
    before = fingerprint(lazy_off.home, without=("receipts", "mutex"))
    answer = lazy_off.pm("install", "--json").succeeded()
    assert answer.json["status"] == "noop"
    assert differences(before, fingerprint(lazy_off.home, without=("receipts", "mutex"))) == []


@pytest.mark.proves("runtime-rescued")
def test_what_cannot_be_rescued_is_told_once_and_not_tried_for_ever(without_checkout: Installation) -> None:
    """The seed is gone too, or damaged itself: one message, a hint, no loop."""
    home = without_checkout
    damage(module(home, "perdure_pm/worker.py"), to=None)
    seed = home.home / "pm" / "seed" / (home.home / "pm" / "seed" / "current").read_text(encoding="ascii").strip()
    damage(seed / "pm" / "perdure_pm" / "wire.py", to=b"VERSION = 0\n")
    answer = home.pm("status", limit=60)
    assert (answer.code, answer.err.count("error:")) == (8, 1), answer.err
    assert "seed" in answer.err
    assert "bootstrap.py" in answer.err.splitlines()[-1]
    LocalFilesystem().remove_tree(home.home / "pm" / "seed")
    answer = home.pm("status", limit=60)
    assert (answer.code, answer.err.count("error:")) == (8, 1), answer.err
    LocalFilesystem().remove_tree(home.home / "pm" / "runtimes")
    answer = home.pm("status", limit=60)
    assert (answer.code, answer.err.count("error:")) == (8, 1), answer.err
    home.up().succeeded()  # what the hint says, in a checkout
    home.pm("status").succeeded()


@pytest.mark.proves("runtime-three-attempts")
def test_after_three_rebuilds_that_failed_a_person_has_to_ask_for_one(without_checkout: Installation) -> None:
    """Case 77: no automatic retry, one instruction, and what it says works."""
    home = without_checkout.with_environment(PERDURE_OFFLINE="1")
    damage(module(home, "perdure_pm/worker.py"), to=None)
    cache = home.home / "cache"
    cache.rename(home.home / "away")
    for _ in range(3):
        failed = home.pm("status", "--json")
        assert failed.error["code"] == "artefact-missing"
    exhausted = home.pm("status", "--json")
    assert (exhausted.code, exhausted.error["code"]) == (8, "rescues-exhausted")
    hint = exhausted.error["hint"]
    assert home.run(["sh", "-c", f"{hint} --json"]).json["errors"][0]["code"] == "artefact-missing"
    LocalFilesystem().remove_tree(cache)
    (home.home / "away").rename(cache)
    assert home.pm("status", "--json").error["code"] == "rescues-exhausted"
    home.run(["sh", "-c", hint]).succeeded()
    assert not (home.home / "pm" / "rescues").exists()
    home.pm("status").succeeded()


@pytest.mark.proves("runtime-rescued")
def test_a_runtime_that_was_rescued_is_rescued_again_from_a_process_that_it_started(
    without_checkout: Installation, tmp_path: Path
) -> None:
    """The guard against loops holds for one start only: it is not handed down to what a host's command starts."""
    home = without_checkout
    damage(module(home, "perdure_pm/worker.py"), to=None)
    script = tmp_path / "inner.sh"
    script.write_text(
        f'#!/bin/sh\nset -e\nchmod -R u+w "$1"\nrm "$1"/venv/lib/python3*/site-packages/click/core.py\n'
        f'exec "{home.home / "bin" / "perdure-pm"}" status\n',
        encoding="utf-8",
    )
    home.pm("run", "--", "sh", script, f"{home.home}/pm/runtimes/{home.runtime}").succeeded()


@pytest.mark.proves("runtime-rescued")
def test_self_rebuild_gives_a_fresh_runtime_beside_the_old_one(without_checkout: Installation) -> None:
    old = without_checkout.runtime
    answer = without_checkout.pm("self", "rebuild", "--json").succeeded()
    assert answer.json["data"]["from"] == old
    assert without_checkout.runtime == answer.json["data"]["runtime"] != old
    assert set(without_checkout.runtimes) == {old, without_checkout.runtime}
    assert without_checkout.receipts()[-1]["operation"] == "self-rebuild"


@pytest.mark.proves("runtime-beside")
def test_a_currency_probe_makes_nothing(installed: Installation, new_home: Path) -> None:
    """Case 15: looking at a home that does not exist makes no directory."""
    from perdure_pm.ops.runtime import is_current
    from perdure_pm.ops.runtime_build import find_usable_runtime
    from perdure_pm.store.layout import Layout

    assert not is_current(Layout(new_home))
    assert find_usable_runtime(Layout(new_home), source=installed.checkout) is None
    assert not new_home.exists()
    before = fingerprint(installed.home)
    assert is_current(Layout(installed.home))
    assert differences(before, fingerprint(installed.home)) == []

"""What a plugin in this process is refused at protected roots, whichever way it goes there, and what it is not."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import own_writers
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

PROBER = """
import os, pathlib, shutil, sys, tempfile
from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolResult

plugin = sys.modules[__name__]

def attempt(call):
    said = []
    for line in call.arguments["lines"]:
        try:
            exec(line, dict(globals(), **call.arguments["names"]))
        except BaseException as error:
            said.append([type(error).__name__, str(error)])
        else:
            said.append(["done", ""])
    return ToolResult(text="", data=said)

@hookimpl
def tools():
    return [Tool(name="prober.attempt", summary="Try.", parameters={"type": "object"}, run=attempt)]
"""


@pytest.fixture
def attempt(generation: Generation, tmp_path: Path) -> Callable[..., list[list[str]]]:
    """Runs lines of a plugin and returns what each came to: `done`, or the exception's name and its text."""
    generation.boot(generation.plugin("prober", PROBER))
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("other")
    (other / "link").symlink_to(generation.python)
    places = {"venv": generation.venv, "other": other, "home": generation.home, "site": generation.site}
    names = {name: str(path) for name, path in places.items()}

    def run(*lines: str, **environment: str) -> list[list[str]]:
        arguments = json.dumps({"lines": lines, "names": names})
        done = generation.run("run", "--json", "prober.attempt", "--json-args", arguments, environment=environment)
        said: list[list[str]] = envelope_of(done)["data"]["data"]
        return said

    return run


HARMS = [
    "os.remove(venv + '/pyvenv.cfg')",
    "os.unlink(venv.encode() + b'/pyvenv.cfg')",
    "pathlib.Path(venv, 'bin/python').unlink()",
    "os.rmdir(site)",
    "os.rename(venv + '/pyvenv.cfg', other + '/stolen')",
    "os.replace(other + '/file', venv + '/bin/python')",
    "os.rename(venv, other + '/venv')",
    "os.rename(os.path.dirname(venv), other + '/generation')",
    "os.rename(home, other + '/home')",
    "os.truncate(venv + '/pyvenv.cfg', 0)",
    "os.link(other + '/file', venv + '/new')",
    "os.link(venv + '/pyvenv.cfg', other + '/alias')",
    "os.symlink('/nowhere', site + '/new')",
    "os.chmod(venv + '/pyvenv.cfg', 0)",
    "os.chmod(other + '/link', 0o755)",
    "os.chown(venv + '/pyvenv.cfg', -1, -1)",
    "open(venv + '/pyvenv.cfg', 'w')",
    "open(venv + '/pyvenv.cfg', 'r+b')",
    "open(pathlib.Path(site, 'new.pth'), 'a')",
    "open(other + '/../' + os.path.relpath(venv, os.path.dirname(other)) + '/pyvenv.cfg', 'x')",
    "os.open(venv + '/pyvenv.cfg', os.O_RDONLY | os.O_TRUNC)",
    "os.open(other + '/link', os.O_WRONLY)",
    "os.chdir(venv); open('pyvenv.cfg', 'w')",
    "os.remove('pyvenv.cfg', dir_fd=os.open(venv, os.O_RDONLY))",
    "os.open('pyvenv.cfg', os.O_WRONLY, dir_fd=os.open(venv, os.O_RDONLY))",
    "os.fchmod(os.open(venv + '/pyvenv.cfg', os.O_RDONLY), 0)",
    "shutil.rmtree(venv)",
    "shutil.rmtree(home)",
    "shutil.move(venv, other)",
    "shutil.copy(other + '/file', site + '/file.py')",
    "tempfile.NamedTemporaryFile(dir=site)",
    "open(home + '/profiles/default/app.yaml', 'w')",
    "open(home + '/state/approvals.db', 'w')",
    "open(home + '/bin/perdure', 'w')",
    "os.mkdir(home + '/profiles/default/app.yaml')",
    "os.makedirs(site + '/new/below')",
    "os.mkdir('new', dir_fd=os.open(site, os.O_RDONLY))",
    *(["os.setxattr(venv + '/pyvenv.cfg', 'user.x', b'1')"] if sys.platform == "linux" else []),
]


@pytest.mark.proves("audit-roots-refused")
def test_every_way_to_harm_a_root_is_refused_and_nothing_is_harmed(
    generation: Generation, attempt: Callable[..., list[list[str]]]
) -> None:
    for folder in ("profiles/default", "state", "bin"):
        (generation.home / folder).mkdir(parents=True)
    before = {path: path.lstat() for path in sorted(generation.home.rglob("*")) if "crashes" not in path.parts}
    for line, (kind, text) in zip(HARMS, attempt(*HARMS), strict=True):
        assert kind == "ProtectedPath", (line, kind, text)
        assert text.startswith("plugin prober may not "), (line, text)
    after = {path: path.lstat() for path in before}
    files = [path for path in before if path.is_file()]
    assert {path: after[path].st_ino for path in before} == {path: seen.st_ino for path, seen in before.items()}
    assert [after[path].st_mtime_ns for path in files] == [before[path].st_mtime_ns for path in files]


@pytest.mark.proves("audit-roots-refused", "app-hints-run")
def test_the_refusal_names_plugin_path_root_and_the_way_out(
    generation: Generation, attempt: Callable[..., list[list[str]]]
) -> None:
    generation.launcher("perdure-pm", "exit 0\n")
    pm = shlex.join([str(generation.home / "bin" / "perdure-pm"), "--help"])
    (_, within), (_, above) = attempt("os.remove(site + '/x.py')", "os.rename(home, other + '/home')")
    assert within == (
        f"plugin prober may not delete {generation.site}/x.py, which lies in {generation.venv} (the environment of "
        f"this process): keep files elsewhere; what Perdure runs from is changed by PM alone: {pm}"
    )
    assert above.startswith(f"plugin prober may not move or replace {generation.home}, which contains ")


HARMLESS = [
    "open(venv + '/pyvenv.cfg').close()",
    "os.open(venv + '/pyvenv.cfg', os.O_RDONLY)",
    "open(other + '/new', 'w').close()",
    "os.chmod(other + '/file', 0o600)",
    "os.rename(other + '/file', other + '/moved')",
    "os.remove(other + '/link')",
    "os.mkdir(other + '/d'); os.rmdir(other + '/d')",
    "os.symlink(venv + '/bin/python', other + '/again')",
    "os.makedirs(site, exist_ok=True)",
    "shutil.rmtree(other)",
    "os.makedirs(site + '/__pycache__', exist_ok=True); open(site + '/__pycache__/x.cpython.pyc', 'wb').close()",
    "os.remove(site + '/__pycache__/x.cpython.pyc')",
    "open(os.devnull, 'w').close()",
    "tempfile.TemporaryFile().close()",
    "import subprocess; subprocess.run(['true'], check=True)",
    "os.open(venv + '/pyvenv.cfg', os.O_RDONLY); os.chdir(tempfile.mkdtemp()); os.open('x', os.O_WRONLY | os.O_CREAT)",
    "os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd()); open('/dev/null', 'w').close()",
]


@pytest.mark.proves("audit-others-free")
def test_reading_byte_code_links_elsewhere_and_every_other_file_are_nobodys_harm(
    attempt: Callable[..., list[list[str]]],
) -> None:
    assert [(line, *said) for line, said in zip(HARMLESS, attempt(*HARMLESS), strict=True) if said[0] != "done"] == []


@pytest.mark.proves("audit-roots-refused")
def test_nothing_of_the_environment_turns_it_off(attempt: Callable[..., list[list[str]]]) -> None:
    environment = {"PERDURE_AUDIT": "0", "PERDURE_AUDIT_HOOK": "off", "PERDURE_DEBUG": "1", "PERDURE_YOLO": "1"}
    assert attempt("os.remove(venv + '/pyvenv.cfg')", **environment)[0][0] == "ProtectedPath"
    lines = (
        "import perdure.audit_hook as hook; hook._installed.clear(); os.remove(venv + '/pyvenv.cfg')",
        "from perdure.own_writers import claim; claim('crash-notes')",
        "from perdure.own_writers import Writer\nwith Writer('mine', ()).writing(): os.remove(venv + '/pyvenv.cfg')",
    )
    assert [kind for kind, _ in attempt(*lines)] == ["ProtectedPath", "RuntimeError", "ProtectedPath"]


@pytest.mark.proves("audit-roots-refused", "app-broken-plugin-isolated")
def test_a_plugin_that_harms_a_root_when_it_is_imported_fails_alone(generation: Generation) -> None:
    source = f"import os\nos.remove({str(generation.venv / 'pyvenv.cfg')!r})\n"
    generation.boot(generation.plugin("rude", source), generation.plugin("prober", PROBER))
    data = envelope_of(generation.run("plugins", "--json"))["data"]
    (failure,) = data["failures"]
    assert (failure["plugin"], failure["stage"]) == ("rude", "import")
    assert failure["summary"].startswith("ProtectedPath: plugin rude may not delete ")
    assert (generation.venv / "pyvenv.cfg").exists()


@pytest.mark.proves("audit-own-writers")
@pytest.mark.parametrize(
    ("name", "inner", "may"),
    [
        ("run-record", "state/default/runs-2030-01.jsonl", True),
        ("run-record", "state", True),
        ("run-record", "stateful", False),
        ("run-record", "profiles/default/crashes/x", False),
        ("crash-notes", "profiles/default/crashes/loading-1", True),
        ("crash-notes", "profiles/default/crashes", True),
        ("crash-notes", "profiles/default/app.yaml", False),
        ("crash-notes", "profiles/a/b/crashes/x", False),
        ("approvals", "profiles/default/app.yaml", False),
        ("allowlist", "profiles/default/app.yaml.new", True),
    ],
)
def test_each_own_writer_writes_where_it_has_to_and_nowhere_else(name: str, inner: str, may: bool) -> None:
    writer = own_writers.Writer(name, own_writers.WRITERS[name])
    assert writer.may_write(inner) is may
    with writer.writing():
        assert own_writers.current_writer() is writer
    assert own_writers.current_writer() is None


@pytest.mark.proves("audit-own-writers")
def test_the_store_of_proposals_opens_under_the_hook_and_a_plugin_does_not_get_at_its_file(
    generation: Generation, attempt: Callable[..., list[list[str]]]
) -> None:
    (generation.home / "state").mkdir()
    path = "pathlib.Path(home, 'state', 'approvals.db')"
    opened = f"import perdure.store.database as database; database.Database({path})"
    kinds = [kind for kind, _ in attempt(opened, f"{path}.unlink()", f"open({path}, 'r+b')", f"os.chmod({path}, 0)")]
    assert kinds == ["done", "ProtectedPath", "ProtectedPath", "ProtectedPath"]
    assert (generation.home / "state" / "approvals.db").stat().st_size > 0


@pytest.mark.proves("exec-layers-fast")
def test_the_hook_costs_little(generation: Generation, tmp_path: Path, figure: Callable[[str], None]) -> None:
    code = f"""
import sys, time
from perdure.installation import find_installation
from perdure import audit_hook

def cost(mode):
    best = 1.0
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(100):
            open({str(tmp_path / "file")!r}, mode).close()
        best = min(best, (time.perf_counter() - began) / 100)
    return best * 1e6

cost("w")
without = cost("r"), cost("w")
audit_hook.install(find_installation(sys.prefix, sys.executable, {{}}), {{}})
hooked = cost("r"), cost("w")
print(*without, *hooked)
"""
    done = subprocess.run([str(generation.python), "-I", "-c", code], capture_output=True, text=True, check=True)
    reads, writes, hooked_reads, hooked_writes = map(float, done.stdout.split())
    read, write = hooked_reads - reads, hooked_writes - writes
    figure(
        f"audit hook: an open for reading {read:.2f} µs more (target 1), for writing {write:.0f} µs more (target 100)"
    )
    assert read < 10
    assert write < 1000

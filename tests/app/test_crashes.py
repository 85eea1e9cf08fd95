"""A plugin that ends the app while it loads: the next start leaves it out, says so, and says how it comes back."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.app.conftest import IDENTITY, Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

HEAD = "import os, sys\nfrom perdure.api.hooks import hookimpl\nplugin = sys.modules[__name__]\n"

ENDS = {
    "exits at once": HEAD + "os._exit(3)\n",
    "exits at once with success": HEAD + "os._exit(0)\n",
    "kills itself": HEAD + "import signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "is ended from outside": HEAD + "import signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "reads nothing": HEAD + "import ctypes\nctypes.string_at(0)\n",
    "forks and dies": HEAD
    + "import time\nif os.fork() == 0:\n    os.closerange(0, 3)\n    time.sleep(3)\n    os._exit(0)\nos._exit(4)\n",
    "in a hook": HEAD + "@hookimpl\ndef tools():\n    os._exit(3)\n",
}
"""What a plugin does → its source. `reads nothing` is a segmentation fault."""

DURING = {"in a hook": "asking it for its tools"}


@pytest.fixture
def selected(generation: Generation) -> Generation:
    """A generation that its profile runs, with a PM that can be named."""
    select(generation)
    generation.launcher("perdure-pm", 'echo \'{"data": {"summary": "fine"}}\'\n')
    return generation


def select(generation: Generation, profile: str = "default") -> None:
    """Have the profile run the generation."""
    pointer = generation.home / "profiles" / profile / "current"
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.write_text(f"{IDENTITY}\n")


def crashes(generation: Generation, profile: str = "default") -> Path:
    return generation.home / "profiles" / profile / "crashes"


@pytest.mark.proves("app-crash-attributed")
@pytest.mark.parametrize("how", list(ENDS))
def test_the_start_after_a_crash_leaves_the_plugin_out_and_says_how_it_comes_back(
    selected: Generation, greeter: str, how: str
) -> None:
    """Case 110."""
    selected.boot(selected.plugin("greeter", greeter), selected.plugin("bad", ENDS[how]))
    first = selected.run("tools")
    assert "greeter.hello" not in first.stdout
    (left,) = crashes(selected).iterdir()
    assert left.name.startswith("loading-")
    second = selected.run("tools")
    assert (second.returncode, "greeter.hello" in second.stdout) == (0, True), second.stderr
    command = shlex.join([str(selected.home / "bin" / "perdure-pm"), "plugin", "enable", "perdure-bad"])
    said = f"plugin bad: an earlier start: the app ended while {DURING.get(how, 'importing it')} ("
    assert said in second.stderr
    assert f"so it is left out; bring it back: {command}\n" in second.stderr
    # It stays so, in every command, and costs no more files.
    for _ in range(2):
        answer = json.loads(selected.run("plugins", "--json").stdout)["data"]
        assert {plugin["name"]: plugin["loaded"] for plugin in answer["plugins"]} == {
            "runtime": True,
            "files": True,
            "greeter": True,
            "bad": False,
        }
        assert [(failure["stage"], failure["hint"]) for failure in answer["failures"]] == [("crash", command)]
    assert [path.name for path in crashes(selected).iterdir()] == ["perdure-bad.json"]
    findings = json.loads(selected.run("doctor", "--json").stdout)["data"]["findings"]
    assert [finding["hint"] for finding in findings if finding["code"] == "plugin-failed"] == [command]
    # As `plugin enable` does.
    (crashes(selected) / "perdure-bad.json").unlink()
    selected.plugin("bad", HEAD)
    assert selected.run("tools").stderr == ""
    assert list(crashes(selected).iterdir()) == []


@pytest.mark.proves("app-crash-attributed")
def test_two_plugins_that_crash_are_both_left_out_one_start_after_the_other(selected: Generation, greeter: str) -> None:
    bad = ENDS["exits at once"]
    selected.boot(selected.plugin("one", bad), selected.plugin("greeter", greeter), selected.plugin("two", bad))
    assert [selected.run("tools").returncode for _ in range(3)] == [3, 3, 0]
    assert sorted(path.name for path in crashes(selected).iterdir()) == ["perdure-one.json", "perdure-two.json"]


@pytest.mark.proves("app-crash-attributed")
def test_another_version_of_the_plugin_is_loaded_again(selected: Generation) -> None:
    entry = selected.plugin("bad", ENDS["exits at once"])
    selected.boot(entry)
    selected.run("tools")
    selected.plugin("bad", HEAD)
    assert "left out" in selected.run("tools").stderr
    selected.boot({**entry, "version": "1.1"})
    assert selected.run("tools").stderr == ""


@pytest.mark.proves("app-crash-attributed")
def test_an_exception_an_interrupt_and_a_start_that_lives_are_no_crash(selected: Generation, greeter: str) -> None:
    """What a start survives is told at once; a hang that a person interrupts is nobody's crash either."""
    waits = HEAD + "import time\nopen(os.environ['REACHED'], 'w').close()\ntime.sleep(60)\n"
    selected.boot(selected.plugin("raises", "raise ValueError"), selected.plugin("waits", waits))
    reached = selected.home / "reached"
    process = subprocess.Popen(
        [str(selected.python), "-I", "-m", "perdure", "tools"],
        env={**os.environ, "REACHED": str(reached)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not reached.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    selected.boot(selected.plugin("greeter", greeter))
    assert selected.run("tools").stderr == ""  # while the other one still imports
    assert len(list(crashes(selected).iterdir())) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "interrupted" in err) == (130, True)
    assert list(crashes(selected).iterdir()) == []


@pytest.mark.proves("app-crash-attributed")
def test_a_hang_that_is_killed_counts_as_a_crash(selected: Generation) -> None:
    waits = HEAD + "import time\nopen(os.environ['REACHED'], 'w').close()\ntime.sleep(60)\n"
    selected.boot(selected.plugin("waits", waits))
    reached = selected.home / "reached"
    process = subprocess.Popen(
        [str(selected.python), "-I", "-m", "perdure", "tools"],
        env={**os.environ, "REACHED": str(reached)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not reached.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert "plugin waits: an earlier start: the app ended while importing it" in selected.run("tools").stderr


@pytest.mark.proves("app-crash-attributed")
def test_notes_belong_to_a_profile_and_to_what_it_runs(generation: Generation) -> None:
    """PM tries a generation before any profile runs it: what crashes then is told by PM, and noted nowhere."""
    generation.boot(generation.plugin("bad", ENDS["exits at once"]))
    for _ in range(2):
        assert generation.run("tools").returncode == 3
    assert not (generation.home / "profiles").exists()
    select(generation)
    select(generation, "other")
    assert [generation.run("tools").returncode for _ in range(2)] == [3, 0]
    other = {"PERDURE_PROFILE": "other"}
    assert [generation.run("tools", environment=other).returncode for _ in range(2)] == [3, 0]
    for profile in ("../default", ".", "nowhere"):
        assert generation.run("tools", environment={"PERDURE_PROFILE": profile}).returncode == 3
    assert sorted(path.name for path in (generation.home / "profiles").iterdir()) == ["default", "other"]


@pytest.mark.proves("app-crash-attributed")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"distribution": 7}', '{"boot": "another one"}', "\0" * 99])
def test_what_a_start_left_and_cannot_be_read_is_taken_away(selected: Generation, greeter: str, text: str) -> None:
    selected.boot(selected.plugin("greeter", greeter))
    crashes(selected).mkdir()
    (crashes(selected) / "loading-1-ab").write_text(text)
    (crashes(selected) / "perdure-greeter.json").write_text(text)
    ended = selected.run("tools")
    assert (ended.returncode, ended.stderr, "greeter.hello" in ended.stdout) == (0, "", True)
    assert [path.name for path in crashes(selected).iterdir()] == ["perdure-greeter.json"]


@pytest.mark.proves("app-crash-attributed")
def test_where_nothing_can_be_written_the_app_starts_all_the_same(selected: Generation, greeter: str) -> None:
    selected.boot(selected.plugin("greeter", greeter))
    crashes(selected).write_text("in the way")
    ended = selected.run("tools")
    assert (ended.returncode, ended.stderr, "greeter.hello" in ended.stdout) == (0, "", True)


# Safe mode


@pytest.mark.proves("app-safe-mode-imports-none")
@pytest.mark.parametrize("by", ["flag", "variable"])
@pytest.mark.parametrize("boot", ["a list", "no list"])
def test_safe_mode_loads_the_apps_own_plugins_only(selected: Generation, by: str, boot: str) -> None:
    """Case 111; also where the list of plugins is what is broken."""
    selected.boot(selected.plugin("bad", ENDS["exits at once"]))
    if boot == "no list":
        selected.boot_path.write_text("{")
    words = ["--safe-mode"] if by == "flag" else []
    variables = {} if by == "flag" else {"PERDURE_SAFE_MODE": "1"}
    ended = selected.run(*words, "plugins", "--json", environment=variables)
    data = json.loads(ended.stdout)["data"]
    assert (ended.returncode, data["safe_mode"]) == (0, True)
    assert [plugin["name"] for plugin in data["plugins"]] == ["runtime", "files"]
    assert "Safe mode: only built-in plugins are loaded." in ended.stderr
    assert not crashes(selected).exists()
    told = json.loads(selected.run(*words, "doctor", "--json", environment=variables).stdout)["data"]
    assert (told["safe_mode"], told["plugins"]["loaded"]) == (True, ["runtime", "files"])
    assert selected.run(*words, "run", "runtime.about", environment=variables).returncode == 0


@pytest.mark.proves("app-safe-mode-imports-none")
def test_the_safe_start_runs_nothing_that_an_environment_has_python_run(selected: Generation) -> None:
    """No path file, no sitecustomize: what the launcher starts where safe mode was asked for."""
    mark = selected.home / "imported"
    imports = f"import os; os.close(os.open({str(mark)!r}, os.O_CREAT))\n"
    (selected.site / "evil.pth").write_text(imports)
    (selected.site / "sitecustomize.py").write_text(imports)
    selected.boot(selected.plugin("bad", imports))
    assert selected.run("plugins").returncode == 0
    assert mark.exists()
    mark.unlink()
    import perdure

    start = Path(perdure.__file__).with_name("safe_start.py")
    # The packages under test lie beside each other here as in a generation, except for what they need.
    needed = [entry for entry in sys.path if "packages" in entry]
    code = f"import runpy, sys; sys.path += {needed!r}; sys.argv = ['perdure', 'plugins', '--json']\n"
    code += f"runpy.run_path({str(start)!r}, run_name='__main__')"
    ended = subprocess.run(
        [str(selected.python), "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    data = json.loads(ended.stdout)["data"]
    assert [plugin["name"] for plugin in data["plugins"]] == ["runtime", "files"]
    assert data["safe_mode"] is True
    assert not mark.exists()


@pytest.mark.proves("app-healthy-start-confirms")
def test_safe_mode_confirms_no_trial(selected: Generation) -> None:
    asked = selected.home / "asked"
    selected.launcher("perdure-pm", f'echo "$*" >>{shlex.quote(str(asked))}\n')
    selected.run("--safe-mode", "plugins", environment={"PERDURE_TRIAL": IDENTITY})
    assert not asked.exists()
    selected.run("plugins", environment={"PERDURE_TRIAL": IDENTITY})
    assert asked.exists()

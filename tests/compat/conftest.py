"""Programs on real modules in a folder of their own, in fresh processes: `once per process` is the promise.

Owns: the fixture `run` and the two modules most programs use, and `tool` for what is fetched. Does not own: which
interpreters there are (test_interpreters runs these tests again under each by naming it in
PERDURE_TEST_COMPAT_PYTHON).
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import perdure_compat

HOME = """
from perdure_compat import facade

def still_here():
    return "own"

__getattr__, __dir__ = facade(
    __name__,
    {
        "register": ("moved", "newhome:register_tool", "0.3", "0.6", "now keyword-only"),
        "Deep": ("moved", "newhome:Outer.Inner", "0.3", "0.6"),
        "whole": ("moved", "newhome:", "0.4", "0.7"),
        "lost": ("moved", "nowhere:at_all", "0.4", "0.7"),
        "absent": ("moved", "newhome:not_there", "0.4", "0.7"),
        "CONST": ("moved", "newhome:CONST", "0.4", "0.7"),
        "dumps": ("import", "json:dumps", "0.4", "0.7"),
        "gone": ("removed", "", "0.4", "0.7", "nobody used it"),
        "replaced": ("removed", "newhome:register_tool", "0.4", "0.7"),
        "check": ("loud", "newhome:check", "0.4", "0.7", "it asks the gate now"),
        "kept": ("restored", "newhome:kept", "0.4", "0.7"),
    },
)
"""

NEW = """
print("newhome imported")

CONST = 1

def register_tool():
    return f"registered {CONST}"

def again():
    return register_tool()

def kept():
    return "kept"

def check():
    return True

class Outer:
    class Inner:
        pass

class Err(Exception):
    pass
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Tool = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program beside `oldhome` and `newhome` in a fresh interpreter; `more` are further modules."""

    def run_program(program: str, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
        modules = {"oldhome": HOME, "newhome": NEW, **more, "program": program}
        for name, text in modules.items():
            # `package__module` stands for a module in a package, and `package__INIT` for the package itself.
            path = tmp_path.joinpath(*f"{name}.py".split("__")) if not name.startswith("_") else tmp_path / f"{name}.py"
            path = path.with_name("__init__.py") if path.stem == "INIT" else path
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return subprocess.run(
            [os.environ.get("PERDURE_TEST_COMPAT_PYTHON") or sys.executable, *options, str(tmp_path / "program.py")],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(perdure_compat.__file__).parent.parent)},
        )

    return run_program


@pytest.fixture
def tool(uv: Path, network_environment: Mapping[str, str]) -> Tool:
    """Return a call of uv with the network as this machine reaches it."""

    def call(*arguments: str) -> None:
        subprocess.run([uv, *arguments], check=True, capture_output=True, env={**os.environ, **network_environment})

    return call


def succeeded(done: "subprocess.CompletedProcess[str]") -> str:
    """Return what the program printed; it must have ended well and silently."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout

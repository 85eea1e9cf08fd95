"""Which interpreter is built on, decided without writing anything and without asking uv."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from perdure_pm.adapters.interpreter import ask_interpreter, bare_environment, running_interpreter
from perdure_pm.adapters.plain_reporter import PlainReporter
from perdure_pm.model.errors import InterpreterMissing, NetworkUnreachable
from perdure_pm.ops import interpreters
from perdure_pm.ops.interpreters import find_interpreter
from perdure_pm.store.layout import Layout

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def test_nobody_asked_and_nothing_is_there_so_the_running_one_is_taken(layout: Layout) -> None:
    assert find_interpreter(layout, {}, None) == running_interpreter()
    assert not layout.home.exists()


@pytest.mark.proves("interpreter-shared-left")
@pytest.mark.parametrize("place", ["XDG_DATA_HOME", "UV_PYTHON_INSTALL_DIR", "home"])
def test_one_that_uv_shares_is_passed_over(layout: Layout, tmp_path: Path, place: str) -> None:
    """Case 88: `uv python uninstall` would pull it from under PM."""
    shared = {
        "XDG_DATA_HOME": tmp_path / "data" / "uv" / "python",
        "UV_PYTHON_INSTALL_DIR": tmp_path / "pythons",
        "home": Path(os.path.expanduser("~")) / ".local" / "share" / "uv" / "python",
    }[place]
    environ = {"XDG_DATA_HOME": str(tmp_path / "data"), "UV_PYTHON_INSTALL_DIR": str(tmp_path / "pythons")}
    assert interpreters.is_shared(shared / "cpython-3.13.0" / "bin" / "python3.13", environ, layout)
    assert not interpreters.is_shared(layout.interpreters / "cpython-3.13.0" / "bin" / "python3.13", environ, layout)
    assert not interpreters.is_shared(Path("/usr/bin/python3"), environ, layout)


@pytest.mark.proves("interpreter-shared-left")
def test_the_homes_own_is_not_shared_wherever_uv_is_told_to_share(layout: Layout) -> None:
    environ = {"UV_PYTHON_INSTALL_DIR": str(layout.home)}
    assert not interpreters.is_shared(layout.interpreters / "cpython-3.13.0" / "bin" / "python3.13", environ, layout)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("3.99", "Python 3.99 is wanted and is not there, and uv could not bring"),
        (None, "Python 3.11 or newer is needed, this is "),
    ],
)
def test_what_cannot_be_brought_in_is_told_by_what_was_wanted(
    layout: Layout, wanted: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise NetworkUnreachable("no way there")

    monkeypatch.setattr(interpreters, "find_interpreter", lambda *_arguments: None)
    monkeypatch.setattr(interpreters, "bring_in", refuse)
    unused = cast("Any", None)
    with pytest.raises(InterpreterMissing) as caught:
        interpreters.choose_interpreter(layout, unused, unused, PlainReporter(events=False), {}, wanted)
    assert caught.value.summary.startswith(said)
    assert caught.value.summary.endswith(": no way there")


@pytest.mark.parametrize("wanted", ["3.13", "3.11.9"])
def test_a_version_is_for_uv_to_bring_in(layout: Layout, wanted: str) -> None:
    assert find_interpreter(layout, {}, wanted) is None


def test_one_that_is_named_is_taken_by_path_or_from_the_path(layout: Layout, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "mypython"
    link.parent.mkdir()
    link.symlink_to(running_interpreter().path)
    for wanted in (str(link), "mypython"):
        found = find_interpreter(layout, {"PATH": str(link.parent)}, wanted)
        assert found == running_interpreter(), "by its real path"


@pytest.mark.parametrize("wanted", ["no-such-python", "/nowhere/python3", "/dev/null"])
def test_one_that_is_named_and_is_none_is_told_by_name(layout: Layout, wanted: str) -> None:
    with pytest.raises(InterpreterMissing, match=Path(wanted).name):
        find_interpreter(layout, {"PATH": "/usr/bin:/bin"}, wanted)


def test_one_that_is_too_old_is_told_its_version(layout: Layout, tmp_path: Path) -> None:
    old = tmp_path / "python3.8"
    answer = '{"path": "/x/python3.8", "version": "3.8.1", "implementation": "CPython"}'
    old.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
    old.chmod(0o755)
    with pytest.raises(InterpreterMissing, match=r"Python 3\.8\.1; PM and the app need 3\.11 or newer"):
        find_interpreter(layout, {}, str(old))


@pytest.mark.parametrize("said", ["exit 0", "echo nonsense", "echo '{}'", "echo '[]'", "exit 3"])
def test_what_answers_like_no_python_is_told_so(tmp_path: Path, said: str) -> None:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{said}\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(InterpreterMissing, match="is not a Python that runs"):
        ask_interpreter(path, bare_environment())


def test_a_venvs_python_answers_with_its_base(tmp_path: Path) -> None:
    assert ask_interpreter(Path(sys.executable), bare_environment()) == running_interpreter()

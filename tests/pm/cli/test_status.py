"""status: whole output, in every state of a home."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine
from tests.pm.sample_home import IDENTITY, make_generation, select_generation, snapshot

pytestmark = pytest.mark.proves("pm-status-reads-only")

EMPTY = """\
nothing is installed

home           HOME
profile        default
pm             0.1.0, runtime none, uv none
lazy installs  allowed
"""

INSTALLED = """\
perdure 0.1.0 in generation 1-0123456789ab

home           HOME
profile        default
generation     1-0123456789ab, made 2026-11-29T19:00:00Z
host           perdure 0.1.0
plugins        perdure-facts 0.1.0
python         3.13.1   /usr/bin/python3
also kept      2-0123456789ab
pm             0.1.0, runtime none, uv none
lazy installs  allowed
"""


def test_an_empty_home_says_that_nothing_is_installed_and_makes_no_directory(pm: CommandLine) -> None:
    ended = pm("status")
    assert (ended.exit_code, ended.out, ended.err) == (0, EMPTY, "")
    assert not pm.home.exists()


def test_a_cold_pm_is_not_current_and_asking_makes_no_directory(pm: CommandLine) -> None:
    ended = pm("self", "status", "--json")
    assert ended.envelope["data"] == {
        "version": "0.1.0",
        "runtime": None,
        "current": False,
        "problem": "no runtime is selected",
    }
    assert not pm.home.exists()


def test_an_installed_home_is_shown_and_not_touched(pm: CommandLine, layout: Layout) -> None:
    make_generation(layout)
    make_generation(layout, "2-0123456789ab")
    select_generation(layout)
    before = snapshot(pm.home)
    ended = pm("status")
    assert (ended.exit_code, ended.out, ended.err) == (0, INSTALLED, "")
    assert snapshot(pm.home) == before


def test_the_same_as_json(pm: CommandLine, layout: Layout) -> None:
    make_generation(layout)
    select_generation(layout)
    assert pm("status", "--json").envelope == {
        "schema": 1,
        "command": "status",
        "status": "ok",
        "exit_code": 0,
        "data": {
            "summary": "perdure 0.1.0 in generation 1-0123456789ab",
            "home": str(pm.home).replace(str(pm.home), "HOME"),
            "profile": "default",
            "profiles": {"default": IDENTITY},
            "generation": {
                "id": IDENTITY,
                "host": {"name": "perdure", "version": "0.1.0"},
                "created": "2026-11-29T19:00:00Z",
                "plugins": [{"name": "perdure-facts", "version": "0.1.0", "editable": False}],
                "moved_names": [],
                "interpreter": {"version": "3.13.1", "path": "/usr/bin/python3", "present": True},
                "packages": 1,
            },
            "managed": None,
            "trial": None,
            "sit_outs": [],
            "skipped": [],
            "others": [],
            "pm": {"version": "0.1.0", "runtime": None, "uv": None},
            "policy": {"lazy": True},
            "protect": {"policy": "off", "why_not": None},
            "running": None,
            "last": None,
            "obligations": [],
            "findings": [],
        },
        "errors": [],
    }


def break_pointer(layout: Layout) -> None:
    select_generation(layout, "../../elsewhere\n")


def break_record(layout: Layout) -> None:
    (layout.generation(IDENTITY) / "record.json").write_text("{", encoding="utf-8")


def lose_generation(layout: Layout) -> None:
    select_generation(layout, "7-0123456789ab\n")


def lose_interpreter(layout: Layout) -> None:
    python = layout.generation(IDENTITY) / "venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")


def break_runtime(layout: Layout) -> None:
    layout.pm.mkdir()
    layout.runtime_pointer.write_text("../x\n", encoding="utf-8")


def lose_runtime(layout: Layout) -> None:
    layout.pm.mkdir()
    layout.runtime_pointer.write_text("0123456789ab\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("break_it", "findings"),
    [
        (break_pointer, ["HOME/profiles/default/current is damaged: it does not hold a generation's id"]),
        (
            break_record,
            ["HOME/store/generations/1-0123456789ab/record.json is damaged: it is not JSON"],
        ),
        (lose_generation, ["HOME/store/generations/7-0123456789ab/record.json is damaged: it is missing"]),
        (lose_interpreter, ["the interpreter of generation 1-0123456789ab is gone: /nowhere/python3"]),
        (break_runtime, ["pm/current does not name a runtime"]),
        (
            lose_runtime,
            [
                "the record of PM's runtime 0123456789ab cannot be read",
                "the interpreter of PM's runtime 0123456789ab is gone",
            ],
        ),
    ],
)
def test_what_is_damaged_is_a_finding_and_never_a_traceback(
    pm: CommandLine, layout: Layout, break_it: Callable[[Layout], None], findings: list[str]
) -> None:
    make_generation(layout)
    select_generation(layout)
    break_it(layout)
    ended = pm("status", "--json")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.envelope["data"]["findings"] == findings
    assert findings[0] in ended.envelope["data"]["summary"]


@pytest.mark.parametrize("where", ["home", "store", "profiles", "receipts", "pm", "config.yaml"])
def test_a_file_in_the_place_of_a_directory_is_survived(pm: CommandLine, layout: Layout, where: str) -> None:
    path = pm.home if where == "home" else pm.home / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if where == "config.yaml" else path.write_text("mine", encoding="utf-8")
    ended = pm("status")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.startswith("nothing is installed\n")


def test_a_running_operation_is_named_and_a_dead_one_is_not(pm: CommandLine, layout: Layout) -> None:
    pm.home.mkdir()
    holder = {"pid": os.getpid(), "operation": "install", "since": "2026-11-29T19:00:00Z"}
    layout.mutex_holder.write_text(json.dumps(holder), encoding="utf-8")
    said = f"install (process {os.getpid()}, since 2026-11-29T19:00:00Z)"
    assert pm("status", "--json").envelope["data"]["running"] == said
    layout.mutex_holder.write_text(json.dumps({**holder, "pid": 2**22 + 1}), encoding="utf-8")
    assert pm("status", "--json").envelope["data"]["running"] is None


def test_brackets_without_end_are_survived(pm: CommandLine, layout: Layout) -> None:
    make_generation(layout)
    select_generation(layout)
    holes = (
        layout.mutex_holder,
        layout.runtime_pointer,
        layout.runtime("0123456789ab") / "record.json",
        layout.published("default"),
        layout.receipts / "20261129T190000.000000Z-00000000.json",
        layout.trial("default"),
    )
    for path in holes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0123456789ab\n" if path == layout.runtime_pointer else "[" * 4000, encoding="utf-8")
    for verb in (("status",), ("history",), ("receipts",), ("plugin", "list")):
        ended = pm(*verb, "--json")
        assert (verb, ended.exit_code, ended.err if verb != ("receipts",) else "") == (verb, 0, "")
    assert pm("doctor", "--json").exit_code == 3


def test_lazy_installs_are_said_to_be_off_by_variable(pm: CommandLine) -> None:
    assert pm("status", "--json", variables={"PERDURE_NO_LAZY": "1"}).envelope["data"]["policy"] == {"lazy": False}
    assert pm("status", "--json", "--no-lazy").envelope["data"]["policy"] == {"lazy": False}


def test_a_home_named_relatively_or_through_a_link_is_the_same_home(
    pm: CommandLine, layout: Layout, tmp_path: Path
) -> None:
    make_generation(layout)
    select_generation(layout)
    (tmp_path / "link").symlink_to(pm.home)
    for name in ("link", "./home", str(tmp_path / "link")):
        assert pm("status", "--home", name, "--json").envelope["data"]["home"] == "HOME"

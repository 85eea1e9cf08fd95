"""Doctor answers in every state of a home, and names what helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ops.doctor import examine
from perdure_pm.store.inventory import find_site_packages
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.damage import hints, problems, remove

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("doctor-answers-always")
@pytest.mark.parametrize(
    "state", ["nothing", "a file", "no rights", "links", "pm gone", "the store a file", "profiles a file"]
)
def test_doctor_answers_in_every_state(state: str, bench: Bench, tmp_path: Path) -> None:
    """Case 89: exit 0 or 3, one JSON object, never a traceback."""
    layout = bench.layout
    if state == "nothing":
        layout = Layout(tmp_path / "nowhere")
    elif state == "a file":
        layout = Layout(tmp_path / "file")
        layout.home.write_text("a file")
    elif state == "no rights":
        layout.generations.chmod(0)
    elif state == "links":
        remove(layout.generations)
        layout.generations.symlink_to(tmp_path)
    elif state == "pm gone":
        remove(layout.pm)
    else:
        folder = layout.store if state.startswith("the store") else layout.profile("default").parent
        remove(folder)
        folder.write_text("a file")
    before = sorted(str(path) for path in layout.home.rglob("*")) if layout.home.is_dir() else []
    found = examine(layout, "default", deep=True)
    assert found["healthy"] is (not found["problems"])
    codes = [problem["code"] for problem in found["problems"]]
    assert codes
    assert "internal" not in codes, found["problems"]
    json.dumps(found)
    assert (sorted(str(path) for path in layout.home.rglob("*")) if layout.home.is_dir() else []) == before
    if state == "no rights":
        layout.generations.chmod(0o755)


@pytest.mark.proves("doctor-exit-code")
def test_the_exit_code_says_whether_something_is_wrong(bench: Bench) -> None:
    bench.add("gadget")
    remove(find_site_packages(bench.current.environment) / "gadget" / "__init__.py")
    ended = bench.pm("doctor", "--json")
    assert ended.exit_code == 3
    files = [file for problem in ended.envelope["data"]["problems"] for file in problem["files"]]
    assert [file["distribution"] for file in files] == ["gadget-1.0"]
    told = bench.pm("doctor")
    assert told.exit_code == 3
    assert "gadget/__init__.py" in told.out


@pytest.mark.proves("doctor-answers-always")
def test_a_directory_where_the_mutex_belongs_is_named_with_what_helps(bench: Bench) -> None:
    bench.layout.mutex.unlink()
    bench.layout.mutex.mkdir()
    assert [str(bench.layout.mutex) in hint for code, hint in hints(bench.layout) if code == "no-file"] == [True]
    bench.layout.mutex.rmdir()
    assert problems(bench.layout) == []
    assert bench.call("pin").status == "ok"


@pytest.mark.proves("doctor-answers-always")
@pytest.mark.parametrize("where", ["receipts/unfinished", "store/records", "store/plugins", "cache/tmp", "bin"])
def test_a_file_where_pm_makes_a_directory_is_named_with_what_helps(bench: Bench, where: str) -> None:
    path = bench.layout.home / where
    aside = bench.layout.home.parent / "aside"
    if path.exists():
        path.rename(aside)
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine", encoding="utf-8")
    assert [str(path) in hint for code, hint in hints(bench.layout) if code == "no-directory"] == [True]
    path.unlink()
    if where != "bin":
        assert bench.call("pin").status == "ok"
        assert problems(bench.layout) == []


@pytest.mark.proves("doctor-answers-always")
@pytest.mark.platforms("linux", "darwin")
@pytest.mark.parametrize("where", ["store", "store/generations", "store/records", "store/plugins", "profiles"])
def test_nothing_is_published_behind_a_link_and_doctor_says_what_helps(bench: Bench, where: str) -> None:
    before, path = bench.current.identity, bench.layout.home / where
    path.mkdir(exist_ok=True)
    aside = bench.layout.home.parent / "aside"
    path.rename(aside)
    path.symlink_to(aside)
    made = sorted(aside.rglob("*"))
    with pytest.raises(IntegrityFault, match="is a link"):
        bench.add("gadget")
    assert sorted(aside.rglob("*")) == made
    assert {hint.partition(", or")[0] for _, hint in hints(bench.layout)} == {f"remove the link {path}"}
    path.unlink()
    aside.rename(path)
    assert problems(bench.layout) == []
    assert bench.add("gadget") != before


@pytest.mark.proves("doctor-answers-always", "trial-broken-file-dropped")
def test_a_directory_where_a_trial_would_be_is_mended_by_what_doctor_names(bench: Bench) -> None:
    bench.layout.trial("default").mkdir()
    ((code, hint),) = hints(bench.layout)
    assert (code, hint.split("(")[0].strip()) == ("trial-damaged", "perdure-pm confirm")
    bench.call("confirm")
    assert problems(bench.layout) == []

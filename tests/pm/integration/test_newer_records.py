"""Records that a newer PM wrote: named, started, left as they are."""

from __future__ import annotations

import json

import pytest

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ops.doctor import examine
from tests.pm.bench import Bench
from tests.pm.damage import problems, writable
from tests.pm.fake_host import STUBS

pytestmark = pytest.mark.platforms("linux", "darwin")


def write_newer(bench: Bench, identity: str) -> str:
    """Have a generation as a newer PM writes it, and return its record's text."""
    path = bench.layout.generation(identity) / "record.json"
    text = json.dumps({**json.loads(path.read_text()), "schema": 2, "id": [identity]})
    writable(path).write_text(text)
    bench.layout.kept_record(identity).unlink()
    return text


@pytest.mark.proves("newer-records-left-alone")
def test_a_record_of_a_newer_form_is_named_with_both_versions_and_left_as_it_is(bench: Bench) -> None:
    first = bench.current.identity
    second = bench.add("gadget")
    text = write_newer(bench, first)
    (problem,) = [
        found for found in examine(bench.layout, "default", deep=True)["problems"] if found["code"] not in STUBS
    ]
    assert (problem["code"], problem["generation"]) == ("record-newer", first)
    assert problem["summary"].endswith("its schema is 2, and this version of PM reads 1")
    assert bench.call("repair").status == "noop"
    bench.pass_time(days=3)
    bench.call("collect", keep=0)
    assert (bench.layout.generation(first) / "record.json").read_text() == text
    with pytest.raises(IntegrityFault, match="its schema is 2, and this version of PM reads 1"):
        bench.call("rollback")
    assert bench.current.identity == second
    assert bench.start().returncode == 0


@pytest.mark.proves("newer-records-left-alone")
def test_what_a_newer_pm_selected_still_starts_and_one_can_go_back_from_it(bench: Bench) -> None:
    first = bench.current.identity
    second = bench.add("gadget")
    text = write_newer(bench, second)
    assert problems(bench.layout) == ["selection-newer", "record-newer"]
    outcome = bench.call("repair")
    assert any("made by a newer PM" in said for said in outcome.obligations)
    assert bench.start().returncode == 0
    assert json.loads(bench.start().stdout)["generation"] == second
    assert bench.pm("status").exit_code == 0
    bench.call("rollback", to="1")
    assert bench.current.identity == first
    assert (bench.layout.generation(second) / "record.json").read_text() == text

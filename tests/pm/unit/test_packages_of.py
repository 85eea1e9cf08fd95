"""Which packages an answer installs here, and how two sets differ."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.packages_of import resolved_versions
from perdure_pm.ops.resolve import Resolution
from perdure_pm.store.generations import load_generation
from perdure_pm.store.layout import Layout
from perdure_pm.store.recorded import compare_packages, recorded_versions
from tests.pm.sample_home import IDENTITY, make_generation

SETS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"]))


def test_what_was_added_removed_and_moved_is_listed_by_name() -> None:
    assert compare_packages({"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"}) == [
        {"name": "a", "from": "1", "to": None},
        {"name": "b", "from": "1", "to": "2"},
        {"name": "d", "from": None, "to": "1"},
    ]


@given(SETS, SETS)
def test_a_difference_leads_from_one_set_to_the_other(before: dict[str, str], after: dict[str, str]) -> None:
    now = dict(before)
    for change in compare_packages(before, after):
        name, version = str(change["name"]), change["to"]
        assert now.get(name) == change["from"]
        if version is None:
            del now[name]
        else:
            now[name] = version
    assert now == after


def test_markers_are_asked_of_the_interpreter_that_it_is_for() -> None:
    requirements = (
        "always==1.0 \\\n    --hash=sha256:00\n"
        'old==1.0 ; python_full_version < "3.12" \\\n    --hash=sha256:00\n'
        'both==1.0 ; python_full_version < "3.12" \\\n    --hash=sha256:00\n'
        'both==2.0 ; python_full_version >= "3.12" \\\n    --hash=sha256:00\n'
        f'here==1.0 ; sys_platform == "{sys.platform}" \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n'
        'nowhere==1.0 ; sys_platform == "nowhere" \\\n    --hash=sha256:00\n'
        "My.Name==1!2.0+local \\\n    --hash=sha256:00\n"
    )
    wheels = [Wheel(Path("fake_host-0.1.0-py3-none-any.whl"), "0" * 64)]
    found = {
        version: resolved_versions(
            wheels,
            Resolution(requirements=requirements, lock=""),
            Interpreter(Path("/usr/bin/python3"), version, "CPython"),
        )
        for version in ("3.11.7", "3.13.1")
    }
    common = {"fake-host": "0.1.0", "always": "1.0", "here": "1.0", "my-name": "1!2.0+local"}
    assert found == {"3.11.7": {**common, "old": "1.0", "both": "1.0"}, "3.13.1": {**common, "both": "2.0"}}


def test_a_record_says_its_packages_and_no_generation_has_none(home: Path) -> None:
    make_generation(Layout(home))
    assert recorded_versions(load_generation(Layout(home), IDENTITY)) == {"click": "8.5.1"}
    assert recorded_versions(None) == {}

"""What a profile's list selects: of the host's bundle, or from an index."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.model.errors import UsageFault
from perdure_pm.ops.release import Plugin, Release
from perdure_pm.ops.selection import parse_selection
from perdure_pm.ops.sitting_out import find_sit_outs

FACTS, NOTES = (
    Plugin(name=name, distribution=f"perdure-{name}", version="0.1.0", entry=f"perdure_{name}:plugin")
    for name in ("facts", "notes")
)
RELEASE = Release(
    digest="0" * 12,
    name="perdure",
    version="0.1.0",
    requires_python=">=3.11",
    commands=("perdure",),
    wheels=(),
    plugins=(FACTS, NOTES),
    requirements="",
    source="",
    groups=(),
    offered_extras=(),
)


def test_where_nothing_is_said_the_whole_bundle_is_meant() -> None:
    found = parse_selection(RELEASE, None)
    assert (found.entries, found.bundled, found.requirements) == (
        ("perdure-facts", "perdure-notes"),
        (FACTS, NOTES),
        (),
    )


def test_an_empty_list_selects_nothing() -> None:
    found = parse_selection(RELEASE, [])
    assert (found.entries, found.bundled, found.requirements, found.names()) == ((), (), (), ())


def test_the_order_and_the_words_of_the_list_stay() -> None:
    entries = ["Gadget>=1,<2", "Perdure_Notes", "other[more]; python_version>'3'", "perdure.facts==0.1.0"]
    found = parse_selection(RELEASE, entries)
    assert found.entries == tuple(entries)
    assert found.names() == ("gadget", "perdure-notes", "other", "perdure-facts")
    assert found.bundled == (NOTES, FACTS)
    assert found.requirements == ("Gadget>=1,<2", "other[more]; python_version>'3'")


@pytest.mark.proves("pm-own-names-never-on-an-index")
@pytest.mark.parametrize("text", ["perdure-evil", "PERDURE.evil>=1", "perdure_facts2", "perdure", "Perdure==9"])
def test_a_name_of_the_hosts_own_that_the_bundle_lacks_is_refused(text: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_selection(RELEASE, [text])
    assert "perdure-facts, perdure-notes" in str(caught.value.hint)


@pytest.mark.proves("plugins-requirement-refused")
@pytest.mark.parametrize("entries", [["gadget", "Gadget>=1"], ["perdure-facts", "perdure.facts"], ["a.b", "a-b", "x"]])
def test_a_plugin_that_stands_there_twice_is_refused(entries: list[str]) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_selection(RELEASE, entries)
    assert "twice" in caught.value.summary


@pytest.mark.proves("plugins-requirement-refused")
@pytest.mark.parametrize("text", ["perdure-facts>=1", "perdure-facts==0.2", "perdure-facts<0.1"])
def test_a_version_that_the_bundle_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_selection(RELEASE, [text])
    assert "perdure-facts 0.1.0" in caught.value.summary


@pytest.mark.proves("pm-own-names-never-on-an-index")
@given(st.from_regex(r"(?i:perdure)[-_.]+[a-z0-9]{1,8}", fullmatch=True))
def test_no_spelling_of_an_own_name_reaches_an_index(text: str) -> None:
    with contextlib.suppress(UsageFault):
        assert parse_selection(RELEASE, [text]).requirements == ()


@pytest.mark.proves("plugins-give-way", "pm-own-names-never-on-an-index")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("perdure-facts", "perdure 0.2.0 has no plugin perdure-facts in its bundle"),
        ("perdure-notes==0.1.0", "perdure comes with perdure-notes 0.2.0, which 'perdure-notes==0.1.0' excludes"),
        ("Perdure_Notes @ file:///mine", "/mine is named perdure-notes, which perdure 0.2.0 brings itself"),
    ],
)
def test_what_a_new_bundle_has_no_place_for_sits_out_where_it_was_there_and_is_refused_where_it_is_new(
    entry: str, reason: str
) -> None:
    bundle = (replace(NOTES, version="0.2.0"),)
    newer = replace(RELEASE, version="0.2.0", plugins=bundle)
    (out,) = find_sit_outs([entry, "gadget"], newer, running_interpreter(), (), {entry, "gadget"})
    assert (out.entry, out.reason) == (entry, reason)
    assert find_sit_outs([entry], newer, running_interpreter(), (), {"gadget"}) == ()
    with pytest.raises(UsageFault, match=re.escape(reason)):
        parse_selection(newer, [entry])

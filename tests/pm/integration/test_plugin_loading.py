"""Plugins that resolve, and how they load: what fails at import, in metadata or over a file, and in which order."""

from __future__ import annotations

import re

import pytest

from perdure_pm.model.errors import BuildFailed, ConflictRefused, HealthCheckFailed
from tests.pm.bench import Bench
from tests.pm.locked_host import what_counts

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("plugins-broken-one-refused")
@pytest.mark.parametrize("name", ["raises", "garbled", "twice"])
def test_a_plugin_that_cannot_be_loaded_is_refused_before_the_switch(locked: Bench, name: str) -> None:
    """Case 104, for what happens at import and in a wheel's own metadata."""
    before = what_counts(locked)
    with pytest.raises((HealthCheckFailed, BuildFailed)) as caught:
        locked.add(name)
    assert name in f"{caught.value.summary} {caught.value.context}"
    assert what_counts(locked) == before


@pytest.mark.proves("plugins-broken-one-refused")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("breaks", ['breaks/__init__.py", line 4, in <module>', "ValueError: out of order"]),
        ("exits", ['exits/__init__.py", line 2, in <module>', "SystemExit: 0"]),
        ("ends", ["the process was ended at once with 0 by:", 'ends/__init__.py", line 2, in <module>']),
        ("hangs", ['hangs/__init__.py", line 2 in <module>', "Timeout"]),
        (
            "prints",
            ['prints/__init__.py", line 1, in <module>', "printed '{}' to standard output when it was imported"],
        ),
        ("forks", ['forks/__init__.py", line 2, in <module>', "forked when it was imported"]),
        ("nameless", ["AttributeError: module 'nameless' has no attribute 'plugin'"]),
    ],
)
def test_what_a_plugin_must_not_do_at_import_is_shown_where_it_does_it(
    locked: Bench, name: str, said: list[str]
) -> None:
    """Case 104."""
    locked.call("config-set", key="install.import-limit", value="1")
    before = what_counts(locked)
    with pytest.raises(HealthCheckFailed) as caught:
        locked.add(name)
    late = ": it took more than 1 second" if name == "hangs" else ""
    assert caught.value.summary.endswith(f"an import failed: {name}{late}")
    assert caught.value.hint == f"leave out {name}, or have another version of it"
    assert all(text in str(caught.value.context["output"]) for text in said), caught.value.context["output"]
    assert what_counts(locked) == before


@pytest.mark.proves("plugins-files-collide")
def test_two_plugins_that_write_the_same_file_differently_are_refused_by_name(locked: Bench) -> None:
    """Case 100."""
    locked.add("owner", "twin")
    before = what_counts(locked)
    with pytest.raises(ConflictRefused) as caught:
        locked.add("rival")
    assert caught.value.exit_code == 4
    assert re.fullmatch(
        r"owner-1\.0 and rival-1\.0 do not go together: both write \S+/shared/__init__\.py, with different contents",
        caught.value.summary,
    )
    assert what_counts(locked) == before


@pytest.mark.proves("plugins-broken-one-refused")
def test_names_of_plugins_keep_their_case_and_order(locked: Bench) -> None:
    locked.add("Shouter", "extras-entry", "library")
    assert [(plugin["name"], plugin["entry"]) for plugin in locked.current.record["plugins"]] == [
        ("clock", "fakehost_clock:plugin"),
        ("LOUD", "shouter:plugin"),
        ("Loud", "shouter:plugin"),
        ("extra", "extras_entry:plugin"),
    ]

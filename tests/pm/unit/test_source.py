"""The one written form of a source, and what is no source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.requirement import find_entry_problem, find_requirement_problem, parse_source, requirement_name
from perdure_pm.model.source import Source, file_entry, git_entry, looks_like_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("notify @ file:///srv/notify", "directory", "/srv/notify"),
        ("Notify[web,mail] @ file:///srv/my%20plugin", "directory", "/srv/my plugin"),
        ("notify @ file://localhost/srv/notify-1.0-py3-none-any.whl", "wheel", "/srv/notify-1.0-py3-none-any.whl"),
        ("notify @ file:///srv/notify-1.0.tar.gz", "sdist", "/srv/notify-1.0.tar.gz"),
        ("notify @ file:///srv/notify-1.0.zip", "sdist", "/srv/notify-1.0.zip"),
    ],
)
def test_files_and_directories(text: str, kind: str, path: str) -> None:
    found = parse_source(text)
    assert found is not None
    assert (found.name, found.kind, found.path, found.entry) == ("notify", kind, path, text)
    assert requirement_name(text) == "notify"


def test_a_commit_of_a_repository() -> None:
    text = f"notify @ git+ssh://git@example.invalid/notify.git@{COMMIT}#subdirectory=plugins/notify"
    assert parse_source(text) == Source(
        entry=text,
        name="notify",
        extras=(),
        kind="git",
        url="ssh://git@example.invalid/notify.git",
        commit=COMMIT,
        subdirectory="plugins/notify",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("notify @ https://example.invalid/notify-1.0-py3-none-any.whl", "https is no address of a plugin"),
        ("notify @ git+https://example.invalid/notify.git", "all 40 digits of a commit"),
        ("notify @ git+https://example.invalid/notify.git@main", "all 40 digits of a commit, not main"),
        (f"notify @ git+https://u:p@example.invalid/n.git@{COMMIT}", "must not hold a user or a password"),
        (f"notify @ git+https://example.invalid/n.git@{COMMIT}#subdirectory=../x", "leads out of the repository"),
        ("notify @ file://host/srv/notify", "must be file:// and an absolute path"),
        ("notify @ file:///srv/notify#egg=x", "and nothing behind it but #editable"),
        ("notify @ file:///srv/notify-1.0.tar.gz#editable", "only a directory can be edited"),
        (f"notify @ git+https://example.invalid/n.git@{COMMIT}#editable", "a commit cannot be edited"),
        ("notify @ file:///srv/notify ; sys_platform == 'linux'", "takes no marker"),
    ],
)
def test_what_is_no_source_is_said(text: str, said: str) -> None:
    problem = find_entry_problem(text)
    assert problem is not None
    assert said in problem
    with pytest.raises(UsageFault):
        parse_source(text)


def test_an_index_requirement_has_no_address() -> None:
    assert find_requirement_problem("notify @ file:///srv/notify")
    assert find_entry_problem("notify>=1,<2") is None
    assert parse_source("notify>=1,<2") is None


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=30))
def test_every_path_comes_back_from_its_entry(name: str) -> None:
    path = f"/srv/{name.replace('/', '-')}"
    entry = file_entry("notify", path, ["a"])
    found = parse_source(entry)
    assert found is not None
    assert (found.path, found.extras) == (path, ("a",))
    assert Requirement(entry).url is not None


def test_an_entry_of_a_commit_reads_as_what_it_was_made_of() -> None:
    entry = git_entry("notify", "https://example.invalid/a b.git", COMMIT, "x/y")
    found = parse_source(entry.replace(" b", "%20b"))
    assert found is not None
    assert (found.commit, found.subdirectory) == (COMMIT, "x/y")


@pytest.mark.parametrize(
    ("word", "path"),
    [("./x", True), ("~/x", True), ("x/y", True), ("x.whl", True), ("x.tar.gz", True), ("x", False), ("x>=1", False)],
)
def test_what_is_typed_as_a_path(word: str, path: bool) -> None:
    assert looks_like_path(word) is path


@pytest.mark.parametrize("text", ["notify_", "notify-", "notify_>=1", "notify.", "_notify"])
def test_a_name_that_no_index_takes_is_told_before_one_is_asked(text: str) -> None:
    assert (find_requirement_problem(text) or "").endswith(f"is the text {text!r}")
    with pytest.raises(UsageFault):
        requirement_name(text)

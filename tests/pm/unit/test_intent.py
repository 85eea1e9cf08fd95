"""The configuration that follows a commit: what is written down before it, and who wins afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.choice import Choice
from perdure_pm.model.errors import ConfigInvalid
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Context
from perdure_pm.ops.intent import (
    align_profile,
    finish_pending,
    is_unchanged,
    load_intent,
    plan_choice,
    write_host,
    write_pending,
)
from perdure_pm.store.layout import Layout
from tests.pm.bench import Listening
from tests.pm.sample_home import IDENTITY, select_generation, snapshot

OTHER = "2-0123456789ab"
TEXT = "# mine\nschema: 1\nplugins:\n- a\n- b # why\n"


@pytest.fixture
def context(home: Path) -> Context:
    layout = Layout(home)
    layout.profile("default").mkdir(parents=True)
    layout.pm.mkdir()
    return Context(
        layout=layout,
        filesystem=LocalFilesystem(),
        reporter=Listening(lambda stage: None),
        network=Network(),
        clock=lambda: datetime(2026, 11, 29, tzinfo=UTC),
        environ={},
        profile="default",
        correlation="",
    )


def config(context: Context) -> Path:
    return context.layout.profile_config("default")


def note(context: Context, plugins: list[str], generation: str = IDENTITY) -> str:
    """Have it written down that the list becomes `plugins`, and return the text that it gives."""
    intent = load_intent(context)
    text = plan_choice(intent, Choice(plugins=tuple(plugins), disabled=intent.disabled))
    write_pending(context, intent.profile_file, text, generation)
    return text


@pytest.mark.proves("intent-hand-edit-wins")
@pytest.mark.parametrize("before", [None, "", TEXT, TEXT.replace("\n", "\r\n"), "plugins: [a]\n", "schema: 1\n"])
def test_after_the_commit_the_file_says_what_runs(context: Context, before: str | None) -> None:
    if before is not None:
        config(context).write_bytes(before.encode())
    text = note(context, ["a", "c>=1,<2"])
    assert (config(context).read_bytes() if config(context).exists() else None) == (
        None if before is None else before.encode()
    )
    select_generation(context.layout)
    for _ in range(2):  # twice is harmless
        assert finish_pending(context) == ()
        assert config(context).read_bytes() == text.encode()
        assert load_intent(context).plugins == ("a", "c>=1,<2")
    assert not context.layout.pending_intent("default").exists()
    if before and "\r\n" in before:
        assert text.count("\n") == text.count("\r\n")


@pytest.mark.proves("intent-hand-edit-wins")
@pytest.mark.parametrize("pointer", ["nothing", OTHER, "damaged"])
def test_what_was_not_committed_is_dropped(context: Context, pointer: str) -> None:
    config(context).write_text(TEXT)
    note(context, ["c"])
    if pointer != "nothing":
        select_generation(context.layout, pointer)
    assert finish_pending(context) == ()
    assert (config(context).read_text(), context.layout.pending_intent("default").exists()) == (TEXT, False)


@pytest.mark.proves("intent-hand-edit-wins")
@pytest.mark.parametrize("edit", [TEXT + "# more\n", "", "broken: [", None])
def test_a_hand_edit_since_then_stays_and_is_told(context: Context, edit: str | None) -> None:
    config(context).write_text(TEXT)
    note(context, ["c"])
    select_generation(context.layout)
    if edit is None:
        config(context).unlink()
    else:
        config(context).write_text(edit)
    (said,) = finish_pending(context)
    assert IDENTITY in said
    assert "your edit stays" in said
    assert (config(context).read_text() if config(context).exists() else None) == edit
    assert finish_pending(context) == ()


@pytest.mark.proves("intent-hand-edit-wins")
def test_an_edit_that_says_the_same_is_no_conflict(context: Context) -> None:
    config(context).write_text(TEXT)
    text = note(context, ["c"])
    select_generation(context.layout)
    config(context).write_text(text)
    assert finish_pending(context) == ()
    assert config(context).read_text() == text


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"generation": 7}', b"\xff"])
def test_a_damaged_note_is_dropped(context: Context, data: bytes) -> None:
    config(context).write_text(TEXT)
    select_generation(context.layout)
    context.layout.pending_intent("default").write_bytes(data)
    assert finish_pending(context) == ()
    assert (config(context).read_text(), context.layout.pending_intent("default").exists()) == (TEXT, False)


def test_nothing_is_noted_where_the_file_says_it_already(context: Context) -> None:
    config(context).write_text(TEXT)
    note(context, ["c"])
    intent = load_intent(context)
    write_pending(context, intent.profile_file, TEXT, IDENTITY)
    assert not context.layout.pending_intent("default").exists()


@pytest.mark.proves("rollback-config-follows")
def test_a_profile_that_never_listed_plugins_still_does_not_after_a_rollback(context: Context) -> None:
    align_profile(context, ["a"], IDENTITY)
    assert not context.layout.pending_intent("default").exists()
    config(context).write_text(TEXT)
    align_profile(context, ["a", "b"], IDENTITY)
    assert not context.layout.pending_intent("default").exists()
    align_profile(context, ["a"], IDENTITY)
    assert json.loads(context.layout.pending_intent("default").read_text())["text"] == TEXT.replace("- b # why\n", "")


def test_every_change_of_either_file_is_seen(context: Context) -> None:
    config(context).write_text(TEXT)
    intent = load_intent(context)
    assert is_unchanged(context.layout, intent)
    for path in (config(context), context.layout.config):
        before = path.read_text() if path.exists() else None
        path.write_text("schema: 1\n# more\n")
        assert not is_unchanged(context.layout, intent)
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
        assert is_unchanged(context.layout, intent)


def test_faults_are_told_and_nothing_is_written(context: Context) -> None:
    config(context).write_text("plugins: 7\nschema: 9\n")
    load_before = snapshot(context.layout.home)
    with pytest.raises(ConfigInvalid):
        load_intent(context)
    after = snapshot(context.layout.home)
    assert {name: data for name, data in after.items() if name != "pm/policy"} == load_before


@pytest.mark.proves("intent-hand-edit-wins")
def test_the_host_is_written_once_and_never_over_an_edit(context: Context) -> None:
    path = context.layout.config
    path.write_text("# mine\nschema: 1\n")
    intent = load_intent(context)
    path.write_text("# mine, edited\nschema: 1\n")
    write_host(context, intent, "perdure", Path("/src"))
    assert path.read_text() == "# mine, edited\nschema: 1\n"
    write_host(context, load_intent(context), "perdure", Path("/src"))
    text = path.read_text()
    assert text.startswith("# mine, edited\nschema: 1\n")
    assert (load_intent(context).home.host_checkout, "perdure" in text) == ("/src", True)
    inode = path.stat().st_ino
    write_host(context, load_intent(context), "perdure", Path("/src"))
    assert path.stat().st_ino == inode

"""Whether a sealed generation can be started: the quick check before it is selected."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ops.soundness import find_damage, require_sound
from perdure_pm.store.generations import Generation, load_generation
from perdure_pm.store.inventory import take_inventory
from perdure_pm.store.layout import Layout
from tests.pm.sample_home import IDENTITY, make_generation

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


@pytest.fixture
def sound(layout: Layout) -> Generation:
    """A generation whose list of files is true."""
    path = make_generation(layout, interpreter=running_interpreter().to_json())
    (path / "files.json").write_bytes(take_inventory(path).to_bytes())
    return load_generation(layout, IDENTITY)


def test_a_whole_generation_is_sound(layout: Layout, sound: Generation) -> None:
    assert find_damage(layout, sound) == ""
    require_sound(layout, sound)


def _pretend(generation: Generation, version: str) -> None:
    answer = json.dumps({"path": "/usr/bin/python3", "version": version, "implementation": "CPython"})
    generation.python.unlink()
    generation.python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    generation.python.chmod(0o755)


def _dangling(folder: Path) -> Path:
    (folder / "link").symlink_to("/nowhere/python")
    return folder / "link"


MAJOR, MINOR = sys.version_info[:2]
DAMAGES: dict[str, tuple[Callable[[Generation], object], str]] = {
    "a file is gone": (lambda it: (it.scripts / "hello").unlink(), "venv/bin/hello: is missing"),
    "a file is longer": (lambda it: (it.path / "boot.json").write_text("{}"), "boot.json: has 2 bytes instead of"),
    "a link is gone": (lambda it: it.python.unlink(), "venv/bin/python: is missing"),
    "the link leads nowhere": (lambda it: os.replace(_dangling(it.path), it.python), "is gone"),
    "the list is gone": (lambda it: (it.path / "files.json").unlink(), "files.json cannot be read"),
    "the list is none": (lambda it: (it.path / "files.json").write_text("[]"), "files.json cannot be read"),
    "the interpreter is an older one": (
        lambda it: _pretend(it, f"{MAJOR}.{MINOR - 1}.9"),
        f"its interpreter is now {MAJOR}.{MINOR - 1}.9",
    ),
    "the interpreter is a newer one": (lambda it: _pretend(it, f"{MAJOR}.{MINOR + 1}.0"), "it was built for Python"),
    "the interpreter says nothing": (lambda it: _pretend(it, "'; exit 1; '"), "is not a Python that runs"),
}


@pytest.mark.proves("rollback-refuses")
@pytest.mark.parametrize("name", list(DAMAGES))
def test_what_keeps_it_from_starting_is_named(layout: Layout, sound: Generation, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(sound)
    assert words in find_damage(layout, sound)
    with pytest.raises(IntegrityFault) as caught:
        require_sound(layout, sound)
    assert caught.value.context["generation"] == IDENTITY


def test_another_patch_version_of_the_same_minor_one_finds_its_packages(layout: Layout, sound: Generation) -> None:
    _pretend(sound, f"{MAJOR}.{MINOR}.99")
    assert find_damage(layout, sound) == ""


@pytest.mark.proves("rollback-refuses")
def test_a_list_of_files_behind_a_link_is_not_read(layout: Layout, sound: Generation, tmp_path: Path) -> None:
    os.rename(sound.path / "files.json", tmp_path / "files.json")
    (sound.path / "files.json").symlink_to(tmp_path / "files.json")
    assert "link" in find_damage(layout, sound)

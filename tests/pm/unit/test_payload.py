"""What a payload must be before anything of it is used, and what a home must be to get it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import Interpreter, target_name
from perdure_pm.model.errors import IntegrityFault, InterpreterMissing, PlatformUnsupported, UsageFault
from perdure_pm.ops.payload import load_payload, require_python, require_room, unpack
from perdure_pm.store.inventory import FILE_NAME, take_inventory
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Listening
from tests.pm.sample_home import IDENTITY, make_generation, select_generation, snapshot


def seal(folder: Path, **changes: object) -> Path:
    """Have the files of a payload sealed as they are, with these words about it."""
    said = {"schema": 1, "target": target_name(), "python": "3.12", "interpreter": None, **changes}
    (folder / "payload.json").write_text(json.dumps(said), encoding="utf-8")
    (folder / FILE_NAME).unlink(missing_ok=True)
    (folder / FILE_NAME).write_bytes(take_inventory(folder).to_bytes())
    return folder


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    folder = tmp_path / "payload"
    for name in (
        "content/config.yaml",
        "content/store/releases/abc/a.whl",
        "content/python/cp/bin/python3.12",
        "wheelhouse/b",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    (folder / "content" / "python" / "cp" / "bin" / "python3").symlink_to("python3.12")
    return seal(folder, interpreter="python/cp/bin/python3.12")


@pytest.mark.proves("payload-sealed")
def test_a_payload_as_it_was_made_is_copied_into_a_home_with_its_times_links_and_programs(
    payload: Path, home: Path
) -> None:
    layout = Layout(home)
    program = payload / "content" / "python" / "cp" / "bin" / "python3.12"
    program.chmod(0o600)
    found = load_payload(payload)
    assert (found.python, found.interpreter, found.wheelhouse) == (
        "3.12",
        "python/cp/bin/python3.12",
        payload / "wheelhouse",
    )
    for _ in ("once", "carried on"):
        require_room(layout, found)
        unpack(layout, LocalFilesystem(), Listening(lambda stage: None), found)
        copy = home / "python" / "cp" / "bin" / "python3.12"
        assert copy.read_text(encoding="utf-8") == "content/python/cp/bin/python3.12"
        assert copy.stat().st_mtime_ns == program.stat().st_mtime_ns
        assert os.access(copy, os.X_OK)
        assert os.readlink(copy.with_name("python3")) == "python3.12"
        assert not (home / "wheelhouse").exists()
        assert layout.release("abc").stat().st_mode & 0o222 == 0
    LocalFilesystem().remove_tree(layout.activation)
    with pytest.raises(UsageFault, match=r"is not empty \(config\.yaml, pm, python, store\)"):
        require_room(layout, found)


@pytest.mark.proves("payload-resumed")
def test_a_generation_that_was_built_already_stays_selected_when_the_rest_is_carried_on(
    payload: Path, home: Path
) -> None:
    layout = Layout(home)
    pointer = payload / "content" / "profiles" / "default" / "current"
    pointer.parent.mkdir(parents=True)
    pointer.write_text(f"{IDENTITY}\n", encoding="ascii")
    found = load_payload(seal(payload))
    unpack(layout, LocalFilesystem(), Listening(lambda stage: None), found)
    assert load_pointer(layout, "default") == IDENTITY
    built = "2-ba9876543210"
    select_generation(layout, f"{built}\n")
    unpack(layout, LocalFilesystem(), Listening(lambda stage: None), found)
    assert load_pointer(layout, "default") == IDENTITY, "what it named was never sealed"
    make_generation(layout, built)
    select_generation(layout, f"{built}\n")
    unpack(layout, LocalFilesystem(), Listening(lambda stage: None), found)
    assert load_pointer(layout, "default") == built


@pytest.mark.proves("payload-resumed")
def test_another_payloads_activation_and_anything_else_in_a_home_is_left_alone(payload: Path, home: Path) -> None:
    layout = Layout(home)
    (home / "state").mkdir(parents=True)
    (home / "mutex").touch()
    require_room(layout, load_payload(payload))  # what an application keeps may be there already
    unpack(layout, LocalFilesystem(), Listening(lambda stage: None), load_payload(payload))
    (payload / "wheelhouse" / "c").touch()
    other = load_payload(seal(payload))
    before = snapshot(home)
    with pytest.raises(UsageFault, match="is not empty"):
        require_room(layout, other)
    assert snapshot(home) == before


@pytest.mark.proves("payload-sealed")
def test_what_was_changed_or_is_missing_is_named(payload: Path) -> None:
    (payload / "wheelhouse" / "b").write_text("wheelhouse/B", encoding="utf-8")
    (payload / "content" / "config.yaml").unlink()
    with pytest.raises(IntegrityFault) as caught:
        load_payload(payload)
    assert "content/config.yaml: is missing, wheelhouse/b: has other contents" in caught.value.summary
    assert str(caught.value.hint).startswith("reinstall ")
    (payload / FILE_NAME).unlink()
    with pytest.raises(UsageFault, match="is no payload"):
        load_payload(payload)


@pytest.mark.proves("payload-sealed")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, "it has schema 2, and 1 is what this version reads"),
        ({"python": None, "interpreter": "../../bin/sh"}, "names a place outside itself: ../../bin/sh"),
        ({"interpreter": "/bin/sh"}, "names a place outside itself: /bin/sh"),
        ({"interpreter": "python/cp/bin/absent"}, "names a place outside itself: python/cp/bin/absent"),
    ],
)
def test_a_marker_that_leads_outside_or_is_of_another_form_is_refused(
    payload: Path, changes: dict[str, object], words: str
) -> None:
    """Case 10."""
    with pytest.raises(IntegrityFault) as caught:
        load_payload(seal(payload, **changes))
    assert words in caught.value.summary
    assert str(caught.value.hint).startswith("reinstall ")


@pytest.mark.proves("payload-sealed")
@pytest.mark.parametrize("way", ["link", "absolute link", "folder", "name", "absolute name"])
def test_no_link_and_no_name_leads_out_of_a_payload(payload: Path, tmp_path: Path, way: str) -> None:
    """Case 10: also where somebody sealed it so."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_text("wheelhouse/b", encoding="utf-8")
    if way == "link":
        (payload / "content" / "link").symlink_to("../../outside/b")
        seal(payload)
    elif way == "absolute link":
        (payload / "content" / "link").symlink_to(outside / "b")
        seal(payload)
    elif way == "folder":
        (payload / "wheelhouse" / "b").unlink()
        (payload / "wheelhouse").rmdir()
        (payload / "wheelhouse").symlink_to(outside)
    else:
        listed = json.loads((payload / FILE_NAME).read_bytes())
        name = "content/../../outside/b" if way == "name" else str(outside / "b")
        listed["files"][name] = listed["files"]["wheelhouse/b"]
        (payload / FILE_NAME).write_text(json.dumps(listed), encoding="utf-8")
    with pytest.raises(IntegrityFault, match="names a place outside itself"):
        load_payload(payload)


@pytest.mark.proves("payload-sealed")
def test_another_machine_and_another_python_are_told_with_both_names(payload: Path) -> None:
    found = load_payload(payload)
    assert require_python(found, Interpreter(Path("/p"), "3.12.9", "CPython")) == Path("/p")
    with pytest.raises(InterpreterMissing, match=r"is for Python 3\.12, and /p is 3\.13"):
        require_python(found, Interpreter(Path("/p"), "3.13.1", "CPython"))
    with pytest.raises(PlatformUnsupported, match=f"is for amiga-68k, and this machine is {target_name()}"):
        load_payload(seal(payload, target="amiga-68k"))

"""A profile's app.yaml: taken whole, or a fault that names its place."""

import os
from pathlib import Path

import pytest

from perdure.app_file import MAX_BYTES, SECTIONS, AppFile, AppFileUnfit, find_app_file
from perdure.domain.layers import Layer, layers_to_json, show_layer
from perdure.installation import find_installation

pytestmark = pytest.mark.proves("app-file-read-whole")


def written(folder: Path, text: str | bytes) -> AppFile:
    """Return the file with this text."""
    path = folder / "app.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return AppFile(path)


def test_a_section_is_what_was_written_there(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeff# mine\njail: {policy: require}\n")
    assert (file.section("jail"), file.section("plugins")) == ({"policy": "require"}, None)
    file.require_known()


@pytest.mark.parametrize("file", [AppFile(None), AppFile(Path("/nowhere/app.yaml"))])
def test_no_file_has_no_settings(file: AppFile) -> None:
    assert [file.section(name) for name in SECTIONS] == [None] * len(SECTIONS)
    file.require_known()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jail: [", "cannot be read"),
        (b"jail: \xff", "cannot be read"),
        ("- jail", "must be a mapping"),
        ("jail: off\njail: require\n", "cannot be read"),
        ("[" * 9000, "cannot be read"),
        ("jail: {since: 2026-99-99}", "cannot be read"),
        ("jail: !!int x", "cannot be read"),
        (b"#" * (MAX_BYTES + 1), "is larger than"),
    ],
)
def test_what_cannot_be_read_is_a_fault_each_time_it_is_asked_for(tmp_path: Path, text: str | bytes, said: str) -> None:
    file = written(tmp_path, text)
    for _ in range(2):
        with pytest.raises(AppFileUnfit, match=said) as caught:
            file.section("jail")
        assert str(caught.value).startswith(str(file.path))


@pytest.mark.skipif(os.name == "nt", reason="neither is there")
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "app.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(AppFileUnfit, match="not a file"):
        AppFile(path).section("approvals")


def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(AppFileUnfit, match="cannot be read"):
        AppFile(path).section("jail")


def test_a_misspelt_section_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    file = written(tmp_path, "jial: require\n1: x\n")
    with pytest.raises(AppFileUnfit, match=r"there is no section 1, jial; the sections are approvals, .*jail"):
        file.require_known()


def test_a_profile_that_is_not_there_is_no_profile_without_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    installation = find_installation(str(tmp_path / "venv"), "/usr/bin/python3", {"PERDURE_HOME": str(home)})
    assert find_app_file(installation, {}).path == home / "profiles" / "default" / "app.yaml"
    (home / "profiles" / "default").mkdir(parents=True)
    assert find_app_file(installation, {}).section("jail") is None
    with pytest.raises(AppFileUnfit, match=f"there is no profile other in {home}"):
        find_app_file(installation, {"PERDURE_PROFILE": "other"}).section("jail")
    with pytest.raises(AppFileUnfit, match="which is no profile's name"):
        find_app_file(installation, {"PERDURE_PROFILE": "../default"}).require_known()


@pytest.mark.proves("layers-told")
def test_a_layer_is_on_or_says_why_not() -> None:
    jail, floor = Layer(name="jail", why_not="there is no bwrap"), Layer(name="floor")
    assert layers_to_json((jail, floor)) == {
        "jail": {"active": False, "why_not": "there is no bwrap", "gap": None},
        "floor": {"active": True, "why_not": None, "gap": None},
    }
    assert (show_layer(jail), show_layer(floor)) == ("off: there is no bwrap", "on")
    for nothing in ("", "two\nlines"):
        with pytest.raises(ValueError, match="layer jail"):
            Layer(name="jail", why_not=nothing)

"""Where a process runs from, and what its messages may tell a person to type."""

import shlex
import sys
from pathlib import Path

import pytest

from perdure.app_file import AppFile
from perdure.domain.errors import BootInvalid, BootMissing
from perdure.installation import Installation, find_installation
from perdure.plugin_settings import find_settings
from tests.app.conftest import IDENTITY, Generation


@pytest.mark.proves("app-outside-a-generation")
@pytest.mark.parametrize(
    ("prefix", "generation", "home"),
    [
        (f"/h/store/generations/{IDENTITY}/venv", f"/h/store/generations/{IDENTITY}", "/h"),
        # The launcher starts at its own place and goes up from there.
        (f"/h/bin/../store/generations/{IDENTITY}/venv", f"/h/store/generations/{IDENTITY}", "/h"),
        ("/checkout/.venv", None, "/chosen"),
        ("/usr", None, "/chosen"),
        ("/", None, "/chosen"),
        ("/h/pm/runtimes/1/venv", None, "/chosen"),
        ("/h/store/generations/venv", None, "/chosen"),
    ],
)
def test_a_generation_is_known_by_its_place(prefix: str, generation: str | None, home: str) -> None:
    assert find_installation(prefix, "/python", {"PERDURE_HOME": "/chosen"}) == Installation(
        executable=Path("/python"),
        generation=None if generation is None else Path(generation),
        home=Path(home),
    )


@pytest.mark.proves("app-managed-installation")
@pytest.mark.platforms("linux", "darwin")
def test_what_nix_installed_is_known_by_the_stamp_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "perdure-0.1.0"
    (place / "bin").mkdir(parents=True)
    prefix = str(place / "venv")
    assert find_installation(prefix, "/python", {"PERDURE_HOME": "/chosen"}).generation is None
    (place / "install.json").write_text("{}", encoding="utf-8")
    found = find_installation(prefix, "/python", {"PERDURE_HOME": "/chosen"})
    assert (found.generation, found.home, found.managed) == (place, Path("/chosen"), True)
    assert found.pm_launcher == place / "bin/perdure-pm"
    for name in ("perdure", "perdure-pm"):
        (place / "bin" / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (place / "bin" / name).chmod(0o755)
    assert found.app_command("tools") == f"{place}/bin/perdure tools"
    assert found.pm_command("status") == f"{place}/bin/perdure-pm status"
    # No profile's pointer selects it, and what a person set is judged all the same.
    assert not find_settings(found, AppFile(tmp_path / "app.yaml")).tried
    # PM refuses these there.
    assert found.pm_command("install") == "nix-store --verify --check-contents --repair"


@pytest.mark.proves("app-outside-a-generation")
@pytest.mark.platforms("linux")
def test_outside_a_generation_the_home_is_the_users_data_directory() -> None:
    user = Path("~").expanduser()
    for environ, home in (
        ({"PERDURE_HOME": "/chosen", "XDG_DATA_HOME": "/data"}, Path("/chosen")),
        ({"PERDURE_HOME": "", "XDG_DATA_HOME": "/data"}, Path("/data/perdure")),
        ({"XDG_DATA_HOME": "relative"}, user / ".local" / "share" / "perdure"),
        ({}, user / ".local" / "share" / "perdure"),
    ):
        assert find_installation("/usr", "/python", environ).home == home


def installed(generation: Generation) -> Installation:
    return find_installation(str(generation.venv), str(generation.python), {})


@pytest.mark.proves("app-outside-a-generation")
def test_outside_a_generation_there_is_no_boot_manifest_to_read() -> None:
    assert find_installation("/usr", "/python", {}).load_boot() is None


@pytest.mark.proves("app-boot-faults-named", "app-hints-run")
def test_a_missing_boot_manifest_is_told_with_pms_command(generation: Generation) -> None:
    generation.boot_path.unlink()
    launcher = generation.launcher("perdure-pm", "exit 0\n")
    with pytest.raises(BootMissing) as caught:
        installed(generation).load_boot()
    assert caught.value.to_json() == {
        "code": "boot-missing",
        "summary": f"{generation.boot_path} is missing: this generation does not say which plugins it holds",
        "context": {"path": str(generation.boot_path)},
        "hint": shlex.join([str(launcher), "install"]),
        "retry": "after-change",
    }


@pytest.mark.proves("app-boot-faults-named")
def test_a_boot_manifest_that_is_none_is_told_with_its_faults(generation: Generation) -> None:
    generation.boot(schema=9)
    with pytest.raises(BootInvalid) as caught:
        installed(generation).load_boot()
    fault = "$.schema is 9; this version of perdure reads schema 1"
    assert caught.value.summary == f"{generation.boot_path} is not a boot manifest: {fault}"
    assert caught.value.context == {"path": str(generation.boot_path), "faults": [fault]}


@pytest.mark.proves("app-boot-faults-named")
@pytest.mark.parametrize("what", ["directory", "bytes"])
def test_a_boot_manifest_that_cannot_be_read_is_told(generation: Generation, what: str) -> None:
    generation.boot_path.unlink()
    if what == "directory":
        generation.boot_path.mkdir()
    else:
        generation.boot_path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BootInvalid) as caught:
        installed(generation).load_boot()
    assert caught.value.summary.startswith(f"{generation.boot_path} cannot be read: ")


@pytest.mark.proves("app-hints-run")
def test_hints_name_what_is_there(generation: Generation) -> None:
    installation = installed(generation)
    home = str(generation.home)
    without = f"python3 pm/bootstrap.py --home {shlex.quote(home)} up   (in a checkout of Perdure)"
    assert installation.pm_command("status") == without
    assert installation.app_command("tools") == shlex.join([str(generation.python), "-m", "perdure", "tools"])
    pm, app = (generation.launcher(name, "exit 0\n") for name in ("perdure-pm", "perdure"))
    assert shlex.split(installation.pm_command("status")) == [str(pm), "status"]
    assert shlex.split(installation.app_command("tools", "--json")) == [str(app), "tools", "--json"]
    app.chmod(0o644)
    assert shlex.split(installation.app_command("tools")) == [str(generation.python), "-m", "perdure", "tools"]


@pytest.mark.proves("app-hints-run")
def test_outside_a_generation_hints_name_this_interpreter_even_where_a_home_has_an_app(generation: Generation) -> None:
    generation.launcher("perdure", "exit 0\n")
    outside = find_installation("/usr", sys.executable, {"PERDURE_HOME": str(generation.home)})
    assert outside.app_command("tools") == shlex.join([sys.executable, "-m", "perdure", "tools"])

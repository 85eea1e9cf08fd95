"""What is carried to a machine without a network, made and used for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.ops.space import estimate_bytes
from perdure_pm.store.generations import load_generation
from perdure_pm.store.layout import Layout
from tests.pm.wheels import write_wheel
from tests.system.machine import Installation, copy_home, fingerprint, plain_environment
from tests.system.test_mirrors import require_same_packages

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture(scope="module")
def house(installed: Installation, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheelhouse that a copy of the installed home made of what it runs; nobody changes it."""
    folder = tmp_path_factory.mktemp("carried")
    out = folder / "wheel house"
    maker = replace(installed, home=copy_home(installed.home, folder / "home"))
    answer = maker.with_environment(PERDURE_INDEX_URL=index.as_uri()).pm("wheelhouse", "build", "--out", out, "--json")
    answer.succeeded()
    LocalFilesystem().remove_tree(maker.home)
    said = json.loads((out / "wheelhouse.json").read_bytes())
    there = sorted(path.name for path in out.glob("*.whl"))
    assert sorted(item["name"] for item in said["files"]) == answer.json["data"]["files"] == there
    return out


@pytest.fixture
def own_house(house: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed at will."""
    return Path(shutil.copytree(house, tmp_path / "house"))


@pytest.fixture
def elsewhere(installed: Installation, new_home: Path, without_network: tuple[str, ...]) -> Installation:
    """A machine without a network, with the checkout and nothing installed."""
    return replace(installed, home=new_home, prefix=without_network)


@pytest.mark.proves("wheelhouse-whole")
def test_with_a_wheelhouse_install_plugin_add_and_repair_work_without_a_network(
    installed: Installation, elsewhere: Installation, own_house: Path
) -> None:
    """Case 106."""
    ways = ("--offline", "--wheelhouse", own_house)
    elsewhere.up(*ways).succeeded()
    require_same_packages(elsewhere, installed)
    # It is extended by putting more into it.
    write_wheel(own_house, "notify", "1.0", requires=["helper"], source="import sys\nplugin = sys.modules[__name__]\n")
    write_wheel(own_house, "helper", "1.0", entries="")
    added = elsewhere.pm("plugin", "add", "notify", "--json", *ways).succeeded()
    packages = {change["name"] for change in added.json["data"]["plan"]["packages"]}
    assert packages == {"notify", "helper"}
    LocalFilesystem().remove_tree(elsewhere.home / "cache" / "uv")
    LocalFilesystem().remove_tree(elsewhere.generation_path / "venv")
    elsewhere.pm("repair", *ways).succeeded()
    assert "notify" in elsewhere.pm("plugin", "list").succeeded().out
    elsewhere.perdure("plugins", "--check").succeeded()


@pytest.mark.proves("wheelhouse-checked")
def test_what_a_wheelhouse_lacks_or_has_wrong_is_named_before_anything_is_built(
    elsewhere: Installation, own_house: Path
) -> None:
    (gone,) = own_house.glob("mdurl-*.whl")
    gone.unlink()
    answer = elsewhere.up("--wheelhouse", own_house)
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert answer.error["context"]["missing"] == [gone.name]
    (wrong,) = own_house.glob("click-*.whl")
    wrong.write_bytes(wrong.read_bytes() + b"x")
    answer = elsewhere.up("--wheelhouse", own_house)
    assert (answer.code, answer.error["code"]) == (8, "integrity")
    assert answer.error["context"]["wrong"] == [wrong.name]
    assert not (elsewhere.home / "tools").exists()


@pytest.mark.proves("wheelhouse-whole")
def test_a_wheelhouse_that_cannot_be_whole_is_not_there_and_all_that_is_missing_is_named(
    own: Installation, index: Path, tmp_path: Path
) -> None:
    """Case 8: wheels that only other wheels need; and wheels that no index has for another machine."""
    shutil.copytree(index.parent / "wheels", tmp_path / "wheels")
    shutil.copytree(index, tmp_path / "simple", ignore=shutil.ignore_patterns("mdurl", "typing-extensions"))
    there = own.with_environment(PERDURE_INDEX_URL=(tmp_path / "simple").as_uri())
    out = tmp_path / "out" / "house"
    out.parent.mkdir()
    answer = there.pm("wheelhouse", "build", "--out", out, "--json")
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert [name.split("-")[0] for name in answer.error["context"]["missing"]] == ["mdurl", "typing_extensions"]
    answer = there.pm("wheelhouse", "build", "--out", out, "--json", "--platform", "win32-arm64", "--python", "3.99")
    assert (answer.code, answer.error["code"]) == (1, "platform-unsupported")
    unavailable = [text.split()[0] for text in answer.error["context"]["unavailable"]]
    assert "rpds-py" in unavailable
    assert f"no wheel for win32-arm64 and Python 3.99: {unavailable[0]} " in answer.error["summary"]
    assert list(out.parent.iterdir()) == []


@pytest.mark.proves("wheelhouse-whole")
@pytest.mark.parametrize("kind", ["directory", "file", "link", "in the home"])
def test_what_is_there_already_is_left_as_it_is(own: Installation, tmp_path: Path, kind: str) -> None:
    """Case 9."""
    folder = tmp_path / "place"
    folder.mkdir()
    out = folder / "out"
    if kind == "directory":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine", encoding="utf-8")
    elif kind == "link":
        out.symlink_to(tmp_path / "nowhere")
    else:
        out = own.home / "out"
    before = fingerprint(folder)
    for words in ((), ("--dry-run",)):
        answer = own.pm("wheelhouse", "build", "--out", out, "--json", *words)
        assert (answer.code, answer.error["code"]) == (2, "usage")
        assert str(out) in answer.error["summary"]
    assert fingerprint(folder) == before


@pytest.mark.proves("wheelhouse-whole")
def test_a_wheelhouse_for_another_machine_and_python_holds_their_wheels(
    own: Installation, tmp_path: Path, network_environment: Mapping[str, str]
) -> None:
    there = replace(own, environment={**own.environment, **network_environment})
    out = tmp_path / "house"
    words = ("--platform", "darwin-arm64", "--python", "3.13", "--json")
    there.pm("wheelhouse", "build", "--out", out, *words).succeeded()
    names = {path.name for path in out.glob("*.whl")}
    built = {name for name in names if not name.endswith("-none-any.whl")}
    assert {name.split("-")[0] for name in built} >= {"uv", "psutil", "rpds_py"}
    assert all("macosx" in name and "arm64" in name for name in built), built
    assert any("-cp313-cp313-" in name for name in built), built
    answer = replace(there, home=tmp_path / "new").up("--wheelhouse", out)
    assert (answer.code, answer.error["code"]) == (1, "platform-unsupported")
    assert "is for darwin-arm64, and this machine is " in answer.error["summary"]


@pytest.mark.proves("estimate-true")
def test_the_estimate_is_what_a_generation_takes_where_nothing_is_shared_with_the_cache(
    own: Installation, wheels: Path, without_network: tuple[str, ...], figure: Callable[[str], None]
) -> None:
    """The cache lies on another filesystem, so every file of the new generation is a copy."""
    mounted = 'mount -t tmpfs tmpfs "$1/cache" && shift && exec "$@"'
    alone = replace(own, prefix=("unshare", "-m", *without_network[1:], "sh", "-c", mounted, "sh", str(own.home)))
    estimate = estimate_bytes(Layout(own.home), load_generation(Layout(own.home), own.generation))
    (own.generation_path / "boot.json").chmod(0o644)
    (own.generation_path / "boot.json").write_text("{}", encoding="utf-8")  # so that another is built
    answer = alone.pm("repair", "--json", "--wheelhouse", wheels).succeeded()
    (rebuilt,) = answer.json["data"]["rebuilt"]
    assert rebuilt["generation"] == own.generation
    statuses = [path.lstat() for path in (own.generation_path, *own.generation_path.rglob("*"))]
    files = [status for status in statuses if stat.S_ISREG(status.st_mode)]
    assert sum(status.st_nlink > 1 for status in files) < len(files) / 20, "hardly anything is shared"
    taken = sum(status.st_blocks * 512 for status in statuses)
    figure(f"a generation that shares nothing: estimated {estimate / 1e6:.1f} MB, takes {taken / 1e6:.1f} MB")
    assert abs(estimate - taken) < 0.1 * taken


@pytest.mark.proves("restored-from-backup")
def test_what_people_and_applications_wrote_is_back_after_the_commands_of_the_page(
    installed: Installation, index: Path, tmp_path: Path
) -> None:
    """docs/how-to/back-up-and-restore.md: its blocks are run as they stand there."""
    page = (installed.checkout / "docs" / "how-to" / "back-up-and-restore.md").read_text(encoding="utf-8")
    save, restore = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[:2]
    user = tmp_path / "user"
    home = user / ".local" / "share" / "perdure"
    home.parent.mkdir(parents=True)
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.defpath}"
    environment = {**plain_environment(), "HOME": str(user), "PATH": path, "PERDURE_INDEX_URL": index.as_uri()}
    environment.pop("XDG_DATA_HOME", None)
    there = replace(installed, home=copy_home(installed.home, home), environment=environment, cwd=installed.checkout)
    there.pm("config", "set", "install.quarantine", "3").succeeded()
    there.pm("plugin", "disable", "perdure-facts").succeeded()
    wrote = {"state/approvals/one.json": "{}", "profiles/default/app.yaml": "answer: 42  # mine\n"}
    for name, text in wrote.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    kept = (*wrote, "config.yaml", "profiles/default/config.yaml")
    before = {name: (home / name).read_bytes() for name in kept}
    there.run(["sh", "-ec", save]).succeeded()
    LocalFilesystem().remove_tree(home)
    there.run(["sh", "-ec", restore]).succeeded()
    assert {name: (home / name).read_bytes() for name in kept} == before
    assert "facts.machine" not in there.perdure("tools").succeeded().out
    there.pm("plugin", "enable", "perdure-facts").succeeded()
    assert "facts.machine" in there.perdure("tools").succeeded().out
    LocalFilesystem().remove_tree(home)

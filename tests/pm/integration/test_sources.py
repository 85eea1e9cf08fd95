"""Plugins from directories, files and repositories: copied, built once, and never run from where they are edited."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import (
    BuildFailed,
    BuildRefused,
    ConfigInvalid,
    PerdureError,
    SourceUnusable,
    UsageFault,
)
from perdure_pm.model.network import Network
from perdure_pm.ops.snapshots import RECORD
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.pm.plugin_sources import (
    BACKEND,
    commit,
    git,
    project,
    says,
    snapshots,
    without_uv,
    write_files,
    write_plugin,
)
from tests.pm.wheels import write_sdist, write_wheel
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


# A directory


@pytest.mark.proves("snapshot-built-once")
def test_a_directory_is_copied_built_and_runs_from_the_copy(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "my plugin", says="1")
    outcome = bench.call("plugin-add", requirements=[str(folder)])
    entry = f"notify @ file://{tmp_path}/my%20plugin"
    assert outcome.data["added"] == {"notify": entry}
    assert says(bench) == {"fakehost-clock": "0.1.0", "notify": "1"}
    assert entry in bench.config.read_text()
    (folder / "src" / "notify" / "__init__.py").write_text('plugin = "2"\n')
    assert says(bench)["notify"] == "1"  # it does not run from where it is edited
    assert bench.call("install").status == "ok"
    assert says(bench)["notify"] == "2"
    assert len(snapshots(bench)) == 2
    without_uv(bench)
    assert bench.call("install").status == "noop"
    bench.call("rollback")
    assert says(bench)["notify"] == "1"


@pytest.mark.proves("snapshot-built-once")
def test_what_is_no_part_of_a_plugin_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    bench.add(str(folder))
    commit(folder)
    write_files(
        folder,
        {
            "src/notify/__pycache__/x.pyc": "1",
            ".venv/pyvenv.cfg": "",
            "elsewhere/pyvenv.cfg": "",
            "elsewhere/lib/x.py": "",
            "build/x": "",
            "dist/x": "",
            "node_modules/x.js": "",
            "notify.egg-info/PKG-INFO": "",
            "cache/CACHEDIR.TAG": "",
        },
    )
    without_uv(bench)
    assert bench.call("install").status == "noop"
    kept = bench.layout.plugin(snapshots(bench)[0]) / "source"
    assert sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()) == [
        "pyproject.toml",
        "src/notify/__init__.py",
    ]


@pytest.mark.proves("snapshot-outlives-source")
def test_a_directory_that_is_gone_is_taken_from_the_store(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    bench.add(str(folder))
    shutil.rmtree(folder)
    assert bench.call("install").status == "noop"
    outcome = bench.call("plugin-add", requirements=["part-1"])
    assert any("is gone: notify was taken from the store" in said for said in outcome.obligations)
    assert says(bench) == {"fakehost-clock": "0.1.0", "notify": "1", "part-1": "1.0"}


@pytest.mark.proves("snapshot-missing-named")
def test_a_rebuild_without_the_copy_is_refused_and_names_it(bench: Bench, tmp_path: Path) -> None:
    """Case 76."""
    folder = write_plugin(tmp_path / "notify")
    identity = bench.add(str(folder))
    shutil.rmtree(folder)
    LocalFilesystem().remove_tree(bench.layout.plugins)
    assert bench.call("install").status == "noop"  # what runs needs no copy
    LocalFilesystem().remove_tree(bench.layout.generation(identity) / "venv" / "lib")
    before = (bench.config.read_bytes(), bench.current.identity)
    with pytest.raises(SourceUnusable, match=r"the plugin notify is to come from .*, which is gone, and the store has"):
        bench.call("install")
    assert (bench.config.read_bytes(), bench.current.identity) == before
    bench.call("plugin-remove", names=["notify"])  # the hint
    assert says(bench) == {"fakehost-clock": "0.1.0"}


@pytest.mark.proves("snapshot-missing-named")
@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_copy_that_is_gone_or_damaged_is_made_again_from_the_source(bench: Bench, tmp_path: Path, how: str) -> None:
    folder = write_plugin(tmp_path / "notify")
    identity = bench.add(str(folder))
    snapshot = bench.layout.plugin(snapshots(bench)[0])
    if how == "gone":
        LocalFilesystem().remove_tree(snapshot)
    else:
        wheel = next(snapshot.glob("*.whl"))
        wheel.chmod(0o644)
        wheel.write_bytes(wheel.read_bytes()[:-1])
    LocalFilesystem().remove_tree(bench.layout.generation(identity) / "venv" / "lib")
    assert bench.call("install").status == "ok"
    assert says(bench)["notify"] == "1"


@pytest.mark.proves("snapshot-stays-inside")
@pytest.mark.parametrize("what", ["link", "absolute link", "pipe", "huge"])
def test_what_no_copy_can_hold_is_refused_by_name(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    folder = write_plugin(tmp_path / "notify")
    odd = folder / "src" / "odd"
    if what == "link":
        odd.symlink_to("../../../secret")
    elif what == "absolute link":
        odd.symlink_to(folder / "pyproject.toml")
    elif what == "pipe":
        os.mkfifo(odd)
    else:
        odd.write_bytes(b"x" * 2048)
        monkeypatch.setattr("perdure_pm.adapters.trees.MAX_BYTES", 2048)
    before = fingerprint(bench.layout.home, without=["mutex", "cache"])
    with pytest.raises(SourceUnusable) as caught:
        bench.add(str(folder))
    assert str(odd if what != "huge" else folder) in caught.value.summary
    assert fingerprint(bench.layout.home, without=["mutex", "cache"]) == before


def test_a_link_inside_is_kept(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    (folder / "src" / "notify" / "same.py").symlink_to("__init__.py")
    bench.add(str(folder))
    assert says(bench)["notify"] == "1"


@pytest.mark.proves("source-builds-alone")
def test_to_name_a_directory_is_no_consent_to_build_what_its_build_needs(bench: Bench, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    write_sdist(house, write_wheel(house, "tool", "1.0"), backend="")
    bench.network = Network(wheelhouse=house)
    folder = write_plugin(tmp_path / "notify")
    write_files(folder, {"pyproject.toml": project().replace("uv_build>=0.13.9,<0.14", "tool")})
    before = bench.current.identity
    with pytest.raises(BuildRefused) as caught:
        bench.add(str(folder))
    assert caught.value.context["package"] == "tool"
    assert bench.current.identity == before


# Files


@pytest.mark.proves("snapshot-outlives-source")
def test_a_wheel_is_kept_and_another_of_the_same_version_replaces_it(bench: Bench, tmp_path: Path) -> None:
    """Case 80."""
    wheel = write_wheel(tmp_path, "notify", "1.0", source='plugin = "one"\n')
    bench.add(str(wheel))
    assert says(bench)["notify"] == "one"
    wheel.unlink()
    assert bench.call("install").status == "noop"
    write_wheel(tmp_path, "notify", "1.0", source='plugin = "two"\n')
    replace_uv(bench.workshop, bench.layout, "exit 1\n")
    with pytest.raises(BuildFailed):
        bench.call("install")
    assert says(bench)["notify"] == "one"
    replace_uv(bench.workshop, bench.layout, f'exec "{bench.workshop.uv}" "$@"\n')
    assert bench.call("install").status == "ok"
    assert says(bench)["notify"] == "two"


def test_an_sdist_is_built_and_kept(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify-1.0")
    archive = tmp_path / "notify-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, "notify-1.0")
    bench.add(str(archive))
    archive.unlink()
    shutil.rmtree(folder)
    assert says(bench)["notify"] == "1"
    assert bench.call("install").status == "noop"


@pytest.mark.proves("archive-stays-inside")
@pytest.mark.parametrize("odd", ["../out", "/abs", "device", "wheel"])
def test_archives_that_reach_out_are_refused_and_named(bench: Bench, tmp_path: Path, odd: str) -> None:
    """Case 81."""
    archive = tmp_path / "notify-1.0.tar.gz"
    if odd == "wheel":
        archive = write_wheel(tmp_path, "notify", "1.0")
        with zipfile.ZipFile(archive, "a") as wheel:
            wheel.writestr("../out", "x")
    else:
        with tarfile.open(archive, "w:gz") as file:
            member = tarfile.TarInfo(odd if odd != "device" else "notify-1.0/zero")
            member.type = tarfile.CHRTYPE if odd == "device" else tarfile.REGTYPE
            file.addfile(member)
    before = fingerprint(bench.layout.home, without=["mutex", "cache"])
    with pytest.raises(SourceUnusable) as caught:
        bench.add(str(archive))
    assert caught.value.context["path"] == str(archive)
    assert fingerprint(bench.layout.home, without=["mutex", "cache"]) == before
    assert not (tmp_path / "out").exists()


# Repositories


@pytest.mark.proves("git-commit-pinned")
def test_a_branch_becomes_the_commit_that_it_is_now(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    first = commit(folder)
    outcome = bench.call("plugin-add", requirements=[f"git+file://{folder}@main"])
    assert outcome.data["added"] == {"notify": f"notify @ git+file://{folder}@{first}"}
    assert f"main of file://{folder} is {first} now" in outcome.data["notices"][0]
    (folder / "src" / "notify" / "__init__.py").write_text('plugin = "2"\n')
    second = commit(folder)
    assert bench.call("install").status == "noop"
    assert says(bench)["notify"] == "1"
    shutil.rmtree(folder)
    assert bench.call("install").status == "noop"  # a commit does not change: nobody is asked
    assert first != second


@pytest.mark.parametrize("revision", ["tag", "annotated", "short", "none", "whole"])
def test_every_way_to_name_a_commit(bench: Bench, tmp_path: Path, revision: str) -> None:
    folder = write_plugin(tmp_path / "notify")
    wanted = commit(folder)
    git(folder, "tag", "v1")
    git(folder, "tag", "--annotate", "--message", "x", "v2")
    typed = {"tag": "@v1", "annotated": "@v2", "short": f"@{wanted[:8]}", "none": "", "whole": f"@{wanted}"}[revision]
    outcome = bench.call("plugin-add", requirements=[f"git+file://{folder}{typed}"])
    assert outcome.data["added"]["notify"].endswith(f"@{wanted}")
    assert bool(outcome.data["notices"]) == (revision != "whole")


@pytest.mark.parametrize("wrong", ["branch", "commit", "repository", "subdirectory"])
def test_what_a_repository_lacks_is_named(bench: Bench, tmp_path: Path, wrong: str) -> None:
    folder = write_plugin(tmp_path / "notify")
    commit(folder)
    typed = {
        "branch": f"git+file://{folder}@nothing",
        "commit": f"git+file://{folder}@{'0' * 40}",
        "repository": f"git+file://{tmp_path}/nowhere@main",
        "subdirectory": f"git+file://{folder}@main#subdirectory=nowhere",
    }[wrong]
    with pytest.raises(SourceUnusable) as caught:
        bench.add(typed)
    named = {"branch": "nothing", "commit": "0" * 40, "repository": "nowhere", "subdirectory": "nowhere"}[wrong]
    assert named in caught.value.summary


def test_a_version_that_comes_from_tags_is_told_to_the_build(bench: Bench, tmp_path: Path) -> None:
    """Case 61: the copy has no VCS data."""
    folder = write_plugin(tmp_path / "repository" / "below")
    text = project(version='dynamic = ["version"]').replace(
        BACKEND, '[build-system]\nrequires = []\nbuild-backend = "told"\nbackend-path = ["."]\n'
    )
    backend = (
        "import os, zipfile\n"
        "def build_wheel(folder, settings=None, metadata=None):\n"
        "    version = os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']\n"
        "    info = f'notify-{version}.dist-info'\n"
        "    name = f'notify-{version}-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:\n"
        "        wheel.writestr('notify.py', 'plugin = \"told\"')\n"
        "        wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: notify\\nVersion: {version}\\n')\n"
        "        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        wheel.writestr(f'{info}/entry_points.txt', '[perdure]\\nnotify = notify:plugin\\n')\n"
        "        wheel.writestr(f'{info}/RECORD', '')\n"
        "    return name\n"
    )
    write_files(folder, {"pyproject.toml": text, "told.py": backend})
    repository = folder.parent
    commit(repository)
    git(repository, "tag", "v1.2")
    write_files(repository, {"README": "more"})
    after = commit(repository)
    bench.add(f"git+file://{repository}@main#subdirectory=below")
    versions = {package["name"]: package["version"] for package in bench.current.record["packages"]}
    assert versions["notify"] == f"1.2+1.g{after[:9]}"


# The store


def test_collect_keeps_what_generations_were_built_from(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    bench.add(str(folder))
    kept = snapshots(bench)
    odd = bench.layout.plugin("0123456789ab")
    odd.mkdir()
    assert bench.call("collect").data["plugins"] == [odd.name]
    assert snapshots(bench) == kept
    bench.call("plugin-remove", names=["notify"])
    bench.pass_time(days=30)
    for part in range(6):
        bench.add(f"part-{part}")
    bench.pass_time(days=30)
    assert bench.call("collect", keep=1).data["plugins"] == kept


def test_a_killed_copy_is_made_again(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    bench.add(str(folder))
    (name,) = snapshots(bench)
    bench.call("plugin-remove", names=["notify"])
    snapshot = bench.layout.plugin(name)
    snapshot.chmod(0o755)
    (snapshot / RECORD).unlink()  # it is written last
    LocalFilesystem().remove_tree(next(path.parent for path in bench.layout.generations.glob("2-*/record.json")))
    bench.add(str(folder))
    assert says(bench)["notify"] == "1"


# What is refused


@pytest.mark.parametrize(
    "word",
    [
        "notify @ https://files.example.invalid/notify-1.0-py3-none-any.whl",
        "notify @ git+https://user:secret@example.invalid/notify.git@" + "0" * 40,
        "notify @ file://relative",
        "notify>>1",
        "fakehost-clock @ file:///nowhere",
    ],
)
def test_addresses_that_are_no_source_are_refused_before_anything(bench: Bench, word: str) -> None:
    """Case 62."""
    before = fingerprint(bench.layout.home, without=["mutex", "cache"])
    with pytest.raises(UsageFault):
        bench.add(word)
    assert fingerprint(bench.layout.home, without=["mutex", "cache"]) == before


@pytest.mark.parametrize(
    "word",
    [
        "git+https://user:secret@127.0.0.1:1/notify.git@main",
        "git+https://secret@127.0.0.1:1/notify.git",
        "git+ssh://git:secret@127.0.0.1:1/notify.git",
        "notify @ git+https://user:secret@127.0.0.1:1/notify.git@main",
        "notify @ git+https://user:secret@127.0.0.1:1/notify.git@" + "0" * 40,
        "notify @ https://user:secret@127.0.0.1:1/notify-1.0-py3-none-any.whl",
    ],
)
def test_an_address_with_a_password_is_refused_before_anybody_is_asked_and_the_password_is_nowhere(
    bench: Bench, word: str
) -> None:
    with pytest.raises(UsageFault) as caught:
        bench.add(word)
    assert "a user or a password" in caught.value.summary
    assert "secret" not in json.dumps([caught.value.summary, caught.value.hint, caught.value.context])


def test_a_subdirectory_that_leads_out_is_refused_before_the_repository_is_asked(bench: Bench) -> None:
    with pytest.raises(UsageFault, match=r"subdirectory '\.\./x' of git\+file:///nowhere.* leads out"):
        bench.add("git+file:///nowhere@main#subdirectory=../x")


def test_a_wheel_whose_name_says_another_version_is_refused_and_the_right_one_still_installs(
    bench: Bench, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path, "notify", "1.0")
    for name, said in (
        ("notify-2.0-py3-none-any.whl", "holds version 1.0 of notify"),
        ("notify-1.0-cp39-cp39-win_amd64.whl", "has no wheel for this machine"),
    ):
        renamed = wheel.with_name(name)
        shutil.copyfile(wheel, renamed)
        with pytest.raises(PerdureError, match=said):
            bench.add(str(renamed))
    bench.add(str(wheel))
    assert says(bench)["notify"] == "1.0"


def test_an_entry_without_a_whole_commit_is_a_fault_of_the_file(bench: Bench) -> None:
    """Case 62: at reading, and the file is unchanged."""
    text = "schema: 1\nplugins:\n- notify @ git+https://example.invalid/notify.git@main\n"
    bench.config.write_text(text)
    with pytest.raises(ConfigInvalid, match=r"config\.yaml:3:3 plugins\[0\]: names no usable source"):
        bench.call("install")
    assert bench.config.read_text() == text


@pytest.mark.proves("plugin-add-keeps-source")
def test_a_name_that_is_listed_with_an_address_never_becomes_an_indexs_package(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "gadget", name="gadget", says="mine")
    bench.call("plugin-add", requirements=[str(folder)])
    bench.call("plugin-disable", names=["gadget"])
    assert bench.call("plugin-add", requirements=["Gadget"]).data["added"] == {"gadget": f"gadget @ file://{folder}"}
    assert says(bench)["gadget"] == "mine"
    with pytest.raises(UsageFault, match="index's package of that name"):
        bench.call("plugin-add", requirements=["gadget>=1"])
    assert says(bench)["gadget"] == "mine"

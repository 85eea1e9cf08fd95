"""What a plugin says of itself in its project and its manifest: completed, compared, and left out if unfit."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from perdure_pm.model.errors import ManifestInvalid, PluginUnfit, SourceUnusable
from perdure_pm.model.network import Network
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.pm.plugin_sources import (
    BACKEND,
    project,
    says,
    snapshots,
    without_uv,
    write_files,
    write_manifest_plugin,
    write_plugin,
)
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("lint-only-is-none")
def test_a_project_of_tools_only_makes_no_project(bench: Bench, tmp_path: Path) -> None:
    """Case 59."""
    folder = write_manifest_plugin(tmp_path / "notify", more='dependencies: ["gadget"]\nversion: 2.0.1\n')
    lint = "[tool.ruff]\nline-length = 99\n"
    write_files(folder, {"pyproject.toml": lint})
    bench.add(str(folder))
    assert says(bench) == {"fakehost-clock": "0.1.0", "notify": "1"}
    versions = {package["name"]: package["version"] for package in bench.current.record["packages"]}
    assert (versions["notify"], versions["gadget"], versions["sprocket"]) == ("2.0.1", "1.0", "1.0")
    assert (folder / "pyproject.toml").read_text() == lint
    boot = json.loads((bench.current.path / "boot.json").read_text())
    assert boot["manifests"]["notify"]["dependencies"] == ["gadget"]


@pytest.mark.proves("nested-projects-stay-out")
def test_projects_inside_and_beside_a_plugin_do_not_join(bench: Bench, tmp_path: Path) -> None:
    """Case 57."""
    write_plugin(tmp_path / "both" / "sibling", name="sibling")
    folder = write_plugin(tmp_path / "both" / "notify")
    write_plugin(folder / "inner", name="inner")
    text = project(more='dependencies = ["gadget"]') + (
        '[tool.uv.workspace]\nmembers = ["inner"]\n[tool.uv.sources]\ngadget = { path = "inner" }\n'
    )
    write_files(folder, {"pyproject.toml": text})
    write_files(tmp_path / "both", {"pyproject.toml": '[tool.uv.workspace]\nmembers = ["*"]\n'})
    bench.add(str(folder))
    names = {package["name"] for package in bench.current.record["packages"]}
    assert names & {"notify", "inner", "sibling", "gadget"} == {"notify", "gadget"}


@pytest.mark.proves("manifest-completes-project")
@pytest.mark.parametrize("said", ["versionless", "version in the manifest", "no entry point"])
def test_what_a_project_leaves_open_is_completed_in_the_copy(bench: Bench, tmp_path: Path, said: str) -> None:
    """Case 61."""
    folder = write_plugin(tmp_path / "notify")
    text = project(version="")
    if said == "no entry point":
        text = f'[project]\nname = "notify"\nversion = "3.0"\n{BACKEND}'
    write_files(folder, {"pyproject.toml": text})
    if said != "versionless":
        version = "" if said == "no entry point" else "version: '3.0'\n"
        write_files(folder, {"plugin.yaml": f"manifest: 1\nname: notify\nentry: notify:plugin\n{version}"})
    bench.add(str(folder))
    assert says(bench)["notify"] == "1"
    versions = {package["name"]: package["version"] for package in bench.current.record["packages"]}
    assert versions["notify"].startswith("0+d" if said == "versionless" else "3.0")
    assert (folder / "pyproject.toml").read_text() == text


def test_a_manifest_that_says_otherwise_is_refused_with_every_fault(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    write_files(
        folder,
        {"plugin.yaml": "manifest: 1\nname: other\nversion: '2'\nentry: notify:else\ndependencies: [gadget]\n"},
    )
    write_files(folder, {"pyproject.toml": project(more="dependencies = []")})
    with pytest.raises(ManifestInvalid) as caught:
        bench.add(str(folder))
    shown = folder / "plugin.yaml"
    assert caught.value.context["faults"] == [
        f"{shown}:2:7 name: is other, and pyproject.toml says notify, which is what is installed",
        f"{shown}:3:10 version: is 2, and pyproject.toml says 1.0, which is what is installed",
        f"{shown}:4:8 entry: is notify:else, and pyproject.toml's entry points of perdure are: notify:plugin",
        f"{shown}:5:15 dependencies: differs from pyproject.toml's, which are installed, in: gadget",
    ]


def test_a_plugin_that_does_not_fit_is_not_admitted(bench: Bench, tmp_path: Path) -> None:
    """Case 63."""
    more = "requires-host: '>=2'\nrequires-python: '>=4'\nplatforms: [\"sys_platform == 'win32'\"]\n"
    folder = write_manifest_plugin(tmp_path / "notify", more=more)
    before = bench.current.identity
    with pytest.raises(PluginUnfit) as caught:
        bench.add(str(folder))
    reason = str(caught.value.context["reason"])
    assert reason.startswith("it is for sys_platform == 'win32' only; it needs Python >=4; this is ")
    assert reason.endswith("; it needs fakehost >=2; this is 0.1.0")
    assert bench.current.identity == before


@pytest.mark.proves("plugins-sit-out")
def test_a_plugin_with_an_address_sits_out_and_comes_back(bench: Bench, tmp_path: Path) -> None:
    """Case 63: after an upgrade of the host, with whoever needs it, and back with the host that it fits."""
    one = write_manifest_plugin(tmp_path / "one", name="one", more="requires-host: '<0.2'\n")
    two = write_manifest_plugin(tmp_path / "two", name="two", more="requires-plugins: [one]\n")
    bench.add(str(one), str(two), "part-1")
    assert set(says(bench)) == {"fakehost-clock", "one", "two", "part-1"}
    outcome = bench.call("install", checkout=str(bench.workshop.newer_checkout))
    assert set(says(bench)) == {"fakehost-clock", "part-1"}
    assert [item["reason"] for item in outcome.data["plan"]["sit_outs"]] == [
        "it needs fakehost <0.2; this is 0.2.0",
        "it needs the plugin one, which is not among the profile's",
    ]
    assert f"one @ file://{one}" in bench.config.read_text()
    assert bench.call("install").status == "noop"
    bench.call("install", checkout=str(bench.workshop.checkout))
    assert set(says(bench)) == {"fakehost-clock", "one", "two", "part-1"}


@pytest.mark.proves("manifest-every-fault")
def test_a_plugin_that_requires_itself_by_the_name_of_its_project_is_refused(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    write_files(folder, {"plugin.yaml": "manifest: 1\nrequires-plugins: [Notify]\n"})
    with pytest.raises(
        ManifestInvalid, match=r"plugin.yaml:2:20 requires-plugins\[0\]: names the plugin itself, notify"
    ):
        bench.add(str(folder))


@pytest.mark.proves("plugins-sit-out")
def test_a_plugin_for_an_api_that_the_host_does_not_offer(bench: Bench, tmp_path: Path) -> None:
    """A host says in its own wheel what it offers; it may go on offering what is older, and one day no more."""

    def checkout(name: str, *offered: int) -> str:
        folder = tmp_path / name
        shutil.copytree(bench.workshop.checkout, folder)
        lines = "".join(f'{number} = "fakehost"\n' for number in offered)
        with (folder / "pyproject.toml").open("a") as file:
            file.write(f'[project.entry-points."perdure.plugin_api"]\n{lines}')
        return str(folder)

    old = write_manifest_plugin(tmp_path / "old", name="old", more="api: 1\n")
    new = write_manifest_plugin(tmp_path / "new", name="new", more="api: 2\n")
    bench.call("install", checkout=checkout("first", 1))
    bench.add(str(old))
    said = "it is written for generation 2 of the plugin API; fakehost 0.1.0 offers 1$"
    with pytest.raises(PluginUnfit, match=f"new cannot run here: {said}"):
        bench.add(str(new))
    bench.call("install", checkout=checkout("second", 1, 2))
    bench.add(str(new))
    assert set(says(bench)) == {"fakehost-clock", "old", "new"}
    outcome = bench.call("install", checkout=checkout("third", 2))
    assert [(item["name"], item["reason"]) for item in outcome.data["plan"]["sit_outs"]] == [
        ("old", "it is written for generation 1 of the plugin API; fakehost 0.1.0 offers 2")
    ]
    assert set(says(bench)) == {"fakehost-clock", "new"}


@pytest.mark.proves("plugins-sit-out")
def test_a_plugin_from_an_index_whose_own_manifest_does_not_fit_sits_out(bench: Bench, tmp_path: Path) -> None:
    """Case 63: what a wheel's plugin.yaml says is known once it was fetched."""
    house = tmp_path / "house"
    shutil.copytree(bench.workshop.index, house)
    for name, versions in (("picky", "<0.2"), ("stubborn", ">=9")):
        wheel = write_wheel(house, name, "1.0")
        manifest = f"manifest: 1\nrequires-host: '{versions}'\n"
        rewrite_wheel(wheel, {f"{name}/plugin.yaml": manifest})
    bench.network = Network(wheelhouse=house)
    with pytest.raises(PluginUnfit, match="stubborn cannot run here: it needs fakehost >=9; this is 0"):
        bench.add("stubborn")
    bench.add("picky", "part-1")
    assert set(says(bench)) == {"fakehost-clock", "picky", "part-1"}
    assert bench.current.record["manifests"]["picky"]["requires-host"] == "<0.2"
    outcome = bench.call("install", checkout=str(bench.workshop.newer_checkout))
    assert [item["reason"] for item in outcome.data["plan"]["sit_outs"]] == ["it needs fakehost <0.2; this is 0.2.0"]
    assert set(says(bench)) == {"fakehost-clock", "part-1"}
    without_uv(bench)
    assert bench.call("install").status == "noop"
    replace_uv(bench.workshop, bench.layout, f'exec "{bench.workshop.uv}" "$@"\n')
    bench.call("install", checkout=str(bench.workshop.checkout))
    assert set(says(bench)) == {"fakehost-clock", "picky", "part-1"}


def rewrite_wheel(wheel: Path, more: dict[str, str]) -> None:
    """Have further files in a wheel, and in its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    record = next(name for name in members if name.endswith("/RECORD"))
    for name, text in more.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        members[record] = f"{name},sha256={digest},{len(text)}\n{members[record]}"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**more, **members}.items():
            archive.writestr(name, text)


def test_a_module_that_is_not_there_and_a_plugin_that_declares_nothing_are_refused(
    bench: Bench, tmp_path: Path
) -> None:
    folder = write_manifest_plugin(tmp_path / "notify")
    shutil.rmtree(folder / "notify")
    with pytest.raises(SourceUnusable, match="has no module notify"):
        bench.add(str(folder))
    folder = write_plugin(tmp_path / "quiet", name="quiet")
    write_files(folder, {"pyproject.toml": f'[project]\nname = "quiet"\nversion = "1"\n{BACKEND}'})
    with pytest.raises(SourceUnusable, match="declares nothing to load"):
        bench.add(str(folder))


def test_a_name_that_only_the_build_knows_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    """A project of an older form: `NAME @ ./DIRECTORY` says it, and the wheel must have that name."""
    folder = write_plugin(tmp_path / "old")
    backend = "[build-system]\nrequires = []\nbuild-backend = 'made'\nbackend-path = ['.']\n"
    made = write_wheel(tmp_path, "notify", "1.0", source='plugin = "old"\n')
    script = f"import shutil\ndef build_wheel(to, *_):\n    shutil.copy({str(made)!r}, to)\n    return {made.name!r}\n"
    write_files(folder, {"pyproject.toml": backend, "made.py": script, "setup.py": ""})
    with pytest.raises(SourceUnusable, match="does not say its name") as caught:
        bench.add(str(folder))
    assert f"'NAME @ {folder}'" in str(caught.value.hint)
    with pytest.raises(SourceUnusable, match="is the plugin notify, and is to be installed as other"):
        bench.add(f"other @ {folder}")
    bench.add(f"notify @ {folder}")
    assert says(bench)["notify"] == "old"


@pytest.mark.parametrize("runtime", ["isolated", "external"])
def test_other_runtimes(bench: Bench, tmp_path: Path, runtime: str) -> None:
    """Case 56: an external plugin never meets the resolution, and its files stay as they are."""
    folder = tmp_path / "bridge"
    command = "external: {command: [./run, server], check: [./run]}\n" if runtime == "external" else ""
    write_files(
        folder, {"plugin.yaml": f"manifest: 1\nname: bridge\nruntime: {runtime}\n{command}", "run": "#!/bin/sh\n"}
    )
    if runtime == "isolated":
        with pytest.raises(SourceUnusable, match="runtime: isolated, which this version of Perdure does not have"):
            bench.add(str(folder))
        return
    with pytest.raises(SourceUnusable, match=r"its program, \./run, is not executable"):
        bench.add(str(folder))
    (folder / "run").chmod(0o755)
    write_files(folder, {"requirements.txt": "fakehost==99\n", "pyproject.toml": "[tool.x]\n"})
    before = fingerprint(folder)
    bench.add(str(folder))
    assert fingerprint(folder) == before
    assert says(bench) == {"fakehost-clock": "0.1.0"}
    boot = json.loads((bench.current.path / "boot.json").read_text())
    assert boot["manifests"]["bridge"]["external"] == {"command": ["./run", "server"], "check": ["./run"]}
    assert snapshots(bench) == []
    assert bench.call("install").status == "noop"

"""plugin check: what an author is told, and that nothing that runs is changed by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model.errors import SourceUnusable, UsageFault
from tests.pm.bench import Bench
from tests.pm.plugin_sources import project, write_files, write_manifest_plugin, write_plugin
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


def check(bench: Bench, source: Path) -> dict[str, dict[str, Any]]:
    """Return each check by name."""
    before = fingerprint(bench.layout.home, without=["cache", "store/plugins", "mutex"])
    outcome = bench.call("plugin-check", source=str(source))
    assert fingerprint(bench.layout.home, without=["cache", "store/plugins", "mutex"]) == before
    checks = {entry["name"]: entry for entry in outcome.data["checks"]}
    assert outcome.data["found"] == sum(len(entry["found"]) for entry in checks.values())
    return checks


@pytest.mark.proves("check-changes-nothing")
def test_a_sound_plugin_has_no_finding(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    write_files(folder, {"pyproject.toml": project(more='dependencies = ["gadget"]')})
    checks = check(bench, folder)
    assert {name: entry["status"] for name, entry in checks.items()} == dict.fromkeys(
        ["manifest", "build", "fit", "requirements", "moved names", "files", "start", "import time"], "ok"
    )
    assert checks["requirements"]["about"].count(",") == 4  # every machine that the host's lock is for
    assert bench.call("collect").data["plugins"]  # the copy that was made for it


def broken_manifest(folder: Path) -> None:
    write_files(folder, {"plugin.yaml": "manifest: 1\nname: other\napi: x\nentry: nothing\n"})


def odd_manifest(folder: Path) -> None:
    write_files(folder, {"plugin.yaml": "manifest: 1\nentries: notify:plugin\n"})


def broken_build(folder: Path) -> None:
    write_files(folder, {"pyproject.toml": project().replace("uv_build>=0.13.9,<0.14", "gadget>=99")})


def conflict(folder: Path) -> None:
    write_files(folder, {"pyproject.toml": project(more='dependencies = ["fakehost>=9"]')})


def conflict_elsewhere(folder: Path) -> None:
    more = "dependencies = [\"fakehost>=9; sys_platform == 'win32'\"]"
    write_files(folder, {"pyproject.toml": project(more=more)})


def misfit(folder: Path) -> None:
    write_files(folder, {"plugin.yaml": "manifest: 1\nrequires-host: '>=9'\n"})


def broken_import(folder: Path) -> None:
    write_files(folder, {"src/notify/__init__.py": "import nothing_of_that_name\n"})


def slow_import(folder: Path) -> None:
    write_files(folder, {"src/notify/__init__.py": "import time\ntime.sleep(0.3)\nplugin = 1\n"})


def no_entry(folder: Path) -> None:
    text = project().replace("[project.entry-points.perdure]", "[project.entry-points.other]")
    write_files(folder, {"pyproject.toml": text})


@pytest.mark.proves("check-names-every-finding")
@pytest.mark.parametrize(
    ("spoil", "name", "said"),
    [
        (broken_manifest, "manifest", "plugin.yaml:3:6 api: must be a whole number"),
        (odd_manifest, "manifest", "plugin.yaml:2:1 entries: unknown field, without effect; did you mean entry?"),
        (broken_build, "build", "gadget>=99"),
        (conflict, "requirements", "on Linux x86_64, Linux aarch64, macOS arm64, macOS x86_64, Windows AMD64 it does"),
        (conflict_elsewhere, "requirements", "on Windows AMD64 it does not go together with fakehost: Because"),
        (misfit, "fit", "it needs fakehost >=9; this is 0.1.0"),
        (broken_import, "start", "No module named 'nothing_of_that_name'"),
        (slow_import, "import time", "at every start of the host"),
        (no_entry, "start", "the plugin notify declares nothing to load"),
    ],
)
def test_a_finding_is_named(bench: Bench, tmp_path: Path, spoil: Callable[[Path], None], name: str, said: str) -> None:
    folder = write_plugin(tmp_path / "notify")
    spoil(folder)
    checks = check(bench, folder)
    assert checks[name]["status"] == "found"
    assert said in "\n".join(checks[name]["found"])
    assert [entry["name"] for entry in checks.values() if entry["status"] == "found"] == [name]


@pytest.mark.proves("check-names-every-finding")
def test_files_of_another_distribution_are_named(bench: Bench, tmp_path: Path) -> None:
    """Case 100, for an author."""
    bench.add("gadget")
    folder = write_plugin(tmp_path / "notify")
    write_files(folder, {"src/notify/gadget.py": ""})
    text = project() + '[tool.uv.build-backend]\nmodule-name = ["notify", "gadget"]\n'
    write_files(folder, {"pyproject.toml": text, "src/gadget/__init__.py": "plugin = 'another'\n"})
    assert check(bench, folder)["files"]["found"] == [
        "gadget/__init__.py is a file of gadget, too, with other contents"
    ]


def test_a_program_of_its_own_is_not_installed(bench: Bench, tmp_path: Path) -> None:
    text = "name: bridge\nruntime: external\nexternal: {command: [sh], check: [sh, -c, 'exit 3']}\n"
    write_files(tmp_path / "bridge", {"plugin.yaml": text})
    checks = check(bench, tmp_path / "bridge")
    assert {name: entry["found"] for name, entry in checks.items()} == {
        "manifest": [],
        "program": ["its check, sh -c 'exit 3', ended with 3"],
    }


def test_a_plugin_that_is_for_other_machines_is_not_started(bench: Bench, tmp_path: Path) -> None:
    more = "platforms: [\"sys_platform == 'win32'\"]\ndependencies: [gadget]\n"
    checks = check(bench, write_manifest_plugin(tmp_path / "notify", more=more))
    assert checks["requirements"]["about"] == "Windows AMD64"
    assert checks["start"]["status"] == "skipped"


def test_what_is_no_authors_plugin_is_refused(bench: Bench, tmp_path: Path) -> None:
    for source, kind in [("gadget", SourceUnusable), (str(tmp_path / "nowhere"), SourceUnusable), ("a b", UsageFault)]:
        with pytest.raises(kind):
            bench.call("plugin-check", source=source)


@pytest.mark.proves("check-names-every-finding")
def test_the_command_exits_three_and_shows_each(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    assert bench.pm("plugin", "check", str(folder)).exit_code == 0
    misfit(folder)
    ended = bench.pm("plugin", "check", str(folder), "--json")
    assert (ended.exit_code, json.loads(ended.out)["data"]["found"]) == (3, 1)
    shown = bench.pm("plugin", "check", str(folder))
    assert (shown.exit_code, "it needs fakehost >=9" in shown.out) == (3, True)

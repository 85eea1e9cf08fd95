"""Plugins that use names which moved: told when they are added and checked, shown afterwards, mended on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.cli.looking import show_status
from perdure_pm.ops.plugin_view import read_plugin, read_plugins
from perdure_pm.ops.status import read_status
from tests.pm.bench import Bench
from tests.pm.plugin_sources import project, write_files, write_plugin

pytestmark = pytest.mark.platforms("linux", "darwin")

TABLE = """\
schema = 1
package = "notify"
[[moved]]
old = "notify.old.send"
new = "notify.api.send"
since = "1"
removed-in = "2"
"""
USES = "plugin = 'pager 1'\n\ndef page():\n    from notify.old import send  # the way to people\n    return send()\n"
TOLD = "notify.old.send is now notify.api.send, since 1; breaks at 2, when this code runs"


@pytest.fixture
def pager(bench: Bench, tmp_path: Path) -> Path:
    """Return a plugin that uses an old name of another one, which is installed and ships its table."""
    notify = write_plugin(tmp_path / "notify")
    write_files(notify, {"src/notify/moved-names.toml": TABLE, "src/notify/api.py": "def send():\n    return 1\n"})
    bench.call("plugin-add", requirements=[str(notify)])
    folder = tmp_path / "pager"
    write_files(folder, {"pyproject.toml": project("pager"), "src/pager/__init__.py": USES})
    return folder


@pytest.mark.proves("plugins-moved-names")
def test_an_added_plugin_that_uses_old_names_is_told_of_and_shown_from_then_on(bench: Bench, pager: Path) -> None:
    outcome = bench.call("plugin-add", requirements=[str(pager)])
    said = f"pager/__init__.py:4: {TOLD}"
    assert outcome.obligations == (f"pager uses names that moved: {said} (perdure-pm plugin info pager)",)
    status = read_status(bench.layout, "default", {})
    assert [use["distribution"] for use in status["generation"]["moved_names"]] == ["pager"]
    assert f"pager: {said}" in show_status(status)
    states = {state["name"]: state for state in read_plugins(bench.layout, "default")["states"]}
    assert [len(states[name]["moved_names"]) for name in ("notify", "pager")] == [0, 1]
    (use,) = read_plugin(bench.layout, "default", "pager")["moved_names"]
    assert (use["old"], use["new"], use["until"], use["line"]) == ("notify.old.send", "notify.api.send", "2", 4)


@pytest.mark.proves("plugins-moved-names")
def test_a_check_names_each_use_and_fix_writes_the_new_names(bench: Bench, pager: Path) -> None:
    checks = {check["name"]: check for check in bench.call("plugin-check", source=str(pager)).data["checks"]}
    assert checks["moved names"]["found"] == [f"src/pager/__init__.py:4: {TOLD}"]
    assert checks["start"]["status"] != "skipped"  # an old name works until it goes
    fixed = bench.call("plugin-check", source=str(pager), fix=True)
    assert fixed.data["fixed"] == "moved 1 uses in 1 files"
    assert {check["name"]: check["status"] for check in fixed.data["checks"]}["moved names"] == "ok"
    assert (pager / "src/pager/__init__.py").read_text() == USES.replace("notify.old", "notify.api")

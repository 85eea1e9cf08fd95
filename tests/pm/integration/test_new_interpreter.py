"""A home whose generations were built on an interpreter that is gone: a new image, or a Python that was removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import PerdureError
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.pm.plugin_sources import says, write_plugin

pytestmark = pytest.mark.platforms("linux", "darwin")


def lose_interpreter(bench: Bench, tmp_path: Path) -> None:
    """Have everything that is selected built on an interpreter that is gone, with all that it brought."""
    generation = bench.current
    gone = str(tmp_path / "gone" / "bin" / "python3.11")
    for path in (generation.path / "record.json", bench.layout.kept_record(generation.identity)):
        record = json.loads(path.read_text())
        record["interpreter"]["path"] = gone
        path.parent.chmod(0o755)
        path.chmod(0o644)
        path.write_text(json.dumps(record))
    for link in (generation.path / "venv" / "bin").glob("python*"):
        LocalFilesystem().remove_tree(link)
        link.symlink_to(gone)


@pytest.mark.proves("pm-interpreter-gone-rebuilt")
@pytest.mark.parametrize("verb", ["install", "repair"])
def test_the_generation_is_built_once_on_another_one_with_all_that_it_had(
    bench: Bench, tmp_path: Path, verb: str
) -> None:
    """Case 70."""
    bench.add("gadget", str(write_plugin(tmp_path / "notify")))
    before, selection = says(bench), bench.current.record["selection"]
    packages = {item["name"]: item["version"] for item in bench.current.record["packages"]}
    lose_interpreter(bench, tmp_path)
    old = bench.current.identity
    ended = bench.start()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"generation {old} cannot start: its interpreter is gone" in ended.stderr
    assert bench.call(verb).status == "ok"
    assert bench.current.identity != old
    assert bench.current.record["selection"] == selection
    assert {item["name"]: item["version"] for item in bench.current.record["packages"]} == packages
    assert says(bench) == before
    assert bench.call("install").status == "noop"


@pytest.mark.proves("pm-interpreter-gone-rebuilt")
@pytest.mark.parametrize("verb", ["install", "repair"])
def test_a_build_that_fails_selects_nothing_and_starts_nothing(bench: Bench, tmp_path: Path, verb: str) -> None:
    """Case 70: a failure never boots a partial set."""
    bench.add("gadget")
    lose_interpreter(bench, tmp_path)
    old = bench.current.identity
    real = f'exec "{bench.workshop.uv}" "$@"\n'
    replace_uv(bench.workshop, bench.layout, f'case "$*" in *install*) exit 9 ;; esac\n{real}')
    before = bench.generations
    with pytest.raises(PerdureError):
        bench.call(verb)
    assert load_pointer(bench.layout, "default") == old
    assert bench.generations == before
    assert bench.start().returncode == 1
    replace_uv(bench.workshop, bench.layout, real)
    assert bench.call(verb).status == "ok"
    assert says(bench) == {"fakehost-clock": "0.1.0", "gadget": "1.0"}

"""A plugin's copy with a fault at its first effect, its second, and so on: a whole one or none, never half."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.network import Network
from perdure_pm.model.requirement import parse_source
from perdure_pm.ops.snapshots import ensure_snapshot, load_snapshot, look
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop
from tests.pm.faults.faulting import KINDS, Fault, FaultingFilesystem, Stopped
from tests.pm.plugin_sources import write_manifest_plugin


@pytest.mark.proves("snapshot-whole-or-none")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_effect_leaves_a_whole_copy_or_none(workshop: Workshop, tmp_path: Path, kind: str) -> None:
    folder = write_manifest_plugin(tmp_path / "notify")
    source = parse_source(f"notify @ file://{folder}")
    assert source is not None
    for at in itertools.count(1):
        layout = Layout(tmp_path / f"home-{at}")
        layout.home.mkdir()
        bench = Bench(workshop=workshop, layout=layout, network=Network(offline=True))
        uv = Uv(tmp_path / "no-uv", layout, bench.network, {})
        filesystem = FaultingFilesystem(layout.home, Fault(kind=kind, at=at))
        context = replace(bench.context(), filesystem=filesystem)
        seen = look(layout, source, running_interpreter(), {})
        made = None
        with contextlib.suppress(Stopped, PerdureError):
            made = ensure_snapshot(context, uv, seen, running_interpreter(), ())
        found = load_snapshot(layout, seen.digest, source)
        assert made is None or found == made, filesystem.effects[-1]
        # Whatever was left, the next operation has it whole.
        again = ensure_snapshot(bench.context(), uv, seen, running_interpreter(), ())
        assert again == load_snapshot(layout, seen.digest, source)
        assert (layout.plugin(seen.digest) / "source" / "plugin.yaml").is_file()
        LocalFilesystem().remove_tree(layout.home)
        if not filesystem.happened:
            assert at == 7, filesystem.effects
            return

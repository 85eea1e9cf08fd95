"""What a start through the launcher costs over the generation's own script."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.ops.launchers import write_host_launchers, write_library, write_start
from perdure_pm.store.layout import Layout, environment_python

GENERATION = "1-0123456789ab"
TURNS = 60
TARGET_MS = 3.0


@pytest.mark.slow
@pytest.mark.proves("perf-launcher")
@pytest.mark.platforms("linux", "darwin")
def test_a_start_through_the_launcher_costs_at_most_3_ms_more(home: Path, figure: Callable[[str], None]) -> None:
    layout, filesystem = Layout(home), LocalFilesystem()
    environment = layout.generation(GENERATION) / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    script = environment / "bin" / "perdure"
    script.write_text(f"#!{environment_python(environment)}\n", encoding="utf-8")
    script.chmod(0o755)
    write_host_launchers(filesystem, layout, ["perdure"])
    write_start(filesystem, environment.parent)
    write_library(filesystem, layout, environment.parent, running_interpreter())
    filesystem.make_directories(layout.profile("default"))
    layout.pointer("default").write_text(f"{GENERATION}\n", encoding="ascii")

    direct = [str(environment_python(environment)), "-I", str(script)]
    launched = [str(layout.bin / "perdure")]
    fastest = {"direct": float("inf"), "launched": float("inf")}
    for _ in range(TURNS):  # in turns, so that a busy moment meets both
        fastest["direct"] = min(fastest["direct"], milliseconds(direct))
        fastest["launched"] = min(fastest["launched"], milliseconds(launched))
    cost = fastest["launched"] - fastest["direct"]
    figure(f"launcher: {cost:.1f} ms over the script's own {fastest['direct']:.1f} ms (target: {TARGET_MS:.0f} ms)")
    assert cost <= TARGET_MS


def milliseconds(command: Sequence[str]) -> float:
    environment = {"PATH": os.defpath, "HOME": os.environ["HOME"]}
    started = time.perf_counter()
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000

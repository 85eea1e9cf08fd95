"""External plugins: programs beside the host that are checked, listed, started by a launcher, and never touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model.errors import SourceUnusable
from perdure_pm.ops import external
from perdure_pm.ops.doctor import examine
from tests.pm.bench import Bench
from tests.pm.plugin_sources import says, snapshots, write_files
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

PROGRAM = """\
#!/bin/sh
[ "$1" = --check ] && exit "$(cat code)"
echo "$PWD $* $(env | cut -d= -f1 | sort | tr '\\n' ' ')"
"""


def write_program(folder: Path, name: str = "bridge", program: str = PROGRAM, command: str = "./run") -> Path:
    """Have an external plugin whose check ends with what `code` says, and return its directory."""
    manifest = f"manifest: 1\nname: {name}\nruntime: external\n"
    manifest += f"external: {{command: [{command}, serve], check: [./run, --check]}}\n"
    write_files(folder, {"plugin.yaml": manifest, "run": program, "code": "0"})
    (folder / "run").chmod(0o755)
    return folder


def start(bench: Bench, name: str, *words: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Start a command of the home's bin directory, and return how it ended."""
    command = [str(bench.layout.bin / name), *words]
    return subprocess.run(
        command, env={"PATH": os.defpath, **variables}, capture_output=True, text=True, timeout=60, check=False
    )


def problems(bench: Bench, code: str) -> list[dict[str, Any]]:
    found = examine(bench.layout, "default", deep=False)["problems"]
    return [problem for problem in found if problem["code"] == code]


@pytest.mark.proves("external-started", "external-checked")
def test_its_launcher_starts_it_where_it_lies_and_with_nothing_of_ours(bench: Bench, tmp_path: Path) -> None:
    """Case 56: whatever its directory requires, it never meets the resolution, and no file of it changes."""
    folder = write_program(tmp_path / "my bridge")
    pins = '[project]\nname = "bridge"\nversion = "1.0"\ndependencies = ["fakehost==99", "nowhere-at-all"]\n'
    write_files(folder, {"requirements.txt": "fakehost==99\n", "pyproject.toml": pins})
    before = fingerprint(folder)
    bench.add(str(folder))
    assert snapshots(bench) == []
    assert says(bench) == {"fakehost-clock": "0.1.0"}
    boot = json.loads((bench.current.path / "boot.json").read_text())
    assert boot["external"] == [{"name": "bridge", "command": ["./run", "serve"], "directory": str(folder)}]
    left = {"PYTHONPATH": "/x", "UV_INDEX_URL": "x", "VIRTUAL_ENV": "/x", "PERDURE_NO_LAZY": "1", "PIP_TARGET": "x"}
    ended = start(bench, "bridge", "--port", "1", variables={**left, "MINE": "1"})
    assert (ended.returncode, ended.stderr) == (0, "")
    place, said = ended.stdout.split(" serve --port 1 ")
    assert place == str(folder)
    assert set(said.split()) - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} == {"MINE", "PATH"}
    assert fingerprint(folder) == before
    assert problems(bench, "launcher-damaged") == []
    bench.call("plugin-remove", names=["bridge"])
    assert not (bench.layout.bin / "bridge").exists()
    bench.call("rollback")
    assert start(bench, "bridge", variables={}).returncode == 0


@pytest.mark.proves("external-checked")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("gone", r"its program, \./run, is not in "),
        ("no right", r"its program, \./run, is not executable"),
        ("elsewhere", r"its program, no-such-program, is not on PATH"),
        ("fails", r"its check, \./run --check, ended with 7: no port"),
        ("hangs", r"its check, \./run --check, did not end within 0.5 seconds"),
        ("no program", r"its check, \./run --check, cannot be started: Exec format error"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_new_and_sits_out_when_not(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    monkeypatch.setattr(external, "CHECK_SECONDS", 0.5 if how == "hangs" else 10.0)
    folder = write_program(tmp_path / "bridge")
    bench.add(str(folder))
    broken = {
        "fails": "#!/bin/sh\necho no port >&2\nexit 7\n",
        "hangs": "#!/bin/sh\nsleep 77 &\nsleep 77\n",
        "no program": "\0\0",
    }
    if how == "gone":
        (folder / "run").unlink()
    elif how == "no right":
        (folder / "run").chmod(0o644)
    elif how == "elsewhere":
        write_program(folder, command="no-such-program")
    else:
        write_program(folder, program=broken[how])
    if how != "elsewhere":  # what a generation lists is what its plugin.yaml said when it was built
        (problem,) = problems(bench, "external-broken")
        assert re.match(f"the external plugin bridge cannot run: {said}", problem["summary"])
    outcome = bench.call("plugin-add", requirements=["gadget"])
    (out,) = outcome.data["plan"]["sit_outs"]
    assert out["name"] == "bridge"
    assert re.match(said, out["reason"])
    bench.call("plugin-remove", names=["bridge"])
    with pytest.raises(SourceUnusable, match=f"the plugin bridge cannot run here: {said}"):
        bench.add(str(folder))
    write_program(folder)
    bench.add(str(folder))
    assert start(bench, "bridge", variables={}).returncode == 0


@pytest.mark.proves("external-checked")
def test_one_that_sat_out_comes_back_by_itself(bench: Bench, tmp_path: Path) -> None:
    folder = write_program(tmp_path / "bridge")
    bench.add(str(folder))
    (folder / "code").write_text("3")
    bench.add("gadget")
    assert not (bench.layout.bin / "bridge").exists()
    assert bench.call("install").status == "noop"
    (folder / "code").write_text("0")
    assert bench.call("install").status == "ok"
    assert start(bench, "bridge", variables={}).returncode == 0


@pytest.mark.proves("external-checked")
@pytest.mark.parametrize("name", ["uv", "python3", "tool"])
def test_a_name_that_starts_something_else_is_refused(bench: Bench, tmp_path: Path, name: str) -> None:
    (bench.layout.bin / "tool").write_text("#!/bin/sh\n# Written by perdure-pm\nexec true\n")
    with pytest.raises(SourceUnusable, match=f"the external plugin {name} would be started by .*/bin/{name}, which"):
        bench.add(str(write_program(tmp_path / "bridge", name=name)))

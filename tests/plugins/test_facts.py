"""The facts plugin on this very machine: what it tells is compared with what the system says by other means."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import perdure_facts
from perdure.api.tools import JsonValue, Tool, ToolFailed, ToolResult
from perdure.domain.errors import ArgumentsInvalid
from perdure.domain.tool import OfferedTool
from perdure.tools.dispatch import run_tool

TOOLS: dict[str, Tool] = {tool.name: tool for tool in perdure_facts.tools()}


def call(name: str, **arguments: JsonValue) -> ToolResult:
    return run_tool(OfferedTool(plugin="facts", tool=TOOLS[name]), arguments)


def data_of(result: ToolResult) -> dict[str, Any]:
    assert isinstance(result.data, dict)
    return result.data


@pytest.mark.proves("facts-read-only")
def test_the_plugin_offers_three_tools_that_only_read() -> None:
    assert {name: tool.read_only for name, tool in TOOLS.items()} == {
        "facts.machine": True,
        "facts.disks": True,
        "facts.processes": True,
    }


@pytest.mark.proves("facts-quick-to-load")
def test_loading_the_plugin_loads_no_library() -> None:
    program = (
        "import sys, perdure.api.hooks, perdure.api.tools\nbefore = set(sys.modules)\n"
        "import perdure_facts\nperdure_facts.tools()\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['perdure_facts']\n", "")


@pytest.mark.proves("facts-bounded")
def test_every_argument_is_described_and_bounded() -> None:
    for tool in TOOLS.values():
        assert tool.parameters["additionalProperties"] is False
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        for schema in properties.values():
            assert isinstance(schema, dict)
            assert str(schema["description"]).endswith(".")
            kind = schema["type"]
            assert kind in {"string", "integer", "number"}
            assert (
                {"minimum", "maximum"} <= set(schema) or "enum" in schema or {"minLength", "maxLength"} <= set(schema)
            )


@pytest.mark.proves("facts-bounded")
@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("facts.machine", {"x": 1}, "Additional properties are not allowed ('x' was unexpected)"),
        ("facts.disks", {"path": ""}, "path: '' should be non-empty"),
        ("facts.disks", {"path": 7}, "path: 7 is not of type 'string'"),
        ("facts.processes", {"limit": 0}, "limit: 0 is less than the minimum of 1"),
        ("facts.processes", {"limit": 101}, "limit: 101 is greater than the maximum of 100"),
        ("facts.processes", {"by": "name"}, "by: 'name' is not one of ['memory', 'cpu']"),
        ("facts.processes", {"by": "cpu", "seconds": 60}, "seconds: 60 is greater than the maximum of 10"),
    ],
)
def test_arguments_out_of_bounds_are_refused(tool: str, arguments: dict[str, JsonValue], fault: str) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        call(tool, **arguments)
    assert caught.value.context["faults"] == [fault]


@pytest.mark.proves("facts-true")
@pytest.mark.platforms("linux")
def test_the_machine_is_this_machine() -> None:
    result = call("facts.machine")
    data = data_of(result)
    meminfo = dict(re.findall(r"^(\w+): +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
    (booted,) = re.findall(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    uname = os.uname()
    assert data["memory_total"] == int(meminfo["MemTotal"]) * 1024
    assert 0 < data["memory_available"] <= data["memory_total"]
    assert datetime.strptime(data["booted"], "%Y-%m-%dT%H:%M:%S%z") == datetime.fromtimestamp(int(booted), UTC)
    assert (data["system"], data["kernel"], data["architecture"]) == (uname.sysname, uname.release, uname.machine)
    assert (data["cpus"], data["cpus_usable"]) == (os.cpu_count(), len(os.sched_getaffinity(0)))
    assert data["python"] == platform.python_version()
    assert [line.partition(": ")[0] for line in result.text.splitlines()] == [
        "system",
        "kernel",
        "processors",
        "memory",
        "booted",
        "python",
    ]
    # Nothing that names the machine or a person.
    assert uname.nodename not in result.text
    assert set(data) == {
        *("system", "distribution", "kernel", "architecture", "cpus", "cpus_usable", "cores"),
        *("memory_total", "memory_available", "booted", "python"),
    }


@pytest.mark.proves("facts-true", "facts-read-only")
@pytest.mark.platforms("linux", "darwin")
def test_a_path_is_measured_on_the_file_system_that_holds_it(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    for path in (folder, link):
        (disk,) = data_of(call("facts.disks", path=str(path)))["disks"]
        system = os.statvfs(folder)
        assert disk["path"] == str(path)
        assert disk["total"] == system.f_blocks * system.f_frsize
        assert os.path.ismount(disk["mount"])
        assert os.stat(disk["mount"]).st_dev == folder.stat().st_dev
        assert disk["type"]
        assert disk["fault"] is None
    assert sorted(os.listdir(tmp_path)) == ["link", "with a space"]


@pytest.mark.proves("facts-true")
@pytest.mark.platforms("linux")
def test_without_a_path_the_mounted_disks_are_told() -> None:
    result = call("facts.disks")
    disks = data_of(result)["disks"]
    mounts = {
        line.split()[1].encode().decode("unicode_escape") for line in Path("/proc/mounts").read_text().splitlines()
    }
    assert {disk["mount"] for disk in disks} <= mounts
    assert all(os.path.isdir(disk["mount"]) for disk in disks)
    if disks:
        lines = result.text.splitlines()
        assert lines[0].split() == ["mount", "type", "total", "used", "free"]
        assert [line.split()[0] for line in lines[1:]] == [disk["mount"] for disk in disks]


@pytest.mark.proves("facts-bounded")
@pytest.mark.platforms("linux", "darwin")
def test_a_path_that_cannot_be_looked_at_is_told_with_its_reason(tmp_path: Path) -> None:
    missing, ring = tmp_path / "missing" / "below", tmp_path / "ring"
    ring.symlink_to(ring)
    for path, reason in (
        (str(missing), "No such file or directory"),
        (str(ring), "Too many levels of symbolic links"),
        ("n" * 300, "File name too long"),
    ):
        with pytest.raises(ToolFailed) as caught:
            call("facts.disks", path=path)
        assert caught.value.summary == f"cannot look at {path}: {reason}"
        assert caught.value.context == {"path": path, "reason": reason}
    with pytest.raises(ToolFailed) as caught:
        call("facts.disks", path="a\0b")
    assert caught.value.summary == "a path cannot hold a null character"


@pytest.fixture
def talkative() -> Iterator["subprocess.Popen[bytes]"]:
    """A process with secrets in its command line, its environment and its name for itself, using 64 MiB."""
    program = (
        "import ctypes, sys\nheld = bytearray(b'x') * (64 << 20)\n"
        "ctypes.CDLL(None).prctl(15, b'fifteen-letters', 0, 0, 0)\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        # psutil completes a name that fills the kernel's fifteen letters with the first word of the command line.
        ["fifteen-letters--password=hunter2", "-c", program, "--token=hunter2"],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "API_KEY": "hunter2",
            "PYTHONHOME": sys.base_prefix,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with process:
        yield process
        process.kill()


@pytest.mark.proves("facts-no-command-lines", "facts-true")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize("by", ["memory", "cpu"])
def test_processes_are_told_by_the_kernels_name_and_nothing_else(talkative: "subprocess.Popen[bytes]", by: str) -> None:
    result = call("facts.processes", by=by, limit=100, seconds=0.1)
    data = data_of(result)
    own = {process["pid"]: process for process in data["processes"]}
    if by == "memory":
        found = own[talkative.pid]
        assert found["name"] == "fifteen-letters"
        assert found["rss"] > 64 << 20
        assert sorted(found) == ["name", "pid", "rss", "user"]
        sizes = [process["rss"] or 0 for process in data["processes"]]
        assert sizes == sorted(sizes, reverse=True)
    else:
        shares = [process["cpu_percent"] or 0.0 for process in data["processes"]]
        assert shares == sorted(shares, reverse=True)
    assert "hunter2" not in result.text
    assert "hunter2" not in str(data)


@pytest.mark.proves("facts-bounded")
def test_no_more_processes_are_told_than_asked_for() -> None:
    result = call("facts.processes", limit=1)
    data = data_of(result)
    assert len(data["processes"]) == 1
    lines = result.text.splitlines()
    assert lines[0].split() == ["pid", "user", "memory", "name"]
    assert lines[-1] == f"1 of {data['total']} processes"

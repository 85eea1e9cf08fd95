"""What PM reads from a uv.lock without a TOML parser: the same as a TOML parser reads, and the wheel for a machine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from perdure_pm.model.errors import IntegrityFault, PlatformUnsupported
from perdure_pm.model.lock_view import Artefact, LockedTool, addressed_names, choose_wheel, parse_locked_tool

MANY = "uv-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
MUSL = "uv-1.2.3-py3-none-musllinux_1_1_x86_64.whl"
HASHES = {name: letter * 64 for name, letter in zip(("other", "sdist", "many", "musl"), "abcd", strict=True)}
LOCK = f"""version = 1
revision = 3

[[package]]
name = "uvloop"
version = "9.9.9"
source = {{ registry = "https://index.invalid/simple" }}
wheels = [
    {{ url = "https://x.invalid/uvloop-9.9.9-py3-none-musllinux_1_1_x86_64.whl", hash = "sha256:{HASHES["other"]}" }},
]

[[package]]
name = "uv"
version = "1.2.3"
source = {{ registry = "https://index.invalid/simple" }}
sdist = {{ url = "https://x.invalid/uv-1.2.3.tar.gz", hash = "sha256:{HASHES["sdist"]}", size = 7 }}
wheels = [
    {{ url = "https://x.invalid/{MANY}", hash = "sha256:{HASHES["many"]}", size = 20 }},
    {{ url = "https://x.invalid/{MUSL}", hash = "sha256:{HASHES["musl"]}", size = 30, upload-time = "2026-01-01" }},
]

[package.metadata]
requires-dist = [{{ name = "uv" }}]
"""

MACHINES = [
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("linux", "i686"),
    ("darwin", "x86_64"),
    ("darwin", "arm64"),
    ("win32", "AMD64"),
    ("win32", "ARM64"),
]


def test_a_tool_is_read_with_its_wheels_and_without_its_source_archive() -> None:
    assert parse_locked_tool(LOCK, "uv") == LockedTool(
        "uv",
        "1.2.3",
        (
            Artefact(f"https://x.invalid/{MANY}", HASHES["many"], 20),
            Artefact(f"https://x.invalid/{MUSL}", HASHES["musl"], 30),
        ),
    )


def test_a_size_that_the_lock_does_not_say_is_zero() -> None:
    (wheel,) = parse_locked_tool(LOCK, "uvloop").wheels
    assert (wheel.size, wheel.name) == (0, "uvloop-9.9.9-py3-none-musllinux_1_1_x86_64.whl")


@pytest.mark.parametrize(
    "lock",
    ["", "[[package]]\n", "not a lock", LOCK.replace('name = "uv"', 'name = "vu"'), LOCK.replace("sha256:", "md5:")],
    ids=["empty", "nothing in it", "other text", "another package", "no sha256"],
)
def test_a_lock_without_the_tool_is_refused_with_a_way_to_get_it_back(lock: str) -> None:
    with pytest.raises(IntegrityFault) as caught:
        parse_locked_tool(lock, "uv")
    assert caught.value.summary == "pm/uv.lock holds no wheels of uv"
    assert "git checkout pm/uv.lock" in (caught.value.hint or "")


def test_pms_own_lock_reads_the_same_as_with_a_toml_parser(checkout: Path) -> None:
    text = (checkout / "pm" / "uv.lock").read_text(encoding="utf-8")
    (package,) = [entry for entry in tomllib.loads(text)["package"] if entry["name"] == "uv"]
    tool = parse_locked_tool(text, "uv")
    assert tool.version == package["version"]
    assert [(wheel.url, f"sha256:{wheel.sha256}", wheel.size) for wheel in tool.wheels] == [
        (wheel["url"], wheel["hash"], wheel["size"]) for wheel in package["wheels"]
    ]


@pytest.mark.parametrize(("system", "machine"), MACHINES)
def test_every_supported_machine_gets_a_wheel_that_says_its_own_name(checkout: Path, system: str, machine: str) -> None:
    tool = parse_locked_tool((checkout / "pm" / "uv.lock").read_text(encoding="utf-8"), "uv")
    name = choose_wheel(tool, system, machine).name
    expected = {
        ("linux", "x86_64"): "musllinux_1_1_x86_64",
        ("linux", "aarch64"): "musllinux_1_1_aarch64",
        ("linux", "i686"): "musllinux_1_1_i686",
        ("darwin", "x86_64"): "macosx_10_12_x86_64",
        ("darwin", "arm64"): "macosx_11_0_arm64",
        ("win32", "AMD64"): "win_amd64",
        ("win32", "ARM64"): "win_arm64",
    }[system, machine]
    assert name.endswith(f"{expected}.whl")


def test_a_static_binary_is_preferred_and_another_taken_where_there_is_none() -> None:
    tool = parse_locked_tool(LOCK, "uv")
    assert "musllinux" in choose_wheel(tool, "linux", "x86_64").name
    without = LockedTool(tool.name, tool.version, tool.wheels[:1])
    assert "manylinux" in choose_wheel(without, "linux", "x86_64").name


@pytest.mark.parametrize(("system", "machine"), [("linux", "mips"), ("win32", "mips"), ("sunos5", "sparc")])
def test_a_machine_without_a_wheel_is_told_its_name(system: str, machine: str) -> None:
    with pytest.raises(PlatformUnsupported) as caught:
        choose_wheel(parse_locked_tool(LOCK, "uv"), system, machine)
    assert caught.value.summary == f"pm/uv.lock has no uv for {system} on {machine}"
    assert caught.value.context == {"system": system, "machine": machine}


@pytest.mark.proves("plugins-direct-urls")
@pytest.mark.parametrize("project", [".", "pm"])
def test_what_has_an_address_is_found_as_a_toml_parser_finds_it(checkout: Path, project: str) -> None:
    text = (checkout / project / "uv.lock").read_text(encoding="utf-8")
    packages = tomllib.loads(text)["package"]
    wanted = {entry["name"] for entry in packages if not {"registry", "virtual"} & entry["source"].keys()}
    assert addressed_names(text) == wanted
    assert wanted
    more = '\n[[package]]\nname = "far"\nversion = "1.0"\nsource = { url = "https://x.invalid/far-1.0.whl" }\n'
    assert addressed_names(text + more) == {*wanted, "far"}
    odd = '\n[[package]]\nname = "odd"\nmarkers = []\nsource = { git = "https://x.invalid/odd" }\n'
    assert addressed_names(text + odd) is None, "in a form that is not known only a parser can tell"

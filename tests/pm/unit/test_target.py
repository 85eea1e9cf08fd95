"""Which wheels run on which machine, and what markers say there."""

from __future__ import annotations

import pytest
from packaging.markers import Marker
from packaging.tags import sys_tags

from perdure_pm.adapters.interpreter import running_interpreter, target_name
from perdure_pm.model.errors import UsageFault
from perdure_pm.model.target import MACHINES, parse_target, this_target

PYTHON = ".".join(running_interpreter().version.split(".")[:2])


def test_this_machine_takes_what_its_own_interpreter_takes() -> None:
    here = parse_target(None, PYTHON)
    assert here.name.removesuffix("-musl") == target_name()
    for tag in list(sys_tags())[:40]:
        assert here.choose([f"one-1.0-{tag}.whl"]) is not None, tag


@pytest.mark.parametrize(
    ("target", "python", "chosen"),
    [
        ("linux-aarch64", "3.12", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        ("linux-aarch64-musl", "3.12", "musllinux_1_1_aarch64"),
        ("darwin-arm64", "3.12", "macosx_11_0_arm64"),
        ("darwin-x86_64", "3.12", "macosx_10_12_x86_64"),
        ("win32-amd64", "3.12", "win_amd64"),
        ("win32-arm64", "3.12", None),
        ("linux-aarch64", "3.13", None),
    ],
)
def test_the_wheel_of_another_machine_is_chosen_by_its_tags(target: str, python: str, chosen: str | None) -> None:
    platforms = [
        "manylinux_2_17_aarch64.manylinux2014_aarch64",
        "manylinux_2_39_aarch64",
        "musllinux_1_1_aarch64",
        "macosx_11_0_arm64",
        "macosx_10_12_x86_64",
        "win_amd64",
    ]
    names = [f"one-1.0-cp312-cp312-{platform}.whl" for platform in platforms]
    found = parse_target(target, python).choose(["no wheel at all", *names])
    assert found == (None if chosen is None else f"one-1.0-cp312-cp312-{chosen}.whl")


def test_a_stable_abi_and_pure_wheels_run_on_later_pythons_and_the_nearest_one_is_chosen() -> None:
    target = parse_target("linux-x86_64", "3.14")
    pure, stable = "one-1.0-py3-none-any.whl", "one-1.0-cp36-abi3-manylinux_2_12_x86_64.manylinux2010_x86_64.whl"
    assert target.choose([pure, stable]) == stable
    assert target.choose([pure]) == pure
    assert target.choose(["one-1.0-py2-none-any.whl"]) is None


@pytest.mark.parametrize(
    ("marker", "wanted"),
    [
        ("sys_platform == 'win32'", True),
        ("platform_machine == 'ARM64'", True),
        ("os_name == 'posix'", False),
        ("python_version < '3.13'", True),
        ("python_full_version < '3.12.3'", True),  # some 3.12 has it, some has not: it is carried
        ("python_full_version >= '3.12.3'", True),
        ("python_version < '3.12'", False),
        ("platform_python_implementation == 'PyPy'", False),
    ],
)
def test_markers_are_asked_about_the_target_and_not_about_this_machine(marker: str, wanted: bool) -> None:
    assert parse_target("win32-arm64", "3.12").wants(Marker(marker)) is wanted


def test_every_target_has_a_name_and_what_is_none_is_refused_with_them() -> None:
    for system, machines in MACHINES.items():
        for machine in machines:
            assert parse_target(f"{system}-{machine}", "3.12").system == system
    with pytest.raises(UsageFault, match="no platform 'amiga-68k'") as caught:
        parse_target("amiga-68k", "3.12")
    assert this_target() in str(caught.value.hint)
    with pytest.raises(UsageFault, match=r"3\.11 or newer, and 3\.9 was asked for"):
        parse_target(None, "3.9")

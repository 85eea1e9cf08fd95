"""Custom package registrations: plain data, every fault named by its place."""

from __future__ import annotations

from typing import Any

import pytest

from perdure_pm.model.errors import RegistrationInvalid
from perdure_pm.model.registration import (
    RegisteredArtefact,
    Registration,
    choose_artefact,
    explain_absence,
    parse_registrations,
)

HASH = "a" * 64
ARCHIVE: dict[str, Any] = {
    "name": "ripgrep",
    "version": "15.1.0",
    "kind": "archive",
    "artefacts": [{"target": "linux-x86_64", "url": "https://files.example/rg.tar.gz", "sha256": HASH}],
    "executables": ["ripgrep-15.1.0/rg"],
}
TOOL: dict[str, Any] = {
    "name": "ruff",
    "version": "0.14.0",
    "kind": "python-tool",
    "requirement": f"ruff==0.14.0 --hash=sha256:{HASH}",
    "executables": ["ruff"],
}


class Trap:
    """An object that must never be asked for anything."""

    def __str__(self) -> str:
        raise AssertionError("code of a registration was run")

    __repr__ = __str__


def faults(raw: Any, **reserved: Any) -> list[str]:
    with pytest.raises(RegistrationInvalid) as caught:
        parse_registrations(raw, **reserved)
    assert caught.value.hint
    found = caught.value.context["faults"]
    assert isinstance(found, list)
    assert caught.value.summary == "; ".join(found)
    return found


def test_an_archive_and_a_tool_are_read() -> None:
    """Case 26."""
    archive, tool = parse_registrations([ARCHIVE, TOOL])
    assert archive == Registration(
        name="ripgrep",
        version="15.1.0",
        kind="archive",
        artefacts=(
            RegisteredArtefact(target="linux-x86_64", url="https://files.example/rg.tar.gz", path=None, sha256=HASH),
        ),
        executables=("ripgrep-15.1.0/rg",),
    )
    assert archive.commands == {"rg": "ripgrep-15.1.0/rg"}
    assert (tool.requirement, tool.hashes) == ("ruff==0.14.0", (f"sha256:{HASH}",))
    assert parse_registrations([]) == ()


@pytest.mark.proves("registration-is-data")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"install": print}, "packages[0].install: unknown field"),
        ({"name": lambda: "x"}, "packages[0].name: function where text belongs"),
        ({"name": Trap()}, "packages[0].name: Trap where text belongs"),
        ({"version": Trap()}, "packages[0].version: Trap where text belongs"),
        ({"executables": [Trap()]}, "packages[0].executables[0]: Trap is not a relative path inside the archive"),
        ({"executables": {"a"}}, "packages[0].executables: a list of at least one belongs here"),
        ({"artefacts": [Trap()]}, "packages[0].artefacts[0]: Trap where an object belongs"),
        ({"hooks": ["import os"]}, "packages[0].hooks: unknown field"),
    ],
)
def test_anything_that_is_code_is_refused_without_running_it(change: dict[str, Any], fault: str) -> None:
    """Case 27."""
    assert faults([{**ARCHIVE, **change}]) == [fault]


@pytest.mark.proves("registration-is-data")
@pytest.mark.parametrize(("raw", "word"), [(print, "builtin_function_or_method"), ("x", "'x'"), ({}, "dict")])
def test_what_is_no_list_is_refused(raw: object, word: str) -> None:
    assert faults(raw) == [f"packages: {word} where a list of objects belongs"]
    assert faults([raw]) != []


@pytest.mark.proves("registration-faults-named")
@pytest.mark.parametrize(
    ("registration", "fault"),
    [
        ({**ARCHIVE, "kind": "script"}, "packages[0].kind: 'script' is none of archive, python-tool"),
        ({**ARCHIVE, "requirement": "x==1"}, "packages[0].requirement: unknown field"),
        ({**TOOL, "artefacts": []}, "packages[0].artefacts: unknown field"),
        (
            {**ARCHIVE, "version": "1/../2"},
            "packages[0].version: '1/../2' is not a version of letters, digits and ._+-",
        ),
        ({**ARCHIVE, "name": "../x"}, "packages[0].name: '../x' is not a name of lower-case letters, digits and ._-"),
        ({**ARCHIVE, "executables": []}, "packages[0].executables: a list of at least one belongs here"),
        (
            {**ARCHIVE, "executables": ["../rg"]},
            "packages[0].executables[0]: '../rg' is not a relative path inside the archive",
        ),
        (
            {**ARCHIVE, "executables": ["/bin/rg"]},
            "packages[0].executables[0]: '/bin/rg' is not a relative path inside the archive",
        ),
        (
            {**ARCHIVE, "executables": ["a b"]},
            "packages[0].executables[0]: 'a b' is not a relative path inside the archive",
        ),
        ({**TOOL, "executables": ["bin/ruff"]}, "packages[0].executables[0]: 'bin/ruff' is not the name of a command"),
        (
            {**ARCHIVE, "executables": ["a/rg", "b/rg"]},
            "packages[0].executables[1]: 'rg' is taken: by PM, by the host, or by another registration",
        ),
        (
            {**TOOL, "requirement": "ruff>=0.14"},
            (
                "packages[0].requirement: 'ruff>=0.14' is not exact: name==version, "
                "with --hash=sha256:… behind it or nothing"
            ),
        ),
        ({**TOOL, "requirement": "ruff==0.15.0"}, "packages[0].requirement: asks for 0.15.0, and version says 0.14.0"),
    ],
)
def test_a_fault_is_named_by_its_place(registration: dict[str, Any], fault: str) -> None:
    """Case 27."""
    assert faults([registration]) == [fault]


@pytest.mark.proves("registration-faults-named")
@pytest.mark.parametrize(
    ("artefact", "fault"),
    [
        ({"sha256": "A" * 64}, f".sha256: {'A' * 64!r} is not 64 lower-case hexadecimal digits"),
        ({"sha256": "abc"}, ".sha256: 'abc' is not 64 lower-case hexadecimal digits"),
        ({"url": "ftp://x/y"}, ".url: 'ftp://x/y' is not an http, https or file address"),
        ({"path": "/x"}, ": exactly one of url and path belongs here"),
        ({"target": "Linux"}, ".target: 'Linux' is not a target such as linux-x86_64, nor any"),
        ({"run": "x"}, ".run: unknown field"),
    ],
)
def test_a_fault_in_an_artefact_is_named_by_its_place(artefact: dict[str, Any], fault: str) -> None:
    """Case 27: a bad hash among them."""
    registration = {**ARCHIVE, "artefacts": [{**ARCHIVE["artefacts"][0], **artefact}]}
    assert faults([registration]) == [f"packages[0].artefacts[0]{fault}"]


@pytest.mark.parametrize(
    "requirement", ["a @ https://x/y", "a[b]==1", "a==1; os_name=='nt'", "a==1.*", "-e .", "a==1 b==1"]
)
def test_a_requirement_that_leaves_a_choice_is_refused(requirement: str) -> None:
    assert "is not exact" in faults([{**TOOL, "requirement": requirement}])[0]


@pytest.mark.proves("registration-faults-named")
@pytest.mark.parametrize(
    "name", ["perdure", "perdure-pm", "python", "python3", "python3.13", "python3.13t", "uv", "uvx", "pip", "datasette"]
)
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    """Case 27: a name that collides with a built-in, as package and as command, whatever its case and suffix."""
    reserved = {"reserved": ["Datasette"]}
    assert faults([{**ARCHIVE, "name": name}], **reserved)[0].startswith(f"packages[0].name: {name!r} is taken")
    for path in (name, f"a/{name}", f"{name.upper()}.EXE"):
        assert " is taken: " in faults([{**ARCHIVE, "executables": [path]}], **reserved)[0]


def test_names_and_commands_are_taken_once() -> None:
    other = {**ARCHIVE, "name": "other"}
    assert faults([ARCHIVE, other]) == [
        "packages[1].executables[0]: 'rg' is taken: by PM, by the host, or by another registration"
    ]
    again = {**ARCHIVE, "executables": ["other"]}
    assert faults([ARCHIVE, again])[0].startswith("packages[1].name: 'ripgrep' is taken")


@pytest.mark.proves("registration-faults-named")
def test_all_faults_of_all_registrations_are_named_at_once() -> None:
    """Case 27."""
    assert faults([{}, {**ARCHIVE, "kind": "x", "version": 1}, 5]) == [
        "packages[0].kind: missing",
        "packages[0].name: missing",
        "packages[0].version: missing",
        "packages[0].executables: missing",
        "packages[1].kind: 'x' is none of archive, python-tool",
        "packages[1].version: int where text belongs",
        "packages[2]: int where an object belongs",
    ]


@pytest.mark.proves("package-sits-out")
def test_an_artefact_is_chosen_for_the_machine() -> None:
    """Case 28."""
    artefacts = [
        {"target": target, "path": f"/files/{target}.zip", "sha256": HASH} for target in ("any", "linux-x86_64")
    ]
    (both,) = parse_registrations([{**ARCHIVE, "artefacts": artefacts}])
    chosen = choose_artefact(both, "linux-x86_64")
    assert chosen is not None
    assert chosen.path == "/files/linux-x86_64.zip"
    other = choose_artefact(both, "darwin-arm64")
    assert other is not None
    assert other.target == "any"
    (one,) = parse_registrations([ARCHIVE])
    assert choose_artefact(one, "darwin-arm64") is None
    assert explain_absence(one, "darwin-arm64") == (
        "ripgrep 15.1.0 is for linux-x86_64, and this machine is darwin-arm64"
    )
    assert faults([{**ARCHIVE, "artefacts": [artefacts[0], artefacts[0]]}]) == [
        "packages[0].artefacts[1].target: a second artefact for any"
    ]

"""Packages that config.yaml registers: had by install, missed by doctor, mended by repair."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model import errors
from perdure_pm.ops.doctor import examine
from tests.pm.bench import Bench
from tests.pm.package_shelf import (
    FILES,
    Shelf,
    packages_of,
    put_hello,
)

pytestmark = pytest.mark.platforms("linux")


def configure(bench: Bench, *registrations: dict[str, Any]) -> None:
    """Have config.yaml register these and nothing else, as people write it."""
    text = bench.layout.config.read_text().partition("packages:")[0]
    lines = "".join(f"- {json.dumps(registration)}\n" for registration in registrations)
    bench.layout.config.write_text(f"{text}packages:\n{lines}" if registrations else text)


def put_local(shelf: Shelf, says: str = "hello") -> dict[str, Any]:
    """Return a registration of a file on this machine: a home with a wheelhouse asks nobody else."""
    (artefact,) = (whole := put_hello(shelf, says))["artefacts"]
    del artefact["url"]
    artefact["path"] = str(shelf.folder / f"{says}.tar.gz")
    return whole | {"artefacts": [artefact]}


def says_hello(bench: Bench) -> str:
    return subprocess.run([bench.layout.bin / "hello"], capture_output=True, text=True, check=True).stdout


@pytest.mark.proves("packages-configured")
def test_an_install_has_what_the_configuration_registers_and_nothing_more(bench: Bench, shelf: Shelf) -> None:
    """Case 26, for a person."""
    configure(bench, put_local(shelf))
    outcome = bench.call("install", bench.context(dry_run=True))
    assert (outcome.status, packages_of(bench.context())) == ("ok", [])
    outcome = bench.call("install")
    assert [(item["name"], item["status"]) for item in outcome.data["registered"]] == [("hello", "installed")]
    assert says_hello(bench) == "hello\n"
    assert bench.call("install").status == "noop"
    configure(bench, put_local(shelf, "again"))
    bench.call("install")
    assert says_hello(bench) == "again\n"
    other = bench.current.identity
    configure(bench)
    assert bench.call("install").data["withdrawn"] == ["hello"]
    assert not (bench.layout.bin / "hello").exists()
    assert [path.name for path in bench.layout.packages.iterdir()] == ["configured.json"]
    assert bench.current.identity == other  # a package is no part of a generation
    assert bench.call("install").status == "noop"


@pytest.mark.proves("packages-configured")
def test_a_path_in_the_configuration_counts_from_its_file(bench: Bench, shelf: Shelf) -> None:
    whole = put_local(shelf)
    (artefact,) = whole["artefacts"]
    near = os.path.relpath(artefact["path"], bench.layout.home)
    configure(bench, whole | {"artefacts": [artefact | {"path": near}]})
    assert bench.call("install").status == "ok"
    assert says_hello(bench) == "hello\n"


@pytest.mark.proves("packages-configured")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": "x"}, "packages[0].run: unknown field"),
        ({"kind": "code"}, "packages[0].kind: 'code' is none of archive, python-tool"),
        ({"name": "fakehost"}, "packages[0].name: 'fakehost' is taken: by PM, by the host, or by another registration"),
        ({"version": 14.1}, "packages[0].version: float where text belongs"),
        ({"executables": ["x/uv"]}, "packages[0].executables[0]: 'uv' is taken"),
    ],
)
def test_a_fault_refuses_the_install_by_its_place_and_no_other_verb(
    bench: Bench, shelf: Shelf, change: dict[str, Any], said: str
) -> None:
    """Case 27, for a person."""
    configure(bench, put_local(shelf) | change)
    before = bench.generations
    with pytest.raises(errors.ConfigInvalid) as caught:
        bench.call("install")
    line = len(bench.layout.config.read_text().splitlines())
    assert caught.value.summary.startswith(f"config.yaml:{line}:")
    assert said in caught.value.summary
    assert (bench.generations, packages_of(bench.context())) == (before, [])
    bench.add("gadget")
    bench.call("rollback")


@pytest.mark.proves("packages-configured", "package-sits-out")
def test_what_cannot_be_had_changes_nothing_and_what_is_for_another_machine_sits_out(
    bench: Bench, shelf: Shelf
) -> None:
    """Cases 27 and 28, for a person."""
    good = put_local(shelf)
    (artefact,) = good["artefacts"]
    text = 'plugins: ["gadget"]\n'
    bench.config.write_text(text)
    before = bench.current.identity
    configure(bench, good | {"artefacts": [artefact | {"sha256": "0" * 64}]})
    with pytest.raises(errors.IntegrityFault):
        bench.call("install")
    assert bench.current.identity == before
    assert not (bench.layout.bin / "hello").exists()
    configure(bench, good | {"artefacts": [artefact | {"target": "plan9-mips"}]})
    outcome = bench.call("install")
    assert f"hello sits out: hello 1.0 is for plan9-mips, and this machine is {target_name()}" in outcome.obligations
    assert packages_of(bench.context()) == ["configured.json"]
    assert bench.current.identity != before


def missing_packages(bench: Bench, *, deep: bool) -> list[dict[str, Any]]:
    found = examine(bench.layout, "default", deep=deep)["problems"]
    return [problem for problem in found if problem["code"] == "package-missing"]


@pytest.mark.proves("packages-configured", "doctor-names-it")
@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("bin/hello", "a launcher of the package hello 1.0 is not in "),
        ("store/packages", "the package hello 1.0 is not in "),
        ("store/packages/hello-1.0-*/files/hello-1.0/hello", "the package hello 1.0 is not in "),
    ],
)
@pytest.mark.parametrize("verb", ["install", "repair"])
def test_what_is_lost_of_a_package_is_named_and_had_again(
    bench: Bench, shelf: Shelf, lost: str, said: str, verb: str
) -> None:
    def problems() -> list[str]:
        return [problem["summary"] for problem in missing_packages(bench, deep=False)]

    configure(bench, put_local(shelf))
    bench.call("install")
    assert problems() == []
    (path,) = bench.layout.home.glob(lost)
    FILES.remove_tree(path)
    (summary,) = problems()
    assert summary.startswith(said)
    assert bench.call(verb).status == "ok"
    assert problems() == []
    assert says_hello(bench) == "hello\n"
    configure(bench, put_local(shelf) | {"kind": "code"})
    found = [problem["summary"] for problem in examine(bench.layout, "default", deep=False)["problems"]]
    assert any("packages[0].kind: 'code' is none of archive, python-tool" in summary for summary in found)


@pytest.mark.proves("packages-configured", "doctor-names-it")
def test_a_changed_byte_of_a_package_is_found_by_a_deep_look_and_mended_by_repair(bench: Bench, shelf: Shelf) -> None:
    configure(bench, put_local(shelf))
    bench.call("install")
    (path,) = bench.layout.home.glob("store/packages/hello-1.0-*/files/hello-1.0/hello")
    good = path.read_bytes()
    path.chmod(0o755)
    path.write_bytes(good[:-1] + b"#")
    assert missing_packages(bench, deep=False) == []
    (problem,) = missing_packages(bench, deep=True)
    assert problem["hint"] == "perdure-pm repair"
    assert bench.call("repair").data["packages"] == ["hello 1.0"]
    assert path.read_bytes() == good
    assert missing_packages(bench, deep=True) == []
    assert bench.call("repair").status == "noop"

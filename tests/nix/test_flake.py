"""The flake: its outputs, `nix flake check` with the stub in the place of nixpkgs, and the units of the modules."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.nix.machine import Nix

OVERRIDE = ("--no-write-lock-file", "--override-input", "nixpkgs")
STUB = "path:tests/nix/stub-nixpkgs"


@pytest.fixture
def repository(own_nix: Nix) -> Nix:
    """The tree as a repository, which is how a flake below the top finds what lies beside it."""
    if shutil.which("git") is None:
        pytest.skip("no git: install it")
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    own_nix.run("git", "init", "--quiet")
    own_nix.run("git", "add", "--all")
    own_nix.run("git", *identity, "commit", "--quiet", "--message", "Everything")
    return own_nix


@pytest.mark.proves("nix-flake")
def test_the_flake_passes_its_checks_with_the_stub_in_the_place_of_nixpkgs(repository: Nix) -> None:
    ended = repository.run("nix", "flake", "check", "./nix", *OVERRIDE, STUB)
    assert "error" not in ended.err
    for words, said in (
        (("./nix", "--", "--version"), "perdure 0.1.0\n"),
        (("./nix#pm", "--", "version"), "perdure-pm 0.1.0\n"),
    ):
        flake, *more = words
        assert repository.run("nix", "run", flake, *OVERRIDE, STUB, *more).out == said


@pytest.mark.proves("nix-flake")
def test_the_flake_has_every_output_for_every_system(repository: Nix) -> None:
    outputs = json.loads(repository.run("nix", "flake", "show", "--json", "./nix", *OVERRIDE, STUB).out)
    systems = ["aarch64-darwin", "aarch64-linux", "x86_64-darwin", "x86_64-linux"]
    for name in ("packages", "apps", "devShells", "checks"):
        assert sorted(outputs[name]) == systems
    assert [sorted(outputs["packages"][system]) for system in systems] == [["app", "default", "pm"]] * 4
    assert sorted(outputs["apps"]["x86_64-linux"]) == ["default", "perdure", "pm"]
    assert (list(outputs["overlays"]), list(outputs["nixosModules"])) == (["default"], ["default"])
    assert "homeManagerModules" in outputs


@pytest.mark.proves("nix-flake")
def test_nixpkgs_is_the_only_input(nix: Nix) -> None:
    inputs = nix.run(
        "nix-instantiate", "--eval", "--json", "--strict", "-E", f"(import {nix.tree}/nix/flake.nix).inputs"
    )
    assert list(json.loads(inputs.out)) == ["nixpkgs"]


@pytest.mark.proves("nix-flake")
def test_the_overlay_and_the_flake_build_the_same(nix: Nix) -> None:
    text = (
        f"let pkgs = import {nix.tree}/tests/nix/stub-nixpkgs {{ }};"
        f"outputs = (import {nix.tree}/nix/flake.nix).outputs"
        " { self = outputs; nixpkgs.legacyPackages.x86_64-linux = pkgs; };"
        "added = outputs.overlays.default pkgs pkgs;"
        "in [ added.perdure.outPath added.perdure-pm.outPath ]"
    )
    found = json.loads(nix.run("nix-instantiate", "--eval", "--strict", "--json", "-E", text).out)
    assert found == [nix.path("perdure"), nix.path("pm")]


def module_of(nix: Nix, file: str, chosen: str, wanted: str) -> object:
    """Return a part of what a module sets, with `chosen` as its options' values."""
    package = f"({nix.expression}).perdure"
    text = (
        f"let pkgs = import {nix.tree}/tests/nix/stub-nixpkgs {{ }};"
        f"made = import {nix.tree}/nix/{file} {{ }} {{ inherit pkgs; inherit (pkgs) lib;"
        f"config.programs.perdure = {{ enable = true; package = {package}; }} // {chosen}; }}; in made.config.{wanted}"
    )
    found: object = json.loads(nix.run("nix-instantiate", "--eval", "--strict", "--json", "-E", text).out)
    return found


def unit_text(service: dict[str, object], section: str, values: str) -> str:
    """Return a unit file, as NixOS writes one of these values."""
    words = {True: "true", False: "false"}
    rows = service[values]
    assert isinstance(rows, dict)
    lines = [f"{name}={words.get(value, value) if isinstance(value, bool) else value}" for name, value in rows.items()]
    return "\n".join(["[Unit]", f"Description={service['description']}", f"[{section}]", *lines, ""])


@pytest.mark.proves("nix-flake")
def test_the_units_of_the_nixos_module_are_valid_and_run_what_is_there(nix: Nix, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: install systemd")
    place = nix.built("perdure")
    doctor = '{ doctor = { enable = true; calendar = "daily"; }; }'
    service = module_of(nix, "nixos-module.nix", doctor, "systemd.services.perdure-doctor")
    timer = module_of(nix, "nixos-module.nix", doctor, "systemd.timers.perdure-doctor")
    assert isinstance(service, dict)
    assert isinstance(timer, dict)
    assert service["serviceConfig"]["ExecStart"] == f"{place}/bin/perdure doctor"
    (tmp_path / "perdure-doctor.service").write_text(unit_text(service, "Service", "serviceConfig"), encoding="utf-8")
    (tmp_path / "perdure-doctor.timer").write_text(unit_text(timer, "Timer", "timerConfig"), encoding="utf-8")
    units = [tmp_path / "perdure-doctor.service", tmp_path / "perdure-doctor.timer"]
    ended = nix.run("systemd-analyze", "verify", "--man=no", *units, environment={"SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
    # What it says of the machine's own units is not about ours.
    assert [line for line in (ended.out + ended.err).splitlines() if "perdure" in line] == []
    # The same tool does find what is wrong.
    text = units[0].read_text(encoding="utf-8")
    units[0].write_text(re.sub("ExecStart=.*", "ExecStart=/gone", text), encoding="utf-8")
    assert nix.run("systemd-analyze", "verify", "--man=no", units[0], expect=None).exit_code != 0


@pytest.mark.proves("nix-flake")
def test_a_module_that_is_enabled_installs_the_commands_alone(nix: Nix) -> None:
    nothing = "{ doctor.enable = false; }"
    assert module_of(nix, "nixos-module.nix", nothing, "systemd") == {"services": {}, "timers": {}}
    installed = module_of(nix, "nixos-module.nix", nothing, "environment.systemPackages")
    assert installed == [nix.path("perdure")]
    assert module_of(nix, "home-manager-module.nix", "{ home = null; }", "home") == {
        "packages": [nix.path("perdure")],
        "sessionVariables": {},
    }
    home = module_of(nix, "home-manager-module.nix", '{ home = "/srv/perdure"; }', "home.sessionVariables")
    assert home == {"PERDURE_HOME": "/srv/perdure"}

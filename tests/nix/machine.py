"""Nix on this machine, and a copy of the tree to build from.

Owns: when it can be tried at all, the settings under which everything is evaluated and built, and the stub package set
for this machine's Python. Does not own: what is tried. Builds go to the machine's own store, where their paths are what
they say; nothing there is taken away.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model.settings import SETTINGS, network_of, network_variables, resolve

PARTS = ("nix", "pm", "app", "compat", "plugins", "pyproject.toml", "uv.lock", "README.md", "tests/nix/stub-nixpkgs")
"""What a flake of this repository would hold, as far as nix/ looks at it."""
SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    exit_code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        answer: dict[str, Any] = json.loads(self.out)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Nix:
    """The machine's Nix, and one copy of the tree."""

    tree: Path
    environment: Mapping[str, str] = field(repr=False)
    known: dict[str, Path] = field(default_factory=dict, repr=False)
    """What was built of this tree, which nobody changes after that."""

    def run(self, *words: str | Path, expect: int | None = 0, environment: Mapping[str, str] | None = None) -> Ended:
        """Return how a command ended in the tree's directory; `expect` is the exit code it must have, None for any."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.tree,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert expect in {None, done.returncode}, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Ended(exit_code=done.returncode, out=done.stdout, err=done.stderr)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, in which `nix` is the directory nix/ and `cases` what `hand` wrote."""
        text = f"let nix = {self.tree}/nix; cases = builtins.fromJSON (builtins.readFile {self.cases}); in {expression}"
        return json.loads(self.run("nix-instantiate", "--eval", "--strict", "--json", "-E", text).out)

    @property
    def cases(self) -> Path:
        return self.tree / "cases.json"

    def hand(self, cases: object) -> None:
        """Have `cases` in the expressions that are evaluated next."""
        self.cases.write_text(json.dumps(cases), encoding="utf-8")

    @property
    def expression(self) -> str:
        """Everything that is built, as a Nix expression."""
        return f"import {self.tree}/nix {{ pkgs = import {self.tree}/tests/nix/stub-nixpkgs {{ }}; }}"

    def path(self, attribute: str) -> str:
        """Return the store path that something would have; nothing is built."""
        text = f"({self.expression}).{attribute}.outPath"
        return str(json.loads(self.run("nix-instantiate", "--eval", "--json", "-E", text).out))

    def build(self, attribute: str, *more: str, expect: int | None = 0) -> Ended:
        """Return how building something ended; its store path is on standard output."""
        text = f"({self.expression}).{attribute}"
        return self.run("nix-build", "--no-out-link", *more, "-E", text, expect=expect)

    def built(self, attribute: str) -> Path:
        """Return the store path of something, built now where it is not there."""
        if attribute not in self.known:
            self.known[attribute] = Path(self.build(attribute).out.strip())
        return self.known[attribute]


def find_nix(scratch: Path, network: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for Nix; skip, by name, where it cannot be tried."""
    if shutil.which("nix-build") is None:
        pytest.skip("no nix: install it (Debian: nix-bin)")
    if os.geteuid() != 0:
        pytest.skip("nix without a daemon needs root")
    reached = network_of(resolve(SETTINGS, {}, network, {}))
    if reached.offline:
        pytest.skip("the wheels that the locks name come from an index, and PERDURE_OFFLINE is set")
    base = Path(sys.base_prefix).resolve()
    paths = [path for path in ("/bin", "/usr", "/lib", "/lib64", str(base)) if Path(path).exists()]
    home = scratch / "nix-home"
    home.mkdir(exist_ok=True)
    # Where the kernel has no namespaces to give, it is built without them; the results are the same to the byte.
    settings = {
        "build-users-group": "",
        "experimental-features": "nix-command flakes",
        "max-jobs": "2",
        "sandbox": "true",
        "sandbox-fallback": "true",
        "sandbox-paths": " ".join(path for path in paths if path == str(base) or not path.startswith(str(base))),
        "substituters": "",
    }
    return {
        "PATH": os.defpath if shutil.which("nix-build", path=os.defpath) else os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "NIX_CONFIG": "".join(f"{name} = {value}\n" for name, value in settings.items()),
        **{name: value for name, value in network_variables(reached).items() if not name.startswith("UV_")},
    }


def copy_tree(checkout: Path, target: Path) -> Path:
    """Return a copy of what nix/ needs of the checkout, with the stub package set made for this machine."""
    for part in PARTS:
        place = target / part
        place.parent.mkdir(parents=True, exist_ok=True)
        if (checkout / part).is_dir():
            shutil.copytree(checkout / part, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(checkout / part, place)
    (target / "tests/nix/stub-nixpkgs/machine.nix").write_text(
        "{\n"
        f'  base = "{Path(sys.base_prefix).resolve()}";\n'
        f'  interpreter = "{Path(getattr(sys, "_base_executable", sys.executable)).resolve()}";\n'
        f'  version = "{platform.python_version()}";\n'
        f'  glibc = "{platform.libc_ver()[1] or "2.28"}";\n'
        "}\n",
        encoding="utf-8",
    )
    return target

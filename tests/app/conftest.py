"""A generation as pm builds one, small: a real venv layout around this interpreter, boot.json, plugins as modules.

Owns: the fixture `generation`. Does not own: how pm really builds one (tests/system installs the app for real).
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

IDENTITY = "1-0123456789ab"


class Generation:
    """A generation of the app in a home, whose interpreter can be started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "store" / "generations" / IDENTITY
        self.venv = self.path / "venv"
        self.site = self.venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self.python = self.venv / "bin" / "python"
        self.site.mkdir(parents=True)
        self.python.parent.mkdir()
        base = Path(os.path.realpath(sys.executable))
        self.python.symlink_to(base)
        # The guard's slow reader is a program of the environment.
        if (reader := Path(sys.prefix) / "bin" / "shfmt").exists():
            (self.python.parent / "shfmt").symlink_to(reader)
        (self.venv / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        # The packages under test are those of the environment that runs the tests.
        seen = [entry for entry in sys.path if "packages" in entry or (Path(entry) / "perdure").is_dir()]
        beside = ("perdure_compat", "perdure_facts")
        seen += [entry for entry in sys.path if any((Path(entry) / name).is_dir() for name in beside)]
        (self.site / "seen.pth").write_text("".join(f"{entry}\n" for entry in dict.fromkeys(seen)))
        self.boot_path = self.path / "boot.json"
        self.boot()

    def boot(self, *plugins: object, **changes: object) -> None:
        """Write boot.json with these entries; `changes` replace members of the document."""
        document = {
            "schema": 1,
            "generation": IDENTITY,
            "host": {"name": "perdure", "version": "0.1.0"},
            "plugins": list(plugins),
            **changes,
        }
        self.boot_path.write_text(json.dumps(document))

    def plugin(self, name: str, source: str, entry: str | None = None) -> dict[str, str]:
        """Write a plugin's module and return its entry for boot.json."""
        (self.site / f"{name}_plugin.py").write_text(source)
        return {
            "name": name,
            "distribution": f"perdure-{name}",
            "version": "1.0",
            "entry": entry or f"{name}_plugin:plugin",
        }

    def launcher(self, name: str, source: str) -> Path:
        """Write an executable shell script into the home's `bin`."""
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{source}")
        path.chmod(0o755)
        return path

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, options: Sequence[str] = ("-I",)
    ) -> "subprocess.CompletedProcess[str]":
        """Run the app under the generation's own interpreter."""
        return subprocess.run(
            [str(self.python), *options, "-m", "perdure", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    """A generation without third-party plugins, in a home whose path holds what shells stumble over."""
    return Generation(tmp_path / 'a home\'s "path"')


GREETER = """
import sys
from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolCall, ToolFailed, ToolResult

plugin = sys.modules[__name__]

def greet(call: ToolCall) -> ToolResult:
    name = call.arguments["name"]
    if name == "nobody":
        raise ToolFailed("nobody is not there", hint="greet somebody", context={"name": name})
    return ToolResult(text=f"hello {name}", data={"greeted": name})

@hookimpl
def tools():
    return [
        Tool(
            name="greeter.hello",
            summary="Greet somebody.",
            parameters={
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 2}, "times": {"type": "integer", "maximum": 3}},
                "required": ["name"],
                "additionalProperties": False,
            },
            run=greet,
            read_only=True,
        )
    ]
"""


@pytest.fixture
def greeter() -> str:
    """The source of a plugin without faults."""
    return GREETER

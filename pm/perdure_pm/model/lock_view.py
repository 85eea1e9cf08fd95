"""What PM reads from a uv.lock without a TOML parser.

Owns: finding the artefacts of one package in a lock as uv writes it (Python 3.9 has no tomllib), and choosing the one
for a machine. Does not own: resolving or installing. Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure_pm.model.errors import IntegrityFault, PlatformUnsupported

_ARTEFACT = re.compile(
    r'\{ url = "(?P<url>[^"]+)", hash = "sha256:(?P<sha256>[0-9a-f]{64})"(?:, size = (?P<size>\d+))?'
)

_CUTOFF = re.compile(
    r'^exclude-newer = "[^"]*"\n|^\[options\.exclude-newer-package\]\n(?:[^\[\n].*\n)*\n?', re.MULTILINE
)


@dataclass(frozen=True)
class Artefact:
    """One file that a lock names."""

    url: str
    sha256: str
    size: int
    """Bytes; 0 where the lock does not say."""

    @property
    def name(self) -> str:
        """The file's name; an address has the ``+`` of a local version in another spelling."""
        return self.url.rsplit("/", 1)[-1].replace("%2B", "+").replace("%2b", "+")


@dataclass(frozen=True)
class LockedTool:
    """A package of a lock that is used as a tool: its version and its wheels."""

    name: str
    version: str
    wheels: tuple[Artefact, ...]


def parse_locked_tool(lock: str, name: str) -> LockedTool:
    """Return package `name` of the text of a uv.lock.

    Raises:
        IntegrityFault: the lock does not hold the package in the form that uv writes.
    """
    for block in lock.split("[[package]]\n")[1:]:
        fields = dict(re.findall(r'^(name|version) = "([^"]*)"$', block, re.MULTILINE))
        if fields.get("name") != name:
            continue
        wheels = block.partition("wheels = [")[2].partition("\n]")[0]
        found = tuple(
            Artefact(match["url"], match["sha256"], int(match["size"] or 0)) for match in _ARTEFACT.finditer(wheels)
        )
        if fields.get("version") and found:
            return LockedTool(name, fields["version"], found)
    raise IntegrityFault(
        f"pm/uv.lock holds no wheels of {name}",
        hint="get pm/uv.lock back as it was released (in a checkout: git checkout pm/uv.lock)",
    )


def parse_local_sources(lock: str) -> list[str]:
    """Return the directories, relative to the lock's own, that the packages of a uv.lock are taken from.

    A lock of fifty packages takes tomllib 100 ms, most of it for hashes, and this is asked at every install.
    """
    found = re.findall(r'^source = \{ (?:directory|editable) = ("(?:[^"\\]|\\.)*") \}$', lock, re.MULTILINE)
    return [str(json.loads(text)) for text in found]


def parse_registry(lock: str) -> str | None:
    """Return the address of the index that a uv.lock has its packages from; None where it names none."""
    found = re.search(r'^source = \{ registry = "(https?://[^"]+)" \}$', lock, re.MULTILINE)
    return found[1] if found else None


_ADDRESS = re.compile(r"^source = \{ (?!registry = |virtual = )", re.MULTILINE)
_ADDRESSED = re.compile(
    r'^name = "([^"]*)"\n(?:version = "[^"]*"\n)?source = \{ (?!registry = |virtual = )', re.MULTILINE
)


def parse_version(lock: str, name: str) -> str | None:
    """Return the version of package `name` of a uv.lock; None where it has none."""
    found = re.search(rf'^name = "{re.escape(name)}"\nversion = "([^"]*)"$', lock, re.MULTILINE)
    return found[1] if found else None


def addressed_names(lock: str) -> set[str] | None:
    """Return the packages that a uv.lock has from an address and from no index; None where only a parser can tell."""
    found = _ADDRESSED.findall(lock)
    return set(found) if len(found) == len(_ADDRESS.findall(lock)) else None


def with_cutoff(lock: str, moment: str, exempt: Sequence[str]) -> str:
    """Return a lock that says of itself that nothing newer than `moment` counted: uv reads no other for that question.

    Args:
        lock: a uv.lock without a cutoff.
        moment: in RFC 3339.
        exempt: the distributions that may be newer.
    """
    line = f'exclude-newer = "{moment}"\n'
    if "\n[options]\n" in lock:
        lock = lock.replace("\n[options]\n", f"\n[options]\n{line}", 1)
    else:
        lock = lock.replace("[[package]]\n", f"[options]\n{line}\n[[package]]\n", 1)
    table = "".join(f"{json.dumps(name)} = false\n" for name in exempt)
    return lock.replace("[[package]]\n", f"[options.exclude-newer-package]\n{table}\n[[package]]\n", 1)


def without_cutoff(lock: str) -> str:
    """Return a lock without its cutoff, which would keep the next resolution from taking its versions over."""
    return _CUTOFF.sub("", lock)


def choose_wheel(tool: LockedTool, system: str, machine: str) -> Artefact:
    """Return the wheel of `tool` for `system` (``sys.platform``) and `machine` (``platform.machine()``).

    On Linux the musl build comes first: it is a static binary, which still runs when the C library changed under it.

    Raises:
        PlatformUnsupported: the lock has none.
    """
    architecture = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "i586": "i686"}.get(
        machine.lower(), machine.lower()
    )
    if system == "darwin":
        patterns = [r"macosx_\d+_\d+_" + {"aarch64": "arm64"}.get(architecture, architecture)]
    elif system == "win32":
        patterns = [{"x86_64": "win_amd64", "aarch64": "win_arm64", "i686": "win32"}.get(architecture, "-")]
    else:
        patterns = [r"musllinux_\d+_\d+_" + architecture, r"manylinux_\d+_\d+_" + architecture]
    for pattern in patterns:
        for wheel in tool.wheels:
            if re.search(pattern + r"(?=[.]|$)", wheel.name):
                return wheel
    raise PlatformUnsupported(
        f"pm/uv.lock has no {tool.name} for {system} on {machine}",
        hint="see docs/reference/platforms.md for the machines that are supported",
        context={"system": system, "machine": machine},
    )

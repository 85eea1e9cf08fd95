"""Make a directory of the store an environment that holds these wheels, the same to the byte each time.

    python3 -I install_wheels.py PREFIX WHEEL...      have it
    python3 -I install_wheels.py --record PREFIX      have RECORD say what a tool has made of compiled modules since

Owns: a virtual environment's own files, unpacking wheels into it with every hash of their RECORD checked, commands,
and byte code. Does not own: which wheels (nix/lock.nix), nor building any. Keeps: nix-same-bytes.

Standard library only; runs with the Python that the environment is for, at build time alone.
"""

from __future__ import annotations

import base64
import configparser
import csv
import hashlib
import importlib.util
import marshal
import os
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_PLACES = {"purelib": "site", "platlib": "site", "scripts": "bin", "data": ""}
"""Where the parts of a wheel's `.data` go. Headers are for compilers, and there is none here."""

_COMMAND = """import sys
from {module} import {first}
sys.argv[0] = {name!r}
sys.exit({attribute}())
"""


class Fault(Exception):
    """A wheel is not what it says."""


def make_environment(prefix: Path, wheels: list[Path]) -> None:
    """Have an environment at `prefix` with what the wheels hold."""
    site = prefix / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    site.mkdir(parents=True)
    (prefix / "bin").mkdir()
    base = Path(sys.executable)
    version = ".".join(map(str, sys.version_info[:3]))
    (prefix / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n", encoding="utf-8"
    )
    for name in ("python", "python3", f"python{sysconfig.get_python_version()}"):
        (prefix / "bin" / name).symlink_to(base)
    for wheel in wheels:
        install(prefix, site, wheel)
    compile_all(site)


def install(prefix: Path, site: Path, wheel: Path) -> None:
    """Have one wheel's files in the environment.

    Raises:
        Fault: a file's hash is not the one in RECORD, a name leads out of the environment, or is there already.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        records = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
        if len(records) != 1:
            raise Fault(f"{wheel.name} has {len(records)} RECORD files, not one")
        metadata = records[0].partition("/")[0]
        hashes = {row[0]: row[1] for row in csv.reader(archive.read(records[0]).decode().splitlines()) if row}
        rows: list[tuple[str, str, str]] = []
        for name in sorted(names):
            data = archive.read(name)
            if name != records[0] and not name.startswith((f"{metadata}/RECORD.",)):
                check(wheel, name, data, hashes.get(name, ""))
            target = place_of(prefix, site, name, metadata)
            if target is None or name == records[0]:
                continue
            if os.path.commonpath([prefix, os.path.abspath(target)]) != str(prefix):
                raise Fault(f"{wheel.name}: {name} leads out of the environment")
            if target.exists():
                raise Fault(f"{wheel.name}: {name} is there already, of another wheel")
            is_script = target.parent == prefix / "bin"
            if is_script and data.startswith(b"#!python"):
                rows.append(write_script(prefix, site, target.name, data.decode().partition("\n")[2]))
                continue
            executable = is_script or archive.getinfo(name).external_attr >> 16 & 0o111
            rows.append(write(site, target, data, 0o755 if executable else 0o644))
        entry_points = f"{metadata}/entry_points.txt"
        if entry_points in names:
            for name, text in commands(archive.read(entry_points).decode()):
                rows.append(write_script(prefix, site, name, text))
        rows.append(write(site, site / metadata / "INSTALLER", b"nix\n", 0o644))
        write_record(site / records[0], [*sorted(rows), (records[0], "", "")])


def record_again(prefix: Path) -> None:
    """Have every RECORD of the environment name the bytes that are there."""
    for record in sorted(prefix.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        site = record.parent.parent
        lines = []
        for name, recorded, size in csv.reader(record.read_text(encoding="utf-8").splitlines()):
            data = (site / name).read_bytes() if recorded else b""
            lines.append((name, f"sha256={digest(data)}", str(len(data))) if recorded else (name, recorded, size))
        write_record(record, lines)


def write_record(record: Path, rows: Iterable[Sequence[str]]) -> None:
    """Have a RECORD of these rows."""
    with record.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def check(wheel: Path, name: str, data: bytes, recorded: str) -> None:
    """Do nothing where the bytes are those that the wheel's RECORD names."""
    kind, _, text = recorded.partition("=")
    if kind not in ("sha256", "sha384", "sha512") or digest(data, kind) != text:
        raise Fault(f"{wheel.name}: {name} is not what the wheel's RECORD says")


def digest(data: bytes, kind: str = "sha256") -> str:
    """Return a digest as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).rstrip(b"=").decode()


def place_of(prefix: Path, site: Path, name: str, metadata: str) -> Path | None:
    """Return where a wheel's member goes, or None for what no environment needs."""
    data = metadata.removesuffix(".dist-info") + ".data/"
    if not name.startswith(data):
        return site / name
    kind, _, rest = name.removeprefix(data).partition("/")
    if kind not in _PLACES:
        return None
    return (site if _PLACES[kind] == "site" else prefix / _PLACES[kind]) / rest


def write(site: Path, target: Path, data: bytes, mode: int) -> tuple[str, str, str]:
    """Have a file, and return its row for RECORD."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)
    return Path(os.path.relpath(target, site)).as_posix(), f"sha256={digest(data)}", str(len(data))


def write_script(prefix: Path, site: Path, name: str, text: str) -> tuple[str, str, str]:
    """Have a command that starts the environment's own Python, and return its row for RECORD.

    The row has no hash: the script names its own place in the store, and Nix finds and rewrites that in a file, but not
    in the hash of one.
    """
    row = write(site, prefix / "bin" / name, f"#!{prefix}/bin/python -I\n{text}".encode(), 0o755)
    return row[0], "", ""


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each console script."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # a command's name keeps its capitals
    parser.read_string(text)
    for name, target in parser.items("console_scripts") if parser.has_section("console_scripts") else ():
        module, _, attribute = target.partition("[")[0].strip().partition(":")
        first = attribute.partition(".")[0]
        yield name, _COMMAND.format(module=module, first=first, attribute=attribute, name=name)


def compile_all(site: Path) -> None:
    """Have byte code beside every module, which is never checked against its source: the store does not change."""
    for source in sorted(site.rglob("*.py")):
        data = source.read_bytes()
        try:
            code = compile(data, str(source), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue  # a template, or for another version of Python: nobody imports it
        target = Path(importlib.util.cache_from_source(str(source)))
        target.parent.mkdir(exist_ok=True)
        # PEP 552: flags 1 are "by hash, not checked". Marshalled anew, so that it does not depend on what else holds
        # a reference to the same constants.
        fixed = marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302 - what was made in the same line
        header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(data)
        target.write_bytes(header + fixed)


if __name__ == "__main__":
    try:
        if sys.argv[1] == "--record":
            record_again(Path(sys.argv[2]))
            sys.exit()
        make_environment(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
    except (Fault, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"error: {error}")

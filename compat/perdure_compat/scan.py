"""Which files belong to a plugin, and what is told of the moved names in them.

Owns: from a path, a distribution or an entry point to files, without importing anything; the report in words, as JSON
and as SARIF. Does not own: what a use is (findings).

Keeps: compat-scan-forms, compat-scan-every-file.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from perdure_compat.findings import BREAKS, INFO, WHEN_RUN, Finding, find_in_file
from perdure_compat.index import Index
from perdure_compat.source import PYTHON, Unreadable

SKIPPED = frozenset({
    ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__",
    "build", "dist", "node_modules", "site-packages", "venv",
})  # fmt: skip
"""Folders that hold what is made, or what is somebody else's."""
_ENTRY_POINT = re.compile(r"(?P<module>[^\W\d][\w.]*)(?::(?P<attribute>[\w.]+))?")


class NotFound(Exception):  # says what happened
    """Nothing of that name is here."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a number of files."""

    findings: tuple[Finding, ...]
    unreadable: tuple[Unreadable, ...]
    files: int

    @property
    def remaining(self) -> bool:
        """Whether something is left that a person must look at; what is guarded is not."""
        return bool(self.unreadable) or any(finding.reach != INFO for finding in self.findings)


def scan(files: Iterable[Path], index: Index) -> Report:
    """Return the uses of moved names in files; one that cannot be read is listed, not passed over."""
    findings: list[Finding] = []
    unreadable: list[Unreadable] = []
    count = 0
    for path in files:
        count += 1
        found = find_in_file(path, index)
        if isinstance(found, Unreadable):
            unreadable.append(found)
        else:
            findings += found
    return Report(tuple(findings), tuple(unreadable), count)


def files_of(wanted: str, *, search: Sequence[str] | None = None) -> list[Path]:
    """Return the Python files of a path, of a distribution, or of an entry point's value (`module:attr`).

    Args:
        wanted: whichever of these. A path that exists wins: on Windows one may look like an entry point.
        search: where distributions and modules are looked for, instead of `sys.path`.

    Raises:
        NotFound: it is none of them.
    """
    path = Path(wanted)
    if path.exists():
        return files_below([path])
    try:
        distribution = next(iter(metadata.distributions(name=wanted, path=list(search or sys.path))), None)
    except ValueError:
        distribution = None
    if distribution is not None:
        return _of_distribution(wanted, distribution)
    found = _ENTRY_POINT.fullmatch(wanted)
    if found is not None:
        # The top-level package is looked for, never imported: importing it would run the plugin. One without a file of
        # its own is many distributions' folder, of which the entry point's is meant.
        first, *inner = found["module"].split(".")
        spec = PathFinder.find_spec(first, search)
        while inner and spec is not None and spec.origin is None:
            first = f"{first}.{inner.pop(0)}"
            spec = PathFinder.find_spec(first, list(spec.submodule_search_locations or []))
        if spec is not None and spec.submodule_search_locations:
            return files_below([Path(place) for place in spec.submodule_search_locations])
        if spec is not None and spec.origin:
            return [Path(spec.origin)]
    raise NotFound(f"{wanted} is no path, no installed distribution and no module here")


def _of_distribution(name: str, distribution: metadata.Distribution) -> list[Path]:
    try:
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
        editable = urlsplit(direct["url"]).path if direct["dir_info"]["editable"] else ""
    except (ValueError, KeyError, TypeError):
        editable = ""
    if editable:
        # Its list of files names only what leads to them.
        return files_below([Path(url2pathname(editable))])
    if distribution.files is None:
        raise NotFound(f"{name} is installed without a list of its files: name its folder")
    return sorted(Path(str(distribution.locate_file(file))) for file in distribution.files if file.suffix in PYTHON)


def files_below(places: Iterable[Path], *, suffixes: tuple[str, ...] = PYTHON) -> list[Path]:
    """Return the files in these places that have one of the suffixes, by name; a file that is named is always one.

    A folder that cannot be listed is among them, so that whoever reads them tells of it. Folders behind links are not
    entered, and of a file and a link to it there is the file.
    """
    found: set[Path] = set()
    links: set[Path] = set()
    for place in places:
        if place.is_file():
            found.add(place)
            continue
        for folder, folders, files in os.walk(place, onerror=lambda error: found.add(Path(error.filename))):
            folders[:] = [name for name in folders if not _is_made(folder, name)]
            for name in files:
                path = os.path.join(folder, name)
                if name.endswith(suffixes):
                    kind = stat.S_IFMT(os.lstat(path).st_mode)
                    if kind in {stat.S_IFREG, stat.S_IFLNK}:
                        (found if kind == stat.S_IFREG else links).add(Path(path))
    if links:
        seen = {os.path.realpath(path) for path in found}
        for link in sorted(links):
            real = os.path.realpath(link)
            if real not in seen and (os.path.isfile(real) or not os.path.exists(real)):
                seen.add(real)
                found.add(link)
    return sorted(found)


def _is_made(folder: str, name: str) -> bool:
    """Return whether a folder holds what is made, or somebody else's; a package of such a name is neither."""
    if name in {"build", "dist"}:
        return not os.path.exists(os.path.join(folder, name, "__init__.py"))
    made = name in SKIPPED or name.endswith(".egg-info")
    return made or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def in_words(report: Report, version: str = "") -> str:
    """Return a report for people: what breaks first, then what is only told."""
    order = {BREAKS: 0, WHEN_RUN: 1, INFO: 2}
    lines = [
        f"{finding.path}:{finding.line}:{finding.column}: {finding.reach}: {finding.text(version)}"
        for finding in sorted(
            report.findings, key=lambda each: (order[each.reach], str(each.path), each.line, each.column)
        )
    ]
    lines += [f"{bad.path}:{bad.line}: cannot be read: {bad.text}" for bad in report.unreadable]
    counts = {reach: sum(finding.reach == reach for finding in report.findings) for reach in order}
    lines.append(
        f"{report.files} files: {counts[BREAKS]} uses break on import, {counts[WHEN_RUN]} when they run, "
        f"{counts[INFO]} are guarded or mentions; {len(report.unreadable)} files cannot be read"
    )
    return "\n".join(lines)


def as_json(report: Report, version: str = "") -> dict[str, object]:
    """Return a report as data."""
    return {
        "schema": 1,
        "files": report.files,
        "findings": [
            {
                "path": str(finding.path),
                "line": finding.line,
                "column": finding.column,
                "old": finding.written,
                "new": finding.entry.new or None,
                "kind": finding.entry.kind,
                "form": finding.form,
                "reach": finding.reach,
                "since": finding.entry.since,
                "removed-in": finding.entry.removed_in,
                "text": finding.text(version),
            }
            for finding in report.findings
        ],
        "unreadable": [{"path": str(bad.path), "line": bad.line, "text": bad.text} for bad in report.unreadable],
    }


def as_sarif(report: Report, tool_version: str, version: str = "") -> str:
    """Return a report in SARIF 2.1.0, which code hosts show at the lines."""
    levels = {BREAKS: "error", WHEN_RUN: "warning", INFO: "note"}
    results: list[dict[str, object]] = [
        {
            "ruleId": "moved-name",
            "level": levels[finding.reach],
            "message": {"text": finding.text(version)},
            "locations": [_location(finding.path, finding.line, finding.column)],
        }
        for finding in report.findings
    ]
    results += [
        {
            "ruleId": "unreadable",
            "level": "error",
            "message": {"text": f"cannot be read: {bad.text}"},
            "locations": [_location(bad.path, max(bad.line, 1), 1)],
        }
        for bad in report.unreadable
    ]
    rules = [
        {"id": "moved-name", "shortDescription": {"text": "A name is used at a place that it left."}},
        {"id": "unreadable", "shortDescription": {"text": "A file is no Python that can be read."}},
    ]
    driver = {"name": "perdure-compat", "version": tool_version, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2)


def _location(path: Path, line: int, column: int) -> dict[str, object]:
    region = {"startLine": line, "startColumn": column}
    return {"physicalLocation": {"artifactLocation": {"uri": path.as_posix()}, "region": region}}

"""What an index, or a wheelhouse, offers of a distribution: versions, ages, and the Python that they are for.

Owns: reading a project's page (PEP 503, 691, 700) or a directory's file names, and keeping for a few minutes what the
index allows to be kept. Does not own: fetching (adapters.download), what follows from it (ops.screening).
"""

from __future__ import annotations

import contextlib
import hashlib
import html.parser
import json
import os
import re
import time
import urllib.parse
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from perdure_pm.adapters.download import Page, page_address, read_page
from perdure_pm.model.errors import NetworkUnreachable
from perdure_pm.model.network import Network, public_address
from perdure_pm.model.offer import Offer

KEPT_SECONDS = 600
"""The longest that an answer is kept; an index may say less."""

File = tuple[str, str | None, str, bool]
"""Name, time of its upload, Python that it requires, whether it was withdrawn."""


def read_offers(name: str, index: str, network: Network, cache: Path) -> list[Offer]:
    """Return the releases of a distribution, in no order; without those that were withdrawn.

    Args:
        name: normalised.
        index: the address of the index that is asked, where no wheelhouse stands for it.
        network: how it is reached.
        cache: a directory for what may be kept; it need not exist.

    Raises:
        PerdureError: the index could not be asked, or has no such project.
    """
    if network.wheelhouse is not None:
        return _collect(name, ((path.name, None, "", False) for path in network.wheelhouse.iterdir()))
    page = page_address(index, name)
    kept = cache / f"{hashlib.sha256(page.encode()).hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        data = json.loads(kept.read_bytes())
        if 0 <= data["until"] - time.time() <= KEPT_SECONDS:
            return _collect(
                name, [(str(file), when, str(python), bool(gone)) for file, when, python, gone in data["files"]]
            )
    found = read_page(page, network)
    try:
        files = _json_files(found) if found.is_json else _html_files(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NetworkUnreachable(f"{public_address(page)} is no page of an index: {error!r}") from error
    seconds = _kept_seconds(found.cached)
    if seconds > 0:
        _keep(kept, {"until": time.time() + seconds, "files": files})
    return _collect(name, files)


def _keep(path: Path, data: object) -> None:
    """Have an answer kept; where it cannot be, it is asked for again. A cache needs no durability."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        temporary.replace(path)


def _kept_seconds(cached: str) -> int:
    if "no-store" in cached or "no-cache" in cached:
        return 0
    match = re.search(r"max-age=(\d{1,9})", cached)
    return min(int(match[1]), KEPT_SECONDS) if match else 0


def _json_files(page: Page) -> list[File]:
    return [
        (
            str(entry["filename"]),
            entry.get("upload-time"),
            str(entry.get("requires-python") or ""),
            entry.get("yanked", False) is not False,
        )
        for entry in json.loads(page.body)["files"]
    ]


def _html_files(page: Page) -> list[File]:
    reader = _Anchors()
    reader.feed(page.body.decode("utf-8", "replace"))
    return reader.files


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        link = found.get("href")
        if tag == "a" and link:
            name = urllib.parse.unquote(urllib.parse.urlsplit(link).path.rpartition("/")[2])
            self.files.append((name, None, found.get("data-requires-python") or "", "data-yanked" in found))


def _collect(name: str, files: Iterable[File]) -> list[Offer]:
    """Return a release for each version that has a file; a release is as old as its first one."""
    offers: dict[str, Offer] = {}
    for file, when, python, gone in files:
        version = None if gone else _version_of(file, name)
        if version is None:
            continue
        before = offers.get(version)
        times = [moment for moment in (_moment(when), before.uploaded if before else None) if moment is not None]
        offers[version] = Offer(
            version=version,
            uploaded=min(times, default=None),
            requires_python=python or (before.requires_python if before else ""),
            has_wheel=file.endswith(".whl") or bool(before and before.has_wheel),
        )
    return list(offers.values())


def _version_of(file: str, name: str) -> str | None:
    """Return the version of a file of that distribution, or None where it is another's or none."""
    try:
        found = parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return str(found[1]) if found[0] == canonicalize_name(name) else None


def _moment(text: str | None) -> datetime | None:
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return moment if moment is not None and moment.tzinfo is not None else None

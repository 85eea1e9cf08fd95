"""What an index says of a distribution's releases, in each of its forms, and for how long that is kept."""

from __future__ import annotations

import http.server
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.offers import read_offers
from perdure_pm.model.errors import ArtefactMissing, NetworkUnreachable
from perdure_pm.model.network import Network
from perdure_pm.model.offer import Offer
from tests.pm.unit.test_download import Site, site

__all__ = ["site"]  # the fixture

JSON = "application/vnd.pypi.simple.v1+json"
FILES = [
    {"filename": "gad_get-1.0-py3-none-any.whl", "upload-time": "2026-01-02T03:04:05.678Z", "requires-python": ">=3.8"},
    {"filename": "gad_get-1.0.tar.gz", "upload-time": "2026-01-01T00:00:00Z", "yanked": False},
    {"filename": "gad_get-2.0.tar.gz", "upload-time": "2026-02-01T00:00:00Z"},
    {"filename": "gad_get-3.0-py3-none-any.whl", "upload-time": "2026-03-01T00:00:00Z", "yanked": "broken"},
    {"filename": "gad_get-4.0-py3-none-any.whl", "upload-time": "at noon"},
    {"filename": "other-9.0-py3-none-any.whl"},
    {"filename": "gad_get-5.0.exe"},
]
OFFERS = [
    Offer(version="1.0", uploaded=datetime(2026, 1, 1, tzinfo=UTC), requires_python=">=3.8", has_wheel=True),
    Offer(version="2.0", uploaded=datetime(2026, 2, 1, tzinfo=UTC), has_wheel=False),
    Offer(version="4.0", uploaded=None, has_wheel=True),
]


def in_order(offers: list[Offer]) -> list[Offer]:
    return sorted(offers, key=lambda offer: offer.version)


@pytest.mark.proves("plugins-disguise-refused")
def test_a_release_is_as_old_as_its_first_file_and_what_was_withdrawn_is_none(site: Site, tmp_path: Path) -> None:
    site.serve("/simple/gad-get/", json.dumps({"files": FILES}).encode(), JSON)
    found = read_offers("gad-get", f"{site.url}/simple", Network(), tmp_path / "kept")
    assert in_order(found) == OFFERS
    assert not (tmp_path / "kept").exists(), "the index did not say that it may be kept"


def test_a_page_without_ages_says_versions_and_pythons(site: Site, tmp_path: Path) -> None:
    links = (
        '<a href="../../gad_get-1.0-py3-none-any.whl#sha256=00" data-requires-python="&gt;=3.8">x</a>'
        '<a href="gad_get-2.0.tar.gz" data-yanked="">x</a><a>nothing</a>'
    )
    site.serve("/simple/gad-get/", links.encode(), "text/html")
    (found,) = read_offers("gad-get", f"{site.url}/simple/", Network(), tmp_path)
    assert found == Offer(version="1.0", uploaded=None, requires_python=">=3.8", has_wheel=True)


def test_a_wheelhouse_says_it_by_its_file_names(tmp_path: Path) -> None:
    for name in ("gad_get-1.0-py3-none-any.whl", "gad_get-2.0.tar.gz", "notes.txt"):
        (tmp_path / name).touch()
    found = in_order(read_offers("gad-get", "", Network(wheelhouse=tmp_path), tmp_path / "kept"))
    assert [(offer.version, offer.has_wheel) for offer in found] == [("1.0", True), ("2.0", False)]


@pytest.mark.parametrize(
    ("header", "asked"), [("max-age=600, public", 1), ("max-age=0", 2), ("no-store, max-age=9", 2)]
)
def test_an_answer_is_kept_as_long_as_the_index_allows(site: Site, tmp_path: Path, header: str, asked: int) -> None:
    body = json.dumps({"files": FILES}).encode()

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", JSON)
        handler.send_header("Cache-Control", header)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    site.answers["/simple/gad-get/"] = answer
    for _ in range(2):
        assert in_order(read_offers("gad-get", f"{site.url}/simple", Network(), tmp_path / "kept")) == OFFERS
    assert len(site.asked) == asked
    for kept in (tmp_path / "kept").glob("*"):
        kept.write_text("cut off", encoding="utf-8")
    assert in_order(read_offers("gad-get", f"{site.url}/simple", Network(), tmp_path / "kept")) == OFFERS


@pytest.mark.parametrize("body", [b"{}", b"[]", b"nonsense", b'{"files": [1]}'])
def test_what_is_no_page_of_an_index_is_told(site: Site, tmp_path: Path, body: bytes) -> None:
    site.serve("/simple/gad-get/", body, JSON)
    with pytest.raises(NetworkUnreachable, match="is no page of an index"):
        read_offers("gad-get", f"{site.url}/simple", Network(), tmp_path)
    with pytest.raises(ArtefactMissing):
        read_offers("absent", f"{site.url}/simple", Network(), tmp_path)

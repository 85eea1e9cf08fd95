"""Fetching one file, checked against its hash before it gets its name.

Owns: http(s) and file addresses, proxies, certificates, retries, finding a file through a mirror's index, and the words
in which an outage is told. Does not own: what is fetched. Standard library only, Python 3.9.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html.parser
import http.client
import json
import netrc
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import ArtefactMissing, IntegrityFault, NetworkUnreachable, PerdureError
from perdure_pm.model.lock_view import Artefact
from perdure_pm.model.network import CREDENTIALS_HINT, NETWORK_HINT, Network, public_address

Answer = TypeVar("Answer")

TIMEOUT_SECONDS = 20.0
"""The longest silence of a server: with every attempt, a network that swallows everything is told in about a minute."""
ATTEMPTS = 3
CHUNK_BYTES = 1 << 16
PAGE_BYTES = 64 << 20
"""The largest page of an index that is read; that of a package with ten thousand files has a tenth of it."""
PAGE_SECONDS = 120.0
SLOW_SECONDS, SLOW_BYTES = 60.0, 60 << 10
"""A transfer that brings less in so long never ends: at a kilobyte a second an interpreter takes a day."""


@dataclass(frozen=True)
class Page:
    """A page of an index, as it was served."""

    place: str
    """Its address, after redirections."""
    is_json: bool
    cached: str
    """What the server says of keeping it (Cache-Control)."""
    body: bytes


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str,
    network: Network,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> None:
    """Have `url`'s bytes at `target`, or nothing there.

    Args:
        url: http, https or file address.
        target: where the file goes; its directory exists.
        sha256: what its bytes must hash to, in hex.
        network: how to reach it.
        on_progress: called with bytes so far and bytes in all (None when unknown); may raise to stop.

    Raises:
        ArtefactMissing: the network is not to be used, or there is no such file.
        NetworkUnreachable: it could not be reached.
        IntegrityFault: the bytes are others.
    """
    if not url.startswith("file:") and not network.fetches:
        raise ArtefactMissing(
            f"{_file_name(url)} is not here and the network is not to be used",
            hint="run the same command without --offline, or put the file into the --wheelhouse directory",
            context={"file": _file_name(url)},
        )
    _retried(lambda: _fetch_once(url, target, sha256, network, on_progress))


def obtain(
    artefact: Artefact,
    package: str,
    target: Path,
    *,
    network: Network,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> None:
    """Have a locked artefact at `target`: from the wheelhouse, the mirror, or the address in the lock; see `fetch`."""
    if network.wheelhouse is not None:
        found = network.wheelhouse / artefact.name
        if not found.is_file():
            raise ArtefactMissing(
                f"the wheelhouse {network.wheelhouse} lacks {artefact.name}",
                hint=f"put {artefact.name} into {network.wheelhouse}",
                context={"file": artefact.name, "wheelhouse": str(network.wheelhouse)},
            )
        url = found.absolute().as_uri()
    elif network.index_url is not None and not network.offline:
        url = find_on_index(package, artefact.name, network)
    else:
        url = artefact.url
    fetch(url, target, sha256=artefact.sha256, network=network, on_progress=on_progress)


def find_on_index(package: str, file_name: str, network: Network) -> str:
    """Return the address of `file_name` on the mirror's page of `package` (PEP 503 or 691).

    Raises:
        ArtefactMissing: the mirror does not offer it.
        NetworkUnreachable: the mirror could not be reached.
    """
    page = page_address(network.index_url or "", package)
    base, links = _retried(lambda: _read_page(page, network))
    if file_name not in links:
        index = public_address(network.index_url or "")
        raise ArtefactMissing(
            f"the index {index} does not offer {file_name}",
            hint="name an index that mirrors it with --index-url URL, or a directory with it with --wheelhouse DIR",
            context={"file": file_name, "index": index},
        )
    return str(urllib.parse.urljoin(base, links[file_name])).partition("#")[0]


def page_address(index: str, package: str) -> str:
    """Return the address of an index's page of a project."""
    base = f"{index.rstrip('/')}/{package}/"
    return base + "index.html" if base.startswith("file:") else base


def _retried(action: Callable[[], Answer]) -> Answer:
    """Return what `action` returns, tried again where the network may come back by itself."""
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except NetworkUnreachable as error:
            if error.retry == "after-change":
                raise
            time.sleep(attempt)
    return action()


def read_page(page: str, network: Network) -> Page:
    """Return an index's page of a project, in whichever of its forms the index has (PEP 503 or 691).

    Raises:
        ArtefactMissing: there is none.
        NetworkUnreachable: it could not be reached.
    """
    with _explained(page):
        request = _request(page, network)
    request.add_header("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
    with _explained(page), _opener(network).open(request, timeout=TIMEOUT_SECONDS) as answer:
        return Page(
            place=answer.geturl(),
            is_json=answer.headers.get_content_type().endswith("json"),
            cached=answer.headers.get("Cache-Control", ""),
            body=_read_all(answer, page),
        )


def _read_page(page: str, network: Network) -> tuple[str, dict[str, str]]:
    """Return where an index's page really lies, and the addresses on it by file name."""
    with _explained(page):
        found = read_page(page, network)
        return found.place, _read_links(found.body, is_json=found.is_json)


def _read_all(answer: http.client.HTTPResponse, page: str) -> bytes:
    """Return a page that is to be held in memory: of a size and within a time that an index's page has."""
    end = time.monotonic() + PAGE_SECONDS
    parts, size = [], 0
    # read1: what has come so far; a server that sends a byte a second must not keep a whole block waiting.
    while part := answer.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > PAGE_BYTES or time.monotonic() > end:
            much = f"more than {PAGE_BYTES >> 20} MiB" if size > PAGE_BYTES else f"no end within {PAGE_SECONDS:.0f} s"
            raise NetworkUnreachable(
                f"{public_address(page)} is no page of an index: {much}", hint=NETWORK_HINT, retry="after-change"
            )
    if getattr(answer, "length", None):
        raise http.client.IncompleteRead(b"".join(parts), answer.length)
    return b"".join(parts)


def _read_links(body: bytes, *, is_json: bool) -> dict[str, str]:
    """Return the addresses on an index's page by file name.

    Raises:
        ValueError: it is not such a page.
    """
    if is_json:
        try:
            return {str(entry["filename"]): str(entry["url"]) for entry in json.loads(body)["files"]}
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no page of an index: {error!r}") from error
    reader = _Links()
    reader.feed(body.decode("utf-8", "replace"))
    return {_file_name(link): link for link in reader.links}


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _file_name(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])


def _request(url: str, network: Network) -> urllib.request.Request:
    """Return a request for `url`, with the credentials that the address, the mirror's or .netrc holds for its host.

    They are not kept on a redirection: it may lead to somebody else.
    """
    parts = urllib.parse.urlsplit(url)
    bare = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(bare, headers={"User-Agent": "perdure-pm"})  # noqa: S310 - from the lock or settings
    mirror = urllib.parse.urlsplit(network.index_url or "")
    holder = parts if parts.username or mirror.hostname != parts.hostname or mirror.port != parts.port else mirror
    user, password = urllib.parse.unquote(holder.username or ""), urllib.parse.unquote(holder.password or "")
    if not user and parts.scheme in {"http", "https"}:
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            file = os.environ.get("NETRC") or os.path.join(os.path.expanduser("~"), ".netrc")
            user, _, password = netrc.netrc(file).authenticators(parts.hostname or "") or ("", "", "")
    if user:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _opener(network: Network) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = []
    if network.proxy is not None:
        handlers.append(urllib.request.ProxyHandler({"http": network.proxy, "https": network.proxy}))
    with contextlib.suppress(ImportError):  # a Python built without ssl still serves mirrors over http
        import ssl

        try:
            context = ssl.create_default_context(
                cafile=None if network.certificate is None else str(network.certificate)
            )
        except (OSError, ssl.SSLError) as error:
            raise NetworkUnreachable(
                f"the certificate file {network.certificate} cannot be used: {error}",
                hint="name a readable PEM file with --certificate FILE",
                retry="after-change",
            ) from error
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _fetch_once(
    url: str, target: Path, sha256: str, network: Network, on_progress: Callable[[int, int | None], None]
) -> None:
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.part")
    digest = hashlib.sha256()
    done = 0
    try:
        with _explained(url), _opener(network).open(_request(url, network), timeout=TIMEOUT_SECONDS) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            with explained(temporary), temporary.open("wb") as file:
                mark, since = 0, time.monotonic()
                while True:
                    with _explained(url):
                        chunk = answer.read1(CHUNK_BYTES) if hasattr(answer, "read1") else answer.read(CHUNK_BYTES)
                    if not chunk:
                        break
                    if time.monotonic() - since > SLOW_SECONDS:
                        if done - mark < SLOW_BYTES:
                            raise NetworkUnreachable(
                                f"the transfer of {_file_name(url)} is too slow: {done - mark} bytes in "
                                f"{SLOW_SECONDS:.0f} s",
                                hint=NETWORK_HINT,
                            )
                        mark, since = done, time.monotonic()
                    digest.update(chunk)
                    file.write(chunk)
                    done += len(chunk)
                    on_progress(done, total)
                file.flush()
                os.fsync(file.fileno())
        if total is not None and done < total:
            raise NetworkUnreachable(f"the transfer of {_file_name(url)} broke off", hint=NETWORK_HINT)
        if digest.hexdigest() != sha256:
            raise IntegrityFault(
                f"{_file_name(url)} is not what its hash says",
                hint="use an index that serves the released files: --index-url URL",
                context={"url": public_address(url), "expected": sha256, "found": digest.hexdigest()},
            )
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except PerdureError:
        raise
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        missing = error.code in {404, 410}
        raise (ArtefactMissing if missing else NetworkUnreachable)(
            f"{public_address(url)} answered {error.code} {error.reason}",
            hint=CREDENTIALS_HINT if error.code in {401, 403} else NETWORK_HINT,
            context={"url": public_address(url), "status": error.code},
            retry="after-change" if error.code < 500 else "later",
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        address = public_address(url)
        if isinstance(error, FileNotFoundError) or "No such file" in str(error):
            raise ArtefactMissing(f"{address} does not exist", hint=NETWORK_HINT, context={"url": address}) from error
        reason = getattr(error, "reason", error)
        distrusted = "CERTIFICATE_VERIFY_FAILED" in str(reason)
        raise NetworkUnreachable(
            f"no connection to {address}: {reason or type(reason).__name__}",
            hint="name the authority that signed its certificate with --certificate FILE"
            if distrusted
            else NETWORK_HINT,
            context={"url": address},
            retry="after-change" if distrusted else None,
        ) from error

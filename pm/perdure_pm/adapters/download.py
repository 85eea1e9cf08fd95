"""Fetching one file, checked against its hash before it gets its name.

Owns: http(s) and file addresses, proxies, certificates, retries, finding a file through a mirror's index, and the words
in which an outage is told. Does not own: what is fetched. Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import html.parser
import json
import os
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import ArtefactMissing, IntegrityFault, NetworkUnreachable, PerdureError
from perdure_pm.model.lock_view import Artefact
from perdure_pm.model.network import Network

TIMEOUT_SECONDS = 60.0
ATTEMPTS = 3
CHUNK_BYTES = 1 << 16
NETWORK_HINT = (
    "check the connection, or name a way: --index-url URL, --proxy URL, --certificate FILE, or --wheelhouse DIR "
    "for a machine without network"
)


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
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch_once(url, target, sha256, network, on_progress)
        except NetworkUnreachable as error:
            if attempt == ATTEMPTS or error.retry == "after-change":
                raise
            time.sleep(attempt)
        else:
            return


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
    base = f"{(network.index_url or '').rstrip('/')}/{package}/"
    page = base + "index.html" if base.startswith("file:") else base
    request = urllib.request.Request(  # noqa: S310 - the scheme is the user's own setting
        page, headers={"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5", "User-Agent": "perdure-pm"}
    )
    with _explained(page), _opener(network).open(request, timeout=TIMEOUT_SECONDS) as answer:
        body = answer.read()
        kind = answer.headers.get_content_type()
        base = answer.geturl()
    if kind.endswith("json"):
        links = {entry["filename"]: entry["url"] for entry in json.loads(body).get("files", [])}
    else:
        reader = _Links()
        reader.feed(body.decode("utf-8", "replace"))
        links = {_file_name(link): link for link in reader.links}
    if file_name not in links:
        raise ArtefactMissing(
            f"the index {network.index_url} does not offer {file_name}",
            hint="name an index that mirrors it with --index-url URL, or a directory with it with --wheelhouse DIR",
            context={"file": file_name, "index": network.index_url},
        )
    return str(urllib.parse.urljoin(base, links[file_name])).partition("#")[0]


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _file_name(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])


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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    digest = hashlib.sha256()
    done = 0
    request = urllib.request.Request(url, headers={"User-Agent": "perdure-pm"})  # noqa: S310 - from the lock or settings
    try:
        with _explained(url), _opener(network).open(request, timeout=TIMEOUT_SECONDS) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            with explained(temporary), temporary.open("wb") as file:
                while True:
                    with _explained(url):
                        chunk = answer.read(CHUNK_BYTES)
                    if not chunk:
                        break
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
                context={"url": _public(url), "expected": sha256, "found": digest.hexdigest()},
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
        missing = error.code in {404, 410}
        raise (ArtefactMissing if missing else NetworkUnreachable)(
            f"{_public(url)} answered {error.code} {error.reason}",
            hint=NETWORK_HINT,
            context={"url": _public(url), "status": error.code},
            retry="after-change" if error.code < 500 else "later",
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) or "No such file" in str(error):
            raise ArtefactMissing(
                f"{_public(url)} does not exist", hint=NETWORK_HINT, context={"url": _public(url)}
            ) from error
        reason = getattr(error, "reason", error)
        raise NetworkUnreachable(
            f"no connection to {_public(url)}: {reason}", hint=NETWORK_HINT, context={"url": _public(url)}
        ) from error


def _public(url: str) -> str:
    """Return `url` without the password that a mirror's address may hold."""
    parts = urllib.parse.urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urllib.parse.urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))

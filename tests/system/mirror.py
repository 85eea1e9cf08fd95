"""A package index on this machine, made of the files that the locks name.

Owns: fetching those files once, through whatever network this machine has; writing them as an index directory; serving
that as PEP 503 pages or PEP 691 JSON, whole or with tampered files, over http or https. Does not own: what is tested
with it. No address is written here: the locks hold them.
"""

from __future__ import annotations

import hashlib
import html
import http.server
import json
import platform
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perdure_pm.adapters.download import obtain
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.settings import SETTINGS, network_of, resolve
from perdure_pm.model.target import parse_target
from perdure_pm.ops.wheelhouse import Needs
from tests.system.machine import execute

PAGE = "application/vnd.pypi.simple.v1+json"
PROJECTS: tuple[tuple[str, tuple[str, ...]], ...] = ((".", ("bundled",)), ("pm", ()))
"""Projects with a lock, and the groups that PM installs of each."""


def collect_wheels(checkout: Path, target: Path, *, uv: Path, environment: Mapping[str, str]) -> None:
    """Have in `target` every wheel that PM and the app need on this machine and this Python, and uv's own."""
    network = network_of(resolve(SETTINGS, {}, environment, {}))
    target.mkdir(parents=True)
    major, minor = sys.version_info[:2]
    needs = Needs(target=parse_target(None, f"{major}.{minor}"))
    for project, groups in PROJECTS:
        lock = (checkout / project / "uv.lock").read_text(encoding="utf-8")
        needs.add_locked(_exported(checkout / project, groups, uv), [lock], project, None)
    needs.require_all()
    tool = parse_locked_tool((checkout / "pm" / "uv.lock").read_text(encoding="utf-8"), "uv")
    needs.add(choose_wheel(tool, sys.platform, platform.machine()), "uv", "pm")
    for name, (artefact, distribution, _) in needs.files.items():
        obtain(artefact, distribution, target / name, network=network)


def _exported(project: Path, groups: tuple[str, ...], uv: Path) -> str:
    """Return what the project's lock holds, pinned and hashed."""
    command: list[str | Path] = [uv, "export", "--frozen", "--offline", "--no-cache", "--no-config", "--no-header"]
    command += ["--no-annotate", "--no-emit-local", "--no-default-groups", "--project", project]
    for group in groups:
        command += ["--group", group]
    return execute(command).succeeded().out


def write_index(wheels: Path, target: Path) -> Path:
    """Have a simple index of `wheels` at `target`, a sibling of it: one page a project, with relative links.

    Archives of sources that lie among them are in it too.
    """
    projects: dict[str, list[Path]] = {}
    for wheel in sorted([*wheels.glob("*.whl"), *wheels.glob("*.tar.gz")]):
        projects.setdefault(re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower(), []).append(wheel)
    for name, files in projects.items():
        (target / name).mkdir(parents=True)
        links = "".join(
            f'<a href="../../{wheels.name}/{file.name}#sha256={_sha256(file)}">{html.escape(file.name)}</a><br/>\n'
            for file in files
        )
        (target / name / "index.html").write_text(
            f"<!DOCTYPE html><html><body>\n{links}</body></html>\n", encoding="utf-8"
        )
    return target


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(kw_only=True)
class Mirror:
    """A served index."""

    url: str
    """The address to give to --index-url."""
    server: http.server.ThreadingHTTPServer
    thread: threading.Thread
    asked: list[str] = field(default_factory=list)
    """Paths, in the order in which they were asked for."""

    def stop(self) -> None:
        """Serve no more."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def serve_mirror(
    root: Path,
    *,
    as_json: bool = False,
    tampered: str = "",
    broken: bool = False,
    context: ssl.SSLContext | None = None,
    uploaded: Mapping[str, str] | None = None,
) -> Mirror:
    """Serve ``simple/`` and ``wheels/`` below `root`.

    Args:
        root: the directory of both.
        as_json: answer with PEP 691 JSON, with absolute addresses that no lock knows, instead of PEP 503 pages.
        tampered: the start of the names of files that are changed on the way.
        broken: whether those are no archives any more; else they are archives that hold the same files.
        context: serve https.
        uploaded: when files were uploaded, by their names; in JSON only (PEP 700). It may change while they are served.
    """
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            path = root / self.path.strip("/")
            if self.path.startswith("/simple/") and (path / "index.html").is_file():
                self._page(path)
            elif self.path.startswith("/wheels/") and path.is_file():
                data = path.read_bytes()
                if tampered and path.name.startswith(tampered):
                    data = _tamper(data, broken=broken)
                self._answer(200, "application/octet-stream", data)
            else:
                self._answer(404, "text/plain", b"no such file")

        def _page(self, folder: Path) -> None:
            text = (folder / "index.html").read_text(encoding="utf-8")
            if not as_json:
                self._answer(200, "text/html; charset=utf-8", text.encode())
                return
            base = f"{'https' if context else 'http'}://{self.headers['Host']}"
            files = [
                {
                    "filename": name,
                    "url": f"{base}/wheels/{name}",
                    "hashes": {"sha256": digest},
                    **({"upload-time": uploaded[name]} if uploaded and name in uploaded else {}),
                }
                for name, digest in re.findall(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]+)"', text)
            ]
            page = {"meta": {"api-version": "1.1" if uploaded else "1.0"}, "name": folder.name, "files": files}
            self._answer(200, PAGE, json.dumps(page).encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the base class's name; how uv asks for a wheel's size when it resolves

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    scheme = "http" if context is None else "https"
    url = f"{scheme}://127.0.0.1:{server.server_address[1]}/simple"
    return Mirror(url=url, server=server, thread=thread, asked=asked)


def _tamper(data: bytes, *, broken: bool) -> bytes:
    if broken:
        return data[:-100]
    # The archive's comment gets one byte: nothing that unpacks it can tell, only the hash can.
    assert data[-2:] == b"\0\0"
    return data[:-2] + b"\1\0!"


def make_authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate file of an authority made for this test, and a context that serves 127.0.0.1 under it."""
    folder.mkdir()
    authority, key, request, certificate = (folder / name for name in ("ca.pem", "key.pem", "request.pem", "site.pem"))
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n", encoding="ascii")
    more = ["-CAcreateserial", "-days", "2", "-extfile", extensions]
    new_key = ["-newkey", "rsa:2048", "-nodes"]
    for words in (
        [
            "req",
            "-x509",
            *new_key,
            "-keyout",
            folder / "ca.key",
            "-out",
            authority,
            "-days",
            "2",
            "-subj",
            "/CN=test ca",
        ],
        ["req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=127.0.0.1"],
        ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", folder / "ca.key", *more, "-out", certificate],
    ):
        subprocess.run(["openssl", *[str(word) for word in words]], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return authority, context

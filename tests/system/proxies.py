"""A proxy on this machine for http and https (CONNECT), which remembers what went through it.

Owns: passing bytes on. Does not own: what is tested with it.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import select
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field

CHUNK_BYTES = 1 << 16


@dataclass(kw_only=True)
class Proxy:
    """A running proxy."""

    url: str
    passed: list[str] = field(default_factory=list)
    """Method and target of every request."""


@contextlib.contextmanager
def serve_proxy() -> Iterator[Proxy]:
    """Serve a proxy until the block ends."""
    passed: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            passed.append(f"GET {self.path}")
            parts = urllib.parse.urlsplit(self.path)
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "proxy-connection"}
            with contextlib.closing(connection):
                connection.request("GET", parts._replace(scheme="", netloc="").geturl(), headers=headers)
                answer = connection.getresponse()
                body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "content-length", "server", "date"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_CONNECT(self) -> None:
            passed.append(f"CONNECT {self.path}")
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=30) as far:
                self.send_response(200)
                self.end_headers()
                near = self.connection
                self.close_connection = True
                while True:
                    ready, _, _ = select.select([near, far], [], [], 30)
                    if not ready:
                        return
                    for side in ready:
                        data = side.recv(CHUNK_BYTES)
                        if not data:
                            return
                        (far if side is near else near).sendall(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Proxy(url=f"http://127.0.0.1:{server.server_address[1]}", passed=passed)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Packages to register in tests: a server that offers their archives, and the archives themselves."""

from __future__ import annotations

import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.registration import parse_registrations
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.packages import install_packages

FILES = LocalFilesystem()


class Recorder:
    """A reporter that keeps what it is told and calls what it is given."""

    def __init__(self, callbacks: dict[str, Callable[[dict[str, Any]], None]] | None = None) -> None:
        self.told: list[str] = []
        self.callbacks = callbacks or {}
        self.commits = 0

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        self.told.append(message)

    def heartbeat(self) -> None:
        pass

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        if name in self.callbacks:
            self.callbacks[name](payload)

    def committed(self) -> None:
        self.commits += 1


class Shelf:
    """A server that offers files and counts what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        shelf = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *arguments: Any) -> None:
                shelf.asked.append(self.path)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"

    def put(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


Member = tuple[str, Any]


def tar(*members: Member, compression: str = "gz") -> bytes:
    """Return a tar file; a member's value is its bytes, or the change that makes its TarInfo something else."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=cast("Any", f"w:{compression}")) as file:
        for name, value in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if isinstance(value, bytes):
                info.size = len(value)
                file.addfile(info, io.BytesIO(value))
            else:
                for field, setting in value.items():
                    setattr(info, field, setting)
                file.addfile(info)
    return data.getvalue()


def zip_file(*members: Member) -> bytes:
    """Return a zip file; a member's value is its bytes, or (mode, bytes)."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, value in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            mode, contents = value if isinstance(value, tuple) else (0o100755, value)
            info.external_attr = mode << 16
            file.writestr(info, contents)
    return data.getvalue()


def script(says: str) -> bytes:
    return f'#!/bin/sh\necho {says} "$@"\n'.encode()


def registration(url: str, sha256: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "hello",
        "version": "1.0",
        "kind": "archive",
        "artefacts": [{"target": target_name(), "url": url, "sha256": sha256}],
        "executables": ["hello-1.0/hello"],
        **changes,
    }


def install(context: Context, *raw: dict[str, Any], **changes: Any) -> Outcome:
    return install_packages(replace(context, packages=parse_registrations(list(raw)), **changes), {})


def put_hello(shelf: Shelf, says: str = "hello") -> dict[str, Any]:
    name = f"{says}.tar.gz"
    return registration(shelf.url(name), shelf.put(name, tar(("hello-1.0/hello", script(says)))))


def start(context: Context, command: str, *arguments: str) -> str:
    path = context.layout.bin / command
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout


def packages_of(context: Context) -> list[str]:
    return sorted(path.name for path in context.layout.packages.iterdir()) if context.layout.packages.exists() else []

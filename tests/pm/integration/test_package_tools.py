"""Packages that are Python tools: an environment of their own, with hashes."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model import errors
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Context
from tests.pm.package_shelf import (
    FILES,
    Shelf,
    install,
    packages_of,
    start,
)

pytestmark = pytest.mark.platforms("linux")


def put_wheel(shelf: Shelf, name: str, version: str, says: str) -> str:
    """Offer a wheel with one command, made by hand, on the shelf's index, and return its hash."""
    files = {
        f"{name}.py": f"def main():\n    print({says!r})\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-{version}.dist-info/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},"
        f"{len(text.encode())}\n"
        for path, text in files.items()
    )
    record_path = f"{name}-{version}.dist-info/RECORD"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for member, text in (*files.items(), (record_path, f"{record}{record_path},,\n")):
            file.writestr(member, text)
    file_name = f"{name}-{version}-py3-none-any.whl"
    digest = shelf.put(file_name, data.getvalue())
    page = shelf.folder / "simple" / name
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="{shelf.url(file_name)}#sha256={digest}">{file_name}</a>')
    return digest


@pytest.fixture
def tool_context(context: Context, uv: Path, checkout: Path, shelf: Shelf) -> Context:
    """A context whose home has uv and a seed, and whose only index is the shelf."""
    layout = context.layout
    lock = checkout / "pm" / "uv.lock"
    tool = parse_locked_tool(lock.read_text(), "uv")
    binary = layout.uv(tool.version)
    FILES.make_directories(binary.parent)
    FILES.copy_file(uv, binary)
    origin = {
        "wheel": choose_wheel(tool, sys.platform, platform.machine()).sha256,
        "sha256": hashlib.sha256(binary.read_bytes()).hexdigest(),
        "schema": 1,
    }
    binary.with_name("origin.json").write_text(json.dumps(origin))
    seed = layout.seed("0123456789ab")
    FILES.make_directories(seed / "pm")
    for name in ("uv.lock", "bootstrap.py"):
        FILES.copy_file(checkout / "pm" / name, seed / "pm" / name)
    layout.seed_pointer.write_text("0123456789ab\n")
    return replace(context, network=Network(index_url=shelf.url("simple/")))


def tool_registration(digest: str | None = None) -> dict[str, Any]:
    return {
        "name": "greet",
        "version": "1.2.3",
        "kind": "python-tool",
        "requirement": "greet==1.2.3" + (f" --hash=sha256:{digest}" if digest else ""),
        "executables": ["greet"],
    }


@pytest.mark.proves("package-hash-checked")
def test_a_python_tool_gets_an_environment_of_its_own(tool_context: Context, shelf: Shelf) -> None:
    """Case 26."""
    digest = put_wheel(shelf, "greet", "1.2.3", "greetings")
    assert install(tool_context, tool_registration(digest)).status == "ok"
    assert start(tool_context, "greet") == "greetings\n"
    assert install(tool_context, tool_registration(digest)).status == "noop"


@pytest.mark.proves("package-hash-checked", "package-failure-keeps-old")
def test_a_python_tool_with_another_hash_is_refused_and_the_old_one_stays(tool_context: Context, shelf: Shelf) -> None:
    """Case 80."""
    put_wheel(shelf, "greet", "1.2.3", "greetings")
    install(tool_context, tool_registration())
    before = packages_of(tool_context)
    with pytest.raises(errors.IntegrityFault):
        install(tool_context, tool_registration("0" * 64))
    assert start(tool_context, "greet") == "greetings\n"
    assert packages_of(tool_context) == before


def test_a_python_tool_without_the_command_is_refused(tool_context: Context, shelf: Shelf) -> None:
    put_wheel(shelf, "greet", "1.2.3", "greetings")
    with pytest.raises(errors.RegistrationInvalid, match=r"packages\[0\]\.executables: greet 1\.2\.3 has no wave"):
        install(tool_context, tool_registration() | {"executables": ["wave"]})
    assert packages_of(tool_context) == []

"""Custom packages: fetched from a real server, hash-checked, unpacked safely, and started through their launchers."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from perdure_pm.adapters import archives
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.client import Client
from perdure_pm.model import errors
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.network import Network
from perdure_pm.model.registration import parse_registrations
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.doctor import examine
from perdure_pm.ops.packages import install_packages
from perdure_pm.store import receipts
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.worker_home import PLACES, ROOT

pytestmark = pytest.mark.platforms("linux")

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


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    folder = tmp_path / "shelf"
    folder.mkdir()
    found = Shelf(folder)
    yield found
    found.close()


@pytest.fixture
def context(home: Path) -> Context:
    return Context(
        layout=Layout(home),
        filesystem=FILES,
        reporter=Recorder(),
        network=Network(),
        clock=lambda: datetime.now(UTC),
        environ=os.environ,
        profile="default",
        correlation="mine",
    )


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


@pytest.mark.proves("package-hash-checked")
@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_an_archive_is_fetched_checked_and_started_by_its_launcher(
    context: Context, shelf: Shelf, compression: str
) -> None:
    """Case 26."""
    digest = shelf.put("hello.tar", tar(("hello-1.0/hello", script("hello")), compression=compression))
    outcome = install(context, registration(shelf.url("hello.tar"), digest))
    assert outcome.status == "ok"
    assert outcome.data["packages"] == [
        {"name": "hello", "version": "1.0", "status": "installed", "commands": ["hello"]}
    ]
    assert start(context, "hello", "a b", "c") == "hello a b c\n"
    assert packages_of(context) == [f"hello-1.0-{digest[:12]}"]
    path = context.layout.packages / f"hello-1.0-{digest[:12]}"
    assert sorted(entry.name for entry in path.iterdir()) == ["files", "files.json", "record.json"]
    assert [entry for entry in path.rglob("*") if entry.stat().st_mode & 0o222] == []


def test_a_zip_file_whose_maker_knew_no_modes_is_started_too(context: Context, shelf: Shelf) -> None:
    digest = shelf.put("hello.zip", zip_file(("hello-1.0/hello", (0, script("zipped")))))
    install(context, registration(shelf.url("hello.zip"), digest))
    assert start(context, "hello") == "zipped\n"


def test_a_file_on_this_machine_is_taken_without_a_network(context: Context, shelf: Shelf) -> None:
    digest = shelf.put("hello.tar", tar(("hello-1.0/hello", script("local"))))
    artefact = {"target": "any", "path": str(shelf.folder / "hello.tar"), "sha256": digest}
    install(context, registration("", "", artefacts=[artefact]), network=Network(offline=True))
    assert start(context, "hello") == "local\n"
    assert shelf.asked == []


def test_the_same_again_is_a_noop_and_asks_for_nothing(context: Context, shelf: Shelf) -> None:
    hello = put_hello(shelf)
    install(context, hello)
    before = {path: path.stat().st_mtime_ns for path in context.layout.home.rglob("*") if path.is_file()}
    asked = list(shelf.asked)
    outcome = install(context, hello, lazy=True, lazy_allowed=False)
    assert (outcome.status, outcome.data["packages"][0]["status"]) == ("noop", "current")
    after = {path: path.stat().st_mtime_ns for path in context.layout.home.rglob("*") if path.is_file()}
    assert (after, shelf.asked) == (before, asked)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(context: Context, shelf: Shelf) -> None:
    outcome = install(context, put_hello(shelf), dry_run=True)
    assert (outcome.status, outcome.data["dry_run"]) == ("ok", True)
    assert (packages_of(context), shelf.asked) == ([], [])


@pytest.mark.proves("package-hash-checked")
def test_bytes_that_are_others_are_not_unpacked(context: Context, shelf: Shelf) -> None:
    hello = put_hello(shelf)
    hello["artefacts"][0]["sha256"] = "0" * 64
    with pytest.raises(errors.IntegrityFault):
        install(context, hello)
    assert packages_of(context) == []
    assert not (context.layout.bin / "hello").exists()


@pytest.mark.proves("package-failure-keeps-old")
def test_another_hash_for_the_same_version_takes_the_place_of_the_old(context: Context, shelf: Shelf) -> None:
    """Case 80."""
    old, new = put_hello(shelf, "old"), put_hello(shelf, "new")
    install(context, old)
    assert start(context, "hello") == "old\n"
    assert install(context, new).status == "ok"
    assert start(context, "hello") == "new\n"
    assert len(packages_of(context)) == 2, "what may still run is not pulled away"


@pytest.mark.proves("package-failure-keeps-old")
@pytest.mark.parametrize("failure", ["hash", "gone", "archive", "executable", "veto"])
def test_a_replacement_that_fails_keeps_the_old_bytes(context: Context, shelf: Shelf, failure: str) -> None:
    """Case 80."""
    install(context, put_hello(shelf, "old"))
    before = packages_of(context)
    new = put_hello(shelf, "new")
    reporter = Recorder()
    if failure == "hash":
        (shelf.folder / "new.tar.gz").write_bytes(b"other bytes")
    elif failure == "gone":
        (shelf.folder / "new.tar.gz").unlink()
    elif failure == "archive":
        new["artefacts"][0]["sha256"] = shelf.put("new.tar.gz", b"no archive")
    elif failure == "executable":
        new["artefacts"][0]["sha256"] = shelf.put("new.tar.gz", tar(("hello-1.0/other", script("new"))))
    else:

        def refuse(plan: dict[str, Any]) -> None:
            raise errors.OperationVetoed("no")

        reporter.callbacks["before_publish"] = refuse
    with pytest.raises(errors.PerdureError):
        install(context, new, reporter=reporter)
    assert reporter.commits == 0
    assert start(context, "hello") == "old\n"
    # After a veto the new one is there, complete, and started by nothing.
    assert [name for name in packages_of(context) if failure != "veto" or name in before] == before


@pytest.mark.proves("package-failure-keeps-old")
def test_what_a_killed_replacement_left_is_removed_by_the_next(context: Context, shelf: Shelf) -> None:
    """Case 80: killed in the middle of unpacking, before the rename, and before the launcher."""
    old, new = put_hello(shelf, "old"), put_hello(shelf, "new")
    install(context, old)

    class Killed(BaseException):
        pass

    def die(plan: dict[str, Any]) -> None:
        raise Killed

    with pytest.raises(Killed):
        install(context, new, reporter=Recorder({"before_publish": die}))
    unfinished = context.layout.packages / ".building-abcdef"
    (unfinished / "files").mkdir(parents=True)
    (unfinished / "files" / "half").write_text("half")
    assert start(context, "hello") == "old\n"
    asked = list(shelf.asked)
    outcome = install(context, new)
    assert outcome.status == "ok"
    assert start(context, "hello") == "new\n"
    assert shelf.asked == asked, "the finished directory was there already"
    assert ".building-abcdef" not in packages_of(context)


def test_a_package_that_lost_its_executable_is_realised_anew(context: Context, shelf: Shelf) -> None:
    hello = put_hello(shelf)
    install(context, hello)
    (broken,) = context.layout.packages.iterdir()
    FILES.remove_tree(broken / "files")
    assert install(context, hello).status == "ok"
    assert start(context, "hello") == "hello\n"


@pytest.mark.proves("package-sits-out")
def test_a_package_for_another_machine_sits_out_and_nothing_is_fetched(context: Context, shelf: Shelf) -> None:
    """Case 28."""
    hello = put_hello(shelf)
    hello["artefacts"][0]["target"] = "plan9-mips"
    outcome = install(context, hello)
    reason = f"hello 1.0 is for plan9-mips, and this machine is {target_name()}"
    assert outcome.status == "noop"
    assert outcome.data["packages"] == [{"name": "hello", "version": "1.0", "status": "sat-out", "reason": reason}]
    assert shelf.asked == []
    assert isinstance(context.reporter, Recorder)
    assert context.reporter.told == [f"sits out: {reason}"]


@pytest.mark.proves("package-lazy-refused")
def test_with_lazy_installs_off_nothing_is_fetched(context: Context, shelf: Shelf) -> None:
    """Case 12: the operation's part."""
    with pytest.raises(errors.LazyInstallRefused, match=r"hello 1\.0 would have to be fetched"):
        install(context, put_hello(shelf), lazy=True, lazy_allowed=False)
    assert (shelf.asked, packages_of(context)) == ([], [])
    assert install(context, put_hello(shelf), lazy=False, lazy_allowed=False).status == "ok"


@pytest.mark.proves("registration-faults-named")
def test_a_command_of_the_host_or_of_another_package_is_not_taken_over(context: Context, shelf: Shelf) -> None:
    """Case 27."""
    context.layout.bin.mkdir(parents=True)
    (context.layout.bin / "datasette").write_text('#!/bin/sh\nexec "$home/profiles"\n')
    hosts = put_hello(shelf) | {"executables": ["hello-1.0/datasette"]}
    with pytest.raises(errors.RegistrationInvalid, match=r"packages\[0\]\.executables: .* belongs to the host already"):
        install(context, hosts)
    install(context, put_hello(shelf))
    with pytest.raises(errors.RegistrationInvalid, match=r"the command hello belongs to hello already"):
        install(context, put_hello(shelf) | {"name": "other"})
    assert start(context, "hello") == "hello\n"


def test_a_moved_home_still_starts_its_commands(context: Context, shelf: Shelf, tmp_path: Path) -> None:
    install(context, put_hello(shelf))
    moved = tmp_path / "moved home"
    context.layout.home.rename(moved)
    done = subprocess.run([moved / "bin" / "hello"], capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"


# Archives that want out


@pytest.mark.proves("archive-stays-inside")
@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("/abs", b"x")], "an absolute name"),
        ([("../up", b"x")], "a name that climbs out"),
        ([("a/../../up", b"x")], "a name that climbs out"),
        ([("a\\..\\..\\up", b"x")], "an absolute name"),
        ([("C:/up", b"x")], "an absolute name"),
        ([("dev", {"type": tarfile.CHRTYPE})], "a device"),
        ([("dev", {"type": tarfile.BLKTYPE})], "a device"),
        ([("pipe", {"type": tarfile.FIFOTYPE})], "a device, a pipe"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "/etc"})], "a link that leads out"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "../.."})], "a link that leads out"),
        ([("a/out", {"type": tarfile.SYMTYPE, "linkname": "../../x"})], "a link that leads out"),
        (
            [
                ("deep/er/link", {"type": tarfile.SYMTYPE, "linkname": "../../top"}),
                ("top/x", b"x"),
                ("deep/er/out", {"type": tarfile.SYMTYPE, "linkname": "link/../.."}),
            ],
            "a link that leads out",
        ),
        ([("in", {"type": tarfile.SYMTYPE, "linkname": "."}), ("in/x", b"x")], "a member behind a link"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})], "an absolute name"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "../x"})], "a name that climbs out"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "none"})], "a hard link to something that is no file"),
        (
            [
                ("soft", {"type": tarfile.SYMTYPE, "linkname": "x"}),
                ("hard", {"type": tarfile.LNKTYPE, "linkname": "soft"}),
            ],
            "a hard link to something that is no file",
        ),
        ([("twice", b"1"), ("twice", b"2")], "a second member of that name"),
        ([("twice", b"1"), ("./twice", b"2")], "a second member of that name"),
    ],
)
def test_an_archive_that_wants_out_is_refused_by_its_member(
    context: Context, shelf: Shelf, tmp_path: Path, members: list[Member], words: str
) -> None:
    """Case 81."""
    around = sorted(path.name for path in tmp_path.iterdir())
    data = tar(("hello-1.0/hello", script("hello")), *members)
    with pytest.raises(errors.IntegrityFault) as caught:
        install(context, registration(shelf.url("bad.tar"), shelf.put("bad.tar", data)))
    assert words in caught.value.summary
    assert caught.value.context["member"]
    assert packages_of(context) == []
    assert sorted({path.name for path in tmp_path.iterdir()} - {"home"}) == around


@pytest.mark.proves("archive-stays-inside")
@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("/abs", b"x"), "an absolute name"),
        (("../up", b"x"), "a name that climbs out"),
        (("a\\up", b"x"), "an absolute name"),
        (("out", (0o120777, b"/etc")), "a link that leads out"),
        (("out", (0o120777, b"../out")), "a link that leads out"),
        (("dev", (0o020666, b"")), "a device"),
    ],
)
def test_a_zip_file_that_wants_out_is_refused_by_its_member(tmp_path: Path, member: Member, words: str) -> None:
    """Case 81."""
    (tmp_path / "bad.zip").write_bytes(zip_file(member))
    with pytest.raises(errors.IntegrityFault, match=words):
        archives.unpack(tmp_path / "bad.zip", tmp_path / "out")
    assert not (tmp_path / "up").exists()


def test_links_that_stay_inside_and_hard_links_are_kept(tmp_path: Path) -> None:
    data = tar(
        ("lib/real", b"bytes"),
        ("lib/soft", {"type": tarfile.SYMTYPE, "linkname": "real"}),
        ("bin/across", {"type": tarfile.SYMTYPE, "linkname": "../lib/soft"}),
        ("lib/hard", {"type": tarfile.LNKTYPE, "linkname": "lib/real"}),
        ("empty", {"type": tarfile.DIRTYPE}),
    )
    (tmp_path / "good.tar").write_bytes(data)
    archives.unpack(tmp_path / "good.tar", tmp_path / "out")
    assert (tmp_path / "out/bin/across").read_bytes() == b"bytes"
    assert (tmp_path / "out/lib/hard").read_bytes() == b"bytes"
    assert (tmp_path / "out/lib/hard").stat().st_ino != (tmp_path / "out/lib/real").stat().st_ino
    assert (tmp_path / "out/empty").is_dir()
    assert (tmp_path / "out/lib/real").stat().st_mode & 0o7777 == 0o755


def test_a_tar_file_that_holds_a_zip_file_is_none(tmp_path: Path) -> None:
    """A repository with a wheel in it: a zip file is known by its end."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in (("pyproject.toml", b"[project]"), ("x.whl", zip_file(("inside", b"x")))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    archives.unpack(tmp_path / "a.tar", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["pyproject.toml", "x.whl"]


@pytest.mark.proves("archive-stays-inside")
def test_special_modes_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(("x", {"mode": 0o6777}), ("y", {"mode": 0o600})))
    archives.unpack(tmp_path / "a.tar", tmp_path / "out")
    assert [(tmp_path / "out" / name).stat().st_mode & 0o7777 for name in "xy"] == [0o755, 0o644]


@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    whole = tar(("x", os.urandom(100_000)))
    data = {"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[damage]
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(errors.IntegrityFault):
        archives.unpack(tmp_path / "a.tar.gz", tmp_path / "out")


# Through the worker, and a Python tool


def worker_client(home: Path, folder: Path) -> Client:
    """Return a client whose workers run PM's real table of operations."""
    entry = folder / "real_entry.py"
    entry.write_text(
        f"import sys\nsys.path[:0] = {[*PLACES, str(ROOT)]!r}\nfrom perdure_pm import worker\nsys.exit(worker.main())\n"
    )
    return Client(Layout(home), lambda: Path(sys.executable), entry=["-I", str(entry)])


@pytest.mark.proves("package-hash-checked")
def test_a_registration_through_the_worker_ends_up_on_the_path(
    home: Path, tmp_path: Path, shelf: Shelf, context: Context
) -> None:
    """Case 26: as data, over the wire, through PM's own table of operations."""
    client = worker_client(home, tmp_path)
    stages: list[str] = []
    result = client.call(
        "package-install",
        packages=[put_hello(shelf)],
        correlation="mine",
        on_progress=lambda stage, message, **_: stages.append(message),
    )
    assert result.status == "ok"
    assert start(context, "hello") == "hello\n"
    assert result.receipt is not None
    assert result.receipt["data"] == result.data
    assert "unpacking hello 1.0" in stages


@pytest.mark.proves("package-lazy-refused")
def test_a_lazy_refusal_through_the_worker_has_exactly_one_receipt(home: Path, tmp_path: Path, shelf: Shelf) -> None:
    """Case 12: nobody asked, and a home without a policy mirror is strict."""
    client = worker_client(home, tmp_path)
    with pytest.raises(errors.LazyInstallRefused):
        client.call("package-install", {"lazy": True, "settings": {"no-lazy": True}}, packages=[put_hello(shelf)])
    found, _ = receipts.load_all(Layout(home))
    assert [(entry.operation, entry.status) for entry in found] == [("package-install", "refused")]
    assert shelf.asked == []


@pytest.mark.proves("registration-is-data")
def test_a_bad_registration_through_the_worker_is_refused_and_the_next_call_works(
    home: Path, tmp_path: Path, shelf: Shelf
) -> None:
    """Case 27."""
    client = worker_client(home, tmp_path)
    with pytest.raises(errors.RegistrationInvalid, match=r"packages\[0\]\.name: 'uv' is taken"):
        client.call("package-install", packages=[put_hello(shelf) | {"name": "uv"}])
    assert shelf.asked == []
    assert client.call("package-install", packages=[put_hello(shelf)]).status == "ok"


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


# What config.yaml registers


def configure(bench: Bench, *registrations: dict[str, Any]) -> None:
    """Have config.yaml register these and nothing else, as people write it."""
    text = bench.layout.config.read_text().partition("packages:")[0]
    lines = "".join(f"- {json.dumps(registration)}\n" for registration in registrations)
    bench.layout.config.write_text(f"{text}packages:\n{lines}" if registrations else text)


def put_local(shelf: Shelf, says: str = "hello") -> dict[str, Any]:
    """Return a registration of a file on this machine: a home with a wheelhouse asks nobody else."""
    (artefact,) = (whole := put_hello(shelf, says))["artefacts"]
    del artefact["url"]
    artefact["path"] = str(shelf.folder / f"{says}.tar.gz")
    return whole | {"artefacts": [artefact]}


def says_hello(bench: Bench) -> str:
    return subprocess.run([bench.layout.bin / "hello"], capture_output=True, text=True, check=True).stdout


@pytest.mark.proves("packages-configured")
def test_an_install_has_what_the_configuration_registers_and_nothing_more(bench: Bench, shelf: Shelf) -> None:
    """Case 26, for a person."""
    configure(bench, put_local(shelf))
    outcome = bench.call("install", bench.context(dry_run=True))
    assert (outcome.status, packages_of(bench.context())) == ("ok", [])
    outcome = bench.call("install")
    assert [(item["name"], item["status"]) for item in outcome.data["registered"]] == [("hello", "installed")]
    assert says_hello(bench) == "hello\n"
    assert bench.call("install").status == "noop"
    configure(bench, put_local(shelf, "again"))
    bench.call("install")
    assert says_hello(bench) == "again\n"
    other = bench.current.identity
    configure(bench)
    assert bench.call("install").data["withdrawn"] == ["hello"]
    assert not (bench.layout.bin / "hello").exists()
    assert [path.name for path in bench.layout.packages.iterdir()] == ["configured.json"]
    assert bench.current.identity == other  # a package is no part of a generation
    assert bench.call("install").status == "noop"


@pytest.mark.proves("packages-configured")
def test_a_path_in_the_configuration_counts_from_its_file(bench: Bench, shelf: Shelf) -> None:
    whole = put_local(shelf)
    (artefact,) = whole["artefacts"]
    near = os.path.relpath(artefact["path"], bench.layout.home)
    configure(bench, whole | {"artefacts": [artefact | {"path": near}]})
    assert bench.call("install").status == "ok"
    assert says_hello(bench) == "hello\n"


@pytest.mark.proves("packages-configured")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": "x"}, "packages[0].run: unknown field"),
        ({"kind": "code"}, "packages[0].kind: 'code' is none of archive, python-tool"),
        ({"name": "fakehost"}, "packages[0].name: 'fakehost' is taken: by PM, by the host, or by another registration"),
        ({"version": 14.1}, "packages[0].version: float where text belongs"),
        ({"executables": ["x/uv"]}, "packages[0].executables[0]: 'uv' is taken"),
    ],
)
def test_a_fault_refuses_the_install_by_its_place_and_no_other_verb(
    bench: Bench, shelf: Shelf, change: dict[str, Any], said: str
) -> None:
    """Case 27, for a person."""
    configure(bench, put_local(shelf) | change)
    before = bench.generations
    with pytest.raises(errors.ConfigInvalid) as caught:
        bench.call("install")
    line = len(bench.layout.config.read_text().splitlines())
    assert caught.value.summary.startswith(f"config.yaml:{line}:")
    assert said in caught.value.summary
    assert (bench.generations, packages_of(bench.context())) == (before, [])
    bench.add("gadget")
    bench.call("rollback")


@pytest.mark.proves("packages-configured", "package-sits-out")
def test_what_cannot_be_had_changes_nothing_and_what_is_for_another_machine_sits_out(
    bench: Bench, shelf: Shelf
) -> None:
    """Cases 27 and 28, for a person."""
    good = put_local(shelf)
    (artefact,) = good["artefacts"]
    text = 'plugins: ["gadget"]\n'
    bench.config.write_text(text)
    before = bench.current.identity
    configure(bench, good | {"artefacts": [artefact | {"sha256": "0" * 64}]})
    with pytest.raises(errors.IntegrityFault):
        bench.call("install")
    assert bench.current.identity == before
    assert not (bench.layout.bin / "hello").exists()
    configure(bench, good | {"artefacts": [artefact | {"target": "plan9-mips"}]})
    outcome = bench.call("install")
    assert f"hello sits out: hello 1.0 is for plan9-mips, and this machine is {target_name()}" in outcome.obligations
    assert packages_of(bench.context()) == ["configured.json"]
    assert bench.current.identity != before


def missing_packages(bench: Bench, *, deep: bool) -> list[dict[str, Any]]:
    found = examine(bench.layout, "default", deep=deep)["problems"]
    return [problem for problem in found if problem["code"] == "package-missing"]


@pytest.mark.proves("packages-configured", "doctor-names-it")
@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("bin/hello", "a launcher of the package hello 1.0 is not in "),
        ("store/packages", "the package hello 1.0 is not in "),
        ("store/packages/hello-1.0-*/files/hello-1.0/hello", "the package hello 1.0 is not in "),
    ],
)
@pytest.mark.parametrize("verb", ["install", "repair"])
def test_what_is_lost_of_a_package_is_named_and_had_again(
    bench: Bench, shelf: Shelf, lost: str, said: str, verb: str
) -> None:
    def problems() -> list[str]:
        return [problem["summary"] for problem in missing_packages(bench, deep=False)]

    configure(bench, put_local(shelf))
    bench.call("install")
    assert problems() == []
    (path,) = bench.layout.home.glob(lost)
    FILES.remove_tree(path)
    (summary,) = problems()
    assert summary.startswith(said)
    assert bench.call(verb).status == "ok"
    assert problems() == []
    assert says_hello(bench) == "hello\n"
    configure(bench, put_local(shelf) | {"kind": "code"})
    found = [problem["summary"] for problem in examine(bench.layout, "default", deep=False)["problems"]]
    assert any("packages[0].kind: 'code' is none of archive, python-tool" in summary for summary in found)


@pytest.mark.proves("packages-configured", "doctor-names-it")
def test_a_changed_byte_of_a_package_is_found_by_a_deep_look_and_mended_by_repair(bench: Bench, shelf: Shelf) -> None:
    configure(bench, put_local(shelf))
    bench.call("install")
    (path,) = bench.layout.home.glob("store/packages/hello-1.0-*/files/hello-1.0/hello")
    good = path.read_bytes()
    path.chmod(0o755)
    path.write_bytes(good[:-1] + b"#")
    assert missing_packages(bench, deep=False) == []
    (problem,) = missing_packages(bench, deep=True)
    assert problem["hint"] == "perdure-pm repair"
    assert bench.call("repair").data["packages"] == ["hello 1.0"]
    assert path.read_bytes() == good
    assert missing_packages(bench, deep=True) == []
    assert bench.call("repair").status == "noop"

"""Custom packages: fetched from a real server, hash-checked, unpacked safely, and started through their launchers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.interpreter import target_name
from perdure_pm.client import Client
from perdure_pm.model import errors
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Context
from perdure_pm.store import receipts
from perdure_pm.store.layout import Layout
from tests.pm.package_shelf import (
    FILES,
    Recorder,
    Shelf,
    install,
    packages_of,
    put_hello,
    registration,
    script,
    start,
    tar,
    zip_file,
)
from tests.pm.worker_home import PLACES, ROOT

pytestmark = pytest.mark.platforms("linux")


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

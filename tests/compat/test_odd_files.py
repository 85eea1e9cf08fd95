"""Files as they lie about in real projects: each is moved with every other byte kept, or listed and left as it was."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perdure_compat
from perdure_compat.index import Index
from perdure_compat.manifest import parse_manifest
from perdure_compat.migrate import migrate_files
from perdure_compat.scan import NotFound, files_below, files_of, scan
from tests.compat.shop import command, make_shop
from tests.unprivileged import UnprivilegedUser

MANIFEST = """
schema = 1
package = "shop"
[[moved]]
old = "shop.live.LIMIT"
new = "shop.api.LIMIT"
since = "1"
removed-in = "3"
[[moved]]
old = "shop.live.cafe"
new = "shop.api.café"
since = "1"
removed-in = "3"
"""
INDEX = Index([parse_manifest(MANIFEST, Path("m.toml"))])
OLD, NEW = b"from shop.live import LIMIT", b"from shop.api import LIMIT"

MOVED = {
    "latin-1": b"# coding: latin-1\n%s\nx = '\xe9'\n",
    "shift-jis": "# coding: shift_jis\n%s\nx = '日'\n".encode("shift_jis"),
    "cp1251-and-crlf": "# vim: set fileencoding=cp1251 :\r\n%s\r\nx = 'Ж'\r\n".encode("cp1251"),
    "mark": b"\xef\xbb\xbf# coding: utf-8\n%s\n",
    "separators-that-end-no-line": "%s\nx = 'a\u2028b\x1c\x85'\ny = LIMIT\n".encode(),
    "form-feeds": b"\x0c\x0c%s\x0c\n\x0c\nx = LIMIT\n",
    "tabs": b"if 1:\n\t%s\n\tx = LIMIT\n",
    "mixed-line-ends": b"import os\r\n%s\nx = LIMIT\r",
    "no-line-end": b"%s",
    "many-terms": b"%s\nx = LIMIT" + b" + 1" * 300 + b"\n",
}


@pytest.mark.proves("compat-migrate-keeps-text")
@pytest.mark.parametrize("name", MOVED)
def test_whatever_its_encoding_and_layout_only_the_name_changes(tmp_path: Path, name: str) -> None:
    """Case 38: bytes of every kind around the name."""
    path = tmp_path / "plugin.py"
    path.write_bytes(MOVED[name] % OLD)
    (done,), unreadable = migrate_files([path], INDEX)
    done.write()
    assert (path.read_bytes(), unreadable) == (MOVED[name] % NEW, [])


UNREADABLE = {
    "rot13": (b"# coding: rot13\n%s\n", "'rot13' is not a text encoding"),
    "unknown-encoding": (b"# coding: klingon\n%s\n", "unknown encoding: klingon"),
    "mark-against-encoding": (b"\xef\xbb\xbf# coding: latin-1\n%s\n", "encoding problem: utf-8"),
    "not-its-encoding": (b"# coding: ascii\n%s\nx = '\xe9'\n", "not ascii: ordinal not in range(128)"),
    "ambiguous-encoding": (b"# coding: utf-7\n%s\nx = '+AOk-'\n", "does not give the same bytes again"),
    "utf-16": (b"\xff\xfe%s\n", "invalid or missing encoding declaration"),
    "nul": (b"%s\nx = 1\x00\n", "null bytes"),
    "syntax": (b"%s\ndef (:\n", "invalid syntax"),
    "deep": (b"%s\nx = " + b"(" * 5000 + b")" * 5000, "too many nested parentheses"),
    "deeper": (b"%s\nx = " + b"-" * 100_000 + b"1\n", "nested too deeply"),
}


@pytest.mark.proves("compat-scan-every-file", "compat-migrate-leaves")
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_or_kept_is_listed_and_holds_up_no_other_file(tmp_path: Path, name: str) -> None:
    """Case 39: a file with a fault is listed, not skipped."""
    raw, reason = UNREADABLE[name]
    raw = raw.replace(b"%s", OLD)
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_bytes(raw)
    good.write_bytes(OLD)
    found, unreadable = migrate_files([bad, good], INDEX)
    assert [(each.path, reason in each.text) for each in unreadable] == [(bad, True)]
    assert [(each.path, each.moved) for each in found] == [(good, 1)]
    report = scan([bad, good], INDEX)
    assert [(each.path, reason in each.text) for each in report.unreadable] == [(bad, True)]
    assert bad.read_bytes() == raw


@pytest.mark.proves("compat-scan-every-file")
def test_links_pipes_and_packages_called_build_are_met_without_harm(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    (plugin / "build").mkdir(parents=True)
    (plugin / "build" / "__init__.py").write_bytes(OLD)
    for made in ("dist", "env"):
        (plugin / made).mkdir()
        (plugin / made / "x.py").write_bytes(OLD)
    (plugin / "env" / "pyvenv.cfg").write_text("")
    for name in ("real.py", "window.pyw", "stub.pyi", "../outside.py"):
        (plugin / name).write_bytes(OLD)
    for link, target in {"again.py": "real.py", "out.py": "../outside.py", "loop.py": "loop.py", "round": "."}.items():
        (plugin / link).symlink_to(target)
    os.mkfifo(plugin / "pipe.py")
    (plugin / "folder.py").mkdir()
    names = [path.relative_to(plugin).as_posix() for path in files_below([plugin])]
    assert names == ["build/__init__.py", "loop.py", "out.py", "real.py", "stub.pyi", "window.pyw"]
    report = scan(files_below([plugin]), INDEX)
    assert [each.path.name for each in report.unreadable] == ["loop.py"]
    # A type stub is read by type checkers alone.
    assert {each.path.name: each.reach for each in report.findings}["stub.pyi"] == "when-run"
    for each in migrate_files(files_below([plugin]), INDEX)[0]:
        each.write()
    assert (plugin / "out.py").is_symlink()
    assert (tmp_path / "outside.py").read_bytes() == (plugin / "real.py").read_bytes() == NEW


def _look_into_a_closed_folder(folder: Path) -> list[tuple[str, str]]:
    closed = folder / "plugin" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    report = scan(files_below([folder / "plugin"]), INDEX)
    closed.chmod(0o700)
    return [(each.path.name, each.text) for each in report.unreadable]


@pytest.mark.proves("compat-scan-every-file")
def test_a_folder_that_may_not_be_listed_is_told(unprivileged_user: UnprivilegedUser) -> None:
    told = unprivileged_user.call(_look_into_a_closed_folder, unprivileged_user.folder)
    assert told == [("closed", "Permission denied")]


@pytest.mark.proves("compat-migrate-whole-files")
def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plugin.py"
    path.write_bytes(OLD)
    (done,), _ = migrate_files([path], INDEX)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("perdure_compat.source.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            done.write()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("plugin.py", OLD)]
    done.write()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("plugin.py", NEW)]


@pytest.mark.proves("compat-migrate-whole-files")
def test_a_file_that_changed_in_the_meantime_is_left(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_bytes(OLD)
    (done,), _ = migrate_files([path], INDEX)
    path.write_bytes(OLD + b"  # an editor was faster")
    with pytest.raises(OSError, match="changed in the meantime"):
        done.write()
    assert path.read_bytes() == OLD + b"  # an editor was faster"


def _migrate_a_file_that_may_not_be_written(folder: Path) -> tuple[str, bytes]:
    path = folder / "plugin.py"
    path.write_bytes(OLD)
    path.chmod(0o444)
    (done,), _ = migrate_files([path], INDEX)
    try:
        done.write()
    except OSError as error:
        return str(error.strerror), path.read_bytes()
    return "written", path.read_bytes()


@pytest.mark.proves("compat-migrate-whole-files")
def test_a_file_that_may_not_be_written_is_left(unprivileged_user: UnprivilegedUser) -> None:
    """A file is replaced, for which the folder's permission would do: the file's own is asked."""
    done = unprivileged_user.call(_migrate_a_file_that_may_not_be_written, unprivileged_user.folder)
    assert done == ("it may not be written", OLD)


@pytest.mark.proves("compat-migrate-whole-files")
def test_the_command_goes_on_after_a_file_that_cannot_be_written_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "moved-names.toml").write_text(MANIFEST)
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "ascii.py").write_bytes(b"# coding: ascii\nfrom shop.live import cafe\n")
    for name in ("plain.py", os.fsdecode(b"\xff.py")):
        (plugin / name).write_bytes(OLD)
    told = command(tmp_path, "scan", "plugin")
    assert (told.returncode, told.stdout.count(": breaks: ")) == (3, 3)
    done = command(tmp_path, "migrate", "--write", "plugin")
    assert (done.returncode, done.stderr) == (
        1,
        (
            "not written: plugin/ascii.py: its encoding ascii cannot write the new names\n"
            "moved 2 uses in 2 files; 0 left; 0 unreadable; 1 not written\n"
        ),
    )
    assert (plugin / "plain.py").read_bytes() == (plugin / os.fsdecode(b"\xff.py")).read_bytes() == NEW


@pytest.mark.proves("compat-migrate-whole-files")
def test_a_migration_that_is_killed_or_runs_twice_at_once_is_finished_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "moved-names.toml").write_text(MANIFEST)
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    for number in range(300):
        (plugin / f"p{number}.py").write_bytes(OLD)
    words = [sys.executable, "-m", "perdure_compat", "migrate", "--write", "plugin"]
    environment = {**os.environ, "PYTHONPATH": str(Path(perdure_compat.__file__).parent.parent)}
    both = [subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
    ends = time.monotonic() + 60
    while (plugin / "p0.py").read_bytes() == OLD and time.monotonic() < ends:
        time.sleep(0.005)
    both[0].send_signal(signal.SIGKILL)
    for each in both:
        each.wait(timeout=60)
    assert {path.read_bytes() for path in plugin.glob("*.py")} <= {OLD, NEW}
    assert command(tmp_path, "migrate", "--write", "plugin").returncode == 0
    assert {path.read_bytes() for path in plugin.glob("*.py")} == {NEW}


@pytest.mark.proves("compat-scan-forms")
def test_a_relative_import_in_packages_without_a_file_of_their_own_is_read_by_the_folders(tmp_path: Path) -> None:
    deep = tmp_path / "src" / "shop" / "plugins" / "mine"
    deep.mkdir(parents=True)
    (deep / "__init__.py").write_text("from ...live import LIMIT\n")
    (deep / "more.py").write_text("from  ...live import LIMIT\nfrom....live import LIMIT\n")
    found = [(each.path.name, each.line) for each in scan(files_below([tmp_path]), INDEX).findings]
    assert found == [("__init__.py", 1), ("more.py", 1)]


@pytest.mark.proves("compat-scan-every-file")
def test_of_a_shared_folder_only_the_entry_points_own_part_is_read(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / "shared" / name).mkdir(parents=True)
        (tmp_path / "shared" / name / "__init__.py").write_bytes(OLD)
    assert files_of("shared.mine:plugin", search=[str(tmp_path)]) == [tmp_path / "shared" / "mine" / "__init__.py"]


@pytest.mark.proves("compat-scan-every-file")
def test_an_editable_distribution_is_read_where_it_lies_and_one_without_a_list_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    (project / "plug.py").write_bytes(OLD)
    info = tmp_path / "site" / "plug-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    search = [str(tmp_path / "site")]
    with pytest.raises(NotFound, match="without a list of its files"):
        files_of("plug", search=search)
    (info / "RECORD").write_text("plug.pth,,\n")
    (info / "direct_url.json").write_text(f'{{"url": "{project.as_uri()}", "dir_info": {{"editable": true}}}}')
    assert files_of("plug", search=search) == [project / "plug.py"]


@pytest.mark.proves("compat-render", "compat-remove")
def test_a_module_and_a_manifest_keep_encoding_mark_and_line_ends(tmp_path: Path) -> None:
    make_shop(tmp_path)
    live, manifest = tmp_path / "src/shop/live.py", tmp_path / "moved-names.toml"
    own = b"# coding: latin-1\r\n'''\xe9'''\r\n\r\n\r\ndef here() -> int:\r\n    return 1\r\n"
    live.write_bytes(own)
    (tmp_path / "src/shop/data.py").write_bytes(b"\xff\xfe no text at all")
    manifest.write_bytes(b"\xef\xbb\xbf" + manifest.read_bytes().replace(b"\n", b"\r\n"))
    assert command(tmp_path, "render").returncode == 0
    text = live.read_bytes()
    assert text.startswith(own.rstrip() + b"\r\n\r\n# perdure-compat: begin")
    assert text.count(b"\n") == text.count(b"\r\n")
    assert command(tmp_path, "render").stdout == ""
    added = command(tmp_path, "new-entry", "shop.live.new", "shop.api.orders.place", "--removed-in", "0.6")
    assert added.returncode == 0, added.stderr
    assert command(tmp_path, "remove", "--up-to", "0.6").returncode == 0
    assert live.read_bytes() == own
    after = manifest.read_bytes()
    assert after.startswith(b"\xef\xbb\xbfschema = 1\r\n")
    assert after.count(b"\n") == after.count(b"\r\n")


@pytest.mark.proves("compat-render")
def test_a_module_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    make_shop(tmp_path)
    live = tmp_path / "src/shop/live.py"
    for raw, line in {b"# coding: ascii\nx = '\xe9'\n": 0, b"x = (\n": 1}.items():
        live.write_bytes(raw)
        refused = command(tmp_path, "render")
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"perdure-compat: src/shop/live.py:{line}: cannot be read: ")
        assert refused.stderr.count("\n") == 1
        assert (live.read_bytes(), (tmp_path / "docs/moved.md").exists()) == (raw, False)


def test_the_diff_has_the_lines_that_python_counts(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_bytes(b"x = '\x0c'\n" + OLD + b"\n")
    (done,), _ = migrate_files([path], INDEX)
    assert done.diff().split("\n")[3:] == [" x = '\x0c'", f"-{OLD.decode()}", f"+{NEW.decode()}", ""]


def test_a_reader_that_goes_away_is_no_failure_to_tell_of(tmp_path: Path) -> None:
    (tmp_path / "moved-names.toml").write_text(MANIFEST)
    (tmp_path / "plugin.py").write_bytes(OLD + b"\nx = 0\n" * 20_000 + b"LIMIT\n")
    for number in range(400):
        (tmp_path / f"p{number}.py").write_bytes(OLD)
    engine = str(Path(perdure_compat.__file__).parent.parent)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m perdure_compat scan . | head -n 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": engine},
    )
    assert (done.stdout.count("\n"), done.stderr) == (1, "")

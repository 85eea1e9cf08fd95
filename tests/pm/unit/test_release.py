"""A host's release: what of a checkout counts, and that the store's copy is whole, read-only and enough by itself."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.adapters.plain_reporter import PlainReporter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import ConfigInvalid, NoSpace, PerdureError, UsageFault
from perdure_pm.model.network import Network
from perdure_pm.ops.build import build_environment
from perdure_pm.ops.release import Release, digest_checkout, ensure_release, load_release
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import make_workshop

PYTHON = running_interpreter().path


@pytest.fixture(scope="module")
def pristine(uv: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the fake host; nobody changes it."""
    return make_workshop(tmp_path_factory.mktemp("workshop"), uv, checkout / "pm" / "uv.lock").checkout


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    """A checkout of the fake host, to be changed at will."""
    return Path(shutil.copytree(pristine, tmp_path / "checkout"))


@pytest.fixture
def layout(home: Path) -> Iterator[Layout]:
    yield Layout(home)
    LocalFilesystem().remove_tree(home)


def ensure(uv: Path, layout: Layout, source: Path) -> Release:
    tool = Uv(uv, layout, Network(offline=True), os.environ)
    return ensure_release(tool, LocalFilesystem(), PlainReporter(events=False), layout, source, PYTHON)


@pytest.mark.proves("release-digest")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("pyproject.toml", True),
        ("uv.lock", True),
        ("src/fakehost/__init__.py", True),
        ("src/fakehost/new.py", True),
        ("src/fakehost/data.txt", True),
        ("clock/pyproject.toml", True),
        ("clock/src/fakehost_clock/__init__.py", True),
        ("LICENSE", True),
        ("src/fakehost/__pycache__/x.cpython-312.pyc", False),
        ("README.md", False),
        ("docs/index.md", False),
        ("tests/test_x.py", False),
        (".git/HEAD", False),
        ("src/other/__init__.py", False),
    ],
)
def test_what_gets_into_a_wheel_counts_and_the_rest_does_not(source: Path, name: str, counts: bool) -> None:
    before = digest_checkout(source)
    path = source / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# one more line\n")
    assert (digest_checkout(source) != before) is counts
    assert digest_checkout(Path(shutil.copytree(source, source.with_name("a copy")))) == digest_checkout(source)


@pytest.mark.proves("release-whole")
def test_a_release_holds_everything_that_a_generation_needs_of_the_host(uv: Path, layout: Layout, source: Path) -> None:
    built = ensure(uv, layout, source)
    assert (built.name, built.version, built.commands) == ("fakehost", "0.1.0", ("fakehost",))
    assert [plugin.to_json() for plugin in built.plugins] == [
        {"name": "clock", "distribution": "fakehost-clock", "version": "0.1.0", "entry": "fakehost_clock:plugin"}
    ]
    assert [wheel.distribution for wheel in built.wheels] == ["fakehost", "fakehost-clock"]
    assert all(wheel.sha256 == hash_file(wheel.path) for wheel in built.wheels)
    folder = layout.release(built.digest)
    assert (folder / "uv.lock").read_bytes() == (source / "uv.lock").read_bytes()
    writable = [path.name for path in [folder, *folder.rglob("*")] if path.lstat().st_mode & 0o222]
    assert writable == []
    shutil.rmtree(source)
    assert load_release(layout, built.digest) == built


@pytest.mark.proves("release-whole")
def test_the_checkout_is_not_written_to(uv: Path, layout: Layout, source: Path) -> None:
    before = {path.relative_to(source): path.lstat().st_mtime_ns for path in source.rglob("*")}
    LocalFilesystem().make_read_only(source)
    ensure(uv, layout, source)
    assert {path.relative_to(source): path.lstat().st_mtime_ns for path in source.rglob("*")} == before
    for path in [source, *source.rglob("*")]:
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)


@pytest.mark.proves("release-whole")
def test_a_release_that_is_there_is_not_built_again(uv: Path, layout: Layout, source: Path) -> None:
    ensure(uv, layout, source)
    before = {path: path.stat().st_ino for path in layout.releases.rglob("*")}
    ensure(Path("/nowhere/uv"), layout, source)
    assert {path: path.stat().st_ino for path in layout.releases.rglob("*")} == before


@pytest.mark.proves("release-whole")
@pytest.mark.parametrize("damage", ["half built", "wheel changed", "wheel gone", "record cut off", "record of another"])
def test_a_release_that_is_not_whole_is_none_and_is_built_again(
    uv: Path, layout: Layout, source: Path, damage: str
) -> None:
    """Case 105: what is there is judged by its contents."""
    built = ensure(uv, layout, source)
    folder = layout.release(built.digest)
    folder.chmod(0o755)
    record, wheel = folder / "release.json", built.wheels[0].path
    for path in (record, wheel):
        path.chmod(0o644)
    if damage == "half built":
        record.unlink()
    elif damage == "wheel changed":
        wheel.write_bytes(wheel.read_bytes()[:-1])
    elif damage == "wheel gone":
        wheel.unlink()
    elif damage == "record cut off":
        record.write_bytes(record.read_bytes()[:100])
    else:
        record.write_text(json.dumps({**json.loads(record.read_bytes()), "digest": "0" * 12}), encoding="utf-8")
    assert load_release(layout, built.digest) is None
    assert ensure(uv, layout, source) == built


@pytest.mark.proves("release-refusals")
@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ("no pyproject", UsageFault, "it has no pyproject.toml"),
        ("no lock", UsageFault, "has no uv.lock"),
        ("no name", ConfigInvalid, "has no [project] name"),
        ("no toml", ConfigInvalid, "cannot be read"),
        ("no plugin", UsageFault, "clock, which has no pyproject.toml"),
        ("outside", UsageFault, "from outside the checkout"),
    ],
)
def test_what_is_no_host_is_refused_in_words(source: Path, change: str, kind: type[PerdureError], words: str) -> None:
    project, lock = source / "pyproject.toml", source / "uv.lock"
    if change == "no pyproject":
        project.unlink()
    elif change == "no lock":
        lock.unlink()
    elif change == "no name":
        project.write_text("[tool.x]\n", encoding="utf-8")
    elif change == "no toml":
        project.write_text("[[[", encoding="utf-8")
    elif change == "no plugin":
        shutil.rmtree(source / "clock")
    else:
        lock.write_text(lock.read_text(encoding="utf-8").replace('"clock"', '"../clock"'), encoding="utf-8")
        shutil.copytree(source / "clock", source.with_name("clock"))
    with pytest.raises(kind) as caught:
        digest_checkout(source)
    assert words in caught.value.summary
    assert caught.value.hint is None or "checkout" in caught.value.hint or "uv lock" in caught.value.hint


class AlmostFull(LocalFilesystem):
    """A filesystem with next to nothing left."""

    def free_bytes(self, path: Path) -> int:
        return 4096


@pytest.mark.proves("build-no-cut-off")
def test_a_build_that_left_no_space_is_not_trusted(uv: Path, layout: Layout) -> None:
    """Byte code that was cut off loads nowhere, and the interpreter that wrote it ended with exit code 0."""
    layout.home.mkdir()
    tool = Uv(uv, layout, Network(offline=True), os.environ)
    with pytest.raises(NoSpace, match="may be cut off"):
        build_environment(tool, AlmostFull(), environment=layout.home / "venv", python=PYTHON, requirements="")


def _pipe(source: Path) -> Path:
    os.mkfifo(source / "src" / "fakehost" / "pipe.py")
    return source / "src" / "fakehost" / "pipe.py"


def _linked_folder(source: Path) -> Path:
    (source / "src" / "fakehost" / "linked").symlink_to("..")
    return source / "src" / "fakehost" / "linked"


@pytest.mark.proves("release-digest")
@pytest.mark.platforms("linux", "darwin")
@pytest.mark.parametrize("spoil", [_pipe, _linked_folder])
def test_what_no_wheel_can_hold_is_named(source: Path, spoil: Callable[[Path], Path]) -> None:
    place = spoil(source)
    with pytest.raises(UsageFault, match="cannot be read") as refused:
        digest_checkout(source)
    assert refused.value.context["path"] == str(place)


@pytest.mark.proves("release-digest")
def test_a_member_project_that_is_no_toml_is_named(source: Path) -> None:
    (source / "clock" / "pyproject.toml").write_text("nonsense", encoding="utf-8")
    with pytest.raises(ConfigInvalid, match=r"clock/pyproject\.toml cannot be read"):
        digest_checkout(source)


@pytest.mark.proves("release-digest")
def test_a_lock_that_is_no_text_is_named(source: Path) -> None:
    (source / "uv.lock").write_bytes(b"\xff")
    with pytest.raises(ConfigInvalid, match=r"uv\.lock cannot be read"):
        digest_checkout(source)

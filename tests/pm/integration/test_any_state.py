"""Doctor in any state that a home can be in: it answers, and what it names helps."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import PerdureError
from perdure_pm.ops.doctor import examine
from perdure_pm.ops.status import read_status
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.command_line import CommandLine
from tests.pm.fake_host import STUBS, copy_home
from tests.pm.plugin_sources import write_plugin
from tests.system.machine import fingerprint
from tests.unprivileged import UnprivilegedUser

pytestmark = pytest.mark.platforms("linux", "darwin")


def looked_at(home: Path) -> dict[str, Any]:
    return examine(Layout(home), "default", deep=True)


def give(home: Path, owner: int) -> None:
    """Have everything of a home belong to a user."""
    for folder, _, names in os.walk(home):
        for name in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(name, owner, -1, follow_symlinks=False)


@pytest.mark.proves("doctor-answers-always", "cli-true-hints")
@pytest.mark.unprivileged
@pytest.mark.parametrize("where", ["store/trash"])
def test_what_this_user_may_not_read_is_named_and_what_helps_does(
    bench: Bench, unprivileged_user: UnprivilegedUser, where: str
) -> None:
    layout = copy_home(bench.layout, unprivileged_user.folder / "home")
    closed = layout.home / where
    closed.mkdir(exist_ok=True)
    give(layout.home, unprivileged_user.uid)
    closed.chmod(0)
    found = unprivileged_user.call(looked_at, layout.home)
    (problem,) = [entry for entry in found["problems"] if closed.name in entry["summary"]]
    assert problem["code"] == "unreadable"
    assert problem["hint"].startswith("give this user the right to read it, or remove it; then perdure-pm repair")
    LocalFilesystem().remove_tree(closed)
    give(layout.home, os.geteuid())
    bench.layout = layout
    bench.call("repair")
    assert {entry["code"] for entry in looked_at(layout.home)["problems"]} <= STUBS


OUTSIDE = "outside"
KINDS: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\xff\x00[{\n" * 50),
    "nested": lambda path: path.write_bytes(b"[" * 200_000),
    "other JSON": lambda path: path.write_text('{"schema": 1, "files": [], "links": 3, "pinned": {}, "named": []}'),
    "directory": lambda path: (path / "in it").mkdir(parents=True),
    "file": lambda path: path.write_text("a file"),
    "link": lambda path: path.symlink_to(path.parents[len(path.parents) - 4] / OUTSIDE),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "socket": lambda path: os.mknod(path, 0o140644),
}
"""What may lie where something of PM's lay."""

QUICK = ("gone", "garbage", "other JSON", "link to itself", "pipe")


def owned(home: Path) -> list[Path]:
    """Return every file and directory of a home, one of each kind where there are many of it, in the order of names."""
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(home):
        folders.sort()
        for name in (*folders, *sorted(names)):
            path = Path(folder, name)
            place = path.relative_to(home).as_posix()
            kind = re.sub(r"[0-9a-f]{8,}|\d+", "#", place)
            if "/venv/" in place or place.startswith("cache/uv/"):  # a sort of file each: nobody looks for the others
                kind = f"{place.partition('/')[0]}/{path.suffix}"
            found.setdefault(kind, path)
    return list(found.values())


class Stuck(BaseException):
    """Something waited for what never comes."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def ring(_number: int, _frame: object) -> None:
        raise Stuck

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answers(layout: Layout, *, deep: bool) -> list[dict[str, Any]]:
    """Return what doctor finds wrong; fail where it does not answer, or tells of a defect of its own."""
    with at_most(20):
        found = examine(layout, "default", deep=deep)
        json.dumps(read_status(layout, "default", {}))
    assert json.loads(json.dumps(found))["healthy"] is (not found["problems"])
    assert [problem for problem in found["problems"] if problem["code"] == "internal"] == []
    assert all(problem["hint"] for problem in found["problems"])
    problems: list[dict[str, Any]] = found["problems"]
    return problems


@contextlib.contextmanager
def replaced(path: Path, kind: str, aside: Path) -> Iterator[None]:
    """Have something else lie at a path, and what lay there again afterwards."""
    mode = path.parent.stat().st_mode
    path.parent.chmod(0o755)
    path.rename(aside)
    try:
        KINDS[kind](path)
        yield
    finally:
        if os.path.lexists(path):
            LocalFilesystem().remove_tree(path)
        aside.rename(path)
        path.parent.chmod(mode)


@pytest.fixture
def lived_in(bench: Bench, tmp_path: Path) -> Bench:
    """A home with everything in it that a home can have."""
    bench.add("gadget", str(write_plugin(tmp_path / "notify")))
    bench.call("label", name="good")
    bench.add("part-1", confirm_within=600)
    bench.call("config-set", key="install.lazy", value="true")
    with pytest.raises(PerdureError):
        bench.add("nowhere-to-be-had")
    crashes = bench.layout.crashes("default")
    crashes.mkdir()
    (crashes / "gadget.json").write_text('{"distribution": "gadget", "version": "1", "during": "x", "at": "x"}')
    (bench.layout.profile("default") / "pending").write_text("{}")
    (tmp_path / OUTSIDE).mkdir()
    return bench


@pytest.mark.proves("doctor-answers-always")
@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_doctor_and_status_answer_whatever_lies_where_a_file_or_directory_was(
    lived_in: Bench, kind: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Case 89: one after another, each of them."""
    places = owned(lived_in.layout.home)
    before = {problem["code"] for problem in answers(lived_in.layout, deep=True)}
    silent = 0
    for number, path in enumerate(places):
        if kind == "file" and not path.is_dir():
            continue
        with replaced(path, kind, tmp_path / "aside"):
            try:
                found = answers(lived_in.layout, deep=number % 2 == 0)
            except (Exception, Stuck) as error:
                raise AssertionError(f"{path}: {type(error).__name__}: {error}") from error
            silent += {problem["code"] for problem in found} <= before
    assert {problem["code"] for problem in answers(lived_in.layout, deep=True)} == before
    figure(f"doctor and status, {kind}: {len(places)} places, {silent} of which nobody needs")


@pytest.mark.proves("doctor-answers-always")
def test_doctor_answers_where_many_things_are_wrong_at_once(lived_in: Bench, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("PERDURE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    chance = random.Random(seed)  # noqa: S311 - places, not secrets
    for number in range(60 if request.config.getoption("--slow") else 6):
        layout = copy_home(lived_in.layout, lived_in.layout.home.with_name(f"copy {number}"))
        for _ in range(8):
            path = chance.choice(owned(layout.home))
            path.parent.chmod(0o755)
            LocalFilesystem().remove_tree(path)
            KINDS[chance.choice(sorted(KINDS))](path)
        try:
            answers(layout, deep=True)
        except (Exception, Stuck) as error:
            raise AssertionError(f"seed {seed}, home {number}: {type(error).__name__}: {error}") from error
        LocalFilesystem().remove_tree(layout.home)


@pytest.mark.proves("doctor-answers-always", "home-no-link-written-through")
@pytest.mark.parametrize("where", ["bin", "receipts", "receipts/unfinished", "cache", "cache/tmp", "pm"])
def test_nothing_is_written_through_a_link_and_doctor_says_what_helps(bench: Bench, where: str, tmp_path: Path) -> None:
    path = bench.layout.home / where
    path.mkdir(parents=True, exist_ok=True)
    path.rename(tmp_path / "aside")
    path.symlink_to(tmp_path / "aside")
    before = fingerprint(tmp_path / "aside")
    ended = CommandLine(bench.layout.home)("plugin", "add", "gadget", "--json", variables=bench.settings())
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"]) == (1, "home-unusable")
    assert error["summary"].startswith(f"HOME/{where} is a link")
    assert fingerprint(tmp_path / "aside") == before
    found = {problem["hint"] for problem in answers(bench.layout, deep=False)}
    assert any(hint.startswith(f"remove the link {path}, or put") for hint in found)
    path.unlink()
    (tmp_path / "aside").rename(path)
    assert bench.add("gadget")

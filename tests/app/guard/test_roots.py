"""What is protected: on machines that are described, in a home that is built here, and where the tests run."""

from __future__ import annotations

import fnmatch
import importlib.util
import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from perdure.domain.effect import Act
from perdure.domain.verdict import Ruling
from perdure.guard.judge import judge
from perdure.guard.layout import LayoutProbe
from perdure.guard.paths import Protected
from perdure.guard.probe import Machine
from perdure.guard.roots import HOME, Entry, Origin, environment_roots, protected_roots, watched
from perdure.guard.service import Guard, Place
from tests.app.guard.layouts import effect, reading

pytestmark = pytest.mark.platforms("linux", "darwin")


def test_an_environment_is_protected_with_its_configuration_its_links_and_its_base() -> None:
    base = "/home/you/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu"
    short = "/home/you/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu"
    venv = "/home/you/app/.venv"
    probe = LayoutProbe(links={f"{venv}/bin/python": f"{short}/bin/python3.12", short: base})
    found = {root.path: root.why for root in environment_roots(f"{venv}/bin/python", venv, short, probe)}
    assert found == {
        venv: "the environment of this process",
        f"{venv}/pyvenv.cfg": "what says which interpreter the environment of this process was made from",
        f"{venv}/bin/python": "the interpreter of this process",
        short: "a link on the way to the interpreter of this process",
        f"{base}/bin/python3.12": f"the interpreter that {venv}/bin/python leads to",
        base: "the base interpreter of this process",
    }


@pytest.mark.proves("guard-others-free")
def test_of_a_shared_prefix_only_the_interpreters_own_files_are_protected() -> None:
    probe = LayoutProbe(links={"/opt/app/venv/bin/python": "/usr/bin/python3", "/usr/bin/python3": "python3.12"})
    roots = environment_roots("/opt/app/venv/bin/python", "/opt/app/venv", "/usr", probe)
    found = {root.path for root in roots}
    assert {"/usr/bin/python3.12", "/usr/lib/python3.12"} <= found
    assert not {"/usr", "/usr/bin", "/usr/bin/python3"} & found
    known = Protected(roots, probe)
    assert judge(reading(effect(Act.DELETE, "/usr/bin/tool")), known).floor_ruling is Ruling.ALLOW
    assert judge(reading(effect(Act.DELETE, "/usr/bin/python3.12")), known).floor_ruling is Ruling.REFUSE


def make_home(home: Path) -> Origin:
    """Make a home with three generations, the second selected, and PM's runtime; return a process of the first."""
    base = home / "python" / "cpython-3.13.1-linux-x86_64-gnu"
    pm_base = home.parent / "uv" / "cpython-3.12.9"
    for folder, at in ((base, "3.13"), (pm_base, "3.12")):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / f"python{at}").write_text("")
    for name in ("1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb", "3-cccccccccccc"):
        venv = home / "store" / "generations" / name / "venv"
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").symlink_to(base / "bin" / "python3.13")
        (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
        (venv.parent / "lease").write_text("")
    runtime = home / "pm" / "runtimes" / "x" / "venv"
    (runtime / "bin").mkdir(parents=True)
    (runtime / "bin" / "python").symlink_to(pm_base / "bin" / "python3.12")
    (runtime / "pyvenv.cfg").write_text(f"home = {pm_base}/bin\n")
    profile = home / "profiles" / "default"
    profile.mkdir(parents=True)
    (profile / "current").write_text("2-bbbbbbbbbbbb\n")
    own = home / "store" / "generations" / "1-aaaaaaaaaaaa"
    return Origin(
        executable=f"{own}/venv/bin/python",
        prefix=f"{own}/venv",
        base_prefix=str(base),
        code=f"{own}/venv/lib/python3.13/site-packages/perdure",
        home=str(home),
        generation=str(own),
    )


@pytest.mark.proves("guard-roots-computed")
def test_a_homes_current_own_and_held_generations_are_protected_with_what_mends_them(tmp_path: Path) -> None:
    import fcntl

    home = tmp_path / "home"
    origin = make_home(home)
    found = {root.path: root.why for root in protected_roots(origin, Machine())}
    generations = home / "store" / "generations"
    assert found[f"{generations}/2-bbbbbbbbbbbb"] == "the generation that a profile runs"
    assert found[f"{generations}/1-aaaaaaaaaaaa"] == "the generation that this process runs from"
    assert f"{generations}/3-cccccccccccc" not in found
    assert found[str(home / "pm")] == "PM's runtimes, its seed, and its pointers"
    assert found[f"{tmp_path}/uv/cpython-3.12.9"] == "the base interpreter of PM's runtime x"
    assert found[f"{home}/profiles/default/app.yaml"] == "the app's own policy"
    assert {root.path for root in protected_roots(origin, Machine()) if root.secret} == {f"{home}/state"}
    with open(generations / "3-cccccccccccc" / "lease") as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)
        held = {root.path: root.why for root in protected_roots(origin, Machine())}
    assert held[f"{generations}/3-cccccccccccc"] == "a generation that a process holds"
    # PM switches: nothing is remembered.
    (home / "profiles" / "default" / "current").write_text("3-cccccccccccc\n")
    switched = {root.path for root in protected_roots(origin, Machine())}
    assert f"{generations}/3-cccccccccccc" in switched
    assert f"{generations}/2-bbbbbbbbbbbb" not in switched


@pytest.mark.proves("guard-roots-computed")
def test_a_guard_that_lives_on_learns_of_a_switch_at_once_and_of_a_lease_in_a_moment(tmp_path: Path) -> None:
    import fcntl

    home = tmp_path / "home"
    origin, probe, now = make_home(home), Machine(), [0.0]
    guard = Guard(
        lambda: protected_roots(origin, probe),
        probe,
        homes=(),
        watched=lambda: watched(origin, probe),
        clock=lambda: now[0],
    )
    third = home / "store" / "generations" / "3-cccccccccccc"

    def ruling() -> Ruling:
        place = Place(cwd="/", home="/h")
        return guard.judge(f"rm -r {third}", shell="bash", place=place).floor_ruling

    assert ruling() is Ruling.ALLOW
    pointer = home / "profiles" / "default" / "current"
    before = pointer.stat().st_mtime_ns
    pointer.write_text("3-cccccccccccc\n")
    os.utime(pointer, ns=(before + 1, before + 1))
    assert ruling() is Ruling.REFUSE
    pointer.write_text("2-bbbbbbbbbbbb\n")
    os.utime(pointer, ns=(before + 2, before + 2))
    assert ruling() is Ruling.ALLOW
    with open(third / "lease") as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)
        now[0] += 1.0
        assert ruling() is Ruling.REFUSE


@pytest.mark.proves("guard-compare", "guard-own-feet")
def test_on_a_real_disk_links_and_hard_links_are_told_apart(tmp_path: Path) -> None:
    origin = make_home(tmp_path / "home")
    probe = Machine()
    known = Protected(protected_roots(origin, probe), probe)
    (tmp_path / "way").symlink_to(tmp_path / "home")
    (tmp_path / "file").symlink_to(f"{origin.prefix}/pyvenv.cfg")
    os.link(tmp_path / "home" / "python" / "cpython-3.13.1-linux-x86_64-gnu" / "bin" / "python3.13", tmp_path / "twin")
    cwd = str(tmp_path)

    def floor(act: Act, path: str, *, through: bool = False, recursive: bool = True) -> Ruling:
        made = effect(act, path, cwd=cwd, through_link=through, recursive=recursive)
        return judge(reading(made), known).floor_ruling

    assert floor(Act.DELETE, "way") is Ruling.ALLOW
    assert floor(Act.DELETE, "way/") is Ruling.REFUSE
    assert floor(Act.DELETE, "way/pm") is Ruling.REFUSE
    assert floor(Act.DELETE, "way/cache") is Ruling.ALLOW
    assert floor(Act.DELETE, "file") is Ruling.ALLOW
    assert floor(Act.CHANGE, "file", through=True) is Ruling.REFUSE
    assert floor(Act.DELETE, "twin") is Ruling.ALLOW
    assert floor(Act.DELETE, "home/cache/../pm/current") is Ruling.REFUSE
    assert floor(Act.DELETE, "home") is Ruling.REFUSE
    assert floor(Act.DELETE, "home", recursive=False) is Ruling.ALLOW  # rmdir of a directory that is not empty


def test_this_very_process_is_protected() -> None:
    roots = {root.path for root in environment_roots(sys.executable, sys.prefix, sys.base_prefix, Machine())}
    assert sys.executable in roots
    assert (sys.prefix in roots) == (sys.prefix != sys.base_prefix)


def covering(path: str) -> Entry | None:
    """Return the most specific entry of the table that a path of the home falls under."""
    fitting = [
        place
        for place in HOME
        if any(
            fnmatch.fnmatchcase(part, place.pattern) and part.count("/") == place.pattern.count("/")
            for part in prefixes(path)
        )
    ]
    return max(fitting, key=lambda place: place.pattern.count("/"), default=None)


def prefixes(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:length]) for length in range(1, len(names) + 1)]


@pytest.mark.proves("guard-roots-layout")
def test_every_path_of_pms_layout_is_protected_or_free_for_a_reason(checkout: Path) -> None:
    # The module is of the standard library only: loaded from its file, without the package that the app never sees.
    spec = importlib.util.spec_from_file_location("pm_layout", checkout / "pm" / "perdure_pm" / "store" / "layout.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    layout = module.Layout(Path("/h"))
    paths = []
    for name, member in inspect.getmembers(type(layout)):
        if isinstance(member, property) and isinstance(value := getattr(layout, name), Path):
            paths.append(value)
        elif inspect.isfunction(member) and not name.startswith("_") and len(inspect.signature(member).parameters) == 2:
            paths.append(member(layout, "x"))
    known = [path.relative_to("/h").as_posix() for path in paths]
    assert len(known) > 20
    # A directory that only holds entries of the table needs none of its own.
    uncovered = [
        path
        for path in known
        if covering(path) is None and not any(place.pattern.startswith(f"{path}/") for place in HOME)
    ]
    assert [path for path in uncovered if path != "profiles/x"] == []


@pytest.mark.proves("guard-roots-layout")
def test_the_table_and_the_documented_tree_of_the_home_name_the_same_entries(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "home.md").read_text(encoding="utf-8")
    tree = page.split("```")[1]
    folders: list[str] = []
    documented: set[str] = set()
    for line in tree.splitlines():
        found = re.match(r"( *)(\S+(?:, \S+)*)(?:\s{2,}|$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 2
        del folders[depth:]
        for name in found[2].split(", "):
            path = "/".join([*folders, re.sub(r"<[^>]*>", "x", name).rstrip("/")])
            documented.add(path)
        folders.append(re.sub(r"<[^>]*>", "x", found[2]).rstrip("/"))
    assert {"bin", "profiles/x/current"} <= documented
    holders = {
        path
        for path in documented
        if any(place.pattern.startswith(re.sub(r"\bx\b", "*", path) + "/") for place in HOME)
    }
    assert sorted(path for path in documented - holders if covering(path) is None) == []
    absent = [
        place.pattern
        for place in HOME
        if not any(fnmatch.fnmatchcase(part, place.pattern) for path in documented for part in prefixes(path))
    ]
    # The app's own policy, and what a PM that asks has left, are named where they are described.
    assert [name for name in absent if name.rpartition("/")[2] not in page] == []

"""The pure parts of the jail: what a profile asks for, other names of a path, what bwrap and sandbox-exec are told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.guard.probe import Machine
from perdure.guard.roots import Root
from perdure.jail import machine
from perdure.jail.bubblewrap import DROPPED, Means, Status, explain_failure, make_arguments, parse_status
from perdure.jail.machine import LinuxSystem, is_replaceable
from perdure.jail.mounts import Mount, other_names, parse_mounts
from perdure.jail.plan import Plan, make_plan
from perdure.jail.policy import Mode, Policy, PolicyUnfit, parse_policy
from perdure.jail.seatbelt import make_profile, quoted
from perdure.jail.service import Jail
from perdure.tools.confinement import Confinement
from perdure.tools.ways import meant_by

PLAN = Plan(
    pinned=("/srv", "/srv/u"),
    read_only=("/srv/u/perdure",),
    writable=("/srv/u/perdure/work",),
    hidden=("/srv/u/perdure/state",),
    emptied=("/srv/u/secret",),
    loose=("/srv/u/bin/python3",),
)


@pytest.mark.proves("jail-never-laxer")
@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (None, Policy()),
        ("require", Policy(mode=Mode.REQUIRE)),
        (False, Policy(mode=Mode.OFF)),
        ({"policy": "off"}, Policy(mode=Mode.OFF)),
        ({"outside": ["/usr/bin/sudo *"]}, Policy(outside=(("/usr/bin/sudo", "*"),))),
    ],
)
def test_a_policy_is_what_the_profile_says(section: object, expected: Policy) -> None:
    assert parse_policy(section, "app.yaml: jail") == expected


@pytest.mark.proves("jail-never-laxer")
@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("on", "app.yaml: jail must be off, prefer, require, not 'on'"),
        (True, "must be off, prefer, require, not True"),
        (["off"], r"must be off, prefer, require, not \['off'\]"),
        ({"polcy": "off"}, "jail.polcy is not known"),
        ({"policy": 1, "outside": "sudo"}, "jail.policy must be .*; .*jail.outside must be a list"),
        ({"outside": [1, "", "* x", "sudo a*", "'"]}, r"outside\[0\] .*\[1\] .*\[2\] .*\[3\] has 'a\*': .*\[4\] "),
    ],
)
def test_a_policy_that_is_none_names_every_fault(section: object, said: str) -> None:
    with pytest.raises(PolicyUnfit, match=said):
        parse_policy(section, "app.yaml: jail")


@pytest.mark.proves("jail-never-laxer")
@pytest.mark.parametrize(
    ("command", "script", "fits"),
    [
        (["sudo", "apt", "update"], None, True),
        (["sudo"], None, True),
        ([], "sudo apt  update", True),
        (["git", "push", "origin"], None, True),
        (["git", "push"], None, False),
        (["git", "push", "origin", "b"], None, False),
        (["sudox"], None, False),
        (["/tmp/sudo", "x"], None, False),
        ([], "sudo apt; rm -rf x", False),
        ([], "sudo $(x)", False),
        ([], "sudo x\nrm y", False),
        ([], "sudo 'x'", False),
        ([], "x=1 sudo y", False),
        ([], "", False),
    ],
)
def test_a_command_runs_outside_where_its_words_fit_a_template(
    command: list[str], script: str | None, *, fits: bool
) -> None:
    policy = parse_policy({"outside": ["sudo *", "git push origin"]}, "jail")
    assert (policy.template_for(command, script) is not None) is fits


MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 254:0 /srv/u /mnt/a\040b rw - ext4 /dev/vda rw
31 27 254:0 /srv/u/perdure/bin /opt/part rw - ext4 /dev/vda rw
32 27 0:40 / /mnt/tmp rw - tmpfs none rw
33 27 254:0 / /mnt/whole rw - ext4 /dev/vda rw
34 33 0:41 / /mnt/whole/srv rw - tmpfs none rw
nonsense
"""


@pytest.mark.proves("jail-holds-roots")
def test_a_path_is_found_under_each_name_that_a_mount_gives_it() -> None:
    mounts = parse_mounts(MOUNTINFO)
    assert [mount.place for mount in mounts][2] == "/mnt/a b"
    # /mnt/whole/srv is covered by another mount, so that nothing of ours is seen there.
    assert sorted(other_names("/srv/u/perdure", mounts)) == ["/mnt/a b/perdure", "/opt/part"]
    assert sorted(other_names("/opt/x", mounts)) == ["/mnt/whole/opt/x"]
    assert list(other_names("/mnt/tmp/x", mounts)) == []
    assert list(other_names("/x", ())) == []


@pytest.mark.proves("jail-holds-roots")
@pytest.mark.platforms("linux", "darwin")
def test_a_plan_holds_roots_with_what_they_are_behind(tmp_path: Path) -> None:
    home, real = tmp_path / "home", tmp_path / "real"
    for folder in ("state", "store/generations/1/venv", "cache", "mine", "bin"):
        (home / folder).mkdir(parents=True)
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").write_text("")
    roots = [
        Root(path=str(home / "store" / "generations" / "1"), why="x"),
        Root(path=str(home / "state"), why="x", secret=True),
        Root(path=str(tmp_path / "link"), why="x"),
        Root(path=str(tmp_path / "file"), why="x", secret=True),
        Root(path=str(tmp_path / "gone" / "pyvenv.cfg"), why="x"),
    ]
    place = Mount(device="1:1", root="/", place="/")
    plan = make_plan(roots, str(home), Machine(), [place, Mount(device="1:2", root="/", place=str(tmp_path.parent))])
    assert plan.read_only == (str(home), str(real))
    assert (plan.hidden, plan.emptied) == ((str(home / "state"),), (str(tmp_path / "file"),))
    assert plan.writable == (str(home / "mine"),)
    assert plan.loose == (str(tmp_path / "link"),)
    # A mount is there already: what it is on cannot be moved.
    assert str(tmp_path) in plan.pinned
    assert not {"/", str(tmp_path.parent)} & set(plan.pinned)


@pytest.mark.proves("jail-holds-roots")
def test_bwrap_is_told_everything_in_an_order_that_holds() -> None:
    means = Means(program="/usr/bin/bwrap", root=False, own_processes=True, devices=("/dev/sda",))
    assert make_arguments(PLAN, means, cwd="/w", status=7) == [
        *("/usr/bin/bwrap", "--dev-bind", "/", "/"),
        *("--dev-bind", "/srv", "/srv", "--dev-bind", "/srv/u", "/srv/u"),
        *("--ro-bind", "/srv/u/perdure", "/srv/u/perdure"),
        *("--bind", "/srv/u/perdure/work", "/srv/u/perdure/work"),
        *("--tmpfs", "/srv/u/perdure/state", "--remount-ro", "/srv/u/perdure/state"),
        *("--ro-bind", "/dev/null", "/srv/u/secret", "--ro-bind", "/dev/null", "/dev/sda"),
        *("--unshare-pid", "--proc", "/proc", "--die-with-parent"),
        *("--json-status-fd", "7", "--chdir", "/w", "--"),
    ]
    of_root = make_arguments(PLAN, Means(program="bwrap", root=True, own_processes=True), cwd="/", status=None)
    assert set(DROPPED) <= set(of_root)
    # Behind the new /proc: what is mounted before it would be covered.
    assert of_root.index("/proc/sys") > of_root.index("--proc")


@pytest.mark.proves("jail-cheap")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize(
    ("driver", "size", "hidden"), [(7, "0", False), (7, "8", True), (253, "0", True), (7, "", True)]
)
def test_a_device_with_nothing_behind_it_costs_no_mount(
    driver: int, size: str, hidden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "size").write_text(size)
    monkeypatch.setattr(machine, "_devices", lambda: [(str(tmp_path), os.makedev(driver, 200))])
    monkeypatch.setattr(machine, "_SIZE", f"{tmp_path}/size")
    assert LinuxSystem({}).devices() == ((str(tmp_path),) if hidden else ())


@pytest.mark.proves("exec-recorded")
def test_what_bwrap_says_tells_whether_the_command_was_started() -> None:
    assert parse_status(b"") == Status()
    assert parse_status(b'{ "child-pid": 7, "mnt-namespace": 1 }\n{ "exi') == Status(child=7)
    assert parse_status(b'{ "child-pid": 7 }\n{ "exit-code": 1 }\n') == Status(child=7, executed=True)
    assert parse_status(b'[1]\nx\n{"child-pid": "7"}\n') == Status()
    assert explain_failure("\nbwrap: Creating new namespace failed: Operation not permitted\n") == (
        "this process may not make namespaces, as in a container or in another jail "
        "(bwrap says: Creating new namespace failed: Operation not permitted)"
    )
    assert (explain_failure("bwrap: odd"), explain_failure("")) == ("bwrap says: odd", "bwrap says: it said nothing")


@pytest.mark.proves("jail-holds-roots")
def test_a_macs_profile_denies_what_harms_and_gives_back_what_is_others() -> None:
    assert make_profile(PLAN).splitlines() == [
        "(version 1)",
        "(allow default)",
        '(deny file-write-unlink (literal "/srv"))',
        '(deny file-write-unlink (literal "/srv/u"))',
        '(deny file-write* (subpath "/srv/u/perdure"))',
        '(allow file-write* (subpath "/srv/u/perdure/work"))',
        '(deny file-write* (literal "/srv/u/bin/python3"))',
        '(deny file-read* file-write* (subpath "/srv/u/perdure/state"))',
        '(deny file-read* file-write* (subpath "/srv/u/secret"))',
    ]


@pytest.mark.proves("jail-holds-roots")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/a b/it's", '"/a b/it\'s"'),
        ('/a "b"', '"/a \\"b\\""'),
        ("/a\\b", '"/a\\\\b"'),
        ('/a\\"', '"/a\\\\\\""'),
        ("/a\n)(allow default", '"/a\n)(allow default"'),
        ("/ü/(x)/#;'`", '"/ü/(x)/#;\'`"'),
    ],
)
def test_no_path_ends_the_string_that_it_stands_in(path: str, text: str) -> None:
    assert quoted(path) == text


def test_a_path_with_a_nul_is_none() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quoted("/a\0b")


class FakeSystem:
    """A machine that answers as it is told to."""

    def __init__(self, program: str | None, *, root: bool, tries: Sequence[str | None]) -> None:
        self._program, self._root, self._tries = program, root, list(tries)
        self.tried: list[Sequence[str]] = []

    def program(self) -> str | None:
        return self._program

    def is_root(self) -> bool:
        return self._root

    def distrusted(self) -> str | None:
        return None

    def may_mount(self) -> bool:
        return True

    def is_read_only(self, path: str) -> bool:
        return False

    def mounts(self) -> Sequence[Mount]:
        return ()

    def devices(self) -> tuple[str, ...]:
        return ()

    def try_out(self, command: Sequence[str]) -> str | None:
        self.tried.append(command)
        return self._tries[len(self.tried) - 1]


def jail(system: FakeSystem, platform: str = "linux") -> Jail:
    """Return the jail of a machine, without roots."""
    return Jail(roots=lambda: (), home="/nowhere", system=system, platform=platform)


@pytest.mark.proves("jail-told")
@pytest.mark.parametrize(
    ("system", "platform", "why"),
    [
        (FakeSystem(None, root=True, tries=[]), "linux", "bubblewrap (bwrap) is not installed"),
        (FakeSystem(None, root=False, tries=[]), "darwin", "there is no sandbox-exec"),
        (FakeSystem("x", root=False, tries=[]), "win32", "there is no jail for win32"),
        (FakeSystem("/b", root=True, tries=["no /proc"]), "linux", "no /proc"),
        (FakeSystem("/b", root=False, tries=["no /proc", "nor so"]), "linux", "no /proc"),
        (FakeSystem("/b", root=False, tries=["no /proc", None]), "linux", None),
        (FakeSystem("/b", root=True, tries=[None]), "linux", None),
        (FakeSystem("/s", root=False, tries=[None]), "darwin", None),
    ],
)
def test_a_jail_is_tried_once_and_says_why_there_is_none(system: FakeSystem, platform: str, why: str | None) -> None:
    found = jail(system, platform)
    assert [found.why_not(), found.layer().why_not] == [why, why]
    assert len(system.tried) == len(system._tries)
    if why is not None:
        with pytest.raises(ValueError, match="no jail"):
            found.arguments("/", None)


@pytest.mark.proves("jail-told")
@pytest.mark.platforms("linux")
def test_a_program_that_this_user_could_replace_is_named_and_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.touch(mode=0o755)
    monkeypatch.setattr(machine, "_PLACES", ())
    monkeypatch.setattr(machine, "is_replaceable", lambda path: True)
    found = Jail(roots=lambda: (), home="/nowhere", system=LinuxSystem({"PATH": str(tmp_path)}))
    assert found.why_not() == f"bubblewrap (bwrap) is not installed but for {program}, which this user could replace"


@pytest.mark.proves("jail-told", "jail-holds-roots")
def test_without_a_proc_of_its_own_a_user_is_jailed_all_the_same_and_root_is_not() -> None:
    found = jail(FakeSystem("/b", root=False, tries=["no /proc", None]))
    assert found.why_not() is None
    assert "--unshare-pid" not in found.arguments("/", None)


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> int:
    """Have this process act as a user who is not root, whose every file is below `tmp_path`, and return its number."""
    if os.geteuid() != 0:
        return os.geteuid()
    user = 65534
    access = os.access
    monkeypatch.setattr(os, "geteuid", lambda: user)

    def granted(path: str, mode: int) -> bool:
        if not access(path, mode) or mode != os.W_OK:
            return access(path, mode)
        found = os.stat(path)
        return bool(found.st_mode & (0o200 if found.st_uid == user else 0o002))

    monkeypatch.setattr(os, "access", granted)
    return user


def test_a_program_of_the_system_is_nobodys_to_replace(as_user: int) -> None:
    assert as_user
    assert not is_replaceable(os.path.realpath("/bin/sh"))
    assert not is_replaceable("/bin/sh")


@pytest.mark.proves("jail-never-laxer")
@pytest.mark.parametrize(
    "how", ["its file", "its directory", "a directory above", "a link to it", "a link on the way", "a link of a link"]
)
def test_what_a_user_could_have_put_there_is_replaceable_whatever_its_mode(
    how: str, as_user: int, tmp_path: Path
) -> None:
    """Who owns a file or a directory may give himself the right to write, so a mode without it says nothing."""
    mine, program = tmp_path / "mine", tmp_path / "above" / "in" / "program"
    for folder in (mine, program.parent):
        folder.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    (mine / "sh").symlink_to("/bin/sh")
    (mine / "bin").symlink_to("/bin")
    (tmp_path / "again").symlink_to(mine / "sh")
    named, own = {
        "its file": (program, program),
        "its directory": (program, program.parent),
        "a directory above": (program, program.parent.parent),
        "a link to it": (mine / "sh", mine),
        "a link on the way": (mine / "bin" / "sh", mine),
        "a link of a link": (tmp_path / "again", mine),
    }[how]
    if os.getuid() == 0:
        assert not is_replaceable(str(named))
        os.chown(own, as_user, -1)
    own.chmod(0o555)
    assert is_replaceable(str(named))
    own.chmod(0o755)


@pytest.mark.proves("jail-never-laxer")
def test_a_text_is_for_the_program_that_its_first_word_names(as_user: int, tmp_path: Path) -> None:
    """Else what an operator lists would run outside as whatever an earlier run has put there: the shell is nobody's."""
    own = tmp_path / "build"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    if os.getuid() == 0:
        os.chown(own, as_user, -1)
    confinement = Confinement(
        jail=jail(FakeSystem(None, root=False, tries=[])),
        policy=parse_policy({"outside": ["build *", f"{own} *", "./build *", "sh -c *"]}, "app.yaml: jail"),
    )

    def layer_of(*words: str, script: str | None = None) -> str | None:
        given = ("/bin/bash", "-c", script) if script is not None else words
        environment = {"PATH": f"{tmp_path}:/bin"}
        meant = meant_by(given, script, cwd=str(tmp_path), environment=environment)
        return confinement.layer_for(meant, () if script is not None else words, script).why_not

    for name in ("build", str(own), "./build"):
        told = {layer_of(name, "all"), layer_of(script=f"{name} all"), layer_of(script=f" {name}")}
        assert told == {"bubblewrap (bwrap) is not installed"}
    assert layer_of("sh", "-c", "true") == "the operator has 'sh -c *' run outside"
    assert layer_of(script="sh -c true") == "the operator has 'sh -c *' run outside"

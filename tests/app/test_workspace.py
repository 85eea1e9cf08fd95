"""The files of an agent: what may be done to which, by what name, and that what was decided is what is done."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.approvals.commands import judged
from perdure.approvals.decide import Circumstances, decide
from perdure.approvals.policy import Policy, parse_policy
from perdure.domain.decision import Decision
from perdure.domain.errors import FileChanged, FileNeedsApproval, FileRefused, ToolFailed
from perdure.domain.operation import Operation
from perdure.domain.workspace import CodeResult, Edit, Patch
from perdure.guard.files import find_path_fault
from perdure.guard.probe import Machine
from perdure.guard.roots import protected_roots
from perdure.guard.service import Guard, View
from perdure.tools.entries import hold
from perdure.tools.patching import EditUnfit, apply_edits, show_diff
from perdure.tools.workspace import LARGEST_WRITE, LocalWorkspace
from tests.app.approvals.made import authority
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.app.guard.test_roots import make_home
from tests.app.store.test_answering import Desk, Typing

pytestmark = pytest.mark.platforms("linux", "darwin")


def each(*acts: Callable[[], object]) -> tuple[Callable[[], object], ...]:
    """Return calls that are made one by one, whatever they return."""
    return acts


class Agent:
    """An agent in a directory of its own beside a home, with every operation that it had decided."""

    def __init__(self, folder: Path, policy: Policy, *, yolo: bool = False) -> None:
        self.home, self.user, self.work = folder / "home", folder / "user", folder / "user" / "work"
        self.work.mkdir(parents=True)
        origin, probe = make_home(self.home), Machine()
        self.venv = Path(origin.prefix)
        self.asked: list[Operation] = []
        self.before_acting: Callable[[], object] = lambda: None
        who = authority(answerable=False, yolo=yolo)

        def decided(operation: Operation, view: View) -> Decision:
            self.asked.append(operation)
            at = Circumstances(now=dt.datetime.now(dt.UTC))
            decision = decide(operation, judged(operation, view.reading, view.verdict), who, policy, at)
            self.before_acting()
            return decision

        guard = Guard(lambda: protected_roots(origin, probe), probe, homes=(str(self.user),))
        self.files = LocalWorkspace(
            cwd=str(self.work),
            guard=guard,
            decide=decided,
            start_code=lambda code, seconds: CodeResult(exit_code=0, stdout=code, stderr="", ended="exited"),
        )


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent that nobody answers for."""
    return Agent(tmp_path, Policy())


@pytest.fixture
def free(tmp_path: Path) -> Agent:
    """An agent that was let go without questions."""
    return Agent(tmp_path, Policy(), yolo=True)


@pytest.mark.proves("files-classified", "files-atomic")
def test_ordinary_files_below_the_work_are_read_written_patched_and_listed(agent: Agent) -> None:
    made = agent.files.write("deep/er/a.txt", "one\ntwo\nthree\n")
    path = agent.work / "deep" / "er" / "a.txt"
    assert (made.what, made.path) == ("created", str(path))
    assert made.diff.endswith("@@ -0,0 +1,3 @@\n+one\n+two\n+three\n")
    path.chmod(0o751)
    (change,) = agent.files.patch([Patch(path=str(path), edits=(Edit(old="two", new="2"),))])
    assert change.diff.endswith("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("one\n2\nthree\n", 0o751)
    shown = agent.files.read("deep/er/a.txt", first=2, lines=1)
    assert (shown.text, shown.first, shown.lines) == ("2\n", 2, 3)
    (path.parent / "link").symlink_to(path)
    assert [(entry.name, entry.kind, entry.size) for entry in agent.files.entries("deep/er")] == [
        ("a.txt", "file", 12),
        ("link", "link", 0),
    ]
    assert sorted(os.listdir(path.parent)) == ["a.txt", "link"]


@pytest.mark.proves("files-classified", "files-needs-decision")
def test_what_deletes_or_lies_elsewhere_needs_a_decision_and_what_harms_a_root_gets_none(agent: Agent) -> None:
    (agent.work / "a").write_text("a")
    for act in each(
        lambda: agent.files.delete("a"),
        lambda: agent.files.write("AGENTS.md", ""),
        lambda: agent.files.write(str(agent.user / ".ssh" / "config"), ""),
        lambda: agent.files.write(str(agent.user / ".bashrc"), ""),
        lambda: agent.files.read(str(agent.user / ".netrc")),
    ):
        with pytest.raises(FileNeedsApproval):
            act()
    assert (agent.work / "a").exists()
    assert agent.asked[0].paths == (str(agent.work / "a"),)


ROOTS = ["bin/python", "pyvenv.cfg", "lib/new.pth", "."]


@pytest.mark.proves("files-classified")
@pytest.mark.parametrize("inner", ROOTS)
def test_under_yolo_too_nothing_protected_is_written_moved_or_deleted(free: Agent, inner: str) -> None:
    path = os.path.join(str(free.venv), inner) if inner != "." else str(free.venv)
    for act in each(
        lambda: free.files.write(path, "x"),
        lambda: free.files.delete(path, below=True),
        lambda: free.files.move(path, "stolen"),
        lambda: free.files.move("mine", path),
        lambda: free.files.write(os.path.join(str(free.work), os.path.relpath(path, free.work)), "x"),
    ):
        (free.work / "mine").write_text("mine")
        with pytest.raises(FileRefused):
            act()
    assert (free.venv / "bin" / "python").is_symlink()
    assert (free.venv / "pyvenv.cfg").read_text().startswith("home = ")
    assert not (free.venv / "lib").exists()


@pytest.mark.proves("files-classified")
def test_what_holds_a_root_its_policy_and_its_state_are_out_of_reach_under_yolo(free: Agent) -> None:
    (free.home / "state").mkdir()
    (free.home / "state" / "approvals.db").write_text("x")
    os.link(free.home / "state" / "approvals.db", free.work / "alias")
    for act in each(
        lambda: free.files.delete(str(free.home), below=True),
        lambda: free.files.move(str(free.home), "home"),
        lambda: free.files.write(str(free.home / "profiles" / "default" / "app.yaml"), "approvals: {mode: off}"),
        lambda: free.files.read(str(free.home / "state" / "approvals.db")),
        lambda: free.files.entries(str(free.home / "state")),
        lambda: free.files.read("alias"),
        lambda: free.files.write(str(free.user / ".ssh" / "authorized_keys"), "key"),
    ):
        with pytest.raises(FileRefused):
            act()
    assert (free.home / "state" / "approvals.db").read_text() == "x"


@pytest.mark.proves("files-classified")
def test_a_link_elsewhere_that_leads_to_the_runtime_may_go_and_is_not_written_through(free: Agent) -> None:
    link, folder = free.work / "python", free.work / "env"
    link.symlink_to(free.venv / "bin" / "python")
    folder.symlink_to(free.venv)
    for act in each(
        lambda: free.files.write("python", "x"),
        lambda: free.files.write("env/pyvenv.cfg", "x"),
        lambda: free.files.delete("env/pyvenv.cfg"),
        lambda: free.files.delete("env/", below=True),
        lambda: free.files.patch([Patch(path="env/pyvenv.cfg", edits=(Edit(old="home", new="x"),))]),
    ):
        with pytest.raises(FileRefused):
            act()
    assert free.files.move("python", "renamed").what == "moved"
    assert free.files.delete("renamed").what == "deleted"
    assert free.files.delete("env").what == "deleted"
    assert (free.venv / "bin" / "python").is_symlink()
    assert (free.venv / "pyvenv.cfg").exists()


@pytest.mark.proves("files-classified")
def test_another_environment_is_the_agents_to_manage(free: Agent) -> None:
    other = free.work / ".venv" / "bin"
    other.mkdir(parents=True)
    (other / "python").symlink_to("/usr/bin/python3")
    assert free.files.write(".venv/pyvenv.cfg", "home = /usr/bin\n").what == "created"
    assert free.files.delete(".venv/bin/python").what == "deleted"
    assert free.files.delete(".venv", below=True).what == "deleted"


@pytest.mark.proves("files-classified", "files-needs-decision")
def test_instructions_for_agents_are_asked_about_under_yolo_too_also_through_a_link_and_once_for_a_patch(
    free: Agent,
) -> None:
    for name in ("AGENTS.md", "other.txt"):
        (free.work / name).write_text("old\n")
    (free.work / "notes.txt").symlink_to(free.work / "AGENTS.md")
    edits = (Edit(old="old", new="new"),)
    for act in each(
        lambda: free.files.write("AGENTS.md", "x"),
        lambda: free.files.write("notes.txt", "x"),
        lambda: free.files.write("sub/claude.md", "x"),
        lambda: free.files.patch([Patch(path="AGENTS.md", edits=edits), Patch(path="other.txt", edits=edits)]),
    ):
        with pytest.raises(FileNeedsApproval):
            act()
    assert len(free.asked) == 4
    assert [Path(path).name for path in free.asked[-1].paths] == ["AGENTS.md", "other.txt"]
    assert free.asked[-1].diff is not None
    assert free.asked[-1].diff.count("+new\n") == 2
    assert (free.work / "other.txt").read_text() == "old\n"


@pytest.mark.proves("files-needs-decision")
def test_a_file_of_ssh_is_written_where_the_session_asks_nothing_and_a_list_of_keys_never(free: Agent) -> None:
    assert free.files.write(str(free.user / ".ssh" / "config"), "Host x\n").what == "created"
    for name in ("authorized_keys", "authorized_keys2", "sub/../authorized_keys"):
        with pytest.raises(FileRefused):
            free.files.write(str(free.user / ".ssh" / name), "key")
    (free.work / "keys").symlink_to(free.user / ".ssh" / "authorized_keys")
    with pytest.raises(FileRefused):
        free.files.write("keys", "key")


@pytest.mark.proves("files-atomic")
def test_what_cannot_leave_its_directory_is_not_said_to_have_moved(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second name could be made, the first not taken away: a rename of one file to itself does nothing, in peace."""
    (agent.work / "locked").mkdir()
    (agent.work / "locked" / "a").write_text("a")

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        if path == "a":
            raise PermissionError(13, "Permission denied")
        unlink(path, dir_fd=dir_fd)

    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(ToolFailed, match="locked/a: Permission denied"):
        agent.files.move("locked/a", "b")
    assert sorted(os.listdir(agent.work)) == ["locked"]
    assert (agent.work / "locked" / "a").stat().st_nlink == 1


@pytest.mark.proves("files-atomic")
def test_new_contents_get_no_rights_of_the_owner_and_stay_the_owners(agent: Agent) -> None:
    path = agent.work / "program"
    path.write_text("old")
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    path.chmod(0o6750)
    before = path.stat()
    agent.files.write("program", "new")
    after = path.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert (path.read_text(), oct(stat.S_IMODE(after.st_mode))) == ("new", oct(0o750))


@pytest.mark.proves("files-atomic")
def test_another_group_gets_what_everybody_has_where_the_old_one_cannot_be_kept(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agent.work / "shared"
    path.write_text("old")
    path.chmod(0o664)
    found = os.fstat

    def refuse(handle: int, user: int, group: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    def elsewhere(handle: int) -> os.stat_result:
        whole = list(found(handle))
        whole[stat.ST_GID] += 1
        return os.stat_result(whole)

    monkeypatch.setattr(os, "fchown", refuse)
    old = path.stat()
    monkeypatch.setattr(os, "fstat", elsewhere)
    with hold(str(agent.work)) as folder:
        folder.replace("shared", b"new", old=old)
    monkeypatch.undo()
    assert oct(stat.S_IMODE(path.stat().st_mode)) == oct(0o644)


@pytest.mark.proves("files-needs-decision")
def test_nobody_is_asked_about_what_is_not_there(agent: Agent) -> None:
    for act in each(
        lambda: agent.files.delete("gone"),
        lambda: agent.files.move("gone", "AGENTS.md"),
    ):
        with pytest.raises(ToolFailed, match="gone: No such file") as raised:
            act()
        assert raised.value.code == "tool-failed"
    assert agent.asked == []
    with pytest.raises(FileRefused):
        agent.files.delete(str(agent.venv / "gone"))
    (agent.work / "file").write_text("")
    with pytest.raises(ToolFailed, match="file: it is no directory"):
        agent.files.entries("file")


@pytest.mark.proves("files-atomic")
def test_another_name_of_a_protected_file_is_replaced_and_not_written_through(free: Agent) -> None:
    module = free.venv / "lib" / "module.py"
    module.parent.mkdir()
    module.write_text("ours")
    os.link(module, free.work / "alias")
    assert free.files.write("alias", "mine").what == "written"
    assert (module.read_text(), (free.work / "alias").read_text()) == ("ours", "mine")
    # A root itself is known by its inode.
    os.link(free.venv / "pyvenv.cfg", free.work / "config")
    with pytest.raises(FileRefused):
        free.files.write("config", "mine")


@pytest.mark.proves("files-checked-again")
def test_what_changed_after_the_decision_is_left_alone(free: Agent) -> None:
    target, folder = free.work / "a", free.work / "folder"
    target.write_text("old")
    folder.mkdir()
    (folder / "b").write_text("old")
    config = free.venv / "pyvenv.cfg"
    before = config.read_text()

    def swap_file() -> None:
        target.unlink(missing_ok=True)
        target.symlink_to(config)

    def swap_folder() -> None:
        folder.rename(free.work / "away")
        folder.symlink_to(free.venv)

    free.before_acting = swap_file
    with pytest.raises(FileChanged):
        free.files.write("a", "new")
    target.unlink()
    target.write_text("old")
    free.before_acting = lambda: target.write_text("another")
    for act in each(
        lambda: free.files.write("a", "new"),
        lambda: free.files.delete("a"),
        lambda: free.files.move("a", "c"),
    ):
        with pytest.raises(FileChanged):
            act()
        target.write_text("old again")
    free.before_acting = lambda: (free.work / "fresh").write_text("somebody's")
    with pytest.raises(FileChanged):
        free.files.write("fresh", "new")
    free.before_acting = swap_folder
    with pytest.raises(FileChanged):
        free.files.write("folder/pyvenv.cfg", "new")
    assert (config.read_text(), (free.work / "fresh").read_text()) == (before, "somebody's")
    assert [name for name in os.listdir(free.work) if name.startswith(".")] == []


@pytest.mark.proves("files-edits-exact")
def test_a_patch_that_fits_one_file_and_not_the_other_changes_neither(agent: Agent) -> None:
    for name in ("a", "b"):
        (agent.work / name).write_text("same\n")
    fits, not_there = (Edit(old="same", new="x"),), (Edit(old="other", new="x"),)
    with pytest.raises(ToolFailed, match=r"b: edit 1: what it replaces is not in the file"):
        agent.files.patch([Patch(path="a", edits=fits), Patch(path="b", edits=not_there)])
    with pytest.raises(ToolFailed, match="is named twice"):
        agent.files.patch([Patch(path="a", edits=fits), Patch(path="./a", edits=fits)])
    assert (agent.work / "a").read_text() == "same\n"


@pytest.mark.proves("files-bounded")
def test_what_is_no_text_too_large_or_no_file_says_so(agent: Agent) -> None:
    (agent.work / "binary").write_bytes(b"a\0b")
    (agent.work / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(agent.work / "pipe")
    faults = {
        "binary": "is no text: it holds NUL bytes",
        "latin": "is not UTF-8: byte 3 is 0xe9",
        "pipe": "it is no file",
        ".": "(?i)is a directory",
        "gone": "No such file or directory",
    }
    for name, fault in faults.items():
        with pytest.raises(ToolFailed, match=fault):
            agent.files.read(name)
    with pytest.raises(ToolFailed, match="larger than"):
        agent.files.write("big", "x" * (LARGEST_WRITE + 1))
    with pytest.raises(ToolFailed, match="is not Unicode"):
        agent.files.write("odd", "\ud800")
    with pytest.raises(ToolFailed, match="holds a NUL"):
        agent.files.write("a\0b", "")
    (agent.work / "there").write_text("")
    with pytest.raises(ToolFailed, match="something is there already"):
        agent.files.move("latin", "there")
    assert sorted(os.listdir(agent.work)) == ["binary", "latin", "pipe", "there"]


@pytest.mark.proves("files-classified")
def test_a_policy_that_cannot_be_read_refuses_every_file(tmp_path: Path) -> None:
    agent = Agent(tmp_path, parse_policy({"deny": "not a list"}, "approvals"))
    (agent.work / "a").write_text("a")
    for act in (lambda: agent.files.read("a"), lambda: agent.files.write("b", "")):
        with pytest.raises(FileRefused, match="the policy could not be evaluated"):
            act()


NT_PATHS = [
    ("\\\\?\\C:\\app\\venv\\pyvenv.cfg", True, True),
    ("\\\\.\\C:\\app", True, True),
    ("//?/C:/app", True, True),
    ("\\??\\C:\\app", True, True),
    ("\\\\server\\share\\x", True, True),
    ("C:\\app\\pyvenv.cfg::$DATA", True, True),
    ("C:\\app\\pyvenv.cfg.", True, True),
    ("C:\\app\\venv \\x", True, True),
    ("C:\\PROGRA~1\\x", True, True),
    ("C:app", True, True),
    ("nul", True, False),
    ("sub/CON.txt", True, False),
    ("com¹", True, False),
    ("C:\\app\\..\\x.txt", False, True),
    ("a~b", False, False),
    ("notes.txt", False, False),
    ("", True, True),
    ("a\0", True, True),
]


@pytest.mark.proves("files-nt-names")
@pytest.mark.parametrize(("path", "on_windows", "elsewhere"), NT_PATHS)
def test_a_path_that_is_not_what_it_seems_is_refused_before_it_is_resolved(
    path: str, on_windows: bool, elsewhere: bool
) -> None:
    assert (find_path_fault(path, drives=True) is not None) is on_windows
    if path.startswith(("C:app", "C:\\app\\pyvenv.cfg.", "nul", "sub", "com")):
        return
    assert (find_path_fault(path, drives=False) is not None) is elsewhere


@pytest.mark.proves("files-edits-exact")
@pytest.mark.parametrize(
    ("text", "edit", "result"),
    [
        ("a b a", Edit(old="b", new="c"), "a c a"),
        ("a b a", Edit(old="a", new="c", every=True), "c b c"),
        ("a\r\nb\r\n", Edit(old="a\nb", new="x\ny"), "x\r\ny\r\n"),
        ("a\r\nb\n", Edit(old="b\n", new="x\n"), "a\r\nx\n"),
    ],
)
def test_an_edit_that_fits_is_made(text: str, edit: Edit, result: str) -> None:
    assert apply_edits(text, [edit]) == result


@pytest.mark.proves("files-edits-exact")
@pytest.mark.parametrize(
    ("text", "edit", "fault"),
    [
        ("a b a", Edit(old="a", new="c"), "what it replaces is there more than once; give more around it, or `every`"),
        ("  x\ny", Edit(old="x\nz", new=""), "what it replaces is not in the file; its first line is like line 1"),
        ("a", Edit(old="", new="c"), "there is no empty text to replace"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(text: str, edit: Edit, fault: str) -> None:
    with pytest.raises(EditUnfit) as caught:
        apply_edits(text, [edit])
    assert str(caught.value) == f"edit 1: {fault}"


@pytest.mark.proves("files-edits-exact")
@given(
    before=st.text("ab\n", max_size=12), old=st.text("ab\n", min_size=1, max_size=4), after=st.text("ab", max_size=12)
)
def test_an_edit_that_fits_changes_nothing_else(before: str, old: str, after: str) -> None:
    text = before + old + after
    if text.find(old, text.find(old) + 1) < 0:
        assert apply_edits(text, [Edit(old=old, new="NEW")]) == before + "NEW" + after


@pytest.mark.proves("files-bounded")
def test_a_diff_that_nobody_could_read_is_left_out() -> None:
    assert show_diff("", "x\n" * 30_000, "/a") is None
    assert show_diff("", "x" * 100_000, "/a") is None
    assert show_diff("a", "b\n", "/x") == "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"


@pytest.mark.proves("files-needs-decision", "files-classified")
def test_the_tools_for_files_work_in_the_current_directory_and_stop_at_what_is_protected(
    generation: Generation, tmp_path: Path
) -> None:
    def run(tool: str, **arguments: object) -> tuple[int, dict[str, Any]]:
        done = generation.run("run", "--json", tool, "--json-args", json.dumps(arguments))
        return done.returncode, envelope_of(done)

    path = str(tmp_path / "work" / "a.txt")
    assert run("files.write", path=path, text="one\n")[0] == 0
    code, answer = run("files.patch", changes=[{"path": path, "edits": [{"old": "one", "new": "two"}]}])
    assert (code, answer["data"]["data"][0]["what"], Path(path).read_text()) == (0, "written", "two\n")
    assert run("files.read", path=path)[1]["data"]["data"]["text"] == "two\n"
    assert run("files.list", path=str(tmp_path / "work"))[1]["data"]["data"][0]["name"] == "a.txt"
    code, answer = run("files.write", path=str(generation.venv / "pyvenv.cfg"), text="")
    assert (code, answer["errors"][0]["code"]) == (10, "file-refused")
    code, answer = run("files.delete", path=path)
    assert (code, answer["errors"][0]["code"]) == (10, "file-needs-approval")
    code, answer = run("code.run", code="print(1)")
    assert (code, answer["errors"][0]["code"]) == (10, "file-needs-approval")
    code, answer = run("code.run", code=f"import shutil; shutil.rmtree({str(generation.venv)!r})")
    assert (code, answer["errors"][0]["code"]) == (10, "file-refused")
    assert (generation.venv.is_dir(), Path(path).exists()) == (True, True)


@pytest.mark.proves("files-needs-decision", "approval-single-use")
@pytest.mark.parametrize(
    ("typed", "code", "says", "status", "execution"),
    [
        ("once\n", 0, "AGENTS.md: written", "approved", "executed"),
        ("decline not that\n", 10, "a person declined it: not that", "declined", "not-started"),
    ],
)
def test_the_person_at_the_terminal_sees_the_diff_and_answers_for_the_file(
    generation: Generation, tmp_path: Path, typed: str, code: int, says: str, status: str, execution: str
) -> None:
    desk = Desk(generation, tmp_path / "work")
    desk.work.mkdir()
    (desk.work / "AGENTS.md").write_text("be careful\n")
    person = Typing(desk, words=["run", "files.write", "--arg", "path=AGENTS.md", "--arg", "text=be quick"])
    person.wait_for(b"decline [reason]")
    person.type(typed)
    ended, shown = person.end()
    assert (ended, says in shown, "be quick" in shown) == (code, True, True), shown
    (kept,) = desk.kept()
    assert (kept["status"], kept["execution"]) == (status, execution), kept
    assert (desk.work / "AGENTS.md").read_text() == ("be quick" if code == 0 else "be careful\n")


@pytest.mark.proves("files-needs-decision", "approval-single-use")
@pytest.mark.parametrize("answer", ["approve", "decline"])
@pytest.mark.parametrize("tool", ["files.delete", "code.run"])
def test_a_tool_waits_for_an_answer_from_elsewhere_where_it_is_told_to(
    generation: Generation, tmp_path: Path, tool: str, answer: str
) -> None:
    desk = Desk(generation, tmp_path / "work")
    desk.work.mkdir()
    path = desk.work / "old.txt"
    path.write_text("old\n")
    arguments = {"path": str(path)} if tool == "files.delete" else {"code": f"import os; os.remove({str(path)!r})"}
    waiting = desk.ask(tool, words=("run", "--no-prompt", "--json", "--json-args", json.dumps(arguments)))
    desk.run(answer, desk.open())
    ended = desk.end(waiting)
    (kept,) = desk.kept()
    assert path.exists() == (answer == "decline")
    if answer == "approve":
        assert (ended["errors"], kept["status"], kept["execution"]) == ([], "approved", "executed")
    else:
        (error,) = ended["errors"]
        assert (error["code"], kept["status"]) == ("file-needs-approval", "declined")
        assert "a person declined it" in error["summary"]


@pytest.mark.proves("files-needs-decision", "guard-floor-stays")
def test_what_no_setting_lets_through_is_told_first_where_the_settings_cannot_be_read(
    generation: Generation, tmp_path: Path
) -> None:
    folder = generation.home / "profiles" / "default"
    folder.mkdir(parents=True)
    (folder / "app.yaml").write_text("approvals: [\n")

    def run(*words: str) -> dict[str, Any]:
        (error,) = envelope_of(generation.run(*words))["errors"]
        return dict(error)

    venv = str(generation.venv)
    code = json.dumps({"code": f"import shutil; shutil.rmtree({venv!r})"})
    assert run("exec", "--json", "--", "rm", "-rf", venv)["code"] == "command-refused"
    for words in (
        ("code.run", "--json-args", code),
        ("files.delete", "--arg", f"path={venv}"),
    ):
        error = run("run", "--json", *words)
        assert (error["code"], "could not be evaluated" in error["summary"]) == ("file-refused", False), error
    # Everything else is refused for the settings.
    assert "could not be evaluated" in run("exec", "--json", "--", "true")["summary"]
    error = run("run", "--json", "files.write", "--arg", f"path={tmp_path / 'a'}", "--arg", "text=a")
    assert "could not be evaluated" in error["summary"]
    assert generation.venv.is_dir()


@pytest.mark.proves("jail-holds-roots")
@pytest.mark.platforms("linux")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_code_that_a_person_let_run_harms_no_root_either(generation: Generation, tmp_path: Path) -> None:
    desk = Desk(generation, tmp_path / "work")
    desk.work.mkdir()
    (desk.work / "cut").write_text(str(generation.venv / "pyvenv.cfg"))
    code = json.dumps({"code": "import os; os.remove(open('cut').read())"})
    person = Typing(desk, words=["run", "code.run", "--json-args", code])
    person.wait_for(b"decline [reason]")
    person.type("once\n")
    _, shown = person.end()
    assert "Read-only file system" in shown
    assert (generation.venv / "pyvenv.cfg").is_file()


@pytest.mark.proves("files-checked-again", "recheck-stricter-blocks")
def test_a_file_that_becomes_a_link_while_a_person_thinks_is_left_alone(generation: Generation, tmp_path: Path) -> None:
    desk = Desk(generation, tmp_path / "work")
    desk.work.mkdir()
    (desk.work / "AGENTS.md").write_text("old\n")
    before = (generation.venv / "pyvenv.cfg").read_text()
    person = Typing(desk, words=["run", "files.write", "--arg", "path=AGENTS.md", "--arg", "text=new"])
    person.wait_for(b"decline [reason]")
    (desk.work / "AGENTS.md").unlink()
    (desk.work / "AGENTS.md").symlink_to(generation.venv / "pyvenv.cfg")
    person.type("once\n")
    ended, shown = person.end()
    assert (ended, (generation.venv / "pyvenv.cfg").read_text()) == (10, before), shown
    assert desk.kept()[0]["execution"] == "blocked"

"""The files that an agent's tools work with: decided about first, then acted on exactly as it was decided.

Owns: the order of it for each operation: the path as given, what the filesystem says of it, the decision, another
look, the act. Does not own: what an operation would do (guard.files), the decision (approvals), acting on an entry
(entries), edits (patching), starting code (terminal). Keeps: files-classified, files-checked-again, files-atomic,
files-bounded, files-needs-decision.

Nothing here is ever written in place: a file gets its contents as a new file under its name. So another name of a
protected file (a hard link) can be taken away, and what it names cannot be written through it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence

import anyio

from perdure.approvals.asking import Asker
from perdure.approvals.service import Asked
from perdure.domain.decision import Decision, Stage
from perdure.domain.errors import (
    ApprovalCancelled,
    ApprovalExpired,
    CommandDeclined,
    CommandNeedsApproval,
    FileChanged,
    FileNeedsApproval,
    FileRefused,
    PerdureError,
    StoreUnavailable,
    ToolFailed,
)
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Operation, OperationKind
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Ruling
from perdure.domain.workspace import Change, CodeResult, FileText, ListedFile, Patch
from perdure.guard.files import FileFacts, file_reading, find_path_fault
from perdure.guard.service import Guard, View
from perdure.tools.approved import Seen, claim
from perdure.tools.entries import Folder, hold, stamp
from perdure.tools.patching import EditUnfit, apply_edits, show_diff

LARGEST_READ = 16 << 20
LARGEST_WRITE = 4 << 20
MOST_LISTED = 2_000
LONGEST_CODE = 96 * 1024
_MOST_SECRETS = 4_096
_DRIVES = sys.platform == "win32"
_NO_APPROVAL = frozenset(
    kind.code for kind in (CommandNeedsApproval, CommandDeclined, ApprovalExpired, ApprovalCancelled)
)
"""What may come of asking that is no refusal by policy."""


@dataclass(frozen=True, slots=True)
class _Old:
    """A file as it was when it was looked at."""

    text: str | None
    """None where there is none."""
    status: os.stat_result | None


@dataclass(slots=True, kw_only=True)
class LocalWorkspace:
    """The files of this machine, as far as an agent gets at them."""

    cwd: str
    """Absolute."""
    guard: Guard
    decide: Callable[[Operation, View], Decision]
    start_code: Callable[[str, float], CodeResult]
    """Runs Python text by way of the terminal."""
    recheck: Callable[[Operation, View], Decision] | None = None
    """As `decide`, for what a person has approved, which uses nothing up; None where nothing is ever used up."""
    asker: Asker | None = None
    """What asks a person; None where nobody can be asked."""
    drives: bool = field(default=_DRIVES)

    def read(self, path: str, *, first: int = 1, lines: int = 2000) -> FileText:
        """Return lines of a text file.

        Raises:
            ToolFailed: it may not or cannot be read, or is no text.
        """
        facts = self._facts(path)
        asked = self._require(OperationKind.FILE_READ, [facts], by="files.read")
        with self._acting(asked):
            old = self._old(facts.real, may_miss=False)
        if old.status is not None and old.status.st_nlink > 1 and self._names_a_secret(old.status):
            raise FileRefused(f"{facts.entry} is another name of a file that is not to be read")
        found = (old.text or "").splitlines(keepends=True)
        shown = found[max(first, 1) - 1 : max(first, 1) - 1 + max(lines, 0)]
        return FileText(path=facts.real, text="".join(shown), first=max(first, 1), lines=len(found))

    def entries(self, path: str) -> list[ListedFile]:
        """Return what lies in a directory, by name.

        Raises:
            ToolFailed: it may not or cannot be looked at, or holds too much.
        """
        facts = self._facts(path)
        asked = self._require(OperationKind.FILE_READ, [facts], by="files.list")
        found: list[ListedFile] = []
        try:
            with self._acting(asked), os.scandir(facts.real) as there:
                for entry in there:
                    if len(found) == MOST_LISTED:
                        raise ToolFailed(f"{facts.real} holds more than {MOST_LISTED} entries")
                    found.append(_listed(entry))
        except NotADirectoryError as error:
            raise ToolFailed(f"{facts.real}: it is no directory", context={"path": facts.real}) from error
        except OSError as error:
            raise _failed(facts.entry, error) from error
        return sorted(found, key=lambda entry: entry.name)

    def write(self, path: str, text: str) -> Change:
        """Have a file hold exactly this text.

        Raises:
            ToolFailed: it may not or cannot be written; it is as it was.
        """
        facts = self._facts(path)
        old = self._old_if_allowed(OperationKind.FILE_WRITE, facts, by="files.write")
        diff = show_diff(old.text or "", text, facts.real)
        asked = self._require(OperationKind.FILE_WRITE, [facts], by="files.write", diff=diff)
        with self._acting(asked):
            return self._put(facts, old, text, diff)

    def patch(self, patches: Sequence[Patch]) -> list[Change]:
        """Have texts in files replaced: in all of them, or in none where one does not fit.

        Raises:
            ToolFailed: one of them may not or cannot be; where the disk fails in between, the text says which are done.
        """
        planned: list[tuple[FileFacts, _Old, str, str | None]] = []
        for each in patches:
            facts = self._facts(each.path)
            if any(facts.real == other.real for other, *_ in planned):
                raise ToolFailed(f"{facts.real} is named twice: put its edits together")
            old = self._old_if_allowed(OperationKind.FILE_PATCH, facts, by="files.patch", may_miss=False)
            try:
                new = apply_edits(old.text or "", each.edits)
            except EditUnfit as fault:
                raise ToolFailed(f"{facts.entry}: {fault}", context={"path": facts.entry}) from fault
            planned.append((facts, old, new, show_diff(old.text or "", new, facts.real)))
        diffs = [diff for *_, diff in planned]
        whole = None if None in diffs else "".join(diff or "" for diff in diffs)
        asked = self._require(OperationKind.FILE_PATCH, [facts for facts, *_ in planned], by="files.patch", diff=whole)
        done: list[Change] = []
        with self._acting(asked):
            for facts, old, new, diff in planned:
                try:
                    done.append(self._put(facts, old, new, diff))
                except ToolFailed as error:
                    if done:
                        error.summary += f"; written before that: {', '.join(change.path for change in done)}"
                    raise
        return done

    def move(self, source: str, target: str) -> Change:
        """Have a file, a link or a directory called something else; nothing is replaced.

        Raises:
            ToolFailed: it may not or cannot be moved; both are as they were.
        """
        facts, other = self._facts(source), self._facts(target, role="target")
        before = self._there(OperationKind.FILE_MOVE, [facts, other], by="files.move")
        asked = self._require(OperationKind.FILE_MOVE, [facts, other], by="files.move")
        try:
            with (
                self._acting(asked),
                _held(facts.entry) as (folder, name),
                _held(other.entry, make=True) as (into, new),
            ):
                _unchanged(facts.entry, folder.stat(name), before)
                folder.move(name, into, new)
        except OSError as error:
            raise _failed(facts.entry if error.errno != 17 else other.entry, error) from error
        return Change(path=other.entry, what="moved")

    def delete(self, path: str, *, below: bool = False) -> Change:
        """Have a file, a link or a directory gone; one that is not empty only with `below`.

        Raises:
            ToolFailed: it may not or cannot be.
        """
        facts = self._facts(path)
        before = self._there(OperationKind.FILE_DELETE, [facts], by="files.delete")
        asked = self._require(OperationKind.FILE_DELETE, [facts], by="files.delete")
        try:
            with self._acting(asked), _held(facts.entry) as (folder, name):
                _unchanged(facts.entry, folder.stat(name), before)
                folder.delete(name, below=below)
        except OSError as error:
            raise _failed(facts.entry, error) from error
        return Change(path=facts.entry, what="deleted")

    def run_python(self, code: str, *, seconds: float = 120.0) -> CodeResult:
        """Run code in an interpreter of its own, by way of the terminal.

        Raises:
            ToolFailed: it may not or cannot be run.
        """
        if len(code.encode(errors="replace")) > LONGEST_CODE:
            raise ToolFailed(f"the code is longer than {LONGEST_CODE} bytes: write it to a file and run that")
        if "\0" in code:
            raise ToolFailed("code cannot hold a NUL character")
        try:
            return self.start_code(code, seconds)
        except ToolFailed:
            raise
        except PerdureError as error:
            raise _not_approved(error) from error

    def _facts(self, path: str, *, role: str = "acts") -> FileFacts:
        # Before anything resolves it: what resolves may drop what makes the difference.
        if (fault := find_path_fault(path, drives=self.drives)) is not None:
            raise ToolFailed(f"{path!r} is no path to work with: {fault}", context={"path": path})
        whole = os.path.join(self.cwd, path)
        try:
            folder, name = os.path.split(whole.rstrip(os.sep) or os.sep)
            dots = name in {"", os.curdir, os.pardir}
            entry = os.path.realpath(whole) if dots else os.path.join(os.path.realpath(folder), name)
            # A slash at the end means what a link leads to.
            real = os.path.realpath(whole)
            entry = real if whole.endswith(os.sep) else entry
            return FileFacts(
                entry=entry,
                real=real,
                directory=os.path.isdir(entry) and not os.path.islink(entry),
                role=role,
            )
        except (OSError, ValueError) as error:
            raise ToolFailed(f"{path!r} is no path to work with: {error}", context={"path": path}) from error

    def _require(
        self,
        kind: OperationKind,
        facts: Sequence[FileFacts],
        *,
        by: str,
        diff: str | None = None,
    ) -> Asked | None:
        """Have it decided, and go on only where it is allowed or approved; return the approval, where there is one."""
        seen = self._look(kind, facts, by, diff, self.decide)
        decision = seen.decision
        if decision.ruling is Ruling.ALLOW:
            return None
        if decision.ruling is Ruling.ASK and self.asker is not None:
            return self._approved(self.asker, kind, facts, by, diff)
        raise _denied(decision, seen.operation, seen.view)

    def _look(
        self,
        kind: OperationKind,
        facts: Sequence[FileFacts],
        by: str,
        diff: str | None,
        decide: Callable[[Operation, View], Decision],
    ) -> Seen:
        """Return what would be done now, and what is decided of it now."""
        view = self.guard.look_at(file_reading(kind, facts, cwd=self.cwd, by=by))
        operation = Operation(kind=kind, paths=tuple(fact.entry for fact in facts), cwd=self.cwd, diff=diff)
        found = os.stat(self.cwd)
        decision = decide(operation, view)
        return Seen(operation=operation, decision=decision, view=view, place=(found.st_dev, found.st_ino))

    def _approved(
        self, asker: Asker, kind: OperationKind, facts: Sequence[FileFacts], by: str, diff: str | None
    ) -> Asked | None:
        """Return a person's approval, which is this call's alone; None where none is needed any more."""

        def look(decide: Callable[[Operation, View], Decision]) -> Seen:
            return self._look(kind, [self._facts(fact.entry, role=fact.role) for fact in facts], by, diff, decide)

        def again() -> Seen:
            return look(self.recheck or self.decide)

        run = secrets.token_urlsafe(12)
        try:
            asked, decision = anyio.run(
                functools.partial(claim, asker, lambda: look(self.decide), run, lambda asked: None, again=again)
            )
        except ToolFailed:
            raise
        except PerdureError as error:
            raise _not_approved(error) from error
        if asked is None and decision.ruling is not Ruling.ALLOW:
            seen = again()
            raise _denied(decision, seen.operation, seen.view)
        return asked

    @contextlib.contextmanager
    def _acting(self, asked: Asked | None) -> Iterator[None]:
        """Have an approval say what became of it: it was used where the act was done, and not where it failed."""
        approvals = None if self.asker is None else self.asker.approvals
        try:
            yield
        except BaseException as error:
            if asked is not None and approvals is not None:
                with contextlib.suppress(StoreUnavailable):
                    approvals.not_started(asked, str(error) or type(error).__name__)
            raise
        if asked is not None and approvals is not None:
            with contextlib.suppress(StoreUnavailable):
                approvals.executed(asked, os.getpid())

    def _old_if_allowed(self, kind: OperationKind, facts: FileFacts, *, by: str, may_miss: bool = True) -> _Old:
        """Return what a file holds, unless the floor refuses the operation whatever that is."""
        self._stop_at_floor(kind, [facts], by)
        return self._old(facts.real, may_miss=may_miss)

    def _there(self, kind: OperationKind, facts: Sequence[FileFacts], *, by: str) -> os.stat_result:
        """Return what the first of the entries is, unless the floor refuses the operation; nobody is asked about none.

        Raises:
            ToolFailed: there is none.
        """
        if (found := _status(facts[0].entry)) is not None:
            return found
        self._stop_at_floor(kind, facts, by)
        raise _failed(facts[0].entry, FileNotFoundError(2, os.strerror(2)))

    def _stop_at_floor(self, kind: OperationKind, facts: Sequence[FileFacts], by: str) -> None:
        """Refuse what the floor refuses before anything is told of the files."""
        view = self.guard.look_at(file_reading(kind, facts, cwd=self.cwd, by=by))
        if view.verdict.floor and view.verdict.ruling is Ruling.REFUSE:
            self._require(kind, facts, by=by)

    def _old(self, path: str, *, may_miss: bool) -> _Old:
        try:
            with _held(path) as (folder, name):
                data, status = folder.read(name, LARGEST_READ)
        except FileNotFoundError as error:
            if may_miss:
                return _Old(None, None)
            raise _failed(path, error) from error
        except OSError as error:
            raise _failed(path, error) from error
        if len(data) > LARGEST_READ:
            raise ToolFailed(f"{path} is larger than {LARGEST_READ} bytes", context={"path": path})
        return _Old(_text(path, data), status)

    def _put(self, facts: FileFacts, old: _Old, text: str, diff: str | None) -> Change:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise ToolFailed(f"the text for {facts.entry} is not Unicode: {error.reason}") from error
        if len(data) > LARGEST_WRITE:
            raise ToolFailed(f"the text for {facts.entry} is larger than {LARGEST_WRITE} bytes")
        try:
            with _held(facts.real, make=old.status is None) as (folder, name):
                folder.replace(name, data, old=old.status)
        except FileExistsError as error:
            raise FileChanged(f"{facts.real} was left alone: {error.strerror}", context={"path": facts.real}) from error
        except OSError as error:
            raise _failed(facts.real, error) from error
        return Change(path=facts.real, what="created" if old.status is None else "written", diff=diff or "")

    def _names_a_secret(self, found: os.stat_result) -> bool:
        """Return whether a file with several names has one among what is not to be read; too many to tell is yes."""
        seen = 0
        for root in self.guard.secrets():
            for folder, _, names in os.walk(root):
                for name in names:
                    seen += 1
                    status = _status(os.path.join(folder, name))
                    if seen > _MOST_SECRETS or (
                        status is not None and (status.st_dev, status.st_ino) == (found.st_dev, found.st_ino)
                    ):
                        return True
        return False


class _held:  # noqa: N801  # a block, as `open` is one
    """The directory of an entry, held open, and the entry's name."""

    def __init__(self, path: str, *, make: bool = False) -> None:
        folder, self._name = os.path.split(path)
        self._block = hold(folder, make=make)

    def __enter__(self) -> tuple[Folder, str]:
        if not self._name:
            raise IsADirectoryError(21, "it is the root of everything")
        return self._block.__enter__(), self._name

    def __exit__(self, *raised: object) -> None:
        self._block.__exit__(*raised)  # type: ignore[arg-type]  # what a block gets is passed on


def _listed(entry: os.DirEntry[str]) -> ListedFile:
    if entry.is_symlink():
        kind = "link"
    elif entry.is_dir(follow_symlinks=False):
        kind = "directory"
    else:
        kind = "file" if entry.is_file(follow_symlinks=False) else "other"
    size = entry.stat(follow_symlinks=False).st_size if kind == "file" else 0
    return ListedFile(name=entry.name, kind=kind, size=size)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _unchanged(path: str, now: os.stat_result | None, before: os.stat_result) -> None:
    if stamp(now) != stamp(before):
        raise FileChanged(f"{path} was left alone: it was changed meanwhile", context={"path": path})


def _text(path: str, data: bytes) -> str:
    if b"\0" in data[: 64 * 1024]:
        raise ToolFailed(f"{path} is no text: it holds NUL bytes", context={"path": path})
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path} is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from error


def _denied(decision: Decision, operation: Operation, view: View) -> ToolFailed:
    why = "; ".join(dict.fromkeys(reason.text for reason in decision.reasons[:3]))
    context: dict[str, JsonValue] = {
        "paths": list[JsonValue](operation.paths),
        "verdict": view.verdict.to_json(),
        "decision": decision.to_json(),
    }
    if decision.ruling is Ruling.REFUSE and decision.stage is not Stage.AUTHORITY:
        return FileRefused(f"nothing was done: {why}", context=context)
    return FileNeedsApproval(
        f"nothing was done: it needs a person's approval, and nobody can be asked here: {why}", context=context
    )


def _not_approved(error: PerdureError) -> ToolFailed:
    """Return what came of asking in the words of a tool; the context has the outcome as it was recorded."""
    kind = FileNeedsApproval if error.code in _NO_APPROVAL else FileRefused
    summary = error.summary.replace("the command was not run", "nothing was done")
    return (kind if error.exit_code == FileRefused.exit_code else ToolFailed)(
        summary, hint=error.hint, context=error.context, retry=error.retry
    )


def _failed(path: str, error: OSError) -> ToolFailed:
    links = {40, 62, 20}  # ELOOP of Linux and macOS, ENOTDIR
    if error.errno in links and not isinstance(error, FileNotFoundError):
        return FileChanged(f"{path} was left alone: a link or a file is on the way to it", context={"path": path})
    if error.errno == 18:
        return ToolFailed(f"{path} cannot be moved to another disk: write it there, then delete it here")
    return ToolFailed(f"{path}: {error.strerror or error}", context={"path": path})

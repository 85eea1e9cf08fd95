"""The errors of the app, each with a stable code, an exit code and a way out.

Owns: the classes, their exit codes and their JSON form. Does not own: wording of a particular fault (whoever raises
it knows the path and the name) or rendering (cli). `docs/reference/errors.md` is generated from this module.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from perdure.domain.json_value import JsonValue

Retry = Literal["never", "later", "after-change"]

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FOUND = 3
EXIT_REFUSED = 10
EXIT_INTERNAL = 70
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    EXIT_DONE: "done",
    EXIT_FAILED: "failed",
    EXIT_USAGE: "usage: the command line, or a tool's arguments, are wrong; of `guard explain` and `approvals test`: "
    "asked about",
    EXIT_FOUND: "doctor, `plugins --check` or `guard corpus` found something; of `guard explain` and"
    " `approvals test`: refused",
    EXIT_REFUSED: "a command or a change of a file was refused, or needs an approval that nobody can give here",
    EXIT_INTERNAL: "internal error",
    EXIT_NOT_EXECUTABLE: "`exec`: the program cannot be started",
    EXIT_NOT_FOUND: "`exec`: there is no such program",
    EXIT_INTERRUPTED: "interrupted (SIGINT)",
}


class PerdureError(Exception):
    """A broken expectation that a person can act on.

    Class attributes are the defaults of the kind; an instance says what happened here.
    """

    code: ClassVar[str] = "internal"
    """Stable kebab-case name of the kind, unique among all classes."""
    exit_code: ClassVar[int] = EXIT_INTERNAL
    """The process's exit code when this ends a command."""
    meaning: ClassVar[str] = "A defect in Perdure itself."
    """When this is raised, in one sentence, for the reference page."""
    default_retry: ClassVar[Retry] = "never"
    """Whether the same call can succeed: not at all, later, or after something was changed."""

    def __init__(
        self,
        summary: str,
        *,
        hint: str | None = None,
        context: Mapping[str, JsonValue] | None = None,
        retry: Retry | None = None,
    ) -> None:
        """Say what happened.

        Args:
            summary: one sentence: what, and where.
            hint: what to do, with a command that works in the present state.
            context: JSON values that name the place (paths, plugin names, sizes in bytes).
            retry: overrides the kind's default.
        """
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.context: dict[str, JsonValue] = dict(context or {})
        self.retry: Retry = retry or self.default_retry

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that stands in ``errors`` of the JSON envelope."""
        return {
            "code": self.code,
            "summary": self.summary,
            "context": self.context,
            "hint": self.hint,
            "retry": self.retry,
        }


class UsageFault(PerdureError):
    """The command line is wrong."""

    code = "usage"
    exit_code = EXIT_USAGE
    meaning = "The command line asks for something that does not exist or does not go together."
    default_retry = "after-change"


class VerdictUsageFault(UsageFault):
    """The command line of a command whose exit code is a verdict is wrong."""

    code = "verdict-usage"
    exit_code = EXIT_FAILED
    meaning = (
        "The command line of `guard explain` or `approvals test` is wrong; 2 and 3 are verdicts there, so this is 1."
    )


class BootMissing(PerdureError):
    """The generation this process runs from does not say which plugins it holds."""

    code = "boot-missing"
    exit_code = EXIT_FAILED
    meaning = "The app runs from a generation whose boot.json is gone."
    default_retry = "after-change"


class BootInvalid(PerdureError):
    """boot.json is not what pm wrote."""

    code = "boot-invalid"
    exit_code = EXIT_FAILED
    meaning = "boot.json cannot be read, or is not a document of a schema that this version knows."
    default_retry = "after-change"


class ToolUnknown(PerdureError):
    """No loaded plugin offers the tool."""

    code = "tool-unknown"
    exit_code = EXIT_USAGE
    meaning = "No plugin that is loaded offers a tool of that name."
    default_retry = "after-change"


class ArgumentsInvalid(PerdureError):
    """The arguments do not fit the tool's schema."""

    code = "arguments-invalid"
    exit_code = EXIT_USAGE
    meaning = "A tool's arguments do not fit its JSON Schema; every fault is listed with its place."
    default_retry = "after-change"


class ToolFailed(PerdureError):
    """The tool did its work and has to say that what was asked cannot be done.

    The one error that plugins raise, through `perdure.api`: its summary, hint and context reach the user as they are.
    """

    code = "tool-failed"
    exit_code = EXIT_FAILED
    meaning = "A tool could not do what was asked, and said why."
    default_retry: ClassVar[Retry] = "after-change"


class FileRefused(ToolFailed):
    """The guard refuses what a tool would do to a file."""

    code = "file-refused"
    exit_code = EXIT_REFUSED
    meaning = (
        "The guard's floor, or a rule of the operator, refuses what a tool would do to a file; nothing was changed."
    )
    default_retry = "never"


class FileNeedsApproval(ToolFailed):
    """What a tool would do to a file needs a person's approval, and nobody can be asked."""

    code = "file-needs-approval"
    exit_code = EXIT_REFUSED
    meaning = (
        "What a tool would do to a file needs a person's approval, and nobody can be asked here; nothing was changed."
    )
    default_retry = "after-change"


class FileChanged(ToolFailed):
    """A file is not what was decided about."""

    code = "file-changed"
    exit_code = EXIT_FAILED
    meaning = "A file changed, or became a link, between the decision about it and acting on it; it was left alone."
    default_retry = "later"


class ToolBroken(PerdureError):
    """The tool itself is defective."""

    code = "tool-broken"
    exit_code = EXIT_FAILED
    meaning = "A tool raised an unexpected exception, returned something that is no result, or has an invalid schema."
    default_retry = "after-change"


class PmMissing(PerdureError):
    """There is no PM to hand over to."""

    code = "pm-missing"
    exit_code = EXIT_FAILED
    meaning = "`perdure pm` was asked for, and the home has no PM launcher, or it cannot be started."
    default_retry = "after-change"


class InstallationDamaged(PerdureError):
    """A module that a command needs cannot be imported."""

    code = "installation-damaged"
    exit_code = EXIT_FAILED
    meaning = "A module of this generation is missing or damaged; `PERDURE_DEBUG=1` shows where it was needed."
    default_retry = "after-change"


class CommandRefused(PerdureError):
    """The guard refuses a command."""

    code = "command-refused"
    exit_code = EXIT_REFUSED
    meaning = "The guard's floor refuses the command; nothing was started, and no setting or approval lifts it."
    default_retry = "never"


class CommandDenied(PerdureError):
    """The operator's policy refuses a command."""

    code = "command-denied"
    exit_code = EXIT_REFUSED
    meaning = "The policy of the profile refuses the command, or cannot be evaluated; nothing was started."
    default_retry = "never"


class CommandNeedsApproval(PerdureError):
    """A command needs a person's approval, and nobody can be asked."""

    code = "command-needs-approval"
    exit_code = EXIT_REFUSED
    meaning = "The command needs a person's approval, and nobody can be asked where it was given; nothing was started."
    default_retry = "after-change"


class CommandDeclined(PerdureError):
    """A person said no."""

    code = "command-declined"
    exit_code = EXIT_REFUSED
    meaning = "A person was asked and declined; nothing was started."
    default_retry = "never"


class ApprovalExpired(PerdureError):
    """Nobody answered in time."""

    code = "approval-expired"
    exit_code = EXIT_REFUSED
    meaning = "Nobody answered in time; silence is not consent, and nothing was started."
    default_retry = "later"


class ApprovalCancelled(PerdureError):
    """The question was withdrawn before anybody answered it."""

    code = "approval-cancelled"
    exit_code = EXIT_REFUSED
    meaning = "The question was withdrawn, for the cause that it names; nobody said no, and nothing was started."
    default_retry = "later"


class CommandBlocked(PerdureError):
    """A command was approved, and is not any more what was approved."""

    code = "command-blocked"
    exit_code = EXIT_REFUSED
    meaning = "A command was approved, but it or its policy changed before it was started; nothing was started."
    default_retry = "later"


class StoreUnavailable(PerdureError):
    """Approvals cannot be kept."""

    code = "approval-store-unavailable"
    exit_code = EXIT_REFUSED
    meaning = "The file of the approvals cannot be opened, read or written; what needs an approval is refused."
    default_retry: ClassVar[Retry] = "later"


class StoreBusy(StoreUnavailable):
    """Another process keeps the approvals to itself."""

    code = "approval-store-busy"
    meaning = "Another process holds the file of the approvals; what needs an approval is refused."


class StoreDamaged(StoreUnavailable):
    """The approvals cannot be trusted."""

    code = "approval-store-damaged"
    meaning = "The file of the approvals, or a proposal in it, is not what was written; nothing of it is used."
    default_retry = "after-change"


class StoreNewer(StoreUnavailable):
    """A later version has written the approvals."""

    code = "approval-store-newer"
    meaning = "The file of the approvals is of a schema that only a later version of Perdure knows; it is left alone."
    default_retry = "after-change"


class ProposalUnknown(PerdureError):
    """There is no such proposal."""

    code = "proposal-unknown"
    exit_code = EXIT_USAGE
    meaning = "There is no proposal with that id in this profile; nothing was changed."
    default_retry = "after-change"


class ProposalSettled(PerdureError):
    """Somebody or something was faster."""

    code = "proposal-settled"
    exit_code = EXIT_FAILED
    meaning = "The proposal is answered, expired or cancelled already; this answer resolves nothing."
    default_retry = "never"


class AnswerNotAllowed(PerdureError):
    """Whoever answers may not."""

    code = "answer-not-allowed"
    exit_code = EXIT_REFUSED
    meaning = "This session, this person or this process may not answer that proposal; nothing was changed."
    default_retry = "never"


class RefusedInsideRun(PerdureError):
    """A run asks for something that only the person who answers for it may do."""

    code = "refused-inside-run"
    exit_code = EXIT_REFUSED
    meaning = "What a run has started wants to grant, answer or skip something: that is for the person outside."
    default_retry = "never"


class OriginUnproven(PerdureError):
    """It cannot be told whether a run asks for something that only the person who answers for it may do."""

    code = "origin-unproven"
    exit_code = EXIT_REFUSED
    meaning = "Whether a run has started this cannot be told, so that it grants, answers and skips nothing."
    default_retry = "after-change"


class GrantInvalid(PerdureError):
    """Something cannot be granted so."""

    code = "grant-invalid"
    exit_code = EXIT_USAGE
    meaning = "A grant covers nothing, or a class of things that is never granted for always."
    default_retry = "after-change"


class GrantUnknown(PerdureError):
    """There is no such grant."""

    code = "grant-unknown"
    exit_code = EXIT_USAGE
    meaning = "No grant that stands has this id, and no line of `command_allowlist` is this."
    default_retry = "after-change"


class GrantNotKept(PerdureError):
    """A grant cannot be written, or taken out of where it is written."""

    code = "grant-not-kept"
    exit_code = EXIT_FAILED
    meaning = "The profile's app.yaml, or the store of grants, cannot be written; what stands there is as it was."
    default_retry = "after-change"


class CommandNotFound(PerdureError):
    """There is no such program."""

    code = "command-not-found"
    exit_code = EXIT_NOT_FOUND
    meaning = "The guard let the command through, and there is no such program on the PATH that commands get."
    default_retry = "after-change"


class CommandNotExecutable(PerdureError):
    """The program cannot be started."""

    code = "command-not-executable"
    exit_code = EXIT_NOT_EXECUTABLE
    meaning = "The guard let the command through, and the system cannot start it, or not in that directory."
    default_retry = "after-change"


class BackendUnknown(PerdureError):
    """There is no such backend."""

    code = "backend-unknown"
    exit_code = EXIT_USAGE
    meaning = "No backend has that name, or what app.yaml says of backends cannot be used; nothing was started."
    default_retry = "after-change"


class BackendFailed(PerdureError):
    """A backend cannot say how a command gets there."""

    code = "backend-failed"
    exit_code = EXIT_NOT_EXECUTABLE
    meaning = "A backend, which a plugin may provide, does not say how a command is started there; nothing was started."
    default_retry = "after-change"


class JailUnavailable(PerdureError):
    """A command has to be jailed, and cannot be."""

    code = "jail-unavailable"
    exit_code = EXIT_REFUSED
    meaning = "The profile or the caller requires the jail, and there is none here or it failed; nothing was started."
    default_retry = "after-change"


class SettingsInvalid(PerdureError):
    """What a person set in the profile's app.yaml cannot be followed."""

    code = "settings-invalid"
    exit_code = EXIT_REFUSED
    meaning = "The profile's app.yaml cannot be read or says something that is not known; nothing runs by half of it."
    default_retry = "after-change"


class RunRecordLost(PerdureError):
    """A run cannot be recorded."""

    code = "run-record-lost"
    exit_code = EXIT_FAILED
    meaning = "The record of a run cannot be written; a command that was not started before is not started."
    default_retry = "later"


class CorpusInvalid(PerdureError):
    """A corpus of command lines cannot be read."""

    code = "corpus-invalid"
    exit_code = EXIT_FAILED
    meaning = (
        "A file of command lines for the guard cannot be read or is not of the documented form; every fault is listed."
    )
    default_retry = "after-change"


class Interrupted(PerdureError):
    """The person at the keyboard stopped the command."""

    code = "interrupted"
    exit_code = EXIT_INTERRUPTED
    meaning = "The command was interrupted (SIGINT)."
    default_retry = "later"


class InternalFault(PerdureError):
    """What the entry point's catch-all turns an unexpected exception into."""


def error_classes() -> dict[str, type[PerdureError]]:
    """Return every error class by its code (`InternalFault` stands for ``internal``)."""
    found: dict[str, type[PerdureError]] = {}
    pending = list(PerdureError.__subclasses__())
    while pending:
        kind = pending.pop()
        found[kind.code] = kind
        pending.extend(kind.__subclasses__())
    return dict(sorted(found.items()))

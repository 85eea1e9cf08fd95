"""The errors of PM, each with a stable code, an exit code and a way out.

Owns: the classes, their exit codes, and their form on the wire. Does not own: wording of a particular fault (whoever
raises it knows the path and the name) or rendering (cli). `docs/reference/errors.md` is generated from this module.

Standard library only, Python 3.9: bootstrap raises these before PM's runtime exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FOUND_WORK = 3
EXIT_CONFLICT = 4
EXIT_UNHEALTHY = 5
EXIT_MISSING_OFFLINE = 6
EXIT_BUSY = 7
EXIT_INTEGRITY = 8
EXIT_NO_SPACE = 9
EXIT_REFUSED = 10
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

EXIT_CODES: dict[int, str] = {
    EXIT_DONE: "done, or nothing to do",
    EXIT_FAILED: "failed",
    EXIT_USAGE: "usage: the command line or a configuration file is wrong",
    EXIT_FOUND_WORK: "a check found work",
    EXIT_CONFLICT: "a conflict was refused; nothing changed",
    EXIT_UNHEALTHY: "the health check failed; the old generation is kept",
    EXIT_MISSING_OFFLINE: "an artefact is missing offline",
    EXIT_BUSY: "another operation holds the mutex",
    EXIT_INTEGRITY: "contents are not what their hash says",
    EXIT_NO_SPACE: "no space left",
    EXIT_REFUSED: "refused by policy: lazy installs off, consent missing, another user's home, or one that Nix manages",
    EXIT_INTERNAL: "internal error",
    EXIT_INTERRUPTED: "interrupted (SIGINT)",
    EXIT_TERMINATED: "terminated (SIGTERM)",
}


class PerdureError(Exception):
    """A broken expectation that a person can act on.

    Class attributes are the defaults of the kind; an instance says what happened here.

    Attributes:
        code: stable kebab-case name of the kind, unique among all classes.
        exit_code: the process's exit code when this ends a command.
        retry: ``never``, ``later`` or ``after-change``: whether the same call can succeed.
        state: ``unchanged``, ``rolled-back`` or ``needs-recovery``: what the installation is in now.
        meaning: one sentence for the reference page: when this is raised.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = EXIT_INTERNAL
    meaning: ClassVar[str] = "A defect in PM itself."
    default_retry: ClassVar[str] = "never"
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        summary: str,
        *,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
        retry: str | None = None,
        state: str = "unchanged",
    ) -> None:
        """Say what happened.

        Args:
            summary: one sentence: what, and where.
            hint: what to do, with a command that works in the present state.
            context: JSON values that name the place (paths, package names, sizes in bytes).
            retry: overrides the kind's default.
            state: see the class.
        """
        super().__init__(summary)
        self.summary = summary
        self.hint = hint if hint is not None else self.default_hint
        self.context: dict[str, object] = dict(context or {})
        self.retry = retry or self.default_retry
        self.state = state

    def to_json(self) -> dict[str, object]:
        """Return the object that stands in ``errors`` of the JSON envelope and in a worker's ``result`` frame."""
        return {
            "code": self.code,
            "summary": self.summary,
            "context": self.context,
            "hint": self.hint,
            "retry": self.retry,
            "state": self.state,
        }


class UsageFault(PerdureError):
    code = "usage"
    exit_code = EXIT_USAGE
    meaning = "The command line asks for something that does not exist or does not go together."
    default_retry = "after-change"


class ConfigInvalid(PerdureError):
    code = "config-invalid"
    exit_code = EXIT_USAGE
    meaning = "A configuration file does not say what it must; every fault is listed with its place."
    default_retry = "after-change"


class HomeUnusable(PerdureError):
    code = "home-unusable"
    exit_code = EXIT_FAILED
    meaning = "The home, or a path in it, cannot be written, or is not a directory."
    default_retry = "after-change"


class HomeForeign(PerdureError):
    code = "home-foreign"
    exit_code = EXIT_REFUSED
    meaning = "root was asked to write into another user's home, which would leave files that user cannot change."
    default_retry = "after-change"


class NoKernelLocks(PerdureError):
    code = "no-kernel-locks"
    exit_code = EXIT_FAILED
    meaning = "The home's filesystem has no working kernel locks, without which two operations could corrupt it."
    default_retry = "after-change"


class Busy(PerdureError):
    code = "busy"
    exit_code = EXIT_BUSY
    meaning = "Another operation holds the mutex."
    default_retry = "later"


class NetworkUnreachable(PerdureError):
    code = "network-unreachable"
    exit_code = EXIT_FAILED
    meaning = "An index or a download could not be reached."
    default_retry = "later"


class ArtefactMissing(PerdureError):
    code = "artefact-missing"
    exit_code = EXIT_MISSING_OFFLINE
    meaning = "Something that is needed is in neither the cache nor the wheelhouse, and the network is not to be used."
    default_retry = "after-change"


class IntegrityFault(PerdureError):
    code = "integrity"
    exit_code = EXIT_INTEGRITY
    meaning = "Bytes are not what their recorded hash or size says."
    default_retry = "after-change"


class NoSpace(PerdureError):
    code = "no-space"
    exit_code = EXIT_NO_SPACE
    meaning = "The filesystem has too little space."
    default_retry = "after-change"


class LazyInstallRefused(PerdureError):
    code = "lazy-install-refused"
    exit_code = EXIT_REFUSED
    meaning = "An install that no person asked for was needed, and lazy installs are off."
    default_retry = "after-change"


class RescuesExhausted(PerdureError):
    code = "rescues-exhausted"
    exit_code = EXIT_INTEGRITY
    meaning = "PM's runtime cannot run, and three rebuilds that nobody asked for failed; the next waits for a person."
    default_retry = "after-change"


class ConsentMissing(PerdureError):
    code = "consent-missing"
    exit_code = EXIT_REFUSED
    meaning = "A step needs a person's yes, and there is no terminal to ask on and no --yes."
    default_retry = "after-change"


class ConflictRefused(PerdureError):
    code = "conflict"
    exit_code = EXIT_CONFLICT
    meaning = "Plugins do not fit the host's lock, or each other; nothing was built and nothing changed."
    default_retry = "after-change"


class PluginUnfit(PerdureError):
    code = "plugin-unfit"
    exit_code = EXIT_CONFLICT
    meaning = "A plugin that was asked for cannot run on this interpreter; one that is there already would sit out."
    default_retry = "after-change"


class OperationVetoed(PerdureError):
    code = "operation-vetoed"
    exit_code = EXIT_REFUSED
    meaning = "The caller's before_publish callback refused the plan."
    default_retry = "after-change"


class BuildFailed(PerdureError):
    code = "build-failed"
    exit_code = EXIT_FAILED
    meaning = "uv could not build or install an environment; its own text is in the context."
    default_retry = "after-change"


class BuildRefused(BuildFailed):
    code = "build-refused"
    exit_code = EXIT_REFUSED
    meaning = "A distribution has no wheel, and the policy does not allow that its source is built: that runs its code."


class DirectUrlRefused(PerdureError):
    code = "direct-url-refused"
    exit_code = EXIT_REFUSED
    meaning = "A plugin requires something from an address instead of an index, which nobody accepted by name."
    default_retry = "after-change"


class QuarantineRefused(PerdureError):
    code = "quarantine-refused"
    exit_code = EXIT_REFUSED
    meaning = "What would be installed was uploaded within the quarantine, and nothing older fits."
    default_retry = "after-change"


class HealthCheckFailed(PerdureError):
    code = "health-check-failed"
    exit_code = EXIT_UNHEALTHY
    meaning = "The new environment was built, but the host does not start in it."
    default_retry = "after-change"


class NothingInstalled(PerdureError):
    code = "nothing-installed"
    exit_code = EXIT_FAILED
    meaning = "No generation has been published in this home."
    default_retry = "after-change"


class InterpreterMissing(PerdureError):
    code = "interpreter-missing"
    exit_code = EXIT_FAILED
    meaning = "No usable Python interpreter could be found or brought in."
    default_retry = "after-change"


class PlatformUnsupported(PerdureError):
    code = "platform-unsupported"
    exit_code = EXIT_FAILED
    meaning = "The lock holds no artefact for this machine."


class WorkerTransportFault(PerdureError):
    code = "worker-transport"
    exit_code = EXIT_FAILED
    meaning = "The worker ended, or broke the protocol, before it gave a result. Nothing was published after that."
    default_retry = "later"


class ProtocolMismatch(PerdureError):
    code = "protocol-mismatch"
    exit_code = EXIT_FAILED
    meaning = "Client and worker speak different versions of the protocol; both versions are named."


class DeadlineExceeded(PerdureError):
    code = "deadline-exceeded"
    exit_code = EXIT_FAILED
    meaning = "The operation, or a silence of the worker, lasted longer than allowed; the whole process tree was ended."
    default_retry = "later"


class OperationCancelled(PerdureError):
    code = "cancelled"
    exit_code = EXIT_INTERRUPTED
    meaning = "The operation was cancelled before its commit; nothing was published."
    default_retry = "later"


class ReceiptMismatch(PerdureError):
    code = "receipt-mismatch"
    exit_code = EXIT_FAILED
    meaning = "A result or a receipt carries another operation's id."


class ConfigChanged(PerdureError):
    code = "config-changed"
    exit_code = EXIT_BUSY
    meaning = "A configuration file was changed between reading and writing it; the other change was kept."
    default_retry = "later"


class ConsentDeclined(PerdureError):
    code = "consent-declined"
    exit_code = EXIT_REFUSED
    meaning = "A person was asked and said no."


class RegistrationInvalid(PerdureError):
    code = "registration-invalid"
    exit_code = EXIT_USAGE
    meaning = "A custom package registration is not plain data of the documented form; the field is named."
    default_retry = "after-change"


class ManifestInvalid(PerdureError):
    code = "manifest-invalid"
    exit_code = EXIT_USAGE
    meaning = "A plugin's plugin.yaml does not say what it must; every fault is listed with its place."
    default_retry = "after-change"


class SourceUnusable(PerdureError):
    code = "source-unusable"
    exit_code = EXIT_USAGE
    meaning = "A plugin's directory, file or repository is not there, is no plugin, or holds what no copy can hold."
    default_retry = "after-change"


class ManagedElsewhere(PerdureError):
    code = "managed-elsewhere"
    exit_code = EXIT_REFUSED
    meaning = "A package manager of the system installed this PM, and changes it; PM does not."


class InternalFault(PerdureError):
    """What an entry point's catch-all turns an unexpected exception into."""


def error_classes() -> dict[str, type[PerdureError]]:
    """Return every error class by its code (the base class stands for ``internal``)."""
    found: dict[str, type[PerdureError]] = {"internal": InternalFault}
    pending = list(PerdureError.__subclasses__())
    while pending:
        kind = pending.pop()
        found[kind.code] = kind
        pending.extend(kind.__subclasses__())
    return found


def error_from_json(data: Mapping[str, object]) -> PerdureError:
    """Return the error that ``to_json`` described, of the same class where the code is known."""
    kind = error_classes().get(str(data.get("code")), InternalFault)
    hint, context, retry = data.get("hint"), data.get("context"), data.get("retry")
    return kind(
        str(data.get("summary", "")),
        hint=hint if isinstance(hint, str) else None,
        context=context if isinstance(context, dict) else None,
        retry=retry if isinstance(retry, str) else None,
        state=str(data.get("state", "unchanged")),
    )

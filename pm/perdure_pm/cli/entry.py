"""The whole command line: its verbs, and the one place where whatever ends a run becomes an exit code.

Owns: the root of the verbs, JSON for failures of parsing too, signals, and the catch-all. Does not own: any verb.
Keeps: cli-exit-codes, cli-one-object.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

import click

from perdure_pm import __version__
from perdure_pm.adapters.processes import keep_owner_bits
from perdure_pm.adapters.streams import open_descriptors
from perdure_pm.cli.options import Group, Told
from perdure_pm.cli.render import Answer, write_answer, write_error
from perdure_pm.cli.session import PROGRAM, Session
from perdure_pm.model.errors import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    InternalFault,
    OperationCancelled,
    PerdureError,
    UsageFault,
)
from perdure_pm.model.settings import TRUE_WORDS

COMPLETION_VARIABLE = "_PERDURE_PM_COMPLETE"


class Terminated(BaseException):
    """SIGTERM arrived outside an operation that could be cancelled."""


VERBS: dict[str, str] = {
    "status": "looking:status",
    "install": "install:install",
    "plan": "install:plan",
    "upgrade": "install:upgrade",
    "plugin": "plugins:plugin",
    "host": "host:host",
    "doctor": "mending:doctor",
    "verify": "mending:verify",
    "repair": "mending:repair",
    "rollback": "generations:rollback",
    "confirm": "generations:confirm",
    "history": "generations:history",
    "diff": "generations:diff",
    "pin": "generations:pin",
    "label": "generations:label",
    "collect": "generations:collect",
    "run": "environment:run",
    "env": "environment:env",
    "config": "configuration:config",
    "receipts": "looking:receipts",
    "self": "own:own",
    "python": "interpreters:python",
    "path": "environment:path",
    "uninstall": "uninstall:uninstall",
    "stage": "carrying:stage",
    "wheelhouse": "carrying:wheelhouse",
    "completions": "completions:completions",
    "start-on-trial": "trial_start:start_on_trial",
}
"""Each verb by name, and the module and function it is in: one run imports the one it is asked for."""


class Root(Group):
    """The group of all verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of that name, imported now where it was not yet."""
        if cmd_name in VERBS and cmd_name not in self.commands:
            module, _, function = VERBS[cmd_name].partition(":")
            self.add_command(getattr(importlib.import_module(f"perdure_pm.cli.{module}"), function), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that was asked for; where there is none, every verb is there to be suggested."""
        if args and args[0] not in VERBS:
            for name in VERBS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


@click.group(cls=Root, kind="building", full_help=True, name=PROGRAM)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, option, wanted: _tell_version(context, wanted),
    help="Show the version and exit.",
)
def root() -> None:
    """Install an application with its plugins, keep it running, and repair it."""


@root.command("version", answers_managed=True)
def version() -> NoReturn:
    """Show the version of PM."""
    raise _version()


@root.command("help", add_help_option=False, answers_managed=True)
@click.argument("verb", nargs=-1)
@click.pass_context
def show_help(context: click.Context, verb: tuple[str, ...]) -> NoReturn:
    """Show what a verb does and which options it takes."""
    parent = context.find_root()
    for word in verb:
        child = parent.command.get_command(parent, word) if isinstance(parent.command, click.Group) else None
        if child is None:
            raise click.UsageError(f"No such command {word!r}.", parent)
        parent = click.Context(child, info_name=word, parent=parent)
    text = parent.get_help()
    raise Told(text, {"help": text})


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    _open_streams()
    keep_owner_bits()
    words = list(sys.argv[1:] if arguments is None else arguments)
    session = Session(os.environ, json=wants_json(words, os.environ))
    before = _terminate_by_exception()
    try:
        return _run(session, words)
    except Told as told:
        return write_answer(session, Answer(data=told.data, text=told.text))
    except click.exceptions.NoArgsIsHelpError as error:
        return write_error(session, _usage_fault(error, "a verb is missing"))
    except click.UsageError as error:
        return write_error(session, _usage_fault(error, error.format_message()))
    except OperationCancelled as error:
        ended = error.context.get("cause") == "SIGTERM"
        return write_error(session, error, EXIT_TERMINATED if ended else EXIT_INTERRUPTED)
    except PerdureError as error:
        return write_error(session, error)
    except (KeyboardInterrupt, click.Abort):
        return write_error(session, OperationCancelled("interrupted"), EXIT_INTERRUPTED)
    except Terminated:
        return write_error(session, OperationCancelled("terminated"), EXIT_TERMINATED)
    except Exception as error:  # noqa: BLE001 - the one catch-all of this entry point
        return write_error(session, _directory_fault(error) or _internal_fault(error, session.environ))
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def wants_json(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether JSON is asked for, as far as it can be seen where the words cannot be parsed."""
    after_run = False
    for word in words:
        if word == "--" or (after_run and not word.startswith("-")):
            break
        if word == "--json":
            return True
        after_run = after_run or word == "run"
    return environ.get("PERDURE_JSON", "").strip().lower() in TRUE_WORDS


def _run(session: Session, words: list[str]) -> int:
    answer = root.main(words, prog_name=PROGRAM, standalone_mode=False, obj=session, complete_var=COMPLETION_VARIABLE)
    return write_answer(session, answer) if isinstance(answer, Answer) else int(answer or 0)


def _directory_fault(error: Exception) -> PerdureError | None:
    """Return what to say where the directory that this was called in is gone, and a relative path meant one in it."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return None
    try:
        os.getcwd()
    except OSError:
        return UsageFault(
            "the directory that this was called in is gone, and a path that counts from it was given",
            hint="change into one that is there, or write the path from / on; then run the same command again",
        )
    return None


def _tell_version(context: click.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        raise _version()


def _version() -> Told:
    return Told(f"{PROGRAM} {__version__}", {"version": __version__})


def _usage_fault(error: click.UsageError, summary: str) -> UsageFault:
    path = error.ctx.command_path if error.ctx is not None else PROGRAM
    return UsageFault(summary.rstrip("."), hint=f"{path} --help")


def _internal_fault(error: Exception, environ: Mapping[str, str]) -> InternalFault:
    debug = environ.get("PERDURE_DEBUG", "").strip().lower() in TRUE_WORDS
    if debug:
        import traceback

        traceback.print_exc()
    hint = None if debug else "run the same command with PERDURE_DEBUG=1 to see where"
    return InternalFault(f"internal error: {type(error).__name__}: {error}", hint=hint)


def _open_streams() -> None:
    """Have descriptors 0 to 2 open, and paths come out as they are."""
    open_descriptors()
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        utf_8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.reconfigure(errors="surrogateescape" if utf_8 else "backslashreplace")


def _terminate_by_exception() -> signal.Handlers | None:
    def end(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    try:
        return signal.signal(signal.SIGTERM, end)  # type: ignore[return-value]
    except ValueError:
        return None  # not the main thread: somebody else's process, whose signals are theirs

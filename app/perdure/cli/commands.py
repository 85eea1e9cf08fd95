"""The commands of the app, except doctor.

Owns: options, and what each command says about what it got. Does not own: loading, running or rendering streams.
Keeps: app-start-is-lean: what only one command needs (starting PM takes `subprocess`, 8 ms) is imported by it.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar, Unpack

import click

from perdure import __version__
from perdure.cli.options import AllowOptions, ExecuteOptions, RunOptions, TestOptions
from perdure.cli.output import Answer, columns, printable
from perdure.cli.session import Session
from perdure.domain.errors import EXIT_FOUND, EXIT_USAGE, ToolUnknown, UsageFault
from perdure.domain.json_value import JsonValue
from perdure.domain.tool import Tool
from perdure.domain.workspace import Workspace
from perdure.tools.arguments import parse_arguments, read_document
from perdure.tools.dispatch import run_tool

_Function = TypeVar("_Function", bound=Callable[..., object])


class _Group(click.Group):
    """Notes which command was asked for before its options are read, so that usage errors can name it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        outer = ctx.command_path.split()[1:]
        ctx.ensure_object(Session).command = " ".join([*outer, name or ""]).strip() or "perdure"
        return name, command, rest


def _json_option(function: _Function) -> _Function:
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_choose_json,
        help="Answer with one JSON object on stdout, also on failure.",
    )(function)


def _choose_json(ctx: click.Context, _parameter: click.Parameter, chosen: bool) -> None:
    # Never back to False: `perdure --json doctor` must survive the command's own, absent flag.
    if chosen:
        ctx.ensure_object(Session).output.as_json = True


_context_option = click.option(
    "--context",
    type=click.Choice(["cli", "cron", "single-query", "webhook", "api"]),
    default="cli",
    show_default=True,
    help="What it runs for: where nobody can answer, the profile's `approvals.unattended` says what happens.",
)


def _asking_options(function: _Function) -> _Function:
    """Return a command with the options that say who is asked, where a person must decide."""
    for option in (
        click.option(
            "--session", "session_name", metavar="NAME", help="The session that it belongs to; a new one unless told."
        ),
        click.option(
            "--answer-within",
            type=click.FloatRange(min=0.1, max=604_800),
            help="Seconds that a question stays open (300).",
        ),
        click.option(
            "--no-prompt", is_flag=True, help="Where a person must decide, wait for an answer from elsewhere."
        ),
    ):
        function = option(function)
    return function


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option(
    "--safe-mode", is_flag=True, help="Load no plugin but those of the app itself; PERDURE_SAFE_MODE=1 does the same."
)
@_json_option
@click.pass_context
def perdure(ctx: click.Context, version: bool, safe_mode: bool) -> Answer | None:
    """Tools for people and agents, kept alive by Perdure's own package manager."""
    session = ctx.ensure_object(Session)
    session.safe_mode = session.safe_mode or safe_mode
    if version:
        session.output.answer("version", Answer(data={"version": __version__}, text=f"perdure {__version__}"))
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        if session.output.as_json:
            raise UsageFault("a command is missing", hint=session.installation.app_command("--help"))
        session.output.talk(ctx.get_help())
        ctx.exit(EXIT_USAGE)
    return None


@perdure.command()
@_json_option
@click.pass_obj
def doctor(session: Session) -> Answer:
    """Report what this process runs from, which plugins it loaded, and what is wrong."""
    from perdure.cli.doctor import diagnose

    return diagnose(session)


@perdure.command()
@click.option("--check", is_flag=True, help="Exit 3 when a plugin failed; pm asks so before it selects a generation.")
@_json_option
@click.pass_obj
def plugins(session: Session, check: bool) -> Answer:
    """Show what is loaded in this process, with load times and failures."""
    boot = session.load_boot()
    manager = session.load(boot)
    offered = manager.tools()
    listed: list[JsonValue] = []
    rows = [("plugin", "version", "from", "load", "tools")]
    for state in manager.states:
        source = state.source
        tools: list[JsonValue] = [name for name, tool in offered.items() if tool.plugin == source.name]
        origin = "built in" if source.builtin else source.distribution
        listed.append(
            {
                "name": source.name,
                "distribution": source.distribution,
                "version": source.version,
                "entry": source.entry,
                "builtin": source.builtin,
                "loaded": state.loaded,
                "load_ms": round(state.load_seconds * 1000, 3),
                "hooks": list(state.hooks),
                "tools": tools,
            }
        )
        load = f"{state.load_seconds * 1000:7.1f} ms" if state.loaded else "failed"
        rows.append((source.name, source.version, origin, load, ", ".join(map(str, tools))))
    external: list[JsonValue] = [] if boot is None else [name for name in boot.external if isinstance(name, str)]
    rows += [(str(name), "", "a program of its own", "", "") for name in external]
    lines = columns(rows)
    if manager.failures:
        lines += ["", "failures:", *(f"  {failure}" for failure in manager.failures)]
    generation = session.installation.host().generation
    if session.safe_mode:
        session.output.talk("Safe mode: only built-in plugins are loaded.")
    elif generation is None:
        session.output.talk("This process was not started from a generation: only built-in plugins are loaded.")
    return Answer(
        data={
            "generation": generation,
            "safe_mode": session.safe_mode,
            "plugins": listed,
            "external": external,
            "failures": [failure.to_json() for failure in manager.failures],
        },
        text=printable("\n".join(lines)),
        exit_code=EXIT_FOUND if check and manager.failures else 0,
    )


@perdure.command()
@_json_option
@click.pass_obj
def tools(session: Session) -> Answer:
    """List the tools that plugins offer, with their arguments."""
    manager = session.load_with_tools(session.load_boot())
    listed: list[JsonValue] = []
    rows = [("tool", "arguments", "summary")]
    for offered in manager.tools().values():
        tool = offered.tool
        listed.append(
            {
                "name": tool.name,
                "plugin": offered.plugin,
                "summary": tool.summary,
                "read_only": tool.read_only,
                "parameters": dict(tool.parameters),
            }
        )
        rows.append((tool.name, " ".join(_argument_names(tool)), tool.summary))
    return Answer(
        data={"tools": listed, "failures": [failure.to_json() for failure in manager.failures]},
        text=printable("\n".join(columns(rows))),
    )


def _argument_names(tool: Tool) -> list[str]:
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    needed = required if isinstance(required, list | tuple) else ()
    names = properties if isinstance(properties, dict) else {}
    return [name if name in needed else f"[{name}]" for name in names]


@perdure.command()
@click.argument("tool")
@click.option("--arg", "pairs", metavar="NAME=VALUE", multiple=True, help="One argument; may be repeated.")
@click.option("--json-args", "document", metavar="JSON", help="Arguments as a JSON object; - reads it.")
@_asking_options
@_json_option
@click.pass_obj
def run(session: Session, tool: str, **options: Unpack[RunOptions]) -> Answer:
    """Run TOOL and print its result."""
    boot = session.load_boot()
    manager = session.load_with_tools(boot)
    offered = manager.tools().get(tool)
    if offered is None:
        hint = session.installation.app_command("tools")
        raise ToolUnknown(f"no loaded plugin offers a tool {tool!r}", hint=hint, context={"tool": tool})
    arguments = parse_arguments(options["pairs"], read_document(options["document"]), offered.tool.parameters)
    known = len(manager.failures)

    def open_workspace() -> Workspace:
        from perdure.cli.workspace import make_workspace

        return make_workspace(session, options)

    try:
        with session.programs(boot):
            result = run_tool(offered, arguments, open_workspace)
    finally:
        for failure in manager.failures[known:]:
            session.output.warn(str(failure))
    return Answer(
        data={"tool": tool, "plugin": offered.plugin, "text": result.text, "data": result.data},
        text=session.output.shown(result.text),
    )


@perdure.command("exec", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--script", type=click.Path(dir_okay=False, allow_dash=True), help="Run the text of a file; - reads it.")
@click.option(
    "--shell",
    type=click.Choice(["bash", "sh", "powershell", "pwsh", "cmd"]),
    default="bash",
    show_default=True,
    help="What runs a text.",
)
@click.option("--cwd", type=click.Path(file_okay=False), help="Run it there.")
@click.option("--seconds", type=click.FloatRange(min=0.1, max=86_400), help="How long it may take (120).")
@click.option("--most-output", type=click.IntRange(min=1_024), help="Bytes kept of each stream (262144).")
@click.option("--backend", help="Run it there: a name under `backends` in app.yaml, or one of a plugin.")
@click.option("--jail", type=click.Choice(["require", "prefer", "off"]), help="No laxer than the profile's policy.")
@click.option("--yolo", is_flag=True, help="Ask about nothing but what the floor and the ask rules ask about.")
@_context_option
@_asking_options
@_json_option
@click.pass_obj
def execute(session: Session, **options: Unpack[ExecuteOptions]) -> Answer:
    """Run COMMAND the way an agent's terminal does, if the guard lets it through.

    Several words are a program and its arguments; one word is a text for the shell. The exit code is the command's
    own, 124 where its time was over, 10 where it was not run.
    """
    from perdure.cli.execute import execute as run_it

    return run_it(session, options)


@perdure.group(cls=_Group)
def guard() -> None:
    """What a command would do, and what the guard says of it."""


@guard.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--shell", default="bash", show_default=True, help="bash, sh, powershell, pwsh or cmd.")
@click.option("--cwd", type=click.Path(file_okay=False), help="The directory that it would run in.")
@_json_option
@click.pass_obj
def explain(session: Session, command: tuple[str, ...], shell: str, cwd: str | None) -> Answer:
    """Show the effects of COMMAND, the roots that they meet and the verdict. Nothing is run.

    Several words are a program and its arguments; one word is a text for the shell. Exit code: 0 allow, 2 ask, 3
    refuse.
    """
    from perdure.cli.guard import explain as explain_it

    return explain_it(session, command, shell, cwd)


@guard.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--wrap", is_flag=True, help="Also check that no wrapper which changes nothing weakens a verdict.")
@click.option("--shell", "shells", multiple=True, help="Only lines for this shell; may be repeated.")
@_json_option
def corpus(file: str, wrap: bool, shells: tuple[str, ...]) -> Answer:
    """Check a corpus of command lines (YAML, gzip too): exit code 3 where the floor says something else."""
    from perdure.cli.guard import check_corpus

    return check_corpus(file, shells, wrap=wrap)


@guard.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--shell", default="bash", show_default=True, help="bash, sh, powershell, pwsh or cmd.")
@click.option("--cwd", type=click.Path(file_okay=False), help="The directory that they would run in.")
@click.option("--field", type=click.IntRange(min=1), help="The tab-separated field that holds the command.")
@click.option("--asks", is_flag=True, help="Also list what the floor asks about.")
@_json_option
@click.pass_obj
def scan(session: Session, file: str, shell: str, cwd: str | None, field: int | None, asks: bool) -> Answer:
    """Judge a file with one command a line (gzip too): shares of allow, ask and refuse, and every refusal."""
    from perdure.cli.guard import scan as scan_it

    return scan_it(session, file, shell, cwd, field=field, asks=asks)


@guard.command()
@_json_option
@click.pass_obj
def roots(session: Session) -> Answer:
    """List what is protected, and why."""
    from perdure.cli.guard import list_roots, make_guard
    from perdure.cli.jailing import layers_here

    return list_roots(session, layers_here(session, make_guard(session.installation))[0])


@perdure.group(cls=_Group)
def approvals() -> None:
    """What needs a person's answer, and what would be decided."""


@approvals.command("test", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--shell", default="bash", show_default=True, help="bash, sh, powershell, cmd, …")
@click.option("--cwd", type=click.Path(file_okay=False), help="The directory that it would run in.")
@click.option("--backend", help="Where it would run: a name under `backends` in app.yaml, or one of a plugin.")
@click.option("--yolo", is_flag=True, help="As for a session that was started without questions.")
@_context_option
@_json_option
@click.pass_obj
def test_decision(session: Session, **options: Unpack[TestOptions]) -> Answer:
    """Show what would be decided of COMMAND, stage by stage. Nothing is run, asked or kept.

    Several words are a program and its arguments; one word is a text for the shell. Exit code: 0 allow, 2 ask, 3
    refuse.
    """
    from perdure.cli.dry_run import show_decision

    return show_decision(session, options)


@approvals.command("list")
@click.option("--all", "everything", is_flag=True, help="Also what is answered, expired or cancelled.")
@click.option("--most", type=click.IntRange(min=1), default=1_000, show_default=True, help="The last ones.")
@_json_option
@click.pass_obj
def list_proposals(session: Session, everything: bool, most: int) -> Answer:
    """List what waits for a person's answer."""
    from perdure.cli.proposals import list_entries

    return list_entries(session, everything=everything, most=most)


@approvals.command("show")
@click.argument("proposal", metavar="ID")
@_json_option
@click.pass_obj
def show_proposal(session: Session, proposal: str) -> Answer:
    """Show what the proposal ID asks for, why, and what has become of it."""
    from perdure.cli.proposals import show

    return show(session, proposal)


@approvals.command("approve")
@click.argument("proposal", metavar="ID")
@click.argument("scope", type=click.Choice(["once", "session", "always"]), default="once")
@_json_option
@click.pass_obj
def approve_proposal(session: Session, proposal: str, scope: str) -> Answer:
    """Approve the proposal ID: once, for its session, or always. Exit code 3 where nobody waits for it any more."""
    from perdure.cli.proposals import approve

    return approve(session, proposal, scope)


@approvals.command("decline", context_settings={"ignore_unknown_options": True})
@click.argument("proposal", metavar="ID")
@click.argument("reason", nargs=-1)
@_json_option
@click.pass_obj
def decline_proposal(session: Session, proposal: str, reason: tuple[str, ...]) -> Answer:
    """Decline the proposal ID; REASON is told to whoever asked."""
    from perdure.cli.proposals import decline

    return decline(session, proposal, " ".join(reason))


@approvals.command("watch")
@_json_option
@click.pass_obj
def watch_proposals(session: Session) -> Answer:
    """Show what is open whenever that changes, until Ctrl-C; with --json answer with the next change."""
    from perdure.cli.proposals import watch

    return watch(session)


@approvals.command("audit")
@click.option("--verify", is_flag=True, help="Check every row against the one before: exit code 3 where one differs.")
@click.option("--most", type=click.IntRange(min=1), default=1_000, show_default=True, help="The last rows.")
@_json_option
@click.pass_obj
def audit_trail(session: Session, verify: bool, most: int) -> Answer:
    """List everything that was asked, answered, granted and run, in order."""
    from perdure.cli.proposals import audit

    return audit(session, verify=verify, most=most)


@perdure.command()
@_json_option
@click.pass_obj
def sessions(session: Session) -> Answer:
    """List the sessions that have asked, and what they wait for."""
    from perdure.cli.proposals import sessions as list_sessions

    return list_sessions(session)


@perdure.group(cls=_Group)
def allow() -> None:
    """Standing answers: what of this profile need not be asked about."""


@allow.command("list")
@_json_option
@click.pass_obj
def list_allowed(session: Session) -> Answer:
    """List what is granted, from `command_allowlist` of app.yaml and from `allow add`."""
    from perdure.cli.allowing import list_grants

    return list_grants(session)


@allow.command("add")
@click.argument("what")
@click.option("--cwd", type=click.Path(file_okay=False), help="Only for commands that run there or below.")
@click.option("--path", type=click.Path(), help="Only where everything that is changed lies there.")
@click.option("--hours", type=click.FloatRange(min=0.01, max=24 * 366), help="For how long.")
@click.option("--uses", type=click.IntRange(min=1, max=10_000), help="How many times.")
@_json_option
@click.pass_obj
def add_allowed(session: Session, **options: Unpack[AllowOptions]) -> Answer:
    """Grant WHAT: a glob for one plain command, as 'cargo *', or a class of reasons, as `packages`.

    Without an option it becomes a line of `command_allowlist` in the profile's app.yaml.
    """
    from perdure.cli.allowing import add

    return add(session, options)


@allow.command("revoke")
@click.argument("what")
@_json_option
@click.pass_obj
def revoke_allowed(session: Session, what: str) -> Answer:
    """Withdraw the grant with the id WHAT, or the line WHAT of app.yaml, at once and for every process."""
    from perdure.cli.allowing import revoke

    return revoke(session, what)


@allow.command("suggest")
@_json_option
@click.pass_obj
def suggest_allowed(session: Session) -> Answer:
    """Show which commands were asked about most, as grants that could be given. None is given."""
    from perdure.cli.allowing import suggest

    return suggest(session)


@perdure.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def pm(session: Session, arguments: tuple[str, ...]) -> NoReturn:
    """Hand over to the package manager of this home: see `pm --help`."""
    from perdure.pm_link import hand_over

    environ = dict(session.environ)
    if session.output.as_json:
        environ["PERDURE_JSON"] = "1"
    hand_over(session.installation, arguments, environ)

"""The options that every verb shares, made from the one table of settings.

Owns: turning model.settings into click options, and taking them before the verb as well as after it. Does not own: what
they resolve to (session).
"""

from __future__ import annotations

from typing import Any

import click

from perdure_pm.cli.render import write_talk
from perdure_pm.cli.session import Session
from perdure_pm.model.settings import BOOLEAN, BUILDING, EVERY, MUTATING, SETTINGS, Setting
from perdure_pm.store.managed import refuse_managed

VERB_SETTINGS = {"looking": (EVERY,), "mutating": (EVERY, MUTATING), "building": (EVERY, MUTATING, BUILDING)}
"""Which settings have an effect on which kind of verb. `--dry-run` is refused by the others; the rest they ignore."""


class SettingOption(click.Option):
    """A shared option; the last one given wins, wherever it stands."""

    def __init__(self, setting: Setting, *, shown: bool) -> None:
        self.setting = setting
        boolean = setting.kind == BOOLEAN
        flag = f"{setting.flag}/{setting.opposite}" if setting.opposite else str(setting.flag)
        super().__init__(
            [flag, setting.name.replace("-", "_")],
            is_flag=boolean,
            default=None,
            expose_value=False,
            callback=_take,
            metavar=setting.metavar,
            help=setting.meaning[0].upper() + setting.meaning[1:] + ".",
            hidden=not shown,
        )


class Verb(click.Command):
    """A command with the shared options."""

    def __init__(self, *args: Any, kind: str = "looking", answers_managed: bool = False, **kwargs: Any) -> None:
        """Take click's arguments, and two of our own.

        Args:
            args: click's.
            kind: which of the shared options have an effect.
            answers_managed: whether it has an answer where a package manager of the system installed PM. Every other
                verb is about generations, of which there are none then, or changes something.
            kwargs: click's.
        """
        super().__init__(*args, **kwargs)
        self.answers_managed = answers_managed
        self.params += shared_options(kind)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _note_command(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        session = ctx.find_object(Session)
        if session is not None and not self.answers_managed and session.stamp is not None:
            refuse_managed(session.stamp, session.command)
        named = "" if session is None else session.find_disregarded_home()
        if session is not None and named:
            home = session.layout.home
            text = f"PERDURE_HOME names {named}, and this launcher belongs to {home}, which is used; --home DIR chooses"
            write_talk(session, "notice", text)
        return super().invoke(ctx)

    def get_help_option(self, _ctx: click.Context) -> click.Option | None:
        return HelpOption()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own options in full and the shared ones by name."""
        format_own_options(self, ctx, formatter)


class Group(click.Group):
    """A group of verbs, with the shared options."""

    command_class = Verb

    def __init__(self, *args: Any, kind: str = "looking", full_help: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.full_help = full_help
        self.params += shared_options(kind)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _note_command(ctx)
        return super().parse_args(ctx, args)

    def get_help_option(self, _ctx: click.Context) -> click.Option | None:
        return HelpOption()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the program's options in full, and a group's shared ones by name."""
        if self.full_help:
            super().format_options(ctx, formatter)
        else:
            format_own_options(self, ctx, formatter)
            self.format_commands(ctx, formatter)


Group.group_class = Group


def shared_options(kind: str) -> list[click.Parameter]:
    """Return the shared options of a verb of that kind."""
    scopes = VERB_SETTINGS[kind]
    return [
        SettingOption(setting, shown=setting.scope in scopes)
        for setting in SETTINGS
        if setting.flag is not None and (setting.name != "dry-run" or MUTATING in scopes)
    ]


class HelpOption(click.Option):
    """``--help``, which is an answer like any other where JSON was asked for."""

    def __init__(self) -> None:
        super().__init__(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_want_help,
            help="Show this message and exit.",
        )


class Told(Exception):
    """Help or the version was asked for: a way out of parsing, with what is to be said."""

    def __init__(self, text: str, data: dict[str, str]) -> None:
        super().__init__(text)
        self.text = text
        self.data = data


def format_own_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a verb's own options in full, and the names of the shared ones."""
    own = [
        record
        for option in command.get_params(ctx)
        if isinstance(option, click.Option) and not isinstance(option, SettingOption)
        if (record := option.get_help_record(ctx)) is not None
    ]
    if own:
        with formatter.section("Options"):
            formatter.write_dl(own)
    names = [
        option.opts[0] for option in command.get_params(ctx) if isinstance(option, SettingOption) and not option.hidden
    ]
    with formatter.section("Shared options (perdure-pm --help explains them)"):
        formatter.write_text("  ".join(names))


def _take(context: click.Context, option: click.Parameter, value: object) -> None:
    """Note a shared option's value, over one given before it."""
    session = context.find_object(Session)
    if session is not None and value is not None and isinstance(option, SettingOption):
        session.flags[option.setting.name] = value if isinstance(value, bool) else str(value)


def _note_command(context: click.Context) -> None:
    """Have the session know the verb before its options are parsed, for the answer to a mistake in them."""
    session = context.find_object(Session)
    if session is not None:
        session.command = context.command_path.partition(" ")[2]


def _want_help(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        text = context.get_help()
        raise Told(text, {"help": text})

"""What bootstrap.py's words mean: its verbs with their options, and which words are PM's.

Owns: the parser, made from the one table of settings, and telling bootstrap's own words from those that are handed on.
Does not own: the verbs (bootstrapping).

Standard library only, Python 3.9.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from perdure_pm import __version__
from perdure_pm.model import settings
from perdure_pm.model.errors import UsageFault

_DESCRIPTION = "PM's runtime from nothing, then the app, the tests, or what a launcher could not start."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageFault(message, hint=f"{_started_as()} --help")


def _started_as() -> str:
    """Return the command that these words were given to, which works from where it was typed."""
    if len(sys.argv) > 2 and sys.argv[1] == "activate":  # a payload's own command names it so
        return f"{shlex.quote(sys.argv[2])}/activate"
    return f"python3 {shlex.quote(sys.argv[0])}"


def _shared_options(without: Collection[str]) -> _Parser:
    """Return the options of every verb: the settings, but for some."""
    shared = _Parser(add_help=False, allow_abbrev=False)
    for setting in settings.SETTINGS:
        if setting.flag is None or setting.scope == settings.FOREIGN or setting.name in without:
            continue
        kind: dict[str, Any] = (
            {"action": "store_const", "const": True}
            if setting.kind == settings.BOOLEAN
            else {"metavar": setting.metavar}
        )
        # SUPPRESS: the same option before and after the verb; the one that was not given must not overwrite the other.
        shared.add_argument(
            setting.flag,
            dest=option_name(setting),
            default=argparse.SUPPRESS,
            help=setting.meaning.replace("%", "%%"),
            **kind,
        )
    return shared


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of bootstrap's own words."""
    shared = _shared_options(without={"profile", "dry-run"})
    parser = _Parser(prog="bootstrap.py", description=_DESCRIPTION, parents=[shared], allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"perdure-pm {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    verbs.add_parser("up", help="install the app and end with it answering", parents=[shared], allow_abbrev=False)
    activate = verbs.add_parser(
        "activate", help="put what a staged payload carries into a home", parents=[shared], allow_abbrev=False
    )
    activate.add_argument("payload", metavar="DIR", help="what perdure-pm stage made")
    test = verbs.add_parser("test", help="run the whole test suite", parents=[shared], allow_abbrev=False)
    test.add_argument(
        "--only", action="append", metavar="NAME", help="a directory of tests/; may be given more than once"
    )
    test.add_argument("--slow", action="store_true", help="run the slow lane too")
    test.add_argument("pytest_arguments", nargs="*", metavar="-- ARGS", help="further arguments for pytest")
    lint = verbs.add_parser("lint", help="run every check that needs no test", parents=[shared], allow_abbrev=False)
    lint.add_argument("--fix", action="store_true", help="mend what the formatter and the linter can mend")
    verbs.add_parser("runtime", help="build PM's runtime and select nothing", parents=[shared], allow_abbrev=False)
    for name, text in (("pm", "run perdure-pm from here"), ("rescue", "what a launcher calls when PM cannot start")):
        verbs.add_parser(name, help=text, allow_abbrev=False, add_help=False)
    return parser


def find_places(arguments: Sequence[str]) -> list[int]:
    """Return where the words stand that are neither options nor values of settings."""
    taking = {setting.flag for setting in settings.SETTINGS if setting.flag and setting.kind != settings.BOOLEAN}
    found, place = [], 0
    while place < len(arguments):
        if not arguments[place].startswith("-"):
            found.append(place)
        place += 2 if arguments[place] in taking else 1
    return found


def split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return bootstrap's own words, and those after `pm` or `rescue`, which are PM's whatever they look like."""
    first = next(iter(find_places(arguments)), None)
    cut = len(arguments) if first is None or arguments[first] not in {"pm", "rescue"} else first + 1
    return list(arguments[:cut]), list(arguments[cut:])


def heed(arguments: Sequence[str], options: argparse.Namespace) -> None:
    """Have the settings among PM's words count for the runtime that reads them; an interpreter there is the host's."""
    end = (*arguments, "--").index("--")
    places = find_places(arguments[:end])
    if len(places) > 1 and arguments[places[0]] == "run":
        end = places[1]  # from here on the words are another program's
    with contextlib.suppress(UsageFault):  # PM tells of it, in its own words
        _shared_options(without={"profile", "dry-run", "python"}).parse_known_args(arguments[:end], options)


def option_name(setting: settings.Setting) -> str:
    """Return the attribute in which the parser leaves what was said of a setting."""
    return "setting_" + setting.name.replace("-", "_")

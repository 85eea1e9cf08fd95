"""Machines that the guard is asked about, and effects made by hand.

Owns: short ways to write effects and roots. Does not own: the machine that exists in a description only
(perdure.guard.layout).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.domain.effect import Act, Certainty, Effect, Hole, Pattern, Piece, Reading, Span, Text, Word
from perdure.guard.layout import LayoutProbe
from perdure.guard.paths import Protected
from perdure.guard.roots import Root, environment_roots

HOME = "/home/you"
VENV = f"{HOME}/app/.venv"
BASE = f"{HOME}/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu"
SPAN = Span(0, 0)


def protected(links: Mapping[str, str] | None = None, *, extra: Sequence[Root] = ()) -> Protected:
    """Return what is protected where the app runs from a project's own environment, made from uv's interpreter."""
    probe = LayoutProbe(links={f"{HOME}/link": f"{HOME}/app", **(links or {})})
    roots = environment_roots(f"{VENV}/bin/python", VENV, BASE, probe)
    return Protected((*roots, *extra), probe)


def word(*pieces: str | Piece) -> Word:
    """Return a word with one way to come out; a text stands for itself."""
    return Word((tuple(Text(piece) if isinstance(piece, str) else piece for piece in pieces),))


def effect(
    act: Act,
    *pieces: str | Piece,
    cwd: str | Word = f"{HOME}/app",
    recursive: bool = False,
    through_link: bool = False,
    names: Sequence[Word] = (),
    arguments: Sequence[Word] = (),
    by: str = "rm",
) -> Effect:
    """Return one effect on one operand."""
    return Effect(
        act=act,
        operand=word(*pieces),
        directories=(word(cwd) if isinstance(cwd, str) else cwd,),
        certainty=Certainty.DEFINITE,
        recursive=recursive,
        through_link=through_link,
        names=tuple(names),
        arguments=tuple(arguments),
        by=by,
        span=SPAN,
    )


def run(program: str, *arguments: str | Word) -> Effect:
    """Return the start of a program."""
    words = [word(argument) if isinstance(argument, str) else argument for argument in arguments]
    return effect(Act.RUN, program, arguments=words, by=program)


def reading(*effects: Effect) -> Reading:
    """Return what a reader would have made of a line with these effects."""
    return Reading(reader="fast", effects=effects)


STAR = Pattern("*")
HOLE = Hole("$X")

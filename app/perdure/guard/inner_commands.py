"""Programs with commands of their own, some of which run others or write files: `sqlite3`, `vim`, `psql`, `expect`.

Owns: where such commands stand on a command line, and finding in them what a regular expression of the table can find.
Does not own: these languages, or the expressions (verbs.toml). What is found there counts; what is not found stays
code that nobody has read, which classification asks about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure.domain.effect import Act, Spelling, Text
from perdure.domain.record import dataclass
from perdure.guard import values
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_LARGEST = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Where a program's own commands stand, and what is looked for in them."""

    options: frozenset[str]
    """Options whose values are commands."""
    operands: int | None
    """How many operands stand before those that are commands; None where none is."""
    plus: bool
    """Whether an operand behind a plus is a command."""
    stdin: bool
    """Whether it reads commands, too."""
    at_home: bool
    """Whether they run in the home directory."""
    code: tuple[re.Pattern[str], ...]
    """What stands in the group ``x`` is run by a shell."""
    writes: tuple[re.Pattern[str], ...]
    deletes: tuple[re.Pattern[str], ...]


def inner_of(data: Mapping[str, object]) -> Inner:
    """Return what the table says of a program."""

    def patterns(key: str) -> tuple[re.Pattern[str], ...]:
        listed = data.get(key, [])
        return tuple(re.compile(str(item), re.MULTILINE) for item in (listed if isinstance(listed, list) else ()))

    operands = data.get("operands")
    return Inner(
        options=frozenset(str(data.get("options", "")).split()),
        operands=operands if isinstance(operands, int) else None,
        plus=bool(data.get("plus")),
        stdin=bool(data.get("stdin")),
        at_home=bool(data.get("at_home")),
        code=patterns("code"),
        writes=patterns("writes"),
        deletes=patterns("deletes"),
    )


def follow(machine: Machine, inner: Inner, given: list[Value], operands: list[Value], state: State, by: str) -> None:
    """Note what a program's own commands run, write and delete.

    Args:
        machine: collects it.
        inner: what the table says of the program.
        given: the values of the options that hold commands.
        operands: all its operands.
        state: what is known where it runs.
        by: its name.
    """
    texts = [pieces for word in given for pieces in word]
    if inner.operands is not None:
        texts += [pieces for word in operands[inner.operands :] for pieces in word]
    if inner.plus:
        texts += [_behind_plus(pieces) for word in operands for pieces in word]
    if inner.stdin and state.stdin is not None:
        texts += state.stdin
    child = state.copy()
    child.stdin = None
    if inner.at_home:
        child.directories = state.variable("HOME") or values.text(state.session.home)
    for pieces in texts:
        text = values.spelled(pieces)
        if not text or len(text) > _LARGEST:
            continue
        machine.step(len(text) // 64 + 1)
        for found in _found(inner.code, text):
            machine.own_shell(values.text(found), child, by)
        for found in _found(inner.writes, text):
            machine.emit(Act.OVERWRITE, values.text(found), child, by=by, through_link=True)
        for found in _found(inner.deletes, text):
            machine.emit(Act.DELETE, values.text(found), child, by=by, recursive=True)


def _behind_plus(pieces: Spelling) -> Spelling:
    first = pieces[0] if pieces else None
    if not isinstance(first, Text) or not first.text.startswith("+"):
        return ()
    return values.merged((Text(first.text[1:]), *pieces[1:]))


def _found(patterns: tuple[re.Pattern[str], ...], text: str) -> list[str]:
    return [match["x"].strip() for pattern in patterns for match in pattern.finditer(text)]

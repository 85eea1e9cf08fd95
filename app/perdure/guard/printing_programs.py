"""Programs that print file names, or what they read.

Owns: what `cat`, `ls`, `basename`, `mktemp` and the like print. Does not own: `echo` and `printf` (printing).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import MOST_SPELLINGS, Act, Hole, Pattern, Piece, Spelling, Text
from perdure.guard import values, verbs
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


def _cat(machine: Machine, name: str, words: list[Value], state: State) -> None:
    files = [word for word in words if not (values.known(word) or "").startswith("-") or values.known(word) == "-"]
    for word in files or [values.text("-")]:
        if values.known(word) == "-":
            text = state.stdin if state.stdin is not None else values.unknown("standard input")
        else:
            path = values.known(values.absolute(word, state.directories))
            text = state.files[path] if path in state.files and path is not None else values.unknown(f"{name} …")
            machine.emit(Act.READ, word, state, by=name, through_link=True)
        state.output = values.joined(state.output, text)


def _tee(machine: Machine, name: str, words: list[Value], state: State) -> None:
    verb = verbs.table()["tee"]
    arguments = verbs.split(words, verb.valued)
    verbs.apply(verb, arguments, machine, state, by="tee")
    text = state.stdin if state.stdin is not None else values.unknown("standard input")
    for operand in arguments.operands:
        path = values.known(values.absolute(operand, state.directories))
        if path is not None:
            state.files[path] = text if not arguments.has(frozenset({"-a", "--append"})) else values.unknown(path)
    state.output = values.joined(state.output, text)


def _through(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print some or all of the lines they read, unchanged."""
    verb = verbs.table().get(name)
    if verb is not None:
        verbs.apply(verb, verbs.split(words, verb.valued), machine, state, by=name)
    reads = not any(not (values.known(word) or "-").startswith(("-", "+")) for word in words)
    text = state.stdin if reads and state.stdin is not None else values.unknown(name)
    state.output = values.joined(state.output, text)


def _ls(machine: Machine, name: str, words: list[Value], state: State) -> None:
    options = "".join(text[1:] for word in words if (text := values.known(word) or "").startswith("-"))
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    printed: list[Value] = list(operands) if "d" in options else [((Pattern("*"),),)]
    if "d" not in options and operands:
        printed += operands
    if set("aAf") & set(options):
        printed.append(((Text("."), Pattern("*")),))
    for item in printed:
        state.output = values.joined(state.output, item, values.text("\n"))


def _name_only(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print one word without a slash."""
    state.output = values.joined(state.output, values.NAME, values.text("\n"))


def _basename(machine: Machine, name: str, words: list[Value], state: State) -> None:
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    if not operands:
        return
    suffix = values.known(operands[1]) if len(operands) > 1 else ""
    found: list[Spelling] = []
    for pieces in operands[0]:
        text = values.spelled(pieces)
        if text is None or suffix is None:
            found.append((values.Name("*"),))  # whatever it is, it has no slash
        else:
            part = text.rstrip("/").rpartition("/")[2]
            found.append((Text(part.removesuffix(suffix) if part != suffix else part),))
    state.output = values.joined(state.output, values.union(tuple(found)), values.text("\n"))


def _dirname(machine: Machine, name: str, words: list[Value], state: State) -> None:
    found: list[Spelling] = []
    for pieces in words[-1] if words else ():
        text = values.spelled(pieces)
        if text is None:
            found.append((Hole("$(dirname …)"),))
        else:
            head = text.rstrip("/").rpartition("/")[0].rstrip("/")
            found.append((Text(head or ("/" if text.startswith("/") else ".")),))
    state.output = values.joined(state.output, values.union(tuple(found or [()])), values.text("\n"))


def _realpath(machine: Machine, name: str, words: list[Value], state: State) -> None:
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    resolves = name == "realpath" or any(
        (values.known(word) or "") in {"-f", "-e", "-m", "--canonicalize"} for word in words
    )
    for operand in operands:
        # The path itself, which is compared by where it leads, or unknown where a link's text is meant.
        path = values.absolute(operand, state.directories) if resolves else values.unknown("readlink")
        state.output = values.joined(state.output, path, values.text("\n"))


def _mktemp(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset({"-p", "--tmpdir=", "--suffix"}))
    base = (arguments.values(frozenset({"-p", "--tmpdir"})) or [state.variable("TMPDIR") or values.EMPTY])[0]
    if "TMPDIR" not in state.variables and "TMPDIR" not in state.session.environment and not values.known(base):
        base = values.text("/tmp")  # noqa: S108  # what mktemp takes where nothing is set
    template = arguments.operands[0] if arguments.operands else values.text("tmp.XXXXXXXXXX")
    placed = not arguments.operands or arguments.has(frozenset({"-p", "--tmpdir", "-t"}))
    pieces: list[Piece] = []
    for piece in template[0]:
        if isinstance(piece, Text):
            head, *rest = re.split(r"X{3,}", piece.text)
            pieces.append(Text(head))
            for part in rest:
                pieces += [values.Name("*"), Text(part)]
        else:
            pieces.append(piece)
    path: Value = (values.merged(tuple(pieces)),)
    if placed:
        path = values.joined(base, values.text("/"), path)
    state.output = values.joined(state.output, path, values.text("\n"))


def _date(machine: Machine, name: str, words: list[Value], state: State) -> None:
    form = next((text for word in words if (text := values.known(word) or "").startswith("+")), "")
    slashes = "/" in form or re.search(r"%[Dx]", form) or not form
    state.output = values.joined(
        state.output, values.unknown("date") if slashes else ((values.DIGITS,),), values.text("\n")
    )


def _seq(machine: Machine, name: str, words: list[Value], state: State) -> None:
    numbers = [values.known(word) or "" for word in words]
    if 1 <= len(numbers) <= 2 and all(number.isdigit() for number in numbers):
        first, last = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
        if last - first < MOST_SPELLINGS:
            state.output = values.joined(
                state.output, values.text("".join(f"{number}\n" for number in range(first, last + 1)))
            )
            return
    state.output = values.joined(state.output, ((values.DIGITS,),), values.text("\n"))


def _nothing(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print nothing."""


PROGRAMS: dict[str, Callable[[Machine, str, list[Value], State], None]] = {
    **dict.fromkeys(("sort", "uniq", "head", "tail", "tac", "shuf", "nl"), _through),
    **dict.fromkeys(("whoami", "id", "hostname", "uname", "nproc", "arch", "tty", "logname"), _name_only),
    **dict.fromkeys(("realpath", "readlink"), _realpath),
    **dict.fromkeys(("test", "[", "sleep", "mkdir", "touch", "wait", "kill"), _nothing),
    "basename": _basename,
    "cat": _cat,
    "date": _date,
    "dirname": _dirname,
    "ls": _ls,
    "mktemp": _mktemp,
    "seq": _seq,
    "tee": _tee,
}

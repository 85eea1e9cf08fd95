"""Programs that print file names, or what they read.

Owns: what `cat`, `ls`, `basename`, `mktemp` and the like print. Does not own: `echo` and `printf` (printing).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import MOST_SPELLINGS, Act, Pattern, Piece, Text
from perdure.guard import values, verbs
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_LINES = late(r"-|-n?\+?\d+|-n|\d+|-[urfbhRV]+|--lines=\d+")
"""Options of those programs with which lines stay as they are, and their values."""


_ANY_NAME = values.union(values.NAME, ((Text("."), values.Name("*")),))
"""Some name without a slash, which may begin with a dot."""


def _cat(machine: Machine, name: str, words: list[Value], state: State) -> None:
    files = [word for word in words if not (values.known(word) or "").startswith("-") or values.known(word) == "-"]
    if any(values.known(word) not in {"-", "-u", "--"} and values.starts_with(word, "-") for word in words):
        state.output = values.joined(state.output, values.unknown("cat"))  # numbered, or with marks
        return
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
    plain = all(_LINES.fullmatch(values.known(word) or "-?") for word in words)
    text = state.stdin if plain and state.stdin is not None else values.unknown(name)
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
    if any(values.starts_with(word, "-") for word in words) or not words:
        state.output = values.joined(state.output, _ANY_NAME, values.text("\n"))
        return
    suffix = values.known(words[1]) if len(words) > 1 else ""
    found: list[Value] = []
    for pieces in words[0]:
        text = values.spelled(pieces)
        if text is None or suffix is None:
            found.append(_ANY_NAME)  # whatever it is, it has no slash
        else:
            part = text.rstrip("/").rpartition("/")[2]
            found.append(values.text(part.removesuffix(suffix) if part != suffix else part))
    state.output = values.joined(state.output, values.every(found), values.text("\n"))


def _dirname(machine: Machine, name: str, words: list[Value], state: State) -> None:
    for word in words:
        found: list[Value] = []
        for pieces in word:
            text = values.spelled(pieces)
            if text is None or text.startswith("-"):
                found.append(values.unknown("$(dirname …)"))
            else:
                head = text.rstrip("/").rpartition("/")[0].rstrip("/")
                found.append(values.text(head or ("/" if text.startswith("/") else ".")))
        state.output = values.joined(state.output, values.every(found), values.text("\n"))


def _realpath(machine: Machine, name: str, words: list[Value], state: State) -> None:
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    resolves = name == "realpath" or any(
        (values.known(word) or "") in {"-f", "-e", "-m", "--canonicalize"} for word in words
    )
    for operand in operands:
        # With a slash behind it, it is compared by where it leads; where that is, only the machine knows.
        path = values.unknown("readlink")
        if resolves:
            path = values.union(
                values.joined(values.absolute(operand, state.directories), values.text("/")), values.unknown(name)
            )
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
                pieces += [values.FRESH, Text(part)]
        else:
            pieces.append(piece)
    path: Value = (values.merged(tuple(pieces)),)
    if placed:
        path = values.joined(base, values.text("/"), path)
    state.output = values.joined(state.output, path, values.text("\n"))


def _date(machine: Machine, name: str, words: list[Value], state: State) -> None:
    form = next((text for word in words if (text := values.known(word) or "").startswith("+")), "")
    result = values.EMPTY if form else values.unknown("date")
    for number, part in enumerate(re.split(r"(%[-_0^#+:]*\d*[A-Za-z%])", form[1:])):
        if number % 2 and part[-1] in "DxcX%":
            result = values.joined(result, values.unknown("date"))
        else:
            result = values.joined(result, ((values.DIGITS,),) if number % 2 else values.text(part))
    state.output = values.joined(state.output, result, values.text("\n"))


def _seq(machine: Machine, name: str, words: list[Value], state: State) -> None:
    numbers = [values.known(word) or "" for word in words]
    if not all(re.fullmatch(r"-?[\d.]+", number) for number in numbers):
        state.output = values.joined(state.output, values.unknown("seq"))
        return
    if 1 <= len(numbers) <= 2 and all(number.isdigit() for number in numbers):
        first, last = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
        if last - first < MOST_SPELLINGS:
            text = "".join(f"{number}\n" for number in range(first, last + 1))
            state.output = values.joined(state.output, values.text(text))
            return
    state.output = values.joined(state.output, ((values.DIGITS,),), values.text("\n"))


def _nothing(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print nothing."""


PROGRAMS: dict[str, Callable[[Machine, str, list[Value], State], None]] = {
    **dict.fromkeys(("sort", "uniq", "head", "tail", "tac", "shuf"), _through),
    **dict.fromkeys(("whoami", "id", "hostname", "uname", "nproc", "arch", "logname"), _name_only),
    **dict.fromkeys(("realpath", "readlink"), _realpath),
    **dict.fromkeys(("test", "[", "sleep", "wait", "kill"), _nothing),
    "basename": _basename,
    "cat": _cat,
    "date": _date,
    "dirname": _dirname,
    "ls": _ls,
    "mktemp": _mktemp,
    "seq": _seq,
    "tee": _tee,
}

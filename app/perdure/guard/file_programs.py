"""Programs that work on files and whose arguments are a language of their own.

Owns: `dd`, `tar`, `rsync`, and the command lines of `sed` and `awk`. Does not own: the programs of these two
(little_languages), `find` (find_program), programs that the table describes (verbs.toml).
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Text
from perdure.guard import find_program, little_languages, values, verbs
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


def _dd(machine: Machine, name: str, words: list[Value], state: State) -> None:
    for word in words:
        for key, act in (("of=", Act.OVERWRITE), ("if=", Act.READ)):
            first = word[0][0] if word[0] else None
            if isinstance(first, Text) and first.text.startswith(key):
                target = (values.merged((Text(first.text[3:]), *word[0][1:])),)
                machine.emit(act, target, state, by="dd", through_link=True)


def _tar(machine: Machine, name: str, words: list[Value], state: State) -> None:
    rest = list(words)
    first = values.known(rest[0]) if rest else None
    valued = verbs.table()["tar"].valued
    options: list[tuple[str, Value | None]] = []
    if first is not None and not first.startswith("-") and first:
        # The old way: letters without a dash, their values behind them in order.
        rest = rest[1:]
        for letter in first:
            value = rest.pop(0) if f"-{letter}" in valued and rest else None
            options.append((f"-{letter}", value))
    arguments = verbs.split(rest, valued)
    arguments.options += options
    for place in arguments.values(frozenset({"-C", "--directory"})):
        child = state.copy()
        child.directories = values.absolute(place, state.directories)
        state = child
    _pack(machine, arguments, state)
    for action in arguments.values(frozenset({"--checkpoint-action"})):
        text = values.known(action) or ""
        if text.startswith("exec="):
            machine.shell(values.text(text[5:]), state.copy(), positionals=(), name=values.text("sh"), what="tar")


def _pack(machine: Machine, arguments: verbs.Arguments, state: State) -> None:
    """Note what making or unpacking an archive does."""
    has = arguments.has
    archive = arguments.values(frozenset({"-f", "--file"}))
    if has(frozenset({"-c", "--create", "-r", "--append", "-u", "--update"})):
        for target in archive:
            if values.known(target) != "-":
                machine.emit(Act.OVERWRITE, target, state, by="tar", through_link=True)
        if has(frozenset({"--remove-files"})):
            for operand in arguments.operands:
                machine.emit(Act.DELETE, operand, state, by="tar --remove-files", recursive=True)
        spared = tuple(arguments.values(frozenset({"--exclude"})))
        for operand in arguments.operands:
            machine.emit(Act.READ, operand, state, by="tar", recursive=True, spared=spared)
        if any(values.known(listed) == "-" for listed in arguments.values(frozenset({"-T", "--files-from"}))):
            for operand in verbs.listed(state):
                machine.emit(Act.READ, operand, state, by="tar", recursive=True, spared=spared)
    elif has(frozenset({"-x", "--extract", "--get"})):
        # What it writes is in the archive; into a directory of ours it can only do harm.
        certainty = Certainty.DEFINITE if has(frozenset({"--recursive-unlink"})) else Certainty.CONDITIONAL
        act = Act.DELETE if has(frozenset({"--recursive-unlink"})) else Act.OVERWRITE
        for operand in arguments.operands or [values.text(".")]:
            machine.emit(act, operand, state, by="tar -x", certainty=certainty, recursive=act is Act.DELETE)


def _rsync(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, verbs.table()["rsync"].valued)
    if len(arguments.operands) < 2 or arguments.has(frozenset({"-n", "--dry-run"})):
        return
    *sources, target = arguments.operands
    recursive = arguments.has(frozenset({"-r", "--recursive", "-a", "--archive"}))
    excluded = tuple(arguments.values(frozenset({"--exclude"})))
    for source in [source for source in sources if not _remote(source)]:
        machine.emit(Act.READ, source, state, by="rsync", recursive=recursive, spared=excluded)
    if not _remote(target):
        if any(option.startswith("--del") for option, _ in arguments.options):
            for source in sources:
                contents = any(
                    pieces and isinstance(last := pieces[-1], Text) and last.text.endswith("/") for pieces in source
                )
                place = target if contents else verbs.landing(source, target)
                machine.emit(
                    Act.DELETE,
                    place,
                    state,
                    by="rsync --delete",
                    recursive=True,
                    only_below=True,
                    spared=excluded,
                    through_link=True,
                )
        for place in verbs.destinations(sources, target, machine, state):
            machine.emit(Act.OVERWRITE, place, state, by="rsync", through_link=True)
    if arguments.has(frozenset({"--remove-source-files"})):
        for source in sources:
            if not _remote(source):
                machine.emit(Act.DELETE, source, state, by="rsync --remove-source-files", recursive=True)


def _remote(path: Value) -> bool:
    first = path[0][0] if path[0] else None
    return isinstance(first, Text) and ":" in first.text.split("/", 1)[0]


def _scripted(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`sed` and `awk`: what their programs write and run, and files that they change in place."""
    codes, files, arguments = little_languages.programs(name, words)
    given = little_languages.assigned(name, files, arguments)
    for code in codes or ():
        text = values.known(code)
        if text is None:
            continue  # what is not known is data, as a rule: a column, a name
        machine.step(len(text) // 64 + 1)
        deeds = little_languages.deeds(name, text, given)
        for path in deeds.written:
            machine.emit(Act.OVERWRITE, values.text(path), state, by=name, through_link=True)
        for command in deeds.run:
            child = state.copy()
            child.stdin = values.unknown(f"what {name} prints")
            machine.own_shell(values.text(command), child, name)
    in_place = name.endswith("sed") and arguments.has(frozenset({"-i", "-I", "--in-place"}))
    if in_place or _INPLACE in arguments.values(frozenset({"-i", "--include"})):
        for operand in files:
            machine.emit(Act.OVERWRITE, operand, state, by=f"{name} -i")
    state.output = values.joined(state.output, values.unknown(name))


_INPLACE = values.text("inplace")


PROGRAMS: dict[str, Callable[[Machine, str, list[Value], State], None]] = {
    "dd": _dd,
    "find": find_program.run,
    "gfind": find_program.run,
    "rsync": _rsync,
    **dict.fromkeys(little_languages.NAMES, _scripted),
    "tar": _tar,
    "bsdtar": _tar,
    "gtar": _tar,
}

"""Programs of the table: their subcommands, and the commands that they start.

Owns: what follows from an entry of verbs.toml, whose operands may be a command or code. Does not own: programs with a
function of their own (programs).
"""

from __future__ import annotations

from dataclasses import replace

from perdure.domain.effect import Act, Certainty, Text
from perdure.guard import inner_commands, values, verbs
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_ASSIGNMENT = late(r"([A-Za-z_]\w*)=")


def walk(machine: Machine, verb: verbs.Verb, name: str, words: list[Value], state: State) -> None:
    """Note what a program of the table does."""
    if verb.separator:
        for part in _separated(words, verb.separator):
            walk(machine, replace(verb, separator=""), name, part, state)
        return
    arguments = verbs.split(words, verb.valued, ordered=verb.ordered)
    for place in arguments.values(verb.directory):
        state = elsewhere(state, place)
    if verb.subcommands and arguments.operands:
        subcommand = values.known(arguments.operands[0])
        inner = verb.subcommands.get(subcommand or "")
        if inner is not None:
            walk(machine, inner, f"{name} {subcommand}", arguments.operands[1:], state)
    verbs.apply(verb, arguments, machine, state, by=name)
    for code in arguments.values(verb.runs):
        named_command(machine, code, state, name)
    if verb.inner is not None:
        inner_commands.follow(
            machine, verb.inner, arguments.values(verb.inner.options), arguments.operands, state, by=name
        )
    if verb.wraps is not None:
        _wrapped(machine, verb.wraps, name, arguments, state)


def named_command(machine: Machine, code: Value, state: State, by: str) -> None:
    """Note what a command does that an option or a variable names; one that is not known is a program that is not."""
    with machine.under(Certainty.CONDITIONAL):
        texts = values.texts(code)
        if texts is None:
            machine.emit(Act.RUN, code, state, by=by)
        for text in texts or ():
            # What begins so is a pipe for `less`, and a shell's command for git.
            machine.own_shell(values.text(text.lstrip("|-!")), state, by)


def _separated(words: list[Value], separator: str) -> list[list[Value]]:
    """Return the words of each of the commands that a separator stands between."""
    parts: list[list[Value]] = [[]]
    for word in words:
        text = values.known(word) or ""
        ends = text.endswith(separator) and not text.endswith("\\" + separator)
        if text != separator:
            parts[-1].append(values.text(text.removesuffix(separator)) if ends else word)
        if ends:
            parts.append([])
    return parts


def elsewhere(state: State, directory: Value) -> State:
    """Return a state in another directory."""
    child = state.copy()
    child.directories = values.absolute(directory, state.directories)
    return child


def _wrapped(machine: Machine, wrapper: verbs.Wrapper, name: str, arguments: verbs.Arguments, state: State) -> None:
    child = state.copy()
    for place in arguments.values(wrapper.directory):
        child.directories = values.absolute(place, state.directories)
    with machine.under(wrapper.certainty):
        for code in arguments.values(wrapper.code):
            machine.shell(code, child, positionals=tuple(arguments.operands), name=values.text(name), what=f"{name} -c")
        rest = arguments.operands[wrapper.skip :]
        if wrapper.scans:
            rest = _command_in(machine, rest)
        if len(rest) > 1 and values.known(rest[0]) in wrapper.code:  # `flock FILE -c CODE`
            machine.own_shell(rest[1], child, name)
            rest = []
        if wrapper.assignments:
            rest = assigned(rest, child)
        if not rest:
            pass
        elif wrapper.joined and len(rest) > 0:
            machine.shell(code_of(rest), child, positionals=(), name=values.text("sh"), what=name)
        else:
            machine.call(rest, child, external=True)
    state.output = child.output


def _command_in(machine: Machine, words: list[Value]) -> list[Value]:
    """Return the words from the first one on that names a program which is understood."""
    for number, word in enumerate(words):
        name = (values.known(word) or "").rpartition("/")[2]
        if machine.knows(name):
            return words[number:]
    return []


def assigned(words: list[Value], state: State) -> list[Value]:
    """Take the assignments before a command into the state, and return the command."""
    rest = list(words)
    while rest and len(rest[0]) == 1 and rest[0][0] and isinstance(first := rest[0][0][0], Text):
        match = _ASSIGNMENT.match(first.text)
        if match is None:
            break
        state.assign(match[1], (values.merged((Text(first.text[match.end() :]), *rest[0][0][1:])),))
        state.exported |= {match[1]}
        rest = rest[1:]
    return rest


def code_of(words: list[Value]) -> Value:
    """Return words as one text with blanks between, as a program hands them to a shell."""
    return values.joined(*[item for word in words for item in (values.text(" "), word)][1:])

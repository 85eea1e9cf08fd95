"""Shells and `env`: code in a string, a script, or what comes in.

Owns: their command lines. Does not own: following the code (interpret).
"""

from __future__ import annotations

from perdure.domain.effect import Certainty
from perdure.guard import builtins, values, wrappers
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


def run(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Interpret what a shell is told to run."""
    # What stands behind `sh` may be another shell, whose `echo` reads escapes.
    machine.posix = machine.posix or not name.endswith("bash")
    letters, options, rest = _options(machine, words, state)
    label = values.text(name)
    if "n" in letters:  # it only looks whether the code is well-formed
        return
    if "c" in letters:
        if rest:
            child = (rest[1:2] or [label])[0]
            _shell(machine, rest[0], tuple(rest[2:]), child, f"{name} -c", state, options)
    elif rest and "s" not in letters and values.known(rest[0]) not in {"-", "/dev/stdin"}:
        text = machine.contents(values.known(values.absolute(rest[0], state.directories)), state)
        _shell(machine, text, tuple(rest[1:]), rest[0], f"{name} {values.shown(rest[0])}", state, options)
    elif state.stdin is not None:
        _shell(machine, state.stdin, tuple(rest), label, f"{name} reading its input", state, options)


def _shell(
    machine: Machine,
    code: Value,
    positionals: tuple[Value, ...],
    name: Value,
    what: str,
    state: State,
    options: frozenset[str],
) -> None:
    if options:
        code = values.joined(values.text(f"shopt -s {' '.join(sorted(options))}\n"), code)
    machine.shell(code, state, positionals=positionals, name=name, what=what)


def _options(machine: Machine, words: list[Value], state: State) -> tuple[str, frozenset[str], list[Value]]:
    """Return the letters given, the options of `shopt`, and what stands behind them."""
    letters = ""
    options: set[str] = set()
    rest = list(words)
    while rest:
        text = values.known(rest[0])
        if text is None or text[:1] not in {"-", "+"} or text == "-":
            break
        rest = rest[1:]
        if text == "--":
            break
        if text in {"--rcfile", "--init-file"} and rest:
            with machine.under(Certainty.CONDITIONAL):
                builtins.sourced(machine, rest[0], (), state.copy())
        if text in {"--rcfile", "--init-file", "-o", "+o", "-O", "+O"}:
            if text == "-O" and rest:
                options.add(values.known(rest[0]) or "dotglob")
            rest = rest[1:]
        elif text[0] == "+":
            letters = "".join(letter for letter in letters if letter not in text)
        elif not text.startswith("--"):
            letters += text[1:]
            rest = rest[1:] if text.endswith(("o", "O")) else rest
    return letters, frozenset(options), rest


def env(machine: Machine, _name: str, words: list[Value], state: State) -> None:
    """Interpret the command of `env` with the variables that it sets, or without those that it takes away."""
    child = state.copy()
    rest = list(words)
    while rest:
        text = values.known(rest[0])
        if text is None or not text.startswith("-"):
            break
        option, rest = rest[0], rest[1:]
        if text == "--":
            break
        long, equals, value = text.partition("=")
        if long in {"-C", "--chdir"}:
            place = values.text(value) if equals else (rest or [values.text(".")])[0]
            rest = rest if equals else rest[1:]
            child.directories = values.absolute(place, state.directories)
        elif long in {"-u", "--unset"}:
            unset = value if equals else values.known(rest[0]) if rest else None
            rest = rest if equals else rest[1:]
            child.variables[unset or ""] = None
        elif text.startswith(("-S", "--split-string", "-vS", "-iS")):
            joined = values.text(value if equals else text.partition("S")[2])
            if joined == values.EMPTY and rest:
                joined, rest = rest[0], rest[1:]
            if values.known(joined) is None:
                machine.problem("env -S: the words are not known before it runs")
                return
            machine.shell(
                values.text(f"env {values.known(joined)} " + ' "$@"'),
                child,
                positionals=tuple(rest),
                name=option,
                what="env -S",
            )
            state.output = child.output
            return
        elif text in {"-i", "--ignore-environment", "-"}:
            child.variables |= dict.fromkeys([*state.session.environment, "HOME"])
    rest = wrappers.assigned(rest, child)
    if rest:
        machine.call(rest, child, external=True)
        state.output = child.output
    else:
        state.output = values.joined(state.output, values.unknown("env"))

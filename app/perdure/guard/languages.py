"""Interpreters of other languages: where their command lines have code, and who reads it.

Owns: `python` with its ``-c``, ``-m`` and input, `node`, `perl`, `ruby`, `php` and the like. Does not own: the code
itself (python_code, literal_calls).
"""

from __future__ import annotations

from perdure.domain.effect import Act
from perdure.guard import environment_programs, literal_calls, values, verbs
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

PYTHON = late(r"(?:python|pypy)(?:\d+(?:\.\d+)*t?)?(?:\.exe)?")


_RUNNING_SCRIPTS = frozenset({"cProfile", "profile", "pdb", "runpy", "trace"})
"""Modules that run the script that they are given."""


def read_python(machine: Machine, code: Value, state: State, *, what: str) -> None:
    """Note what Python code does."""
    from perdure.guard import python_code  # the parser takes as long to load as all of this

    python_code.read(machine, code, state, what=what)


def python(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`python`: code in a string, a module, a script that the text has written, or what comes in."""
    rest = list(words)
    while rest:
        text = values.known(rest[0])
        if text is None or not text.startswith("-") or text == "-":
            break
        rest = rest[1:]
        if text.startswith("--"):
            continue
        letters = text[1:]
        if "c" in letters or "m" in letters:
            position = min(at for letter in "cm" if (at := letters.find(letter)) >= 0)
            joined = letters[position + 1 :]
            operand = values.text(joined) if joined else (rest or [values.EMPTY])[0]
            rest = rest if joined else rest[1:]
            if letters[position] == "c":
                read_python(machine, operand, state, what=f"{name} -c")
            else:
                _module(machine, name, values.known(operand) or "", rest, state)
            return
        if letters[-1:] in {"W", "X"}:
            rest = rest[1:]
    if not rest or values.known(rest[0]) in {"-", "/dev/stdin"}:
        if state.stdin is not None:
            read_python(machine, state.stdin, state, what=f"{name} reading its input")
        return
    path = values.known(values.absolute(rest[0], state.directories))
    if path is not None and path in state.files:
        read_python(machine, state.files[path], state, what=path)


def _module(machine: Machine, python_name: str, module: str, words: list[Value], state: State) -> None:
    if module == "timeit":
        arguments = verbs.split(words, frozenset({"-n", "-r", "-s", "-u", "--number", "--repeat", "--setup", "--unit"}))
        code = [*arguments.values(frozenset({"-s", "--setup"})), *arguments.operands]
        text = values.joined(*(item for line in code for item in (line, values.text("\n"))))
        read_python(machine, text, state, what=f"{python_name} -m timeit")
    elif module in _RUNNING_SCRIPTS:
        valued = frozenset({"-o", "-s", "-c", "--outfile", "--sort"})
        python(machine, python_name, verbs.split(words, valued, ordered=True).operands, state)
    else:
        environment_programs.module(machine, python_name, module, words, state)


def other(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`node -e` and the like."""
    short = name.rpartition("/")[2]
    options = {
        "node": "-e --eval -p --print",
        "perl": "-e -E",
        "ruby": "-e",
        "php": "-r",
        "deno": "",
        "bun": "-e --eval",
    }[short]
    arguments = verbs.split(
        words, frozenset((options + " -I -M -r -C").split()) - {"-r" if short != "php" else ""}, ordered=False
    )
    codes = arguments.values(frozenset(options.split()))
    if short == "deno" and arguments.operands and values.known(arguments.operands[0]) == "eval":
        codes = arguments.operands[1:2]
    elif not codes and not arguments.operands and state.stdin is not None:
        codes = [state.stdin]
    for code in codes:
        literal_calls.read(machine, short, code, state)
    if short in {"perl", "ruby"} and any(option == "-i" for option, _ in arguments.options):
        for operand in arguments.operands:
            machine.emit(Act.CHANGE, operand, state, by=f"{short} -i")

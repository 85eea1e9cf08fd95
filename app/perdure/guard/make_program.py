"""`make`, where the text that is read holds its rules: from a pipe, a here-document, `--eval`, or a file just written.

Owns: rules, their commands, plain variables, and which rules a command line asks for. Does not own: a makefile that
lies on the disk, which is code that nobody has read here: classification asks about it. Of rules that are not asked
for, and behind conditions, it is not known whether they count.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Certainty
from perdure.domain.record import dataclass, field
from perdure.guard import values, verbs
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_VALUED = frozenset(
    {
        *("-f", "--file", "--makefile", "-C", "--directory", "-I", "--include-dir", "-o", "--old-file", "-W", "--eval"),
        *("--what-if", "-j=", "--jobs=", "-l=", "--load-average=", "-O=", "--output-sync=", "-E"),
    }
)
_FILES = frozenset({"-f", "--file", "--makefile"})
_NAMES = ("GNUmakefile", "makefile", "Makefile")
_LARGEST = 16_384
_ASSIGNED = late(r"\s*(?:(?:export|override|private)\s+)*([\w.-]+)\s*(?::{0,3}|\?|\+|!)=\s*(.*)", re.DOTALL)
_RULE = late(r"([^\s#:=][^:=#]*?)\s*::?(?!=)\s*([^;=#]*)(?:;(.*))?", re.DOTALL)
_CONDITION = late(r"\s*(?:-?include|sinclude|ifn?eq|ifn?def|define|vpath|load)\b")
_REFERENCE = late(r"\$(?:\$|\((?:shell\s+)?[^()]*\)|\{(?:shell\s+)?[^{}]*\}|.)")
_DEEPEST = 8


@dataclass(slots=True)
class _Rules:
    variables: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    conditions: bool = False

    def read(self, text: str) -> None:
        """Add the rules and variables of a text."""
        current: list[str] = []
        for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
            if line.startswith("\t"):
                for target in current:
                    self.commands[target].append(line.strip())
            elif _CONDITION.match(line):
                self.conditions = True
            elif (assigned := _ASSIGNED.fullmatch(line)) is not None:
                self.variables[assigned[1]] = assigned[2]
            elif (rule := _RULE.fullmatch(line)) is not None:
                current = rule[1].split()
                for target in current:
                    self.needs.setdefault(target, []).extend(rule[2].split())
                    self.commands.setdefault(target, []).extend([rule[3].strip()] if rule[3] else [])

    def asked(self, goals: list[str]) -> set[str]:
        """Return the targets that are made for some goals, or for the first target where there is none."""
        first = next((target for target in self.needs if not target.startswith(".")), "")
        reached: set[str] = set()
        pending = goals or [first]
        while pending:
            target = pending.pop()
            if target not in reached:
                reached.add(target)
                pending += self.needs.get(target, [])
        return reached


def run(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Note what the commands of rules do that the text holds."""
    arguments = verbs.split(words, _VALUED)
    for place in arguments.values(frozenset({"-C", "--directory"})):
        state = state.copy()
        state.directories = values.absolute(place, state.directories)
    rules = _Rules()
    for text in _texts(machine, name, arguments, state):
        machine.step(len(text) // 64 + 1)
        rules.read(text)
    goals: list[str] = []
    for word in arguments.operands:
        key, equals, value = (values.known(word) or "").partition("=")
        if equals:
            rules.variables[key.rstrip(":?+")] = value
        elif key:
            goals.append(key)
    asked = rules.asked(goals)
    for target, commands in rules.commands.items():
        sure = target in asked and not rules.conditions
        for command in commands:
            code = _expanded(machine, rules, command.lstrip("@-+ \t"), target, state, 0)
            with machine.under(Certainty.POSSIBLE if sure else Certainty.CONDITIONAL):
                machine.own_shell(code, state, f"{name}: {target}")
    for text in rules.variables.values():
        _expanded(machine, rules, text, "", state, 0)  # for the commands of `$(shell …)`


def _texts(machine: Machine, name: str, arguments: verbs.Arguments, state: State) -> list[str]:
    """Return the makefiles that the text itself holds."""
    found: list[Value] = list(arguments.values(frozenset({"--eval"})))
    named = arguments.values(_FILES)
    for word in named or [values.text(item) for item in _NAMES]:
        path = values.known(values.absolute(word, state.directories))
        if named and values.known(word) in {"-", "/dev/stdin"}:
            found += [state.stdin] if state.stdin is not None else []
        elif path is not None and path in state.files:
            found.append(state.files[path])
    texts: list[str] = []
    for value in found:
        known = values.texts(value)
        if known is None or any(len(text) > _LARGEST for text in known):
            machine.problem(f"{name}: the rules are not known before it runs")
        else:
            texts += known
    return texts


def _expanded(machine: Machine, rules: _Rules, text: str, target: str, state: State, depth: int) -> Value:
    """Return a text with its variables replaced; one that is not known is a hole."""
    machine.step()
    result, at = values.EMPTY, 0
    for match in _REFERENCE.finditer(text):
        inside = match[0][2:-1] if match[0][1] in "({" else match[0][1:]
        if inside == "$":
            piece = values.text("$")
        elif inside.startswith("shell "):
            machine.own_shell(_expanded(machine, rules, inside[6:], target, state, depth + 1), state, "make: shell")
            piece = values.unknown(match[0])
        elif inside == "@":
            piece = values.text(target)
        elif inside in rules.variables and depth < _DEEPEST:
            piece = _expanded(machine, rules, rules.variables[inside], target, state, depth + 1)
        else:
            piece = state.variable(inside) or values.unknown(match[0])
        result = values.joined(result, values.text(text[at : match.start()]), piece)
        at = match.end()
    return values.joined(result, values.text(text[at:]))

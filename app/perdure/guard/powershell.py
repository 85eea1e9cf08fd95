"""PowerShell: from its tree to effects.

Owns: variables, control flow, expressions, and how arguments are given to commands. Does not own: the grammar
(powershell_reader), what a cmdlet does (cmdlets), methods of .NET (dotnet), or programs (windows_programs). What is a
list is kept as everything that one of it may be; a script block, a table and the files of a directory have a mark in
the place of a text, by which they are found again. It has 500 lines and more because in PowerShell a
statement is an expression and an expression holds statements.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Act, Certainty, Pattern
from perdure.guard import (
    cmd_shell,
    cmdlet_arguments,
    cmdlets,
    dotnet,
    powershell_files,
    powershell_reader,
    values,
    windows_paths,
    windows_programs,
    windows_words,
)
from perdure.guard.machine import Machine
from perdure.guard.powershell_machine import PowerShell
from perdure.guard.powershell_tree import (
    Assign,
    Binary,
    Block,
    Branches,
    Chain,
    Command,
    Function,
    Index,
    Inner,
    Kind,
    Loop,
    Member,
    Node,
    Option,
    Pipeline,
    Quoted,
    Table,
    Unary,
    Variable,
)
from perdure.guard.state import State, join
from perdure.guard.tree import UnreadableError
from perdure.guard.values import Value

_ROUNDS = 2
_MOST_CALLS = 3
_CONSTANTS = {"true": "True", "false": "False", "null": "", "?": "True"}


def run(machine: Machine, text: str, state: State) -> State:
    """Note what a text for PowerShell does, and return what is known then."""
    try:
        body = powershell_reader.parse(text, machine.step)
    except UnreadableError as error:
        machine.problem(f"powershell: {error.reason}")
        return state
    shell = Shell(machine)
    _given, state = shell.body(body, state)
    return state


def code(machine: Machine, text: Value, state: State, what: str) -> None:
    """Note what code for PowerShell does in a process of its own, whatever it may be."""
    with machine.nested() as allowed, machine.under(Certainty.DEFINITE if len(text) == 1 else Certainty.POSSIBLE):
        for pieces in text:
            known = values.spelled(pieces)
            if known is None or not allowed:
                why = "the code is not known before it runs" if allowed else "code in strings is nested too deep"
                machine.problem(f"{what}: {why}")
                continue
            end = run(machine, known, state.copy())
            state.output = values.joined(state.output, end.output)


class Shell(PowerShell):
    """One PowerShell process."""

    def __init__(self, machine: Machine) -> None:
        """Begin with nothing known; the machine keeps the effects."""
        super().__init__(machine)
        self._functions: dict[str, list[Block]] = {}
        self._calls: list[str] = []

    # Statements.

    def body(self, body: tuple[Node, ...], state: State) -> tuple[list[Value], State]:
        """Interpret statements; return what they give."""
        given: list[Value] = []
        for node in body:
            items, state = self.statement(node, state)
            given += items
        return given, state

    def statement(self, node: Node, state: State) -> tuple[list[Value], State]:
        """Interpret a statement; return what it gives, and what is known then."""
        self.machine.step()
        if isinstance(node, Assign):
            self._assign(node, state)
            return [], state
        if isinstance(node, Chain):
            left, state = self.statement(node.left, state)
            with self.machine.under(Certainty.POSSIBLE):
                right, after = self.statement(node.right, state.copy())
            return left + right, join(after, state) or state
        if isinstance(node, Branches):
            return self._branches(node, state)
        if isinstance(node, Loop):
            return self._loop(node, state)
        if isinstance(node, Function):
            self._functions.setdefault(node.name, []).insert(0, node.block)
            return [], state
        if isinstance(node, Pipeline):
            return self._pipeline(node.elements, state), state
        if isinstance(node, Inner):
            return self.body(node.body, state)
        return self._pipeline((node,), state), state

    def _assign(self, node: Assign, state: State) -> None:
        items, _ = self.statement(node.value, state)
        value = values.union(*items) if items else values.EMPTY
        targets: list[Node] = [node.target]
        while targets:
            target = targets.pop()
            if isinstance(target, Binary):
                targets += [target.left, target.right]
            elif isinstance(target, Unary):
                targets.append(target.operand)
            elif isinstance(target, Variable):
                before = self.variable(target.name, state)
                if node.operator == "+=":
                    several = len(before) > 1 or self.thing(before) is not None
                    new = (
                        values.union(before, value)
                        if several
                        else values.union(values.joined(before, value), before, value)
                    )
                elif node.operator == "=":
                    new = value
                elif node.operator == "??=":
                    new = values.union(before, value)
                else:
                    new = values.unknown(f"${target.name}")
                self.assign(target.name, new, state)
            else:
                self.evaluate(target, state)

    def assign(self, name: str, value: Value, state: State) -> None:
        """Set a variable of the shell, or with ``env:`` one of the environment."""
        if name.startswith("env:"):
            state.variables[name[4:].upper()] = None if value == values.EMPTY else value
        else:
            state.variables[f"${name}"] = value

    def variable(self, name: str, state: State) -> Value:
        """Return what a variable holds."""
        if name.startswith("env:"):
            held = cmd_shell.variable(name[4:].upper(), state)
            return values.EMPTY if held is None else held
        if f"${name}" in state.variables:
            return state.variables[f"${name}"] or values.EMPTY
        if name in _CONSTANTS:
            return values.text(_CONSTANTS[name])
        if name == "pwd":
            return windows_paths.spelled(state.directories)
        if name == "home":
            return windows_paths.spelled(values.text(state.session.home))
        if name == "pid":
            return ((values.DIGITS,),)
        if name in {"_", "psitem", "args", "input", "profile", "psscriptroot", "pscommandpath", "matches", "error"}:
            return values.unknown(f"${name}")
        return values.EMPTY if state.session.complete else values.union(values.EMPTY, values.unknown(f"${name}"))

    def _branches(self, node: Branches, state: State) -> tuple[list[Value], State]:
        given: list[Value] = []
        for condition in node.conditions:
            self.evaluate(condition, state)
        end: State | None = state
        with self.machine.under(Certainty.POSSIBLE):
            for body in node.bodies:
                items, after = self.body(body, state.copy())
                given += items
                end = join(end, after)
        return given, end or state

    def _loop(self, node: Loop, state: State) -> tuple[list[Value], State]:
        items = self.evaluate(node.items, state) if node.items is not None else []
        if node.items is not None:
            if not items:
                return [], state
            self.assign(node.name, values.union(*items), state)
        given: list[Value] = []
        for _ in range(_ROUNDS):
            for condition in node.conditions:
                _, state = self.statement(condition, state)
            if node.items is not None:
                self.assign(node.name, values.union(*items), state)
            with self.machine.under(Certainty.POSSIBLE):
                given, after = self.body(node.body, state.copy())
            state = join(after, state) or state
        return given, state

    def _pipeline(self, elements: tuple[Node, ...], state: State) -> list[Value]:
        given: list[Value] | None = None
        for number, element in enumerate(elements):
            if isinstance(element, Command):
                given = self.command(element, state, given)
            else:
                given = self.evaluate(element, state)
            if number == len(elements) - 1 and not isinstance(element, Inner):
                self._print(given, state)
        return given or []

    def _print(self, given: list[Value], state: State) -> None:
        if given and all(self.thing((pieces,)) is None for item in given for pieces in item):
            for item in given[:8]:
                state.output = values.joined(state.output, item, values.text("\n"))

    # Commands.

    def command(self, node: Command, state: State, given: list[Value] | None) -> list[Value]:
        """Interpret a command; return what it gives."""
        result = self.evaluate(node.head, state) if node.call == "=" else self._called(node, state, given)
        for operator, target in node.redirects:
            for item in self.evaluate(target, state):
                path = powershell_files.file(item, state, literal=True)
                if path is None or re.search(r"(?i)(?:^|/)nul$", values.known(path) or ""):
                    continue
                act = Act.CHANGE if operator.endswith(">>") else Act.OVERWRITE
                self.machine.emit(act, path, state, by=operator, through_link=True)
                known = values.known(path)
                if known is not None and operator in {">", ">>"}:
                    text = values.joined(*[part for each in result for part in (each, values.text("\n"))])
                    self.machine.write(known, text, state, appends=operator == ">>")
        return [] if node.redirects else result

    def _called(self, node: Command, state: State, given: list[Value] | None) -> list[Value]:
        heads = (
            self.each(self.evaluate(node.head, state))
            if not isinstance(node.head, Quoted)
            else [self.word(node.head, state)]
        )
        result: list[Value] = []
        for head in heads or [values.unknown("a command")]:
            thing = self.thing(head)
            if isinstance(thing, Block):
                result += self.block(
                    thing,
                    state,
                    given,
                    [self.value(part, state) for part in node.arguments if not isinstance(part, Option)],
                )
                continue
            names = values.texts(head)
            if names is None or thing is not None:
                words = [self.value(part, state) for part in node.arguments if not isinstance(part, Option)]
                paths = tuple(powershell_files.file(word, state, literal=False) or word for word in words)
                self.machine.emit(
                    Act.RUN,
                    head if thing is None else values.unknown("a thing"),
                    state,
                    by=values.shown(head),
                    arguments=paths,
                )
                result.append(values.unknown("a command"))
                continue
            for name in names:
                result += self.named(name, node.arguments, state, given)
        return result

    def named(self, name: str, arguments: tuple[Node, ...], state: State, given: list[Value] | None) -> list[Value]:
        """Interpret a command by its name."""
        lower = name.lower().rpartition("\\")[2] if re.match(r"(?i)microsoft\.powershell", name) else name.lower()
        for _ in range(4):
            if f"alias:{lower}" not in state.aliases:
                break
            lower = state.aliases[f"alias:{lower}"].lower()
        if lower in self._functions and self._calls.count(lower) < _MOST_CALLS:
            self._calls.append(lower)
            given_arguments = [
                self.value(part.value if isinstance(part, Option) and part.value else part, state) for part in arguments
            ]
            result: list[Value] = []
            for block in self._functions[lower]:
                result += self.block(block, state, given, given_arguments)
            self._calls.pop()
            return result
        canonical = cmdlets.known().aliases.get(lower, lower)
        cmdlet = cmdlets.known().table.get(canonical)
        if cmdlet is not None:
            bound = self.bind(cmdlet, arguments, state)
            self.machine.emit(Act.RUN, values.text(cmdlet.name), state, by=cmdlet.name, arguments=bound.words(state))
            cmdlets.calculate(self, bound, state, given)
            return cmdlet.act(self, bound, state, given)
        return self._program(name, arguments, state, given)

    def _program(self, name: str, arguments: tuple[Node, ...], state: State, given: list[Value] | None) -> list[Value]:
        words: list[Value] = []
        for part in arguments:
            if isinstance(part, Option):
                # What is a parameter to a cmdlet is a word to a program.
                written = values.text(part.name if part.value is None else f"{part.name}:")
                words.append(written if part.value is None else values.joined(written, self.value(part.value, state)))
            elif isinstance(part, Variable) and part.splat:
                words.append(values.unknown(f"@{part.name}"))
            elif isinstance(part, Block):
                words.append(self.keep(part))
            else:
                words += self.items(part, state)
        path = values.known(windows_words.place(state, values.text(name), globs=False))
        if path is not None and path in state.files and path.lower().endswith(".ps1"):
            code(self.machine, state.files[path], state, path)
            return []
        child = state.copy()
        child.output = values.EMPTY
        child.stdin = (
            values.joined(*[part for item in given for part in (item, values.text("\n"))]) if given else state.stdin
        )
        blocks = [thing for word in words if isinstance(thing := self.thing(word), Block)]
        if blocks and re.fullmatch(r"(?i)(?:.*[\\/])?(?:powershell|pwsh)(?:\.exe)?", name):
            for block in blocks:
                self.block(block, child, None, [])
            return [child.output]
        with self.machine.under(Certainty.CONDITIONAL):  # whoever is given code may run it
            for block in blocks:
                self.block(block, state.copy(), given or [values.unknown("$_")], [])
        windows_programs.run(self.machine, name, words, child)
        state.variables |= {key: held for key, held in child.variables.items() if key.startswith("drive:")}
        return [child.output] if child.output != values.EMPTY else []

    def block(self, block: Block, state: State, given: list[Value] | None, arguments: list[Value]) -> list[Value]:
        """Interpret a script block with what comes in as ``$_``."""
        self.machine.step(2)
        inner = state
        before = {name: state.variables.get(name) for name in ("$_", "$psitem", "$args", "$input")}
        if given is not None:
            held = values.union(*given) if given else values.EMPTY
            inner.variables["$_"] = inner.variables["$psitem"] = inner.variables["$input"] = held
        inner.variables["$args"] = values.union(*arguments) if arguments else values.EMPTY
        for number, name in enumerate(block.parameters):
            held = values.unknown(f"${name}") if not arguments else values.union(*arguments)
            inner.variables[f"${name}"] = (
                arguments[number] if number < len(arguments) and len(arguments) == len(block.parameters) else held
            )
        result, after = self.body(block.body, inner.copy())
        state.variables = after.variables
        state.directories, state.aliases, state.output, state.stack = (
            after.directories,
            after.aliases,
            after.output,
            after.stack,
        )
        for name, held_before in before.items():
            if held_before is None:
                state.variables.pop(name, None)
            else:
                state.variables[name] = held_before
        return result

    def text_of_code(self, items: list[Value], state: State, what: str) -> list[Value]:
        """Interpret code that is given as text, in this shell; a script block is code too."""
        result: list[Value] = []
        for item in self.each(items):
            thing = self.thing(item)
            if isinstance(thing, Block):
                result += self.block(thing, state, None, [])
                continue
            known = values.known(item)
            with self.machine.nested() as allowed:
                if known is None or not allowed:
                    self.machine.problem(f"{what}: the code is not known before it runs")
                    state.tainted = True
                    continue
                try:
                    body = powershell_reader.parse(known, self.machine.step)
                except UnreadableError as error:
                    self.machine.problem(f"{what}: {error.reason}")
                    continue
                with self.machine.under(Certainty.DEFINITE):
                    given, after = self.body(body, state.copy())
                state.variables, state.directories, state.aliases = after.variables, after.directories, after.aliases
                result += given
        return result

    def block_of(self, text: Value) -> Value:
        """Return a text that becomes a script block; one that is not known stays open."""
        known = values.known(text)
        if known is None:
            return values.unknown("[scriptblock]")
        try:
            return self.keep(Block(powershell_reader.parse(known, self.machine.step)))
        except UnreadableError as error:
            self.machine.problem(f"[scriptblock]: {error.reason}")
            return values.unknown("[scriptblock]")

    def bind(
        self, cmdlet: cmdlet_arguments.Cmdlet, arguments: tuple[Node, ...], state: State
    ) -> cmdlet_arguments.Bound:
        """Return the arguments of a cmdlet by its parameters."""
        bound = cmdlet_arguments.Bound(cmdlet)
        waiting: str | None = None
        for part in arguments:
            if isinstance(part, Option):
                name, takes = cmdlet.parameter(part.name[1:])
                if part.value is not None:
                    bound.give(name, self.items(part.value, state))
                    waiting = None
                elif takes:
                    waiting = name
                else:
                    bound.switches.add(name)
                continue
            if isinstance(part, Variable) and part.splat:
                self._splat(bound, part, state)
                continue
            items = self.items(part, state)
            if waiting is not None:
                bound.give(waiting, items)
                waiting = None
            else:
                bound.positional.append(items)
        return bound

    def _splat(self, bound: cmdlet_arguments.Bound, part: Variable, state: State) -> None:
        held = self.variable(part.name, state)
        thing = self.thing(held)
        if not isinstance(thing, Table):
            bound.unknown = True
            if len(held) >= 1 and all(values.spelled(pieces) is not None for pieces in held) and held != values.EMPTY:
                bound.positional.append([held])
            return
        for key, node in thing.items:
            name, takes = bound.cmdlet.parameter(key)
            items = self.evaluate(node, state)
            if takes:
                bound.give(name, items)
            elif values.known(values.union(*items) if items else values.EMPTY) != "False":
                bound.switches.add(name)

    # Expressions.

    def value(self, node: Node, state: State) -> Value:
        """Return all that an expression may be, as one value."""
        items = self.items(node, state)
        return values.union(*items) if items else values.EMPTY

    def items(self, node: Node, state: State) -> list[Value]:
        """Return what an argument gives, each item by itself."""
        if isinstance(node, Option):
            return [values.text(node.name)]
        if isinstance(node, Binary) and node.operator == ",":
            return self.items(node.left, state) + self.items(node.right, state)
        return self.evaluate(node, state)

    def word(self, node: Quoted, state: State) -> Value:
        """Return a string or a bare word."""
        parts: list[Value] = []
        for part in node.parts:
            if isinstance(part, str):
                parts.append(values.text(part))
                continue
            items = self.evaluate(part, state)
            held = values.union(*items) if items else values.EMPTY
            if len(items) > 1:
                held = values.union(held, values.between(items, values.text(" ")))
            parts.append(
                values.unknown("$…")
                if any(self.thing((p,)) is not None for p in held) and len(node.parts) > 1
                else held
            )
        return values.joined(*parts)

    def evaluate(self, node: Node | None, state: State) -> list[Value]:  # noqa: C901  # one line for each kind of node
        """Return what an expression gives."""
        self.machine.step()
        if node is None:
            return []
        if isinstance(node, Quoted):
            return [self.word(node, state)]
        if isinstance(node, Variable):
            held = self.variable(node.name, state)
            return [] if held == values.EMPTY else self.each([held])
        if isinstance(node, Inner):
            given, after = self.body(node.body, state)
            state.variables, state.directories = after.variables, after.directories
            return given
        if isinstance(node, Block | Table):
            return [self.keep(node)]
        if isinstance(node, Binary):
            return self._binary(node, state)
        if isinstance(node, Unary):
            return self._unary(node, state)
        if isinstance(node, Index):
            self.evaluate(node.index, state)
            items = self.evaluate(node.of, state)
            tables = [thing for item in items if isinstance(thing := self.thing(item), Table)]
            if tables:
                return [found for table in tables for _, inner in table.items for found in self.evaluate(inner, state)]
            return items if len(items) > 1 else [values.unknown("[…]") if len(item) == 1 else item for item in items]
        if isinstance(node, Member):
            return dotnet.member(self, node, state)
        if isinstance(node, Kind):
            return [values.unknown(f"[{node.name}]")]
        if isinstance(node, Command):
            return self.command(node, state, None)
        if isinstance(node, Option):
            return [values.text(node.name)]
        given, _ = self.statement(node, state)
        return given

    def _binary(self, node: Binary, state: State) -> list[Value]:  # noqa: C901  # one branch for each operator
        left, right = self.evaluate(node.left, state), self.evaluate(node.right, state)
        if node.operator == ",":
            return left + right
        one = values.union(*left) if left else values.EMPTY
        other = values.union(*right) if right else values.EMPTY
        if node.operator == "+":
            if len(left) > 1 or any(self.thing(item) is not None for item in left):
                return left + right
            return [values.joined(one, other)]
        if node.operator == "-f":
            return [dotnet.formatted(one, right)]
        if node.operator == "-join":
            return [values.between(left, other)] if len(left) <= 1 or len(other) == 1 else [values.unknown("-join")]
        if node.operator in {"-replace", "-creplace", "-ireplace"}:
            return [dotnet.replaced(one, right, plain=False)]
        if node.operator in {"-split", "-isplit", "-csplit"}:
            return dotnet.pieces(one, values.known(other))
        if node.operator == "*":
            known, times = values.known(one), values.known(other)
            if known is not None and times is not None and times.isdigit() and int(times) * len(known) < 4096:
                return [values.text(known * int(times))]
        if node.operator == "??":
            return left + right
        if node.operator == "-as":
            return left
        if node.operator == "..":
            return [((values.DIGITS,),)]
        return [
            ((Pattern("*"),),)
            if node.operator in {"-", "/", "%"}
            else values.union(values.text("True"), values.text("False"))
        ]

    def _unary(self, node: Unary, state: State) -> list[Value]:
        items = self.evaluate(node.operand, state)
        operator = node.operator
        if operator in {
            ",",
            "string",
            "object",
            "array",
            "string[]",
            "object[]",
            "io.fileinfo",
            "io.directoryinfo",
            "uri",
        }:
            return items
        if operator == "-join":
            return [values.joined(*items)] if items else []
        if operator in {"-split", "-isplit", "-csplit"}:
            return dotnet.pieces(values.union(*items) if items else values.EMPTY, None)
        if operator in {"char", "char[]"}:
            return dotnet.characters(items)
        if operator == "scriptblock":
            return items
        if operator == "void":
            return []
        if operator in {"!", "-not"}:
            return [values.union(values.text("True"), values.text("False"))]
        if operator in {"int", "long", "double", "-", "+", "++", "--", "byte"}:
            known = [values.known(item) for item in items]
            if all(item is not None and item.isdigit() for item in known) and operator in {"int", "+", "long", "byte"}:
                return items
            return [((values.DIGITS,),)]
        return (
            [values.unknown(f"[{operator}]")]
            if not items
            else [
                item if self.thing(item) is not None else values.union(item, values.unknown(f"[{operator}]"))
                for item in items
            ]
        )

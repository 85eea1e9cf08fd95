"""From a tree to effects: a shell that runs nothing.

Owns: control flow, processes, redirects, functions, code in strings. Does not own: what single commands do (builtins,
programs), how words come out (expand). Where a way may or may not be taken, both are followed; a loop is followed until
nothing new is learned, and what still changes then is unknown. It has 500 lines and more because a shell's control
flow, processes and functions share the ways by which a command ends.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Spelling, Text
from perdure.guard import braces, builtins, expand, programs, values
from perdure.guard.machine import Machine, Outcome, numbered
from perdure.guard.state import State, join, same, widened
from perdure.guard.tree import (
    Aside,
    Assignment,
    Branch,
    Case,
    Chain,
    Channel,
    Command,
    Declaration,
    Expression,
    ForEach,
    Function,
    Group,
    Loop,
    Negation,
    Pipe,
    Redirect,
    Redirected,
    Script,
    Simple,
    UnreadableError,
)
from perdure.guard.values import Value

_CODE_IN_NAMES = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS4"})
_TELLING = frozenset({"pushd", "popd"})
_TELLING_ALONE = frozenset(
    {"alias", "declare", "export", "local", "readonly", "set", "shopt", "trap", "typeset", "unalias"}
)
"""Builtins that print something, always or when they are given no name."""
_ROUNDS = 3
_ACTIVE_CALLS = 3
_NO_FILE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/fd/")


class Interpreter(Machine):
    """The control flow of a shell over values that may be open."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self._ends: list[State] = []
        self._returns: list[State] = []
        self._escapes: list[State] = []
        self._active: list[tuple[str, tuple[int, int], int]] = []
        self._processes = 0
        self._ways_out = 0
        self._locals: list[dict[str, Value | None]] = []

    def process(self, script: Script, state: State) -> State:
        outer = self._ends, self._returns, self._escapes
        self._ends, self._returns, self._escapes = [], [], []
        self._processes += 1
        try:
            last = self._script(script, state)
            end: State | None = None
            for way in [*self._ends, *self._returns, *self._escapes, *([last] if last else [])]:
                end = join(end, way)
            if end is None:  # it never ends, or nothing is known of how
                end = state.copy()
            self._trapped(end)
            return end
        finally:
            self._processes -= 1
            self._ends, self._returns, self._escapes = outer

    def _trapped(self, end: State) -> None:
        """Interpret the code that runs at the end of a process."""
        done: dict[Value, None] = {}
        # A trap may set another one, and one of several may have taken another's place.
        while pending := [trap for trap in end.traps if trap not in done]:
            end.traps = ()
            for trap in pending:
                done[trap] = None
                state = end if len(pending) == 1 else end.copy()
                self.code(trap, state, what="trap")
                end.traps = tuple(dict.fromkeys((*end.traps, *state.traps)))

    def _script(self, script: Script, state: State | None) -> State | None:
        """Interpret commands one after the other; None where the end is not reached."""
        for command in script:
            if state is None:
                return None
            outcome = self.run(command, state)
            state = join(outcome.success, outcome.failure)
        return state

    def run(self, command: Command, state: State) -> Outcome:
        self.step()
        return self._KINDS[type(command)](self, command, state)

    def _whole(self, script: Script, state: State) -> Outcome:
        """Interpret commands of which the last one decides how the whole ended."""
        if not script:
            return Outcome(state, state)
        before = self._script(script[:-1], state)
        return Outcome(None, None) if before is None else self.run(script[-1], before)

    def _group(self, command: Group, state: State) -> Outcome:
        if not command.subshell:
            return self._whole(command.body, state)
        self._own(command.body, state)
        return Outcome(state, state)

    def _own(self, body: Script, state: State, stdin: Value | None = None) -> None:
        """Interpret a subshell; only what it prints reaches the state."""
        child = state.copy()
        child.output, child.traps = values.EMPTY, ()
        if stdin is not None:
            child.stdin = stdin
        end = self.process(body, child)
        state.output = values.joined(state.output, end.output)

    def _pipe(self, command: Pipe, state: State) -> Outcome:
        child = state.copy()
        child.output, child.traps = values.EMPTY, ()
        outer, self.fallible = self.fallible, False
        end = self.process((command.left,), child)
        text = values.union(end.output, values.EMPTY) if self.fallible else end.output
        self.fallible = self.fallible or outer
        self._own((command.right,), state, text)
        return Outcome(state, state)

    def _chain(self, command: Chain, state: State) -> Outcome:
        left = self.run(command.left, state)
        go, stay = (left.success, left.failure) if command.on_success else (left.failure, left.success)
        if go is None:
            return left
        # Where the first command cannot end the other way, the second one runs for sure.
        with self.under(Certainty.DEFINITE if stay is None else Certainty.POSSIBLE):
            right = self.run(command.right, go.copy())
        if command.on_success:
            return Outcome(right.success, join(stay, right.failure))
        return Outcome(join(stay, right.success), right.failure)

    def _negation(self, command: Negation, state: State) -> Outcome:
        outcome = self.run(command.command, state)
        return Outcome(outcome.failure, outcome.success)

    def _aside(self, command: Aside, state: State) -> Outcome:
        self._own((command.command,), state)
        return Outcome(state, None)

    def _branch(self, command: Branch, state: State) -> Outcome:
        current: State | None = state
        success: State | None = None
        failure: State | None = None
        for condition, body in command.arms:
            if current is None:
                break
            decided = self._whole(condition, current)
            if decided.success is not None:
                with self.under(Certainty.POSSIBLE if decided.failure is not None else Certainty.DEFINITE):
                    taken = self._whole(body, decided.success.copy())
                success, failure = join(success, taken.success), join(failure, taken.failure)
            current = decided.failure
        if current is not None:
            with self.under(Certainty.POSSIBLE):
                taken = self._whole(command.otherwise, current.copy())
            success, failure = join(success, taken.success), join(failure, taken.failure)
        return Outcome(success, failure)

    def _loop(self, command: Loop, state: State) -> Outcome:
        return self._repeat(state, (*command.condition,), command.body)

    def _for_each(self, command: ForEach, state: State) -> Outcome:
        if command.words is None:
            items = list(state.positionals) if state.positionals is not None else [values.unknown(f"${command.name}")]
        else:
            items = [field for word in command.words for field in expand.fields(word, state, self)]
        if not items:
            return Outcome(state, state)
        self.counted(values.union(*items))
        state.assign(command.name, values.single(values.union(*items)))
        certain = len(items) == 1 and values.known(items[0]) is not None  # a glob may come out as no turn at all
        return self._repeat(state, (), command.body, name=command.name, certain=certain)

    def _repeat(
        self, state: State, condition: Script, body: Script, *, name: str = "", certain: bool = False
    ) -> Outcome:
        outer, self._escapes = self._escapes, []
        chosen = state.variables.get(name) if name else None
        known: State = state
        try:
            for round_number in range(_ROUNDS + 1):
                current: State | None = known.copy()
                if current is not None and condition:
                    current = self._script(condition, current)
                if current is None:
                    break
                after_condition = current.copy()
                with self.under(Certainty.DEFINITE if certain and round_number == 0 else Certainty.POSSIBLE):
                    after = self._script(body, current)
                for way in [*self._escapes, after]:
                    after_condition = join(after_condition, way) or after_condition
                self._escapes = []
                if name and chosen is not None:
                    after_condition.variables[name] = chosen
                before, known = known, join(known, after_condition) or known
                if same(known, before):
                    break
                known = known if round_number < _ROUNDS - 1 else widened(before, known)
                if name and chosen is not None:
                    known.variables[name] = chosen
        finally:
            self._escapes = outer
        return Outcome(known, known)

    def _case(self, command: Case, state: State) -> Outcome:
        expand.value(command.word, state, self)
        after: State | None = state.copy()  # no pattern may match
        through: State | None = None
        for patterns, body, falls in command.arms:
            for pattern in patterns:
                expand.value(pattern, state, self)
            with self.under(Certainty.POSSIBLE):
                end = self._script(body, join(through, state.copy()))
            after = join(after, end)
            through = end.copy() if falls and end is not None else None
        return Outcome(after, after)

    def _function(self, command: Function, state: State) -> Outcome:
        bodies: tuple[Command, ...] = (command.body,)
        if self.certainty is not Certainty.DEFINITE:
            bodies = tuple(dict.fromkeys((*state.functions.get(command.name, ()), command.body)))
        state.functions[command.name] = bodies
        return Outcome(state, None)

    def _expression(self, command: Expression, state: State) -> Outcome:
        for word in command.words:
            self.counted(expand.value(word, state, self))
        for name in command.assigned:
            state.assign(name, ((values.DIGITS,),))
        return Outcome(state, state)

    def _redirected(self, command: Redirected, state: State) -> Outcome:
        with self.at(command.span):
            return self._with_redirects(command.redirects, state, lambda: self.run(command.command, state))

    def _declaration(self, command: Declaration, state: State) -> Outcome:
        with self.at(command.span):

            def act() -> Outcome:
                items: list[Assignment | Value] = []
                for given in command.items:
                    if isinstance(given, Assignment):
                        items.append(given)
                    else:
                        items += expand.fields(given, state, self)
                named = [values.text(item.name) if isinstance(item, Assignment) else item for item in items]
                builtins.attributes(self, command.keyword, named, state)
                if command.keyword in {"local", "declare", "typeset"}:
                    self.local(
                        state, [item.name if isinstance(item, Assignment) else values.known(item) for item in items]
                    )
                exports = command.keyword == "export" or values.text("-x") in items
                for item in items:
                    if isinstance(item, Assignment):
                        self._assign(item, state, declared=True)
                        state.exported |= {item.name} if exports else set()
                    else:
                        builtins.declare(item, state)
                return Outcome(state, state)

            return self._with_redirects(command.redirects, state, act)

    def _simple(self, command: Simple, state: State) -> Outcome:
        with self.at(command.span):
            arguments = [field for word in command.words for field in expand.fields(word, state, self)]
            if not arguments:
                for assignment in command.assignments:
                    self._assign(assignment, state)
                return self._with_redirects(command.redirects, state, lambda: self._nothing(command, state))
            if not command.assignments:
                return self._with_redirects(command.redirects, state, lambda: self.call(arguments, state))
            names = [assignment.name for assignment in command.assignments]
            before = {name: state.variables[name] for name in names if name in state.variables}
            exported = state.exported
            state.exported |= frozenset(names)
            for assignment in command.assignments:
                self._assign(assignment, state)
            outcome = self._with_redirects(command.redirects, state, lambda: self.call(arguments, state))
            for way in {id(way): way for way in (outcome.success, outcome.failure) if way is not None}.values():
                for name in names:
                    way.variables.pop(name, None)
                way.variables.update(before)
                way.exported = exported
            return outcome

    def _nothing(self, command: Simple, state: State) -> Outcome:
        """Return what is known after redirects alone: in a substitution, one that reads prints what it reads."""
        if (
            not command.assignments
            and state.stdin is not None
            and any(item.operator == "<" for item in command.redirects)
        ):
            state.output = values.joined(state.output, state.stdin)
        return Outcome(state, state)

    def _assign(self, item: Assignment, state: State, *, declared: bool = False) -> None:
        if item.elements is not None:
            elements = dict(state.arrays.get(item.name) or {}) if item.append else {}
            place = max((int(key) for key in elements if key.isdigit()), default=-1) + 1
            all_known = True
            for index, word in item.elements:
                if index is None:
                    for field in expand.fields(word, state, self):
                        elements[str(place)] = field
                        place += 1
                    continue
                key = values.known(expand.value(index, state, self))
                all_known = all_known and key is not None
                elements[key or ""] = expand.value(word, state, self)
                place = int(key) + 1 if key is not None and key.isdigit() else place
            several = any(values.several(element) for element in elements.values())
            if several:
                elements = {str(place): held for place, held in enumerate(values.placed(list(elements.values())))}
            for element in elements.values():
                self.counted(element)
            state.arrays[item.name] = elements if all_known else None
            state.variables.pop(item.name, None)
        elif item.value is None:
            if not declared and item.name not in state.variables:
                state.variables[item.name] = values.EMPTY
        elif item.index is not None:
            key = values.known(expand.value(item.index, state, self))
            held = state.arrays.get(item.name, {})
            new = expand.value(item.value, state, self, assigned=True)
            self.counted(new)
            state.arrays[item.name] = {**held, key: new} if held is not None and key is not None else None
        else:
            new = expand.value(item.value, state, self, assigned=True)
            self.counted(new)
            if declared and braces.in_word(item.value):  # here, unlike elsewhere, they are expanded
                new = values.unknown(f"${item.name}")
            state.assign(item.name, new, append=item.append)
            if item.name in _CODE_IN_NAMES:
                self._hook(item.name, new, state)

    def _hook(self, name: str, held: Value, state: State) -> None:
        """Interpret what a variable makes a shell run by itself, where that shell is asked to."""
        with self.under(Certainty.CONDITIONAL):
            if name in {"BASH_ENV", "ENV"}:
                if any(set("$`") & set(text) for text in values.texts(held) or ()):
                    self.code(values.joined(values.text(': "'), held, values.text('"')), state.copy(), what=name)
                text = self.contents(values.known(values.absolute(held, state.directories)), state)
                if values.texts(text) is not None:
                    self.code(text, state.copy(), what=name)
            elif values.texts(held) is not None:
                quoted = values.joined(values.text(': "'), held, values.text('"'))
                self.code(held if name == "PROMPT_COMMAND" else quoted, state.copy(), what=name)

    def _with_redirects(self, redirects: tuple[Redirect, ...], state: State, act: Callable[[], Outcome]) -> Outcome:
        if not redirects:
            return act()
        stdin, output = state.stdin, state.output
        files: list[tuple[str, bool]] = []
        captured = False
        for redirect in redirects:
            self.step()
            if redirect.operator in {"<<", "<<-"}:
                state.stdin = expand.value(redirect.document or redirect.target, state, self)
            elif redirect.operator == "<<<":
                state.stdin = values.joined(expand.value(redirect.target, state, self), values.text("\n"))
            else:
                for target in expand.fields(redirect.target, state, self):
                    path = self._redirect(redirect, target, state)
                    if redirect.operator not in {"<", "<&"} and redirect.descriptor in {"", "1"}:
                        captured = captured or values.known(target) not in {"1", "/dev/stdout", "/dev/fd/1"}
                        files += [(path, redirect.operator in {">>", "&>>"})] if path is not None else []
        if captured:
            state.output = values.EMPTY
        outcome = act()
        for way in {id(way): way for way in (outcome.success, outcome.failure) if way is not None}.values():
            way.stdin = stdin
            if captured:
                for path, appends in files:
                    self.write(path, way.output, way, appends=appends)
                way.output = output
        return outcome

    def _redirect(self, redirect: Redirect, target: Value, state: State) -> str | None:
        """Note what a redirect does to a file, and return the file's path where it is known."""
        operator = redirect.operator
        name = values.known(target)
        if operator in {">&", "<&"} and name is not None and (name.rstrip("-").isdigit() or name == "-"):
            return None
        path = values.known(values.absolute(target, state.directories))
        if name is not None and name.startswith(_NO_FILE):
            if operator == "<" and redirect.descriptor in {"", "0"}:
                state.stdin = state.files.get(path or "", values.unknown(name))
            return None
        if operator in {"<", "<&"}:
            if redirect.descriptor in {"", "0"}:
                state.stdin = self.contents(path, state)
            self.emit(Act.READ, target, state, by=operator, through_link=True)
            return None
        act = Act.CHANGE if operator in {">>", "&>>", "<>"} else Act.OVERWRITE
        self.emit(act, target, state, by=f"{redirect.descriptor}{operator}", through_link=True)
        return path

    def printed(self, body: Script, state: State) -> Value:
        child = state.copy()
        child.output, child.traps = values.EMPTY, ()
        outer, self.fallible = self.fallible, False
        end = self.process(body, child)
        result: list[Spelling] = [()] if self.fallible else []
        self.fallible = self.fallible or outer
        for pieces in end.output:
            last = pieces[-1] if pieces else None
            result.append(
                values.merged((*pieces[:-1], Text(last.text.rstrip("\n")))) if isinstance(last, Text) else pieces
            )
        return tuple(dict.fromkeys(result))

    def channel(self, part: Channel, state: State) -> Value:
        child = state.copy()
        child.output, child.traps = values.EMPTY, ()
        child.stdin = None if part.reads else values.unknown("a pipe")
        end = self.process(part.body, child)
        path = f"/dev/fd/{63 - len(state.files) % 50}"
        if part.reads:
            state.files[path] = end.output
        return values.text(path)

    def leave(self, state: State) -> None:
        self._ways_out += 1
        self._ends.append(state.copy())

    def come_back(self, state: State) -> None:
        self._ways_out += 1
        self._returns.append(state.copy())

    def escape(self, state: State) -> None:
        self._ways_out += 1
        self._escapes.append(state.copy())

    def call(self, arguments: list[Value], state: State, *, external: bool = False) -> Outcome:
        self.step()
        if not arguments:
            return Outcome(state, state)
        names = values.texts(arguments[0])
        if names is None:
            programs.unknown_command(self, arguments, state)
            if not external:
                state.forget()
            return Outcome(state, state)
        if len(names) == 1:
            return self._named(names[0], arguments, state, external=external)
        success: State | None = None
        failure: State | None = None
        with self.under(Certainty.POSSIBLE):
            for name in names:
                outcome = self._named(name, [values.text(name), *arguments[1:]], state.copy(), external=external)
                success, failure = join(success, outcome.success), join(failure, outcome.failure)
        return Outcome(success, failure)

    def _named(self, name: str, arguments: list[Value], state: State, *, external: bool) -> Outcome:
        if not external:
            if name in state.aliases:
                self._alias(name, arguments, state.copy())
            if name in state.functions:
                return self._call_function(name, arguments, state)
            builtin = builtins.TABLE.get(name)
            if builtin is not None:
                if name not in {"echo", "eval", "trap", "alias"} and (
                    name != "printf" or values.text("-v") in arguments
                ):
                    self.counted(tuple(pieces for word in arguments for pieces in word))
                self.emit(Act.RUN, arguments[0], state, by=name, arguments=tuple(arguments[1:]))
                if name in _TELLING or (
                    name in _TELLING_ALONE and all(values.starts_with(w, "-") for w in arguments[1:])
                ):
                    state.output = values.joined(state.output, values.unknown(name))
                return builtin(self, arguments, state)
        if name in {"test", "["}:
            self.counted(tuple(pieces for word in arguments for pieces in word))
        programs.run(self, name, arguments, state)
        return Outcome(state, state)

    def program(self, name: str, arguments: list[Value], state: State) -> None:
        programs.run(self, name, arguments, state)

    def cmd_code(self, text: Value, state: State, what: str) -> None:
        from perdure.guard import cmd_shell  # most texts have nothing for it

        cmd_shell.code(self, text, state, what)

    def powershell_code(self, text: Value, state: State, what: str) -> None:
        from perdure.guard import powershell  # most texts have nothing for it

        powershell.code(self, text, state, what)

    def knows(self, program: str) -> bool:
        return programs.understood(program)

    def _alias(self, name: str, arguments: list[Value], state: State) -> None:
        """Interpret a command as its alias would have it: a shell that is not interactive does not, as a rule."""
        try:
            script = self.parse(state.aliases.pop(name), self.seconds_left)
        except UnreadableError:
            script = ()
        sure = self.posix or "expand_aliases" in state.options
        with self.under(Certainty.POSSIBLE if sure else Certainty.CONDITIONAL), self.nested() as allowed:
            if allowed and script and isinstance(last := script[-1], Simple):
                for command in script[:-1]:
                    self.run(command, state)
                words = [field for word in last.words for field in expand.fields(word, state, self)]
                self.call([*words, *arguments[1:]], state)
            else:
                self.problem(f"the alias {name} cannot be read")

    def _call_function(self, name: str, arguments: list[Value], state: State) -> Outcome:
        calls = [(before, processes) for called, before, processes in self._active if called == name]
        active, decided = len(calls), (self.conditions, self._ways_out)
        # Nothing between the two calls decides whether the second one is made, and it is made in another process.
        if calls and calls[-1][0] == decided and self._processes > calls[-1][1]:
            self.emit(Act.FORK, values.text(name), state, by=name)
        if active > _ACTIVE_CALLS:
            return Outcome(state, state)
        outer_returns, self._returns = self._returns, []
        outer_escapes, self._escapes = self._escapes, []
        outer_positionals = state.positionals
        self._active.append((name, decided, self._processes))
        self._locals.append({})
        success: State | None = None
        failure: State | None = None
        bodies = state.functions[name]
        try:
            with self.under(Certainty.DEFINITE if len(bodies) == 1 else Certainty.POSSIBLE):
                for body in bodies:
                    inner = state if len(bodies) == 1 else state.copy()
                    # A function that calls itself again and again: from here on with anything at all.
                    inner.positionals = values.placed(arguments[1:]) if active < _ACTIVE_CALLS else None
                    outcome = self.run(body, inner)
                    success, failure = join(success, outcome.success), join(failure, outcome.failure)
            for left in (*self._returns, *self._escapes):
                success, failure = join(success, left), join(failure, left)
        finally:
            self._active.pop()
            locals_before = self._locals.pop()
            self._returns, self._escapes = outer_returns, outer_escapes
        for way in (success, failure):
            if way is not None:
                way.positionals = outer_positionals
                for local, before in locals_before.items():
                    now = way.variables.pop(local, None)
                    if before is not None:
                        way.variables[local] = before if now is None else values.union(before, now)
        return Outcome(success, failure)

    def local(self, state: State, items: list[str | None]) -> None:
        if not self._locals:
            return
        for item in items:
            name = (item or "").partition("=")[0].rstrip("+")
            if name and not name.startswith("-"):
                self._locals[-1].setdefault(name, state.variables.get(name))

    def code(self, text: Value, state: State, *, what: str) -> Outcome:
        """Interpret code in this shell; every text that it may be, and not analysable where one is open."""
        success: State | None = None
        failure: State | None = None
        with self.nested() as allowed:
            if not allowed:
                self.problem(f"{what}: code in strings is nested too deep")
                return Outcome(state, state)
            with self.under(Certainty.DEFINITE if len(text) == 1 else Certainty.POSSIBLE):
                for pieces in text:
                    source = values.spelled(numbered(pieces))
                    inner = state if len(text) == 1 else state.copy()
                    if source is None:
                        self.problem(f"{what}: the code is not known before it runs")
                        inner.forget()
                        outcome = Outcome(inner, inner)
                    else:
                        outcome = self._source(source, inner, what)
                    success, failure = join(success, outcome.success), join(failure, outcome.failure)
        return Outcome(success, failure)

    def _source(self, source: str, state: State, what: str) -> Outcome:
        self.step(2 + len(source) // 64)
        try:
            script = self.parse(source, self.seconds_left)
        except UnreadableError as error:
            self.problem(f"{what}: {error.reason}")
            state.forget()
            return Outcome(state, state)
        return self._whole(script, state)

    def shell(
        self, text: Value, state: State, *, positionals: tuple[Value, ...] | None, name: Value, what: str
    ) -> Outcome:
        child = state.within()
        child.positionals, child.name = positionals, name
        outer = self._ends, self._returns, self._escapes
        self._ends, self._returns, self._escapes = [], [], []
        try:
            outcome = self.code(text, child, what=what)
            end: State | None = None
            for way in [*self._ends, *self._returns, *self._escapes, outcome.success, outcome.failure]:
                end = join(end, way)
            if end is not None:
                self._trapped(end)
                state.output = values.joined(state.output, end.output)
        finally:
            self._ends, self._returns, self._escapes = outer
        return Outcome(state, state)

    _KINDS: dict[type, Callable[..., Outcome]] = {  # noqa: RUF012  # never changed
        Simple: _simple,
        Declaration: _declaration,
        Pipe: _pipe,
        Chain: _chain,
        Negation: _negation,
        Aside: _aside,
        Group: _group,
        Redirected: _redirected,
        Branch: _branch,
        Loop: _loop,
        ForEach: _for_each,
        Case: _case,
        Function: _function,
        Expression: _expression,
    }

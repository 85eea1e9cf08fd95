"""cmd.exe: from its commands to effects.

Owns: variables, `for` variables, control flow, and the commands that the shell itself has. Does not own: the grammar
(cmd_reader), or programs (windows_programs). A variable counts with what it holds when its line is read and with what
it holds when its command runs: which of the two is meant depends on how the text is run.
It has 500 lines and more because expanding, control flow and the shell's own commands change the same variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Hole, Spelling, Text
from perdure.guard import cmd_reader, values, windows_paths, windows_programs, windows_shells, windows_words
from perdure.guard.cmd_reader import QUOTE, Both, For, Group, If, Node, Redirect, Run
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State, join
from perdure.guard.tree import UnreadableError
from perdure.guard.values import Value

_FIRST_SLOT, _MOST_SLOTS = 0xE000, 6000
_SLOT = late(r"[\ue000-\uf7ff]")
_VARIABLE = late(r"%([^%\n:]+)(?::([^%\n]*))?%|!([^!\n:]+)(?::([^!\n]*))?!")
_POSITIONAL = late(r"%(~[A-Za-z$]*)?(\d|\*)")
_HEAD = late(r'([A-Za-z]+)(?=[\s,;=/\\.:(+\[">]|$)')
_NO_FILE = frozenset({"nul", "con", "prn", "aux", "conin$", "conout$"})
_SUBSTRING = late(r"~(-?\d+)(?:,(-?\d+))?")
_INNER = late(
    r'(?i)"?(?:[^"\s%!]*\\)?cmd(?:\.exe)?"?(?:\s+|(?=/))(?:/(?:[adqsu]|[efvt]:\w+)\s*)*/[ck](?=[\s"/(@\w])\s*'
)
_ROUNDS = 2


def run(machine: Machine, text: str, state: State) -> State:
    """Note what a text for cmd.exe does, and return what is known then."""
    machine.step(2 + len(text) // 64)
    try:
        lines = cmd_reader.parse(text, machine.step)
    except UnreadableError as error:
        machine.problem(f"cmd: {error.reason}")
        return state
    shell = _Shell(machine)
    for line in lines:
        shell.before = dict(state.variables)
        for node in line:
            state = shell.node(node, state)
    return state


def code(machine: Machine, text: Value, state: State, what: str) -> None:
    """Note what code for cmd.exe does in a process of its own, whatever it may be."""
    with machine.nested() as allowed, machine.under(Certainty.DEFINITE if len(text) == 1 else Certainty.POSSIBLE):
        for pieces in text:
            known = values.spelled(pieces)
            if known is None or not allowed:
                why = "the code is not known before it runs" if allowed else "code in strings is nested too deep"
                machine.problem(f"{what}: {why}")
                continue
            child = state.copy()
            child.output = values.EMPTY
            end = run(machine, known, child)
            state.output = values.joined(state.output, end.output)


class _Shell:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.before: dict[str, Value | None] = {}
        self._slots: list[Value] = []
        self._loops: dict[str, Value] = {}
        self._again = 0
        self._went: Value | None = None
        """Where the last command went if it went anywhere, where that is not certain."""

    # Control flow.

    def node(self, node: Node, state: State) -> State:
        self.machine.step()
        if isinstance(node, Run):
            return self._redirected(node.redirects, state, lambda inner: self._run(node.text, inner))
        if isinstance(node, Group):
            return self._redirected(node.redirects, state, lambda inner: self._body(node.body, inner))
        if isinstance(node, Both):
            return self._both(node, state)
        if isinstance(node, If):
            self._value_of(node.condition, state)
            with self.machine.under(Certainty.POSSIBLE):
                then = self.node(node.then, state.copy())
                other = self.node(node.otherwise, state.copy()) if node.otherwise is not None else state
            return join(then, other) or state
        return self._for(node, state)

    def _body(self, body: tuple[Node, ...], state: State) -> State:
        for node in body:
            state = self.node(node, state)
        return state

    def _both(self, node: Both, state: State) -> State:
        if node.operator == "|":
            left = state.copy()
            left.output = values.EMPTY
            end = self.node(node.left, left)
            right = state.copy()
            right.stdin = end.output
            state.output = self.node(node.right, right).output
            return state
        self._went = None
        after = self.node(node.left, state)
        right = after.copy()
        if node.operator == "&&" and self._went is not None:
            right.directories = self._went  # what follows runs only where there was such a directory
        self._went = None
        with self.machine.under(Certainty.POSSIBLE):
            return join(self.node(node.right, right), after) or after

    def _for(self, node: For, state: State) -> State:
        items = self._items(node, state)
        if not items:
            return state
        outer = dict(self._loops)
        try:
            self._loops[node.name] = values.union(*items)
            for number in range(5 if node.kind == "f" else 0):  # `tokens=1,2` names the letters that follow
                self._loops.setdefault(chr(ord(node.name) + 1 + number), values.unknown(f"%{node.name}"))
            with self.machine.under(Certainty.POSSIBLE):
                for _ in range(_ROUNDS):
                    state = join(self.node(node.body, state.copy()), state) or state
        finally:
            self._loops = outer
        return state

    def _items(self, node: For, state: State) -> list[Value]:
        if node.kind == "l":
            return [((values.DIGITS,),)]
        if node.kind == "f":
            return self._lines(node, state)
        words = self.words(self.expand(node.items, state))
        if node.kind == "r":
            root = self.path(node.option, state) if node.option else state.directories
            # A name without a pattern is given below every directory, whether it is there or not.
            tails = [values.text("."), *words]
            return [
                values.joined(windows_paths.spelled(root), above, tail)
                for tail in tails
                for above in (values.text("\\"), ((Text("\\"), Hole("a directory"), Text("\\")),))
            ]
        return [
            values.single(windows_paths.spelled(windows_words.place(state, word, globs=True)))
            if "*" in values.shown(word) or "?" in values.shown(word)
            else word
            for word in words
        ]

    def _lines(self, node: For, state: State) -> list[Value]:
        text = node.items.strip()
        backquotes = "usebackq" in node.option.lower()
        if len(text) > 1 and text[0] == text[-1] == ("`" if backquotes else "'"):
            child = state.copy()
            child.output = values.EMPTY
            source = self.expand(text[1:-1], state)
            if _SLOT.search(source):
                code(self.machine, self._filled(source), child, "for /f")
                lines = child.output
            else:
                try:
                    for line in cmd_reader.parse(source, self.machine.step):
                        child = self._body(line, child)
                except UnreadableError as error:
                    self.machine.problem(f"for /f: {error.reason}")
                lines = child.output
        elif len(text) > 1 and text[0] == text[-1] == ("'" if backquotes else '"'):
            lines = self._filled(self.expand(text[1:-1], state))
        else:
            files = self.words(self.expand(text, state))
            lines = values.union(
                *[
                    self.machine.contents(values.known(windows_words.place(state, name, globs=False)), state)
                    for name in files
                ]
                or [values.unknown("a file")]
            )
        found = values.lines(lines)
        if found is None:
            return [values.union(*[(pieces,) for pieces in lines])]
        items: list[Value] = []
        for found_line in found:
            known = values.known(found_line)
            items.append(found_line)
            if known is not None and known.split():
                items.append(values.text(known.split()[0]))
        return items

    def _redirected(self, redirects: tuple[Redirect, ...], state: State, act: Callable[[State], State]) -> State:
        stdin, output = state.stdin, state.output
        writes: list[tuple[str, bool]] = []
        captured = False
        for redirect in redirects:
            if redirect.target.startswith("&"):
                continue
            target = self.path(redirect.target, state)
            known = values.known(target)
            name = (known or "").rpartition("/")[2].partition(".")[0].rstrip(": ").lower()
            if redirect.operator == "<":
                state.stdin = self.machine.contents(known, state)
                self.machine.emit(Act.READ, target, state, by="<", through_link=True)
                continue
            captured = captured or redirect.descriptor in {"", "1"}
            if name in _NO_FILE:
                continue
            appends = redirect.operator == ">>"
            act_on = Act.CHANGE if appends else Act.OVERWRITE
            self.machine.emit(act_on, target, state, by=redirect.operator, through_link=True)
            if known is not None and redirect.descriptor in {"", "1"}:
                writes.append((known, appends))
        if captured:
            state.output = values.EMPTY
        end = act(state)
        for path, appends in writes:
            self.machine.write(path, end.output, end, appends=appends)
        end.stdin = stdin
        if captured:
            end.output = output
        return end

    # Variables.

    def _variable(self, name: str, changed: str | None, state: State, literal: str) -> Value:
        upper = name.upper()
        now, earlier = variable(upper, state), self.before.get(upper)
        if earlier is None and upper in state.variables and upper not in self.before:
            copied = state.copy()
            del copied.variables[upper]
            earlier = variable(upper, copied)
        found = [held for held in (now, earlier) if held is not None]
        value = values.union(*found) if found else values.union(values.EMPTY, values.text(literal))
        if changed is None or not found:
            return value
        return values.union(*(_changed(pieces, changed) for pieces in value))

    def expand(self, text: str, state: State) -> str:
        """Return a text with its variables replaced; what is not one known text has a slot."""
        if "%" not in text and "!" not in text:
            return text
        made: list[str] = []
        at = 0
        while at < len(text):
            character = text[at]
            if character not in "%!":
                end = min((place for mark in "%!" if (place := text.find(mark, at)) >= 0), default=len(text))
                made.append(text[at:end])
                at = end
                continue
            self.machine.step()
            if character == "%" and (loop := self._loop_variable(text, at)) is not None:
                value, at = loop
                made.append(self._slot(value))
            elif text.startswith("%%", at):
                made.append("%")
                at += 2
            elif character == "%" and (number := _POSITIONAL.match(text, at)):
                made.append(self._slot(values.unknown(number[0])))
                at = number.end()
            elif found := _VARIABLE.match(text, at):
                name, changed = (found[1], found[2]) if found[1] else (found[3], found[4])
                value = self._variable(name, changed, state, found[0])
                if character == "!":
                    value = values.union(values.text(found[0]), value)
                made.append(self._slot(value))
                at = found.end()
            else:
                made.append(character)
                at += 1
        return "".join(made)

    def _loop_variable(self, text: str, at: int) -> tuple[Value, int] | None:
        found = re.compile(r"%{1,2}(~[fdpnxsatzFDPNXSATZ]*)?([^\s%~])").match(text, at)
        if found is None or not self._loops:
            return None
        letters, name, end = found[1], found[2], found.end()
        if letters and name not in self._loops and letters[-1] in self._loops:
            letters, name, end = letters[:-1], letters[-1], end - 1  # `%~nf` may be `n` of `%f`
        if name not in self._loops:
            return None
        value = self._loops[name]
        return (value if not letters else _part(value, letters[1:].lower())), end

    def _slot(self, value: Value) -> str:
        known = values.known(value)
        if known is not None and not _SLOT.search(known):
            return known
        if value in self._slots:
            return chr(_FIRST_SLOT + self._slots.index(value))
        if len(self._slots) >= _MOST_SLOTS:
            value = values.unknown("%…%")
            self._slots[-1] = value
        else:
            self._slots.append(value)
        return chr(_FIRST_SLOT + len(self._slots) - 1)

    def _filled(self, text: str) -> Value:
        """Return a text with what its slots stand for."""
        text = text.replace(QUOTE, '"')
        if not _SLOT.search(text):
            return values.text(text)
        parts: list[Value] = []
        at = 0
        for found in _SLOT.finditer(text):
            parts += [values.text(text[at : found.start()]), self._slots[ord(found[0]) - _FIRST_SLOT]]
            at = found.end()
        return values.joined(*parts, values.text(text[at:]))

    def _value_of(self, text: str, state: State) -> Value:
        return self._filled(self.expand(text, state))

    def words(self, text: str, separators: str = " \t,;=\n") -> list[Value]:
        """Return the words of a text, without their quotes."""
        return [self._filled(word.replace('"', "")) for word in split(text, separators)]

    def path(self, text: str, state: State, *, globs: bool = False) -> Value:
        """Return a path that stands in a text."""
        return windows_words.place(state, self._filled(self.expand(text, state).replace('"', "")), globs=globs)

    # Commands.

    def _own_kind(self, raw: str, state: State) -> bool:
        """Interpret ``cmd /c`` as it is written: the inner shell finds the same variables, and the same loops."""
        found = _INNER.match(raw)
        if found is None:
            return False
        self.machine.emit(Act.RUN, values.text("cmd"), state, by="cmd")
        text = windows_shells.unquoted(raw[found.end() :])
        child = state.copy()
        child.output = values.EMPTY
        with self.machine.nested() as allowed:
            if not allowed:
                self.machine.problem("cmd /c: code in strings is nested too deep")
                return True
            self.machine.step(2 + len(text) // 64)
            try:
                for line in cmd_reader.parse(text, self.machine.step):
                    child = self._body(line, child)
            except UnreadableError as error:
                self.machine.problem(f"cmd /c: {error.reason}")
        state.output = values.joined(state.output, child.output)
        return True

    def _run(self, raw: str, state: State) -> State:
        if self._own_kind(raw, state):
            return state
        text = self.expand(raw, state)
        if not text.strip():
            return state
        if (
            (text != raw or _SLOT.search(raw))
            and self._again < 4
            and (again := self._text_to_read_again(raw, text)) is not None
        ):
            self._again += 1
            try:
                for line in cmd_reader.parse(again, self.machine.step):
                    state = self._body(line, state)
            except UnreadableError as error:
                self.machine.problem(f"cmd: {error.reason}")
            finally:
                self._again -= 1
            return state
        head = _HEAD.match(text)
        name = head[1].lower() if head is not None else ""
        internal = windows_programs.INTERNAL.get(name)
        if internal is not None and head is not None:
            rest = text[head.end() :]
            return self._internal(name, rest, state)
        if re.fullmatch(r"[A-Za-z]:", text.strip()):
            state.directories = windows_words.place(state, values.text(text.strip() + "."), globs=False)
            return state
        words = split(text, " \t")
        first, arguments = self._filled(words[0].replace('"', "")), words[1:]
        tail = text[text.find(words[0]) + len(words[0]) :]
        names = values.texts(first)
        if names is None:
            given = [self._filled(word.replace('"', "")) for word in arguments]
            self.machine.emit(Act.RUN, first, state, by=values.shown(first), arguments=tuple(given))
            return state
        for each in names:
            self._program(each, tail, [self._filled(word.replace('"', "")) for word in arguments], state)
        return state

    def _text_to_read_again(self, raw: str, text: str) -> str | None:
        """Return the text where variables brought operators, or more than one word where a command's name stands."""
        first = split(text, " \t")[0] if text.strip() else ""
        slots = _SLOT.findall(first)
        if slots:
            known = [item for item in map(values.spelled, self._filled(text)) if item is not None]
            plain = [item for item in known if "%" not in item and "!" not in item and item.strip()]
            if plain:
                return "\n".join(plain)
        if raw.lstrip()[:1] in {"%", "!"} or (re.search(r"[&|<>^]", text) and not re.search(r"[&|<>^]", raw)):
            return text if not slots else None
        return None

    def _program(self, name: str, tail: str, words: list[Value], state: State) -> None:
        script = values.known(windows_words.place(state, values.text(name), globs=False))
        for path in (script, f"{script}.bat", f"{script}.cmd"):
            if path is not None and path in state.files:
                code(self.machine, state.files[path], state, path)
                return
        windows_programs.run(self.machine, name, words, state, raw=self._filled(tail.strip()))

    def _internal(self, name: str, rest: str, state: State) -> State:
        machine = self.machine
        if name == "echo":
            said = re.sub(r"^[.:(+\[/\\,;= ]", "", rest, count=1)
            machine.emit(Act.RUN, values.text(name), state, by=name)
            if said.strip().lower() not in {"on", "off", ""}:
                state.output = values.joined(state.output, self._filled(said), values.text("\n"))
            return state
        if name == "set":
            self._set(rest, state)
            return state
        if name == "call":
            return self._call(rest, state)
        if name == "goto":
            if rest.strip(" :").lower() != "eof":
                machine.problem("cmd: `goto` goes on elsewhere")
            return state
        if name == "start":
            self._start(rest, state)
            return state
        words = self.words(rest)
        if name == "popd":
            state.directories = state.stack[-1] if state.stack else values.unknown("popd")
            state.stack = state.stack[:-1]
            return state
        if name in {"cd", "chdir", "pushd"}:
            self._change_directory(name, rest, state)
            return state
        windows_programs.run(machine, name, words, state, raw=self._filled(rest.strip()), internal=True)
        return state

    def _change_directory(self, name: str, rest: str, state: State) -> None:
        target = re.sub(r"(?i)^\s*/d(?=\s|\")\s*", "", rest).strip().strip('"')
        self.machine.emit(Act.RUN, values.text("cd"), state, by=name)
        if not target:
            state.output = values.joined(state.output, windows_paths.spelled(state.directories), values.text("\n"))
            return
        place = windows_words.place(state, self._filled(target), globs=False)
        place = tuple(values.normal(pieces) for pieces in place)
        other = re.match(r"[A-Za-z]:", target) and name != "pushd" and not re.match(r"(?i)\s*/d[\s\"]", rest)
        if name == "pushd":
            state.stack = (*state.stack, state.directories)
        found = values.texts(place)
        there = found is not None and all(map(state.session.probe.is_directory, found))
        self._went = None if there or other else place
        # Without /d another drive's directory is set, and this one stays; as it does where there is no such directory.
        state.directories = place if there and not other else values.union(place, state.directories)

    def _set(self, rest: str, state: State) -> None:
        text = rest.strip(" \t")
        self.machine.emit(Act.RUN, values.text("set"), state, by="set")
        if text[:2].lower() == "/a":
            for name in re.findall(r"([A-Za-z_]\w*)\s*[-+*/%&|^]?=", text):
                state.variables[name.upper()] = ((values.DIGITS,),)
            return
        asks = text[:2].lower() == "/p"
        text = text[2:].lstrip() if asks else text
        if text.startswith('"'):
            text = text[1:].rpartition('"')[0] or text[1:]
        name, equals, value = text.partition("=")
        if not equals:
            state.output = values.joined(state.output, values.unknown("set"))
            return
        if asks:
            state.variables[name.upper()] = state.stdin if state.stdin is not None else values.unknown("what is typed")
            return
        state.variables[name.upper()] = self._filled(value) if value else None

    def _call(self, rest: str, state: State) -> State:
        text = rest.strip()
        if text.startswith(":"):
            return state  # the lines behind the label are read where they stand
        return self._run(text.replace("%%", "%"), state) if text else state

    def _start(self, rest: str, state: State) -> None:
        words = split(rest, " \t")
        child = state.copy()
        if words and words[0].startswith('"'):
            words = words[1:]
        while words and words[0].startswith("/"):
            option, words = words[0].lower(), words[1:]
            if option == "/d" and words:
                child.directories = self.path(words[0], child)
                words = words[1:]
            elif option.startswith("/d") and len(option) > 2:
                child.directories = self.path(option[2:], child)
            elif option in {"/node", "/affinity", "/machine"} and words:
                words = words[1:]
        self.machine.emit(Act.RUN, values.text("start"), state, by="start")
        if words:
            self._run(" ".join(words), child)


def variable(name: str, state: State) -> Value | None:
    """Return a variable of the environment, whose name has capitals only; None where it is certainly not set."""
    if name in state.variables:
        return state.variables[name]
    if name == "CD":
        return windows_paths.spelled(state.directories)
    if name in {"ERRORLEVEL", "RANDOM"}:
        return ((values.DIGITS,),)
    session = state.session
    for held, value in session.environment.items():
        if held.upper() == name:
            return values.text(value)
    home = windows_paths.spelled(values.text(session.home))
    if name == "USERPROFILE":
        return home
    if name in {"HOMEDRIVE", "HOMEPATH"} and (known := values.known(home)) is not None and known[1:2] == ":":
        return values.text(known[:2] if name == "HOMEDRIVE" else known[2:])
    if name == "COMSPEC":
        return values.text("C:\\Windows\\System32\\cmd.exe")
    if name == "SYSTEMDRIVE":
        return values.text("C:")
    if name in {"SYSTEMROOT", "WINDIR"}:
        return values.text("C:\\Windows")
    if session.complete and not state.tainted:
        return None
    return values.unknown(f"%{name}%")


def split(text: str, separators: str) -> list[str]:
    """Return the words of a text with their quotes."""
    return re.findall(rf'(?:"[^"\n]*"?|[^"{re.escape(separators)}])+', text)


def _changed(pieces: Spelling, changed: str) -> Value:
    text = values.spelled(pieces)
    if text is None:
        return values.unknown("%…%")
    if part := _SUBSTRING.fullmatch(changed):
        start = int(part[1])
        start = max(len(text) + start, 0) if start < 0 else start
        if part[2] is None:
            return values.text(text[start:])
        length = int(part[2])
        return values.text(text[start : start + length] if length >= 0 else text[start:length])
    old, equals, new = changed.partition("=")
    if not equals or not old or _SLOT.search(new):
        return values.unknown("%…%")
    if old.startswith("*"):
        at = text.lower().find(old[1:].lower())
        return values.text(text if at < 0 else new + text[at + len(old) - 1 :])
    return values.text(re.sub(re.escape(old), lambda _: new, text, flags=re.IGNORECASE))


def _part(value: Value, letters: str) -> Value:
    """Return the part of a path that modifiers of a `for` variable name."""
    if set(letters) <= {"f", "s"}:
        return value
    known = values.known(value)
    if known is None:
        return values.unknown("%~" + letters)
    folder, slash, base = known.replace("/", "\\").rpartition("\\")
    stem, dot, extension = base.rpartition(".") if "." in base else (base, "", "")
    made = folder + slash if {"d", "p"} <= set(letters) else ""
    made += stem if "n" in letters else ""
    made += dot + extension if "x" in letters else ""
    return values.text(made) if set(letters) <= set("dpnx") else values.unknown("%~" + letters)

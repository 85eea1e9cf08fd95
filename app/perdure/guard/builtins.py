"""What the shell's own commands do to its state.

Owns: the builtins that change where the shell is, what its names stand for, what it prints, or what it runs. Does not
own: programs, and builtins that do nothing of that kind, which count as programs.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.domain.effect import Certainty, Hole, Text
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.machine import Machine, Outcome
from perdure.guard.printing import echoed, formatted
from perdure.guard.state import State, join
from perdure.guard.values import Value

_NAME = late(r"[A-Za-z_]\w*")
_MOST_DIRECTORIES = 16


def _known(arguments: list[Value]) -> list[str | None]:
    return [values.known(argument) for argument in arguments]


def _operands(arguments: list[Value]) -> list[Value]:
    """Return what follows the options, of which one that is not known may be one."""
    for number, argument in enumerate(arguments):
        name = values.known(argument)
        if name == "--":
            return arguments[number + 1 :]
        if name is None or not name.startswith("-") or name == "-":
            return arguments[number:]
    return []


def _cd(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    operands = _operands(arguments[1:])
    if not operands:
        target = state.variable("HOME") or values.unknown("$HOME")
    elif values.known(operands[0]) == "-":
        target = state.variable("OLDPWD") or values.unknown("$OLDPWD")
    else:
        target = operands[0]
    return _enter(machine, target, state)


def _enter(machine: Machine, target: Value, state: State) -> Outcome:
    """Go to a directory, where that works."""
    path = values.known(target)
    places = values.absolute(target, state.directories)
    if path is not None and not path.startswith(("/", ".")) and state.variables.get("CDPATH") is not None:
        places = values.unknown("$CDPATH")
    found = values.texts(places)
    there = [machine.session.probe.is_directory(place) for place in found] if found is not None else [None]
    failure = None if all(there) else state.copy()
    state.assign("OLDPWD", state.directories)
    state.variables.pop("PWD", None)
    state.directories = places if len(places) <= _MOST_DIRECTORIES else values.unknown("a directory")
    return Outcome(state, failure)


def _pushd(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    operands = _operands(arguments[1:])
    here = state.directories
    if not operands:
        target, rest = (state.stack[0], state.stack[1:]) if state.stack else (values.unknown("pushd"), ())
    elif (values.known(operands[0]) or "+").startswith("+"):
        target, rest = values.unknown("pushd"), ()
    else:
        target, rest = operands[0], state.stack
    outcome = _enter(machine, target, state)
    if outcome.success is not None:
        outcome.success.stack = (here, *rest)
    return outcome


def _popd(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    before = state.variable("OLDPWD")
    state.variables.pop("PWD", None)
    if not state.stack:  # it fails where the shell that this one comes from has left nothing there
        state.assign("OLDPWD", values.union(state.directories, before or values.unknown("$OLDPWD")))
        state.directories = values.union(state.directories, values.unknown("popd"))
        return Outcome(state, state)
    state.assign("OLDPWD", state.directories)
    if len(arguments) > 1:
        state.directories, state.stack = values.unknown("popd"), ()
    else:
        state.directories, state.stack = state.stack[0], state.stack[1:]
    return Outcome(state, state)


def _pwd(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    return _print(state, values.joined(state.directories, values.text("\n")))


def _print(state: State, printed: Value) -> Outcome:
    state.output = values.joined(state.output, printed)
    return Outcome(state, state)


def _echo(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    return _print(state, echoed(arguments[1:], both=machine.posix))


def _printf(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    operands = arguments[1:]
    target = None
    if operands and values.known(operands[0]) == "-v" and len(operands) > 1:
        target = values.known(operands[1]) or ""
        operands = operands[2:]
    elif operands and values.known(operands[0]) == "--":
        operands = operands[1:]
    if not operands:
        return Outcome(state, state)
    text = formatted(operands[0], operands[1:])
    if target is None:
        return _print(state, text)
    if _NAME.fullmatch(target):
        state.assign(target, text)
    else:
        state.forget()
    return Outcome(state, state)


def declare(item: Value, state: State) -> None:
    """Let an argument of ``export`` and the like that came out of an expansion have its effect."""
    text = values.known(item)
    if text is None:
        first = item[0][0] if len(item) == 1 and item[0] else Hole()
        name, equals, rest = first.text.partition("=") if isinstance(first, Text) else ("", "", "")
        if equals and _NAME.fullmatch(name):
            state.assign(name, (values.merged((Text(rest), *item[0][1:])),))
        else:
            state.forget()
        return
    name, equals, rest = text.partition("=")
    if equals and _NAME.fullmatch(name.rstrip("+")):
        state.assign(name.rstrip("+"), values.text(rest), append=name.endswith("+"))


def attributes(machine: Machine, keyword: str, items: list[Value], state: State) -> None:
    """Note names that are given an attribute with which they hold something else than they are assigned."""
    if keyword in {"export", "readonly"}:
        return
    known = _known(items)
    if any(word is not None and word.startswith("-") and "n" in word for word in known):
        machine.problem("declare -n: a name stands for another variable from here on")
    if any(word is None or (word.startswith("-") and set(word) & set("nlucia")) for word in known):
        state.odd |= frozenset(word.partition("=")[0] for word in known if word is not None)


def _declare(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    exports = values.known(arguments[0]) == "export" or "-x" in _known(arguments)
    keyword = values.known(arguments[0]) or "declare"
    attributes(machine, keyword, arguments[1:], state)
    if keyword != "export":
        machine.local(state, [values.known(argument) for argument in arguments[1:]])
    for argument in arguments[1:]:
        declare(argument, state)
        name = (values.known(argument) or "").partition("=")[0].rstrip("+")
        if exports:
            state.exported |= {name}
    return Outcome(state, state)


def _unset(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    known = _known(arguments[1:])
    functions = "-f" in known
    for name in known:
        if name is None:
            continue
        bare = name.partition("[")[0]
        if not functions and not name.startswith("-"):
            if "[" in name:
                state.arrays[bare] = None
            else:
                state.arrays.pop(name, None)
                state.variables[name] = None
        if functions or "-v" not in known:
            state.functions.pop(name, None)
    return Outcome(state, state)


def _set(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    machine.fallible = True  # with -e and -u
    rest = arguments[1:]
    while rest:
        word = values.known(rest[0])
        if word is None:
            state.positionals = None
            return Outcome(state, state)
        if word in {"--", "-"}:
            state.positionals = values.placed(rest[1:])
            return Outcome(state, state)
        if word[:1] not in {"-", "+"}:
            state.positionals = values.placed(rest)
            return Outcome(state, state)
        named = word[1:] == "o" and len(rest) > 1
        if "a" in word[1:] or (named and values.known(rest[1]) == "allexport"):
            state.options |= {"allexport"}
        if "f" in word[1:] or (named and values.known(rest[1]) == "noglob"):
            state.options = state.options | {"noglob"} if word[0] == "-" else state.options - {"noglob"}
        rest = rest[2:] if named else rest[1:]
    return Outcome(state, state)


def _shopt(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    known = [word for word in _known(arguments[1:]) if word is not None]
    names = frozenset(word for word in known if not word.startswith("-"))
    if "-s" in known:
        state.options |= names
    elif "-u" in known:
        state.options -= names
    return Outcome(state, state)


def _shift(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    count = values.known(arguments[1]) if len(arguments) > 1 else "1"
    if state.positionals is not None:
        state.positionals = state.positionals[int(count) :] if count is not None and count.isdigit() else None
    return Outcome(state, state)


def _alias(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    for argument in arguments[1:]:
        text = values.known(argument)
        if text is None:
            machine.problem("alias: what it stands for is not known")
        elif "=" in text:
            name, _, meaning = text.partition("=")
            state.aliases[name] = meaning
    return Outcome(state, state)


def _unalias(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    for name in _known(arguments[1:]):
        state.aliases.pop(name or "", None)
    return Outcome(state, state)


def _eval(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    words = arguments[1:]
    if words and values.known(words[0]) == "--":
        words = words[1:]
    if not words:
        return Outcome(state, state)
    text = values.joined(*[item for word in words for item in (values.text(" "), word)][1:])
    return machine.code(text, state, what="eval")


def _source(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    operands = _operands(arguments[1:])
    if not operands:
        return Outcome(state, state)
    return sourced(machine, operands[0], tuple(operands[1:]), state)


def sourced(machine: Machine, file: Value, positionals: tuple[Value, ...], state: State) -> Outcome:
    """Interpret a script in this shell."""
    text = machine.contents(values.known(values.absolute(file, state.directories)), state)
    before = state.positionals
    if positionals:
        state.positionals = positionals
    outcome = machine.code(text, state, what=f"source {values.shown(file)}")
    for way in (outcome.success, outcome.failure):
        if way is not None and positionals:
            way.positionals = before
    return outcome


def _exec(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    rest = arguments[1:]
    while rest and (word := values.known(rest[0])) is not None and word.startswith("-"):
        rest = rest[2:] if word.endswith("a") else rest[1:]
    if not rest:
        return Outcome(state, state)
    outcome = machine.call(rest, state, external=True)
    end = join(outcome.success, outcome.failure)
    if end is not None:
        machine.leave(end)
    return Outcome(None, None)


def _command(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    rest = arguments[1:]
    while rest and (word := values.known(rest[0])) is not None and word.startswith("-"):
        if "v" in word or "V" in word:
            return _print(state, values.unknown("command -v"))
        rest = rest[1:]
    if not rest:
        return Outcome(state, state)
    functions, aliases = state.functions, state.aliases
    state.functions, state.aliases = {}, {}
    outcome = machine.call(rest, state)
    for way in (outcome.success, outcome.failure):
        if way is not None:
            way.functions, way.aliases = functions | way.functions, aliases | way.aliases
    return outcome


def _trap(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    operands = _operands(arguments[1:])
    if len(operands) < 2 or values.known(operands[0]) in {"", "-"}:
        return Outcome(state, state)
    state.traps = tuple(dict.fromkeys((*state.traps, operands[0])))
    return Outcome(state, state)


def _read(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    names: list[str] = []
    rest = arguments[1:]
    array = raw = False
    while rest:
        word = values.known(rest[0])
        if word is None:
            state.forget()
            return Outcome(state, state)
        rest = rest[1:]
        if word.startswith("-") and len(word) > 1 and not names:
            if word[-1] in "dinNptu" and rest:
                rest = rest[1:]
            array, raw = array or "a" in word, raw or "r" in word
        else:
            names.append(word)
    if state.stdin is not None:
        machine.counted(state.stdin)
    held = values.lines(state.stdin) if state.stdin is not None else None
    if held is not None and not raw and any("\\" in values.shown(line) for line in held):
        held = None  # escapes are read, and may join lines
    if array:
        state.arrays[names[0] if names else "REPLY"] = None
    elif len(names) == 1 or not names:
        separators = values.known(state.variables.get("IFS") or values.text(" \t\n"))
        if separators not in {"", " \t\n"}:
            held = None
        trimmed = [line if not separators else _trimmed(line) for line in held] if held is not None else []
        state.assign(names[0] if names else "REPLY", values.every(trimmed) if held else values.unknown("read"))
    else:
        for number, name in enumerate(names):
            state.assign(name, _column(held, number, last=number == len(names) - 1, name=name, state=state))
    return Outcome(state, state)


def _trimmed(line: Value) -> Value:
    known = values.known(line)
    return line if known is None else values.text(known.strip(" \t"))


def _column(held: list[Value] | None, number: int, *, last: bool, name: str, state: State) -> Value:
    """Return what lands in one of several names."""
    if not held or "IFS" in state.variables:
        return values.unknown(f"${name}")
    found = []
    for line in held:
        known = values.known(line)
        if known is None:
            return values.unknown(f"${name}")
        parts = known.split(None, number) if last else known.split()
        found.append(values.text(parts[number] if number < len(parts) else ""))
    return values.union(*found)


def _mapfile(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    words = _known(arguments[1:])
    if "-C" in words[:-1]:
        code = arguments[words.index("-C") + 2]
        with machine.under(Certainty.POSSIBLE):
            machine.code(values.joined(code, values.text(" 0 x")), state.copy(), what="mapfile -C")
    operands = [word for word in words if word is not None and not word.startswith("-")]
    name = operands[-1] if operands else "MAPFILE"
    plain = set(words) <= {"-t", name} and state.stdin is not None and len(state.stdin) == 1
    held = values.lines(state.stdin) if plain and state.stdin is not None else None
    state.arrays[name] = {str(number): line for number, line in enumerate(held)} if held is not None else None
    return Outcome(state, state)


def _kill(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    machine.fallible = True  # itself, perhaps
    return Outcome(state, state)


def _true(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    return Outcome(state, None)


def _false(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    return Outcome(None, state)


def _exit(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    machine.leave(state)
    return Outcome(None, None)


def _return(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    machine.come_back(state)
    return Outcome(None, None)


def _break(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    machine.escape(state)
    return Outcome(None, None)


def _hash(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    if any(word is None or (word[:1] == "-" != word[1:2] and "p" in word) for word in _known(arguments[1:])):
        machine.problem("hash -p: a name stands for another program from here on")
    return Outcome(state, state)


def _let(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    for argument in arguments[1:]:
        match = _NAME.match(values.known(argument) or "")
        if match is None:
            state.forget()
        else:
            state.assign(match[0], ((values.DIGITS,),))
    return Outcome(state, state)


def _getopts(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    for name in _known(arguments[2:3]):
        state.assign(name or "OPTARG", values.unknown("getopts"))
    state.assign("OPTARG", values.unknown("$OPTARG"))
    return Outcome(state, state)


def _builtin(machine: Machine, arguments: list[Value], state: State) -> Outcome:
    return _command(machine, arguments, state)


TABLE: dict[str, Callable[[Machine, list[Value], State], Outcome]] = {
    ".": _source,
    ":": _true,
    "alias": _alias,
    "break": _break,
    "builtin": _builtin,
    "cd": _cd,
    "chdir": _cd,
    "command": _command,
    "continue": _break,
    "declare": _declare,
    "echo": _echo,
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _declare,
    "false": _false,
    "getopts": _getopts,
    "hash": _hash,
    "kill": _kill,
    "let": _let,
    "local": _declare,
    "mapfile": _mapfile,
    "popd": _popd,
    "printf": _printf,
    "pushd": _pushd,
    "pwd": _pwd,
    "read": _read,
    "readarray": _mapfile,
    "readonly": _declare,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "source": _source,
    "trap": _trap,
    "true": _true,
    "typeset": _declare,
    "unalias": _unalias,
    "unset": _unset,
}

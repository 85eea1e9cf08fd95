"""Which programs are understood, and those that start other commands.

Owns: the way from a program's name to what it does, shells and code in strings, wrappers whose arguments are a
language of their own. Does not own: programs that the table describes (verbs.toml), those that work on files
(file_programs), on environments (environment_programs), and interpreters of other languages (languages).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Spelling, Text
from perdure.guard import (
    containers,
    environment_programs,
    file_programs,
    found,
    languages,
    printing_programs,
    values,
    verbs,
)
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

Program = Callable[[Machine, str, list[Value], State], None]

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")


def run(machine: Machine, name: str, arguments: list[Value], state: State) -> None:
    """Note what a program does; the first of the arguments is its name."""
    words = arguments[1:]
    short = name.rpartition("/")[2].removesuffix(".exe")
    machine.emit(Act.RUN, arguments[0], state, by=short, arguments=tuple(words))
    if "/" in name and _written(machine, arguments, state):
        return
    program = _SPECIAL.get(short) or (languages.python if languages.PYTHON.fullmatch(short) else None)
    verb = verbs.table().get(short)
    if program is not None:
        program(machine, name, words, state)
    elif verb is not None:
        walk(machine, verb, short, words, state)
    if short not in _PRINTING and (verb is None or (verb.wraps is None and short not in _SILENT)):
        state.output = values.joined(state.output, values.unknown(f"$({short} …)"))
    if not name.isascii() or any(not text.isascii() for word in words if (text := values.known(word)) is not None):
        _look_alikes(machine, name, words, state)


def _written(machine: Machine, arguments: list[Value], state: State) -> bool:
    """Interpret a script that the text has written before; return whether it is one."""
    path = values.known(values.absolute(arguments[0], state.directories))
    if path is None or path not in state.files:
        return False
    text = state.files[path]
    first = values.known(text)
    line = first.split("\n", 1)[0] if first is not None else ""
    if line.startswith("#!") and "sh" not in line:
        interpreter = line.rpartition("/")[2].split()[-1:]
        if interpreter and languages.PYTHON.fullmatch(interpreter[0]):
            languages.read_python(machine, text, state, what=path)
            return True
        machine.problem(f"{path}: it is a script for {line[2:].strip()}")
        return True
    machine.shell(text, state, positionals=tuple(arguments[1:]), name=arguments[0], what=path)
    return True


def walk(machine: Machine, verb: verbs.Verb, name: str, words: list[Value], state: State) -> None:
    """Note what a program of the table does."""
    arguments = verbs.split(words, verb.valued, ordered=verb.ordered)
    for place in arguments.values(verb.directory):
        state = elsewhere(state, place)
    if verb.subcommands and arguments.operands:
        subcommand = values.known(arguments.operands[0])
        inner = verb.subcommands.get(subcommand or "")
        if inner is not None:
            walk(machine, inner, f"{name} {subcommand}", arguments.operands[1:], state)
    verbs.apply(verb, arguments, machine, state, by=name)
    if verb.wraps is not None:
        _wrapped(machine, verb.wraps, name, arguments, state)


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
        if len(rest) > 1 and values.known(rest[0]) in wrapper.code:  # `flock FILE -c CODE`
            _own_shell(machine, rest[1], child, name)
            rest = []
        if wrapper.assignments:
            rest = _assigned(rest, child)
        if not rest:
            pass
        elif wrapper.joined and len(rest) > 0:
            machine.shell(_code_of(rest), child, positionals=(), name=values.text("sh"), what=name)
        else:
            machine.call(rest, child, external=True)
    state.output = child.output


def _assigned(words: list[Value], state: State) -> list[Value]:
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


def _code_of(words: list[Value]) -> Value:
    """Return words as one text with blanks between, as a program hands them to a shell."""
    return values.joined(*[item for word in words for item in (values.text(" "), word)][1:])


def unknown_command(machine: Machine, arguments: list[Value], state: State) -> None:
    """Note a command whose name is not known; judging looks at what it is given."""
    by = values.shown(arguments[0])
    machine.emit(Act.RUN, arguments[0], state, by=by, arguments=tuple(arguments[1:]))


def _look_alikes(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Note what a command would do if its look-alike characters were the ones they look like."""
    import unicodedata

    def plain(text: str) -> str:
        return unicodedata.normalize("NFKC", text).translate(_DASHES)

    def read(pieces: Spelling) -> Spelling:
        return tuple(Text(plain(piece.text)) if isinstance(piece, Text) else piece for piece in pieces)

    other = [tuple(read(pieces) for pieces in word) for word in words]
    if plain(name) == name and other == words:
        return
    with machine.under(Certainty.CONDITIONAL):
        program = plain(name)
        if program.isascii():
            run(machine, program, [values.text(program), *other], state.copy())


def _shell(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`sh`, `bash` and the like: code in a string, a script, or what comes in."""
    rest = list(words)
    # What stands behind `sh` may be another shell, whose `echo` reads escapes.
    machine.posix = machine.posix or not name.endswith("bash")
    code = reads = False
    options: frozenset[str] = frozenset()
    while rest:
        text = values.known(rest[0])
        if text is None or text[:1] not in {"-", "+"} or text == "-":
            break
        rest = rest[1:]
        if text == "--":
            break
        if text in {"--rcfile", "--init-file", "-o", "+o", "-O", "+O"}:
            if text == "-O" and rest and values.known(rest[0]) == "dotglob":
                options |= {"dotglob"}
            rest = rest[1:]
        elif not text.startswith("--") and text[0] == "-":
            code = code or "c" in text[1:]
            reads = reads or "s" in text[1:]
            if text.endswith(("o", "O")):
                rest = rest[1:]
    if code:
        if rest:
            machine.shell(
                rest[0],
                state,
                positionals=tuple(rest[2:]),
                name=(rest[1:2] or [values.text(name)])[0],
                what=f"{name} -c",
            )
    elif rest and not reads and values.known(rest[0]) not in {"-", "/dev/stdin"}:
        path = values.known(values.absolute(rest[0], state.directories))
        text_of = machine.contents(path, state)
        machine.shell(text_of, state, positionals=tuple(rest[1:]), name=rest[0], what=f"{name} {values.shown(rest[0])}")
    elif state.stdin is not None:
        machine.shell(
            state.stdin, state, positionals=tuple(rest), name=values.text(name), what=f"{name} reading its input"
        )


def _env(machine: Machine, name: str, words: list[Value], state: State) -> None:
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
    rest = _assigned(rest, child)
    if rest:
        machine.call(rest, child, external=True)
        state.output = child.output
    else:
        state.output = values.joined(state.output, values.unknown("env"))


def _xargs(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(
        words,
        frozenset(
            [
                "-I",
                "-J",
                "-R",
                "-n",
                "-P",
                "-L",
                "-d",
                "-a",
                "-E",
                "-s",
                "-i=",
                "-l=",
                "-e=",
                "--replace=",
                "--max-args",
                "--max-procs",
                "--max-lines=",
                "--delimiter",
                "--arg-file",
                "--max-chars",
                "--process-slot-var",
            ]
        ),
        ordered=True,
    )
    command = arguments.operands or [values.text("echo")]
    given = arguments.values(frozenset({"-a", "--arg-file"}))
    stdin = state.stdin
    if given:
        stdin = machine.contents(values.known(values.absolute(given[0], state.directories)), state)
    if stdin is None:
        return
    marks = [values.known(mark) for mark in arguments.values(frozenset({"-I", "-J", "-i", "--replace"}))]
    if not marks and any(option in {"-i", "--replace"} for option, _ in arguments.options):
        marks = ["{}"]
    plain = any(option in {"-0", "--null", "-d", "--delimiter"} for option, _ in arguments.options)
    items = found.items(stdin, whole=plain or bool(marks), plain=plain)
    child = state.copy()
    child.stdin = None
    if marks and marks[0]:
        item = values.union(*items) if items else values.EMPTY
        command = [replaced(word, marks[0], item) for word in command]
        machine.call(command, child, external=True)
    elif items:
        machine.call([*command, *items], child, external=True)
    state.output = values.joined(state.output, values.unknown("xargs"))


def replaced(word: Value, mark: str, item: Value) -> Value:
    """Return a word with every mark in it replaced."""
    result: list[Value] = []
    for pieces in word:
        value = values.EMPTY
        for piece in pieces:
            if isinstance(piece, Text) and mark in piece.text:
                for number, part in enumerate(piece.text.split(mark)):
                    value = values.joined(value, *([item] if number else []), values.text(part))
            else:
                value = values.joined(value, ((piece,),))
        result.append(value)
    return values.union(*result)


def _parallel(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(
        words,
        frozenset(
            ["-j", "--jobs", "-a", "--arg-file", "-S", "--sshlogin", "-d", "--delimiter", "-n", "-N", "-L", "-I"]
        ),
        ordered=True,
    )
    command, items = arguments.operands, None
    for number, word in enumerate(command):
        if values.known(word) in {":::", ":::+"}:
            command, items = arguments.operands[:number], arguments.operands[number + 1 :]
            break
    if items is None:
        items = (
            found.items(state.stdin, whole=True, plain=True)
            if state.stdin is not None
            else [values.unknown("parallel")]
        )
    item = values.union(*items) if items else values.EMPTY
    child = state.copy()
    child.stdin = None
    marked = [replaced(word, "{}", item) for word in command]
    if marked == command:
        marked = [*command, item]
    if len(command) == 1 or not command:
        machine.shell(_code_of(marked), child, positionals=(), name=values.text("sh"), what=name)
    else:
        machine.call(marked, child, external=True)


def _ssh(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw"), ordered=True)
    if len(arguments.operands) < 2:
        return
    host = values.known(arguments.operands[0])
    bare = host.removeprefix("ssh://").rpartition("@")[2].partition(":")[0] if host is not None else None
    here = bare is None or bare in state.session.hosts
    if not here:
        return
    child = state.copy()
    child.directories = values.text(state.session.home)
    with machine.under(Certainty.DEFINITE if bare is not None else Certainty.CONDITIONAL):
        machine.shell(_code_of(arguments.operands[1:]), child, positionals=(), name=values.text("sh"), what=name)


def _own_shell(machine: Machine, code: Value, state: State, what: str) -> None:
    """Interpret code in a shell that the program starts."""
    machine.shell(code, state.copy(), positionals=(), name=values.text("sh"), what=what)


def _at(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`at`, `batch`: what comes in is run later, where it was said."""
    if state.stdin is not None and not any((values.known(word) or "").startswith("-l") for word in words):
        machine.shell(state.stdin, state, positionals=(), name=values.text("sh"), what=name)


def _git(machine: Machine, name: str, words: list[Value], state: State) -> None:
    verb = verbs.table()["git"]
    walk(machine, verb, "git", words, state)
    arguments = verbs.split(words, verb.valued, ordered=True)
    for place in arguments.values(verb.directory):
        state = elsewhere(state, place)
    operands = arguments.operands
    subcommand = values.known(operands[0]) if operands else None
    for setting in arguments.values(frozenset({"-c"})):
        text = values.known(setting) or ""
        key, _, value = text.partition("=")
        if key.startswith("alias.") and key[6:] == subcommand and value.startswith("!"):
            code = values.joined(values.text(value[1:] + " "), _code_of(operands[1:]))
            _own_shell(machine, code, state, "git alias")
    rest = operands[1:]
    known = [values.known(word) for word in rest]
    here = values.text(".")
    if subcommand == "stash" and not {"pop", "apply", "list", "show", "drop", "branch", "clear"} & set(known[:1]):
        if {"--all", "-a"} & set(known):
            machine.emit(Act.DELETE, here, state, by="git stash --all", recursive=True, only_below=True)
        elif {"-u", "--include-untracked"} & set(known):
            machine.emit(
                Act.DELETE,
                here,
                state,
                by="git stash -u",
                recursive=True,
                only_below=True,
                spares_ignored=True,
                certainty=Certainty.CONDITIONAL,
            )
    elif subcommand == "submodule" and "foreach" in known:
        words = [word for word in rest[known.index("foreach") + 1 :] if values.known(word) != "--recursive"]
        _own_shell(machine, _code_of(words), state, "git submodule foreach")
    elif subcommand == "bisect" and known[:1] == ["run"]:
        machine.call(rest[1:], state.copy(), external=True)
    elif subcommand == "rebase":
        for code in verbs.split(rest, frozenset({"-x", "--exec"})).values(frozenset({"-x", "--exec"})):
            _own_shell(machine, code, state, "git rebase -x")


_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash")
_PRINTING = frozenset({*printing_programs.PROGRAMS, *_SHELLS, "find", "gfind", "sed", "env", "xargs", "at", "batch"})
"""Programs whose output is modelled where they are."""
_SILENT = frozenset(
    ["rm", "rmdir", "unlink", "shred", "mv", "cp", "ln", "install", "truncate", "chmod", "chown", "chgrp", "patch"]
)

_SPECIAL: dict[str, Program] = {
    **file_programs.PROGRAMS,
    **printing_programs.PROGRAMS,
    **environment_programs.PROGRAMS,
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(("docker", "podman", "nerdctl"), containers.run),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), languages.awk),
    **dict.fromkeys(("node", "perl", "ruby", "php", "deno", "bun"), languages.other),
    **dict.fromkeys(("at", "batch"), _at),
    "env": _env,
    "git": _git,
    "parallel": _parallel,
    "ssh": _ssh,
    "xargs": _xargs,
}

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
    environment_programs,
    file_programs,
    found,
    git_program,
    languages,
    little_languages,
    printing_programs,
    shells,
    values,
    verbs,
    wrappers,
)
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

Program = Callable[[Machine, str, list[Value], State], None]

_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")


def run(machine: Machine, name: str, arguments: list[Value], state: State) -> None:
    """Note what a program does; the first of the arguments is its name."""
    words = arguments[1:]
    short = name.rpartition("/")[2].removesuffix(".exe")
    machine.emit(Act.RUN, arguments[0], state, by=short, arguments=tuple(words))
    if "/" in name and _written(machine, arguments, state):
        return
    if steering := _COMMANDS_IN.intersection(state.variables):
        if "GIT_CONFIG_COUNT" in steering:
            steering |= {each for each in state.variables if each.startswith("GIT_CONFIG_VALUE_")}
        _steered(machine, short, steering, state)
    program = _SPECIAL.get(short) or (languages.python if languages.PYTHON.fullmatch(short) else None)
    verb = verbs.table().get(short)
    if short not in _NAMES_ONLY:
        _read_found(machine, short, words, state)
    if program is not None:
        program(machine, name, words, state)
        if verb is not None and verb.beside:
            wrappers.walk(machine, verb, short, words, state)
    elif verb is not None:
        wrappers.walk(machine, verb, short, words, state)
    if short not in _PRINTING and (verb is None or (verb.wraps is None and short not in _SILENT)):
        state.output = values.joined(state.output, values.unknown(f"$({short} …)"))
    if not name.isascii() or any(not text.isascii() for word in words if (text := values.known(word)) is not None):
        _look_alikes(machine, name, words, state)


def _steered(machine: Machine, by: str, names: frozenset[str], state: State) -> None:
    """Note the commands in variables that the text has set and that a program may run."""
    child = state.copy()
    for name in names:
        del child.variables[name]  # what is started there would start it again
    for name in sorted(names):
        value = state.variables[name]
        if value is not None and (name in state.exported or name in state.session.environment):
            wrappers.named_command(machine, value, child, f"{by} with {name}")


def _read_found(machine: Machine, by: str, words: list[Value], state: State) -> None:
    """Note that a program which is given what a search finds reads it."""
    for word in words:
        members = tuple(pieces for pieces in word if len(pieces) == 1 and isinstance(pieces[0], found.Found))
        if members:
            machine.emit(Act.READ, members, state, by=by)


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


def understood(name: str) -> bool:
    """Return whether it is known what a program does."""
    return name in _SPECIAL or name in verbs.table()


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
    spelled = values.known(command[0]) if command else None
    if len(command) < 2 and not (spelled and re.fullmatch(r"[\w./+-]+", spelled)):
        machine.shell(wrappers.code_of(marked), child, positionals=(), name=values.text("sh"), what=name)
    else:
        machine.call(marked, child, external=True)


def _ssh(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, verbs.table()["ssh"].valued, ordered=True)
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
        machine.shell(
            wrappers.code_of(arguments.operands[1:]), child, positionals=(), name=values.text("sh"), what=name
        )


def _at(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`at`, `batch`: what comes in is run later, where it was said."""
    arguments = verbs.split(words, frozenset({"-f", "-q", "-t"}))
    files = [values.known(values.absolute(file, state.directories)) for file in arguments.values(frozenset({"-f"}))]
    if arguments.has(frozenset({"-l", "-c", "-d", "-r"})):
        return
    code = machine.contents(files[0], state) if files else state.stdin
    if code is not None:
        machine.shell(code, state, positionals=(), name=values.text("sh"), what=name)


def _windows(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """A shell of Windows, whose program another shell may start too: ``cmd.exe //c`` in Git's bash."""
    from perdure.guard import windows_shells, windows_words

    short = name.rpartition("/")[2].removesuffix(".exe").lower()
    opener = windows_shells.OPENERS[short]
    opener(machine, short, words, windows_words.joined(words), state)


def _windows_verb(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """A program of Windows that works on files."""
    from perdure.guard import windows_programs

    windows_programs.verb(machine, name.rpartition("/")[2].removesuffix(".exe").lower(), words, state)


_COMMANDS_IN = frozenset(
    [
        *(
            "PAGER",
            "MANPAGER",
            "GIT_PAGER",
            "EDITOR",
            "VISUAL",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "FCEDIT",
            "BROWSER",
        ),
        *("GIT_SSH_COMMAND", "GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"),
        *(
            "GIT_PROXY_COMMAND",
            "RSYNC_RSH",
            "RSYNC_CONNECT_PROG",
            "FZF_DEFAULT_COMMAND",
            "CC",
            "CXX",
            "LD",
            "SUDO_EDITOR",
            "LESSOPEN",
            "LESSCLOSE",
            "GIT_CONFIG_COUNT",
        ),
    ]
)
"""Variables that hold a command which some program runs."""


def _container(machine: Machine, name: str, words: list[Value], state: State) -> None:
    from perdure.guard import containers

    containers.run(machine, name, words, state)


def _make(machine: Machine, name: str, words: list[Value], state: State) -> None:
    from perdure.guard import make_program

    make_program.run(machine, name, words, state)


WINDOWS_SHELLS = ("cmd", "powershell", "pwsh", "wsl")
"""The shells that `windows_shells` opens: with it, most of what is for Windows is loaded when it is first met."""
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash")
_PRINTING = frozenset(
    {*printing_programs.PROGRAMS, *_SHELLS, *little_languages.NAMES, "find", "gfind", "env", "xargs", "at", "batch"}
)
"""Programs whose output is modelled where they are."""
_NAMES_ONLY = frozenset(
    [
        *("echo", "printf", "ls", "stat", "du", "basename", "dirname", "realpath", "readlink", "test", "[", "true"),
        *("touch", "mkdir", "rm", "rmdir", "unlink", "trash", "mv", "ln", "chmod", "chown", "chgrp"),
        *("find", "xargs", "env", "sh", "bash"),
    ]
)
"""Programs that read no contents of what a search finds."""
_SILENT = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "mv",
        "cp",
        "ln",
        "install",
        "truncate",
        "chmod",
        "chown",
        "chgrp",
        "patch",
        "mkdir",
        "touch",
    ]
)

_SPECIAL: dict[str, Program] = {
    **file_programs.PROGRAMS,
    **printing_programs.PROGRAMS,
    **environment_programs.PROGRAMS,
    **dict.fromkeys(_SHELLS, shells.run),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _container),
    **dict.fromkeys(("node", "perl", "ruby", "php", "deno", "bun"), languages.other),
    **dict.fromkeys(("at", "batch"), _at),
    **dict.fromkeys(WINDOWS_SHELLS, _windows),
    **dict.fromkeys(("robocopy", "xcopy", "icacls", "takeown", "attrib", "cipher", "forfiles"), _windows_verb),
    "env": shells.env,
    "git": git_program.run,
    **dict.fromkeys(("make", "gmake", "bmake"), _make),
    "parallel": _parallel,
    "ssh": _ssh,
    "xargs": _xargs,
}

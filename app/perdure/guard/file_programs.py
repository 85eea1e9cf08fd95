"""Programs that work on files and whose arguments are a language of their own, and those that print file names.

Owns: `find`, `dd`, `tar`, `rsync`, `sed`, and what `cat`, `ls`, `basename` and the like print. Does not own: programs
that the table describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from perdure.domain.effect import MOST_SPELLINGS, Act, Certainty, Hole, Pattern, Piece, Spelling, Text
from perdure.guard import values, verbs
from perdure.guard.found import Found
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

# --- find ---

_TESTS_WITH_VALUE = frozenset(
    [
        "-amin",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-context",
        "-ctime",
        "-fstype",
        "-gid",
        "-group",
        "-ilname",
        "-inum",
        "-links",
        "-lname",
        "-maxdepth",
        "-mmin",
        "-mtime",
        "-newer",
        "-perm",
        "-regextype",
        "-samefile",
        "-size",
        "-type",
        "-uid",
        "-used",
        "-user",
        "-xtype",
        "-regex",
        "-iregex",
        "-printf",
        "-newermt",
        "-newerct",
    ]
)
_CONDITIONAL_TESTS = frozenset(
    {"-xtype", "-lname", "-ilname", "-samefile", "-inum", "-newer", "-empty", "-fstype", "-perm"}
)
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True, slots=True)
class _Selection:
    """What an expression lets through: None stands for any name."""

    names: tuple[Value, ...] | None = None
    paths: tuple[Value, ...] | None = None
    conditional: bool = False

    def also(self, other: _Selection) -> _Selection:
        """Return what both let through, or more."""
        return _Selection(
            self.names if self.names is not None else other.names,
            self.paths if self.paths is not None else other.paths,
            self.conditional or other.conditional,
        )

    def either(self, other: _Selection) -> _Selection:
        """Return what one of them lets through."""
        names = (*self.names, *other.names) if self.names is not None and other.names is not None else None
        paths = (*self.paths, *other.paths) if self.paths is not None and other.paths is not None else None
        return _Selection(names, paths, self.conditional and other.conditional)


_ANYTHING = _Selection()


class _Find:
    """One `find` command line."""

    def __init__(self, machine: Machine, words: list[Value], state: State) -> None:
        self.machine = machine
        self.state = state
        self.words = words
        self.at = 0
        self.roots: list[Value] = []
        self.below = "-mindepth" in [values.known(word) for word in words]
        self.acted = False

    def run(self) -> None:
        """Note what is done to what is found, or print it."""
        while self.at < len(self.words):
            text = values.known(self.words[self.at])
            if text in {"-H", "-L", "-P"} or (text or "").startswith("-O"):
                self.at += 1
            elif text == "-D":
                self.at += 2
            elif text is not None and (text.startswith("-") or text in {"(", "!"}):
                break
            else:
                self.roots.append(self.words[self.at])
                self.at += 1
        self.roots = self.roots or [values.text(".")]
        selection = self._either()
        if not self.acted:
            self._print(selection)

    def _next(self) -> str | None:
        return values.known(self.words[self.at]) if self.at < len(self.words) else None

    def _value(self) -> Value:
        self.at += 1
        value = self.words[self.at] if self.at < len(self.words) else values.EMPTY
        self.at += 1
        return value

    def _either(self) -> _Selection:
        result = self._all()
        while self._next() in {"-o", "-or", ","}:
            comma = self._next() == ","
            self.at += 1
            right = self._all()
            result = right if comma else result.either(right)
        return result

    def _all(self) -> _Selection:
        result = _ANYTHING
        while self.at < len(self.words) and self._next() not in {"-o", "-or", ",", ")"}:
            if self._next() in {"-a", "-and"}:
                self.at += 1
                continue
            self.machine.step()
            result = result.also(self._primary(result))
        return result

    def _primary(self, before: _Selection) -> _Selection:
        text = self._next()
        if text == "(":
            self.at += 1
            inner = self._either_after(before)
            if self._next() == ")":
                self.at += 1
            return inner
        if text in {"!", "-not"}:
            self.at += 1
            self._primary(before)
            return _ANYTHING
        if text in {"-name", "-iname"}:
            return _Selection(names=(_pattern(self._value(), folded=text == "-iname"),))
        if text in {"-path", "-wholename", "-ipath", "-iwholename"}:
            return _Selection(paths=(_open_path(self._value()),))
        if text == "-delete":
            self.at += 1
            self.acted = True
            self._emit(before)
            return _ANYTHING
        if text in _EXEC:
            self._exec(before)
            return _ANYTHING
        if text in {"-fprint", "-fprint0", "-fls", "-fprintf"}:
            self.machine.emit(Act.OVERWRITE, self._value(), self.state, by=f"find {text}", through_link=True)
            return _ANYTHING
        if text in {"-print", "-print0", "-ls", "-printf"}:
            self.acted = True
            self._print(before)
        if text == "-files0-from" or text is None:
            self.roots.append(values.unknown("find"))
        if text in _TESTS_WITH_VALUE:
            self._value()
        else:
            self.at += 1
        return _Selection(conditional=text in _CONDITIONAL_TESTS)

    def _either_after(self, before: _Selection) -> _Selection:
        """Read a group; actions inside it also depend on what stands before it."""
        result = before.also(self._all_after(before))
        combined = result
        while self._next() in {"-o", "-or", ","}:
            self.at += 1
            combined = combined.either(before.also(self._all_after(before)))
        return combined

    def _all_after(self, before: _Selection) -> _Selection:
        result = before
        while self.at < len(self.words) and self._next() not in {"-o", "-or", ",", ")"}:
            if self._next() in {"-a", "-and"}:
                self.at += 1
                continue
            self.machine.step()
            result = result.also(self._primary(result))
        return result

    def _members(self, selection: _Selection) -> list[Value]:
        """Return what stands for the members that an expression lets through."""
        if selection.paths is not None:
            return [*selection.paths]
        return [
            (
                (
                    Found(
                        "found",
                        root=pieces,
                        below=self.below,
                        names=selection.names or (),
                        conditional=selection.conditional,
                    ),
                ),
            )
            for root in self.roots
            for pieces in root
        ]

    def _emit(self, selection: _Selection) -> None:
        for member in self._members(selection):
            self.machine.emit(Act.DELETE, member, self.state, by="find -delete")

    def _print(self, selection: _Selection) -> None:
        for member in self._members(selection):
            self.state.output = values.joined(self.state.output, member, values.text("\n"))

    def _exec(self, selection: _Selection) -> None:
        self.acted = True
        self.at += 1
        command: list[Value] = []
        while self.at < len(self.words):
            text = values.known(self.words[self.at])
            if text == ";" or (text == "+" and command and values.known(command[-1]) == "{}"):
                self.at += 1
                break
            command.append(self.words[self.at])
            self.at += 1
        for member in self._members(selection):
            child = self.state.copy()
            child.stdin = None
            self.machine.call([_put(word, member) for word in command], child, external=True)
            self.state.output = child.output


def _put(word: Value, member: Value) -> Value:
    """Return a word with what was found in the place of ``{}``."""
    text = values.known(word)
    if text is None or "{}" not in text:
        return word
    parts = text.split("{}")
    return values.joined(*[item for part in parts for item in (member, values.text(part))][1:])


def _pattern(value: Value, *, folded: bool) -> Value:
    """Return the pattern of ``-name`` as a value."""
    result = []
    for pieces in value:
        text = values.spelled(pieces)
        if text is None:
            result.append(pieces)
            continue
        if folded:
            text = "".join(f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter for letter in text)
        result.append(values.globbed(text))
    return tuple(result)


def _open_path(value: Value) -> Value:
    """Return the pattern of ``-path``, whose stars cross slashes."""
    pieces: list[Piece] = []
    for piece in value[0]:
        if isinstance(piece, Text):
            pieces += [Hole("*") if isinstance(part, Pattern) else part for part in values.globbed(piece.text)]
        else:
            pieces.append(piece)
    return (values.merged(tuple(pieces)),)


def _find(machine: Machine, name: str, words: list[Value], state: State) -> None:
    _Find(machine, words, state).run()


# --- Others ---


def _dd(machine: Machine, name: str, words: list[Value], state: State) -> None:
    for word in words:
        for key, act in (("of=", Act.OVERWRITE), ("if=", Act.READ)):
            first = word[0][0] if word[0] else None
            if isinstance(first, Text) and first.text.startswith(key):
                target = (values.merged((Text(first.text[3:]), *word[0][1:])),)
                machine.emit(act, target, state, by="dd", through_link=True)


def _tar(machine: Machine, name: str, words: list[Value], state: State) -> None:
    rest = list(words)
    first = values.known(rest[0]) if rest else None
    valued = frozenset(
        [
            "-f",
            "--file",
            "-C",
            "--directory",
            "-X",
            "--exclude-from",
            "-T",
            "--files-from",
            "-I",
            "--use-compress-program",
            "--exclude",
            "--transform",
            "--owner",
            "--group",
            "--strip-components",
            "--mtime",
            "-b",
            "-g",
            "--one-top-level=",
            "--to-command",
            "--checkpoint-action",
        ]
    )
    options: list[tuple[str, Value | None]] = []
    if first is not None and not first.startswith("-") and first:
        # The old way: letters without a dash, their values behind them in order.
        rest = rest[1:]
        for letter in first:
            value = rest.pop(0) if f"-{letter}" in valued and rest else None
            options.append((f"-{letter}", value))
    arguments = verbs.split(rest, valued)
    arguments.options += options
    for place in arguments.values(frozenset({"-C", "--directory"})):
        child = state.copy()
        child.directories = values.absolute(place, state.directories)
        state = child
    _pack(machine, arguments, state)
    for code in arguments.values(frozenset({"--to-command", "-I", "--use-compress-program"})):
        machine.shell(code, state.copy(), positionals=(), name=values.text("sh"), what="tar")
    for action in arguments.values(frozenset({"--checkpoint-action"})):
        text = values.known(action) or ""
        if text.startswith("exec="):
            machine.shell(values.text(text[5:]), state.copy(), positionals=(), name=values.text("sh"), what="tar")


def _pack(machine: Machine, arguments: verbs.Arguments, state: State) -> None:
    """Note what making or unpacking an archive does."""
    has = arguments.has
    archive = arguments.values(frozenset({"-f", "--file"}))
    if has(frozenset({"-c", "--create", "-r", "--append", "-u", "--update"})):
        for target in archive:
            if values.known(target) != "-":
                machine.emit(Act.OVERWRITE, target, state, by="tar", through_link=True)
        if has(frozenset({"--remove-files"})):
            for operand in arguments.operands:
                machine.emit(Act.DELETE, operand, state, by="tar --remove-files", recursive=True)
    elif has(frozenset({"-x", "--extract", "--get"})):
        # What it writes is in the archive; into a directory of ours it can only do harm.
        certainty = Certainty.DEFINITE if has(frozenset({"--recursive-unlink"})) else Certainty.CONDITIONAL
        act = Act.DELETE if has(frozenset({"--recursive-unlink"})) else Act.OVERWRITE
        for operand in arguments.operands or [values.text(".")]:
            machine.emit(act, operand, state, by="tar -x", certainty=certainty, recursive=act is Act.DELETE)


def _rsync(machine: Machine, name: str, words: list[Value], state: State) -> None:
    valued = frozenset(
        [
            "-e",
            "--rsh",
            "--exclude",
            "--include",
            "--exclude-from",
            "--include-from",
            "--filter",
            "-f",
            "--files-from",
            "--backup-dir",
            "--suffix",
            "--log-file",
            "--partial-dir",
            "-T",
            "--temp-dir",
            "--compare-dest",
            "--copy-dest",
            "--link-dest",
            "-M",
            "--remote-option",
            "--chmod",
            "--chown",
            "--port",
            "--bwlimit",
            "--timeout",
            "--max-size",
            "--min-size",
            "--info",
            "--password-file",
            "--rsync-path",
            "-B",
            "--block-size",
        ]
    )
    arguments = verbs.split(words, valued)
    if len(arguments.operands) < 2 or arguments.has(frozenset({"-n", "--dry-run"})):
        return
    *sources, target = arguments.operands
    if not _remote(target):
        if any(option.startswith("--del") for option, _ in arguments.options):
            spared = tuple(arguments.values(frozenset({"--exclude"})))
            for source in sources:
                contents = any(
                    pieces and isinstance(last := pieces[-1], Text) and last.text.endswith("/") for pieces in source
                )
                place = target if contents else verbs.landing(source, target)
                machine.emit(
                    Act.DELETE,
                    place,
                    state,
                    by="rsync --delete",
                    recursive=True,
                    only_below=True,
                    spared=spared,
                    through_link=True,
                )
        for place in verbs.destinations(sources, target, machine, state):
            machine.emit(Act.OVERWRITE, place, state, by="rsync", through_link=True)
    if arguments.has(frozenset({"--remove-source-files"})):
        for source in sources:
            if not _remote(source):
                machine.emit(Act.DELETE, source, state, by="rsync --remove-source-files", recursive=True)
    for code in arguments.values(frozenset({"-e", "--rsh"})):
        if values.known(code) is None or " -c " in (values.known(code) or ""):
            machine.shell(code, state.copy(), positionals=(), name=values.text("sh"), what="rsync -e")


def _remote(path: Value) -> bool:
    first = path[0][0] if path[0] else None
    return isinstance(first, Text) and ":" in first.text.split("/", 1)[0]


def _sed(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(
        words,
        frozenset(["-e", "--expression", "-f", "--file", "-l", "--line-length", "-i=", "--in-place=", "-E=", "-I"]),
    )
    scripted = arguments.has(frozenset({"-e", "--expression", "-f", "--file"}))
    files = arguments.operands if scripted else arguments.operands[1:]
    if any(option in {"-i", "-I"} or option.startswith("--in-place") for option, _ in arguments.options):
        for operand in files:
            machine.emit(Act.OVERWRITE, operand, state, by="sed -i")
    state.output = values.joined(state.output, values.unknown("sed"))


# --- What is printed ---


def _cat(machine: Machine, name: str, words: list[Value], state: State) -> None:
    files = [word for word in words if not (values.known(word) or "").startswith("-") or values.known(word) == "-"]
    for word in files or [values.text("-")]:
        if values.known(word) == "-":
            text = state.stdin if state.stdin is not None else values.unknown("standard input")
        else:
            path = values.known(values.absolute(word, state.directories))
            text = state.files[path] if path in state.files and path is not None else values.unknown(f"{name} …")
            machine.emit(Act.READ, word, state, by=name, through_link=True)
        state.output = values.joined(state.output, text)


def _tee(machine: Machine, name: str, words: list[Value], state: State) -> None:
    verb = verbs.table()["tee"]
    arguments = verbs.split(words, verb.valued)
    verbs.apply(verb, arguments, machine, state, by="tee")
    text = state.stdin if state.stdin is not None else values.unknown("standard input")
    for operand in arguments.operands:
        path = values.known(values.absolute(operand, state.directories))
        if path is not None:
            state.files[path] = text if not arguments.has(frozenset({"-a", "--append"})) else values.unknown(path)
    state.output = values.joined(state.output, text)


def _through(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print some or all of the lines they read, unchanged."""
    verb = verbs.table().get(name)
    if verb is not None:
        verbs.apply(verb, verbs.split(words, verb.valued), machine, state, by=name)
    reads = not any(not (values.known(word) or "-").startswith(("-", "+")) for word in words)
    text = state.stdin if reads and state.stdin is not None else values.unknown(name)
    state.output = values.joined(state.output, text)


def _ls(machine: Machine, name: str, words: list[Value], state: State) -> None:
    options = "".join(text[1:] for word in words if (text := values.known(word) or "").startswith("-"))
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    printed: list[Value] = list(operands) if "d" in options else [((Pattern("*"),),)]
    if "d" not in options and operands:
        printed += operands
    if set("aAf") & set(options):
        printed.append(((Text("."), Pattern("*")),))
    for item in printed:
        state.output = values.joined(state.output, item, values.text("\n"))


def _name_only(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print one word without a slash."""
    state.output = values.joined(state.output, ((Pattern("*"),),), values.text("\n"))


def _basename(machine: Machine, name: str, words: list[Value], state: State) -> None:
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    if not operands:
        return
    suffix = values.known(operands[1]) if len(operands) > 1 else ""
    found: list[Spelling] = []
    for pieces in operands[0]:
        text = values.spelled(pieces)
        if text is None or suffix is None:
            found.append((Pattern("*"),))  # whatever it is, it has no slash
        else:
            part = text.rstrip("/").rpartition("/")[2]
            found.append((Text(part.removesuffix(suffix) if part != suffix else part),))
    state.output = values.joined(state.output, values.union(tuple(found)), values.text("\n"))


def _dirname(machine: Machine, name: str, words: list[Value], state: State) -> None:
    found: list[Spelling] = []
    for pieces in words[-1] if words else ():
        text = values.spelled(pieces)
        if text is None:
            found.append((Hole("$(dirname …)"),))
        else:
            head = text.rstrip("/").rpartition("/")[0].rstrip("/")
            found.append((Text(head or ("/" if text.startswith("/") else ".")),))
    state.output = values.joined(state.output, values.union(tuple(found or [()])), values.text("\n"))


def _realpath(machine: Machine, name: str, words: list[Value], state: State) -> None:
    operands = [word for word in words if not (values.known(word) or "").startswith("-")]
    resolves = name == "realpath" or any(
        (values.known(word) or "") in {"-f", "-e", "-m", "--canonicalize"} for word in words
    )
    for operand in operands:
        # The path itself, which is compared by where it leads, or unknown where a link's text is meant.
        path = values.absolute(operand, state.directories) if resolves else values.unknown("readlink")
        state.output = values.joined(state.output, path, values.text("\n"))


def _mktemp(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset({"-p", "--tmpdir=", "--suffix"}))
    base = (arguments.values(frozenset({"-p", "--tmpdir"})) or [state.variable("TMPDIR") or values.EMPTY])[0]
    if "TMPDIR" not in state.variables and "TMPDIR" not in state.session.environment and not values.known(base):
        base = values.text("/tmp")  # noqa: S108  # what mktemp takes where nothing is set
    template = arguments.operands[0] if arguments.operands else values.text("tmp.XXXXXXXXXX")
    placed = not arguments.operands or arguments.has(frozenset({"-p", "--tmpdir", "-t"}))
    pieces: list[Piece] = []
    for piece in template[0]:
        if isinstance(piece, Text):
            head, *rest = re.split(r"X{3,}", piece.text)
            pieces.append(Text(head))
            for part in rest:
                pieces += [Pattern("*"), Text(part)]
        else:
            pieces.append(piece)
    path: Value = (values.merged(tuple(pieces)),)
    if placed:
        path = values.joined(base, values.text("/"), path)
    state.output = values.joined(state.output, path, values.text("\n"))


def _date(machine: Machine, name: str, words: list[Value], state: State) -> None:
    form = next((text for word in words if (text := values.known(word) or "").startswith("+")), "")
    slashes = "/" in form or re.search(r"%[Dx]", form) or not form
    state.output = values.joined(
        state.output, values.unknown("date") if slashes else ((values.DIGITS,),), values.text("\n")
    )


def _seq(machine: Machine, name: str, words: list[Value], state: State) -> None:
    numbers = [values.known(word) or "" for word in words]
    if 1 <= len(numbers) <= 2 and all(number.isdigit() for number in numbers):
        first, last = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
        if last - first < MOST_SPELLINGS:
            state.output = values.joined(
                state.output, values.text("".join(f"{number}\n" for number in range(first, last + 1)))
            )
            return
    state.output = values.joined(state.output, ((values.DIGITS,),), values.text("\n"))


def _nothing(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Programs that print nothing."""


PROGRAMS: dict[str, Callable[[Machine, str, list[Value], State], None]] = {
    **dict.fromkeys(("sort", "uniq", "head", "tail", "tac", "shuf", "nl"), _through),
    **dict.fromkeys(("whoami", "id", "hostname", "uname", "nproc", "arch", "tty", "logname"), _name_only),
    **dict.fromkeys(("realpath", "readlink"), _realpath),
    **dict.fromkeys(("test", "[", "sleep", "mkdir", "touch", "wait", "kill"), _nothing),
    "basename": _basename,
    "cat": _cat,
    "date": _date,
    "dd": _dd,
    "dirname": _dirname,
    "find": _find,
    "gfind": _find,
    "ls": _ls,
    "mktemp": _mktemp,
    "rsync": _rsync,
    "sed": _sed,
    "seq": _seq,
    "tar": _tar,
    "bsdtar": _tar,
    "gtar": _tar,
    "tee": _tee,
}

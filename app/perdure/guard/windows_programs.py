"""What programs of Windows do, and the commands that cmd.exe has itself: by their words.

Owns: their options and operands. Does not own: other shells (windows_shells),
nor how words come about (cmd_shell, powershell), or programs that are alike everywhere (programs).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Hole, Spelling, Text
from perdure.guard import values, windows_paths, windows_shells, windows_words
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

Verb = Callable[[Machine, str, list[str], list[Value], State], None]
"""Gets the options, in lower case, and the operands."""

_PATH = late(r"(--?[\w-]+=)?((?:[A-Za-z]:|[\\/]{2}[?.][\\/])[^\"';()\n]*|[^\"';()\n\s]*\\[^\"';()\n]*)")


def run(
    machine: Machine,
    name: str,
    words: list[Value],
    state: State,
    *,
    raw: Value | None = None,
    internal: bool = False,
) -> None:
    """Note what a program does.

    Args:
        machine: keeps the effects.
        name: as it was written.
        words: its arguments, as Windows writes them.
        state: of the shell.
        raw: the arguments as one text, where they stand in one.
        internal: whether it is a command of cmd.exe, whose options may stand together, as in ``/s/q``.
    """
    machine.step()
    short = re.sub(r"(?i)\.(?:exe|com|cmd|bat)$", "", name.replace("\\", "/").rpartition("/")[2]).lower()
    opener = windows_shells.OPENERS.get(short)
    if opener is not None:
        machine.emit(Act.RUN, values.text(short), state, by=short, arguments=tuple(words))
        opener(machine, short, words, raw if raw is not None else windows_words.joined(words), state)
        return
    act = INTERNAL.get(short) if internal else VERBS.get(short)
    if act is None:
        elsewhere = "/" in name.replace("\\", "/")
        called = values.known(windows_words.place(state, values.text(name), globs=False)) if elsewhere else short
        machine.program(called or short, [values.text(called or short), *(_posix(w, state) for w in words)], state)
        return
    machine.emit(Act.RUN, values.text(_CALLED.get(short, short)), state, by=short, arguments=tuple(words))
    options, operands = _options(words)
    act(machine, short, options, operands, state)
    if short not in _SILENT:
        state.output = values.joined(state.output, values.unknown(short))


def verb(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """Note what a program of the table does, the start of which another shell has noted."""
    options, operands = _options(
        [
            values.text(known[1:])
            if (known := values.known(word) or "").startswith("//") and known[2:3].isalpha()
            else word
            for word in words
        ]
    )
    VERBS[name](machine, name, options, operands, state)


def _options(words: list[Value]) -> tuple[list[str], list[Value]]:
    options: list[str] = []
    operands: list[Value] = []
    for word in words:
        first = word[0][0] if word and word[0] else Text("")
        if isinstance(first, Text) and re.match(r"/[A-Za-z?\-]", first.text):
            known = values.known(word)
            if known is None:
                options.append(first.text.lower())
            elif re.fullmatch(r"(?:/-?[A-Za-z?](?::[^/]*)?)+", known):
                options += ["/" + part.lower() for part in known.split("/")[1:]]
            else:
                options.append(known.lower())
        elif word != values.EMPTY:
            operands.append(word)
    return options, operands


def _posix(word: Value, state: State) -> Value:
    """Return an argument of a program that everybody has, with a path in it as this guard writes it."""
    found: list[Value] = []
    for pieces in word:
        first = pieces[0] if pieces else Text("")
        match = _PATH.match(first.text) if isinstance(first, Text) else None
        if match is None or (len(pieces) == 1 and match.end() != len(getattr(first, "text", ""))):
            found.append((pieces,))
            continue
        head = match[1] or ""
        rest = (values.merged((Text(str(getattr(first, "text", ""))[len(head) :]), *pieces[1:])),)
        found.append(values.joined(values.text(head), windows_words.place(state, rest, globs=False)))
    return values.union(*found) if found else word


def _rd(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    for operand in operands:
        # A link to a directory is taken away itself.
        machine.emit(
            Act.DELETE, windows_words.place(state, operand, globs=False), state, by=name, recursive="/s" in options
        )


def _del(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    below = "/s" in options
    for operand in operands:
        target = windows_words.place(state, operand, globs=True)
        machine.emit(Act.DELETE, target, state, by=name)
        if not below:
            machine.emit(
                Act.DELETE,
                tuple((*pieces, Text("/"), Text(""), *values.globbed("*")) for pieces in target),
                state,
                by=name,
            )
            continue
        machine.emit(Act.DELETE, target, state, by=name, recursive=True, only_below=True)
        for pieces in target:
            base = values.base(pieces)
            folder = _folder(pieces)
            if base:
                machine.emit(Act.DELETE, (folder,), state, by=name, recursive=True, only_below=True, names=((base,),))


def _folder(pieces: Spelling) -> Spelling:
    made = ""
    for piece in pieces:
        if not isinstance(piece, Text):
            break
        made += piece.text
    folder = made.rpartition("/")[0]
    return (Text(folder or "/"),)


def _into(target: Value, source: Value) -> Value:
    return values.joined(target, values.text("/"), tuple(values.base(pieces) for pieces in source))


def _move(machine: Machine, name: str, _options: list[str], operands: list[Value], state: State) -> None:
    if not operands:
        return
    source = windows_words.place(state, operands[0], globs=True)
    machine.emit(Act.MOVE, source, state, by=name)
    if name in {"ren", "rename"}:
        return
    target = windows_words.place(state, operands[1] if len(operands) > 1 else values.text("."), globs=False)
    machine.emit(Act.OVERWRITE, target, state, by=name)
    machine.emit(Act.OVERWRITE, _into(target, source), state, by=name)


def _copy(machine: Machine, name: str, _options: list[str], operands: list[Value], state: State) -> None:
    parts = [part for part in operands if values.known(part) != "+"]
    if not parts:
        return
    source = windows_words.place(state, parts[0], globs=True)
    machine.emit(Act.READ, source, state, by=name)
    target = windows_words.place(state, parts[-1] if len(parts) > 1 else values.text("."), globs=False)
    machine.emit(Act.OVERWRITE, target, state, by=name, through_link=True)
    machine.emit(Act.OVERWRITE, _into(target, source), state, by=name, through_link=True)


def _robocopy(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    if len(operands) < 2:
        return
    source, target = (windows_words.place(state, operand, globs=False) for operand in operands[:2])
    names = tuple(windows_words.place_name(operand) for operand in operands[2:])
    if {"/mir", "/purge"} & set(options) and "/l" not in options:
        machine.emit(Act.DELETE, target, state, by=f"{name} /mir", recursive=True, only_below=True, names=names)
    if {"/move", "/mov"} & set(options) and "/l" not in options:
        machine.emit(
            Act.DELETE, source, state, by=f"{name} /move", recursive=True, only_below="/mov" in options, names=names
        )
    if "/l" not in options:
        machine.emit(Act.OVERWRITE, _into(target, ((Hole("a name"),),)), state, by=name)


def _mklink(machine: Machine, name: str, _options: list[str], operands: list[Value], state: State) -> None:
    if len(operands) < 2:
        return
    link, target = (windows_words.place(state, operand, globs=False) for operand in operands[:2])
    machine.emit(Act.OVERWRITE, link, state, by=name)
    machine.emit(Act.RUN, values.text("ln"), state, by="ln", arguments=(values.text("-sn"), target, link))


def _permissions(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    targets = operands
    if name == "takeown":
        targets = operands if "/f" in options else []
    elif name == "attrib":
        targets = [word for word in operands if not re.match(r"[+-]", values.known(word) or "")]
        if len(targets) == len(operands):
            return  # it only shows
    elif name in {"icacls", "cacls"}:
        targets = operands[:1]
        if not options and len(operands) == 1:
            return
        if {"/save", "/findsid", "/verify"} & set(options):
            return
    recursive = bool({"/r", "/s", "/t"} & set(options))
    for operand in targets:
        machine.emit(
            Act.PERMIT,
            windows_words.place(state, operand, globs=True),
            state,
            by=name,
            recursive=recursive,
            through_link=True,
        )


def _overwriting(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    """Note a program that writes a file that an option names, as ``sort /o``."""
    if "/o" in options and operands:
        machine.emit(Act.OVERWRITE, windows_words.place(state, operands[-1], globs=False), state, by=f"{name} /o")


def _making(machine: Machine, name: str, _options: list[str], operands: list[Value], state: State) -> None:
    for operand in operands:
        machine.emit(
            Act.RUN, values.text("mkdir"), state, by=name, arguments=(windows_words.place(state, operand, globs=False),)
        )


def _reading(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    for operand in operands:
        target = windows_words.place(state, operand, globs=True)
        machine.emit(Act.READ, target, state, by=name)
        if name == "type":
            state.output = values.joined(state.output, machine.contents(values.known(target), state))
    if name == "dir":
        for operand in operands or [values.text(".")]:
            listed = _listed(operand, state, below="/s" in options) if "/b" in options else values.unknown("dir")
            state.output = values.joined(state.output, listed)


def _listed(operand: Value, state: State, *, below: bool) -> Value:
    """Return what ``dir /b`` may print: what is in a directory, or fits a name; with ``/s`` whole paths, and deeper."""
    text = values.known(operand)
    if text is None:
        return values.unknown("dir")
    folder, slash, name = text.replace("/", "\\").rpartition("\\")
    between, deeper = values.text("\\"), values.joined(((Hole("a directory below"),),), values.text("\\"))

    def fitting(above: Value, pattern: str) -> Value:
        names = values.single(windows_words.place_name(values.text(pattern)))
        if not below:
            return names
        above = values.joined(windows_paths.spelled(windows_words.place(state, above, globs=False)), between)
        return values.union(values.joined(above, names), values.joined(above, deeper, names))

    parent = values.text(folder + slash or ".")
    if "*" in name or "?" in name:
        return fitting(parent, name)
    within = fitting(operand, "*")
    return values.union(within, fitting(parent, name)) if below and name not in {"", ".", ".."} else within


def _cipher(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    for operand in operands:
        machine.emit(Act.CHANGE, windows_words.place(state, operand, globs=False), state, by=name, recursive=True)


def _forfiles(machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    """`forfiles`: a command for each file below a directory; ``@path`` stands for it."""
    given = dict(_pairs(options, operands))
    folder = windows_words.place(state, given.get("/p", values.text(".")), globs=False)
    names = (windows_words.place_name(given["/m"]),) if "/m" in given else ()
    command = values.known(given.get("/c", values.EMPTY)) or ""
    child = state.copy()
    child.directories = values.union(folder, values.joined(folder, ((Text("/"), Hole("a directory below")),)))
    verb = re.search(r"(?i)\b(del|erase|rd|rmdir)\b", command)
    if verb is not None and "@" in command:
        machine.emit(
            Act.DELETE,
            folder,
            state,
            by=f"{name} {verb[1]}",
            recursive=True,
            only_below=True,
            names=names,
            certainty=Certainty.CONDITIONAL if "/d" in given else Certainty.DEFINITE,
        )
        return
    machine.cmd_code(values.text(command), child, name)


def _pairs(options: list[str], operands: list[Value]) -> list[tuple[str, Value]]:
    taking = [option for option in options if option in {"/p", "/m", "/c", "/d"}]
    return list(zip(taking, operands, strict=False))


def _drive(_machine: Machine, name: str, options: list[str], operands: list[Value], state: State) -> None:
    """`subst` and ``net use``: a drive that is another place."""
    words = operands[1:] if name == "net" else operands
    letter = values.known(words[0]) if len(words) > 1 else None
    if letter is not None and re.fullmatch(r"[A-Za-z]:", letter) and "/d" not in options:
        state.variables[f"drive:{letter[0].lower()}"] = windows_words.place(state, words[1], globs=False)


def _shows(_machine: Machine, _name: str, _options: list[str], _operands: list[Value], _state: State) -> None:
    return


VERBS: dict[str, Verb] = {
    **dict.fromkeys(("robocopy",), _robocopy),
    **dict.fromkeys(("xcopy",), _copy),
    **dict.fromkeys(("icacls", "cacls", "takeown", "attrib"), _permissions),
    **dict.fromkeys(("format", "diskpart", "vssadmin", "wbadmin", "bcdedit", "taskkill", "reg", "schtasks"), _shows),
    **dict.fromkeys(
        ("where", "findstr", "tasklist", "systeminfo", "ipconfig", "fc", "comp", "find", "more", "clip"), _shows
    ),
    **dict.fromkeys(("ping", "timeout", "choice", "chcp", "setx", "wmic", "shutdown", "msiexec", "rundll32"), _shows),
    "net": _drive,
    "subst": _drive,
    "tree": _shows,
    "cipher": _cipher,
    "forfiles": _forfiles,
    "sort": _overwriting,
}

INTERNAL: dict[str, Verb] = {
    **dict.fromkeys(("rd", "rmdir"), _rd),
    **dict.fromkeys(("del", "erase"), _del),
    **dict.fromkeys(("move", "ren", "rename"), _move),
    **dict.fromkeys(("md", "mkdir"), _making),
    **dict.fromkeys(("type", "dir"), _reading),
    **dict.fromkeys(
        (
            *(
                "assoc",
                "break",
                "call",
                "cd",
                "chdir",
                "cls",
                "color",
                "date",
                "echo",
                "endlocal",
                "exit",
                "ftype",
                "goto",
            ),
            *("path", "pause", "popd", "prompt", "pushd", "set", "setlocal", "shift", "start", "time", "title", "ver"),
            *("verify", "vol"),
        ),
        _shows,
    ),
    "copy": _copy,
    "mklink": _mklink,
}
"""Commands that cmd.exe has itself; some of them are cmd_shell's."""

_SILENT = frozenset({"rd", "rmdir", "md", "mkdir", "set", "cls", "title", "setlocal", "endlocal", "type", "dir", "ren"})
_CALLED = {"ver": "ver"}

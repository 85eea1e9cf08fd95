"""From one shell to another: ``cmd /c``, ``powershell -Command``, `wsl`.

Owns: where their command lines have code, and in which form. Does not own: the code itself (cmd_shell, powershell).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from perdure.domain.effect import Act, Spelling, Text
from perdure.guard import values, windows_words
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


def cmd(machine: Machine, name: str, _words: list[Value], raw: Value, state: State) -> None:
    """``cmd /c``: what stands behind it, or what comes in."""
    child = state.copy()
    codes: list[Value] = []
    for pieces in raw:
        first = pieces[0] if pieces else Text("")
        found = (
            re.match(r"(?is)\s*(?:/{1,2}[A-BD-JL-Z](?::\w+)?\s*)*/{1,2}[ckr](?=[\s\"/(@\w])\s*", first.text)
            if isinstance(first, Text)
            else None
        )
        if found is None:
            continue
        rest = values.merged((Text(getattr(first, "text", "")[found.end() :]), *pieces[1:]))
        codes.append((_unquoted(rest),))
    if codes:
        machine.cmd_code(values.union(*codes), child, f"{name} /c")
    elif state.stdin is not None:
        machine.cmd_code(state.stdin, child, f"{name} reading its input")
    state.output = values.joined(state.output, child.output if child.output != state.output else values.EMPTY)


def _unquoted(pieces: Spelling) -> Spelling:
    known = values.spelled(pieces)
    if known is None:
        return pieces
    text = unquoted(known)
    return (Text(text),) if text else ()


def unquoted(text: str) -> str:
    """Return what stands behind ``/c`` without the quotes around it."""
    text = text.strip()
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return text[1:-1]
    return text[1:] if text.startswith('"') and text.count('"') > 2 else text


_VALUED = late(
    r"-(?:ex\w*|ep|version|v|outputformat|o\w*|inputformat|inp\w*|windowstyle|w|win\w*|configurationname|settingsfile|psc\w*)$"
)


def powershell(machine: Machine, name: str, words: list[Value], _raw: Value, state: State) -> None:
    """`powershell`: code behind ``-Command``, encoded code, a script, or what comes in."""
    child = state.copy()
    child.output = values.EMPTY
    rest = list(words)
    core = name == "pwsh"
    while rest:
        known = values.known(rest[0])
        if known is None or known[:1] not in {"-", "/"} or known == "-":
            break
        option = "-" + known[1:].lower()
        if ("-encodedcommand".startswith(option) and len(option) > 1) or option == "-ec":
            text = _decoded(values.known(rest[1]) if len(rest) > 1 else None)
            machine.powershell_code(
                values.text(text) if text is not None else values.unknown("-EncodedCommand"),
                child,
                f"{name} {option}",
            )
            state.output = values.joined(state.output, child.output)
            return
        if "-command".startswith(option) and len(option) > 1:
            rest = rest[1:]
            core = False
            break
        if "-file".startswith(option) and len(option) > 1:
            rest, core = rest[1:], True
            break
        if option in {"-wd", "-workingdirectory"} and len(rest) > 1:
            child.directories = windows_words.place(state, rest[1], globs=False)
        rest = rest[2 if _VALUED.match(option) or option in {"-wd", "-workingdirectory"} else 1 :]
    if not rest or values.known(rest[0]) == "-":
        if state.stdin is not None:
            machine.powershell_code(state.stdin, child, f"{name} reading its input")
    elif core:
        path = values.known(windows_words.place(state, rest[0], globs=False))
        text_of = machine.contents(path, state)
        if values.texts(text_of) is not None:
            machine.powershell_code(text_of, child, values.shown(rest[0]))
        else:
            machine.emit(Act.RUN, rest[0], state, by=values.shown(rest[0]), arguments=tuple(rest[1:]))
    else:
        machine.powershell_code(
            values.joined(*[item for word in rest for item in (values.text(" "), word)][1:]),
            child,
            f"{name} -Command",
        )
    state.output = values.joined(state.output, child.output)


def _decoded(text: str | None) -> str | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True).decode("utf-16-le")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def wsl(machine: Machine, name: str, words: list[Value], _raw: Value, state: State) -> None:
    """`wsl`: a Linux shell that sees the drives below ``/mnt``."""
    rest = list(words)
    child = state.copy()
    while rest:
        known = values.known(rest[0])
        if known is None or not known.startswith("-"):
            break
        rest = rest[1:]
        if known in {"--cd", "-d", "--distribution", "-u", "--user", "--shell-type"}:
            if known == "--cd" and rest:
                child.directories = windows_words.place(state, rest[0], globs=False)
            rest = rest[1:]
        elif known in {"-e", "--exec", "--"}:
            break
        elif known in {"--unregister", "--uninstall", "--terminate", "--shutdown"}:
            return
    if rest:
        code = values.joined(*[item for word in rest for item in (values.text(" "), word)][1:])
        machine.shell(code, child, positionals=(), name=values.text("bash"), what=name)
    elif state.stdin is not None:
        machine.shell(state.stdin, child, positionals=(), name=values.text("bash"), what=name)


OPENERS: dict[str, Callable[[Machine, str, list[Value], Value, State], None]] = {
    "cmd": cmd,
    "powershell": powershell,
    "pwsh": powershell,
    "wsl": wsl,
}

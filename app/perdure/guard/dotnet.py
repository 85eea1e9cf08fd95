"""Methods and properties in PowerShell: of .NET's own types, of files, of texts.

Owns: what they do to files, what they give, and the operators that work on texts. Does not own: expressions
(powershell).
"""

from __future__ import annotations

import base64
import binascii
import re

from perdure.domain.effect import Act, Hole
from perdure.guard import (
    cmd_shell,
    powershell_files,
    values,
    windows_paths,
    windows_programs,
    windows_shells,
    windows_words,
)
from perdure.guard.late import late
from perdure.guard.powershell_machine import Entries, PowerShell
from perdure.guard.powershell_tree import Block, Kind, Member, Quoted
from perdure.guard.state import State
from perdure.guard.values import Value

_FILES = late(r"(?:io\.)?(?:file|directory|filesystem)|microsoft\.visualbasic\.fileio\.filesystem")
_PATH_PROPERTIES = frozenset({"fullname", "path", "pspath", "providerpath", "value", "target", "linktarget"})
_DELETING = late(
    r"delete(?:file|folder|directory)?|remove(?:file|folder|directory)?|kill|movetorecyclebin", re.IGNORECASE
)
_MOVING = late(r"move(?:to|file|folder|directory)?", re.IGNORECASE)
_WRITING = late(
    r"write(?:all\w+)?|create(?:text|textfile)?|appendall\w+|appendtext|openwrite|open|setattributes|setaccesscontrol|replace"
    r"|copy(?:to|file|folder|directory)?|encrypt",
    re.IGNORECASE,
)


def member(shell: PowerShell, node: Member, state: State) -> list[Value]:
    """Note what a method does, and return what it or a property gives."""
    names = [shell.value(node.name, state)]
    name = (values.known(names[0]) or "").lower()
    arguments = [shell.value(argument, state) for argument in node.arguments or ()]
    if isinstance(node.of, Kind):
        return _static(shell, node.of.name, name, None if node.arguments is None else arguments, state)
    if _is_invoke_command(node):
        return (
            shell.text_of_code(arguments, state, "InvokeScript") if arguments else [values.unknown("$ExecutionContext")]
        )
    items = shell.evaluate(node.of, state)
    if node.arguments is None:
        return _property(shell, items, name)
    if not name:
        shell.machine.problem("powershell: a method whose name is not known")
        return [values.unknown("a method")]
    return _method(shell, items, name, arguments, state)


def _is_invoke_command(node: Member) -> bool:
    return isinstance(node.name, Quoted) and node.name.parts[:1] in {("invokescript",), ("newscriptblock",)}


def _property(shell: PowerShell, items: list[Value], name: str) -> list[Value]:
    if name in _PATH_PROPERTIES:
        return items
    found: list[Value] = []
    for item in shell.each(items):
        thing = shell.thing(item)
        if isinstance(thing, Entries):
            found.append(thing.names[0] if len(thing.names) == 1 and name == "name" else ((Hole(f".{name}"),),))
        elif name in {"directoryname", "parent", "directory", "psparentpath"} and values.known(item) is not None:
            found.append(values.text(re.split(r"[\\/](?=[^\\/]*$)", values.known(item) or "")[0]))
        elif name in {"name", "basename", "pschildname"} and values.known(item) is not None:
            found.append(values.text(re.split(r"[\\/]", (values.known(item) or "").rstrip("\\/"))[-1]))
        elif name in {"length", "count"}:
            found.append(((values.DIGITS,),))
        else:
            found.append(values.unknown(f".{name}"))
    return found or [values.unknown(f".{name}")]


def _static(shell: PowerShell, kind: str, name: str, arguments: list[Value] | None, state: State) -> list[Value]:  # noqa: C901, PLR0912  # one line for each type
    if arguments is None:
        if kind == "io.path" and name in {"directoryseparatorchar", "altdirectoryseparatorchar"}:
            return [values.text("\\")]
        if kind == "environment" and name == "currentdirectory":
            return [windows_paths.spelled(state.directories)]
        if kind == "environment" and name == "newline":
            return [values.text("\n")]
        return [
            values.unknown(f"[{kind}]::{name}") if not kind.startswith("text.encoding") else values.text(f"\x01{name}")
        ]
    if name == "new":
        if kind in {"io.fileinfo", "io.directoryinfo", "string", "uri"}:
            return arguments[:1]
        if kind == "io.streamwriter" and arguments:
            _emit(shell, Act.OVERWRITE, arguments[0], state, kind)
        if kind == "io.filestream" and arguments:
            _emit(shell, Act.CHANGE, arguments[0], state, kind)
        return [values.unknown(f"[{kind}]")]
    if _FILES.fullmatch(kind):
        _file_method(shell, kind, name, arguments, state)
        if name in {"readalltext", "readalllines"} and arguments:
            path = powershell_files.file(arguments[0], state, literal=True)
            return [shell.machine.contents(values.known(path) if path is not None else None, state)]
        if name in {"getfiles", "getdirectories", "getfilesystementries", "enumeratefiles"} and arguments:
            path = powershell_files.file(arguments[0], state, literal=True)
            return [shell.keep(Entries(path, below=len(arguments) > 2))] if path is not None else []
        return [values.unknown(f"[{kind}]::{name}()")]
    if kind == "io.path":
        if name in {"combine", "join"} and arguments:
            made = arguments[0]
            for argument in arguments[1:]:
                absolute = re.match(r"[A-Za-z]:|[\\/]", values.known(argument) or "") is not None and name == "combine"
                made = argument if absolute else values.joined(made, values.text("\\"), argument)
            return [made]
        if name == "getfullpath":
            return arguments[:1]
        if name == "gettemppath":
            return [cmd_shell.variable("TEMP", state) or values.unknown("TEMP")]
        if name == "getdirectoryname" and arguments and (known := values.known(arguments[0])) is not None:
            return [values.text(re.split(r"[\\/](?=[^\\/]*$)", known)[0])]
        return [values.unknown(f"[io.path]::{name}()")]
    if kind == "environment":
        if name == "getenvironmentvariable" and arguments and (known := values.known(arguments[0])) is not None:
            return [cmd_shell.variable(known.upper(), state) or values.EMPTY]
        if (
            name == "setenvironmentvariable"
            and len(arguments) > 1
            and (known := values.known(arguments[0])) is not None
        ):
            state.variables[known.upper()] = arguments[1]
            return []
        if name == "expandenvironmentvariables" and arguments and (known := values.known(arguments[0])) is not None:
            made = values.EMPTY
            for number, part in enumerate(known.split("%")):
                made = values.joined(
                    made, (cmd_shell.variable(part.upper(), state) or values.EMPTY) if number % 2 else values.text(part)
                )
            return [made]
        if name == "getfolderpath" and arguments:
            folder = (values.known(arguments[0]) or "").lower()
            variable = {
                "localapplicationdata": "LOCALAPPDATA",
                "applicationdata": "APPDATA",
                "userprofile": "USERPROFILE",
            }.get(folder)
            return [(cmd_shell.variable(variable, state) or values.EMPTY) if variable else values.unknown(folder)]
        if name in {"failfast", "exit"}:
            return []
        return [values.unknown(f"[environment]::{name}()")]
    if kind == "convert" and name == "frombase64string" and arguments:
        known = values.known(arguments[0])
        return [values.text(f"\x02{known}") if known is not None else values.unknown("base64")]
    if kind in {"scriptblock", "management.automation.scriptblock"} and name == "create":
        return [shell.block_of(argument) for argument in arguments[:1]]
    if kind == "string" and name in {"join", "concat", "format"} and arguments:
        if name == "format":
            return [formatted(arguments[0], arguments[1:])]
        if name == "concat":
            return [values.joined(*arguments)]
        return [values.between(arguments[1:], arguments[0])]
    if kind in {"diagnostics.process", "process"} and name == "start" and arguments:
        known = values.known(arguments[0])
        if known is None:
            shell.machine.emit(Act.RUN, arguments[0], state, by="[Process]::Start", arguments=tuple(arguments[1:]))
        else:
            raw = arguments[1] if len(arguments) > 1 else values.EMPTY
            windows_programs.run(shell.machine, known, windows_words.split_words(raw), state.copy(), raw=raw)
        return []
    if kind in {"regex", "text.regularexpressions.regex"} and name == "replace" and len(arguments) > 2:
        return [replaced(arguments[0], arguments[1:3], plain=False)]
    if kind in {"management.automation.powershell", "powershell"} or name in {"addscript", "invokescript"}:
        return [values.unknown(f"[{kind}]")] if name == "create" else shell.text_of_code(arguments, state, f"[{kind}]")
    if not kind.startswith(
        ("math", "datetime", "guid", "int", "char", "console", "text.", "convert", "timespan", "version", "net.")
    ):
        shell.machine.emit(
            Act.RUN,
            values.text(f"[{kind}]::{name}"),
            state,
            by=f"[{kind}]::{name}",
            arguments=tuple(powershell_files.file(argument, state, literal=True) or argument for argument in arguments),
        )
    return [values.unknown(f"[{kind}]::{name}()")]


def _emit(shell: PowerShell, act: Act, path: Value, state: State, by: str, *, recursive: bool = False) -> None:
    placed = powershell_files.file(path, state, literal=True)
    if placed is not None:
        shell.machine.emit(act, placed, state, by=by, recursive=recursive)


def _file_method(shell: PowerShell, kind: str, name: str, arguments: list[Value], state: State) -> None:
    by = f"[{kind}]::{name}"
    if not arguments:
        return
    shell.machine.emit(Act.RUN, values.text("[IO.File]"), state, by=by)
    if name in {"delete", "deletefile", "deletedirectory"}:
        flag = values.known(arguments[1]) if len(arguments) > 1 else "False"
        recursive = name == "deletedirectory" or (len(arguments) > 1 and flag != "False")
        _emit(shell, Act.DELETE, arguments[0], state, by, recursive=recursive)
    elif name.startswith(("move", "rename")) or name == "replace":
        _emit(shell, Act.MOVE, arguments[0], state, by)
        for target in arguments[1:2]:
            _emit(shell, Act.OVERWRITE, target, state, by)
    elif name.startswith("copy"):
        for target in arguments[1:2]:
            _emit(shell, Act.OVERWRITE, target, state, by)
    elif name.startswith("append") or name in {"open", "openwrite"}:
        _emit(shell, Act.CHANGE, arguments[0], state, by)
    elif name.startswith(("set", "encrypt", "decrypt")):
        _emit(shell, Act.PERMIT, arguments[0], state, by)
    elif name == "createsymboliclink" and len(arguments) > 1:
        powershell_files.link(shell, arguments[0], arguments[1], state, by)
    elif name.startswith("write") or (name.startswith("create") and kind.endswith("file")):
        _emit(shell, Act.OVERWRITE, arguments[0], state, by)
        path = powershell_files.file(arguments[0], state, literal=True)
        known = values.known(path) if path is not None else None
        if known is not None and len(arguments) > 1:
            shell.machine.write(known, arguments[1], state, appends=False)


def _method(shell: PowerShell, items: list[Value], name: str, arguments: list[Value], state: State) -> list[Value]:
    singles = shell.each(items)
    blocks = [thing for item in singles if isinstance(thing := shell.thing(item), Block)]
    if name in {"invoke", "invokereturnasis", "invokewithcontext"}:
        if blocks:
            return [found for block in blocks for found in shell.block(block, state, None, arguments)]
        return shell.text_of_code(items, state, ".Invoke()")
    if name in {"addscript", "invokescript", "newscriptblock"}:
        return shell.text_of_code(arguments, state, f".{name}()")
    if name == "foreach" and arguments and isinstance(block := shell.thing(arguments[0]), Block):
        return shell.block(block, state, items, [])
    if name == "getstring" and arguments:
        return [_decoded(items, arguments[0])]
    if name in {"shellexecute", "run", "exec"} and arguments:  # of WScript.Shell and Shell.Application
        line = values.joined(
            *[
                part
                for argument in arguments[: 2 if name == "shellexecute" else 1]
                for part in (argument, values.text(" "))
            ]
        )
        windows_shells.cmd(shell.machine, f".{name}", [], values.joined(values.text("/c "), line), state.copy())
        return []
    if (texted := _text_method(items, name, arguments)) is not None:
        return texted
    _object_method(shell, items, name, arguments, state)
    return [values.unknown(f".{name}()")]


def _object_method(shell: PowerShell, items: list[Value], name: str, arguments: list[Value], state: State) -> None:
    """Note a method of a file, or of an object that works on files which are its arguments."""
    by = f".{name}()"
    whole = [value for value in items if value]
    if _DELETING.fullmatch(name):
        # A file deletes itself; `FileSystemObject` deletes what it is given.
        targets = [value for value in arguments if values.known(value) not in {"True", "False"}] or whole
        recursive = name != "deletefile" and (name != "delete" or bool(arguments))
        for target in targets:
            powershell_files.delete(shell, target, state, by=by, recursive=recursive)
    elif _MOVING.fullmatch(name):
        sources, ends = (whole, arguments[:1]) if name == "moveto" else ([*arguments[:1]], arguments[1:2])
        for value in sources:
            _emit(shell, Act.MOVE, value, state, by)
        for value in ends:
            _emit(shell, Act.OVERWRITE, value, state, by)
    elif _WRITING.fullmatch(name):
        named = arguments if name.startswith("copy") else arguments[:1] or whole
        for value in named[-1:]:
            if values.known(value) is not None or name.startswith("copy"):
                _emit(shell, Act.OVERWRITE, value, state, by)
    elif name == "downloadfile" and len(arguments) > 1:
        _emit(shell, Act.OVERWRITE, arguments[1], state, by)


def _decoded(items: list[Value], data: Value) -> Value:
    known, kind = values.known(data), values.known(values.union(*items)) if items else None
    if known is None or not known.startswith("\x02"):
        return values.unknown("GetString()")
    try:
        raw = base64.b64decode(known[1:], validate=True)
        return values.text(raw.decode("utf-16-le" if kind == "\x01unicode" else "utf-8"))
    except (binascii.Error, ValueError):
        return values.unknown("GetString()")


def _text_method(items: list[Value], name: str, arguments: list[Value]) -> list[Value] | None:
    known = [values.known(argument) for argument in arguments]
    value = values.union(*items) if items else values.EMPTY
    if name == "replace" and len(arguments) == 2 and not any("\0" in values.shown(item) for item in items):
        return [replaced(value, arguments, plain=True)]
    if name in {
        "trim",
        "trimend",
        "trimstart",
        "tolower",
        "toupper",
        "tostring",
        "normalize",
        "tolowerinvariant",
        "getnewclosure",
        "clone",
    }:
        if name.startswith("trim") and arguments:
            cut = known[0] or ""
            return [
                _each_text(
                    value,
                    lambda text: (
                        text.strip(cut)
                        if name == "trim"
                        else text.rstrip(cut)
                        if name == "trimend"
                        else text.lstrip(cut)
                    ),
                )
            ]
        return [_each_text(value, lambda text: text.strip())] if name.startswith("trim") else items
    if name in {
        "substring",
        "remove",
        "insert",
        "padleft",
        "padright",
        "startswith",
        "endswith",
        "contains",
        "indexof",
        "split",
        "tochararray",
    }:
        text = values.known(value)
        if text is None or any(item is None for item in known):
            return [values.unknown(f".{name}()")]
        if name == "tochararray":
            return [values.text(character) for character in text[:64]]
        if name == "split":
            return pieces(value, known[0])
        try:
            numbers = [int(item) for item in known if item is not None and item.lstrip("-").isdigit()]
            if name == "substring":
                return [
                    values.text(text[numbers[0] :] if len(numbers) == 1 else text[numbers[0] : numbers[0] + numbers[1]])
                ]
            if name == "remove":
                return [values.text(text[: numbers[0]] + (text[numbers[0] + numbers[1] :] if len(numbers) > 1 else ""))]
            if name == "insert":
                return [values.text(text[: numbers[0]] + str(known[1]) + text[numbers[0] :])]
        except IndexError:
            pass
        return [values.unknown(f".{name}()")]
    return None


def _each_text(value: Value, change: object) -> Value:
    found: list[Value] = []
    for part in value:
        text = values.spelled(part)
        found.append(values.text(change(text)) if text is not None and callable(change) else (part,))
    return values.union(*found) if found else values.EMPTY


def formatted(template: Value, arguments: list[Value]) -> Value:
    """Return a template with its numbered places filled, as ``-f`` does it."""
    known = values.known(template)
    if known is None:
        return values.unknown("-f")
    made, at = values.EMPTY, 0
    for found in re.finditer(r"\{(\d+)(,-?\d+)?(:[^}]*)?\}|\{\{|\}\}", known):
        made = values.joined(made, values.text(known[at : found.start()]))
        at = found.end()
        if found[1] is None:
            made = values.joined(made, values.text(found[0][0]))
        else:
            number = int(found[1]) if len(found[1]) < 4 else len(arguments)
            made = values.joined(made, arguments[number] if number < len(arguments) else values.unknown("-f"))
    return values.joined(made, values.text(known[at:]))


def replaced(value: Value, arguments: list[Value], *, plain: bool) -> Value:
    """Return a text with something in it replaced; a pattern that is more than its characters leaves nothing known."""
    old = values.known(arguments[0]) if arguments else ""
    new = values.known(arguments[1]) if len(arguments) > 1 else ""
    if old is None or new is None or not old:
        return values.unknown("-replace")
    if not plain:
        literal = re.sub(r"\\([\\.$^{}\[\]()*+?|/])", r"\1", old)
        if re.search(r"[.^$*+?{}\[\]|()\\]", re.sub(r"\\.", "", old)) or "$" in new:
            return values.unknown("-replace")
        return _each_text(value, lambda text: re.sub(re.escape(literal), lambda _: new, text, flags=re.IGNORECASE))
    return _each_text(value, lambda text: text.replace(old, new))


def pieces(value: Value, separator: str | None) -> list[Value]:
    """Return the parts of a text."""
    known = values.known(value)
    if known is None or (separator is not None and (not separator or re.search(r"[.^$*+?{}\[\]|()\\]", separator))):
        return [values.unknown("-split")]
    return [values.text(part) for part in (known.split() if separator is None else known.split(separator))[:32]]


def characters(items: list[Value]) -> list[Value]:
    """Return the characters that numbers or texts stand for."""
    found: list[Value] = []
    for item in items:
        known = values.known(item)
        if known is None:
            return [values.unknown("[char]")]
        if known.isdigit() and len(known) > 1:
            found.append(values.text(chr(int(known)) if int(known) < 0x10000 else ""))
        elif re.fullmatch(r"0[xX][0-9a-fA-F]{1,4}", known):
            found.append(values.text(chr(int(known, 16))))
        else:
            found += [values.text(character) for character in known[:64]]
    return found

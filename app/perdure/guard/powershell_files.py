"""Files in PowerShell: which of its drives a path is on, and what is deleted or linked.

Owns: paths as PowerShell's drives have them, and the effects that cmdlets and methods share. Does not own: how Windows
spells a path (windows_paths), or which command it is (cmdlets, dotnet).
"""

from __future__ import annotations

import re

from perdure.domain.effect import Act, Certainty, Hole, Text
from perdure.guard import values, windows_paths, windows_words
from perdure.guard.late import late
from perdure.guard.powershell_machine import Entries, PowerShell
from perdure.guard.state import State
from perdure.guard.values import Value

_NO_DRIVES = frozenset(
    {"env", "variable", "function", "alias", "hklm", "hkcu", "hkcr", "hku", "hkcc", "registry", "cert", "wsman"}
)
_PROVIDER = late(r"(?i)(?:[\w.]+\\)?(\w+)::")
_DRIVE = late(r"([A-Za-z]\w*):")


def file(path: Value, state: State, *, literal: bool) -> Value | None:
    """Return a path of the file system as this guard writes it; None where it is of another drive, as ``Env:``."""
    found: list[Value] = []
    for pieces in path:
        first = pieces[0] if pieces else Text("")
        if not isinstance(first, Text) or "\0" in first.text:
            found.append((pieces,))
            continue
        head = first.text
        if provider := _PROVIDER.match(head):
            if provider[1].lower() != "filesystem":
                continue
            head = head[provider.end() :]
        rest = (values.merged((Text(head), *pieces[1:])),) if head else (tuple(pieces[1:]),)
        if drive := _DRIVE.match(head):
            mapped = state.variables.get(f"drive:{drive[1].lower()}")
            if mapped is not None:
                tail = values.merged((Text("/" + head[drive.end() :]), *pieces[1:]))
                found.append(values.joined(mapped, (tail,)))
                continue
            if len(drive[1]) > 1:
                if drive[1].lower() in _NO_DRIVES or head[drive.end() :].startswith("//"):
                    continue
                found.append(((Hole(drive[0]), *(part for part in rest[0][1:])),))
                continue
        home = values.known(windows_paths.spelled(values.text(state.session.home))) or ""
        if re.match(r"~(?=[\\/]|$)", head):
            rest = (values.merged((Text(home + head[1:]), *pieces[1:])),)
        elif not head and not pieces[1:]:
            continue
        found.append(windows_words.place(state, rest, globs=not literal))
    return values.union(*found) if found else None


def delete(
    shell: PowerShell,
    item: Value,
    state: State,
    *,
    by: str,
    recursive: bool,
    sure: bool = True,
    names: tuple[Value, ...] = (),
    spared: tuple[Value, ...] = (),
) -> None:
    """Note that a file, a directory or what was found in one is deleted."""
    certainty = Certainty.DEFINITE if sure else Certainty.CONDITIONAL
    for single in shell.each([item]):
        thing = shell.thing(single)
        if isinstance(thing, Entries):
            kept = certainty if thing.sure else Certainty.CONDITIONAL
            folder = thing.folder
            if not thing.below:
                folder = (
                    tuple((*pieces, Text("/"), Text(""), *values.globbed("*")) for pieces in folder)
                    if not thing.names
                    else values.union(
                        *(tuple((*pieces, Text("/"), Text(""), *name[0]) for pieces in folder) for name in thing.names)
                    )
                )
            shell.machine.emit(
                Act.DELETE,
                folder,
                state,
                by=by,
                recursive=recursive or thing.below,
                only_below=thing.below,
                certainty=kept,
                names=names or (thing.names if thing.below else ()),
                spared=(*spared, *thing.spared),
            )
            continue
        path = file(single, state, literal=False) if thing is None else None
        if path is not None:
            shell.machine.emit(
                Act.DELETE, path, state, by=by, recursive=recursive, certainty=certainty, names=names, spared=spared
            )


def link(shell: PowerShell, name: Value, target: Value, state: State, by: str) -> None:
    """Note that a link is made, as `ln` would make it."""
    ends = [file(end, state, literal=True) for end in (target, name)]
    words = [end for end in ends if end is not None]
    if len(words) == 2:
        shell.machine.emit(Act.OVERWRITE, words[1], state, by=by)
        shell.machine.emit(Act.RUN, values.text("ln"), state, by="ln", arguments=(values.text("-sn"), *words))

"""Cmdlets: what they do to files, and what they give.

Owns: the deeds that cmdlets.toml names. Does not own: how arguments are bound (cmdlet_arguments), expressions and
script blocks (powershell).
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from importlib import resources

from perdure.domain.effect import Act, Certainty, Hole, Text
from perdure.domain.record import dataclass
from perdure.guard import dotnet, values, windows_paths, windows_programs, windows_words
from perdure.guard.cmdlet_arguments import Bound, Cmdlet, paths
from perdure.guard.powershell_files import delete, file, link
from perdure.guard.powershell_machine import Entries, PowerShell
from perdure.guard.powershell_tree import Block, Member, Node, Quoted, Table, Variable
from perdure.guard.state import State
from perdure.guard.values import Value


def _patterns(items: list[Value]) -> tuple[Value, ...]:
    return tuple(windows_words.place_name(item) for item in items)


def _remove(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    if bound.has("whatif"):
        return []
    recursive = bound.has("recurse")
    names = _patterns([*bound.get("include"), *bound.values.get("filter", [])])
    spared = _patterns(bound.values.get("exclude", []))
    if bound.unknown:
        shell.machine.emit(Act.DELETE, values.unknown("@…"), state, by="Remove-Item", recursive=True)
    literal = bound.get("literalpath")
    for item in shell.each(literal or bound.get("path") or (given if given is not None else [])):
        if literal and shell.thing(item) is None:
            path = file(item, state, literal=True)
            if path is not None:
                shell.machine.emit(
                    Act.DELETE, path, state, by="Remove-Item", recursive=recursive, names=names, spared=spared
                )
        else:
            delete(shell, item, state, by="Remove-Item", recursive=recursive, names=names, spared=spared)
    return []


def _writer(act: Act) -> Callable[[PowerShell, Bound, State, list[Value] | None], list[Value]]:
    def write(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
        if bound.has("whatif"):
            return []
        content = bound.one("value") if "value" in (*bound.cmdlet.valued, *bound.cmdlet.order) else None
        content = content if content is not None else values.union(*given) if given else values.unknown("a text")
        pathless = bound.get("literalpath") or bound.get("path") or bound.get("filepath")
        for path, _ in paths(shell, bound, state, None if pathless else given):
            appends = act is Act.CHANGE or bound.has("append")
            shell.machine.emit(Act.CHANGE if appends else act, path, state, by=bound.cmdlet.name, through_link=True)
            name = values.known(path)
            if name is not None and act is not Act.EMPTY:
                shell.machine.write(name, content, state, appends=appends)
        return []

    return write


def _transfer(act: Act) -> Callable[[PowerShell, Bound, State, list[Value] | None], list[Value]]:
    def move(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
        if bound.has("whatif"):
            return []
        name = bound.cmdlet.name
        target = bound.one("destination")
        place = file(target, state, literal=True) if target is not None else state.directories
        for path, thing in paths(shell, bound, state, given):
            inside = isinstance(thing, Entries) or bound.has("recurse")
            source = (
                tuple((*pieces, Text("/"), Text(""), *values.globbed("*")) for pieces in path)
                if isinstance(thing, Entries)
                else path
            )
            sure = not isinstance(thing, Entries) or thing.sure
            shell.machine.emit(
                act, source, state, by=name, recursive=inside, certainty=None if sure else Certainty.CONDITIONAL
            )
            if name != "Rename-Item" and place is not None:
                shell.machine.emit(Act.OVERWRITE, place, state, by=name)
                bases = tuple(values.base(pieces) for pieces in path)
                shell.machine.emit(Act.OVERWRITE, values.joined(place, values.text("/"), bases), state, by=name)
        if bound.unknown:
            shell.machine.problem(f"{name}: what it is given is not known")
        return []

    return move


def _new_item(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    kind = (values.known(bound.one("itemtype") or values.EMPTY) or "").lower()
    name = bound.one("name")
    made: list[Value] = []
    for path in bound.get("path") or ([values.text(".")] if name is not None else []):
        whole = values.joined(path, values.text("\\"), name) if name is not None else path
        target = bound.one("target") or bound.one("value")
        if kind in {"symboliclink", "junction", "hardlink"} and target is not None:
            link(shell, whole, target, state, "New-Item")
        placed = file(whole, state, literal=True)
        if placed is not None and kind != "directory" and not bound.has("whatif"):
            shell.machine.emit(
                Act.OVERWRITE,
                placed,
                state,
                by="New-Item",
                certainty=None if bound.has("force") else Certainty.POSSIBLE,
            )
        made.append(whole)
    return made


def _children(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    names = _patterns([*bound.values.get("include", []), *bound.get("filter")])
    spared = _patterns(bound.values.get("exclude", []))
    below = bound.has("recurse") or "depth" in bound.values
    found: list[Value] = []
    for path, _ in paths(shell, bound, state, given) or [(state.directories, None)]:
        shell.machine.emit(Act.READ, path, state, by=bound.cmdlet.name)
        last = [piece for pieces in path for piece in pieces[-1:]]
        if any(not isinstance(piece, Text | Hole) for piece in last) and not below:
            found.append(windows_paths.spelled(path))
            continue
        only = not bound.has("file")
        if bound.has("directory") and below and not names:
            only = True
        found.append(shell.keep(Entries(path, below=below, names=names, spared=spared, sure=only or below)))
        probe = state.session.probe
        known = values.known(path)
        if not below and known is not None and probe.is_directory(known) is not True:
            found.append(windows_paths.spelled(path))  # a file is given as itself
    return found


def _item(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    found = paths(shell, bound, state, given)
    for path, _ in found:
        shell.machine.emit(Act.READ, path, state, by=bound.cmdlet.name)
    return [windows_paths.spelled(path) for path, thing in found if thing is None] or (given or [])


def _content(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    found: list[Value] = []
    for path, _ in paths(shell, bound, state, given):
        shell.machine.emit(Act.READ, path, state, by=bound.cmdlet.name)
        known = values.known(path)
        held = shell.machine.contents(known, state) if known is not None else values.unknown("a file")
        found += (values.lines(held) or [held]) if not bound.has("raw") else [held]
    return found


def _join_path(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    base = bound.one("path") or (values.union(*given) if given else values.EMPTY)
    made = base
    for name in ("childpath", "additionalchildpath"):
        for item in bound.get(name):
            made = values.joined(made, values.text("\\"), item)
    return [made]


def _split_path(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    found: list[Value] = []
    for item in bound.get("path") or bound.get("literalpath") or (given or []):
        known = values.known(item)
        if known is None or bound.has("qualifier", "noqualifier", "extension", "isabsolute"):
            found.append(values.unknown("Split-Path"))
            continue
        folder, _, base = known.rstrip("\\/").replace("/", "\\").rpartition("\\")
        if bound.has("leafbase"):
            base = base.rpartition(".")[0] or base
        found.append(
            values.text(base if bound.has("leaf", "leafbase") else folder + ("\\" if folder.endswith(":") else ""))
        )
    return found


def _location(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    if bound.cmdlet.name == "Pop-Location":
        state.directories = state.stack[-1] if state.stack else values.unknown("Pop-Location")
        state.stack = state.stack[:-1]
        return []
    found = paths(shell, bound, state, given)
    if bound.cmdlet.name == "Push-Location":
        state.stack = (*state.stack, state.directories)
    if found:
        place = tuple(values.normal(pieces) for path, _ in found for pieces in path)
        names = values.texts(place)
        there = names is not None and all(map(state.session.probe.is_directory, names))
        # Where there is no such directory, that is an error after which the script goes on where it was.
        state.directories = place if there else values.union(place, state.directories)
    elif bound.positional or bound.unknown:
        state.directories = values.unknown("Set-Location")
    return []


def _set_variable(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    name = values.known(bound.one("name") or values.EMPTY)
    held = bound.one("value") or (values.union(*given) if given else values.EMPTY)
    if name:
        shell.assign(name.lower(), held, state)
    return []


def _get_variable(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    name = values.known(bound.one("name") or values.EMPTY)
    return [shell.variable(name.lower(), state)] if name else [values.unknown("Get-Variable")]


def _set_alias(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    name, target = (values.known(bound.one(each) or values.EMPTY) for each in ("name", "value"))
    if name and target:
        state.aliases[f"alias:{name.lower()}"] = target
    elif name:
        state.functions.pop(name, None)
        shell.machine.problem(f"Set-Alias: what {name} stands for is not known")
    return []


def _invoke(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    items = bound.get("command") or bound.get("scriptblock") or (given or [])
    if bound.cmdlet.name == "Invoke-Command" and "computername" in bound.values:
        host = values.known(bound.one("computername") or values.EMPTY)
        if host is not None and host.lower() not in state.session.hosts | {"."}:
            return [values.unknown("Invoke-Command")]
    if not items and (bound.positional or bound.unknown or given is not None):
        items = [values.unknown(bound.cmdlet.name)]
    return shell.text_of_code(items, state, bound.cmdlet.name)


def _for_each(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    result: list[Value] = []
    for items in [*bound.positional, *bound.values.values()]:
        for item in items:
            thing = shell.thing(item)
            if isinstance(thing, Block):
                # Where nothing comes in, nothing runs; what may come in is not known to be nothing.
                result += shell.block(thing, state, given or [values.unknown("$_")], [])
            elif (method := values.known(item)) is not None and given:
                state.variables["$_"] = values.union(*given)
                arguments: tuple[Node, ...] = () if method.lower() in {"delete", "movetorecyclebin"} else None  # type: ignore[assignment]
                result += dotnet.member(
                    shell, Member(Variable("_"), Quoted((method.lower(),)), arguments, static=False), state
                )
    return result


def _where(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    for items in [*bound.positional, *bound.values.values()]:
        for item in items:
            if isinstance(block := shell.thing(item), Block):
                shell.block(block, state.copy(), given or [], [])
    kept: list[Value] = []
    for item in shell.each(given or []):
        thing = shell.thing(item)
        if isinstance(thing, Entries):
            kept.append(shell.keep(Entries(thing.folder, thing.below, thing.names, thing.spared, sure=False)))
        else:
            kept.append(item)
    return kept


def _pass(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    named = {
        name.lower()
        for items in (bound.values.get("expandproperty", []),)
        for item in items
        if (name := values.known(item))
    }
    if named & {"name", "basename", "pschildname"}:
        return [values.unknown("a name")]
    return given or []


def _output(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    return [item for items in [*bound.positional, *bound.values.values()] for item in items] or (given or [])


def _silent(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    if bound.cmdlet.name.startswith("Get-") or bound.cmdlet.name in {"Read-Host", "Test-Path", "Select-String"}:
        return [values.unknown(bound.cmdlet.name)]
    return []


def _start_process(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    child = state.copy()
    if (folder := bound.one("workingdirectory")) is not None:
        child.directories = file(folder, state, literal=True) or child.directories
    program = bound.one("filepath")
    items = bound.get("argumentlist")
    for name in ("redirectstandardoutput", "redirectstandarderror"):
        for target in bound.values.get(name, []):
            if (path := file(target, state, literal=True)) is not None:
                shell.machine.emit(Act.OVERWRITE, path, state, by="Start-Process")
    if bound.unknown or program is None:
        shell.machine.problem("Start-Process: what it starts is not known")
        return []
    names = values.texts(program)
    if names is None:
        shell.machine.emit(Act.RUN, program, state, by=values.shown(program), arguments=tuple(items))
    for known in names or []:
        raw = values.joined(*[part for item in items for part in (item, values.text(" "))]) if items else values.EMPTY
        words = [word for item in items for word in windows_words.split_words(item)]
        windows_programs.run(shell.machine, known, words, child, raw=raw)
    return []


def _acl(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    for path, thing in paths(shell, bound, state, given):
        shell.machine.emit(Act.PERMIT, path, state, by=bound.cmdlet.name, recursive=thing is not None)
    return []


def _archive(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    for target in bound.get("destinationpath") or bound.get("outfile"):
        path = file(target, state, literal=True)
        if path is not None:
            inner = values.joined(path, values.text("/"), ((Hole("a name"),),))
            shell.machine.emit(
                Act.OVERWRITE, inner if bound.cmdlet.name == "Expand-Archive" else path, state, by=bound.cmdlet.name
            )
    return []


def _drive(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[Value]:
    name, root = values.known(bound.one("name") or values.EMPTY), bound.one("root")
    provider = (values.known(bound.one("psprovider") or values.EMPTY) or "").lower()
    if name and root is not None and provider == "filesystem":
        state.variables[f"drive:{name.lower()}"] = file(root, state, literal=True)
    return []


_DOES: dict[str, Callable[[PowerShell, Bound, State, list[Value] | None], list[Value]]] = {
    "acl": _acl,
    "append": _writer(Act.CHANGE),
    "archive": _archive,
    "children": _children,
    "content": _content,
    "copy": _transfer(Act.READ),
    "drive": _drive,
    "empty": _writer(Act.EMPTY),
    "for-each": _for_each,
    "get-variable": _get_variable,
    "invoke": _invoke,
    "item": _item,
    "join-path": _join_path,
    "location": _location,
    "move": _transfer(Act.MOVE),
    "new-item": _new_item,
    "output": _output,
    "pass": _pass,
    "remove": _remove,
    "set-alias": _set_alias,
    "set-variable": _set_variable,
    "split-path": _split_path,
    "start-process": _start_process,
    "where": _where,
    "write": _writer(Act.OVERWRITE),
}


_KEEPS_CODE = frozenset({_for_each, _invoke, _output, _set_variable, _where})
"""What runs the blocks that it is given by itself, or none of them."""


def calculate(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> None:
    """Note what a cmdlet runs for what comes in: a block where a value is expected, also in a calculated property."""
    if bound.cmdlet.act in _KEEPS_CODE:
        return
    waiting = [item for items in [*bound.positional, *bound.values.values()] for item in items]
    while waiting:
        shell.machine.step()
        thing = shell.thing(waiting.pop())
        if isinstance(thing, Block):
            shell.block(thing, state.copy(), given or [values.unknown("$_")], [])
        elif isinstance(thing, Table):
            waiting += [item for _, node in thing.items for item in shell.evaluate(node, state.copy())]


@dataclass(frozen=True, slots=True)
class Cmdlets:
    """What is known of cmdlets."""

    table: Mapping[str, Cmdlet]
    """By the name in lower case."""
    aliases: Mapping[str, str]


@functools.lru_cache(maxsize=1)
def known() -> Cmdlets:
    """Return the table of cmdlets."""
    raw = tomllib.loads(resources.files("perdure.guard").joinpath("cmdlets.toml").read_text(encoding="utf-8"))
    made = [Cmdlet(name, _silent, ("erroraction",)) for name in raw["quiet"]["names"]]
    for name, entry in raw["cmdlet"].items():
        parameters = (tuple(entry.get(key, ())) for key in ("values", "switches", "order"))
        made.append(Cmdlet(name, _DOES[entry["does"]], *parameters))
    aliases = {alias: target for target, names in raw["aliases"].items() for alias in names}
    return Cmdlets({cmdlet.name.lower(): cmdlet for cmdlet in made}, aliases)

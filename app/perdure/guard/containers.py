"""`docker run` and the like: what a command does inside a container to what is mounted from outside.

Owns: volumes and mounts on the command line, and the way of a path through them. Does not own: whether a container is
isolated (its backend says so). A container that runs already has mounts that its command line does not name.
"""

from __future__ import annotations

import contextlib
import json

from perdure.domain.effect import Act, Hole, Spelling, Text
from perdure.guard import values, verbs, wrappers
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


def run(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`docker run` and the like: what the command does to a mounted directory, it does here."""
    wrappers.walk(machine, verbs.table()["docker"], name.rpartition("/")[2], words, state)
    outer = verbs.split(words, verbs.table()["docker"].valued, ordered=True).operands
    if values.known(outer[0]) == "container" if outer else False:
        outer = outer[1:]
    if not outer or values.known(outer[0]) not in {"run", "create"}:
        return
    valued = frozenset(
        [
            "-v",
            "--volume",
            "--mount",
            "-w",
            "--workdir",
            "--name",
            "-e",
            "--env",
            "--env-file",
            "-p",
            "--publish",
            "-u",
            "--user",
            "--network",
            "--net",
            "--entrypoint",
            "-h",
            "--hostname",
            "--memory",
            "-m",
            "--cpus",
            "--label",
            "-l",
            "--add-host",
            "--device",
            "--restart",
            "--pull",
            "--platform",
            "--tmpfs",
            "--ulimit",
            "--userns",
            "--gpus",
            "--dns",
            "--cap-add",
            "--cap-drop",
            "--security-opt",
            "--ipc",
            "--pid",
            "--shm-size",
            "--log-driver",
            "--link",
            "--expose",
            "-c",
            "--cidfile",
        ]
    )
    arguments = verbs.split(outer[1:], valued, ordered=True)
    mounts: list[tuple[str, Value]] = []
    for volume in arguments.values(frozenset({"-v", "--volume"})):
        mounts += _volume(volume, state)
    for mount in arguments.values(frozenset({"--mount"})):
        mounts += _mount(values.known(mount), state)
    for _, host in mounts:
        machine.emit(Act.READ, host, state, by=f"{name} -v", recursive=True, through_link=True)
    entry = arguments.values(frozenset({"--entrypoint"}))  # the last one counts
    command = [*(_entry(entry[-1]) if entry else ()), *arguments.operands[1:]]
    if not mounts or not command:
        return
    child = state.copy()
    workdir = arguments.values(frozenset({"-w", "--workdir"}))
    child.directories = workdir[-1] if workdir else values.text("/")
    outside = machine.effects
    machine.effects = {}
    try:
        machine.call(command, child, external=True)
        inside = machine.effects
    finally:
        machine.effects = outside
    for effect in inside:
        for seen in values.absolute(effect.operand.spellings, tuple(word.spellings[0] for word in effect.directories)):
            for here in _outside(seen, mounts):
                machine.emit(
                    effect.act,
                    here,
                    state,
                    by=f"{name} {effect.by}",
                    certainty=effect.certainty,
                    recursive=effect.recursive,
                )


def _entry(value: Value) -> list[Value]:
    """Return the words that an entry point stands for: none where it is empty, several where podman is given a list."""
    text = values.known(value)
    if text == "":
        return []
    if text is not None and text.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            words: object = json.loads(text)
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                return [values.text(word) for word in words]
    return [value]


def _volume(volume: Value, state: State) -> list[tuple[str, Value]]:
    """Return where a volume appears and what it is here."""
    if len(volume) != 1 or not volume[0] or not isinstance(volume[0][-1], Text):
        return []
    last = volume[0][-1].text
    source, colon, target = last.partition(":")
    if not colon:
        return []
    host = (values.merged((*volume[0][:-1], Text(source))),)
    known = values.known(host)
    if known is not None and not known.startswith(("/", ".", "~")):
        return []
    return [(target.partition(":")[0].rstrip("/") or "/", values.absolute(host, state.directories))]


def _mount(text: str | None, state: State) -> list[tuple[str, Value]]:
    entries = dict(item.partition("=")[::2] for item in (text or "").split(","))
    source = entries.get("source", entries.get("src"))
    target = entries.get("target", entries.get("dst", entries.get("destination")))
    if entries.get("type") != "bind" or not source or not target:
        return []
    return [(target.rstrip("/") or "/", values.absolute(values.text(source), state.directories))]


def _outside(path: Spelling, mounts: list[tuple[str, Value]]) -> list[Value]:
    """Return what a path inside a container is here."""
    if path and isinstance(path[0], Hole):
        return [values.joined(host, values.text("/"), (path,)) for _, host in mounts]
    first = path[0].text if path and isinstance(path[0], Text) else ""
    result = []
    for target, host in mounts:
        stem = target.rstrip("/")
        if first == target or first.startswith(f"{stem}/"):
            result.append(values.joined(host, (values.merged((Text(first[len(stem) :]), *path[1:])),)))
        elif target.startswith(first.rstrip("/") + "/") and len(path) == 1:
            result.append(host)  # a directory above the mount
    return result

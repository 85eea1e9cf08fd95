"""Which plugin, or which plugins together, keep a host from working: found by starting it with fewer of them.

Owns: the tries, each a candidate that is built like a generation and never sealed or selected, and what they show. Does
not own: the search for several that fail together (conflict), building (candidate), what shows that a host works
(verify).

A candidate holds the versions that run now, bit for bit: what a plugin alone brought is left out with it, and nothing
is resolved, so no network is needed.

Keeps: plugins-bisect: what is selected, its history and its configuration are as before, whatever a try does.
"""

from __future__ import annotations

import math
import os
import shutil
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import interpreter_from_json
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import DeadlineExceeded, HealthCheckFailed, IntegrityFault, UsageFault
from perdure_pm.model.requirement import parse_source, requirement_name
from perdure_pm.ops.arguments import read_duration, read_text
from perdure_pm.ops.build import split_requirements
from perdure_pm.ops.candidate import build_candidate, drop_candidate, find_commands
from perdure_pm.ops.conflict import Counted, find_smallest
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.environment import host_environment
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.recovery import recover
from perdure_pm.ops.release import Release, load_release
from perdure_pm.ops.resolve import Resolution
from perdure_pm.ops.snapshots import find_recorded, load_snapshot
from perdure_pm.ops.sources import want_recorded
from perdure_pm.ops.space import require_space
from perdure_pm.ops.trials import Locked
from perdure_pm.ops.verify import verify
from perdure_pm.ops.wanted import Wanted
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import Generation, load_current, next_number
from perdure_pm.store.inventory import Inventory
from perdure_pm.store.recorded import selection_of

SECONDS = 120.0
"""How long a person's command may take in one try, where nothing else is said."""
MOST_CULPRITS = 8
"""After so many the rest is not looked into: then it is the host, or the machine."""
UNTRIABLE = 125
"""By this exit code a command says that it cannot tell, as for a bisection of commits."""


def bisect_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Find which plugins of the selected generation keep it from working; nothing that is selected changes.

    Args:
        context: the world.
        arguments: ``command``: words that end with 0 where everything is right, by default the host's own check;
            ``directory``: where they run; ``timeout``: seconds that one run may take, after which it counts as failed.

    Raises:
        NothingInstalled: there is nothing to look into.
        HealthCheckFailed: the host fails without any plugin too.
        UsageFault: there is no such command, or it says that it cannot tell.
        BuildFailed, NoSpace: a try could not be made.
    """
    command = _read_command(arguments)
    limit = read_duration(arguments, "timeout")
    with exclusive(context, "plugin-bisect"):
        notices = recover(context)
        current = load_current(context.layout, context.profile)
        bench = _Bench(
            context=context,
            config=load_home_config(context.layout),
            uv=make_uv(context),
            current=current,
            release=_require_release(context, current),
            command=command,
            directory=Path(read_text(arguments, "directory") or context.layout.home),
            seconds=SECONDS if limit is None else limit.total_seconds(),
        )
        entries, left_out = bench.triable()
        data: dict[str, Any] = {"generation": current.identity, "plugins": list(entries), "not_tried": left_out}
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True}, obligations=notices)
        require_space(context, current)
        works = Tried(bench.works, budget=8 * (2 + math.ceil(math.log2(len(entries) + 1))) * MOST_CULPRITS)
        culprits = _find_culprits(bench, entries, works)
        data |= {"culprits": culprits, "tries": works.asked, "said": bench.said}
        return Outcome(status="ok" if culprits else "noop", data=data, obligations=notices)


class Tried(Counted):
    """Tries, none of which is made where an earlier one tells: fewer of what works works, more of what fails fails."""

    def __call__(self, subset: Sequence[str]) -> bool:
        """Return whether the host works with the subset."""
        wanted = frozenset(subset)
        for tried, worked in self.answers.items():
            if (worked and wanted <= tried) or (not worked and wanted >= tried):
                return worked
        return super().__call__(subset)


def find_lone(entries: Sequence[str], works: Callable[[Sequence[str]], bool]) -> str | None:
    """Return the one entry that fails for itself, found by halving; None where it is not one alone."""
    ahead = tuple(entries)
    while len(ahead) > 1:
        half = len(ahead) // 2
        ahead = ahead[half:] if works(ahead[:half]) else ahead[:half]
    return None if not ahead or works(ahead) else ahead[0]


def _find_culprits(bench: _Bench, entries: tuple[str, ...], works: Tried) -> list[list[str]]:
    """Return the groups of plugins that fail: one name where it fails alone, several where only together."""
    found: list[list[str]] = []
    rest = entries
    while rest and not works(rest):
        suspects = bench.named_in_output(rest)
        if not found and not works(()):
            raise HealthCheckFailed(
                f"{bench.release.name} {bench.release.version} fails without any plugin too",
                hint="perdure-pm status",
                context={"output": bench.said.get("", "")},
            )
        lone = find_lone(suspects, works) or find_lone(rest, works)
        group = (lone,) if lone is not None else find_smallest(rest, works)[0]
        found.append([requirement_name(entry) for entry in group])
        # Of several that fail only together the others may fail with yet another one.
        rest = tuple(entry for entry in rest if entry != group[-1])
        if len(found) == MOST_CULPRITS:
            break
    return found


@dataclass(slots=True, kw_only=True)
class _Bench:
    """Where candidates are tried."""

    context: Context
    config: HomeConfig
    uv: Uv
    current: Generation
    release: Release
    command: tuple[str, ...]
    """Empty for the host's own check."""
    directory: Path
    seconds: float
    said: dict[str, str] = field(default_factory=dict)
    """The end of what each failing try wrote, by the names in it."""

    def triable(self) -> tuple[tuple[str, ...], list[str]]:
        """Return the plugins of the generation that can be left out of a start, and the names of the others."""
        recorded = find_recorded(self.current.record)
        entries: list[str] = []
        others: list[str] = []
        for entry in selection_of(self.current):
            source = parse_source(entry)
            # What runs as a program of its own is never loaded by the host.
            known = source is None or load_snapshot(self.context.layout, recorded.get(entry, ""), source) is not None
            (entries if known else others).append(entry)
        return tuple(entries), [requirement_name(entry) for entry in others]

    def works(self, entries: tuple[str, ...]) -> bool:
        """Return whether the host works with these plugins alone, by building and starting it."""
        context, layout = self.context, self.context.layout
        names = ", ".join(requirement_name(entry) for entry in entries)
        context.reporter.progress("bisect", f"trying {names or 'no plugin'}")
        python = interpreter_from_json(self.current.record["interpreter"])
        wanted = want_recorded(layout, self.release, self.current.record, python, entries)
        identity = f"{next_number(layout)}-{wanted.digest()[:12]}"
        try:
            resolution = Resolution(requirements=self._requirements(entries), lock=str(self.current.record["lock"]))
            built = build_candidate(context, self.uv, wanted, resolution, identity, self.current, self.config)
            # Files are shared with what runs: a command that writes in place must not reach it.
            context.filesystem.make_read_only(layout.generation(identity))
            said = self._find_fault(wanted, identity, built)
        finally:
            drop_candidate(context, identity, None)
        if said is not None:
            self.said[names] = said[-2000:]
        return said is None

    def named_in_output(self, entries: Sequence[str]) -> tuple[str, ...]:
        """Return those of the entries whose names stand in what the last try wrote, but never all of them."""
        said = next(reversed(self.said.values()), "").lower()
        names = {entry: requirement_name(entry) for entry in entries}
        found = tuple(entry for entry, name in names.items() if name in said or name.replace("-", "_") in said)
        return found if len(found) < len(entries) else ()

    def _find_fault(self, wanted: Wanted, identity: str, built: Inventory) -> str | None:
        """Return what a failing start said, or None where it works."""
        context = self.context
        if not self.command:
            try:
                commands = find_commands(context, self.config, wanted, identity)
                verify(context, self.config, wanted, identity, commands, built)
            except (HealthCheckFailed, DeadlineExceeded) as fault:
                return f"{fault.summary}\n{fault.context.get('output', '')}"
            return None
        candidate = replace(self.current, identity=identity, path=context.layout.generation(identity))
        environment = host_environment(candidate, {"PATH": os.defpath, **context.environ})
        program = shutil.which(self.command[0], path=environment["PATH"])
        if program is None:
            raise UsageFault(f"there is no command {self.command[0]!r}", context={"command": self.command[0]})
        try:
            ended = run(
                [program, *self.command[1:]],
                environment=environment,
                directory=self.directory,
                timeout=self.seconds,
                on_tick=context.reporter.heartbeat,
            )
        except DeadlineExceeded:
            return f"{self.command[0]} did not end within {self.seconds:g} s"
        except OSError as error:
            raise UsageFault(f"{program} cannot be started: {error.strerror or error}") from error
        if ended.returncode == UNTRIABLE:
            raise UsageFault(
                f"{self.command[0]} ended with {UNTRIABLE}, by which it says that it cannot tell",
                context={"output": (ended.stdout + ended.stderr)[-2000:]},
            )
        return None if ended.returncode == 0 else f"exit code {ended.returncode}\n{ended.stdout}{ended.stderr}"

    def _requirements(self, entries: tuple[str, ...]) -> str:
        """Return what the generation was installed from, without what only the other plugins brought."""
        blocks = split_requirements(str(self.current.record["requirements"]))
        needs = Locked(tomllib.loads(str(self.current.record["lock"]))).requirers()
        kept = {requirement_name(entry) for entry in entries}
        gone = {requirement_name(entry) for entry in selection_of(self.current)} - kept
        hosts = {wheel.distribution for wheel in self.release.wheels} | {self.release.name}
        stays = _reach(needs, (hosts - gone) | kept) | split_requirements(self.release.requirements).keys()
        leaves = _reach(needs, gone) - stays
        return "".join(block for name, block in blocks.items() if name not in leaves)


def _reach(needs: Mapping[str, Collection[str]], start: Collection[str]) -> set[str]:
    """Return the packages that one comes to from `start`, itself included."""
    found, ahead = set(start), list(start)
    while ahead:
        for name in needs.get(ahead.pop(), ()):
            if name not in found:
                found.add(name)
                ahead.append(name)
    return found


def _require_release(context: Context, current: Generation) -> Release:
    release = load_release(context.layout, str(current.record["host"]["release"]))
    if release is None:
        raise IntegrityFault(
            f"the host's release {current.record['host']['release']}, which {current.identity} was built from, is gone "
            "or damaged",
            hint="perdure-pm install",
        )
    return release


def _read_command(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    words = arguments.get("command") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageFault("command must be a list of texts")
    return tuple(words)

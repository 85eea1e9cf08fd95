"""What `perdure guard …` shows.

Owns: the guard of this process, and its answers as text and data. Does not own: options (commands), verdicts (guard).
Keeps: guard-explain-runs-nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from perdure.cli.output import Answer, columns, printable
from perdure.cli.session import VERDICT_COMMANDS, Session
from perdure.domain.effect import Effect, Hole
from perdure.domain.errors import EXIT_DONE, EXIT_FOUND, EXIT_USAGE, CorpusInvalid, UsageFault, VerdictUsageFault
from perdure.domain.json_value import JsonValue
from perdure.domain.layers import Layer, layers_to_json, show_layer
from perdure.domain.verdict import Ruling, Verdict
from perdure.guard.paths import show_word
from perdure.guard.probe import Machine
from perdure.guard.roots import Root, protected_roots, watched
from perdure.guard.service import Explanation, Guard, Place
from perdure.installation import Installation
from perdure.origin import origin_of
from perdure.tools.environment import scrub

EXIT_OF = {Ruling.ALLOW: EXIT_DONE, Ruling.ASK: EXIT_USAGE, Ruling.REFUSE: EXIT_FOUND}
"""The exit codes of commands whose exit code is a verdict."""
_SECONDS = 1.0
"""How long reading one command may take here, where one person waits: a busy machine must not make a plain command too
long to follow."""
_COMPRESSED = b"\x1f\x8b"
_LONGEST_LINE = 128 * 1024


def own_folders(installation: Installation) -> list[str]:
    """Return the directories of which nothing is for a command: the home, and the environment of this process.

    An interpreter that everybody shares, as in /usr, has none of its own.
    """
    return [str(installation.home), *([sys.prefix] if sys.prefix != sys.base_prefix else [])]


def make_guard(installation: Installation) -> Guard:
    """Return the guard of this process."""
    probe = Machine()
    origin = origin_of(installation)
    return Guard(
        lambda: protected_roots(origin, probe),
        probe,
        homes=homes(),
        watched=lambda: watched(origin, probe),
        seconds=_SECONDS,
    )


def homes() -> list[str]:
    """Return the directories of the person's own files, as they are called and as they really are."""
    home = os.path.expanduser("~")
    return list(dict.fromkeys([home, os.path.realpath(home)]))


def directory_of(session: Session, cwd: str | None) -> str:
    """Return the directory that is meant, absolute: the current one where none is named.

    Raises:
        UsageFault: none is named, and the current one is gone.
    """
    try:
        return os.path.abspath(cwd or os.getcwd())
    except OSError as error:
        # The exit code of `explain` is a verdict; that of a usage error must be none.
        kind = VerdictUsageFault if session.command in VERDICT_COMMANDS else UsageFault
        raise kind("the current directory is gone: name one with --cwd") from error


def place_for(session: Session, cwd: str | None) -> Place:
    """Return the shell that `perdure exec` would start there."""
    environment = scrub(session.environ, own_folders(session.installation), run="")
    return Place(
        cwd=directory_of(session, cwd),
        home=environment.get("HOME", os.path.expanduser("~")),
        environment=environment,
        complete=True,
    )


def text_of(command: Sequence[str], shell: str = "bash") -> str:
    """Return the text that words stand for: one is a text already, several get their shell's quoting back."""
    if len(command) == 1:
        return command[0]
    if shell == "cmd":
        return " ".join(f'"{word}"' if re.search(r"[\s&|<>^()]", word) else word for word in command)
    if shell in {"powershell", "pwsh"}:
        plain = re.compile(r"[\w.:\\/=-]+")
        return " ".join(word if plain.fullmatch(word) else "'" + word.replace("'", "''") + "'" for word in command)
    return shlex.join(command)


def explain(session: Session, command: Sequence[str], shell: str, cwd: str | None) -> Answer:
    """Return everything that leads to the verdict on a command."""
    text, guard, place = text_of(command, shell), make_guard(session.installation), place_for(session, cwd)

    def hidden() -> bool:
        # What is only needed where something would be read from above the state.
        from perdure.cli.jailing import hides_state
        from perdure.tools.terminal import Request

        return hides_state(session, guard, Request(script=text, shell=shell, cwd=place.cwd), place.environment)

    found = guard.explain(text, shell=shell, place=replace(place, hides_state=hidden))
    verdict = found.verdict
    return Answer(
        data={
            "command": text,
            "shell": shell,
            "verdict": verdict.to_json(),
            "readers": [
                {
                    "reader": view.reading.reader,
                    "ruling": view.verdict.ruling.value,
                    "floor": view.verdict.floor,
                    "effects": [_effect_data(effect) for effect in view.reading.effects],
                    "not_analysable": [
                        {"reason": place.reason, "span": [place.span.start, place.span.end]}
                        for place in view.reading.not_analysable
                    ],
                }
                for view in found.views
            ],
        },
        text=printable("\n".join(_explained(found))),
        exit_code=EXIT_OF[verdict.ruling],
    )


def _explained(found: Explanation) -> Iterator[str]:
    verdict = found.verdict
    yield f"{verdict.shown_ruling}, risk {verdict.risk.value}"
    yield from (f"  {reason.code}: {reason.text}" for reason in verdict.reasons)
    for view in found.views:
        yield ""
        yield f"reader {view.reading.reader}: {view.verdict.shown_ruling}"
        rows = [
            (f"  {effect.act.value}", _shown_operand(effect), effect.certainty.value, f"by {effect.by}")
            for effect in view.reading.effects
        ]
        yield from columns(rows) if rows else ["  no effect"]
        yield from (f"  not analysable: {place.reason}" for place in view.reading.not_analysable)
    if verdict.meetings:
        yield ""
        yield "roots met:"
        for meeting in verdict.meetings:
            sure = "" if meeting.sure else " (perhaps)"
            yield f"  {meeting.operand} {meeting.overlap.value} {meeting.root}{sure}: {meeting.why}"


def _shown_operand(effect: Effect) -> str:
    words = [show_word(effect.operand), *(show_word(word) for word in effect.arguments)]
    marks = [
        name
        for name, on in (
            ("and below", effect.recursive),
            ("through links", effect.through_link),
            ("only below", effect.only_below),
        )
        if on
    ]
    if effect.names:
        marks.append("named " + ", ".join(map(show_word, effect.names)))
    return " ".join(words) + (f" ({', '.join(marks)})" if marks else "")


def _effect_data(effect: Effect) -> dict[str, JsonValue]:
    return {
        "act": effect.act.value,
        "operand": show_word(effect.operand),
        "known": not any(isinstance(piece, Hole) for spelling in effect.operand.spellings for piece in spelling),
        "arguments": [show_word(word) for word in effect.arguments],
        "directories": [show_word(word) for word in effect.directories],
        "certainty": effect.certainty.value,
        "recursive": effect.recursive,
        "through_link": effect.through_link,
        "only_below": effect.only_below,
        "names": [show_word(word) for word in effect.names],
        "by": effect.by,
        "span": [effect.span.start, effect.span.end],
    }


def list_roots(session: Session, layers: Sequence[Layer]) -> Answer:
    """Return what is protected, why, and by which layers."""
    roots: Sequence[Root] = protected_roots(origin_of(session.installation), Machine())
    rows = [(root.path, root.why + (" (not to be read either)" if root.secret else "")) for root in roots]
    lines = [*columns(rows), "", *columns([(layer.name, show_layer(layer)) for layer in layers])]
    return Answer(
        data={
            "roots": [{"path": root.path, "why": root.why, "secret": root.secret} for root in roots],
            "layers": layers_to_json(layers),
        },
        text=printable("\n".join(lines)),
    )


def check_corpus(file: str, shells: Sequence[str], *, wrap: bool) -> Answer:
    """Return how a corpus came out.

    Raises:
        CorpusInvalid: it cannot be read, or is not of the form.
    """
    from perdure.guard.corpus import Tally, check, read_corpus

    cases = [case for case in read_corpus(_read(file), file) if not shells or case.shell in shells]
    if not cases:
        raise CorpusInvalid(f"{file} has no line for {', '.join(shells) or 'any shell'}", context={"path": file})
    tally = Tally()
    for result in check(cases, wrap=wrap):
        tally.add(result)
    rows = [("expected", "floor and classification say", "lines")]
    rows += [(expected, said, str(count)) for (expected, said), count in sorted(tally.counts.items())]
    lines = [*columns(rows), "", f"{len(cases)} lines, {tally.wrapped} wrapped, {len(tally.mismatches)} mismatches"]
    for result in tally.mismatches:
        wrapper = f" in {result.wrapper}" if result.wrapper else ""
        lines.append(
            f"  {result.case.identity}{wrapper}: expected {result.case.expected.value}, "
            f"got {result.verdict.shown_ruling}: {result.case.command!r} ({result.case.why})"
        )
    return Answer(
        data={
            "lines": len(cases),
            "wrapped": tally.wrapped,
            "counts": [
                {"expected": expected, "said": said, "lines": count}
                for (expected, said), count in sorted(tally.counts.items())
            ],
            "mismatches": [result.to_json() for result in tally.mismatches],
        },
        text=printable("\n".join(lines)),
        exit_code=EXIT_FOUND if tally.mismatches else EXIT_DONE,
    )


def scan(session: Session, file: str, shell: str, cwd: str | None, *, field: int | None, asks: bool) -> Answer:
    """Return the shares of what the guard says of a file's lines, with every refusal."""
    guard, place = make_guard(session.installation), place_for(session, cwd)
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    listed: list[tuple[int, str, Verdict]] = []
    for number, line in _commands(file, field):
        verdict = guard.judge(line, shell=shell, place=place)
        counts[verdict.shown_ruling] += 1
        if verdict.ruling is Ruling.ASK:
            reasons[f"{verdict.shown_ruling}: {verdict.reasons[0].code}"] += 1
        if verdict.ruling is Ruling.REFUSE or (asks and verdict.floor):
            listed.append((number, line, verdict))
    total = sum(counts.values())
    rows = [("verdict", "lines", "share")]
    rows += _shares(counts, total)
    lines = [*columns(rows), f"{total} lines"]
    if reasons:
        lines += ["", *columns([("asked about, by the first reason", "lines", "share"), *_shares(reasons, total)]), ""]
    for number, line, verdict in listed:
        lines += [f"{number}: {verdict.shown_ruling}: {line}", f"    {verdict.reasons[0].text}"]
    return Answer(
        data={
            "lines": total,
            "counts": dict(counts),
            "asked": dict(reasons),
            "listed": [
                {"line": number, "command": line, "verdict": verdict.to_json()} for number, line, verdict in listed
            ],
        },
        text=printable("\n".join(lines)),
    )


def _shares(counts: Counter[str], total: int) -> list[tuple[str, str, str]]:
    return [(name, str(count), f"{count / total:.2%}") for name, count in counts.most_common()]


def _commands(file: str, field: int | None) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_read(file).decode(errors="replace").splitlines(), start=1):
        command = line
        if field is not None:
            fields = line.split("\t")
            command = fields[field - 1] if len(fields) >= field else ""
        if command.strip() and not line.startswith("#"):
            yield number, command[:_LONGEST_LINE]


def _read(file: str) -> bytes:
    import gzip

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return gzip.decompress(data) if data.startswith(_COMPRESSED) else data
    except (OSError, EOFError) as error:
        raise CorpusInvalid(f"{file} cannot be read: {error}", context={"path": file}) from error

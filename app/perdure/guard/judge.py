"""Effects in, a verdict out: what the floor refuses, what it puts to a person, and what is left to classification.

Owns: which act on which overlap is refused, what is asked because it cannot be known, and the order of the two
floors. Does not own: comparing (paths), what is catastrophic (catastrophic), how risky the rest is (classify). Keeps:
guard-own-feet, guard-floor-asks.

The floor's own *ask* is not a lower refusal but another question: nothing skips it, because whoever pads a command
until no reader understands it must not gain anything by that.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from perdure.domain.effect import Act, Certainty, Effect, Hole, NotAnalysable, Pattern, Reading, Text
from perdure.domain.verdict import Meeting, Overlap, Reason, Risk, Ruling, Verdict
from perdure.guard.catastrophic import find_catastrophes
from perdure.guard.classify import Classification, classify
from perdure.guard.links import LinkedProbe, made_links
from perdure.guard.own_policy import own_policy, reads_secret
from perdure.guard.paths import Match, Protected, only_byte_code, show_word
from perdure.guard.patterns import split_text
from perdure.guard.unread_programs import untold

_HARMS: dict[Act, frozenset[Overlap]] = {
    Act.DELETE: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.EMPTY: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.MOVE: frozenset(Overlap),
    Act.OVERWRITE: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.CHANGE: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.MAKE: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.PERMIT: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.MOUNT: frozenset(Overlap),
    Act.CLOSE: frozenset({Overlap.CONTAINS}),
    Act.READ: frozenset({Overlap.IS, Overlap.WITHIN}),
    Act.RUN: frozenset(),
    Act.FORK: frozenset(),
}
"""What harms a root that a single operand meets so."""

_REACHES_BELOW = frozenset({Act.DELETE, Act.EMPTY, Act.PERMIT, Act.READ})
"""What harms a root in a directory, where everything below the directory is meant."""

_VERBS = {
    Act.DELETE: "deletes",
    Act.EMPTY: "empties",
    Act.MOVE: "moves away",
    Act.OVERWRITE: "overwrites",
    Act.CHANGE: "changes",
    Act.MAKE: "makes",
    Act.PERMIT: "changes the permissions of",
    Act.CLOSE: "closes",
    Act.READ: "reads",
    Act.MOUNT: "mounts over",
    Act.RUN: "runs",
    Act.FORK: "starts",
}

_OUTSIDE = frozenset({"docker", "podman", "nerdctl"})
"""Programs that have another process do it, which no jail of theirs holds."""

_LOGINS = frozenset({"authorized_keys", "authorized_keys2", ".rhosts", ".shosts", "sudoers"})
"""Files that let somebody in: whoever writes them, a person has to do it outside a run."""
_WRITES = frozenset({Act.EMPTY, Act.OVERWRITE, Act.CHANGE})


def judge(
    reading: Reading,
    protected: Protected,
    homes: Sequence[str] = (),
    hides_state: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Return what follows from one reading of a command line.

    Args:
        reading: what would happen, as far as the text tells.
        protected: what must stay as it is.
        homes: the directories of people's own files.
        hides_state: whether what is not to be read is not there for the command, as in the jail.
    """
    protected = protected.now()
    if links := made_links(reading.effects, protected.probe):
        protected = Protected(protected.roots, LinkedProbe(protected.probe, links))
    refusals: list[Reason] = []
    places = tuple(homes)
    asks: list[Reason] = [_not_analysable(place) for place in reading.not_analysable]
    meetings: list[Meeting] = []
    for effect in reading.effects:
        refusals += find_catastrophes(effect, protected, places)
    for effect in reading.effects:
        met = list(_met(effect, protected))
        if met and all(map(_is_read_from_above, met)):
            # Searching a whole home is nobody's attack: where the state is not there, nothing is read of it.
            if not hides_state() or effect.by.partition(" ")[0] in _OUTSIDE:
                meetings += met
                asks.append(_read_from_above(met[0]))
            met = []
        meetings += met
        # One sentence for each effect: the first root that it harms for sure stands for the others.
        if met:
            first = next((meeting for meeting in met if meeting.sure), met[0])
            (refusals if first.sure else asks).append(_own_feet(first))
        refusals += _own_policy(effect)
        refusals += reads_secret(effect, protected, places)
        asks += _unknown(effect, protected)
    classified = classify(reading.effects, places)
    if refusals:
        return _verdict(Ruling.REFUSE, refusals, asks, meetings, classified)
    if asks:
        return _verdict(Ruling.ASK, asks, (), meetings, classified)
    return Verdict(
        ruling=classified.ruling,
        floor=False,
        risk=classified.risk,
        reasons=classified.reasons,
        meetings=tuple(meetings),
    )


def _verdict(
    ruling: Ruling,
    reasons: Sequence[Reason],
    others: Sequence[Reason],
    meetings: Sequence[Meeting],
    classified: Classification,
) -> Verdict:
    said = tuple(dict.fromkeys((*reasons, *others, *classified.reasons)))
    return Verdict(ruling=ruling, floor=True, risk=Risk.HIGH, reasons=said, meetings=tuple(meetings))


def _not_analysable(place: NotAnalysable) -> Reason:
    return Reason(code="not-analysable", text=place.reason, span=place.span)


def _harmful(effect: Effect, protected: Protected) -> Iterator[Match]:
    """Yield the roots that the effect harms, or may harm."""
    allowed = _HARMS[effect.act]
    below = (effect.recursive or effect.only_below) and effect.act in _REACHES_BELOW
    whole = below or effect.act in {Act.MOVE, Act.MOUNT, Act.CLOSE}
    if not allowed:
        return
    for match in protected.matches(effect, whole=whole):
        if effect.act is Act.MAKE and match.overlap is Overlap.IS and protected.probe.is_directory(match.root.path):
            continue  # it is there: nothing comes to be
        if effect.act is Act.READ and (not match.root.secret or (below and not match.sure)):
            continue
        # A word of which nothing is known meets everything: `_unknown` has a sentence of its own for it.
        if not match.sure and (effect.operand.unknown or _one_file(effect)):
            continue
        if effect.spares_ignored and protected.ignored(match.root):
            continue
        if match.overlap in allowed or (below and match.overlap is Overlap.CONTAINS):
            yield replace(match, sure=match.sure and not _spares_directories(effect, match, protected))


def _one_file(effect: Effect) -> bool:
    """Return whether the operand is a name that is not known but for one character at its end: ``"$file"[co]``."""
    return not effect.recursive and all(
        len(pieces) == 2
        and isinstance(pieces[0], Hole)
        and isinstance(last := pieces[1], Pattern)
        and last.text.startswith("[")
        for pieces in effect.operand.spellings
    )


def _spares_directories(effect: Effect, match: Match, protected: Protected) -> bool:
    """Return whether the program leaves the root alone because that is a directory: it was meant all the same."""
    if effect.act is not Act.DELETE or effect.recursive or effect.only_below or match.overlap is not Overlap.IS:
        return False
    path, probe = match.root.path, protected.probe
    return effect.by in {"rm", "unlink"} and probe.link(path) is None and probe.is_directory(path) is True


def _met(effect: Effect, protected: Protected) -> Iterator[Meeting]:
    seen: set[str] = set()
    for match in _harmful(effect, protected):
        if match.root.path not in seen:
            seen.add(match.root.path)
            yield Meeting(
                root=match.root.path,
                why=match.root.why,
                overlap=match.overlap,
                operand=match.operand,
                sure=match.sure and effect.certainty is not Certainty.CONDITIONAL,
                effect=effect,
            )


def _is_read_from_above(meeting: Meeting) -> bool:
    """Return whether the app's state is only among what is read: something above its home is."""
    return (
        meeting.effect.act is Act.READ
        and meeting.overlap is Overlap.CONTAINS
        and meeting.operand != posixpath.dirname(meeting.root)
    )


def _read_from_above(meeting: Meeting) -> Reason:
    text = (
        f"{meeting.effect.by} reads everything below {meeting.operand}, and {meeting.root} ({meeting.why}) is part of "
        "that; leave it out, or have commands jailed, where it is not there"
    )
    return Reason(code="reads-own-state", text=text, span=meeting.effect.span)


def _own_feet(meeting: Meeting) -> Reason:
    place = {
        Overlap.IS: meeting.root,
        Overlap.CONTAINS: f"{meeting.operand}, which holds {meeting.root}",
        Overlap.WITHIN: f"{meeting.operand} in {meeting.root}",
    }[meeting.overlap]
    verb = _VERBS[meeting.effect.act]
    if meeting.sure:
        return Reason(
            code="own-feet", text=f"{meeting.effect.by} {verb} {place} ({meeting.why})", span=meeting.effect.span
        )
    return Reason(
        code="own-feet-perhaps",
        text=f"{meeting.effect.by} {verb} {show_word(meeting.effect.operand)}, "
        f"which may be {meeting.root} ({meeting.why})",
        span=meeting.effect.span,
    )


def _own_policy(effect: Effect) -> Iterator[Reason]:
    """Yield why a command may not do this to what decides about commands."""
    if effect.certainty is Certainty.CONDITIONAL:
        return
    if effect.act in _WRITES:
        for spelling in effect.operand.spellings:
            last = "".join(piece.text if isinstance(piece, Text) else "\0" for piece in spelling)
            names = split_text(last)
            if names and (names[-1] in _LOGINS or (len(names) > 1 and names[-2] == "sudoers.d")):
                yield Reason(
                    code="lets-somebody-in",
                    text=f"{effect.by} writes {show_word(effect.operand)}, which decides who may log in or become root",
                    span=effect.span,
                )
                return
    if effect.act is Act.RUN:
        yield from own_policy(effect)


def _unknown(effect: Effect, protected: Protected) -> Iterator[Reason]:
    """Yield what nobody can know and what would matter."""
    if effect.act is Act.RUN:
        yield from untold(effect, protected)
        return
    below = effect.recursive or effect.only_below
    if below and effect.act in {Act.DELETE, Act.EMPTY} and effect.operand.unknown and not only_byte_code(effect.names):
        yield Reason(
            code="unknown-operand",
            text=f"{effect.by} deletes {show_word(effect.operand)} with everything below it, "
            "and what that is cannot be told",
            span=effect.span,
        )

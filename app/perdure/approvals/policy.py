"""The policy: what a profile's `approvals:` says, as a value.

Owns: its form, and what follows from one that is not of the form. Does not own: reading app.yaml (app_settings), or
what the policy leads to (decide). Keeps: approvals-policy-total: whatever stands there becomes a policy; what cannot be
evaluated is one that refuses, and nothing that is wrong makes it laxer.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum

from perdure.approvals.rules import Rule
from perdure.domain.operation import Surface
from perdure.domain.record import dataclass

TTL = 300.0
"""Seconds that a question waits for an answer unless told."""
LONGEST_TTL = 86_400.0
REFUSALS_UNTIL_STOP = 3
_KEYS = frozenset({"mode", "deny", "ask", "unattended", "ttl", "assessors", "refusals_until_stop"})
_CONTEXTS = {
    "cron": Surface.CRON,
    "single-query": Surface.SINGLE_QUERY,
    "webhook": Surface.WEBHOOK,
    "api": Surface.API,
}


class Mode(StrEnum):
    """Whether classification asks at all."""

    MANUAL = "manual"
    OFF = "off"


class Unattended(StrEnum):
    """What happens where nobody can answer."""

    REFUSE = "refuse"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessors:
    """What plugins that assess may do."""

    names: tuple[str, ...] = ()
    """The plugins that are consulted."""
    approve: bool = False
    """Whether their yes counts, for one run."""
    seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What decides for one profile."""

    mode: Mode = Mode.MANUAL
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    unattended: tuple[tuple[Surface, Unattended], ...] = ()
    ttl: float = TTL
    """Seconds."""
    assessors: Assessors = Assessors()
    refusals_until_stop: int = REFUSALS_UNTIL_STOP
    """After so many refusals by assessors in a row the agent is told to stop."""
    faults: tuple[str, ...] = ()
    """Why it cannot be evaluated: with one of them everything is refused."""
    warnings: tuple[str, ...] = ()
    """What is wrong and counts as if it were not there."""

    def answer_for(self, surface: Surface) -> Unattended:
        """Return what happens on a surface where nobody can answer."""
        return dict(self.unattended).get(surface, Unattended.REFUSE)

    @property
    def version(self) -> str:
        """The digest of everything that decides, 16 hexadecimal digits."""
        return _version(self)


@functools.lru_cache(maxsize=16)
def _version(policy: Policy) -> str:
    said = [
        policy.mode.value,
        [rule.text for rule in policy.deny],
        [rule.text for rule in policy.ask],
        sorted((surface.value, answer.value) for surface, answer in policy.unattended),
        [list(policy.assessors.names), policy.assessors.approve],
        list(policy.faults),
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def unreadable(why: str) -> Policy:
    """Return the policy of a profile whose settings cannot be read: it refuses everything."""
    return Policy(faults=(why,))


def parse_policy(document: object, place: str = "approvals") -> Policy:
    """Return the policy that stands under `approvals:`; None stands for nothing there.

    Args:
        document: what YAML made of it.
        place: how messages call it.
    """
    if document is None:
        return Policy()
    if not isinstance(document, Mapping):
        return Policy(faults=(f"{place} must be a mapping, not {_kind(document)}",))
    faults: list[str] = []
    warnings: list[str] = []
    for key in document:
        if key in _KEYS:
            continue
        import difflib  # only where something is wrong

        meant = difflib.get_close_matches(str(key).casefold(), ("deny", "ask"), n=1)
        if meant:  # rules that a slip of the keyboard would drop
            faults.append(f"{place}.{key} is not known: is {meant[0]} meant?")
        else:
            warnings.append(f"{place}.{key} is not known, and counts for nothing")
    return Policy(
        mode=_mode(document.get("mode"), f"{place}.mode", warnings),
        deny=_rules(document.get("deny"), f"{place}.deny", faults),
        ask=_rules(document.get("ask"), f"{place}.ask", faults),
        unattended=_unattended(document.get("unattended"), f"{place}.unattended", warnings),
        ttl=_number(document.get("ttl"), f"{place}.ttl", warnings, default=TTL, most=LONGEST_TTL),
        assessors=_assessors(document.get("assessors"), f"{place}.assessors", warnings),
        refusals_until_stop=round(
            _number(
                document.get("refusals_until_stop"),
                f"{place}.refusals_until_stop",
                warnings,
                default=REFUSALS_UNTIL_STOP,
                most=100,
            )
        ),
        faults=tuple(faults),
        warnings=tuple(warnings),
    )


def _mode(value: object, place: str, warnings: list[str]) -> Mode:
    if value is None:
        return Mode.MANUAL
    if value is False:  # YAML 1.1 reads a bare `off` so
        return Mode.OFF
    try:
        return Mode(value) if isinstance(value, str) else Mode("")
    except ValueError:
        warnings.append(f"{place} is {_shown(value)}, which is neither manual nor off: it counts as manual")
        return Mode.MANUAL


def _rules(value: object, place: str, faults: list[str]) -> tuple[Rule, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append(f"{place} must be a list of texts, not {_kind(value)}")
        return ()
    for number, item in enumerate(value):
        if not isinstance(item, str):
            faults.append(f"{place}[{number}] must be a text, not {_kind(item)}")
        elif not item.split():
            faults.append(f"{place}[{number}] is empty")
    return tuple(Rule(item) for item in value if isinstance(item, str) and item.split())


def _unattended(value: object, place: str, warnings: list[str]) -> tuple[tuple[Surface, Unattended], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        warnings.append(f"{place} must be a mapping of contexts, not {_kind(value)}: it counts as refuse everywhere")
        return ()
    found: list[tuple[Surface, Unattended]] = []
    for name, answer in value.items():
        surface = _CONTEXTS.get(name) if isinstance(name, str) else None
        if surface is None:
            warnings.append(f"{place}.{name} is none of {', '.join(_CONTEXTS)}, and counts for nothing")
        elif answer not in ("refuse", "approve"):  # a tuple: what stands there may have no hash
            warnings.append(f"{place}.{name} is {_shown(answer)}, neither refuse nor approve: it counts as refuse")
        else:
            found.append((surface, Unattended(answer)))
    return tuple(found)


def _assessors(value: object, place: str, warnings: list[str]) -> Assessors:
    if value is None:
        return Assessors()
    if not isinstance(value, Mapping):
        warnings.append(f"{place} must be a mapping, not {_kind(value)}: none is consulted")
        return Assessors()
    names = value.get("plugins")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        warnings.append(f"{place}.plugins must be a list of texts: none is consulted")
        names = None
    approve = value.get("approve")
    if approve is not None and not isinstance(approve, bool):
        warnings.append(f"{place}.approve is {_shown(approve)}, not true or false: it counts as false")
    return Assessors(
        names=tuple(names or ()),
        approve=approve is True,
        seconds=_number(value.get("seconds"), f"{place}.seconds", warnings, default=5.0, most=60.0),
    )


def _number(value: object, place: str, warnings: list[str], *, default: float, most: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        warnings.append(f"{place} is {_shown(value)}, not a number up to {most:g}: it counts as {default:g}")
        return default
    return float(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "a mapping", type(None): "null"}
    return names.get(type(value), type(value).__name__)

"""How risky a command is, above the floor, and why.

Owns: the risk of each effect, and the positive list: what changes nothing by its program *and* its arguments. Does
not own: the floor (judge, catastrophic), or who may allow what is asked (approvals). The facts about programs are
data: risks.toml. Keeps: guard-unknown-asks, guard-safe-by-options.

What changes nothing, or writes an ordinary file below the directory it works in, is of low risk and allowed. A
program that nobody knows is of medium risk. What is not known of an argument counts as what would be worst.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from perdure.domain.effect import Act, Effect, Text, Word
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Reason, Risk, Ruling
from perdure.guard import read_only
from perdure.guard.late import late
from perdure.guard.paths import show_word
from perdure.guard.patterns import place_text, split, without_dots

_WRITES = frozenset({Act.EMPTY, Act.OVERWRITE, Act.CHANGE, Act.PERMIT, Act.MOVE, Act.DELETE})
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"})
_MAY_BE_SECRET = late(r"(?:^|[/=])\.|^(?:[^=]*=)?/(?:etc|proc|dev)/|credentials")
"""What is in every path that reading is asked about, if not in the directory that it counts from."""
_GLOBBED = late(r"/[^/]*[*?\[][^/]*$")
_SCRATCH = ("/tmp/", "/var/tmp/", "/private/tmp/")  # noqa: S108  # compared, never written


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What classification says of a whole command line."""

    ruling: Ruling
    risk: Risk
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    words: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]
    without: re.Pattern[str] | None
    risk: Risk
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    pattern: re.Pattern[str]
    read: bool
    risk: Risk
    code: str
    text: str


@dataclass(slots=True)
class _Table:
    safe: dict[str, list[read_only.Rule]] = field(default_factory=dict)
    described: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    steering: tuple[str, ...] = ()
    rules: dict[str, list[_Rule]] = field(default_factory=dict)
    places: list[_Place] = field(default_factory=list)


def classify(effects: Sequence[Effect], homes: Sequence[str] = ()) -> Classification:
    """Return the highest risk of the effects, with every reason for it, the highest first."""
    found = [pair for effect in effects for pair in _reasons(effect, tuple(homes))]
    found.sort(key=lambda pair: -pair[0].height)
    risk = found[0][0] if found else Risk.LOW
    reasons = tuple(dict.fromkeys(reason for level, reason in found if level is not Risk.LOW))
    return Classification(ruling=Ruling.ALLOW if risk is Risk.LOW else Ruling.ASK, risk=risk, reasons=reasons)


@functools.lru_cache(maxsize=1)
def reason_codes() -> frozenset[str]:
    """Return the codes that the tables of programs and places give."""
    table = _table(())
    rules = {rule.code for rules in table.rules.values() for rule in rules}
    return frozenset(rules | {place.code for place in table.places})


def safe_rules(program: str) -> Sequence[read_only.Rule]:
    """Return the rules by which a program changes nothing, one of which must hold."""
    return _table(()).safe.get(program, ())


def _reasons(effect: Effect, homes: tuple[str, ...]) -> Iterator[tuple[Risk, Reason]]:
    if effect.act is Act.RUN:
        risk, reason = _running(effect)
        yield risk, reason
        if risk is Risk.LOW:
            yield from _given_secret(effect, homes)
        return
    if effect.act is Act.MOUNT:
        yield Risk.HIGH, Reason(code="system", text=f"{effect.by} changes what is mounted", span=effect.span)
        return
    if effect.act is Act.READ:
        yield from _secret(effect, homes)
    if effect.act not in _WRITES:
        return
    shown = show_word(effect.operand)
    if effect.act is Act.DELETE:
        below = effect.recursive or effect.only_below
        code, risk = ("recursive-delete", Risk.HIGH) if below else ("delete", Risk.MEDIUM)
        what = f"deletes {shown}" + (" with everything below it" if below else "")
        yield risk, Reason(code=code, text=f"{effect.by} {what}", span=effect.span)
    elif effect.act is Act.PERMIT:
        risk = Risk.HIGH if effect.recursive else Risk.MEDIUM
        yield risk, Reason(code="permissions", text=f"{effect.by} changes the permissions of {shown}", span=effect.span)
    elif effect.act is Act.EMPTY:
        yield Risk.MEDIUM, Reason(code="empties", text=f"{effect.by} empties {shown}", span=effect.span)
    yield from _placed(effect, homes, shown)


def _secret(effect: Effect, homes: tuple[str, ...]) -> Iterator[tuple[Risk, Reason]]:
    """Yield what a place that is read says of the risk."""
    for path, _ in _paths(effect, effect.operand):
        if path is not None and (place := _secret_place(path, homes)) is not None:
            yield _reads(effect, effect.operand, place)
            return


def _given_secret(effect: Effect, homes: tuple[str, ...]) -> Iterator[tuple[Risk, Reason]]:
    """Yield that a program which only looks is given what should not be looked at."""
    table, name = _table(homes), (effect.operand.known or "").rpartition("/")[2]
    if name not in table.safe or name in table.names:
        return
    hidden = any("/." in (place_text(base) or "/.") for place in effect.directories for base in place.spellings)
    for word in effect.arguments:
        text = word.known
        if text is not None and not hidden and _MAY_BE_SECRET.search(text) is None:
            continue
        value = Word(((Text(text.partition("=")[2]),),)) if text is not None and text.startswith("-") else word
        for path, _ in _paths(effect, value):
            # What a glob finds in a directory is all that is in it.
            place = None if path is None else _secret_place(_GLOBBED.sub("", path), homes)
            if place is not None:
                yield _reads(effect, word, place)
                return


def _secret_place(path: str, homes: tuple[str, ...]) -> _Place | None:
    """Return the place that a path is in, if what is there must not be read unasked."""
    place = next((place for place in _table(homes).places if place.pattern.fullmatch(path)), None)
    return place if place is not None and place.read else None


def _reads(effect: Effect, word: Word, place: _Place) -> tuple[Risk, Reason]:
    reason = f"{effect.by} reads {show_word(word)}, {place.text}"
    return Risk.MEDIUM, Reason(code=place.code, text=reason, span=effect.span)


def _placed(effect: Effect, homes: tuple[str, ...], shown: str) -> Iterator[tuple[Risk, Reason]]:
    """Yield what the place that is written to says of the risk."""
    ordinary = True
    for path, below in _paths(effect, effect.operand):
        if path is None:
            ordinary = False
            continue
        if path in _NOWHERE:
            continue
        for place in _table(homes).places:
            if place.pattern.fullmatch(path):
                yield (
                    place.risk,
                    Reason(code=place.code, text=f"{effect.by} writes {shown}, {place.text}", span=effect.span),
                )
                return
        ordinary = ordinary and (below or path.startswith(_SCRATCH))
    if not ordinary and effect.act not in {Act.DELETE, Act.PERMIT}:
        yield (
            Risk.MEDIUM,
            Reason(
                code="writes-elsewhere",
                text=f"{effect.by} writes {shown}, outside the directory it works in",
                span=effect.span,
            ),
        )


def _paths(effect: Effect, word: Word) -> Iterator[tuple[str | None, bool]]:
    """Yield each path that a word means, where it is known, and whether it is below the directory it counts from."""
    for spelling in word.spellings:
        for directory in effect.directories:
            for base in directory.spellings:
                folder = place_text(base)
                path = without_dots(split(spelling, base))
                text = path.text
                if text is None and not path.open:
                    text = "/" + "/".join("".join(getattr(p, "text", "") for p in part) for part in path.components)
                yield text, folder is not None and text is not None and text.startswith(folder.rstrip("/") + "/")


def is_known_program(effect: Effect) -> bool:
    """Return whether the tables say anything of the program that is run: else it may do anything with its operands."""
    written = effect.operand.known
    if written is None:
        return False
    table, name = _table(()), written.rpartition("/")[2]
    return name in table.safe or name in table.described or name in table.rules


def has_rules(effect: Effect) -> bool:
    """Return whether the program that is run is known for more than looking, be it with some arguments alone."""
    table, name = _table(()), (effect.operand.known or "").rpartition("/")[2]
    return name in table.rules or any(rule is not read_only.WHATEVER for rule in table.safe.get(name, ()))


def only_looks(effect: Effect) -> bool:
    """Return whether a program that is run changes nothing with these arguments."""
    return _running(effect)[0] is Risk.LOW


def _running(effect: Effect) -> tuple[Risk, Reason]:
    written = effect.operand.known
    if written is None:
        reason = f"what {show_word(effect.operand)} starts cannot be told"
        return Risk.HIGH, Reason(code="unknown-program", text=reason, span=effect.span)
    table = _table(())
    folder, _, name = written.rpartition("/")
    # A program beside the work is whatever somebody made it, also where it is called `ls`.
    known = not folder or folder in {"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"}
    low = Risk.LOW, Reason(code="safe", text=f"`{written}` changes nothing", span=effect.span)
    steered = [name for name in effect.assigned if read_only.any_of(table.steering).match(name)]
    if steered:
        reason = f"`{written}` runs with another {', '.join(steered)}, and may do something else then"
        low = Risk.MEDIUM, Reason(code="steered", text=reason, span=effect.span)
    if known:
        words = [word.known for word in effect.arguments]
        if any(read_only.holds(rule, effect.arguments) for rule in table.safe.get(name, ())):
            return low
        fitting = [rule for rule in table.rules.get(name, ()) if _fits(rule, effect.arguments, words)]
        if fitting:
            worst = max(fitting, key=lambda rule: rule.risk.height)
            return worst.risk, Reason(code=worst.code, text=f"`{name}` {worst.text}", span=effect.span)
        if name in table.described:
            return low
    return Risk.MEDIUM, Reason(
        code="unknown-program", text=f"what `{written}` does with these arguments is not known", span=effect.span
    )


def _starts(known: Sequence[str | None]) -> Iterator[int]:
    """Yield where a program's own command may stand: first, or behind an option and what may be its value."""
    yield 0
    for at, word in enumerate(known):
        if word is None or not word.startswith("-"):
            if not at or not (known[at - 1] or "").startswith("-"):
                return
            yield at + 1


def _begins(known: Sequence[str | None], words: tuple[str, ...]) -> bool:
    """Return whether the first words that are no option are these; an option of the rule may stand anywhere."""
    plain = [word for word in known if word is None or not word.startswith("-")]
    at = 0
    for word in words:
        if word.startswith("-"):
            if word not in known:
                return False
        elif at >= len(plain) or plain[at] != word:
            return False
        else:
            at += 1
    return True


def _fits(rule: _Rule, arguments: Sequence[Word], known: Sequence[str | None]) -> bool:
    if rule.words and not any(_begins(known[at:], words) for at in _starts(known) for words in rule.words):
        return False
    if rule.options and not any(
        read_only.may_be(spelling, rule.options) for word in arguments for spelling in word.spellings
    ):
        return False
    return rule.without is None or rule.without.search(" ".join(word or "" for word in known)) is None


@functools.lru_cache(maxsize=8)
def _table(homes: tuple[str, ...]) -> _Table:
    raw = _raw()
    table = _Table()
    safe = _mapping(raw["safe"])
    table.safe = {name: [read_only.WHATEVER] for name in _texts(safe["programs"])}
    for names, entries in _mapping(safe["with"]).items():
        for entry in entries if isinstance(entries, list) else [entries]:
            limited = _read_only(_mapping(entry))
            for name in names.split():
                table.safe.setdefault(name, []).append(limited)
    table.steering = _texts(_mapping(raw["steering"])["variables"])
    table.names = frozenset(_texts(_mapping(raw["names"])["programs"]))
    table.described = frozenset(_texts(_mapping(raw["described"])["programs"]))
    for entry in _entries(raw["rule"]):
        without = entry.get("without")
        rule = _Rule(
            words=tuple(tuple(words.split()) for words in _texts(entry.get("words", []))),
            options=_texts(entry.get("options", [])),
            without=re.compile(without) if isinstance(without, str) else None,
            risk=Risk(str(entry["risk"])),
            code=str(entry["code"]),
            text=str(entry["text"]),
        )
        for name in _texts(entry["programs"]):
            table.rules.setdefault(name, []).append(rule)
    for entry in _entries(raw["place"]):
        table.places.append(
            _Place(
                pattern=_place_pattern(str(entry["path"]), homes),
                read=entry.get("read") is True,
                risk=Risk(str(entry["risk"])),
                code=str(entry["code"]),
                text=str(entry["text"]),
            )
        )
    return table


def _read_only(values: Mapping[str, object]) -> read_only.Rule:
    operands, only = values.get("operands"), values.get("only")
    return read_only.Rule(
        leading=_texts(values.get("leading", [])),
        words=tuple(tuple(words.split()) for words in _texts(values.get("words", []))),
        unless=_texts(values.get("unless", [])),
        only=_texts(only) if only is not None else None,
        operands=operands if isinstance(operands, int) else None,
        language=str(values.get("language", "")),
    )


@functools.lru_cache(maxsize=1)
def _raw() -> Mapping[str, object]:
    from perdure.guard.tables import table

    return table("risks.toml")


def _place_pattern(path: str, homes: tuple[str, ...]) -> re.Pattern[str]:
    made = ""
    for piece in re.split(r"(\*\*/|/\*\*|\*|\{[^}]*\}|^~)", path):
        if piece == "~":
            made += "(?:" + "|".join([*map(re.escape, homes), r"/home/[^/]+", r"/Users/[^/]+", "/root"]) + ")"
        elif piece == "**/":
            made += "(?:.*/)"
        elif piece == "/**":
            made += "(?:/.*)"
        elif piece == "*":
            made += "[^/]*"
        elif piece.startswith("{"):
            made += "(?:" + "|".join(map(re.escape, piece[1:-1].split(","))).replace(r"\*", "[^/]*") + ")"
        else:
            made += re.escape(piece)
    return re.compile(made, re.DOTALL)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"risks.toml: a table was expected, not {value!r}")
    return value


def _entries(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list):
        raise TypeError(f"risks.toml: an array of tables was expected, not {value!r}")
    return [_mapping(entry) for entry in value]


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"risks.toml: a list of texts was expected, not {value!r}")
    return tuple(map(str, value))

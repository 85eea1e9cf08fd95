"""Commands that change nothing: whether the arguments of a program keep to what the positive list says of it.

Owns: that comparison. Does not own: the list (risks.toml), or what follows for the risk (classify). Keeps:
guard-safe-by-options. A program's own commands count only where they stand, behind nothing but options that are known:
``docker --log-level info rm x`` is no ``docker info``. A word that may become several, or whose beginning is open, may
be any option.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate

from perdure.domain.effect import Hole, Pattern, Spelling, Text, Word
from perdure.domain.record import dataclass
from perdure.guard.little_languages import only_prints
from perdure.guard.values import Loose, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way in which a program changes nothing."""

    leading: tuple[str, ...] = ()
    """Options that may stand before the words; one with `` *`` at its end takes a value."""
    words: tuple[tuple[str, ...], ...] = ()
    """Beginnings (globs) of which the arguments must have one."""
    unless: tuple[str, ...] = ()
    """Arguments (globs) that none may be."""
    only: tuple[str, ...] | None = None
    """Where given: the options that there may be, written as in `leading`."""
    operands: int | None = None
    """How many operands there may be."""
    language: str = ""
    """A language whose programs must do nothing but read and print."""


WHATEVER = Rule()
"""The rule of a program that changes nothing whatever it is given."""
_ENDING = frozenset({"awk", "gawk", "mawk"})
"""Languages whose programs take nothing behind the code for an option."""


def holds(rule: Rule, arguments: Sequence[Word]) -> bool:
    """Return whether the arguments keep to the rule."""
    if rule is WHATEVER:
        return True
    if any(_may_be_several(word, globs=rule.language == "sed") for word in arguments) and rule.language not in _ENDING:
        return False
    if rule.language:
        return only_prints(rule.language, [word.spellings for word in arguments])
    rest = list(arguments)
    if rule.words:
        rest = list(_behind_options(rest, rule.leading))
        length = _length(rest, rule.words)
        if not length:
            return False
        rest = rest[length:]
    if rule.unless and any(may_be(spelling, rule.unless) for word in arguments for spelling in word.spellings):
        return False
    operands = [word for word in rest if not (word.known or "").startswith("-") or word.known == "-"]
    if rule.only is not None:
        kept = _kept_to(rest, rule.only)
        if kept is None:
            return False
        operands = kept
    # A word that is not known may be several.
    return rule.operands is None or (
        len(operands) <= rule.operands and all(word.known is not None for word in operands)
    )


def _length(words: Sequence[Word], beginnings: tuple[tuple[str, ...], ...]) -> int:
    """Return how many words the arguments begin with that are one of these beginnings; 0 where they are none."""
    exact, globs, longest = _sorted(beginnings)
    known = tuple(word.known for word in words[:longest])
    for length in range(len(known), 0, -1):
        if known[:length] in exact:
            return length
    return next((len(glob) for glob in globs if _begins(known, glob)), 0)


@functools.cache
def _sorted(
    beginnings: tuple[tuple[str, ...], ...],
) -> tuple[frozenset[tuple[str | None, ...]], tuple[tuple[str, ...], ...], int]:
    """Return the beginnings that are texts, those that are globs, and how long the longest is."""
    globs = tuple(words for words in beginnings if any(sign in word for word in words for sign in "*?["))
    return frozenset(beginnings) - frozenset(globs), globs, max(map(len, beginnings))


def _begins(known: Sequence[str | None], beginning: Sequence[str]) -> bool:
    return len(known) >= len(beginning) and all(
        text is not None and any_of((glob,)).match(text) and (not text.startswith("-") or glob.startswith("-"))
        for text, glob in zip(known, beginning, strict=False)
    )


def _behind_options(words: Sequence[Word], leading: tuple[str, ...]) -> Sequence[Word]:
    """Return what follows the options that may stand first."""
    at = 0
    while at < len(words) and (taken := _taken(words[at], leading)) is not None:
        at += taken
    return words[at:]


def _kept_to(words: Sequence[Word], allowed: tuple[str, ...]) -> list[Word] | None:
    """Return the operands, or None where an option may be another one than those that are allowed."""
    operands: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word.known == "--":
            return [*operands, *words[at + 1 :]]
        if all(_is_operand(spelling) for spelling in word.spellings):
            operands.append(word)
            at += 1
            continue
        taken = _taken(word, allowed)
        if taken is None:
            return None
        at += taken
    return operands


def _is_operand(spelling: Spelling) -> bool:
    """Return whether a word can be no option, whatever is open in it."""
    if not spelling:
        return True
    first = spelling[0]
    return isinstance(first, Text) and (not first.text.startswith("-") or (first.text == "-" and len(spelling) == 1))


def _taken(word: Word, allowed: tuple[str, ...]) -> int | None:
    """Return how many words an allowed option takes, its value included; None for every other one."""
    if len(word.spellings) != 1 or not isinstance(first := next(iter(word.spellings[0]), None), Text):
        return None
    text, open_end = first.text, len(word.spellings[0]) > 1
    name, equals, _ = text.partition("=")
    if equals and name.startswith("--"):
        return 1 if f"{name} *" in allowed or f"{name}=*" in allowed else None
    if not open_end and any(fnmatchcase(text, glob) for glob in allowed if not glob.endswith(" *")):
        return 1
    if not open_end and f"{text} *" in allowed:
        return 2
    if text.startswith("--") or len(text) < 2:
        return None
    # Letters of one word, of which the last may take what follows as its value.
    for number, letter in enumerate(text[1:], 1):
        if f"-{letter} *" in allowed:
            return 1 if open_end or text[number + 1 :] else 2
        if f"-{letter}" not in allowed:
            return None
    return None if open_end else 1


def _may_be_several(word: Word, *, globs: bool) -> bool:
    """Return whether a word may become several; with `globs` also a name that a glob finds counts as an option."""
    return any(
        isinstance(piece, Loose) or (globs and number == 0 and isinstance(piece, Pattern))
        for spelling in word.spellings
        for number, piece in enumerate(spelling)
    )


def may_be(spelling: Spelling, patterns: tuple[str, ...]) -> bool:
    """Return whether a word may come out as something that one of the globs matches: a hole may be anything."""
    if len(spelling) == 1 and isinstance(only := spelling[0], Text):
        written = only.text
    elif any(isinstance(piece, Hole) for piece in spelling):
        return _may_begin(spelling, patterns)
    elif spelling and type(spelling[0]) in {Pattern, Name} and any(glob.startswith("-") for glob in patterns):
        return True
    else:
        written = "".join(getattr(piece, "text", "") for piece in spelling)
    # A long option may be given by its beginning.
    name = written.partition("=")[0]
    if len(name) > 2 and name.startswith("--") and any(pattern.startswith(name) for pattern in patterns):
        return True
    return any_of(patterns).match(written) is not None


def _may_begin(spelling: Spelling, patterns: tuple[str, ...]) -> bool:
    head = ""
    for piece in spelling:
        if not isinstance(piece, Text):
            break
        head += piece.text
    known = [re.split(r"[*?\[]", pattern, maxsplit=1)[0] for pattern in patterns]
    return any(head.startswith(fixed) or fixed.startswith(head) for fixed in known)


@functools.cache
def any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return the expression of what one of the globs matches."""
    return re.compile("|".join(map(translate, patterns)))

"""Rules of an operator: globs for commands, matched on what would be started.

Owns: the form of a rule and when it matches. Does not own: where rules stand (policy, allowlist), or what follows
from one that matches (decide). Keeps: approvals-rules-on-commands, approvals-textual-grants.

A rule that denies or asks reaches far: it meets every command of an operation, also those that a wrapper, a shell or a
substitution would start, in any order of the options. A rule that allows reaches no further than its words: one glob
for one word, and a last `*` for the rest of them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator
from enum import IntEnum
from fnmatch import translate

from perdure.approvals.commands import Command
from perdure.domain.record import dataclass

_MOST_LEADING = 6
_MOST_STEPS = 40_000
_UNKNOWN = "\ufffc"
"""Stands for a word that cannot be told."""


_EXACT = "=["


def exactly(words: tuple[str, ...]) -> str:
    """Return the rule that allows these words and no others, whatever characters they have."""
    return f"={json.dumps(words)}"


class Match(IntEnum):
    """How sure it is that a rule means a command."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A glob such as ``git push --force*``, as its operator wrote it."""

    text: str

    @property
    def digest(self) -> str:
        """What tells it from other rules, 12 hexadecimal digits."""
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[:12]

    def meets(self, command: Command) -> Match:
        """Return whether the rule means a command, in whatever way that is written."""
        words = self.text.split()
        if not words or not command.words:
            return Match.NO
        best = Match.NO
        for name in _names(words[0], command):
            for variant in _variants(tuple(words), command.words):
                best = max(best, _compare(" ".join([name, *words[1:]]), (name if variant[0] else None, *variant[1:])))
                if best is Match.YES:
                    return best
        if command.words[0] is None:
            # Some program: it may be the rule's, unless what it is given cannot be.
            for variant in _variants(tuple(words), command.words):
                best = max(best, _compare(self.text, variant))
        return best

    def covers(self, plain: tuple[str, ...]) -> bool:
        """Return whether the rule allows a command with exactly these words."""
        if self.text.startswith(_EXACT):
            return self.text == exactly(plain)
        words = self.text.split()
        for number, glob in enumerate(words):
            if glob == "*" and number == len(words) - 1:
                return number < len(plain) or number == 0
            if number >= len(plain) or _pattern(glob).fullmatch(plain[number]) is None:
                return False
        return len(words) == len(plain)


def _names(wanted: str, command: Command) -> Iterator[str]:
    """Yield the first word of the rule where the program may be what it names."""
    program = command.words[0]
    if program is None:
        return
    written = program.removesuffix(".exe")
    if "/" not in wanted:
        fits = _pattern(wanted).fullmatch(written.rpartition("/")[2]) is not None
    elif "/" not in written:
        # Which file a bare name stands for is `PATH`'s to say: a rule that names a file means it.
        fits = _pattern(wanted.rpartition("/")[2]).fullmatch(written) is not None
    else:
        places = {posixpath.normpath(posixpath.join(folder, written)) for folder in command.folders} | {written}
        fits = any(_pattern(wanted).fullmatch(place) for place in places)
    if fits:
        yield wanted


def _variants(rule: tuple[str, ...], words: tuple[str | None, ...]) -> Iterator[tuple[str | None, ...]]:
    """Yield the command as it is written, and in other orders of its options that mean the same."""
    yield words
    # Options before the subcommand: `git -C there push`.
    if len(words) > 2 and words[1] is not None and words[1].startswith("-"):
        for start in range(2, min(len(words), _MOST_LEADING + 2)):
            yield (words[0], *words[start:])
    option = next((at for at, word in enumerate(rule) if at and word.startswith("-")), None)
    if option is not None and len(words) > option:
        rest = words[option:]
        options = [word for word in rest if word is not None and word.startswith("-")]
        others = [word for word in rest if word is None or not word.startswith("-")]
        for first in options:
            yield (*words[:option], first, *(word for word in options if word is not first), *others)


def _compare(glob: str, words: tuple[str | None, ...]) -> Match:
    text = " ".join(word if word is not None else _UNKNOWN for word in words)
    if None not in words:
        return Match.YES if _pattern(glob).fullmatch(text) else Match.NO
    if _pattern(glob).fullmatch(text) and _UNKNOWN not in text.split(" ")[: len(glob.rstrip("*").split())]:
        return Match.YES
    return Match.PERHAPS if _may_fit(glob, text) else Match.NO


def _may_fit(glob: str, text: str) -> bool:
    """Return whether a glob fits a text in which `_UNKNOWN` may be anything: both are walked at once."""
    if len(glob) * len(text) > _MOST_STEPS:
        return True  # it would take too long to tell, which is a question
    seen: set[tuple[int, int]] = set()
    pending = [(0, 0)]
    while pending:
        at, place = pending.pop()
        if (at, place) in seen:
            continue
        seen.add((at, place))
        if at == len(glob) and place == len(text):
            return True
        if place < len(text) and text[place] == _UNKNOWN:
            pending.append((at, place + 1))
            if at < len(glob):
                pending.append((at + 1, place))
        if at < len(glob) and glob[at] == "*":
            pending.append((at + 1, place))
            if place < len(text):
                pending.append((at, place + 1))
        elif at < len(glob) and place < len(text) and glob[at] in {"?", "[", text[place]}:
            # A class counts as any character, which is the stricter reading.
            pending.append((glob.index("]", at) + 1 if glob[at] == "[" and "]" in glob[at:] else at + 1, place + 1))
    return False


@functools.lru_cache(maxsize=2048)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))

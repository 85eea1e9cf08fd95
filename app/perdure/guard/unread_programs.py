"""Programs of which nobody can tell from the text what they do with something protected that they are given.

Owns: finding what they are given, as a word, behind an option or as the directory that they run in. Does not own: what
is known of programs (classify, verbs.toml), or comparing (paths). Keeps: guard-floor-asks.

A program that nobody knows may do anything. One that is known for more than looking, such as `npm` or `gpg`, does what
its options say, and no table has them all: what it does elsewhere is for classification, and here a person is asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from perdure.domain.effect import Effect, Hole, Pattern, Text, Word
from perdure.domain.verdict import Overlap, Reason
from perdure.guard.classify import has_rules, is_known_program, only_looks
from perdure.guard.late import late
from perdure.guard.paths import Match, Protected, show_word

_HAND_ON = frozenset(
    [
        *("sudo", "doas", "su", "pkexec", "run0", "ssh", "nsenter", "unshare", "chroot", "systemd-run", "at", "batch"),
        *("docker", "podman", "nerdctl", "uv", "perdure", "perdure-pm", "git", "rsync", "tar", "source", "."),
    ]
)
"""Programs whose words are read for what they start, or which have a function of their own for every option."""
_MOST_WORDS = 200
_IN_TEXT = late(r"(?<![\w/.~-])/[\w.+@/-]{2,}")
"""A path from the root in a text: a command, code, or a list with commas."""
_MOST_IN_TEXT = 16


def untold(effect: Effect, protected: Protected) -> Iterator[Reason]:
    """Yield why a person is asked about a program that is started."""
    if not is_known_program(effect):
        found = _given(effect, protected)
    elif has_rules(effect):
        # Where nothing protected is named, which is nearly always, nobody asks what the program's options mean.
        found = _here(effect, protected)
        if found is None and effect.by not in _HAND_ON:
            found = next((match for match in _named(effect, protected) if match.sure), None)
        found = None if found is None or only_looks(effect) else found
    else:
        return
    if found is not None:
        known = effect.operand.known
        what = f"what {show_word(effect.operand)} is" if known is None else f"what `{known}` does with it"
        text = f"{what} cannot be told, and it is given {found.operand} ({found.root.why})"
        yield Reason(code="unknown-program-perhaps", text=text, span=effect.span)


def _given(effect: Effect, protected: Protected) -> Match | None:
    """Return what a program that nobody knows is given of what is protected."""
    if effect.operand.known is not None:
        return _here(effect, protected) or next(_named(effect, protected), None)
    for word in effect.arguments:
        if _is_path(word):
            for match in protected.matches(effect, word, whole=True):
                return match
    return None


def _here(effect: Effect, protected: Protected) -> Match | None:
    """Return what holds the directory that the program runs in."""
    for word in effect.directories:
        if (folder := word.known) is not None and (root := protected.lies(folder)[0]) is not None:
            return Match(root, Overlap.WITHIN, sure=True, operand=folder)
    return None


def _named(effect: Effect, protected: Protected) -> Iterator[Match]:
    """Yield what is protected and named in the arguments."""
    folders = [word.known for word in effect.directories]
    near = any(folder is None or protected.lies(folder)[1] for folder in folders)
    for word in effect.arguments[:_MOST_WORDS]:
        known = word.known
        # A name without a slash is looked at where something protected may be beside it.
        named = known is None or (len(known) <= protected.longest and (near or "/" in known))
        if named and _is_path(word):
            # A program of which only the use is not known is not taken to undo what lies below.
            yield from _in(protected.matches(effect, word, whole=True))
        for text in _behind(known, near=near):
            if len(text) <= protected.longest:
                yield from _in(protected.matches(effect, Word(((Text(text),),)), whole=False))


def _in(matches: Iterator[Match]) -> Iterator[Match]:
    return (match for match in matches if match.overlap is not Overlap.CONTAINS)


def _is_path(word: Word) -> bool:
    first = [spelling[0] for spelling in word.spellings if spelling]
    return (
        bool(first)
        and not word.unknown
        and not any(isinstance(piece, Text) and piece.text.startswith("-") for piece in first)
        and not any(isinstance(piece, Hole | Pattern) for piece in first)
    )


def _behind(text: str | None, *, near: bool) -> Iterator[str]:
    """Yield what may be a path in a word: ``--out=PATH``, ``-oPATH``, ``file:PATH``, and whole ones in a text."""
    if text is None:
        return
    if "/" in text:
        yield from (match[0] for match in itertools.islice(_IN_TEXT.finditer(text, 1), _MOST_IN_TEXT))
    if "=" not in text and ":" not in text and not text.startswith("-"):
        return
    if text.startswith("-") and not text.startswith("--") and (near or "/" in text) and len(text) > 2:
        yield text[2:]
    for mark in "=:":
        rest = text.partition(mark)[2]
        if rest and (near or "/" in rest) and not rest.startswith("//"):
            yield rest

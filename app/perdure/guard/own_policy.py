"""What a command may not ask of Perdure itself, and what of its state it may not even be given.

Owns: the command lines of Perdure that answer for the person, grant something, or choose what is asked about, and the
programs that read what they are given. Does not own: what protected roots are (roots), or writing them (judge). Keeps:
guard-own-policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.domain.effect import Act, Effect, Text, Word
from perdure.domain.verdict import Overlap, Reason
from perdure.guard.late import late
from perdure.guard.paths import Protected, show_word
from perdure.guard.patterns import split_text

_OWN_PROGRAMS = late(r"(?:.*/)?(perdure|perdure-pm)(?:\.cmd|\.exe)?")
_PYTHON = late(r"(?:.*/)?(?:python|pypy)[\d.]*t?(?:\.exe)?")
_MODULE = late(r"-[bBdEhiIOPqRsSuvVx]*m(.*)", re.DOTALL)
# What a command may not say to Perdure itself: it would answer for the person, or take away what guards it.
_OWN_VERBS: dict[str, frozenset[str]] = {
    "approvals": frozenset({"approve", "decline", "allow", "revoke", "set", "clear"}),
    "allow": frozenset(),
    "approve": frozenset(),
    "config": frozenset({"set", "unset", "edit", "add", "remove"}),
    "uninstall": frozenset(),
    "gateway": frozenset({"token"}),
}
_OWN_OPTIONS = {"exec": frozenset({"--yolo", "--context", "--jail"})}
"""Options with which a command would choose for itself what it is asked about."""
_NAMES_ONLY = frozenset(
    {"echo", "printf", "cd", "pushd", "test", "[", "[[", "basename", "dirname", ":", "true", "false"}
)
"""Programs that do not read what they are given the name of."""
_CODE = late(
    r"(?:python|pypy)[\d.]*t?|perl|ruby|node|deno|bun|php|lua[\d.]*|luajit|[gmn]?awk|g?sed|sqlite3|psql|mysql|mariadb|duckdb"
    r"|n?vim?|ex|ed|emacs|emacsclient|R|Rscript|julia|tclsh|wish|expect|gdb|gnuplot|osascript|jq|guile|ghci?|scala|groovy|jshell"
)
"""Programs that take code, in which a path need not be a word."""
_MOST_WORDS = 200


def own_policy(effect: Effect) -> Iterator[Reason]:
    """Yield why a command may not be given to Perdure itself."""
    words = _own_words(effect)
    if words is None:
        return
    program, rest = words
    verbs = [word for word in rest if word is not None and not word.startswith("-")]
    if verbs[:1] == ["pm"]:
        verbs = verbs[1:]
    if not verbs:
        return
    narrower = _OWN_VERBS.get(verbs[0])
    chosen = {word.partition("=")[0] for word in _before_command(rest)} & _OWN_OPTIONS.get(verbs[0], frozenset())
    if chosen or (narrower is not None and (not narrower or narrower & set(verbs[1:]))):
        yield Reason(
            code="own-policy",
            text=f"`{' '.join([program, *verbs[:2]])}` is for the person who answers for this run, not for the run",
            span=effect.span,
        )


def _own_words(effect: Effect) -> tuple[str, list[str | None]] | None:
    """Return what Perdure is called and given, where it is what is run: by its launcher, or as a module."""
    name = effect.operand.known or ""
    program = _OWN_PROGRAMS.fullmatch(name)
    if program is None and _PYTHON.fullmatch(name) is None:
        return None
    words = [word.known for word in effect.arguments]
    if program is not None:
        return program[1], words
    skipped = False
    for number, word in enumerate(words):
        if skipped or word in {"-X", "-W"}:  # options with a value
            skipped = not skipped
            continue
        if word is None or not word.startswith("-"):
            return None
        if (found := _MODULE.fullmatch(word)) is not None:
            module = found[1] or (words[number + 1] if number + 1 < len(words) else None) or ""
            own = module.partition(".")[0]
            rest = words[number + (1 if found[1] else 2) :]
            return ("perdure-pm" if own == "perdure_pm" else own, rest) if own in {"perdure", "perdure_pm"} else None
    return None


def _before_command(words: list[str | None]) -> Iterator[str]:
    """Yield the options that are Perdure's own: those before the command that it is to run."""
    verb_seen = False
    for word in words:
        if word is None or word == "--":
            return
        if word.startswith("-"):
            yield word
        elif verb_seen:
            return
        else:
            verb_seen = True


def reads_secret(effect: Effect, protected: Protected, homes: Sequence[str] = ()) -> Iterator[Reason]:
    """Yield that a program would be given what it must not read: what people are asked, and what they answered."""
    secret = protected.secret
    if not secret or effect.act is not Act.RUN or effect.by.rpartition("/")[2] in _NAMES_ONLY:
        return
    prefixes = tuple(root.path for root in secret)
    folders = [known for word in effect.directories if (known := word.known) is not None]
    within = any(folder.startswith(prefixes) for folder in folders)
    bases = (*homes, *folders) if _CODE.fullmatch(effect.by) is not None else None
    for word in effect.arguments[:_MOST_WORDS]:
        if (root := next((root for root in secret if _mentions(word.known, root.path, bases)), None)) is not None:
            text = f"{effect.by} is given {show_word(word)}, with a path of {root.path} ({root.why})"
            yield Reason(code="own-feet", text=text, span=effect.span)
            return
        if not (within or _has_slash(word)) or len(word.known or "") > protected.longest:
            continue
        for match in protected.matches(effect, _value(word), whole=False):
            if match.root.secret and match.sure and match.overlap in {Overlap.IS, Overlap.WITHIN}:
                shown, root = show_word(word), match.root
                place = "" if shown == root.path else f" in {root.path}"
                text = f"{effect.by} is given {shown}{place} ({root.why})"
                yield Reason(code="own-feet", text=text, span=effect.span)
                return


def _mentions(text: str | None, path: str, bases: Sequence[str] | None) -> bool:
    """Return whether a path stands in a word: in an URL, behind an option's letter, in a program's code.

    Args:
        text: the word, where it is known.
        path: the path.
        bases: where a relative path in code may count from; None where the word is no code.
    """
    if text is None or text.startswith("/"):
        return False
    if bases is None:
        return path in text and not any(letter.isspace() for letter in text)
    return path in text or any(
        path.startswith(above := folder.rstrip("/") + "/") and _names(text, path[len(above) :]) for folder in bases
    )


def _names(text: str, path: str) -> bool:
    """Return whether a relative path stands in code, at the beginning of a string or behind a slash."""
    return re.search(rf"""(?<=['"`/]){re.escape(path)}(?=[/'"`])""", text) is not None


def _has_slash(word: Word) -> bool:
    return any("/" in getattr(piece, "text", "") for spelling in word.spellings for piece in spelling)


def _value(word: Word) -> Word:
    """Return what stands behind the name of an option, as in ``if=FILE``; else the word."""
    known = word.known
    if known is not None and "=" in known and not split_text(known.partition("=")[0])[1:]:
        return Word(((Text(known.partition("=")[2]),),))
    return word

"""What rules and grants look at: the commands of an operation, as the guard read them.

Owns: turning a reading into commands, the files that it writes, and the one plain command that a textual grant may
cover. Does not own: reading (guard), or what a rule says (rules). Keeps: approvals-textual-grants: a text of several
commands, with a substitution, or with code that is read again has no plain command.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Act, Effect, Reading, Text, Word
from perdure.domain.operation import Operation
from perdure.domain.record import dataclass
from perdure.domain.verdict import Verdict
from perdure.guard import fast_reader
from perdure.guard.patterns import split, without_dots
from perdure.guard.tree import Literal, Simple

_CHANGES = frozenset({Act.DELETE, Act.EMPTY, Act.MOVE, Act.OVERWRITE, Act.CHANGE})
_OPEN = frozenset("*?[]{}~")
_READ_AGAIN = frozenset({"eval", "source", ".", "exec", "trap", "alias", "xargs", "parallel", "ssh", "watch", "find"})
"""Programs whose arguments are code, or become a command with what is read."""
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|c|tc|fi|a)?sh|pwsh|powershell|cmd|(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|Rscript|tclsh"
    r"|osascript|julia|su|sudo|doas|env|flock|script|busybox)[\d.]*"
)
_CODE_OPTION = re.compile(
    r"-[A-Za-z]*[ceEprSC][A-Za-z]*|--(?:eval|exec|command|print|split-string|run)(?:=.*)?", re.DOTALL
)
"""What stands before code, for any of these programs; that it also fits harmless options only costs a question."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command that would be started, also through others; None stands for a word that cannot be told."""

    words: tuple[str | None, ...]
    folders: tuple[str, ...]
    """The directories that it may be started in, as far as they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An operation as the guard sees it."""

    verdict: Verdict
    commands: tuple[Command, ...] = ()
    changes: tuple[str, ...] = ()
    """What is written, deleted or moved: absolute where that is known, else as it is written."""
    plain: tuple[str, ...] | None = None
    """The words of the operation, where it is one command whose every word stands for itself."""
    key: frozenset[str] = frozenset()
    """What it comes down to, however it is written."""


def judged(operation: Operation, reading: Reading | None, verdict: Verdict) -> Judged:
    """Return what the pipeline needs to know of an operation.

    Args:
        operation: what is to be done.
        reading: what the guard read of its text; None for an operation on files.
        verdict: what the guard says of it.
    """
    if reading is None:
        return Judged(verdict=verdict, changes=operation.paths, key=frozenset({operation.kind.value, *operation.paths}))
    commands = tuple(
        Command(tuple(word.known for word in (effect.operand, *effect.arguments)), _folders(effect))
        for effect in reading.effects
        if effect.act is Act.RUN
    )
    changes = tuple(
        dict.fromkeys(path for effect in reading.effects if effect.act in _CHANGES for path in _paths(effect))
    )
    return Judged(
        verdict=verdict,
        commands=commands,
        changes=changes,
        plain=_plain(operation, commands, reading),
        key=_key(operation, reading),
    )


def _plain(operation: Operation, commands: tuple[Command, ...], reading: Reading) -> tuple[str, ...] | None:
    words = operation.argv or plain_words(operation.script or "")
    if not words or reading.not_analysable:
        return None
    if words[0].rpartition("/")[2] in _READ_AGAIN:
        return None
    for number, word in enumerate(words):
        name = word.rpartition("/")[2].removesuffix(".exe")
        if _INTERPRETERS.fullmatch(name) and any(map(_CODE_OPTION.fullmatch, words[number + 1 :])):
            return None
    # What a wrapper such as `sudo` or `env` starts stands in the words as it is; anything else was read again.
    for command in commands:
        length = len(command.words)
        if length > len(words) or tuple(words[-length:]) != command.words:
            return None
    return words


def plain_words(script: str) -> tuple[str, ...] | None:
    """Return the words of a text that is one command without anything that a shell would expand."""
    tree = fast_reader.parse(script)
    if tree is None or len(tree) != 1 or not isinstance(tree[0], Simple):
        return None
    command = tree[0]
    if command.assignments or command.redirects:
        return None
    words: list[str] = []
    for word in command.words:
        text = ""
        for part in word.parts:
            if not isinstance(part, Literal) or (not part.quoted and _OPEN & set(part.text)):
                return None
            text += part.text
        words.append(text)
    return tuple(words)


def _folders(effect: Effect) -> tuple[str, ...]:
    return tuple(folder for word in effect.directories if (folder := word.known) is not None)


def _paths(effect: Effect) -> list[str]:
    found = []
    for spelling in effect.operand.spellings:
        written = "".join(piece.text if isinstance(piece, Text) else "…" for piece in spelling)
        bases = [base for directory in effect.directories for base in directory.spellings]
        known = [without_dots(split(spelling, base)).text for base in bases]
        found += [path if path is not None else written for path in known] or [written]
    return found


_STEPS = frozenset({"bash", "sh", "dash", "zsh", "eval", "command", "builtin", "exec", "env", "nohup", "nice", "time"})
"""Commands that do nothing but start another one."""


def _key(operation: Operation, reading: Reading) -> frozenset[str]:
    found: set[str] = set()
    acts = False
    for effect in reading.effects:
        if effect.act in _CHANGES or effect.act in {Act.PERMIT, Act.MOUNT}:
            acts = True
            found |= {f"{effect.act.value} {path}" for path in _paths(effect)}
    if not acts:
        for effect in reading.effects:
            if effect.act is Act.RUN and (name := _name(effect.operand)) not in _STEPS:
                words = sorted(part for word in effect.arguments for part in _flags(word.known))
                found.add(" ".join([name, *words]))
    return frozenset(found or {" ".join((operation.script or " ".join(operation.argv)).split())})


def _name(word: Word) -> str:
    return (word.known or "…").rpartition("/")[2]


def _flags(word: str | None) -> list[str]:
    """Return a word, or short options that stand together one by one."""
    if word is None:
        return ["…"]
    if len(word) > 2 and word[0] == "-" and word[1] != "-" and word[1:].isalpha():
        return [f"-{letter}" for letter in word[1:]]
    return [word]

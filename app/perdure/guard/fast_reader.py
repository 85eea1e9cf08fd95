r"""The reader for what most command lines are made of.

Owns: a recursive descent over simple commands, quotes, plain variables, redirects, pipes and lists. Does not own:
anything else of the shell's grammar, which it leaves to the slow reader by answering None.

It consumes the text from the first character to the last and never skips one that it has no rule for, so a tree it
returns accounts for every byte. Whatever could be read in two ways is not its business: reserved words, parentheses,
braces, command substitution, here-documents, ``$'…'``, ``!``, anything that is not printable ASCII, a blank or a
newline (docs/adr/0024 says why this is not a table-driven grammar).
"""

from __future__ import annotations

import re

from perdure.domain.effect import Span
from perdure.guard.late import late
from perdure.guard.tree import (
    Aside,
    Assignment,
    Chain,
    Command,
    Literal,
    Parameter,
    Part,
    Pipe,
    Redirect,
    Script,
    Simple,
    Word,
)

MOST_CHARACTERS = 16_384
MOST_WORDS = 1_000

_READABLE = late(r"[\t\n\x20-\x7e]*")
_REFUSED = late(r"[\w \t<>|&;.,:/+?=@%^~*-]*[<>][ \t]*", re.ASCII)
"""One line without a quotation that ends in a redirect to nothing: every shell refuses it before it runs any of it."""
_BLANKS = late(r"(?:[ \t]+(?:\\\n)*)*")
"""A continued line counts as a blank only behind one: elsewhere it may join two halves of a word or an operator."""
_PLAIN = late(r"[A-Za-z0-9_./,:=@%+\-~*?\[\]^#!]+")
"""Of these, the last ones mean something only at certain places; `_word` looks at them."""
_NAME = late(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = late(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_INDEXED = late(r"[A-Za-z_][A-Za-z0-9_]*\[")
_REDIRECT = late(r"(\d*)(>>|>\||>&|<&|<>|>|<)|(&>>|&>)")
_SIMPLE_DESCRIPTOR = late(r"(?:\d+-?|-)(?=[\s;|&]|$)")
_IN_DOUBLE = late(r'[^"\\$`]+')
_IN_SINGLE = late(r"[^']*")
_COMMENT = late(r"[^\n]*")
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "time",
        "coproc",
        "in",
        "[[",
        "]]",
        "!",
        "declare",
        "typeset",
        "local",
        "export",
        "readonly",
        "let",
    ]
)
"""The slow reader knows these words' grammar; those in the second line may have arrays as arguments."""
_PAIR_OF_BRACES = late(r"\{\}(?=[\s;|&]|$)")


class _NotMineError(Exception):
    """The text holds something that this reader has no rule for."""


def parse(text: str) -> Script | None:
    """Return the tree of a text of which every character is understood, else None.

    A line that no shell runs any part of, such as a key in angle brackets, is an empty script.
    """
    if len(text) > MOST_CHARACTERS or not _READABLE.fullmatch(text):
        return None
    if "<<" not in text and _REFUSED.fullmatch(text):
        return ()
    try:
        return _Reader(text).script()
    except _NotMineError:
        return None


class _Reader:
    """One text and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.words = 0

    def script(self) -> Script:
        """Read all of the text."""
        commands: list[Command] = []
        while True:
            self._skip_lines()
            if self.at == len(self.text):
                return tuple(commands)
            commands.append(self._list())

    def _list(self) -> Command:
        """Read up to and with the next separator."""
        command = self._pipe()
        while self.text.startswith(("&&", "||"), self.at):
            on_success = self.text[self.at] == "&"
            self.at += 2
            self._skip_lines()
            command = Chain(command, self._pipe(), on_success)
        self._comment()
        rest = self.text[self.at : self.at + 2]
        if not rest or rest[0] == "\n":
            return command
        if rest[0] not in ";&" or rest == ";;":
            raise _NotMineError
        self.at += 1
        return Aside(command) if rest[0] == "&" else command

    def _pipe(self) -> Command:
        command: Command = self._simple()
        while self.text.startswith("|", self.at) and not self.text.startswith("||", self.at):
            if self.text.startswith("|&", self.at):
                raise _NotMineError
            self.at += 1
            self._skip_lines()
            command = Pipe(command, self._simple())
        return command

    def _simple(self) -> Simple:
        start = self.at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        end = self.at
        while True:
            redirect = self._redirect()
            if redirect:
                redirects.append(redirect)
            elif not words and (assigned := _ASSIGNMENT.match(self.text, self.at)):
                assignments.append(self._assignment(assigned))
            else:
                word = self._word()
                if word is None:
                    break
                if not words:
                    self._refuse_reserved(word)
                words.append(word)
            end = self.at
            self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # matches the empty text too
        if not (assignments or words or redirects):
            raise _NotMineError
        return Simple(tuple(assignments), tuple(words), tuple(redirects), Span(start, end))

    def _assignment(self, assigned: re.Match[str]) -> Assignment:
        self.at = assigned.end()
        start = self.at
        value = self._word() or Word((), Span(start, start))
        if self.text.startswith("(", self.at):
            raise _NotMineError
        return Assignment(assigned[1], value, append=bool(assigned[2]))

    def _redirect(self) -> Redirect | None:
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            return None
        operator = found[2] or found[3]
        self.at = found.end()
        if self.text.startswith(("<", "("), self.at):  # here-documents, process substitution
            raise _NotMineError
        if operator in {">&", "<&"} and not _SIMPLE_DESCRIPTOR.match(self.text, self.at):
            raise _NotMineError  # `>&FILE` writes FILE, `>&$x` may
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
        target = self._word()
        if target is None:
            raise _NotMineError
        return Redirect(operator, target, found[1] or "")

    def _refuse_reserved(self, word: Word) -> None:
        if not word.parts:
            return
        first = word.parts[0]
        if isinstance(first, Literal) and not first.quoted and (first.text in _RESERVED or _INDEXED.match(first.text)):
            raise _NotMineError

    def _word(self) -> Word | None:
        """Read one word; None where none starts here."""
        start = self.at
        parts: list[Part] = []
        text = self.text
        while self.at < len(text):
            character = text[self.at]
            if character in " \t\n;|&<>":
                break
            if character == "#" and self.at == start:
                break
            self._piece(parts, first=self.at == start)
        if self.at == start:
            return None
        if text[self.at : self.at + 1] in {"<", ">"} and text[start : self.at].isdigit():
            raise _NotMineError  # a descriptor, which `_redirect` has not seen as one
        self.words += 1
        if self.words > MOST_WORDS:
            raise _NotMineError
        return Word(tuple(parts), Span(start, self.at))

    def _piece(self, parts: list[Part], *, first: bool) -> None:
        """Read on in a word: plain characters, one quotation, one escape or one variable."""
        text = self.text
        character = text[self.at]
        if (plain := _PLAIN.match(text, self.at)) is not None:
            _add(parts, Literal(plain[0], quoted=False))
            self.at = plain.end()
        elif character == "'":
            self._single(parts)
        elif character == '"':
            self._double(parts)
        elif character == "\\":
            if self.at + 1 == len(text) or text[self.at + 1] == "\n":
                raise _NotMineError
            _add(parts, Literal(text[self.at + 1], quoted=True))
            self.at += 2
        elif character == "$":
            parts.append(self._variable(quoted=False))
        elif first and _PAIR_OF_BRACES.match(text, self.at):
            _add(parts, Literal("{}", quoted=False))
            self.at += 2
        else:
            raise _NotMineError

    def _single(self, parts: list[Part]) -> None:
        inside = _IN_SINGLE.match(self.text, self.at + 1)
        if inside is None or inside.end() == len(self.text):
            raise _NotMineError
        _add(parts, Literal(inside[0], quoted=True))
        self.at = inside.end() + 1

    def _double(self, parts: list[Part]) -> None:
        self.at += 1
        _add(parts, Literal("", quoted=True))
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if not following or following == "\n":
                    raise _NotMineError
                _add(parts, Literal(following if following in '$`"\\' else f"\\{following}", quoted=True))
                self.at += 2
            elif character == "$":
                following = self.text[self.at + 1 : self.at + 2]
                if following in ' "\t\n.,:;/)]%=+':
                    _add(parts, Literal("$", quoted=True))
                    self.at += 1
                else:
                    parts.append(self._variable(quoted=True))
            elif (run := _IN_DOUBLE.match(self.text, self.at)) is not None:
                _add(parts, Literal(run[0], quoted=True))
                self.at = run.end()
            else:
                raise _NotMineError
        raise _NotMineError

    def _variable(self, *, quoted: bool) -> Parameter:
        rest = self.at + 1
        if self.text.startswith("{", rest):
            name = _NAME.match(self.text, rest + 1)
            if name is None or not self.text.startswith("}", name.end()):
                raise _NotMineError
            self.at = name.end() + 1
            return Parameter(name[0], quoted)
        if (name := _NAME.match(self.text, rest)) is not None:
            self.at = name.end()
            return Parameter(name[0], quoted)
        special = self.text[rest : rest + 1]
        if special and special in "0123456789?$!@*#-":
            self.at = rest + 1
            return Parameter(special, quoted)
        raise _NotMineError

    def _skip_lines(self) -> None:
        """Go to where the next command starts, over blanks, newlines and comments."""
        while True:
            self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
            self._comment()
            if not self.text.startswith("\n", self.at):
                return
            self.at += 1

    def _comment(self) -> None:
        """Skip a comment. Only called where a word could start."""
        if self.text.startswith("#", self.at):
            self.at = _COMMENT.match(self.text, self.at).end()  # type: ignore[union-attr]


def _add(parts: list[Part], literal: Literal) -> None:
    """Append a literal, joined to the one before where both are quoted alike."""
    if parts and isinstance(last := parts[-1], Literal) and last.quoted == literal.quoted:
        parts[-1] = Literal(last.text + literal.text, literal.quoted)
    else:
        parts.append(literal)

"""The reader of cmd.exe: from a text to its commands.

Owns: carets, quotes, operators, parentheses, redirects, `if`, `for`, comments and labels. Does not own: what `%X%`
stands for and what a command does (cmd_shell). It skips no character: what it does not know ends it with an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from perdure.domain.record import dataclass
from perdure.guard.late import late
from perdure.guard.tree import NOWHERE, UnreadableError

LONGEST = 128 * 1024
LONGEST_COMMAND = 8191
QUOTE = "\uf8fe"
"""A quote that a caret took its meaning from."""
_DEEPEST = 40
_PLAIN = late(r'[^\^"&|<>()\n]+')
_BLANKS = late(r"[ \t,;=]*")
_WORD = late(r"[A-Za-z]+")
_NOTED = late(r"[\ue000-\uf8ff]")
_CONDITIONS = frozenset({"exist", "defined", "errorlevel", "cmdextversion"})


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where output goes or input comes from; the target as it is written."""

    operator: str
    target: str
    descriptor: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A command line without operators; quotes are still in it."""

    text: str
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Both:
    """Two commands and the operator between them: ``|``, ``&&`` or ``||``."""

    left: Node
    operator: str
    right: Node


@dataclass(frozen=True, slots=True)
class Group:
    """Commands in parentheses."""

    body: tuple[Node, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    """``if``; the condition is not decided."""

    condition: str
    then: Node
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class For:
    """``for``, by its switch: one of ``d``, ``r``, ``l``, ``f`` or nothing."""

    kind: str
    option: str
    name: str
    items: str
    body: Node


Node: TypeAlias = Run | Both | Group | If | For


def parse(text: str, step: Callable[[], None]) -> tuple[tuple[Node, ...], ...]:
    """Return the commands of each line; what stands in parentheses is one line.

    Raises:
        UnreadableError: The text is not understood.
    """
    if len(text) > LONGEST:
        raise UnreadableError("it is longer than is read", NOWHERE)
    if _NOTED.search(text) or "\0" in text or "\x1a" in text:
        raise UnreadableError("it holds characters that have a meaning here only", NOWHERE)
    return _Reader(text.replace("\r\n", "\n").replace("\r", ""), step).lines()


class _Reader:
    def __init__(self, text: str, step: Callable[[], None]) -> None:
        self._text = text
        self._at = 0
        self._depth = self._parentheses = 0
        self._step = step

    def lines(self) -> tuple[tuple[Node, ...], ...]:
        found: list[tuple[Node, ...]] = []
        while self._at < len(self._text):
            if self._text[self._at] == "\n":
                self._at += 1
                continue
            found.append(self._body(line=True))
        return tuple(line for line in found if line)

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _blanks(self) -> None:
        while True:
            if found := _BLANKS.match(self._text, self._at):
                self._at = found.end()
            if self._peek(2) != "^\n":
                return
            self._at += 2

    def _body(self, *, line: bool) -> tuple[Node, ...]:
        found: list[Node] = []
        while True:
            self._blanks()
            character = self._peek()
            if not character:
                if not line:
                    raise UnreadableError("a parenthesis is never closed", NOWHERE)
                return tuple(found)
            if character == "\n":
                if line:
                    return tuple(found)
                self._at += 1
            elif character == "&" and self._peek(2) != "&&":
                self._at += 1
            elif character == ")":
                self._at += 1
                if not line:
                    return tuple(found)
                self._comment()  # nothing that follows a parenthesis too many is run
            else:
                node = self._or()
                if node is not None:
                    found.append(node)

    def _or(self) -> Node | None:
        node = self._and()
        while self._operator("||"):
            node = _both(node, "||", self._and())
        return node

    def _and(self) -> Node | None:
        node = self._pipe()
        while self._operator("&&"):
            node = _both(node, "&&", self._pipe())
        return node

    def _pipe(self) -> Node | None:
        node = self._command()
        while self._peek(2) != "||" and self._operator("|"):
            node = _both(node, "|", self._command())
        return node

    def _operator(self, operator: str) -> bool:
        self._blanks()
        if self._peek(len(operator)) != operator:
            return False
        self._at += len(operator)
        return True

    def _command(self) -> Node | None:
        self._step()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableError("it is nested too deep", NOWHERE)
        try:
            return self._one()
        finally:
            self._depth -= 1

    def _one(self) -> Node | None:
        self._blanks()
        while self._peek() == "@":
            self._at += 1
            self._blanks()
        character = self._peek()
        if character == "(":
            self._at += 1
            self._parentheses += 1
            body = self._body(line=False)
            self._parentheses -= 1
            redirects: list[Redirect] = []
            self._blanks()
            while (found := re.compile(r"(\d?)(>>|>|<)").match(self._text, self._at)) is not None:
                self._at = found.end()
                redirects.append(Redirect(found[2], self._target(), found[1]))
                self._blanks()
            return Group(body, tuple(redirects))
        if character == ":":
            self._comment()
            return None
        word = _WORD.match(self._text, self._at)
        end = word.end() if word is not None else 0
        after = self._text[end : end + 1]
        name = word[0].lower() if word is not None and (not after or after in ' \t\n,;=&|<>()"/:^') else ""
        if name == "rem":
            self._at = end
            self._blanks()
            if self._peek() not in {"&", "|"}:
                self._comment()
            return None
        if name == "if" and after:
            self._at = end
            return self._if()
        if name == "for" and after:
            start, self._at = self._at, end
            found_for = self._for()
            if found_for is not None:
                return found_for
            self._at = start
        return self._run()

    def _comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _run(self) -> Node | None:
        made: list[str] = []
        redirects: list[Redirect] = []
        while (character := self._peek()) and character not in "&|\n":
            if character == ")" and self._parentheses:
                break
            self._step()
            if character in "<>":
                redirects.append(self._redirect(made))
            else:
                made.append(self._piece())
        text = "".join(made).lstrip(" \t,;=").rstrip(" \t")
        if len(text) > LONGEST_COMMAND:
            raise UnreadableError("a command is longer than cmd runs one", NOWHERE)
        return Run(text, tuple(redirects)) if text or redirects else None

    def _piece(self) -> str:
        """Return the next characters that mean themselves."""
        if plain := _PLAIN.match(self._text, self._at):
            self._at = plain.end()
            return plain[0]
        character = self._peek()
        if character == '"':
            return self._quoted()
        self._at += 1
        if character != "^":
            return character
        following = self._peek()
        self._at += 1
        if following == "\n":  # the line goes on, and its first character has no meaning
            following = self._peek()
            self._at += 1
            return following if following != '"' else QUOTE
        return QUOTE if following == '"' else following

    def _quoted(self) -> str:
        line = self._text.find("\n", self._at)
        line = len(self._text) if line < 0 else line
        end = self._text.find('"', self._at + 1, line)
        end = line if end < 0 else end + 1
        found, self._at = self._text[self._at : end], end
        return found

    def _redirect(self, made: list[str]) -> Redirect:
        found = re.compile(r">>|>|<").match(self._text, self._at)
        operator = found[0] if found else ">"
        self._at += len(operator)
        descriptor = ""
        before = "".join(made)
        if digit := re.search(r"(?:^|(?<=[\s,;=]))\d$", before):
            descriptor = digit[0]
            made[:] = [before[: digit.start()]]
        target = self._target()
        made.append(" ")
        return Redirect(operator, target, descriptor)

    def _target(self) -> str:
        if found := re.compile(r"&\d").match(self._text, self._at):
            self._at = found.end()
            return found[0]
        self._blanks()
        made = ""
        while (character := self._peek()) and character not in " \t,;=&|<>\n" and character != ")":
            if character == '"':
                made += self._quoted()
            elif character == "^":
                made += self._piece()
            else:
                made += character
                self._at += 1
        if not made:
            raise UnreadableError("a redirect leads nowhere", NOWHERE)
        return made

    def _token(self) -> str:
        self._blanks_only()
        made = ""
        while (character := self._peek()) and character not in " \t\n&|<>" and self._peek(2) != "==":
            if character == '"':
                made += self._quoted()
            elif character == "^":
                made += self._piece()
            elif character == "(" and not made:
                break
            else:
                made += character
                self._at += 1
        return made

    def _blanks_only(self) -> None:
        while self._peek() in {" ", "\t"} or self._peek(2) == "^\n":
            self._at += 2 if self._peek() == "^" else 1

    def _if(self) -> Node | None:
        words: list[str] = []
        token = self._token()
        while token.lower() in {"/i", "not"}:
            words.append(token)
            token = self._token()
        words.append(token)
        if token.lower() in _CONDITIONS:
            words.append(self._token())
        else:
            self._blanks_only()
            if self._peek(2) == "==":
                self._at += 2
                words += ["==", self._token()]
            else:
                words += [self._token(), self._token()]
                if words[-2].lower() not in {"equ", "neq", "lss", "leq", "gtr", "geq"}:
                    raise UnreadableError("the condition of an `if` is not understood", NOWHERE)
        then = self._command() or Group(())
        otherwise: Node | None = None
        if isinstance(then, Group):
            self._blanks()
            word = _WORD.match(self._text, self._at)
            if word is not None and word[0].lower() == "else":
                self._at = word.end()
                otherwise = self._command()
        return If(" ".join(words), then, otherwise)

    def _for(self) -> Node | None:
        kind = option = ""
        self._blanks()
        while switch := re.compile(r"/([A-Za-z])").match(self._text, self._at):
            self._at = switch.end()
            kind = switch[1].lower()
            if kind not in "drlf":
                raise UnreadableError(f"`for /{kind}` is not known", NOWHERE)
            self._blanks()
            if kind in "rf" and self._peek() not in {"%", "/"}:
                option = self._token()
                self._blanks()
        name = re.compile(r"%%?([^\s%])").match(self._text, self._at)
        if name is None:
            return None  # `for` without a variable is a program's name, or a fault that runs nothing
        self._at = name.end()
        self._blanks()
        if self._peek(2).lower() != "in":
            raise UnreadableError("a `for` without `in`", NOWHERE)
        self._at += 2
        self._blanks()
        if self._peek() != "(":
            raise UnreadableError("a `for` without a list", NOWHERE)
        self._at += 1
        made: list[str] = []
        depth = 0
        while (character := self._peek()) != ")" or depth:
            if not character:
                raise UnreadableError("the list of a `for` is never closed", NOWHERE)
            depth += (character == "(") - (character == ")")
            if character in "&|<>\n":
                made.append(character)
                self._at += 1
            else:
                made.append(self._piece())
        self._at += 1
        self._blanks()
        if self._peek(2).lower() != "do":
            raise UnreadableError("a `for` without `do`", NOWHERE)
        self._at += 2
        body = self._command()
        return For(kind, option, name[1], "".join(made), body or Group(()))


def _both(left: Node | None, operator: str, right: Node | None) -> Node:
    return Both(left or Group(()), operator, right or Group(()))

"""The reader of PowerShell's expressions: words, strings, variables, operators, members.

Owns: the grammar inside a statement. Does not own: statements, pipelines and blocks (powershell_reader). It skips no
character: what it does not know ends it with an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.guard.late import late
from perdure.guard.powershell_tree import (
    Binary,
    Block,
    Index,
    Inner,
    Kind,
    Member,
    Node,
    Option,
    Quoted,
    Table,
    Unary,
    Variable,
)
from perdure.guard.tree import NOWHERE, UnreadableError

_DEEPEST = 25
_LONGEST_PATH = 64
_BLANK = late(r"(?:[ \t\u00a0\u0085\f\v]|`\r?\n|<#.*?#>)+", re.DOTALL)
LINES = late(r"(?:[ \t\u00a0\u0085\f\v\r\n;]|`\r?\n|<#.*?#>|#[^\n]*)+", re.DOTALL)
LINES_ONLY = late(r"(?:[ \t\u00a0\u0085\f\v\r\n]|`\r?\n|<#.*?#>|#[^\n]*)+", re.DOTALL)
_NAME = late(r"(?:[A-Za-z_][\w]*:(?!:))?(?:\w+|[?^$])|\{(?:[^}`]|`.)+\}")
WORD = late(r"[A-Za-z_][\w-]*")
NUMBER = late(r"(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[dDlL]?(?:[kKmMgGtTpP][bB])?(?![\w])")
_OPERATOR = late(
    r"-(?:[ic]?(?:eq|ne|gt|ge|lt|le|like|notlike|match|notmatch|contains|notcontains|in|notin|replace|split)"
    r"|f|join|and|or|xor|band|bor|bxor|shl|shr|is|isnot|as)(?![\w-])|\.\.|[-+*/%](?!=)|,|\?\?(?!=)",
    re.IGNORECASE,
)
UNARY = late(r"-(?:not|bnot|split|join|isplit|csplit)(?![\w-])|!|\+\+|--|[-+](?=[\s\d($])|,", re.IGNORECASE)
TYPE = late(r"\[\s*([A-Za-z_][\w.+`]*(?:\[[\w., \[\]]*\])?(?:\s*\([^)\]]*\))?)\s*\]")
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SCOPES = ("global:", "local:", "script:", "private:", "using:", "variable:")
_BARE_END = frozenset(" \t\r\n|;&(){},\"'`$<>\u00a0")


class Expressions:
    """Reads expressions, words and strings; what stands in parentheses is the statements' reader's."""

    def __init__(self, text: str, step: Callable[[], None], *, depth: int = 0) -> None:
        """Begin to read a text; `step` counts the work."""
        self._text = text
        self._at = 0
        self._depth = depth
        self._step = step

    @property
    def ended(self) -> bool:
        """Whether everything was read."""
        return self._at >= len(self._text)

    def fault(self, reason: str) -> UnreadableError:
        """Return that something here is not understood."""
        near = self._text[self._at : self._at + 20].split("\n")[0]
        return UnreadableError(f"{reason}, at `{near}`" if near else reason, NOWHERE)

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _skip(self, pattern: re.Pattern[str] = _BLANK) -> bool:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found is not None

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self.fault(f"`{text}` is missing")

    def _deeper(self) -> None:
        self._step()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableError("it is nested too deep", NOWHERE)

    def statements(self) -> tuple[Node, ...]:
        """Return the statements up to what closes them."""
        raise NotImplementedError

    def _statement(self) -> Node:
        raise NotImplementedError

    def _block(self) -> Block:
        raise NotImplementedError

    def _argument(self) -> Node:
        self._step()
        if option := re.compile(r"-([A-Za-z_?][\w-]*)(:)?").match(self._text, self._at):
            after = self._text[option.end() : option.end() + 1]
            if option[2] or not after or after in " \t\r\n|;&(){},":
                self._at = option.end()
                value = None
                if option[2]:
                    self._skip()
                    value = self._list()
                return Option("-" + option[1].lower(), value)
        return self._list()

    def _list(self) -> Node:
        item = self._item()
        while True:
            before = self._at
            self._skip()
            if not self._take(","):
                self._at = before
                return item
            self._skip(LINES_ONLY)
            item = Binary(",", item, self._item())

    def _item(self) -> Node:
        character = self._peek()
        if character in {"(", "{"} or (character == "@" and self._peek(2) in {"@(", "@{", "@'", '@"'}):
            return self._postfix(self._primary())
        if character == "@" and _NAME.match(self._text, self._at + 1):
            self._at += 1
            name = self._variable()
            return Variable(name.name, splat=True)
        if character in {"$", '"', "'"}:
            start = self._at
            item = self._postfix(self._primary())
            if self.ended or self._peek() in " \t\r\n|;&(){},<>\u00a0":
                return item
            if isinstance(item, Variable | Quoted | Inner):
                self._at = start
        return self._word()

    def _word(self) -> Node:
        """Return a bare word, which may hold variables and strings."""
        parts: list[str | Node] = []
        start = self._at
        bare = True
        while not self.ended:
            self._step()
            character = self._peek()
            if character == "$":
                found = self._dollar()
                parts.append(found)
            elif character in {'"', "'"}:
                quoted = self._string()
                bare = bare and self._at > start
                parts += quoted.parts
            elif character == "`":
                following = self._text[self._at + 1 : self._at + 2]
                if following in {"\n", ""}:
                    break
                parts.append(following)
                self._at += 2
            elif character == "{" and self._at > start and self._peek(2) != "{ ":
                raise self.fault("a brace in a word is not understood")
            elif character in _BARE_END:
                break
            else:
                end = self._at + 1
                while end < len(self._text) and self._text[end] not in _BARE_END:
                    end += 1
                parts.append(self._text[self._at : end])
                self._at = end
        if self._at == start:
            raise self.fault("this is not understood")
        return Quoted(tuple(parts), bare=True)

    # Expressions.

    def _expression(self) -> Node:
        self._deeper()
        left = self._commas()
        while True:
            before = self._at
            self._skip()
            operator = _OPERATOR.match(self._text, self._at)
            if operator is None:
                self._at = before
                break
            self._at = operator.end()
            self._skip(LINES_ONLY)
            left = Binary(operator[0].lower(), left, self._commas())
        self._depth -= 1
        return left

    def _commas(self) -> Node:
        """Return a list, which binds tighter than any operator with two operands."""
        left = self._unary()
        while True:
            before = self._at
            self._skip()
            if not self._take(","):
                self._at = before
                return left
            self._skip(LINES_ONLY)
            left = Binary(",", left, self._unary())

    def _unary(self) -> Node:
        self._skip()
        if cast := TYPE.match(self._text, self._at):
            following = self._text[cast.end() : cast.end() + 2]
            if following != "::":
                self._at = cast.end()
                self._skip()
                if self.ended or self._peek() in ")};|,\n\r" or following.startswith("."):
                    return self._postfix(Kind(type_name(cast[1])))
                return Unary(type_name(cast[1]), self._unary())
        if found := UNARY.match(self._text, self._at):
            self._at = found.end()
            return Unary(found[0].lower(), self._unary())
        return self._postfix(self._primary())

    def _primary(self) -> Node:
        self._step()
        character = self._peek()
        if character == "$":
            return self._dollar()
        if character in {'"', "'"}:
            return self._string()
        if character == "(":
            self._at += 1
            self._deeper()
            body = self.statements()
            self._expect(")")
            self._depth -= 1
            return Inner(body)
        if character == "{":
            return self._block()
        if character == "@":
            return self._at_sign()
        if found := TYPE.match(self._text, self._at):
            self._at = found.end()
            return Kind(type_name(found[1]))
        if number := NUMBER.match(self._text, self._at):
            self._at = number.end()
            return Quoted((number[0],))
        raise self.fault("this is not understood")

    def _at_sign(self) -> Node:
        following = self._peek(2)
        if following == "@(":
            self._at += 2
            self._deeper()
            body = self.statements()
            self._expect(")")
            self._depth -= 1
            return Inner(body)
        if following == "@{":
            self._at += 2
            return self._table()
        if found := re.compile(r"@(['\"])[ \t]*\r?\n").match(self._text, self._at):
            closing = re.compile(r"\n" + found[1] + "@").search(self._text, found.end() - 1)
            if closing is None:
                raise self.fault("a here-string is never closed")
            inner = self._text[found.end() : max(closing.start(), found.end())].removesuffix("\r")
            self._at = closing.end()
            return Quoted((inner,)) if found[1] == "'" else self._expandable(inner)
        if _NAME.match(self._text, self._at + 1):
            self._at += 1
            return Variable(self._variable().name, splat=True)
        raise self.fault("this is not understood")

    def _table(self) -> Node:
        self._deeper()
        items: list[tuple[str, Node]] = []
        while True:
            self._skip(LINES)
            if self._take("}"):
                self._depth -= 1
                return Table(tuple(items))
            if word := WORD.match(self._text, self._at):
                self._at = word.end()
                key: Node = Quoted((word[0],))
            else:
                key = self._primary()
            self._skip(LINES_ONLY)
            self._expect("=")
            self._skip(LINES_ONLY)
            name = "".join(part for part in key.parts if isinstance(part, str)) if isinstance(key, Quoted) else ""
            items.append((name.lower(), self._statement()))

    def _postfix(self, node: Node) -> Node:
        for _ in range(_LONGEST_PATH):
            if self._peek(2) == "::":
                self._at += 2
                node = self._member(node, static=True)
            elif self._peek() == "." and re.compile(r"\.[\w$'\"({]").match(self._text, self._at):
                self._at += 1
                node = self._member(node, static=False)
            elif self._peek(2) in {"?.", "?["} and isinstance(node, Variable):
                self._at += 1
            elif self._peek() == "[":
                self._at += 1
                self._skip(LINES_ONLY)
                index = self._expression()
                self._skip(LINES_ONLY)
                self._expect("]")
                node = Index(node, index)
            elif self._peek(2) in {"++", "--"} and isinstance(node, Variable):
                self._at += 2
            else:
                return node
            self._step()
        raise self.fault("too many members behind one another")

    def _member(self, node: Node, *, static: bool) -> Node:
        word = re.compile(r"\w+").match(self._text, self._at)
        if word is not None:
            self._at = word.end()
            name: Node = Quoted((word[0].lower(),))
        else:
            name = self._primary()
        if self._peek() != "(":
            return Member(node, name, None, static)
        self._at += 1
        self._deeper()
        arguments: list[Node] = []
        while True:
            self._skip(LINES_ONLY)
            if self._take(")"):
                break
            if self._take(","):
                continue
            arguments.append(self._operand())
        self._depth -= 1
        return Member(node, name, tuple(arguments), static)

    def _operand(self) -> Node:
        """Return an argument of a method: an expression without a comma of its own."""
        left = self._unary()
        while True:
            self._skip(LINES_ONLY)
            operator = _OPERATOR.match(self._text, self._at)
            if operator is None or operator[0] == ",":
                return left
            self._at = operator.end()
            self._skip(LINES_ONLY)
            left = Binary(operator[0].lower(), left, self._unary())

    def _dollar(self) -> Node:
        if self._peek(2) == "$(":
            self._at += 2
            self._deeper()
            body = self.statements()
            self._expect(")")
            self._depth -= 1
            return Inner(body)
        self._at += 1
        if not _NAME.match(self._text, self._at):
            return Quoted(("$",))
        return self._variable()

    def _variable(self) -> Variable:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self.fault("a variable without a name")
        self._at = found.end()
        name = found[0].strip("{}").lower()
        for scope in _SCOPES:
            name = name.removeprefix(scope)
        return Variable(name)

    def _string(self) -> Quoted:
        quote = self._peek()
        at = self._at + 1
        while True:
            end = self._text.find(quote, at)
            if quote == '"':
                end = self._closing(at)
            if end < 0:
                raise self.fault("a string is never closed")
            if self._text[end + 1 : end + 2] == quote:
                at = end + 2
                continue
            break
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        if quote == "'":
            return Quoted((inner.replace("''", "'"),))
        return self._expandable(inner)

    def _closing(self, at: int) -> int:
        """Return where a string in double quotes ends: one in a subexpression is not this one's end."""
        depth = 0
        text = self._text
        while at < len(text):
            character = text[at]
            if character == "`":
                at += 1
            elif text.startswith("$(", at):
                depth += 1
                at += 1
            elif depth and character == "(":
                depth += 1
            elif depth and character == ")":
                depth -= 1
            elif depth and character in {"'", '"'}:
                end = text.find(character, at + 1)
                at = end if end >= 0 else len(text)
            elif character == '"':
                return at
            at += 1
        return -1

    def _expandable(self, inner: str) -> Quoted:
        if "$" not in inner and "`" not in inner:
            return Quoted((inner.replace('""', '"'),))
        reader = type(self)(inner, self._step, depth=self._depth)
        return Quoted(reader.expanded())

    def expanded(self) -> tuple[str | Node, ...]:
        """Return the parts of the whole text as that of a string in double quotes."""
        parts: list[str | Node] = []
        while not self.ended:
            character = self._peek()
            if character == "$":
                parts.append(self._dollar())
            elif character == "`":
                if code := re.compile(r"`u\{([0-9a-fA-F]{1,6})\}").match(self._text, self._at):
                    parts.append(chr(int(code[1], 16)) if int(code[1], 16) < 0x110000 else "")
                    self._at = code.end()
                    continue
                following = self._peek(2)[1:]
                parts.append(_ESCAPES.get(following, following) if following != "\n" else "")
                self._at += 2
            else:
                ends = (at for mark in "$`" if (at := self._text.find(mark, self._at)) >= 0)
                end = min(ends, default=len(self._text))
                parts.append(self._text[self._at : end].replace('""', '"'))
                self._at = end
        return tuple(parts)


def type_name(text: str) -> str:
    """Return a type's name in lower case, without blanks and `System.`."""
    return re.sub(r"\s", "", text).lower().removeprefix("system.")

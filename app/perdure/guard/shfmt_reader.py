"""The reader for all of the shell's grammar: mvdan/sh, as the `shfmt` program.

Owns: the bounds in which that program is used, and what its JSON says as our tree. Does not own: which texts come here.

It runs as a child process that is given the text and nothing else. Its output for a few thousand words is many
megabytes, so the text, the output and the time are bounded; beyond a bound the text is unreadable, and so is every
node that is not known here. The quirks of it that differ from bash are refused too: it takes a carriage return for a
blank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.domain.effect import Span
from perdure.guard import continued_comments, quoting
from perdure.guard.late import late
from perdure.guard.tree import (
    NOWHERE,
    Aside,
    Assignment,
    Branch,
    Case,
    Chain,
    Channel,
    Command,
    Declaration,
    Expression,
    ExtendedPattern,
    ForEach,
    Function,
    Group,
    Literal,
    Loop,
    Negation,
    Number,
    Output,
    Parameter,
    Part,
    Pipe,
    Redirect,
    Redirected,
    Script,
    Simple,
    UnreadableError,
    Word,
)

if TYPE_CHECKING:
    from subprocess import Popen

MOST_BYTES = 16_384
MOST_OUTPUT = 1_500_000
_CHUNK = 65_536
_UNREADABLE = late(r"[^\t\n\x1b\x20-\x7e\x80-\U0010ffff]|[\x80-\x9f]")
_NAME = late(r"[A-Za-z_][A-Za-z0-9_]*")


def program() -> str:
    """Return where the wheel put the program."""
    import sysconfig

    return os.path.join(sysconfig.get_path("scripts"), "shfmt.exe" if os.name == "nt" else "shfmt")


def parse(text: str, *, seconds: float, posix: bool = False) -> Script:
    """Return the tree of a text.

    Raises:
        UnreadableError: It is not a script, has a character that readers disagree on, or takes too long or too much.
    """
    data = text.encode("utf-8", "surrogatepass")
    everything = Span(0, len(data))
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"it is longer than {MOST_BYTES} bytes", everything)
    if odd := _UNREADABLE.search(text):
        start = len(text[: odd.start()].encode("utf-8", "surrogatepass"))
        raise UnreadableError(f"it holds the control character {odd[0]!r}", Span(start, start + 1))
    import json
    import time

    deadline = time.monotonic() + seconds

    def read(written: bytes) -> object:
        return json.loads(_run(written, deadline - time.monotonic(), posix=posix))

    found = continued_comments.settled(data, read) if b"\\\n" in data and b"#" in data else read(data)
    return _Builder().script(_Node(found).nodes("Stmts"))


def _run(data: bytes, seconds: float, *, posix: bool) -> bytes:
    """Return what the program prints for the text, within the bounds."""
    import subprocess
    import threading

    everything = Span(0, len(data))
    command = [program(), "--to-json", "-ln", "posix" if posix else "bash"]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}, close_fds=True
        )
    except OSError as error:
        raise UnreadableError(f"the reader for such texts cannot be started ({error.strerror})", everything) from error
    overdue = threading.Event()

    def stop() -> None:
        overdue.set()
        child.kill()

    timer = threading.Timer(seconds, stop)
    timer.start()
    with child:
        try:
            output = _exchange(child, data)
        finally:
            timer.cancel()
            child.kill()
        problem = child.stderr.read(400).decode(errors="replace").strip() if child.stderr else ""
    if overdue.is_set():
        raise UnreadableError("it takes too long to read", everything)
    if len(output) > MOST_OUTPUT:
        raise UnreadableError("it has too many parts", everything)
    if problem or not output:
        raise UnreadableError(f"it is no complete script ({problem.partition(': ')[2] or 'no answer'})", everything)
    return output


def _exchange(child: Popen[bytes], data: bytes) -> bytes:
    """Hand over the text and collect the answer up to its bound. The text fits into a pipe, so this cannot block."""
    if child.stdin is None or child.stdout is None:
        return b""
    try:
        child.stdin.write(data)
        child.stdin.close()
    except OSError:  # it ended early, and says why on stderr
        pass
    chunks: list[bytes] = []
    size = 0
    while size <= MOST_OUTPUT and (chunk := child.stdout.read(_CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


class _Node:
    """One object of the JSON."""

    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        if not isinstance(data, dict):
            raise UnreadableError("the reader's answer has an unknown form", NOWHERE)
        self.data: dict[str, object] = data

    @property
    def kind(self) -> str:
        return self.text("Type")

    @property
    def span(self) -> Span:
        return Span(_offset(self.data.get("Pos")), _offset(self.data.get("End")))

    def text(self, key: str) -> str:
        value = self.data.get(key, "")
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        return bool(self.data.get(key))

    def node(self, key: str) -> _Node | None:
        value = self.data.get(key)
        return None if value is None else _Node(value)

    def need(self, key: str) -> _Node:
        return _Node(self.data.get(key))

    def nodes(self, key: str) -> Iterable[_Node]:
        value = self.data.get(key)
        return [_Node(item) for item in value] if isinstance(value, list) else ()

    def only(self, *keys: str) -> None:
        """Refuse the node when it holds more than these keys, positions apart."""
        extra = {key for key in self.data if not key.endswith(("Pos", "End"))} - {
            "Type",
            "Position",
            "Dollar",
            "Rbrace",
            *keys,
        }
        if extra:
            raise UnreadableError(f"the reader's answer has unknown parts ({', '.join(sorted(extra))})", self.span)


def _offset(position: object) -> int:
    offset = position.get("Offset") if isinstance(position, dict) else None
    return offset if isinstance(offset, int) else 0


class _Builder:
    """Turns nodes into our tree; a kind without a method makes the whole text unreadable."""

    def script(self, statements: Iterable[_Node]) -> Script:
        return tuple(self._statement(node) for node in statements)

    def _statement(self, node: _Node) -> Command:
        node.only("Comments", "Cmd", "Redirs", "Negated", "Background", "Coprocess", "Semicolon")
        redirects = tuple(self._redirect(item) for item in node.nodes("Redirs"))
        inner = node.node("Cmd")
        if inner is None:
            end = max((redirect.target.span.end for redirect in redirects), default=node.span.end)
            command: Command = Simple((), (), redirects, Span(node.span.start, end))
        elif inner.kind == "CallExpr":
            command = Simple(
                tuple(self._assignment(item) for item in inner.nodes("Assigns")),
                tuple(self._word(item) for item in inner.nodes("Args")),
                redirects,
                Span(node.span.start, _end_of(node, inner, redirects)),
            )
        elif inner.kind == "DeclClause":
            keyword = inner.need("Variant").text("Value")
            items = tuple(self._item(item) for item in inner.nodes("Args"))
            command = Declaration(keyword, items, redirects, node.span)
        else:
            build = self._COMPOUND.get(inner.kind)
            if build is None:
                raise UnreadableError(f"it holds a construct that is not known here ({inner.kind})", node.span)
            command = build(self, inner)
            if redirects:
                command = Redirected(command, redirects, node.span)
        if node.flag("Negated"):
            command = Negation(command)
        return Aside(command) if node.flag("Background") or node.flag("Coprocess") else command

    def _binary(self, node: _Node) -> Command:
        left, right = self._statement(node.need("X")), self._statement(node.need("Y"))
        operator = node.text("Op")
        if operator in {"|", "|&"}:
            return Pipe(left, right)
        if operator in {"&&", "||"}:
            return Chain(left, right, operator == "&&")
        raise UnreadableError(f"it holds an operator that is not known here ({operator})", node.span)

    def _block(self, node: _Node) -> Command:
        return Group(self.script(node.nodes("Stmts")), subshell=node.kind == "Subshell")

    def _if(self, node: _Node) -> Command:
        arms: list[tuple[Script, Script]] = []
        current: _Node | None = node
        while current is not None and "Cond" in current.data:
            arms.append((self.script(current.nodes("Cond")), self.script(current.nodes("Then"))))
            current = current.node("Else")
        return Branch(tuple(arms), self.script(current.nodes("Then")) if current is not None else ())

    def _while(self, node: _Node) -> Command:
        return Loop(self.script(node.nodes("Cond")), self.script(node.nodes("Do")))

    def _for(self, node: _Node) -> Command:
        loop = node.need("Loop")
        body = self.script(node.nodes("Do"))
        if loop.kind == "WordIter":
            listed = "Items" in loop.data or "InPos" in loop.data
            words = tuple(self._word(item) for item in loop.nodes("Items")) if listed else None
            return ForEach(loop.need("Name").text("Value"), words, body)
        return Loop((self._expression(loop),), body)

    def _case(self, node: _Node) -> Command:
        arms = []
        for item in node.nodes("Items"):
            patterns = tuple(self._word(pattern) for pattern in item.nodes("Patterns"))
            arms.append((patterns, self.script(item.nodes("Stmts")), item.text("Op") != ";;"))
        return Case(self._word(node.need("Word")), tuple(arms))

    def _function(self, node: _Node) -> Command:
        names = [name.text("Value") for name in node.nodes("Names")] or [node.need("Name").text("Value")]
        if len(names) != 1:
            raise UnreadableError("it defines a function with several names", node.span)
        return Function(names[0], self._statement(node.need("Body")))

    def _expression(self, node: _Node) -> Command:
        """Return all words of an expression, in whatever structure, and the names it assigns to."""
        words: list[Word] = []
        assigned: list[str] = []

        def walk(value: object) -> None:
            if isinstance(value, list):
                for item in value:
                    walk(item)
            elif isinstance(value, dict):
                inner = _Node(value)
                if inner.kind == "Word" or "Parts" in value:
                    words.append(self._word(inner))
                    return
                if inner.kind in {"BinaryArithm", "UnaryArithm"} and _assigns(inner.text("Op")):
                    target = "".join(part.text("Value") for part in inner.need("X").nodes("Parts"))
                    assigned.append(target)
                for item in value.values():
                    walk(item)

        walk(node.data)
        return Expression(tuple(words), tuple(assigned))

    def _time(self, node: _Node) -> Command:
        inner = node.node("Stmt")
        command = self._statement(inner) if inner is not None else Group((), subshell=False)
        if isinstance(command, Simple) and command.words and command.words[0].parts == (Literal("--", quoted=False),):
            return replace(command, words=command.words[1:])  # bash takes it as the end of the keyword's options
        return command

    def _coproc(self, node: _Node) -> Command:
        return Aside(self._statement(node.need("Stmt")))

    _COMPOUND: dict[str, Callable[[_Builder, _Node], Command]] = {  # noqa: RUF012  # never changed
        "BinaryCmd": _binary,
        "Block": _block,
        "Subshell": _block,
        "IfClause": _if,
        "WhileClause": _while,
        "ForClause": _for,
        "CaseClause": _case,
        "FuncDecl": _function,
        "TestClause": _expression,
        "ArithmCmd": _expression,
        "LetClause": _expression,
        "TimeClause": _time,
        "CoprocClause": _coproc,
    }

    def _item(self, node: _Node) -> Assignment | Word:
        if node.flag("Naked") and "Name" not in node.data:
            return self._word(node.need("Value"))
        return self._assignment(node)

    def _assignment(self, node: _Node) -> Assignment:
        node.only("Append", "Naked", "Name", "Index", "Value", "Array")
        value, array, index = node.node("Value"), node.node("Array"), node.node("Index")
        elements = None
        if array is not None:
            elements = tuple((self._index(item.node("Index")), self._optional(item)) for item in array.nodes("Elems"))
        if value is None and not node.flag("Naked"):
            word: Word | None = Word((), Span(node.span.end, node.span.end))
        else:
            word = self._word(value) if value is not None else None
        name = node.need("Name").text("Value")
        if not _NAME.fullmatch(name):  # to bash that is a word like any other
            raise UnreadableError(f"it has an assignment to {name!r}, which is no name", node.span)
        return Assignment(name, word, node.flag("Append"), self._index(index), elements)

    def _optional(self, node: _Node) -> Word:
        value = node.node("Value")
        return self._word(value) if value is not None else Word((), node.span)

    def _index(self, node: _Node | None) -> Word | None:
        if node is None:
            return None
        if node.kind == "Word":
            return self._word(node)
        expression = self._expression(node)
        return Word((Number(expression.words if isinstance(expression, Expression) else (), quoted=True),), node.span)

    def _redirect(self, node: _Node) -> Redirect:
        node.only("Op", "N", "Word", "Hdoc")
        descriptor = node.node("N")
        operator = node.text("Op")
        target = self._word(node.need("Word"))
        document = node.node("Hdoc")
        text = None
        if operator in {"<<", "<<-"}:
            text = Word((), node.span) if document is None else self._document(document, target, tabs=operator == "<<-")
        return Redirect(operator, target, descriptor.text("Value") if descriptor else "", text)

    def _document(self, node: _Node, delimiter: Word, *, tabs: bool) -> Word:
        literal = any(isinstance(part, Literal) and part.quoted for part in delimiter.parts)
        parts: list[Part] = []
        line_starts = True
        for item in node.nodes("Parts"):
            if item.kind == "Lit":
                raw = item.text("Value")
                if tabs:
                    raw = re.sub(r"(?:\A|(?<=\n))\t+" if line_starts else r"(?<=\n)\t+", "", raw)
                line_starts = raw.endswith("\n")
                parts.append(Literal(raw if literal else quoting.unescape(raw, "$`\\"), quoted=True))
            else:
                line_starts = False
                parts.append(self._part(item, quoted=True))
        return Word(tuple(quoting.joined(parts)), node.span)

    def _word(self, node: _Node) -> Word:
        node.only("Parts")
        parts: list[Part] = []
        for item in node.nodes("Parts"):
            self._parts(item, parts, quoted=False)
        return Word(tuple(quoting.joined(parts)), node.span)

    def _parts(self, node: _Node, parts: list[Part], *, quoted: bool) -> None:
        if node.kind == "DblQuoted":
            parts.append(Literal("", quoted=True))
            for item in node.nodes("Parts"):
                self._parts(item, parts, quoted=True)
        elif node.kind == "SglQuoted":
            raw = node.text("Value")
            parts.append(Literal(quoting.ansi(raw) if node.flag("Dollar") else raw, quoted=True))
        elif node.kind == "Lit":
            raw = node.text("Value")
            if quoted:
                parts.append(Literal(quoting.unescape(raw, '$`"\\'), quoted=True))
            else:
                parts.extend(quoting.unquoted(raw))
        else:
            parts.append(self._part(node, quoted=quoted))

    def _part(self, node: _Node, *, quoted: bool) -> Part:
        if node.kind == "ParamExp":
            return self._parameter(node, quoted=quoted)
        if node.kind == "CmdSubst":
            if node.flag("TempFile") or node.flag("ReplyVar"):
                raise UnreadableError("it holds a substitution that is not known here", node.span)
            return Output(self.script(node.nodes("Stmts")), quoted)
        if node.kind == "ProcSubst":
            return Channel(self.script(node.nodes("Stmts")), node.text("Op") == "<(")
        if node.kind == "ArithmExp":
            expression = self._expression(node)
            return Number(expression.words if isinstance(expression, Expression) else (), quoted)
        if node.kind == "ExtGlob":
            return ExtendedPattern(node.text("Op") + node.need("Pattern").text("Value") + ")")
        raise UnreadableError(f"it holds a construct that is not known here ({node.kind})", node.span)

    def _parameter(self, node: _Node, *, quoted: bool) -> Parameter:
        node.only(*_PARAMETER_KEYS)
        name = node.need("Param").text("Value")
        indirect = node.flag("Excl")
        index = self._index(node.node("Index"))
        operator, arguments = "", []
        if node.flag("Length"):
            operator = "length"
        elif node.text("Names") or (indirect and index is not None):
            operator = "names"
        elif (change := node.node("Exp")) is not None:
            operator = change.text("Op")
            # The quotes around the whole do not reach into a pattern.
            inside = quoted and operator.lstrip(":") in {"-", "=", "?", "+"}
            arguments = [self._inner(change.node("Word"), quoted=inside)]
        elif (replace := node.node("Repl")) is not None:
            operator = "//" if replace.flag("All") else "/"
            arguments = [self._inner(replace.node(key), quoted=False) for key in ("Orig", "With")]
        elif (part := node.node("Slice")) is not None:
            operator = ":"
            arguments = [word for key in ("Offset", "Length") if (word := self._index(part.node(key))) is not None]
        return Parameter(name, quoted, operator, tuple(arguments), index, indirect)

    def _inner(self, node: _Node | None, *, quoted: bool) -> Word:
        """Return a word inside `${…}`, which is in quotes where the whole is."""
        parts: list[Part] = []
        for item in node.nodes("Parts") if node is not None else ():
            self._parts(item, parts, quoted=quoted)
        return Word(tuple(quoting.joined(parts)), node.span if node is not None else NOWHERE)


_PARAMETER_KEYS = (
    "Dollar", "Rbrace", "Short", "Param", "Length", "Excl", "Index", "Exp", "Repl", "Slice", "Names",
)  # fmt: skip


def _assigns(operator: str) -> bool:
    return operator in {"++", "--"} or (operator.endswith("=") and operator not in {"==", "!=", "<=", ">="})


def _end_of(node: _Node, inner: _Node, redirects: tuple[Redirect, ...]) -> int:
    """Return where a simple command ends, without the separator behind it."""
    return max([inner.span.end, *(redirect.target.span.end for redirect in redirects)], default=node.span.end)

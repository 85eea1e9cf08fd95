"""The reader of PowerShell: from a text to its tree.

Owns: the grammar of statements, pipelines, commands and blocks. Does not own: expressions (powershell_expressions),
what anything does (powershell). It skips no character: what it does not know ends it with an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.guard.late import late
from perdure.guard.powershell_expressions import LINES, LINES_ONLY, NUMBER, TYPE, UNARY, WORD, Expressions
from perdure.guard.powershell_tree import (
    Assign,
    Binary,
    Block,
    Branches,
    Chain,
    Command,
    Function,
    Inner,
    Loop,
    Node,
    Pipeline,
    Quoted,
    Variable,
)
from perdure.guard.tree import NOWHERE, UnreadableError

LONGEST = 128 * 1024
_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        **dict.fromkeys("\u2013\u2014\u2015", "-"),
    }
)
"""Quotes and dashes of typography, which PowerShell takes for plain ones."""
_ASSIGN = late(r"(?:[-+*/%]|\?\?)?=(?!=)")
_REDIRECT = late(r"([*1-6]?)(>>|>)(&[12])?|<")
_EXPRESSION_START = frozenset("$\"'(@[{!,")
_STATEMENTS = frozenset(
    [
        "if",
        "foreach",
        "for",
        "while",
        "do",
        "switch",
        "try",
        "function",
        "filter",
        "param",
        "trap",
        "begin",
        "process",
        "end",
    ]
)
_FLOW = frozenset(["return", "throw", "exit", "break", "continue"])
_REFUSED = frozenset(
    [
        "class",
        "enum",
        "data",
        "configuration",
        "workflow",
        "using",
        "dynamicparam",
        "parallel",
        "sequence",
        "inlinescript",
    ]
)


def parse(text: str, step: Callable[[], None]) -> tuple[Node, ...]:
    """Return the statements of a text.

    Raises:
        UnreadableError: The text is not understood.
    """
    if len(text) > LONGEST:
        raise UnreadableError("it is longer than is read", NOWHERE)
    if "\0" in text:
        raise UnreadableError("it holds a NUL character", NOWHERE)
    reader = _Reader(text.translate(_SAME), step)
    body = reader.statements()
    if not reader.ended:
        raise reader.fault("something is closed that was never opened")
    return body


class _Reader(Expressions):
    # Statements.

    def statements(self) -> tuple[Node, ...]:
        """Return the statements up to what closes them."""
        found: list[Node] = []
        while True:
            self._skip(LINES)
            if self.ended or self._peek() in ")}":
                return tuple(found)
            found.append(self._statement())
            self._skip()
            if self._peek() == "#":
                continue
            if self._peek() not in "\n\r;)}" and self._text[self._at - 1] != "}":
                raise self.fault("what follows is not understood")

    def _body(self) -> tuple[Node, ...]:
        self._skip(LINES_ONLY)
        self._expect("{")
        self._deeper()
        body = self.statements()
        self._expect("}")
        self._depth -= 1
        return body

    def _statement(self) -> Node:
        self._step()
        if label := re.compile(r":\w+[ \t]+(?=foreach|for|while|do|switch)", re.IGNORECASE).match(self._text, self._at):
            self._at = label.end()
        word = WORD.match(self._text, self._at)
        name = word[0].lower() if word is not None else ""
        if word is not None:
            after = self._text[word.end() : word.end() + 1]
            if name in _STATEMENTS and (not after or after in " \t\r\n({:"):
                start, self._at = self._at, word.end()
                found = self._keyword(name)
                if found is not None:
                    return found
                self._at = start
            elif name in _FLOW and (not after or after in " \t\r\n;})$(\"'"):
                self._at = word.end()
                self._skip()
                if self.ended or self._peek() in "\n\r;)}#":
                    return Pipeline(())
                return self._statement()
            elif name in _REFUSED and after in " \t{":
                raise self.fault(f"`{name}` is not read")
        return self._chain()

    def _keyword(self, name: str) -> Node | None:  # noqa: C901, PLR0912  # one branch for each keyword
        if name == "if":
            conditions, bodies = [self._condition()], [self._body()]
            while self._follows("elseif"):
                conditions.append(self._condition())
                bodies.append(self._body())
            if self._follows("else"):
                bodies.append(self._body())
            return Branches(tuple(conditions), tuple(bodies))
        if name in {"while", "do"}:
            if name == "do":
                body = self._body()
                if not (self._follows("while") or self._follows("until")):
                    raise self.fault("a `do` without `while`")
                return Loop("", None, (self._condition(),), body)
            return Loop("", None, (self._condition(),), self._body())
        if name == "for":
            self._skip(LINES_ONLY)
            self._expect("(")
            parts = self.statements()
            self._expect(")")
            return Loop("", None, parts, self._body())
        if name == "foreach":
            return self._foreach()
        if name == "switch":
            return self._switch()
        if name == "try":
            return self._try()
        if name in {"function", "filter"}:
            self._skip()
            named = re.compile(r"[^\s({]+").match(self._text, self._at)
            if named is None:
                raise self.fault("a function without a name")
            self._at = named.end()
            self._skip(LINES_ONLY)
            parameters = self._parameters() if self._peek() == "(" else ()
            block = self._block()
            called = named[0].lower().rpartition(":")[2]
            return Function(called, Block(block.body, parameters or block.parameters))
        if name == "param":
            self._skip(LINES_ONLY)
            self._parameters()
            return Pipeline(())
        if name == "trap":
            self._skip(LINES_ONLY)
            self._skip(TYPE)
            return Branches((), (self._body(),))
        self._skip(LINES_ONLY)  # begin, process, end
        if self._peek() != "{":
            return None
        return Inner(self._body())

    def _follows(self, keyword: str) -> bool:
        start = self._at
        self._skip(LINES_ONLY)
        word = WORD.match(self._text, self._at)
        if word is not None and word[0].lower() == keyword:
            self._at = word.end()
            return True
        self._at = start
        return False

    def _condition(self) -> Node:
        self._skip(LINES_ONLY)
        self._expect("(")
        self._deeper()
        body = self.statements()
        self._expect(")")
        self._depth -= 1
        return Inner(body)

    def _foreach(self) -> Node | None:
        self._skip(LINES_ONLY)
        if self._peek() != "(":
            return None  # the alias of ForEach-Object
        self._at += 1
        self._skip(LINES_ONLY)
        variable = self._primary()
        self._skip(LINES_ONLY)
        if not isinstance(variable, Variable) or not self._follows("in"):
            raise self.fault("a `foreach` without `in`")
        self._skip(LINES_ONLY)
        items = Inner(self.statements())
        self._expect(")")
        return Loop(variable.name, items, (), self._body())

    def _switch(self) -> Node:
        self._skip(LINES_ONLY)
        while option := re.compile(r"-\w+\s*").match(self._text, self._at):
            self._at = option.end()
            if option[0].strip().lower() == "-file":
                raise self.fault("`switch -File` is not read")
        condition = self._condition()
        self._skip(LINES_ONLY)
        self._expect("{")
        bodies: list[tuple[Node, ...]] = []
        conditions: list[Node] = [condition]
        while True:
            self._skip(LINES)
            if self._take("}"):
                return Branches(tuple(conditions), tuple(bodies))
            conditions.append(self._argument())
            bodies.append(self._body())

    def _try(self) -> Node:
        body = self._body()
        bodies = []
        while self._follows("catch"):
            self._skip(LINES_ONLY)
            while self._skip(TYPE):
                self._skip(LINES_ONLY)
                self._take(",")
                self._skip(LINES_ONLY)
            bodies.append(self._body())
        last = self._body() if self._follows("finally") else ()
        return Inner((Inner(body), Branches((), tuple(bodies)), Inner(last)))

    def _parameters(self) -> tuple[str, ...]:
        """Return the names in a list of parameters; their defaults are not followed."""
        self._expect("(")
        names: list[str] = []
        while True:
            self._skip(LINES_ONLY)
            if self._take(")"):
                return tuple(names)
            if self._take(","):
                continue
            if self._skip(TYPE) or self._skip(re.compile(r"\[\w+\([^\[\]]*?\)\]")):
                continue
            variable = self._primary()
            if not isinstance(variable, Variable):
                raise self.fault("a parameter is not understood")
            names.append(variable.name)
            self._skip(LINES_ONLY)
            if self._take("="):
                raise self.fault("a parameter with a default is not read")

    def _block(self) -> Block:
        self._skip(LINES_ONLY)
        self._expect("{")
        self._deeper()
        self._skip(LINES)
        parameters: tuple[str, ...] = ()
        if found := re.compile(r"param\s*(?=\()", re.IGNORECASE).match(self._text, self._at):
            self._at = found.end()
            parameters = self._parameters()
        body = self.statements()
        self._expect("}")
        self._depth -= 1
        return Block(body, parameters)

    # Pipelines.

    def _chain(self) -> Node:
        left = self._pipeline()
        while True:
            self._skip()
            if self._peek(2) in {"&&", "||"}:
                self._at += 2
                self._skip(LINES_ONLY)
                left = Chain(left, self._pipeline())
            elif self._peek() == "&":
                self._at += 1  # in the background
                return left
            else:
                return left

    def _pipeline(self) -> Node:
        elements = [self._element(first=True)]
        if isinstance(elements[0], Assign):
            return elements[0]
        while True:
            before = self._at
            self._skip(LINES_ONLY)  # a line that begins with a pipe goes on
            if self._peek() != "|" or self._peek(2) == "||":
                self._at = before
                return elements[0] if len(elements) == 1 else Pipeline(tuple(elements))
            self._at += 1
            self._skip(LINES_ONLY)
            elements.append(self._element(first=False))

    def _element(self, *, first: bool) -> Node:
        self._step()
        self._skip()
        character = self._peek()
        if character in {"&", "."} and not re.compile(r"\.\d").match(self._text, self._at):
            following = self._peek(2)[1:]
            if character == "&" or following in {" ", "\t", "$", "'", '"', "(", "{"}:
                self._at += 1
                self._skip()
                return self._command(call=character)
        if character and (character in _EXPRESSION_START or character.isdigit() or UNARY.match(self._text, self._at)):
            if character.isdigit() and not NUMBER.match(self._text, self._at):
                return self._command(call="")
            if first and (assigned := self._assignment()) is not None:
                return assigned
            expression = self._expression()
            redirects = self._redirects()
            return Command(expression, (), "=", redirects) if redirects else expression
        return self._command(call="")

    def _assignment(self) -> Node | None:
        start = self._at
        if self._peek() not in {"$", "[", "("}:
            return None
        try:
            target = self._target()
        except UnreadableError:
            self._at = start
            return None
        self._skip()
        found = _ASSIGN.match(self._text, self._at)
        if found is None:
            self._at = start
            return None
        self._at = found.end()
        self._skip(LINES_ONLY)
        return Assign(target, found[0], self._statement())

    def _target(self) -> Node:
        while found := TYPE.match(self._text, self._at):
            self._at = found.end()
            self._skip()
            if self._peek(2) == "::":
                raise self.fault("not an assignment")
        target = self._postfix(self._primary())
        self._skip()
        while self._take(","):
            self._skip()
            target = Binary(",", target, self._postfix(self._primary()))
            self._skip()
        return target

    def _command(self, *, call: str) -> Node:
        head = (
            self._word() if not (call and self._peek() in {"$", "(", "{", '"', "'"}) else self._postfix(self._primary())
        )
        arguments: list[Node] = []
        redirects: list[tuple[str, Node]] = []
        while True:
            self._skip()
            if self.ended or self._peek() in "\n\r;|)}" or self._peek() == "&":
                break
            if self._peek() == "#":
                self._skip(re.compile(r"#[^\n]*"))
                break
            if found := self._redirects():
                redirects += found
                continue
            if self._take("--%"):
                end = re.compile(r"[^\n|]*").match(self._text, self._at)
                words = end[0].split() if end is not None else []
                arguments += [Quoted((word.replace('"', ""),)) for word in words]
                self._at = end.end() if end is not None else self._at
                continue
            arguments.append(self._argument())
        return Command(head, tuple(arguments), call, tuple(redirects))

    def _redirects(self) -> tuple[tuple[str, Node], ...]:
        found: list[tuple[str, Node]] = []
        while True:
            self._skip()
            redirect = _REDIRECT.match(self._text, self._at)
            if redirect is None:
                return tuple(found)
            if redirect[0] == "<":
                raise self.fault("`<` is not known")
            self._at = redirect.end()
            if redirect[3]:
                continue
            self._skip()
            found.append((redirect[1] + redirect[2], self._argument()))

"""The little languages of `sed` and `awk`: what a program in one does besides reading and printing.

Owns: finding the files that such a program writes and the commands that it runs, and where its text stands on the
command line. Does not own: what follows from them. A program that does something which its text does not spell out is
not settled, and one that is not understood is not either: classification asks about both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from perdure.domain.record import dataclass, field
from perdure.guard import values, verbs
from perdure.guard.late import late
from perdure.guard.values import Value


@dataclass(slots=True)
class Deeds:
    """What a program does besides reading and printing."""

    written: list[str] = field(default_factory=list)
    """Files that it writes."""
    run: list[str] = field(default_factory=list)
    """Commands that it gives to a shell."""
    settled: bool = True
    """Whether that is all."""

    @property
    def none(self) -> bool:
        """Whether it only reads and prints."""
        return self.settled and not self.written and not self.run


@dataclass(frozen=True, slots=True)
class _Language:
    reader: Callable[[str, Mapping[str, Sequence[str]]], Deeds]
    valued: frozenset[str]
    code: frozenset[str]
    files: frozenset[str]
    """Options that name a file with a program, or do something that no program says."""
    ordered: bool
    variables: frozenset[str] = frozenset()
    """Options that give a variable."""


def programs(name: str, words: list[Value]) -> tuple[list[Value] | None, list[Value], verbs.Arguments]:
    """Return the programs on a command line, the operands behind them, and all its arguments.

    None stands for a program that is in a file, or steered by an option that the text of the program does not tell of.
    """
    language = _LANGUAGES[name]
    arguments = verbs.split(words, language.valued, ordered=language.ordered)
    codes = arguments.values(language.code)
    if arguments.has(language.files) or arguments.open:
        return None, arguments.operands, arguments
    if arguments.has(language.code):
        return codes, arguments.operands, arguments
    return arguments.operands[:1], arguments.operands[1:], arguments


def assigned(name: str, files: Sequence[Value], arguments: verbs.Arguments) -> dict[str, list[str]]:
    """Return the variables that a command line gives to its programs, with what they may be."""
    found: dict[str, list[str]] = {}
    for word in (*arguments.values(_LANGUAGES[name].variables), *files):
        variable, equals, text = (values.known(word) or "").partition("=")
        if equals and variable.isidentifier():
            found.setdefault(variable, []).append(text)
    return found


def deeds(name: str, code: str, given: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Deeds:
    """Return what one program does where it is given these variables."""
    return _LANGUAGES[name].reader(code, given)


def only_prints(name: str, words: list[Value]) -> bool:
    """Return whether a command line of the program only reads and prints, its options for writing in place apart."""
    codes, _, _ = programs(name, words)
    return codes is not None and all(
        (text := values.known(code)) is not None and deeds(name, text).none for code in codes
    )


_ADDRESS = late(r"(?:\d+(?:~\d+)?|\$|[+~]\d+)")
_PLAIN = frozenset("dDgGhHnNpPxzF=")
_TO_LINE_END = late(r"[^\n]*")


def _sed(code: str, _: Mapping[str, Sequence[str]]) -> Deeds:  # noqa: C901, PLR0912  # one branch for each form that a command has
    """Read a program of `sed`, command by command."""
    result = Deeds()
    at = 0
    while at < len(code):
        letter = code[at]
        if letter in " \t\n;{},!":
            at += 1
        elif (match := _ADDRESS.match(code, at)) is not None:
            at = match.end()
        elif letter in "/\\":
            delimiter = at if letter == "/" else at + 1
            end = _delimited(code, delimiter)
            if end is None:
                return _unsettled(result)
            at = end
            while code[at : at + 1] in {"I", "M"}:
                at += 1
        elif letter in "sy":
            first = _delimited(code, at + 1)
            second = _delimited(code, first - 1) if first is not None else None
            if second is None:
                return _unsettled(result)
            at = second
            while letter == "s" and code[at : at + 1] and code[at] in "gpiImM0123456789":
                at += 1
            if letter == "s" and code[at : at + 1] == "e":  # what comes out of it is run
                return _unsettled(result)
            if letter == "s" and code[at : at + 1] == "w":
                at = _line(code, at + 1, result.written)
        elif letter in "wWe":
            at = _line(code, at + 1, result.run if letter == "e" else result.written)
        elif letter in "aicrR#:btTqQlLv":
            # What stands behind these is text, a name, a number, or a file that is read.
            lasts = letter in "aicrR#"
            match = _TO_LINE_END.match(code, at + 1) if lasts else re.compile(r"[^\n;}]*").match(code, at + 1)
            at = match.end() if match is not None else at + 1
            while letter in "aic" and at < len(code) and _continued(code, at):
                match = _TO_LINE_END.match(code, at + 1)
                at = match.end() if match is not None else len(code)
        elif letter in _PLAIN:
            at += 1
        else:
            return _unsettled(result)
    if "" in result.run:  # `e` alone runs what was read
        return _unsettled(result)
    return result


def _continued(code: str, end: int) -> bool:
    """Return whether a line goes on behind its end: it ends in a backslash that no other one takes away."""
    start = code.rfind("\n", 0, end) + 1
    line = code[start:end]
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unsettled(result: Deeds) -> Deeds:
    result.settled = False
    return result


def _delimited(code: str, at: int) -> int | None:
    """Return the place behind the next delimiter of the kind that stands at a place; None where that is not sure."""
    delimiter = code[at : at + 1]
    if not delimiter or delimiter in "\n\\":
        return None
    place = at + 1
    while place < len(code):
        if code[place] == "\\":
            place += 2
        elif code[place] == delimiter:
            return place + 1
        elif code[place] == "[" and (end := code.find("]", place + 2)) > 0 and delimiter in code[place:end]:
            return None  # where a set holds the delimiter, one `sed` ends there and another does not
        else:
            place += 1
    return None


def _line(code: str, at: int, into: list[str]) -> int:
    match = _TO_LINE_END.match(code, at)
    end = match.end() if match is not None else at
    into.append(code[at:end].strip())
    return end


_TOKEN = late(
    r"""(?P<blank>[ \t\r]+|\\\r?\n|\#[^\n]*)|(?P<end>[\n;{}])|(?P<string>"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d[\w.]*)|(?P<append>>>)|(?P<or>\|\||&&|[<>=!]=|\+\+|--|\|&)"""
    r"""|(?P<sign>[-+*%^!<>|?:~$,()\[\]=])""",
    re.DOTALL,
)
_REGEX = late(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n/]|\\.)*\])*/")
_WORDS = frozenset({"print", "printf", "return", "in", "else", "do", "case", "delete", "exit", "getline"})
_PRINTS = frozenset({"print", "printf"})
_TEXT_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "/": "/"}


def _awk(code: str, given: Mapping[str, Sequence[str]]) -> Deeds:
    """Read a program of `awk`, token by token."""
    tokens = _tokens(code)
    result = Deeds()
    if tokens is None:
        return _unsettled(result)
    printing, depth = False, 0
    for number, (kind, text) in enumerate(tokens):
        if kind == "end":
            if text != "\n" or not _goes_on(tokens, number):
                printing, depth = False, 0
        elif text in "()[]" and kind == "sign":
            depth += 1 if text in "([" else -1
        elif kind == "name" and text in _PRINTS:
            printing, depth = True, 0
        elif kind == "name" and text == "system":
            _target(tokens, number + 2, result.run, result, given, ends=(")",))
        elif text in {"|", "|&"}:
            if tokens[number + 1 : number + 2] == [("name", "getline")]:
                before = tokens[number - 1] if number else ("", "")
                alone = number < 2 or tokens[number - 2][0] == "end" or tokens[number - 2][1] == "("
                _literal(before if alone else ("", ""), result.run, result, given)
            else:
                _target(tokens, number + 1, result.run, result, given)
        elif printing and depth <= 0 and (text == ">" or kind == "append"):
            _target(tokens, number + 1, result.written, result, given)
    return result


def _tokens(code: str) -> list[tuple[str, str]] | None:
    """Return the words and signs of a program; None where it has anything else, or loads code."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(code):
        if code[at] == "/":
            kind, text = found[-1] if found else ("", "")
            divides = kind in {"number", "string"} or text in {")", "]", "$", "++", "--"}
            divides = divides or (kind == "name" and text not in _WORDS)
            match = None if divides else _REGEX.match(code, at)
            if match is None and not divides:
                return None
            found.append(("sign", "/") if match is None else ("regex", match[0]))
            at = at + 1 if match is None else match.end()
            continue
        match = _TOKEN.match(code, at)
        if match is None or match.lastgroup is None:
            return None
        if match.lastgroup != "blank":
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


def _goes_on(tokens: list[tuple[str, str]], newline: int) -> bool:
    """Return whether a statement goes on behind a newline: something stands before it that needs another operand."""
    kind, text = tokens[newline - 1] if newline else ("end", "")
    return kind in {"sign", "or"} and text not in {")", "]", "++", "--"}


def _target(
    tokens: list[tuple[str, str]],
    at: int,
    into: list[str],
    result: Deeds,
    given: Mapping[str, Sequence[str]],
    *,
    ends: tuple[str, ...] = (),
) -> None:
    """Note a literal that stands alone at a place; anything else there is not spelled out."""
    after = tokens[at + 1] if at + 1 < len(tokens) else ("end", "")
    alone = after[1] in ends if ends else after[0] == "end"
    _literal(tokens[at] if alone and at < len(tokens) else ("", ""), into, result, given)


def _literal(token: tuple[str, str], into: list[str], result: Deeds, given: Mapping[str, Sequence[str]]) -> None:
    kind, text = token
    plain = re.sub(r"\\(.)", lambda match: _TEXT_ESCAPES.get(match[1], "\0"), text[1:-1])
    if kind == "string" and "\0" not in plain:
        into.append(plain)
        return
    result.settled = False
    if kind == "name":  # the program may give it something else
        into.extend(given.get(text, ()))


_SED = _Language(
    reader=_sed,
    valued=frozenset(["-e", "--expression", "-f", "--file", "-l", "--line-length", "-i=", "--in-place=", "-I"]),
    code=frozenset({"-e", "--expression"}),
    files=frozenset({"-f", "--file"}),
    ordered=False,
)
_AWK = _Language(
    reader=_awk,
    valued=frozenset(
        [
            "-F",
            "-v",
            "-f",
            "-e",
            "-E",
            "-i",
            "-l",
            "-W",
            "-d=",
            "-o=",
            "-p=",
            "-D=",
            "-L=",
            "--source",
            "--file",
            "--assign",
            "--field-separator",
            "--exec",
            "--include",
            "--load",
        ]
    ),
    code=frozenset({"-e", "--source"}),
    # gawk writes what it knows of the program where -d, -o and -p say, and loads code with -i and -l.
    files=frozenset(
        [
            "-f",
            "--file",
            "-E",
            "--exec",
            "-i",
            "--include",
            "-l",
            "--load",
            "-W",
            "-d",
            "--dump-variables",
            "-o",
            "--pretty-print",
            "-p",
            "--profile",
            "-D",
            "--debug",
        ]
    ),
    ordered=True,
    variables=frozenset({"-v", "--assign"}),
)
_LANGUAGES = {"sed": _SED, "gsed": _SED} | dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK)
NAMES = tuple(_LANGUAGES)

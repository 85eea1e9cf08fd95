"""The table of programs: how their options go, and what they do to their operands.

Owns: reading `verbs.toml`, splitting a command's arguments into options and operands, and applying the rules of the
table. Does not own: programs whose arguments are a language of their own (those have a function each).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from perdure.domain.effect import Act, Certainty, Hole, Text
from perdure.domain.record import dataclass, field
from perdure.guard import found, values
from perdure.guard.inner_commands import Inner, inner_of
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that a program does to some of its operands."""

    act: Act
    on: str
    """``all``, ``first``, ``last``, ``rest``, ``sources``, ``destination``, ``option``, ``into``,
    ``below`` (all, or where it runs), ``rest-below``, ``listed`` (what it reads from stdin) or ``path``."""
    options: frozenset[str]
    """For ``option``: whose values are meant."""
    path: str
    """For ``path``: a fixed operand."""
    first: re.Pattern[str] | None
    """What the first operand must be, where there is one."""
    when: frozenset[str]
    """Options of which one must be given, where there are any."""
    unless: frozenset[str]
    """Options of which none may be given."""
    recursive: bool
    recursive_when: frozenset[str]
    through_link: bool
    only_below: bool
    spares_ignored: bool
    spared: frozenset[str]
    """Options whose values name what is left alone."""
    names: frozenset[str]
    """Options whose values are the names that alone are meant."""
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A program whose operands are a command."""

    skip: int
    """How many operands stand before the command."""
    assignments: bool
    """Whether ``NAME=value`` may stand before the command."""
    directory: frozenset[str]
    """Options whose value is where the command runs."""
    code: frozenset[str]
    """Options whose value is code for a shell."""
    joined: bool
    """Whether the operands are joined to code for a shell."""
    scans: bool
    """Whether the command is wherever a word names a program: what stands before it has a form of its own."""
    permutes: bool
    """Whether its options may stand behind its operands."""
    certainty: Certainty
    """How sure it is that what the command does, it does to the files that its words name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A program, or a subcommand of one."""

    valued: frozenset[str]
    """Options that take a value; one with ``=`` at the end only in the same word."""
    rules: tuple[Rule, ...]
    wraps: Wrapper | None
    subcommands: Mapping[str, Verb]
    directory: frozenset[str]
    """Options whose value is where it works."""
    ordered: bool
    """Whether the first operand ends the options."""
    refuses_dots: bool
    """Whether it leaves operands alone that end in ``.`` or ``..``."""
    inner: Inner | None
    """Its own commands, where it has any."""
    refuses_directories: bool
    """Whether it leaves directories alone where it is not recursive."""
    runs: frozenset[str]
    """Options whose value is a command for a shell."""
    beside: bool
    """Whether the program has a function of its own too, beside which this says what else it does."""
    separator: str
    """What ends one command of its own and begins another, as a word or at the end of one."""


@dataclass(slots=True)
class Arguments:
    """A command's arguments, apart."""

    options: list[tuple[str, Value | None]] = field(default_factory=list)
    operands: list[Value] = field(default_factory=list)
    open: bool = False
    """Whether a word that is not known may be any option."""
    letters: bool = False
    """Whether an option has letters that are not known."""

    def option_beside(self, operand: Value) -> bool:
        """Return whether another word than the operand may be any option."""
        return self.letters or (
            self.open and any(other is not operand and _begins_open(other) for other in self.operands)
        )

    def has(self, names: frozenset[str]) -> bool:
        """Return whether one of the options is given; a long one also by its beginning."""
        return any(_meant(given, names) for given, _ in self.options)

    def values(self, names: frozenset[str]) -> list[Value]:
        """Return the values of the options."""
        return [value for given, value in self.options if value is not None and _meant(given, names)]


def _begins_open(word: Value) -> bool:
    return any(pieces and isinstance(pieces[0], Hole) for pieces in word)


def _meant(given: str, names: frozenset[str]) -> bool:
    return given in names or (
        len(given) > 2 and given.startswith("--") and any(name.startswith(given) for name in names)
    )


def split(words: list[Value], valued: frozenset[str], *, ordered: bool = False) -> Arguments:
    """Return a command's arguments apart, as getopt does: short options may stand together, values may be joined."""
    result = Arguments()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = values.known(word)
        if text is None and any(pieces and pieces[0] in _DASHES for pieces in word):
            result.open = result.letters = True
            continue
        if text is None:
            text = _open_option(word, result)
            if text is None:
                result.operands.append(word)
                if ordered:
                    result.operands += rest
                    break
                continue
            word = (word[0],)
        if text == "--":
            result.operands += rest
            break
        if not text.startswith("-") or text == "-":
            result.operands.append(word)
            if ordered:
                result.operands += rest
                break
        elif text.startswith("--"):
            _long(text, word, rest, valued, result)
        else:
            _short(text, word, rest, valued, result)
    return result


_DASHES = (Text("-"), Text("--"))
"""How an option begins of which nothing else is known: ``-$x``."""


def _open_option(word: Value, result: Arguments) -> str | None:
    """Return the known beginning of a word that is an option, else None; note where it might be one."""
    first = word[0][0] if len(word) == 1 and word[0] else None
    if isinstance(first, Text) and first.text.startswith("-") and len(first.text) > 1:
        return first.text
    for pieces in word:
        if pieces and isinstance(pieces[0], Hole):
            slash = any(isinstance(piece, Text) and "/" in piece.text for piece in pieces)
            result.open = result.open or not slash
        elif (text := values.spelled(pieces)) is not None and text.startswith("-") and len(text) > 1:
            _short(text, (pieces,), [], frozenset(), result) if text[1] != "-" else result.options.append((text, None))
    return None


def _long(text: str, word: Value, rest: list[Value], valued: frozenset[str], result: Arguments) -> None:
    name, equals, _ = text.partition("=")
    if equals:
        result.options.append((name, _without(word, len(name) + 1)))
    elif rest and _meant(name, frozenset(option for option in valued if option[-1] != "=")):
        result.options.append((name, rest.pop(0)))
    else:
        result.options.append((name, None))


def _short(text: str, word: Value, rest: list[Value], valued: frozenset[str], result: Arguments) -> None:
    if text in valued and rest:  # also a long option with one dash
        result.options.append((text, rest.pop(0)))
        return
    for number, letter in enumerate(text[1:], 1):
        name = f"-{letter}"
        if name in valued or f"{name}=" in valued:
            joined = _without(word, number + 1)
            if joined != values.EMPTY:
                result.options.append((name, joined))
            elif name in valued and rest:
                result.options.append((name, rest.pop(0)))
            else:
                result.options.append((name, None))
            return
        result.options.append((name, None))
    if values.known(word) is None:  # letters that are not known
        result.open = result.letters = True


def _without(word: Value, length: int) -> Value:
    """Return a word without its first characters, which are known."""
    pieces = word[0]
    first = pieces[0]
    rest = Text(first.text[length:]) if isinstance(first, Text) else first
    return (values.merged((rest, *pieces[1:])),)


def apply(verb: Verb, arguments: Arguments, machine: Machine, state: State, *, by: str) -> None:
    """Note what a program does to its operands, by the table."""
    for rule in verb.rules:
        if rule.when and not (arguments.has(rule.when) or arguments.open):
            continue
        if rule.unless and arguments.has(rule.unless):
            continue
        if rule.first is not None:
            first = values.known(arguments.operands[0]) if arguments.operands else None
            if first is None or rule.first.fullmatch(first) is None:
                continue
        certainty = rule.certainty
        if rule.when and not arguments.has(rule.when):
            certainty = Certainty.CONDITIONAL
        named = rule.recursive or arguments.has(rule.recursive_when)
        for operand in _chosen(rule, arguments, machine, state):
            # An unknown word beside a known operand may be `-r`. That it is both `-r` and an operand is not likely.
            beside = bool(rule.recursive_when) and arguments.option_beside(operand)
            recursive = named or (beside and not values.as_word(operand).unknown)
            sure = certainty
            if _refused(verb, operand, machine, state, recursive=recursive):
                sure = Certainty.CONDITIONAL
            machine.emit(
                rule.act,
                operand,
                state,
                by=by,
                certainty=sure,
                recursive=recursive,
                through_link=rule.through_link,
                only_below=rule.only_below,
                spares_ignored=rule.spares_ignored,
                spared=tuple(arguments.values(rule.spared)),
                names=tuple(_as_pattern(name) for name in arguments.values(rule.names)),
            )


def _as_pattern(value: Value) -> Value:
    """Return a word that a program matches names with; a shell has left it alone."""
    return tuple(values.globbed(text) if (text := values.spelled(pieces)) is not None else pieces for pieces in value)


def _refused(verb: Verb, operand: Value, machine: Machine, state: State, *, recursive: bool) -> bool:
    """Return whether the program itself would say no to an operand."""
    if verb.refuses_dots and (values.known(operand) or "").rstrip("/").rpartition("/")[2] in {".", ".."}:
        return True
    if recursive or not verb.refuses_directories:
        return False
    probe = machine.session.probe
    places = values.texts(values.absolute(operand, state.directories))
    return places is not None and all(probe.is_directory(place) and probe.link(place) is None for place in places)


_PARTS = {"all": slice(None), "first": slice(1), "rest": slice(1, None), "sources": slice(-1)}
"""Which of the operands a rule is about, by its word for that."""


def _chosen(rule: Rule, arguments: Arguments, machine: Machine, state: State) -> list[Value]:
    operands = arguments.operands
    if (part := _PARTS.get(rule.on)) is not None:
        return operands[part]
    if rule.on == "last":
        return operands[-1:] if len(operands) > 1 else []
    if rule.on == "option":
        return arguments.values(rule.options)
    if rule.on == "below":
        return operands or [values.text(".")]
    if rule.on == "listed":
        return listed(state)
    if rule.on == "rest-below":
        return operands[1:] or [values.text(".")]
    if rule.on == "path":
        return [values.text(rule.path)]
    if rule.on == "into":  # every operand lands in the directory that an option names
        return [landing(source, place) for place in arguments.values(rule.options) for source in operands]
    if len(operands) < 2:
        return []
    return destinations(operands[:-1], operands[-1], machine, state)


def listed(state: State) -> list[Value]:
    """Return the names that a program reads from its input, one in each line."""
    return [] if state.stdin is None else found.items(state.stdin, whole=True, plain=True)


def destinations(sources: list[Value], target: Value, machine: Machine, state: State) -> list[Value]:
    """Return what copying or moving writes: the target, or the sources' names in it where it may be a directory."""
    places = values.texts(values.absolute(target, state.directories))
    known = machine.session.probe.is_directory(places[0]) if places is not None and len(places) == 1 else None
    inside = [landing(source, target) for source in sources]
    if known is True or len(sources) > 1:
        return inside
    return [target] if known is False else [target, *inside]


def landing(source: Value, directory: Value) -> Value:
    """Return the path that a source gets in a directory."""
    ends = all(pieces and isinstance(last := pieces[-1], Text) and last.text.endswith("/") for pieces in directory)
    return values.joined(
        directory, values.text("" if ends else "/"), values.union(tuple(values.base(pieces) for pieces in source))
    )


@cache
def table() -> Mapping[str, Verb]:
    """Return all programs of the table by name."""
    from perdure.guard.tables import table as read_table

    raw = read_table("verbs.toml")
    verbs: dict[str, Verb] = {}
    for names, entry in raw.items():
        verb = _verb(entry)
        for name in names.split():
            verbs[name] = verb
    return verbs


def _verb(entry: object) -> Verb:
    data = _mapping(entry)
    wraps = data.get("wraps")
    subcommands = {name: _verb(inner) for names, inner in _mapping(data.get("sub")).items() for name in names.split()}
    rules = data.get("rules", [])
    return Verb(
        valued=_names(data.get("valued")),
        rules=tuple(_rule(_mapping(rule)) for rule in (rules if isinstance(rules, list) else ())),
        wraps=_wrapper(_mapping(wraps)) if wraps is not None else None,
        subcommands=subcommands,
        directory=_names(data.get("directory")),
        ordered=bool(subcommands) or (wraps is not None and not _mapping(wraps).get("permutes")),
        inner=inner_of(_mapping(data["inner"])) if "inner" in data else None,
        refuses_dots=bool(data.get("refuses_dots")),
        refuses_directories=bool(data.get("refuses_directories")),
        runs=_names(data.get("runs")),
        beside=bool(data.get("beside")),
        separator=str(data.get("separator", "")),
    )


def _rule(data: Mapping[str, object]) -> Rule:
    recursive = data.get("recursive", False)
    return Rule(
        act=Act(str(data["act"])),
        on=str(data.get("on", "all")),
        options=_names(data.get("options")),
        path=str(data.get("path", "")),
        first=re.compile(str(data["first"])) if "first" in data else None,
        when=_names(data.get("when")),
        unless=_names(data.get("unless")),
        recursive=recursive is True,
        recursive_when=_names(recursive) if isinstance(recursive, str) else frozenset(),
        through_link=bool(data.get("through_link")),
        only_below=bool(data.get("only_below")),
        spares_ignored=bool(data.get("spares_ignored")),
        spared=_names(data.get("spared")),
        names=_names(data.get("names")),
        certainty=Certainty(str(data.get("certainty", "definite"))),
    )


def _wrapper(data: Mapping[str, object]) -> Wrapper:
    skip = data.get("skip", 0)
    return Wrapper(
        skip=skip if isinstance(skip, int) else 0,
        assignments=bool(data.get("assignments")),
        directory=_names(data.get("directory")),
        code=_names(data.get("code")),
        joined=bool(data.get("joined")),
        permutes=bool(data.get("permutes")),
        scans=bool(data.get("scans")),
        certainty=Certainty(str(data.get("certainty", "definite"))),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _names(value: object) -> frozenset[str]:
    return frozenset(str(value).split()) if value else frozenset()

"""What literal code of other languages does to files.

Owns: finding the calls of JavaScript, Perl, Ruby and PHP that delete something or run a command, where their argument
is one literal string. Does not own: these languages. A deleting call with any other argument has an unknown operand.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Act, Certainty
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_STRING = r"""(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\$`#]|\\.)*)"|`([^`$\\]*)`)"""
_DELETING: dict[str, tuple[str, str]] = {
    # language: calls for one name, calls for everything below
    "node": (
        r"\b(?:unlink|unlinkSync|rmdir|truncate|truncateSync)\b",
        r"\b(?:rm|rmSync|rmdirSync|removeSync|emptyDirSync|rimraf|rimrafSync)\b",
    ),
    "perl": (r"\b(?:unlink|rmdir|truncate)\b", r"\b(?:remove_tree|rmtree)\b"),
    "ruby": (
        r"\b(?:File\.(?:delete|unlink)|FileUtils\.(?:rm|rm_f|rmdir)|Dir\.(?:delete|rmdir|unlink))\b",
        r"\bFileUtils\.(?:rm_r|rm_rf|rmtree|remove_dir|remove_entry(?:_secure)?)\b",
    ),
    "php": (r"\b(?:unlink|rmdir)\b", r"\bno such function\b"),
}
_DELETING["deno"] = (r"\bDeno\.(?:remove|removeSync|truncate|truncateSync)\b", r"\bDeno\.remove(?:Sync)?\b")
_DELETING["bun"] = _DELETING["node"]
_PARENTHESES = frozenset({"node", "deno", "bun", "php"})
"""Languages in which a call has parentheses."""
_MOVING = {
    "node": r"\b(?:rename|renameSync)\b",
    "perl": r"\brename\b",
    "ruby": r"\b(?:File\.rename|FileUtils\.(?:mv|move))\b",
    "php": r"\brename\b",
}
_WRITING = {"node": r"\b(?:writeFile|writeFileSync)\b", "ruby": r"\bFile\.write\b", "php": r"\bfile_put_contents\b"}
_RUNNING = {
    "node": r"\b(?:exec|execSync|spawn|spawnSync|execFile|execFileSync)(?=\s*\()",
    "perl": r"\b(?:system|exec)\b",
    "ruby": r"\b(?:system|exec|spawn)\b",
    "php": r"\b(?:system|exec|shell_exec|passthru)\b",
}
_CHANGING = late(
    r"open|write|put_contents|unlink|remove|delete|\brm|rename|truncate|copy|\bcp|\bmv|move|chmod|chown|link|rmdir|touch"
)
_LISTS = late(r"(?:(?:\bqw|%[wW])\s*[(\[{<|]|(?<=[\s(=])<)([^()\[\]{}<>|=]*)[)\]}>|]")
"""Words without quotes around each: ``qw(…)``, ``%w[…]``, and Perl's ``<…>``."""


def read(machine: Machine, language: str, code: Value, state: State) -> None:
    """Note what code does; code that is not known is not analysable."""
    with machine.nested():
        for pieces in code:
            source = values.spelled(pieces)
            if source is None:
                machine.problem(f"{language}: the code is not known before it runs")
                continue
            machine.step(len(source) // 64 + 1)
            single, below = _DELETING[language]
            _emit(machine, source, single, Act.DELETE, state, language, recursive=False)
            _emit(machine, source, below, Act.DELETE, state, language, recursive=True)
            for table, act in ((_MOVING, Act.MOVE), (_WRITING, Act.OVERWRITE)):
                if language in table:
                    _emit(machine, source, table[language], act, state, language, recursive=False)
            if language in _RUNNING:
                _run(machine, source, language, state)
            _named(machine, source, language, state)


def _named(machine: Machine, source: str, language: str, state: State) -> None:
    """Note that code reads a path which it spells out, and may change it where it changes anything in another way."""
    changing = _CHANGING.search(source) is not None
    texts = [_literal(match) for match in re.finditer(_STRING, source)]
    texts += [word for match in _LISTS.finditer(source) for word in match[1].split()]
    for text in dict.fromkeys(text.lstrip("<>+ ") for text in texts):
        if "/" in text or text.startswith("."):
            path = (values.globbed(text),)
            machine.emit(Act.READ, path, state, by=f"{language} code", through_link=True)
            if changing:
                machine.emit(Act.CHANGE, path, state, by=f"{language} code", certainty=Certainty.CONDITIONAL)


def _run(machine: Machine, source: str, language: str, state: State) -> None:
    """Interpret the commands that code runs: one text for a shell, or a program with its arguments."""
    for match in re.finditer(_RUNNING[language], source):
        found = re.match(rf"\s*\(?\s*({_STRING}(?:\s*,\s*\[?\s*{_STRING})*)\s*(?![.+\w])", source[match.end() :])
        if found is None:
            continue
        words = [values.text(_literal(item)) for item in re.finditer(_STRING, found[1])]
        if len(words) == 1 and not re.search(r"spawn|execFile", match[0]):
            machine.shell(words[0], state.copy(), positionals=(), name=values.text("sh"), what=language)
        else:
            machine.call(words, state.copy(), external=True)
    if language in {"perl", "ruby", "php"}:
        for match in re.finditer(r"`([^`]*)`|(?:%x|qx)\s*[({\[/]([^)}\]/]*)", source):
            text = values.text(match[1] or match[2] or "")
            machine.shell(text, state.copy(), positionals=(), name=values.text("sh"), what=language)


def _emit(machine: Machine, source: str, call: str, act: Act, state: State, language: str, *, recursive: bool) -> None:
    for argument in _arguments(source, call, language):
        operand = values.unknown("an argument") if argument is None else values.text(argument)
        machine.emit(act, operand, state, by=f"{language} code", recursive=recursive)


def _arguments(source: str, call: str, language: str) -> list[str | None]:
    """Return the first arguments of the calls: a text, or None where it is anything but a literal."""
    result: list[str | None] = []
    if language in _PARENTHESES:
        call = f"(?:{call})(?=\\s*\\()"
    for match in re.finditer(call, source):
        rest = source[match.end() :]
        found = re.match(rf"\s*\(?\s*\[?\s*{_STRING}(?!\s*[.+])", rest)
        if found is not None:
            result.append(_literal(found))
        elif re.match(r"\s*\(\s*[^)\s]", rest) or re.match(r"\s+[$@%A-Za-z]", rest):
            result.append(None)
    return result


def _literal(found: re.Match[str]) -> str:
    """Return the text of a string that was matched."""
    return re.sub(r"\\(.)", r"\1", next(part for part in found.groups() if part is not None))

"""What a person sees of an operation before the answer.

Owns: the words, and that no character of the operation does anything but stand there. Does not own: which secrets are
masked (redact), what is asked (decide), or putting it on a screen. Keeps: approvals-shown-exactly: two operations that
differ are not shown alike, no line of an operation looks like one of ours, and what cannot be shown is not asked about.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
import unicodedata

from perdure.approvals.redact import mask_text
from perdure.domain.decision import Decision
from perdure.domain.operation import Operation, OperationKind, Principal
from perdure.domain.verdict import Risk

HIGH = "!! HIGH RISK !!"
MOST_SHOWN = 16_384
"""Characters of a command; a longer one is shown by its ends, and says so."""
MOST_PATHS = 20
_PADDING = re.compile(r" {9,}")
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f")
"""Letters and marks that are drawn as nothing."""
_OPEN, _CLOSE = "⟨", "⟩"
_VERBS = {
    OperationKind.COMMAND: "run a command",
    OperationKind.CODE: "run code",
    OperationKind.FILE_WRITE: "write a file",
    OperationKind.FILE_PATCH: "change files",
    OperationKind.FILE_MOVE: "move files",
    OperationKind.FILE_DELETE: "delete files",
    OperationKind.PLUGIN: "do something with a plugin",
}


def visible(text: str) -> str:
    """Return a text in which every character can be seen: what would be drawn as nothing, or elsewhere, is named."""
    if text.isascii() and text.isprintable():
        return _PADDING.sub(_blanks, text)
    shown = "".join(character if _is_plain(character) else _named(character) for character in text)
    return _PADDING.sub(_blanks, shown)


def _blanks(run: re.Match[str]) -> str:
    return f"{_OPEN}{len(run[0])} blanks{_CLOSE}"


def _is_plain(character: str) -> bool:
    if " " <= character <= "~":
        return True
    if character in _BLANK_LETTERS or character in {_OPEN, _CLOSE}:
        return False
    category = unicodedata.category(character)
    if category.startswith(("C", "Z")):
        return False
    # Variation selectors are marks without a shape of their own.
    return not ("\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef")


def _named(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"{_OPEN}byte {code - 0xDC00:02X}{_CLOSE}"
    return f"{_OPEN}U+{code:04X}{_CLOSE}"


def display(operation: Operation, decision: Decision, requester: Principal | None = None) -> str:
    """Return everything that a person reads of a question but its id and the time that is left.

    Args:
        operation: with its secrets masked.
        decision: what asks.
        requester: who asks.
    """
    lines = [HIGH, ""] if decision.risk is Risk.HIGH else []
    who = "An agent" if requester is None else f"An agent of {visible(requester.name)}"
    lines += [f"{who} wants to {_VERBS[operation.kind]}:", ""]
    lines += [f"    | {line}" for line in _exact(operation)]
    lines += ["", f"in:      {visible(mask_text(operation.cwd))}", f"backend: {visible(operation.backend)}"]
    if operation.environment:
        lines.append(f"sets:    {visible(', '.join(operation.environment))}")
    lines += [f"risk:    {decision.risk.value}", "because:"]
    # Two rules of the operator say the same.
    lines += dict.fromkeys(f"  - {visible(mask_text(reason.text))} ({reason.code})" for reason in decision.reasons)
    lines += _touched(decision)
    if operation.kind in {OperationKind.COMMAND, OperationKind.CODE}:
        lines.append("no diff available: what it changes is known when it has run")
    elif operation.diff is None:
        lines.append("no diff available")
    else:
        lines += ["diff:", *(f"    | {visible(mask_text(line))}" for line in _lines(operation.diff))]
    odd = sorted(
        {character for line in _exact(operation) for character in line if ord(character) > 126} - {_OPEN, _CLOSE}
    )
    if odd:
        names = ", ".join(f"{character} is {_named(character)}" for character in odd[:12])
        lines.append(f"note: it has characters that may look like others: {names}")
    return "\n".join(lines)


def question(shown: str, identity: str, decision_risk: Risk | None, expires: dt.datetime, now: dt.datetime) -> str:
    """Return what a person reads at this moment, with the id, the time left and the ways to answer.

    Args:
        shown: what `display` made when it was asked.
        identity: of the proposal.
        decision_risk: None where it is not known, which counts as high.
        expires: when it can no longer be answered.
        now: the moment.
    """
    left = max(0, round((expires - now).total_seconds()))
    lines = [shown, "", f"id:      {identity}", f"left:    {left // 60} min {left % 60:02d} s, then it is not run"]
    if decision_risk is None or decision_risk is Risk.HIGH:
        lines.append("Default: DENY")
    return "\n".join([*lines, f"approve {identity}", f"decline {identity}"])


def _exact(operation: Operation) -> list[str]:
    if operation.script is not None:
        return _lines(operation.script)
    if operation.argv:
        return [_cut(" ".join(map(_word, operation.argv)))]
    return [visible(mask_text(path)) for path in operation.paths] or ["(nothing)"]


def _word(word: str) -> str:
    """Return one word of a command, in quotes where a shell would need them: each word stays one."""
    return visible(word) if word.startswith("[secret-") and word.endswith("]") else visible(shlex.quote(word))


def _lines(text: str) -> list[str]:
    """Return a text line by line, each so that it can be seen; only line feeds make lines."""
    return [visible(line) for line in _cut(text).split("\n")]


def _cut(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out here …\n{text[-half:]}"


def _touched(decision: Decision) -> list[str]:
    if not decision.touches:
        return ["touches: nothing that can be told"]
    shown = [f"  - {visible(mask_text(path))}" for path in decision.touches[:MOST_PATHS]]
    more = len(decision.touches) - len(shown)
    return ["touches:", *shown, *([f"  - and {more} more"] if more else [])]

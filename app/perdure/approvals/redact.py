"""Secrets in commands: what is shown and kept has placeholders where they stand; what runs has them.

Owns: finding them by what they are called and by what they look like, and naming what stands in their place. Does not
own: showing (display), or keeping. Keeps: approvals-secrets-masked: no operation is kept or shown with a secret that
one of these rules knows, and masking twice changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Operation
from perdure.domain.record import dataclass, field

# No rule may take longer than in proportion to the text, however it is written: a command can be a megabyte. So a run
# of characters is read from its beginning alone, is not given back, or is bounded.
_NAMED = (
    r"(?=[A-Za-z0-9_.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|bearer|cookie"
    r"|(?:api|access|private|auth)[_-]?key))[A-Za-z0-9_.-]++"
)
_VALUE = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|(?:\\.|[^\s'"\\;&|<>()])+)"""
_MYSQL = r"\b(?:mysql|mysqldump|mariadb|mysqladmin)\b"
_PLACEHOLDER = re.compile(r"\[secret-\d+(?::[A-Za-z0-9_.-]+)?\]")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Whole blocks first, then what has a name, then what is known by its shape.
    (
        re.compile(
            r"(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))", re.DOTALL
        ),
        "private-key",
    ),
    (
        re.compile(
            r"(?P<name>authorization)\s*[:=]\s*(?:(?:basic|bearer|token|digest)\s+)?(?P<secret>[^\s'\"\\]+)",
            re.IGNORECASE,
        ),
        "",
    ),
    (
        re.compile(
            r"(?P<name>x-[a-z-]{0,60}(?:key|token|secret|auth)[a-z-]{0,60}|cookie)\s*:\s*(?P<secret>[^'\"\\\n]+)",
            re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(rf"(?<![A-Za-z0-9_.-])-{{1,2}}(?P<name>{_NAMED})(?:=|\s+)(?P<secret>{_VALUE})", re.IGNORECASE), ""),
    (re.compile(rf"(?<![A-Za-z0-9_.-])(?P<name>{_NAMED})\s?=(?P<secret>{_VALUE})", re.IGNORECASE), ""),
    (re.compile(rf"[\"'](?P<name>{_NAMED})[\"']\s*:\s*(?P<secret>{_VALUE})", re.IGNORECASE), ""),
    (re.compile(r"(?<=[a-z0-9+.-])://(?P<secret>[^\s/@'\"]+)@", re.IGNORECASE), "login"),
    (
        re.compile(
            r"\bcurl\b(?:(?!\bcurl\b)[^|;&\n])*?\s(?:-u|--user|-U|--proxy-user)[ =]?"
            r"(?P<secret>[^\s'\"]+:[^\s'\"]+|\"[^\"]*\"|'[^']*')"
        ),
        "login",
    ),
    (re.compile(rf"{_MYSQL}(?:(?!{_MYSQL})[^|;&\n])*?\s-p(?P<secret>[^\s'\"]+)"), "password"),
    (re.compile(r"\bsshpass\s+-p\s*(?P<secret>\S+)"), "password"),
    (
        re.compile(
            r"(?<![A-Za-z0-9_])(?P<secret>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
            r"|xox[abprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
            r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
            r"|eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
        ),
        "token",
    ),
)
_SECRET_OPTION = re.compile(rf"-{{1,2}}{_NAMED}", re.IGNORECASE)
_SHORTEST_REPEATED = 6
"""A secret of so many characters is masked wherever it stands again; a shorter one may be any word."""


@dataclass(slots=True)
class _Masking:
    """The secrets of one operation, by the placeholders that stand for them."""

    found: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """Return a text with placeholders for what is secret."""
        for pattern, kind in _RULES:
            text = pattern.sub(lambda match, kind=kind: self._placed(match, kind), text)  # type: ignore[misc]
        for secret, placeholder in self.found.items():
            bare = secret.strip("\"'")
            if len(bare) >= _SHORTEST_REPEATED:
                text = text.replace(bare, placeholder)
        return text

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return words with placeholders; one behind an option that is called so is secret as a whole."""
        made: list[str] = []
        for number, word in enumerate(words):
            before = words[number - 1] if number else ""
            if _SECRET_OPTION.fullmatch(before) and not word.startswith("-"):
                made.append(self.placeholder(word, before.lstrip("-")))
            elif before in {"-u", "--user", "-U", "--proxy-user"} and ":" in word and "curl" in words[0]:
                made.append(self.placeholder(word, "login"))
            else:
                made.append(self.text(word))
        return tuple(made)

    def placeholder(self, secret: str, name: str) -> str:
        """Return what stands for a secret, the same one each time; a variable says nothing of what it holds."""
        if not secret or secret.lstrip('"').startswith("$") or _PLACEHOLDER.search(secret):
            return secret
        named = re.sub(r"[^A-Za-z0-9_.-]", "", name).lstrip("-")[:40]
        return self.found.setdefault(secret, f"[secret-{len(self.found) + 1}{f':{named}' if named else ''}]")

    def _placed(self, match: re.Match[str], kind: str) -> str:
        whole, start = match[0], match.start("secret") - match.start()
        stop = match.end("secret") - match.start()
        name = kind or match.groupdict().get("name") or ""
        return whole[:start] + self.placeholder(match["secret"], name) + whole[stop:]


def mask(operation: Operation) -> Operation:
    """Return an operation as it may be shown and kept; its digest is made of the other."""
    masking = _Masking()
    argv = masking.words(operation.argv)
    script = None if operation.script is None else masking.text(operation.script)
    diff = None if operation.diff is None else masking.text(operation.diff)
    return replace(
        operation,
        argv=argv,
        script=script,
        diff=diff,
        paths=tuple(map(masking.text, operation.paths)),
        # Places may be called after a secret, too; what is compared before the run are those of the other.
        cwd=masking.text(operation.cwd),
        executable=None if operation.executable is None else masking.text(operation.executable),
        digests=tuple(replace(each, path=masking.text(each.path)) for each in operation.digests),
    )


def mask_said(operation: Operation, said: JsonValue) -> JsonValue:
    """Return what is said of an operation as it may be kept, with the placeholders that the operation has."""
    masking = _Masking()
    masking.words(operation.argv)
    for text in (operation.script, operation.diff):
        masking.text(text or "")

    def masked(value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return masking.text(value)
        if isinstance(value, list):
            return [masked(each) for each in value]
        if isinstance(value, dict):
            return {name: masked(each) for name, each in value.items()}
        return value

    return masked(said)


def mask_text(text: str) -> str:
    """Return a text as it may be shown and kept."""
    return _Masking().text(text)

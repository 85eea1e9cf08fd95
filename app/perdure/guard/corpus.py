"""A corpus of command lines with what the floor must say of each, and checking it.

Owns: the format, mapping its layouts onto roots, the wrappers that change nothing of a command's meaning, and the
comparison. Does not own: how a line is judged (service). Keeps: guard-corpus, guard-wrappers.

``expected`` is what the floor says: ``block`` refuses, ``ask`` needs a person, by the floor or by classification,
``allow`` means that the floor has nothing against it.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from perdure.domain.errors import CorpusInvalid
from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Ruling, Verdict
from perdure.guard.layout import LayoutProbe
from perdure.guard.patterns import with_letters
from perdure.guard.roots import Root, environment_roots
from perdure.guard.service import Guard, Place

_EXPECTED = {"block": Ruling.REFUSE, "ask": Ruling.ASK, "allow": Ruling.ALLOW}
_IN_EACH = ("/tmp", "/usr/bin", "/etc", "/var/tmp")  # noqa: S108  # compared, never written
"""Directories that each machine has."""
_ACTIVATE = 'VIRTUAL_ENV="{prefix}"\nexport VIRTUAL_ENV\nPATH="$VIRTUAL_ENV/bin:$PATH"\nexport PATH\n'
"""What matters of the script that each environment has."""
_COMPRESSED = b"\x1f\x8b"
_SECONDS = 10.0
"""How long one line may take: nobody waits, and a busy machine must not change what a corpus says."""
_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One machine that lines are judged on."""

    name: str
    home: str
    environment: Mapping[str, str]
    probe: LayoutProbe
    roots: tuple[Root, ...]

    def guard(self) -> Guard:
        """Return the guard of that machine."""
        return Guard(lambda: self.roots, self.probe, homes=(self.home,), seconds=_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line, and what the floor must say of it."""

    identity: str
    command: str
    cwd: str
    shell: str
    layout: Layout
    expected: Ruling
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the guard said of one case, as it stands or in a wrapper."""

    case: Case
    wrapper: str
    """Empty where the line was judged as it stands."""
    verdict: Verdict
    fits: bool
    """Whether it says what is expected; in a wrapper, whether it is no weaker than without."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {
            "id": self.case.identity,
            "wrapper": self.wrapper or None,
            "command": self.case.command,
            "shell": self.case.shell,
            "layout": self.case.layout.name,
            "expected": self.case.expected.value,
            "floor": self.verdict.floor_ruling.value,
            "ruling": self.verdict.ruling.value,
            "fits": self.fits,
            "reasons": [reason.text for reason in self.verdict.reasons[:3]],
        }


def read_corpus(data: bytes, name: str) -> tuple[Case, ...]:
    """Return the cases of a corpus, in their order.

    Raises:
        CorpusInvalid: it is no YAML, or not of the form; every fault is named with its place.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        if data.startswith(_COMPRESSED):
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise CorpusInvalid(f"{name} is larger than {_LARGEST} bytes", context={"path": name})
        document: object = YAML(typ="safe", pure=True).load(data.decode())
    except (YAMLError, ValueError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise CorpusInvalid(f"{name} cannot be read: {reason}", context={"path": name}) from error
    return _Reader(name).read(document)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._faults: list[str] = []

    def read(self, document: object) -> tuple[Case, ...]:
        layouts: dict[str, Layout] = {}
        cases: list[Case] = []
        if not isinstance(document, dict):
            self._faults.append("the document must be a mapping with `layouts` and `cases`")
        else:
            for name, entry in self._pairs(document.get("layouts"), "layouts"):
                if (layout := self._layout(name, entry)) is not None:
                    layouts[name] = layout
            listed = document.get("cases")
            if not isinstance(listed, list):
                self._faults.append("cases must be a list")
                listed = []
            cases = [case for at, entry in enumerate(listed) if (case := self._case(at, entry, layouts)) is not None]
            repeated = [name for name, count in Counter(case.identity for case in cases).items() if count > 1]
            self._faults += [f"two cases have the id {name}" for name in repeated]
        if self._faults:
            faults: list[JsonValue] = list(self._faults)
            raise CorpusInvalid(
                f"{self._name} is no corpus: {'; '.join(self._faults)}", context={"path": self._name, "faults": faults}
            )
        return tuple(cases)

    def _layout(self, name: str, entry: object) -> Layout | None:
        place = f"layouts.{name}"
        values = dict(self._pairs(entry, place))
        executable, prefix, base, home = (
            self._text(values.get(key), f"{place}.{key}") for key in ("executable", "prefix", "base", "home")
        )
        if not (executable and prefix and base and home):
            return None
        drives = values.get("os") == "windows"

        def spelled(path: str) -> str:
            return with_letters(path) if drives else path

        stated = values.get("state")
        state = spelled(stated) if isinstance(stated, str) else None
        links = {spelled(link): spelled(str(target)) for link, target in self._pairs(values.get("links"), place)}
        probe = LayoutProbe(
            links=links,
            directories=frozenset(
                _directories(
                    map(spelled, (prefix, base, home, *_IN_EACH, *_within(prefix), *([state] if state else ())))
                )
            ),
            scripts={f"{prefix}/bin/activate": _ACTIVATE.format(prefix=prefix)},
            case_sensitive=values.get("case_sensitive") is not False,
            drives=drives,
        )
        environment = {key: str(value) for key, value in self._pairs(values.get("env"), f"{place}.env")}
        return Layout(
            name=name,
            home=spelled(home),
            environment={"HOME": home, **environment},
            probe=probe,
            roots=(
                *environment_roots(executable, prefix, base, probe),
                *([Root(path=state, why="the app's own state", secret=True)] if state else ()),
            ),
        )

    def _case(self, at: int, entry: object, layouts: Mapping[str, Layout]) -> Case | None:
        values = dict(self._pairs(entry, f"cases[{at}]"))
        identity = self._text(values.get("id"), f"cases[{at}].id")
        place = f"case {identity or at}"
        command, cwd, shell, layout, expected = (
            self._text(values.get(key), f"{place}: {key}") for key in ("command", "cwd", "shell", "layout", "expected")
        )
        if layout and layout not in layouts:
            self._faults.append(f"{place}: there is no layout {layout}")
        if expected and expected not in _EXPECTED:
            self._faults.append(f"{place}: expected is {expected}, not block, ask or allow")
        if not (identity and command and cwd and shell) or layout not in layouts or expected not in _EXPECTED:
            return None
        return Case(
            identity=identity,
            command=command,
            cwd=cwd,
            shell=shell,
            layout=layouts[layout],
            expected=_EXPECTED[expected],
            why=str(values.get("why") or ""),
        )

    def _pairs(self, value: object, place: str) -> list[tuple[str, object]]:
        if value is None:
            return []
        if not isinstance(value, dict):
            self._faults.append(f"{place} must be a mapping")
            return []
        return [(str(key), item) for key, item in value.items()]

    def _text(self, value: object, place: str) -> str:
        if isinstance(value, str) and value:
            return value
        self._faults.append(f"{place} must be text that is not empty")
        return ""


def _directories(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        at = len(path)
        while at > 0:
            yield path[:at]
            at = path.rfind("/", 0, at)


def _within(prefix: str) -> Iterator[str]:
    return (f"{prefix}/{name}" for name in ("bin", "lib"))


_END = "end_of_the_wrapped_text"

WRAPPERS: Mapping[str, Callable[[str], str]] = {
    "bash -c": lambda text: f"bash -c {shlex.quote(text)}",
    "sh -c in bash -c": lambda text: f"bash -c {shlex.quote(f'bash -c {shlex.quote(text)}')}",
    "eval": lambda text: f"eval {shlex.quote(text)}",
    "subshell": lambda text: f"(\n{text}\n)",
    "group with redirect": lambda text: f"{{\n{text}\n}} > /dev/null 2>&1",
    "substitution": lambda text: f': "$(\n{text}\n)"',
    "if": lambda text: f"if true; then\n{text}\nfi",
    "else": lambda text: f"if false; then :; else\n{text}\nfi",
    "function": lambda text: f"wrapped() {{\n{text}\n}}\nwrapped",
    "here-doc": lambda text: f"bash <<'{_END}'\n{text}\n{_END}",
    "here-string": lambda text: f"bash <<< {shlex.quote(text)}",
    "printf to sh": lambda text: f"printf '%s\\n' {shlex.quote(text)} | bash",
    "variable and eval": lambda text: f'wrapped={shlex.quote(text)}; eval "$wrapped"',
    "background": lambda text: f"{{\n{text}\n}} & wait",
    "case": lambda text: f"case x in x)\n{text}\n;; esac",
    "trap": lambda text: f"trap {shlex.quote(text)} USR1; kill -USR1 $$",
    "continuation": lambda text: f"true && \\\n{{\n{text}\n}}",
    "misleading comment": lambda text: f'# harmless: it only says "done\n{text}',
    "loop": lambda text: f"for wrapped in 1; do\n{text}\ndone",
    "while": lambda text: f"while true; do\n{text}\nbreak; done",
    "pipe": lambda text: f"{{\n{text}\n}} | cat",
    "or": lambda text: f"false || {{\n{text}\n}}",
    "not": lambda text: f"! {{\n{text}\n}}",
    "env bash -c": lambda text: f"env bash -c {shlex.quote(text)}",
    "nohup bash -c": lambda text: f"nohup bash -c {shlex.quote(text)}",
}
"""Ways to write a bash text so that it does the same, by name."""


def _encoded(text: str) -> str:
    return f"powershell -EncodedCommand {base64.b64encode(text.encode('utf-16-le')).decode()}"


def _literal(text: str) -> str:
    """Return a text as a string of PowerShell, to which the quotes of typography are quotes too."""
    return "'" + re.sub("(['\u2018-\u201b])", r"\1\1", text) + "'"


CMD_WRAPPERS: Mapping[str, Callable[[str], str]] = {
    "cmd /c": lambda text: f'cmd /d /s /c "{text}"',
    "call": lambda text: f"call ver & {text}",
    "at": lambda text: f"@{text}",
    "parentheses": lambda text: f"(\n{text}\n)",
    "redirect": lambda text: f"(\n{text}\n) > nul 2>&1",
    "if": lambda text: f"if 1==1 (\n{text}\n)",
    "else": lambda text: f"if 1==2 (ver) else (\n{text}\n)",
    "and": lambda text: f"ver && (\n{text}\n)",
    "or": lambda text: f"rd nothing || (\n{text}\n)",
    "pipe": lambda text: f"echo y| (\n{text}\n)",
    "for": lambda text: f"for %z in (1) do (\n{text}\n)",
    "remark": lambda text: f"rem harmless (\n{text}",
}
"""Ways to write a text for cmd.exe so that it does the same, by name."""

POWERSHELL_WRAPPERS: Mapping[str, Callable[[str], str]] = {
    "block": lambda text: f"& {{\n{text}\n}}",
    "dot": lambda text: f". {{\n{text}\n}}",
    "Invoke-Expression": lambda text: f"Invoke-Expression {_literal(text)}",
    "iex and here-string": lambda text: f"iex @'\n{text}\n'@",
    "variable and iex": lambda text: f"$wrapped = {_literal(text)}; $wrapped | iex",
    "scriptblock": lambda text: f"& ([scriptblock]::Create({_literal(text)}))",
    "encoded": _encoded,
    "cmd /c and encoded": lambda text: f"cmd /c {_encoded(text)}",
    "substitution": lambda text: f"$(\n{text}\n)",
    "array": lambda text: f"@(\n{text}\n)",
    "if": lambda text: f"if ($true) {{\n{text}\n}}",
    "foreach": lambda text: f"foreach ($wrapped in 1) {{\n{text}\n}}",
    "ForEach-Object": lambda text: f"1 | % {{\n{text}\n}}",
    "try": lambda text: f"try {{\n{text}\n}} catch {{ }}",
    "function": lambda text: f"function wrapped {{\n{text}\n}}; wrapped",
    "job": lambda text: f"Start-Job {{\n{text}\n}}",
    "comment": lambda text: f"<# harmless: 'quoted #>\n{text}",
}
"""Ways to write a text for PowerShell so that it does the same, by name."""

_BY_SHELL = {
    "bash": WRAPPERS,
    "sh": WRAPPERS,
    "cmd": CMD_WRAPPERS,
    "powershell": POWERSHELL_WRAPPERS,
    "pwsh": POWERSHELL_WRAPPERS,
}


def check(cases: Sequence[Case], *, wrap: bool) -> Iterator[Result]:
    """Yield what the guard says of each case, and of each in each wrapper where that is asked for."""
    guards: dict[str, Guard] = {}
    for case in cases:
        guard = guards.setdefault(case.layout.name, case.layout.guard())
        place = Place(cwd=case.cwd, home=case.layout.home, environment=case.layout.environment)
        verdict = guard.judge(case.command, shell=case.shell, place=place)
        yield Result(case=case, wrapper="", verdict=verdict, fits=_fits(case.expected, verdict))
        for name, wrapper in _BY_SHELL.get(case.shell, {}).items() if wrap else ():
            wrapped = guard.judge(wrapper(case.command), shell=case.shell, place=place)
            weaker = wrapped.floor_ruling.strictness < verdict.floor_ruling.strictness
            yield Result(case=case, wrapper=name, verdict=wrapped, fits=not weaker)


def _fits(expected: Ruling, verdict: Verdict) -> bool:
    if expected is Ruling.ASK:
        return verdict.ruling is Ruling.ASK
    return verdict.floor_ruling is expected


@dataclass(slots=True)
class Tally:
    """How many cases of each expectation came out how."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrapped: int = 0
    mismatches: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count one result."""
        if result.wrapper:
            self.wrapped += 1
        else:
            self.counts[result.case.expected.value, result.verdict.shown_ruling] += 1
        if not result.fits:
            self.mismatches.append(result)

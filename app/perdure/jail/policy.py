"""What a profile asks of the jail.

Owns: the section `jail` of app.yaml, which of two demands is stricter, and which commands the operator has run outside.
Does not own: the file (app_file), or whether a jail works here (service). Keeps: jail-never-laxer: whoever starts a
command can ask for a stricter jail than the profile does, never for a laxer one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum

from perdure.domain.record import dataclass


class Mode(StrEnum):
    """What happens where a command cannot be jailed."""

    OFF = "off"
    """No command is jailed."""
    PREFER = "prefer"
    """It runs without, and that is said."""
    REQUIRE = "require"
    """It does not run."""

    @property
    def strictness(self) -> int:
        """A number that is larger for a stricter mode."""
        return list(Mode).index(self)


_ANY = "*"
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,\- ]*")
"""A text of these alone is a program and its arguments to every shell."""
_MEMBERS = ("outside", "policy")


class PolicyUnfit(ValueError):
    """The section is not what it has to be; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a profile asks of the jail."""

    mode: Mode = Mode.PREFER
    outside: tuple[tuple[str, ...], ...] = ()
    """Templates of commands that run outside the jail, as words; a last `*` stands for whatever follows, any other for
    one word."""

    def template_for(self, command: Sequence[str], script: str | None) -> str | None:
        """Return the template that a command is named by; None where it belongs into the jail.

        A text for a shell is named only where it is nothing but words: what a shell would read anything into is not.
        """
        words = list(command)
        if script is not None:
            if not _PLAIN.fullmatch(script):
                return None
            words = script.split()
        return next((shlex.join(each).replace("'*'", _ANY) for each in self.outside if _fits(each, words)), None)


def _fits(template: Sequence[str], words: Sequence[str]) -> bool:
    fixed = template[:-1] if template[-1] == _ANY else template
    if len(words) < len(fixed) or (len(words) > len(fixed) and template[-1] != _ANY):
        return False
    return all(wanted in {_ANY, word} for wanted, word in zip(fixed, words, strict=False))


def parse_policy(section: object, place: str) -> Policy:
    """Return what the section says.

    Args:
        section: `jail: prefer`, or a mapping with `policy` and `outside`; None where there is none.
        place: how a message names it.

    Raises:
        PolicyUnfit: it is neither; every fault is listed.
    """
    if section is None:
        return Policy()
    if not isinstance(section, dict):
        return Policy(mode=_mode(section, place))
    faults = [f"{place}.{name} is not known" for name in map(str, section) if name not in _MEMBERS]
    mode, outside = Mode.PREFER, list[tuple[str, ...]]()
    if "policy" in section:
        try:
            mode = _mode(section["policy"], f"{place}.policy")
        except PolicyUnfit as fault:
            faults.append(str(fault))
    listed = section.get("outside", [])
    if not isinstance(listed, list):
        faults.append(f"{place}.outside must be a list of commands")
        listed = []
    for index, text in enumerate(listed):
        try:
            outside.append(_template(text))
        except ValueError as fault:
            faults.append(f"{place}.outside[{index}] {fault}")
    if faults:
        raise PolicyUnfit("; ".join(faults))
    return Policy(mode=mode, outside=tuple(outside))


def _mode(value: object, place: str) -> Mode:
    # YAML 1.1 reads a bare `off` as false, and people's editors may write it so.
    if value is False:
        return Mode.OFF
    for mode in Mode:
        if value == mode.value:
            return mode
    raise PolicyUnfit(f"{place} must be {', '.join(Mode)}, not {value!r}")


def _template(text: object) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise ValueError(f"must be text, not {text!r}")  # noqa: TRY004  # one kind of fault for whoever lists them
    words = shlex.split(text)
    if not words or _ANY in words[0]:
        raise ValueError("must begin with a program")
    for word in words[1:]:
        if _ANY in word and word != _ANY:
            raise ValueError(f"has {word!r}: `*` stands for whole words only")
    return tuple(words)

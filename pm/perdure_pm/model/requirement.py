"""An entry of a profile's list: a name with versions, from an index, or a source with an address.

Owns: what is one, and its name. Does not own: the form of an address (model.source), where a name comes from
(ops.selection), the list (model.config).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import is_distribution_name, normalise_distribution
from perdure_pm.model.source import Source, read_source, without_secret

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def find_requirement_problem(text: str) -> str | None:
    """Return what keeps `text` from being a requirement from an index, or None."""
    if is_distribution_name(text):
        return None
    from packaging.requirements import InvalidRequirement, Requirement  # not for names alone: it takes 10 ms

    shown = repr(without_secret(text))
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return f"must be a name, or a name with versions such as NAME>=1,<2, is the text {shown}"
    if not is_distribution_name(requirement.name):
        return f"must have a name that begins and ends with a letter or a digit, is the text {shown}"
    if requirement.url is not None:
        return f"must not name an address, only a name with versions, is the text {shown}"
    return None


def find_entry_problem(text: str) -> str | None:
    """Return what keeps `text` from being an entry of a profile's list, or None."""
    found = read_source(text)
    if found is None:
        return find_requirement_problem(text)
    return f"names no usable source ({found}), is the text {without_secret(text)!r}" if isinstance(found, str) else None


def parse_requirement(text: str) -> Requirement:
    """Return a requirement from an index.

    Raises:
        UsageFault: it is none.
    """
    from packaging.requirements import Requirement

    problem = find_requirement_problem(text)
    if problem is not None:
        raise UsageFault(
            f"a plugin {problem}",
            hint="write it as NAME, or as NAME>=1,<2",
            context={"requirement": without_secret(text)},
        )
    return Requirement(text)


def parse_source(text: str) -> Source | None:
    """Return the source that an entry names, or None for a requirement from an index.

    Raises:
        UsageFault: it is no entry.
    """
    found = read_source(text)
    if isinstance(found, str):
        raise UsageFault(
            f"a plugin names no usable source ({found}), is the text {without_secret(text)!r}",
            hint="name its directory or its file instead: perdure-pm plugin add ./DIRECTORY",
            context={"requirement": without_secret(text)},
        )
    return found


def requirement_name(text: str) -> str:
    """Return the normalised name of an entry.

    Raises:
        UsageFault: it is none.
    """
    if is_distribution_name(text):
        return normalise_distribution(text)
    source = parse_source(text)
    return source.name if source is not None else normalise_distribution(parse_requirement(text).name)

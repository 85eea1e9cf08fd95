"""A requirement as a profile lists it: a name with versions, from an index.

Owns: what is one, and its name. Does not own: where it comes from (ops.selection), the list (model.config).
"""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import normalise_distribution


def find_requirement_problem(text: str) -> str | None:
    """Return what keeps `text` from being a requirement of a profile, or None."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return f"must be a name, or a name with versions such as NAME>=1,<2, is the text {text!r}"
    if requirement.url is not None:
        return f"must not name an address, only a name with versions, is the text {text!r}"
    return None


def parse_requirement(text: str) -> Requirement:
    """Return a requirement of a profile.

    Raises:
        UsageFault: it is none.
    """
    problem = find_requirement_problem(text)
    if problem is not None:
        raise UsageFault(
            f"a plugin {problem}", hint="write it as NAME, or as NAME>=1,<2", context={"requirement": text}
        )
    return Requirement(text)


def requirement_name(text: str) -> str:
    """Return the normalised name of a requirement.

    Raises:
        UsageFault: it is none.
    """
    return normalise_distribution(parse_requirement(text).name)

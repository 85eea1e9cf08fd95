"""A grant: a standing answer of a person.

Owns: the value and its scope. Does not own: what it covers (approvals), or where it is kept (store).
"""

from __future__ import annotations

import datetime as dt

from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One standing answer. What is None, does not restrict it; a rule key or a template, exactly one of the two."""

    id: str
    profile: str
    rule_key: str | None = None
    """The code of a reason of classification that it covers, such as ``delete``."""
    argv_template: str | None = None
    """A glob for the words of one plain command."""
    cwd_prefix: str | None = None
    path_prefix: str | None = None
    """Everything that is changed has to lie there."""
    principal: str
    session: str | None = None
    """The session that it lasts for; None where it is for always."""
    created: dt.datetime
    expires: dt.datetime | None = None
    uses_left: int | None = None
    revoked: dt.datetime | None = None
    granted_by: str = ""

    def __post_init__(self) -> None:
        """Refuse one that covers nothing, or whose reach is not clear."""
        if (self.rule_key is None) == (self.argv_template is None):
            raise ValueError("a grant has a rule key or a template of a command, one of the two")

    @property
    def always(self) -> bool:
        """Whether it outlives its session."""
        return self.session is None

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {
            "id": self.id,
            "profile": self.profile,
            "rule_key": self.rule_key,
            "argv_template": self.argv_template,
            "cwd_prefix": self.cwd_prefix,
            "path_prefix": self.path_prefix,
            "principal": self.principal,
            "session": self.session,
            "created": self.created.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "uses_left": self.uses_left,
            "granted_by": self.granted_by,
        }

    def shown(self) -> str:
        """Return what it covers, for people."""
        what = f"`{self.argv_template}`" if self.argv_template is not None else f"{self.rule_key}"
        where = [f"in {place}" for place in (self.cwd_prefix, self.path_prefix) if place is not None]
        return " ".join([what, *where])

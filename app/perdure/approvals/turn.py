"""One turn of an agent: what was declined or denied in it is not asked about a second time.

Owns: remembering that, in whatever form it comes back. Does not own: what an operation comes down to (commands), or
refusing it (decide). Keeps: approvals-denied-once: nobody is asked again in the same turn for what they said no to.
"""

from __future__ import annotations

from perdure.approvals.commands import Judged
from perdure.domain.decision import Decision
from perdure.domain.outcome import Outcome
from perdure.domain.verdict import Ruling


class Turn:
    """What was refused since the turn began."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._refused: dict[frozenset[str], None] = {}

    @property
    def refused(self) -> tuple[frozenset[str], ...]:
        """The keys of what was refused, for `Circumstances.refused_before`."""
        return tuple(self._refused)

    def note_decision(self, judged: Judged, decision: Decision) -> None:
        """Remember what policy denied."""
        if decision.ruling is Ruling.REFUSE and judged.key:
            self._refused[judged.key] = None

    def note_outcome(self, judged: Judged, outcome: Outcome) -> None:
        """Remember what a person declined; what expired or was cancelled nobody said no to."""
        if outcome in {Outcome.DECLINED, Outcome.DENIED} and judged.key:
            self._refused[judged.key] = None

"""The guard as it is asked: a text in, a verdict out.

Owns: putting reading, roots and judging together, with the roots of the moment. Does not own: any of them, or what
follows. Keeps: guard-roots-computed, guard-explained: an explanation's verdict is the one that a run gets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from perdure.domain.effect import Reading
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Verdict
from perdure.guard.judge import judge
from perdure.guard.paths import Protected
from perdure.guard.probe import Probe
from perdure.guard.roots import Root
from perdure.guard.session import BUDGET, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The shell that a text is for."""

    cwd: str
    home: str
    environment: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    """Whether no other variable can be set."""
    hides_state: Callable[[], bool] = lambda: False
    """Whether the app's own state is not there for what is started, as in the jail; asked where it matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one reader made of a text, and what would follow from that alone."""

    reading: Reading
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that led to a verdict."""

    views: tuple[View, ...]
    """The first one is that of the reader that answers; what another one says is for comparison."""
    verdict: Verdict


_KEPT_SECONDS = 1.0
"""What no stamp tells, such as a process that takes a lease, counts after this at the latest."""


@dataclass(frozen=True, slots=True)
class _Kept:
    at: float
    watched: tuple[str, ...]
    stamps: tuple[int | None, ...]
    protected: Protected


class Guard:
    """The guard of one machine."""

    def __init__(
        self,
        roots: Callable[[], Sequence[Root]],
        probe: Probe,
        *,
        homes: Sequence[str],
        watched: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = BUDGET,
    ) -> None:
        """Know how to find out what is protected.

        Args:
            roots: computes the roots.
            probe: the filesystem that they lie in.
            homes: the directories of people's own files.
            watched: the files of which one changes when the roots do: PM may switch generations at any time.
            clock: seconds.
            seconds: how long one text may take; what takes longer is put to a person.
        """
        self._roots = roots
        self._probe = probe
        self._homes = tuple(homes)
        self._watched = watched
        self._clock = clock
        self._seconds = seconds
        self._kept: _Kept | None = None

    def look(self, text: str, *, shell: str, place: Place) -> View:
        """Return what a text that a shell would run does, and what may follow."""
        from perdure.guard.reading import read

        protected = self._protected()
        reading = read(text, shell, self._session(place))
        return View(reading=reading, verdict=judge(reading, protected, self._homes, place.hides_state))

    def look_at(self, reading: Reading) -> View:
        """Return what may follow what was read elsewhere, as an operation on files is."""
        return View(reading=reading, verdict=judge(reading, self._protected(), self._homes))

    def secrets(self) -> tuple[str, ...]:
        """Return the roots that are not to be read either."""
        return tuple(root.path for root in self._protected().secret)

    def judge(self, text: str, *, shell: str, place: Place) -> Verdict:
        """Return what may follow a text that a shell would run."""
        return self.look(text, shell=shell, place=place).verdict

    def explain(self, text: str, *, shell: str, place: Place) -> Explanation:
        """Return the same verdict with all that led to it, and what the other reader would have made of the text."""
        from perdure.guard.reading import read, read_slowly

        session, protected = self._session(place), self._protected()
        readings = [read(text, shell, session)]
        if readings[0].reader == "fast":
            readings.append(read_slowly(text, shell, session))
        views = tuple(
            View(reading=reading, verdict=judge(reading, protected, self._homes, place.hides_state))
            for reading in readings
        )
        return Explanation(views=views, verdict=views[0].verdict)

    def roots(self) -> tuple[Root, ...]:
        """Return what is protected at this moment."""
        return self._protected().roots

    def _protected(self) -> Protected:
        """Return the roots of this moment, from a moment ago where nothing that they depend on has changed since."""
        now, kept = self._clock(), self._kept
        if kept is not None and now - kept.at < _KEPT_SECONDS and kept.stamps == self._stamps(kept.watched):
            return kept.protected
        watched = tuple(self._watched())
        # The stamps come first: a change while the roots are computed makes them differ the next time.
        stamps = self._stamps(watched)
        self._kept = _Kept(now, watched, stamps, Protected(self._roots(), self._probe))
        return self._kept.protected

    def _stamps(self, watched: Sequence[str]) -> tuple[int | None, ...]:
        return tuple(map(self._probe.changed, watched))

    def _session(self, place: Place) -> Session:
        return Session(
            directory=place.cwd,
            home=place.home,
            environment=place.environment,
            complete=place.complete,
            probe=self._probe,
            seconds=self._seconds,
        )

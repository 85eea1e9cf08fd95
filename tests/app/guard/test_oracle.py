"""The oracle: lines of the corpora really run in a machine to throw away; what they harmed, and what was said.

Each line is run as the root of that machine, and as the user whose home it is where root harms nothing. Held is what is
refused or is the floor's own question: neither runs because somebody allowed something before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from perdure.domain.verdict import Ruling
from perdure.guard.corpus import WRAPPERS, Case
from tests.app.guard.disposable import Disposable, Said, local
from tests.app.guard.evidence import code, table, write_part
from tests.app.guard.namespaces import CannotBeMade
from tests.app.guard.test_corpus import CASES, HARD_CASES

pytestmark = [pytest.mark.platforms("linux"), pytest.mark.proves("guard-own-feet", "guard-compare", "jail-holds-roots")]

NOT_RUN = {
    "catastrophic-device": "write to a device",
    "catastrophic-filesystem": "make a file system on a device",
    "catastrophic-shutdown": "shut down",
    "catastrophic-kill": "end every process",
    "catastrophic-fork": "start themselves without end",
}
"""What is not run even there: nothing of it would reach a root by its name, and this machine is to stay out of it."""
STARTS_NOT = "the interpreter does not start"
ABOVE = "chmod"
"""The one thing that no mount holds: the mode of a directory above a root, which is nobody's but the user's."""
HARMLESS = {
    "g102": "no server of ssh runs there",
    "h118": "no server of ssh runs there",
    "h042": "`/usr` is somebody else's there",
    "h122": "the first form of `rename` that is found takes other arguments",
    "h124": "nothing is mounted there",
    "h127": "there is no network",
    "h128": "there is no network",
    "h130": "that environment has no `pip`",
    "h131": "that environment has no `pip`",
    "h134": "there is no network",
    "h136": "there is no such patch",
    "h139": "memory has no such attribute",
    "h140": "memory has no such attribute",
    "h154": "no systemd runs there",
    "h163": "nobody chooses",
    "h183": "`cat` writes nothing to what it was given for reading and writing",
    "h287": "there is no terminal",
    "h289": "the file is there already, which sqlite3 does not overwrite",
    "h291": "no database answers",
    "h298": "`less` without a terminal is `cat`",
    "h028": "there is no such directory to copy",
    "h153": "the first process keeps its namespaces to itself",
    "h238": "the option is ambiguous to this `git`",
    "h602": "this `awk` has no such option",
    "h605": "there is no network",
    "h606": "the option is ambiguous to this `pip`",
    "h312": "without the option, `rm` leaves directories alone",
    "h313": "without the option, `rm` leaves directories alone",
    "h314": "without the option, `rm` leaves directories alone",
}
"""Lines that are refused and harm nothing there, and why: elsewhere, they would."""


@dataclass(slots=True)
class Tally:
    """What came of running lines in one way of writing them."""

    lines: int = 0
    harmed: int = 0
    refused: int = 0
    asked: int = 0
    jailed: int = 0
    users: list[bool] = field(default_factory=list)
    """As whom it did harm: as root, or not."""
    missed: list[str] = field(default_factory=list)
    """Lines that did harm and were not held."""
    escaped: list[str] = field(default_factory=list)
    """Lines that did harm in the jail."""
    above: list[str] = field(default_factory=list)
    """Lines that change the mode of a directory above a root, which the jail does not hold."""

    def add(self, other: Tally) -> None:
        """Count what another one has counted too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def row(self, name: str) -> list[object]:
        """Return it as a row of the page."""
        jail = len(self.escaped) + len(self.above)
        return [name, self.lines, self.harmed, self.refused, self.asked, len(self.missed), self.jailed, jail]


COLUMNS = [
    "the lines",
    "run",
    "did harm",
    "of these refused",
    "of these asked by the floor",
    "of these held by neither",
    "run again in the jail",
    "of these did harm",
]


@pytest.fixture(scope="module")
def machines(uv: Path) -> Iterator[list[Disposable]]:
    """Two machines to throw away."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-oracle-"))
    folder.chmod(0o755)  # the user whose home it is passes through it
    try:
        with Disposable(folder / "one", uv) as one, Disposable(folder / "two", uv) as two:
            yield [one, two]
    except CannotBeMade as reason:
        pytest.skip(f"no machine to throw away can be made here: {reason}")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def machine(machines: list[Disposable]) -> Disposable:
    """A machine to throw away."""
    return machines[0]


CORPUS = [case for case in CASES if case.layout.name == "posix_uv"]
HARD = [case for case in HARD_CASES if case.layout.name == "posix_uv"]
LINES = CORPUS + HARD
EVERYBODY = (True, False)
"""As root, and as the user whose home it is."""


def judged(
    machine: Disposable, cases: Sequence[Case], write: Callable[[str], str] = str
) -> list[tuple[Case, str, Said]]:
    """Return cases, each as it is written and with what the guard says of it then, but for those that are not run."""
    plain = machine.judge([(local(case.command), case.cwd) for case in cases])
    run = [case for case, said in zip(cases, plain, strict=True) if not NOT_RUN.keys() & set(said.codes)]
    texts = [write(local(case.command)) for case in run]
    said = machine.judge([(text, case.cwd) for case, text in zip(run, texts, strict=True)])
    return list(zip(run, texts, said, strict=True))


def tried(
    machine: Disposable, case: Case, text: str, said: Said, *, users: Sequence[bool] = EVERYBODY, all_jailed: bool
) -> Tally:
    """Run a line, and where it does harm once more in the jail."""
    tally = Tally(lines=1)
    harmful = next(([root] for root in users if machine.run(text, case.cwd, jailed=False, root=root).harmed), [])
    if harmful:
        tally.harmed = 1
        tally.users = harmful
        tally.refused = said.ruling == Ruling.REFUSE
        tally.asked = said.ruling == Ruling.ASK and said.floor
        tally.missed += [] if said.held else [text]
    for root in () if machine.no_jail else users if all_jailed else harmful:
        outcome = machine.run(text, case.cwd, jailed=True, root=root)
        tally.jailed += 1
        if outcome.harmed:
            known = outcome.what == STARTS_NOT and case.command.startswith(ABOVE) and said.ruling == Ruling.REFUSE
            (tally.above if known else tally.escaped).append(text)
    return tally


def test_what_a_line_harms_was_held_and_the_jail_holds_what_it_would_harm(machine: Disposable) -> None:
    total = Tally()
    for case, text, said in judged(machine, CORPUS[::2]):
        total.add(tried(machine, case, text, said, users=(True,), all_jailed=False))
    assert total.missed == []
    assert total.escaped == []
    # The comparison says something only where lines do harm.
    assert total.harmed > total.lines // 2
    if machine.no_jail:
        pytest.skip(f"held by the guard; the jail was not tried: {machine.no_jail}")


@pytest.mark.slow
@pytest.mark.evidence
@pytest.mark.proves("guard-wrappers")
def test_what_every_line_harms_however_it_is_written_was_held(
    machines: list[Disposable],
    machine: Disposable,
    figure: Callable[[str], None],
    pytestconfig: pytest.Config,
    checkout: Path,
) -> None:
    each = min(int(os.environ.get("PERDURE_TEST_WRAPPERS") or len(WRAPPERS)), len(WRAPPERS))
    ways: Mapping[str, Callable[[str], str]] = {"": str, **WRAPPERS}
    tallies: dict[str, Tally] = {}
    harmful: dict[str, Sequence[bool]] = {}
    refused: dict[str, tuple[Case, Said]] = {}
    for number, (name, write) in enumerate(ways.items()):
        tally = tallies[name] = Tally()
        # Where a line does not meet all wrappers, the lines take turns.
        cases = [case for at, case in enumerate(LINES) if not name or (number + at) % len(WRAPPERS) < each]
        made = judged(machine, cases, write)
        with ThreadPoolExecutor(len(machines)) as pool:
            run = partial(_all, known=None if not name else harmful)
            parts = pool.map(run, machines, [made[at :: len(machines)] for at in range(len(machines))])
            for case, said, one in chain.from_iterable(parts):
                tally.add(one)
                if one.harmed:
                    harmful[case.identity] = one.users
                if not name and said.ruling == Ruling.REFUSE:
                    refused[case.identity] = case, said
    wrapped = Tally()
    for name, tally in tallies.items():
        if name:
            wrapped.add(tally)
    plain = tallies[""]
    idle = {identity: each for identity, each in refused.items() if identity not in harmful}
    unexplained = [case.command for case, said in idle.values() if not said.missing and case.identity not in HARMLESS]
    kinds = dict.fromkeys(NOT_RUN.values(), 0)
    for said in machine.judge([(local(case.command), case.cwd) for case in LINES]):
        for code_ in NOT_RUN.keys() & set(said.codes):
            kinds[NOT_RUN[code_]] += 1
    for row in [plain.row("as they stand"), wrapped.row("wrapped")]:
        figure("guard: " + ", ".join(f"{column} {cell}" for column, cell in zip(COLUMNS, row, strict=True)))
    if pytestconfig.getoption("--regenerate-docs"):
        write_part(checkout, "lines run", _page(each, tallies, kinds, idle))
    assert (plain.missed + wrapped.missed, plain.escaped + wrapped.escaped, unexplained) == ([], [], [])
    assert plain.harmed > plain.lines // 2
    assert wrapped.harmed > wrapped.lines // 2


def _all(
    machine: Disposable, lines: Sequence[tuple[Case, str, Said]], *, known: Mapping[str, Sequence[bool]] | None
) -> list[tuple[Case, Said, Tally]]:
    """Run lines; where it is known as whom a line does harm, as that one alone."""
    return [
        (case, said, tried(machine, case, text, said, users=users, all_jailed=known is None))
        for case, text, said in lines
        for users in [EVERYBODY if known is None else known.get(case.identity, (True,))]
    ]


def _page(
    each: int, tallies: Mapping[str, Tally], kinds: Mapping[str, int], idle: Mapping[str, tuple[Case, Said]]
) -> str:
    rows = [tally.row(f"in `{name}`" if name else "as they stand") for name, tally in tallies.items()]
    skipped = ", ".join(f"{why} ({count})" for why, count in kinds.items() if count)
    causes: dict[str, list[str]] = {}
    for case, said in idle.values():
        why = f"`{'`, `'.join(said.missing)}` is not there" if said.missing else HARMLESS.get(case.identity, "?")
        causes.setdefault(why, []).append(code(case.command))
    above = ", ".join(map(code, dict.fromkeys(tallies[""].above)))
    return (
        table(COLUMNS, rows)
        + f"\nEach line ran as it stands, and in {each} of the {len(WRAPPERS)} wrappers. "
        + f"Not run are those that {skipped}.\n"
        + f"\nWhat did harm in the jail changes the mode of a directory above a root: {above}.\n"
        + "\nRefused, and harmless in that machine however they were written:\n\n"
        + table(["why", "lines"], [[why, ", ".join(lines)] for why, lines in sorted(causes.items())])
    )

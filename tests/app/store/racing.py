"""One of several processes that all want to answer and claim the same proposals.

Owns: its tries, and telling which of them won. Does not own: the proposals, or counting (test_races).
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

from perdure.domain.errors import ProposalSettled, StoreBusy
from perdure.domain.proposal import Answer
from tests.app.store.proposals import NOW, OPERATOR, SECOND, store_in


def patiently(act: Callable[[], object]) -> object:
    """Return what comes of it, where a machine that stands still has let nobody write for seconds as well."""
    while True:
        with contextlib.suppress(StoreBusy):
            return act()


def main(place: str, number: int, ids: list[str]) -> None:
    """Try each, and print what was won."""
    store, won = store_in(Path(place)), list[tuple[str, str]]()
    sys.stdin.readline()
    for identity in ids:
        with contextlib.suppress(ProposalSettled):
            patiently(
                functools.partial(store.answer, identity, Answer(approve=number % 4 != 0), OPERATOR, NOW + SECOND)
            )
            won.append(("answered", identity))
        if patiently(functools.partial(store.begin, identity, f"{identity} {number}", f"run-{number}", NOW + SECOND)):
            won.append(("claimed", identity))
    json.dump(won, sys.stdout)


if __name__ == "__main__":
    main(*json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))

"""The dry run and the run are one function: random commands, policies and authorities, and what it costs."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.approvals.commands import judged
from perdure.approvals.decide import Circumstances, decide
from perdure.approvals.grants import grant_of_line
from perdure.approvals.policy import parse_policy
from perdure.cli.approving import Decider
from perdure.domain.operation import Surface
from perdure.guard.judge import judge
from perdure.guard.reading import read
from perdure.guard.service import View
from perdure.guard.session import Session
from tests.app.approvals.made import CWD, NOW, authority, operation, policy
from tests.app.guard.layouts import HOME, VENV, protected

ROOTS = protected()
WORDS = st.sampled_from(
    ["ls", "sudo", "rm", "-rf", "git", "push", "--force", "frobnicate", "build", "/", VENV, "$X", '"$(cat x)"', "*"]
)
JOINTS = st.sampled_from([" ", " ", " ", "; ", " && ", " | ", " > ", "\n"])
LINES = st.lists(st.tuples(WORDS, JOINTS), min_size=1, max_size=7).map(
    lambda pairs: "".join(itertools.chain.from_iterable(pairs)).strip()
)
RULES = st.lists(st.sampled_from(["sudo *", "git push*", "rm *", "ls", "*", "frob*"]), max_size=2)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["manual", "off", "auto", False, 3]),
        "deny": RULES | st.just("sudo *"),
        "ask": RULES,
        "unattended": st.dictionaries(
            st.sampled_from(["cron", "api", "webhook"]), st.sampled_from(["approve", "refuse", "x"]), max_size=3
        ),
    },
)
AUTHORITIES = st.builds(
    lambda surface, answerable, yolo: authority(surface=surface, answerable=answerable, yolo=yolo),
    st.sampled_from(list(Surface)),
    st.booleans(),
    st.booleans(),
)
LISTS = st.lists(st.sampled_from(["frobnicate *", "rm *", "unknown-program", "git push *", "*"]), max_size=3)


def view_of(line: str) -> View:
    session = Session(directory=CWD, home=HOME, environment={"HOME": HOME}, complete=True, seconds=5)
    reading = read(line, "bash", session)
    return View(reading=reading, verdict=judge(reading, ROOTS, (HOME,)))


@pytest.mark.proves("approvals-dry-run-same")
@settings(max_examples=150, deadline=None)
@given(line=LINES, said=POLICIES, who=AUTHORITIES, lines=LISTS, isolated=st.booleans())
def test_a_dry_run_is_what_a_run_gets(
    line: str, said: dict[str, object], who: object, lines: list[str], isolated: bool
) -> None:
    spent: list[str] = []
    grants = tuple(grant_of_line(text, "p", "you", NOW) for text in lines)

    def spend(grant: str, now: dt.datetime) -> bool:
        spent.append(grant)
        return True

    def decider(*, runs: bool) -> Decider:
        return Decider(
            policy=parse_policy(said),
            authority=who,  # type: ignore[arg-type]
            grants=lambda now: grants,
            spend=spend if runs else None,
            isolated=lambda backend: isolated,
            now=lambda: NOW,
        )

    view = view_of(line)
    dry, real = (decider(runs=runs).decide(operation(line), view) for runs in (False, True))
    assert dry == real
    assert spent == []


@pytest.mark.slow
def test_a_decision_costs_little_with_grants_and_rules(figure: Callable[[str], None]) -> None:
    grants = tuple(grant_of_line(f"tool{number} *", "p", "you", NOW) for number in range(50))
    rules = policy(deny=[*(f"bad{number} *" for number in range(20)), "sudo *"], ask=["ssh *"])
    times: dict[bool, list[float]] = {False: [], True: []}
    lines = {False: ("ls -la", "git status", "frobnicate -x", "cp a b"), True: ('for f in *; do wc -l "$f"; done',)}
    for slow, texts in lines.items():
        for line in texts * (200 if not slow else 40):
            # The slow reader counts with it; what the fast one takes is the guard's own figure.
            begun = time.process_time()
            seen = view_of(line)
            begun = begun if slow else time.process_time()
            decide(
                operation(line),
                judged(operation(line), seen.reading, seen.verdict),
                authority(),
                rules,
                Circumstances(now=NOW, grants=grants),
            )
            times[slow].append(time.process_time() - begun)
    fast = sorted(times[False])
    median, late, slowest = fast[len(fast) // 2], fast[len(fast) * 99 // 100], sorted(times[True])[-3]
    figure(f"decide: {median * 1e6:.0f} µs median (target 300), {late * 1e6:.0f} p99 (target 1000)")
    figure(f"decide: {slowest * 1e3:.1f} ms with the slow reader (target 10)")
    assert median < 900e-6
    assert late < 3e-3


@pytest.mark.slow
def test_time_grows_with_the_length_and_no_faster(figure: Callable[[str], None]) -> None:
    def cost(words: int) -> float:
        line = "frobnicate " + " ".join(f"w{number}" for number in range(words))
        view = view_of(line)
        best = 9.0
        for _ in range(5):
            begun = time.process_time()
            decide(
                operation(line),
                judged(operation(line), view.reading, view.verdict),
                authority(),
                policy(deny=["sudo *", "git push --force*"], ask=["ssh *"]),
                Circumstances(now=NOW, grants=(grant_of_line("cargo *", "p", "you", NOW),)),
            )
            best = min(best, time.process_time() - begun)
        return best

    short, long = cost(100), cost(900)
    figure(f"decide: {short * 1e6:.0f} µs for 100 words, {long * 1e6:.0f} for 900")
    assert long < 25 * short

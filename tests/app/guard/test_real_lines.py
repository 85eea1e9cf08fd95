"""Command lines that people wrote: nothing harmless among them is refused, and the floor asks about few.

The slow test goes through what the machine has, and with `--regenerate-docs` writes its part of
docs/reference/guard-evidence.md. `PERDURE_TEST_COMMANDS` may name a table of examples that is not kept
here.
"""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from perdure.domain.verdict import FLOOR_REASONS, Reason, Ruling
from perdure.guard.probe import Machine
from perdure.guard.service import Guard, Place
from tests.app.guard.evidence import table, write_part
from tests.app.guard.real_lines import as_typed, collection, manual_examples, package_scripts
from tests.app.guard.test_corpus import CASES, COMMANDS

MANUALS = Path("/usr/share/man")
PACKAGES = Path("/var/lib/dpkg/info")
TRUE = ("catastrophic-shutdown", "lets-somebody-in")
"""Refusals that are true: a line that shuts down, or writes `sudoers`, is refused whoever gives it as an example."""


def test_an_example_of_a_manual_page_is_found_as_it_is_typed(tmp_path: Path) -> None:

    page = (
        ".SH NAME\nx\n.SH EXAMPLES\n.nf\n$ tar \\-xf \\fIa.tar\\fR | \\*(Aqb\\*(Aq\n"
        "# a remark\nx \\-\\-list\nsome text\n.fi\nx no\n"
    )
    (tmp_path / "x.1.gz").write_bytes(gzip.compress(page.encode()))
    assert list(manual_examples(tmp_path)) == ["tar -xf a.tar | 'b'", "x --list"]
    notation = [
        "<Ctrl c>",
        "a start|stop",
        "a [options]",
        "git diff  (1)",
        "a b (for all)",
        "for a in b; do",
        "cat <<EOF",
        "echo 'a",
        "a \\",
    ]
    assert [line for line in notation if as_typed(line)] == []
    assert as_typed("cat a | sort > b")


@pytest.mark.slow
@pytest.mark.evidence
@pytest.mark.platforms("linux")
@pytest.mark.proves("guard-catastrophic-true", "guard-others-free")
def test_of_real_command_lines_none_is_refused_wrongly_and_few_are_asked_by_the_floor(
    figure: Callable[[str], None], pytestconfig: pytest.Config, checkout: Path
) -> None:
    listed = Path(os.environ.get("PERDURE_TEST_COMMANDS") or COMMANDS)
    manuals = [line for section in (1, 8) for line in manual_examples(MANUALS / f"man{section}")]
    sources = {
        "examples of the tldr pages, as text": list(collection(listed)),
        "the same, as typed": [line for line in collection(listed) if as_typed(line)],
        "examples of manual pages, as typed": [line for line in manuals if as_typed(line)],
        "whole scripts of packages": list(package_scripts(PACKAGES)),
    }
    rows: list[list[object]] = []
    kinds: list[list[object]] = []
    for name, texts in sources.items():
        counts, reasons, false = _said(texts, scripts="scripts" in name)
        assert false == []
        total = max(sum(counts.values()), 1)
        asked = counts["ask (floor)"] / total
        kinds += [[name, f"`{code}`", kind, count] for (code, kind), count in reasons.most_common()]
        by_floor = f"{counts['ask (floor)']} ({asked:.2%})"
        rows.append([name, total, counts["allow"], counts["ask"], by_floor, counts["refuse"]])
        figure(f"guard: {name}: {total}, of which the floor asks about {asked:.2%}")
        assert asked <= (0.05 if "scripts" in name else 0.005)
    if pytestconfig.getoption("--regenerate-docs"):
        said = table(["what", "texts", "allowed", "asked", "asked by the floor", "refused"], rows)
        why = table(["what", "code", "the floor asks because", "texts"], kinds)
        write_part(checkout, "real lines", f"{said}\n{why}")


def _kind(reason: Reason) -> str:
    """Return why the floor asks, without the names of one text."""
    if reason.code != "not-analysable":
        return FLOOR_REASONS[reason.code].removeprefix("asked: ")
    return re.sub(r"^.*?: | \(.*\)|'.*'", "", reason.text)


def _said(texts: Iterable[str], *, scripts: bool) -> tuple[Counter[str], Counter[tuple[str, str]], list[str]]:
    """Return the verdicts, the reasons of the floor's questions, and what was refused without need."""
    layout = CASES[0].layout
    # A script of a package reads others that lie on this machine; a single line stands for itself.
    guard = Guard(lambda: layout.roots, Machine() if scripts else layout.probe, homes=(layout.home,), seconds=5)
    place = Place(cwd="/srv/work", home=layout.home, environment={"HOME": layout.home})
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    false: list[str] = []
    for text in dict.fromkeys(texts):
        verdict = guard.judge(text, shell="bash", place=place)
        counts["ask (floor)" if verdict.floor and verdict.ruling is Ruling.ASK else verdict.ruling.value] += 1
        if verdict.floor and verdict.ruling is Ruling.ASK:
            reasons[verdict.reasons[0].code, _kind(verdict.reasons[0])] += 1
        if verdict.ruling is Ruling.REFUSE and verdict.reasons[0].code not in TRUE:
            false.append(f"{text}: {verdict.reasons[0].text}")
    return counts, reasons, false

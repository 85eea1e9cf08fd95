"""That every case which cases.toml lists is tried by tests that are there, and that none is missing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS = [*range(21, 74), *range(84, 100), *range(113, 122)]


def test_every_case_is_tried_by_tests_that_are_there() -> None:
    cases = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    assert list(map(int, cases)) == NUMBERS
    gone = []
    for number, case in cases.items():
        assert set(case) in ({"case", "tests"}, {"case", "not_here"}), number
        for test in case.get("tests", ()):
            path, _, name = test.partition("::")
            source = (HERE.parent / path).read_text(encoding="utf-8")
            if re.search(rf"^(?:def|class) {name}\(", source, re.MULTILINE) is None:
                gone.append(f"{number}: {test}")
    assert gone == []
    assert all(case.get("tests", True) for case in cases.values())

"""That every case which cases.md lists is named by a test, and no other is."""

import re
from pathlib import Path

HERE = Path(__file__).parent
_LISTED = re.compile(r"^(\d+)\. ", re.MULTILINE)
_NAMED = re.compile(r'^    """Cases? ([\d, and]+)[:.]', re.MULTILINE)


def test_every_listed_case_is_named_by_a_test() -> None:
    listed = [int(number) for number in _LISTED.findall((HERE / "cases.md").read_text())]
    files = [*HERE.glob("test_*.py"), HERE.parent / "perf" / "test_compat_cost.py"]
    named = {
        int(number)
        for path in files
        for numbers in _NAMED.findall(path.read_text())
        for number in re.findall(r"\d+", numbers)
    }
    assert listed == list(range(1, 41))
    assert named == set(listed)

"""Hostile texts are answered within the budget and without much memory: with a question to a person, if need be.

Measured is the time of the processor and the memory of a process of its own, and of the readers that it starts: a
machine that is busy changes neither.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.platforms("linux", "darwin")

WORDS = " ".join(f"a{number}" for number in range(2_700))
NESTED = 500
TEXTS = {
    "128 KiB of one word": "rm " + "a" * 131_072,
    "128 KiB of words": "rm " + "ab " * 43_690,
    "128 KiB of dollars": "$" * 131_072,
    "16 KiB of words that are split": f'v="{WORDS}"; rm $v',
    "16 KiB of dollars": "$" * 16_000,
    "16 KiB of parentheses": "(" * 16_000,
    "16 KiB of stars": "rm -rf " + "*a" * 8_000,
    "16 KiB of stars and slashes": "rm -rf /" + "*/" * 8_000,
    "16 KiB of here-documents": "cat <<E\n" * 2_000,
    "3,000 pipes": "rm a" + " | cat" * 3_000,
    "2,600 pipes": "rm a" + " | cat" * 2_600,
    "2,600 ways on": "rm a" + " && b" * 2_600,
    "500 subshells": "(" * NESTED + "rm x" + ")" * NESTED,
    "500 groups": "{ " * NESTED + "rm x" + "; }" * NESTED,
    "500 substitutions": "echo " + "$(" * NESTED + "rm x" + ")" * NESTED,
    "500 quoted substitutions": "echo " + '"$(' * NESTED + "rm x" + ')"' * NESTED,
    "500 branches": "if true; then " * NESTED + "rm x" + "; fi" * NESTED,
    "500 loops": "while true; do " * NESTED + "rm x" + "; done" * NESTED,
    "500 defaults": "echo " + "${x:-" * NESTED + "y" + "}" * NESTED,
    "500 sums": "echo $((" + "(" * NESTED + "1" + ")" * NESTED + "))",
    "code in code": 'x="rm x";' + 'x="eval \\"$x\\"";' * 40 + 'eval "$x"',
    "functions that call three others": "".join(f"f{n}(){{ f{n + 1}; f{n + 1}; f{n + 1}; }};" for n in range(60))
    + "f0",
    "a function of several positionals": (
        "f() { set -- * ${a[*]} $v; f a$@b ${a[*]} $@; }; if x; then a=(1 2 3); else a=(4 5 6); v=c; fi; "
        'set -- $v ${a[@]} $v ${a[@]} $v ${a[@]}; for i in 1 2; do f "$@"$v$@; done'
    ),
    "a text that doubles": "a=*;" + 'a="$a$a";' * 400 + "rm $a",
    "braces of braces": "rm " + "{1..99999}" * 8,
    "a prefix with many stars": "x=" + "a" * 8_000 + "; rm ${x##" + "*a" * 12 + "*b}",
    "a replacement with many stars": "x=" + "a" * 8_000 + "; rm ${x//" + "*a" * 12 + "*b/c}",
    "a hundred million blanks": 'x=$(printf "%100000000d" 1); rm "$x"',
    "4,000 statements of Python": "python3 -c '" + "x=1\n" * 4_000 + "'",
    "a search with 1,400 names": "find . " + "-name x -o " * 1_400 + "-delete",
    "2,400 directories": "cd a || cd b;" * 1_200 + "rm x",
    "a program of sed": "sed '" + "s/[a/" * 3_000 + "'",
    "a program of awk": "awk '" + '{print "a" > "b"}' * 900 + "'",
}
CODE = """
import json, resource, sys, time
from perdure.guard.layout import LayoutProbe
from perdure.guard.roots import environment_roots
from perdure.guard.service import Guard, Place
probe = LayoutProbe()
roots = environment_roots("/h/app/.venv/bin/python", "/h/app/.venv", "/h/base", probe)
guard = Guard(lambda: roots, probe, homes=("/h",))
place = Place(cwd="/h/app", home="/h", environment={"HOME": "/h"})
guard.judge("if true; then rm a; fi", shell="bash", place=place)
def now():
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
before = now()
verdict = guard.judge(sys.stdin.read(), shell="bash", place=place)
after = now()
spent = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after))
grown = [b.ru_maxrss - a.ru_maxrss for a, b in zip(before, after)]
print(json.dumps([verdict.ruling.value, verdict.floor, spent, grown]))
"""


@pytest.mark.proves("guard-bounded")
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_is_answered_in_time_and_without_much_memory(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], input=TEXTS[name], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    ruling, _, seconds, (own, readers) = json.loads(done.stdout)
    unit = 1 if sys.platform == "darwin" else 1024
    assert ruling == "ask"
    # The budget is 0.1 s by the clock; ending what is over it, and judging what was read, comes on top.
    assert seconds < 0.25, seconds
    assert own * unit < 32 << 20, own
    assert readers * unit < 128 << 20, readers

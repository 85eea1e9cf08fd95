"""`sed` and `awk`: what their programs write and run, and that nothing which does more counts as reading alone.

What is compared with is a real `sed` and `awk`: a program that is said to read and print alone leaves no file behind.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.guard import values
from perdure.guard.little_languages import deeds, only_prints

PRINTS = [
    ("sed", "s/a/b/g"),
    ("sed", "s|/usr|/opt|;s,x,y,2p"),
    ("sed", "/^#/d;/a/,/b/{s/x/y/;p}"),
    ("sed", r"$!N;s/\n/ /;P;D"),
    ("sed", "1,5p;10q"),
    ("sed", "s/w .venv/x/"),
    ("sed", "y/abc/xyz/;="),
    ("sed", ":a;N;$!ba;s/\\n/,/g"),
    ("sed", "a\\\nw x\\\ne y"),
    ("sed", "0~3p;\\,x,Ip"),
    ("awk", "{print $1, $NF}"),
    ("awk", "$1 > 5 {print $2}"),
    ("awk", '{if ($3>10) print; else printf("%s\\n", ($1 > $2))}'),
    ("awk", 'BEGIN{FS="|"} /a\\/b|c>d/ {n++} END{print n/2}'),
    ("awk", 'a || b {print "x > y | z"} # > x'),
    ("awk", 'while ((getline line < "x") > 0) n++'),
    ("awk", '{gsub(/[^a-z]/, ""); print length($0)}'),
]
DOES = [
    ("sed", "w x", ["x"], []),
    ("sed", "s/a/b/gw x y", ["x y"], []),
    ("sed", "$!{p;w x\n}", ["x"], []),
    ("sed", "/[a]/W x", ["x"], []),
    ("sed", "s/a/b/;1e rm x/", [], ["rm x/"]),
    ("sed", "a text\\\\\nw x", ["x"], []),
    ("sed", "bend;w x\n:end", ["x"], []),
    ("awk", 'BEGIN{print "a" > "x"}', ["x"], []),
    ("awk", 'BEGIN{print "a",\n"b" >> "x"}', ["x"], []),
    ("awk", '{print($1)(2) > "x"; close("x")}', ["x"], []),
    ("awk", 'BEGIN{print "a" | "sh"}', [], ["sh"]),
    ("awk", 'BEGIN{system("rm x") ; "date" | getline d}', [], ["rm x", "date"]),
    ("awk", 'BEGIN { while (("ls" | getline f) > 0) print f }', [], ["ls"]),
    ("awk", '{print / > / > "x"}', ["x"], []),
]
NOT_SETTLED = [
    ("sed", "s/a/b/e"),
    ("sed", "e"),
    ("sed", "s/a/b/ge"),
    ("sed", "s/[/]/x/"),
    ("sed", "s/a"),
    ("sed", "k"),
    ("awk", "{print > $1}"),
    ("awk", 'BEGIN{system("rm " x)}'),
    ("awk", "BEGIN{c | getline}"),
    ("awk", 'BEGIN{print > "a" b}'),
    ("awk", 'BEGIN{f="system"; @f("rm x")}'),
    ("awk", '@load "x"'),
    ("awk", '/[/] {print > "x"} /]/'),
    ("awk", 'BEGIN{print 1 > "\\170"}'),
]


@pytest.mark.proves("guard-little-languages")
@pytest.mark.parametrize(("language", "code"), PRINTS)
def test_a_program_that_reads_and_prints_does_nothing_else(language: str, code: str) -> None:
    assert deeds(language, code).none


@pytest.mark.proves("guard-little-languages")
@pytest.mark.parametrize(("language", "code", "written", "run"), DOES)
def test_what_a_program_writes_and_runs_is_found(language: str, code: str, written: list[str], run: list[str]) -> None:
    found = deeds(language, code)
    assert (found.written, found.run, found.settled) == (written, run, True)


@pytest.mark.proves("guard-little-languages")
@pytest.mark.parametrize(("language", "code"), NOT_SETTLED)
def test_what_is_not_spelled_out_is_not_settled(language: str, code: str) -> None:
    assert not deeds(language, code).none


@pytest.mark.proves("guard-little-languages")
@pytest.mark.parametrize(
    "line",
    [
        "sed p -e w\\ x",
        "sed -e p -e e",
        "sed -f x y",
        "awk -f x",
        "gawk -ox 1",
        "gawk -px 1",
        "gawk --dump=x 1",
        "gawk -lreaddir 1",
        "awk -E x",
    ],
)
def test_a_command_line_with_more_than_a_program_that_prints_is_none(line: str) -> None:
    name, *words = line.replace("\\ ", "\0").split()
    assert not only_prints(name, [values.text(word.replace("\0", " ")) for word in words])


@pytest.mark.platforms("linux")
@pytest.mark.proves("guard-little-languages")
@pytest.mark.parametrize(("language", "code"), [*PRINTS, *[(name, code) for name, code, _, _ in DOES], *NOT_SETTLED])
def test_what_is_said_to_print_leaves_no_file_behind(language: str, code: str, tmp_path: Path) -> None:
    program = shutil.which(language)
    if program is None:
        pytest.skip(f"there is no {language} here")
    (tmp_path / "x").write_text("a\nb\n")
    subprocess.run(
        [program, code, "x"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=10,
        env={"PATH": ""},
    )
    kept = [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_text() == "a\nb\n"
    assert kept or not deeds(language, code).none

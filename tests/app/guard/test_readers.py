"""The two readers: what they make of a text, that they agree, and that no text gets them off their feet."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.guard import fast_reader, shfmt_reader
from perdure.guard.tree import Aside, Chain, Literal, Parameter, Pipe, Script, Simple, UnreadableError

PATIENCE = 10.0

BY_BOTH = [
    "rm -rf .venv",
    "rm  -rf\t'a b'\"c $d\"e\\ f ~/x ~u/y",
    "rm 2>/dev/null -rf x",
    "rm >out 2>&1 <in &>all -rf x",
    "a=1 b=$c d+=e f= rm x",
    "a | b || c && d; e & f",
    'a;b\n\n# a comment\n  c # another " $(\nd',
    "a \\\n  -b \\\n  c",
    'echo $a ${b} "$c" $1 $@ "$*" $? $$ $#',
    "find . -name '*.pyc' -exec rm {} \\;",
    'echo "a\\"b\\\\c\\$d\\e"',
    "rm *.[ab]? ./.v*",
    "a=~/b:~/c",
    "> x",
    "x='' y=\"\" z",
    "echo a#b #c",
    '[ -n "$x" ] && y',
    "echo 2 >x 3>y",
    "env -i A=b c",
    "echo ! a!b",
]

NOT_FOR_THE_FAST_ONE = [
    "echo $(ls)",
    "echo `ls`",
    "(a)",
    "{ a; }",
    "if a; then b; fi",
    "! a",
    "f() { a; }",
    "cat <<E\na\nE",
    "a <<< b",
    "a <(b)",
    "echo $'a\\n'",
    'echo $"a"',
    "echo {a,b}",
    "echo ${a:-b}",
    "echo $((1))",
    "a[1]=b",
    "a=(b c)",
    "export A=b",
    "[[ -n a ]]",
    "time a",
    "a |& b",
    "{fd}>x a",
    "echo é",
    "a\rb",
    "a\x00b",
    "a\x0bb",
    "a >&$b",
    "a >&file",
    "echo a\\\nb",
    "a &\\\n> b",
    'echo "a\\\nb"',
    "echo $a\\\nb",
    "a; ; b",
    "a &&",
    "| a",
    "a '",
    'a "',
    "a \\",
    "a )",
    "a }",
    "case a in b) c;; esac",
    "2\\\n> x",
]


def by_shfmt(text: str) -> Script | None:
    try:
        return shfmt_reader.parse(text, seconds=PATIENCE)
    except UnreadableError:
        return None


@pytest.mark.parametrize("text", BY_BOTH)
def test_both_readers_make_the_same_of_a_plain_line(text: str) -> None:
    tree = fast_reader.parse(text)
    assert tree is not None
    assert tree == by_shfmt(text)


@pytest.mark.parametrize("text", NOT_FOR_THE_FAST_ONE)
def test_the_fast_reader_leaves_all_other_grammar_to_the_slow_one(text: str) -> None:
    assert fast_reader.parse(text) is None


def test_a_tree_says_what_was_quoted() -> None:
    (command,) = fast_reader.parse("rm 'a'b\"$c\"") or ()
    assert isinstance(command, Simple)
    assert command.words[1].parts == (
        Literal("a", quoted=True),
        Literal("b", quoted=False),
        Literal("", quoted=True),
        Parameter("c", quoted=True),
    )


def test_separators_become_their_own_nodes() -> None:
    first, second = fast_reader.parse("a | b && c & d") or ()
    assert isinstance(first, Aside)
    assert isinstance(first.command, Chain)
    assert isinstance(first.command.left, Pipe)
    assert isinstance(second, Simple)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a '", "without closing quote"),
        ("a\rb", "control character"),
        ("a\x00b", "control character"),
        ("a " * 20_000, "longer than"),
        ("a\n" * 6_000, "too many parts"),
        ("if", "must be followed"),
        ("echo `b # a \\\nrm b`", "ends in a backslash"),
        ("# a \\\n" * 20, "ends in a backslash"),
    ],
)
def test_the_slow_reader_says_why_it_does_not_understand(text: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        shfmt_reader.parse(text, seconds=PATIENCE)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("(echo # a \\\nrm b)", "(echo\nrm b)"),
        ("echo a # b \\\nrm é # c \\\nrm d", "echo a\nrm é\nrm d"),
        ("# a \\\n# b \\\nrm c", "rm c"),
        ("x=$(a # b \\\nrm c)", "x=$(a\nrm c)"),
        ("cat <<E\n# b \\\nE\nE\nrm c", "cat <<E\n# b E\nE\nrm c"),
        ("echo '# a \\\nb' \"# c \\\nd\"", "echo '# a \\\nb' \"# c d\""),
    ],
)
def test_a_comment_ends_with_its_line_also_behind_a_backslash(text: str, same: str) -> None:
    assert _words(shfmt_reader.parse(text, seconds=PATIENCE)) == _words(shfmt_reader.parse(same, seconds=PATIENCE))


def _words(tree: object) -> str:
    """Return a tree without the places where its parts are."""
    return re.sub(r"Span\(start=\d+, end=\d+\)", "", repr(tree))


def test_the_slow_reader_is_stopped_when_its_time_is_up() -> None:
    with pytest.raises(UnreadableError, match=r"too long|too many parts"):
        shfmt_reader.parse("a|" * 3_000 + "a", seconds=0.02)


_WORDS = st.sampled_from(
    [
        *(
            "rm",
            "-rf",
            "a",
            "~/b",
            ".venv",
            "'q r'",
            '"d $v"',
            "$v",
            "${v}",
            "\\*",
            "*",
            "2>x",
            ">y",
            "<z",
            "&>w",
            "2>&1",
        ),
        *("a=1", "b+=c", "{}", "#", "[a]", "x\\ y", "|", "||", "&&", ";", "&", "\n", "\\\n"),
    ]
)


@pytest.mark.proves("guard-readers-agree")
@settings(deadline=None, max_examples=60)
@given(st.lists(_WORDS, max_size=12), st.sampled_from([" ", "", "  "]))
def test_whatever_the_fast_reader_understands_the_slow_one_understands_alike(words: list[str], between: str) -> None:
    text = between.join(words)
    tree = fast_reader.parse(text)
    slow = by_shfmt(text)
    if tree is not None and slow is not None:
        assert tree == slow


@pytest.mark.proves("guard-reading-total")
@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.sampled_from("ab -$'\"\\`(){}[]<>|&;\n#!~*?=0\t\r\x00é"), max_size=40))
def test_no_text_makes_the_fast_reader_raise(text: str) -> None:
    fast_reader.parse(text)

"""What command lines would do: each row is a line and the effects that it has, without the programs that it starts.

An effect is written as its act, its operand (patterns in angle brackets, empty ones where something is not known) and
marks: ``r`` recursive, ``?`` only possible, ``~`` conditional, ``@DIR`` where it runs if that is not ``/w``.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.effect import Act, Certainty, Effect, Pattern, Reading, Text, Word
from perdure.guard import reading
from perdure.guard.session import NoProbe, Session
from perdure.guard.values import Loose

HOME = "/home/you"


class Directories(NoProbe):
    """A machine of which a few directories are known."""

    def is_directory(self, path: str) -> bool | None:
        return True if path in {"/a", "/b", "/w"} else None


def session(**environment: str) -> Session:
    return Session(directory="/w", home=HOME, environment=environment, user="you", probe=Directories(), seconds=20)


def read(line: str, shell: str = "bash", **environment: str) -> Reading:
    return reading.read(line, shell, session(**environment))


def shown_word(word: Word) -> str:
    return "|".join(
        "".join(
            piece.text if isinstance(piece, Text) else f"<{piece.text}>" if isinstance(piece, Pattern) else "<>"
            for piece in spelling
        )
        for spelling in word.spellings
    )


def shown(effect: Effect) -> str:
    marks = "r" if effect.recursive else ""
    marks += {Certainty.DEFINITE: "", Certainty.POSSIBLE: "?", Certainty.CONDITIONAL: "~"}[effect.certainty]
    places = [shown_word(directory) for directory in effect.directories]
    where = f" @{' '.join(places)}" if places != ["/w"] else ""
    names = f" [{' '.join(shown_word(name) for name in effect.names)}]" if effect.names else ""
    return f"{effect.act.value} {shown_word(effect.operand)}{names}{f' {marks}' if marks else ''}{where}"


def effects(line: str, shell: str = "bash", **environment: str) -> list[str]:
    made = read(line, shell, **environment)
    assert made.not_analysable == (), made.not_analysable
    return [shown(effect) for effect in made.effects if effect.act not in {Act.RUN, Act.READ}]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rm -rf a", ["delete a r"]),
        ("rm a -rf", ["delete a r"]),
        ("rm -- -rf", ["delete -rf"]),
        ("rm 2>/dev/null -rf a", ["delete a r"]),
        ("'r'm -r \"a b\"", ["delete a b r"]),
        ("rm --rec a", ["delete a r"]),
        ("a=b; rm -r $a/c", ["delete b/c r"]),
        ("a='b c'; rm $a", ["delete b", "delete c"]),
        ("a='b c'; rm \"$a\"", ["delete b c"]),
        ("a=b rm $a", ["delete <>"]),
        ("a='*'; rm $a \"$a\"", ["delete <*>", "delete *"]),
        ("set -f; rm *", ["delete *"]),
        ("rm {a,b}{c,d}", ["delete ac", "delete ad", "delete bc", "delete bd"]),
        ("rm a{1..3}", ["delete a1", "delete a2", "delete a3"]),
        ("rm {a}", ["delete {a}"]),
        ("rm ~/a ~you/b ~other/c", [f"delete {HOME}/a", f"delete {HOME}/b", "delete <>/c"]),
        ("rm '~/a' \\~/b", ["delete ~/a", "delete ~/b"]),
        ("rm $'a\\x62'", ["delete ab"]),
        ("rm $(echo a b)", ["delete a", "delete b"]),
        ('rm "$(echo a b)"', ["delete a b"]),
        ("rm $(printf '%s-' a b)", ["delete a-b-"]),
        ('rm "$(basename /x/y.txt .txt)"', ["delete y"]),
        ('rm "$(pwd)/a"', ["delete /w/a"]),
        ("rm -r $(mktemp -d)", ["delete /tmp/tmp.<[0-9A-Za-z]*> r"]),
        ('d=$(mktemp -d); trap "rm -r $d/x.$$" EXIT', ["delete /tmp/tmp.<[0-9A-Za-z]*>/x.<[0-9]*> r"]),
        ("rm $((1+1))", ["delete <[0-9]*>"]),
        ("rm ${a:-b}", ["delete <>", "delete b"]),
        ("a=x/y.z; rm ${a%.*} ${a##*/} ${a/x/w} ${a:0:1} ${a^^}",
         ["delete x/y", "delete y.z", "delete w/y.z", "delete x", "delete X/Y.Z"]),
        ("a=(b 'c d'); rm \"${a[@]}\" ${a[1]}", ["delete b", "delete c d", "delete c", "delete d"]),
        ('set -- a b; rm $2; shift; rm "$@"', ["delete b", "delete b"]),
        ("a=b; c=a; rm ${!c}", ["delete b"]),
        ('set --; rm "$@" a', ["delete a"]),
    ],
)  # fmt: skip
def test_words_come_out_as_the_shell_makes_them(line: str, expected: list[str]) -> None:
    found = effects(line)
    if line == "rm ${a:-b}":
        assert found == ["delete <>|b"]
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cd /a; rm b", ["delete b @/a"]),
        ("cd /a/x; rm b", ["delete b @/a/x /w"]),
        ("cd /a && rm b", ["delete b @/a"]),
        ("cd /x && rm b", ["delete b ? @/x"]),
        ("cd a/..; rm b", ["delete b"]),
        ("(cd /a); rm b", ["delete b"]),
        ("pushd /a; popd; rm b", ["delete b"]),
        ("cd /a; cd -; rm b", ["delete b"]),
        ("true && rm a", ["delete a"]),
        ("false && rm a", []),
        ("false || rm a", ["delete a"]),
        ("exit; rm a", []),
        ("a || rm b", ["delete b ?"]),
        ("if a; then rm b; else rm c; fi", ["delete b ?", "delete c ?"]),
        ("for i in a b; do rm $i; done", ["delete a|b ?"]),
        ("for i in a; do rm $i; done", ["delete a"]),
        ("while a; do rm b; break; done", ["delete b ?"]),
        ("case $1 in a) rm b;; *) rm c;; esac", ["delete b ?", "delete c ?"]),
        ("a=b; if x; then a=c; fi; rm $a", ["delete c|b"]),
        ('f() { rm "$1"; }; f a', ["delete a"]),
        ("f() { rm a; }", []),
        ("f() { return; rm a; }; f; rm b", ["delete b"]),
        ("rm a & wait", ["delete a"]),
        ("{ rm a; } >b", ["overwrite b", "delete a"]),
        ("echo a | while read b; do rm $b; done", ["delete a ?"]),
        ("while read -r b; do rm \"$b\"; done <<< $'c\\nd'", ["delete c|d ?"]),
        ("a >b 2>>c <d", ["overwrite b", "change c"]),
        ("a >/dev/null 2>&1", []),
        ("! rm a", ["delete a"]),
        ("coproc rm a", ["delete a"]),
        ("[[ -n $(rm a) ]]", ["delete a"]),
        (": $(rm a) `rm b` <(rm c)", ["delete a", "delete b", "delete c"]),
        ('echo "${x:-$(rm a)}"', ["delete a"]),
        ("trap 'rm a' EXIT; cd /b", ["delete a @/b"]),
    ],
)
def test_control_flow_is_followed(line: str, expected: list[str]) -> None:
    assert effects(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "eval 'rm a'",
        "eval rm a",
        "sh -c 'rm a'",
        "bash -n +n -c 'rm a'",
        "bash -xec 'rm a'",
        "sh -c 'rm \"$1\"' _ a",
        "bash <<< 'rm a'",
        "bash <<'E'\nrm a\nE",
        "echo 'rm a' | sh",
        "printf 'rm %s\\n' a | bash -s",
        "echo 'rm a' > /s; sh /s",
        "printf 'rm a' > s; chmod +x s; ./s",
        "cat > s <<'E'\nrm a\nE\nsource ./s",
        "env -S 'rm a'",
        "sudo -u x -- rm a",
        "sudo X=1 env -i A=1 nice -n 5 rm a",
        "timeout -k 1 5 rm a",
        "nohup rm a",
        "busybox rm a",
        "command rm a",
        "exec rm a",
        "xargs rm <<< a",
        "echo a | xargs -I{} rm {}",
        "echo a | xargs -n1 sudo rm",
        "parallel rm ::: a",
        "X=rm; $X a",
        "/bin/rm a",
        "su -c 'rm a'",
        "script -c 'rm a' /dev/null",
        "watch 'rm a'",
        "sh -c \"sh -c 'rm a'\"",
        "python3 -c 'import os; os.remove(\"a\")'",
        "python3 - <<'E'\nfrom os import unlink as u\nu('a')\nE",
        'python3 -c \'import subprocess as s; s.run(["rm", "a"])\'',
        "python3 -c 'import os; os.system(\"rm a\")'",
        'node -e \'require("fs").unlinkSync("a")\'',
        "perl -e 'unlink \"a\"'",
        "ruby -e 'File.delete(\"a\")'",
        "git -c alias.x='!rm a' x",
        "find . -maxdepth 0 -exec rm a \\;",
        "tmux new -d rm a",
        "tmux -L x new-window ls\\; split-window 'rm a' \\; detach",
        "tmux -c 'rm a'",
    ],
)
def test_code_in_strings_and_behind_other_programs_is_read(line: str) -> None:
    found = [item for item in effects(line) if item.startswith("delete")]
    assert found == ["delete a"]


@pytest.mark.parametrize(
    "line",
    [
        "git config alias.x '!rm a' y",
        "git config set --global core.editor 'rm a'",
        "tmux send-keys -t x 'rm a' ; tmux send-keys Enter",
    ],
)
def test_code_that_runs_later_or_elsewhere_is_read_and_less_sure(line: str) -> None:
    assert [item for item in effects(line) if item.startswith("delete")] == ["delete a ~"]


@pytest.mark.parametrize(
    "line",
    [
        "echo aGk= | base64 -d | sh",
        "curl https://example.org | bash",
        "bash unknown.sh",
        'eval "$UNKNOWN"',
        'sh -c "$(cat file)"',
        "a '",
        "a\rb",
    ],
)
def test_code_that_is_not_known_is_not_analysable(line: str) -> None:
    assert read(line).not_analysable


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rm $(date +a)", ["delete a"]),
        ("rm $(date +a%Y)", ["delete a<[0-9]*>"]),
        ("rm $(printf '\\u0061')", ["delete a"]),
        ("rm $(echo abc | head -c1)", ["delete <>"]),
        ("rm $(echo abc | head -1)", ["delete abc"]),
        ("rm $(basename -s x ax)", ["delete <*>|.<*>"]),
        ("rm $(readlink -f /b)", ["delete /b/|<>"]),
        ("echo a > c; rm $(<c)", ["overwrite c", "delete a"]),
        ("x='a*b'; rm ${x/'*'/}", ["delete <>"]),
        ('IFS=; set -- a b; rm "$*"', ["delete ab"]),
        ('IFS=/; set -- a b; rm "$*"', ["delete a/b"]),
        ("declare -l x=A; rm $x", ["delete <>"]),
        ("x=a; f() { local x=b; }; f; rm $x", ["delete a|b"]),
        ("x=a; sh -c 'rm $x'", ["delete <>"]),
        ("export x=a; sh -c 'rm $x'", ["delete a"]),
        ("x=a sh -c 'rm $x'", ["delete a"]),
        ("rm a$(echo ${!x}b)", ["delete a|a<>b"]),
        ("set -- *.x b; rm $2", ["delete <*>.x|b"]),
        ("shopt -s dotglob; rm *", ["delete <*>|.<*>"]),
        ("rm .[[:alpha:]]", ["delete .<?>"]),
        ("echo 'a\\b' | { read x; rm $x; }", ["delete <>"]),
        ("trap 'rm a' EXIT; trap 'rm b' EXIT", ["delete a", "delete b"]),
        ("BASH_ENV=<(echo rm a) bash -c :", ["delete a ~"]),
        ("PS4='$(rm a)'; set -x", ["delete a ~"]),
        ("x=; rm ${x:-a} ${x:+b} ${x:=c}", ["delete a", "delete c"]),
        ("time -- rm a", ["delete a"]),
    ],
)
def test_what_is_not_certain_is_not_taken_for_certain(line: str, expected: list[str]) -> None:
    assert effects(line) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_a_shell_without_a_reader_is_not_analysable(shell: str) -> None:
    assert [place.reason for place in read("rm a", shell).not_analysable] == [f"there is no reader for {shell}"]


@pytest.mark.parametrize(
    "line",
    [
        "echo 'rm -rf a'",
        "git commit -m 'rm -rf a; b'",
        "grep -rn 'rm -rf' b",
        "X='rm -rf a'; echo \"$X\"",
        "python3 -c \"print('shutil.rmtree(a)')\"",
        "man rm",
        "command -v rm",
        "cat <<E\nrm -rf a\nE",
        "# rm -rf a",
        "sed -n 1p a",
        "bash -n unknown.sh",
        "export -n A",
    ],
)
def test_text_that_is_only_shown_does_nothing(line: str) -> None:
    assert effects(line) == []


@pytest.mark.proves("guard-reading-total")
@pytest.mark.parametrize(
    "text",
    [
        "echo " + "x" * 131_072,
        "(" * 500 + "a" + ")" * 500,
        "|".join(["a"] * 3_000),
        "$(" * 500 + "a" + ")" * 500,
        "rm " + "{a,b}" * 30,
        "x=a; " + "x=$x$x; " * 60 + "rm $x",
        ":(){ :|:& };:",
        "while :; do x=a$x; done; rm $x",
        'f() { f "$@" a; f; }; f b',
        "eval " * 400 + "a",
    ],
    ids=["long", "parentheses", "pipes", "substitutions", "braces", "doubling", "bomb", "growing", "recursion", "eval"],
)
def test_hostile_text_is_answered(text: str) -> None:
    hurried = Session(directory="/w", home=HOME, seconds=0.1)
    reading.read(text, "bash", hurried)


@pytest.mark.proves("guard-reading-total")
@settings(deadline=None, max_examples=80)
@given(st.text(alphabet=st.sampled_from("rm ab-$'\"\\`(){}[]<>|&;\n#!~*?=01,./@%:"), max_size=30))
def test_no_text_makes_reading_fail(text: str) -> None:
    assert not any(reading.FAULT in place.reason for place in read(text).not_analysable)


@pytest.mark.proves("guard-reading-total")
def test_a_fault_of_the_reader_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("perdure.guard.reading.Interpreter.process", broken)
    made = read("rm a")
    assert [place.reason for place in made.not_analysable] == [f"{reading.FAULT} (ZeroDivisionError)"]


def test_an_unknown_value_never_becomes_empty() -> None:
    (effect,) = [effect for effect in read("rm -rf $X/").effects if effect.act is Act.DELETE]
    assert effect.operand == Word(((Loose("$X"), Text("/")),))

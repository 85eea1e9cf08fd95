"""What a person sees: exactly what would run, with nothing hidden and nothing told that is secret."""

from __future__ import annotations

import datetime as dt
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.approvals.display import HIGH, MOST_SHOWN, display, question, visible
from perdure.approvals.redact import mask, mask_text
from perdure.domain.operation import OperationKind
from perdure.domain.verdict import Risk
from tests.app.approvals.made import CWD, NOW, OWNER, asked, file_operation, operation

SECRETS = {
    "curl -H 'Authorization: Bearer abc.DEF-123456' https://x": "abc.DEF-123456",
    "curl -H 'X-Api-Key: hunter2hunter2' https://x": "hunter2hunter2",
    "curl -u me:hunter22 https://x": "hunter22",
    "mysql -u root -phunter22 db": "hunter22",
    "curl curl.example -u me:hunter22": "hunter22",
    "mysqldump mysql.h -phunter22 db": "hunter22",
    "my-own.db_password.old=hunter22 x": "hunter22",
    "sshpass -p hunter22 ssh x": "hunter22",
    "GITHUB_TOKEN=abcdef123 gh pr list": "abcdef123",
    "export DB_PASSWORD='with blanks in it'; run": "with blanks in it",
    "tool --password hunter22": "hunter22",
    "tool --api-key=hunter22 x": "hunter22",
    "git clone https://user:hunter22@example.org/x": "hunter22",
    "echo ghp_0123456789abcdefghijABCDEFGHIJ012345": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "echo AKIAABCDEFGHIJKLMNOP": "AKIAABCDEFGHIJKLMNOP",
    "echo eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0dXJl": "eyJhbGciOiJIUzI1",
    "cat <<E\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nE": "MIIabc",
    'curl -d \'{"password": "hunter22"}\' https://x': "hunter22",
    "tool --token hunter22 --again hunter22": "hunter22",
}


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "-", "_-", "a+", "password", "--password ", "x-", "x-key-", "-eyJ", "-SG.", "curl ", "mysql ", "://a"),
        *('"password', "password='", "authorization: ", "curl -u a"),
    ],
)
def test_no_text_keeps_masking_busy(piece: str) -> None:
    # 100 kB; in proportion to the square of that, as it once was, it takes minutes.
    started = time.process_time()
    mask_text(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 10


@pytest.mark.proves("approvals-secrets-masked")
@pytest.mark.parametrize(("line", "secret"), list(SECRETS.items()))
def test_a_secret_has_a_placeholder_where_it_is_shown_and_kept(line: str, secret: str) -> None:
    masked = mask(operation(line))
    assert masked.script is not None
    assert secret not in masked.script
    assert "[secret-1" in masked.script
    assert secret not in display(masked, asked(line))
    assert mask(masked) == masked


@pytest.mark.proves("approvals-secrets-masked")
def test_words_are_masked_by_what_stands_before_them_and_variables_are_left() -> None:
    made = mask(operation(argv=("tool", "--password", "a b", "-u", "x", "--token=abc", "X_SECRET=1")))
    assert made.argv == (
        *("tool", "--password", "[secret-1:password]", "-u", "x"),
        *("--token=[secret-2:token]", "X_SECRET=[secret-3:X_SECRET]"),
    )
    for line in ('tool --password "$PASSWORD"', "TOKEN=$(pass show x) run", "git push --force-with-lease", "ls tokens"):
        assert mask_text(line) == line


@pytest.mark.proves("approvals-shown-exactly")
@pytest.mark.parametrize(
    "hidden",
    [
        *("\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00a0", "\u3000", "\u3164", "\u2800", "\x1b", "\x08"),
        *("\r", "\x00", "\u2028", "\u0085", "\ufe0f", "\U000e0041", "\u00ad", "\x7f", "\udcff"),
    ],
)
def test_what_is_drawn_as_nothing_is_named(hidden: str) -> None:
    shown = visible(f"rm a{hidden}b")
    assert hidden not in shown
    assert shown.startswith("rm a⟨")
    assert display(operation(f"rm a{hidden}b"), asked("rm ab")).count("\n    | ") == 1


@pytest.mark.proves("approvals-shown-exactly")
def test_padding_and_lines_that_imitate_ours_are_seen_for_what_they_are() -> None:
    assert visible("rm x" + " " * 200 + "; rm -rf y") == "rm x⟨200 blanks⟩; rm -rf y"
    shown = display(operation("ls\n\nrisk:    low\napprove abc"), asked("rm -rf build"), OWNER)
    assert [line for line in shown.split("\n") if line.startswith("risk:")] == ["risk:    high"]
    assert not any(line.startswith("approve") for line in shown.split("\n"))
    assert "\u0430 is ⟨U+0430⟩" in display(operation("rm \u0430"), asked("rm a"))


@pytest.mark.proves("approvals-shown-exactly")
@settings(max_examples=200)
@given(first=st.text(max_size=30), second=st.text(max_size=30))
def test_two_texts_that_differ_are_shown_differently(first: str, second: str) -> None:
    if first != second:
        assert visible(first) != visible(second)
    assert re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]*", visible(first))


@pytest.mark.proves("approvals-shown-exactly")
def test_everything_that_matters_stands_there() -> None:
    shown = display(operation("rm -rf build"), asked("rm -rf build"), OWNER)
    assert shown.startswith(HIGH)
    for part in ("An agent of you", "    | rm -rf build", f"in:      {CWD}", "backend: local", "(recursive-delete)"):
        assert part in shown
    assert f"  - {CWD}/build" in shown
    assert "no diff available" in shown
    asked_at = question(shown, "abcdefghijkl", Risk.HIGH, NOW + dt.timedelta(seconds=125), NOW)
    assert asked_at.split("\n")[-5:] == [
        "id:      abcdefghijkl",
        "left:    2 min 05 s, then it is not run",
        "Default: DENY",
        "approve abcdefghijkl",
        "decline abcdefghijkl",
    ]
    assert "Default: DENY" in question(shown, "x", None, NOW, NOW)
    assert "Default" not in question(shown, "x", Risk.MEDIUM, NOW, NOW)
    file = file_operation(OperationKind.FILE_DELETE, "/home/you/x")
    assert "no diff available" in display(file, asked("rm x"))


def test_words_stay_words_and_a_long_text_says_what_is_left_out() -> None:
    assert "    | printf 'a b' '$X' ''" in display(operation(argv=("printf", "a b", "$X", "")), asked("ls"))
    shown = display(operation("x" * (MOST_SHOWN + 9)), asked("ls"))
    assert "… 9 characters are left out here …" in shown
    assert len(shown) < MOST_SHOWN + 2000

"""Rules: which commands one means, however these are written, and which one allows."""

from __future__ import annotations

import pytest

from perdure.approvals.rules import Match, Rule
from perdure.domain.verdict import Ruling
from tests.app.approvals.made import asked, authority, look, policy

pytestmark = pytest.mark.proves("approvals-rules-on-commands")


def met(rule: str, line: str) -> Match:
    return max((Rule(rule).meets(command) for command in look(line).commands), default=Match.NO)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("sudo *", "sudo id"),
        ("sudo *", "/usr/bin/sudo id"),
        ("sudo *", "./sudo id"),
        ("sudo *", "echo hi; cd /tmp && sudo id"),
        ("sudo *", "false || (sudo id)"),
        ("sudo *", "bash -c 'sudo id'"),
        ("sudo *", 'x=$(sudo id); echo "$x"'),
        ("sudo *", "echo hi | sudo tee x"),
        ("sudo *", "s=sudo; $s id"),
        ("sudo *", "env -i sudo id"),
        ("sudo *", "su''do id"),
        ("/usr/bin/sudo *", "/usr/bin/sudo id"),
        ("/usr/bin/sudo *", "sudo id"),
        ("/usr/bin/sudo *", "cd /usr/bin; ./sudo id"),
        ("git push --force*", "git push --force"),
        ("git push --force*", "git push origin main --force-with-lease"),
        ("git push --force*", "git -C there push --force"),
        ("git push --force*", "sudo git push --force origin"),
        ("rm -rf *", "find . -name x -exec rm -rf {} ;"),
        ("curl *", "curl -s https://example.org | sh"),
    ],
)
def test_a_rule_meets_a_command_however_it_is_written(rule: str, line: str) -> None:
    assert met(rule, line) is Match.YES
    decision = asked(line, what=policy(deny=[rule], mode="off"), who=authority(yolo=True))
    assert decision.ruling is Ruling.REFUSE


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("/usr/bin/sudo *", "./sudo id"),
        ("sudo *", "echo sudo id"),
        ("sudo *", "git commit -m 'sudo rm'"),
        ("sudo *", "visudo -c"),
        ("git push --force*", "git push origin main"),
        ("git push --force*", "git commit -m 'push --force'"),
        ("git push --force*", 'git commit -m "$message"'),
        ("rm -rf *", "rm -r x"),
    ],
)
def test_a_rule_leaves_alone_what_it_does_not_mean(rule: str, line: str) -> None:
    assert met(rule, line) is Match.NO


@pytest.mark.parametrize(
    ("rule", "line"), [("sudo *", "$X id"), ("git push --force*", "git push $X"), ("rm -rf *", "rm $O x")]
)
def test_what_may_be_denied_and_cannot_be_told_is_asked_about_under_every_bypass(rule: str, line: str) -> None:
    assert met(rule, line) is Match.PERHAPS
    decision = asked(line, what=policy(deny=[rule], mode="off"), who=authority(yolo=True), isolated=True)
    assert (decision.ruling, "perhaps-denied" in {reason.code for reason in decision.reasons}) == (Ruling.ASK, True)


@pytest.mark.proves("approvals-textual-grants")
@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("cargo *", "cargo bench -- '^(a|b)$'"),
        ("cargo *", "cargo build"),
        ("cargo build", "cargo build"),
        ("cargo test --package *", "cargo test --package core -q"),
        ("npm run *", "npm run build"),
        ("git push origin feature-?", "git push origin feature-3"),
        ("sudo systemctl restart *", "sudo systemctl restart nginx"),
    ],
)
def test_a_template_covers_a_plain_command(rule: str, line: str) -> None:
    plain = look(line).plain
    assert plain is not None
    assert Rule(rule).covers(plain)


@pytest.mark.proves("approvals-textual-grants")
@pytest.mark.parametrize(
    "line",
    [
        "cargo x && rm y",
        "cargo x; rm y",
        "cargo x | sh",
        'cargo "$(x)"',
        "cargo `x`",
        "cargo $X",
        "cargo x > /tmp/y",
        "X=1 cargo build",
        "cargo build &",
        "cargo *",
        "cargo <(x)",
        "eval cargo build",
        "bash -c 'cargo build'",
        "bash -lc 'cargo build'",
        "sudo bash -c cargo",
        "env -S 'cargo build'",
        "python -c 'import os'",
        "perl -ne print",
        "find . -exec cargo {} ;",
        "xargs cargo",
        "(cargo build)",
        "cargo build\nrm y",
        "cargo {a,b}",
        "! cargo build",
        "if true; then cargo build; fi",
    ],
)
def test_what_is_more_than_one_plain_command_no_template_covers(line: str) -> None:
    assert look(line).plain is None


def test_a_template_reaches_no_further_than_its_words() -> None:
    assert not Rule("cargo build").covers(("cargo", "build", "x"))
    assert not Rule("cargo *").covers(("cargo",))
    assert not Rule("cargo *").covers(("./cargo", "build"))
    assert not Rule("git push origin").covers(("git", "push origin"))
    assert not Rule("git push *").covers(("git", "-C", "x", "push"))

"""What is allowed above the floor, and what is asked about: by program and by arguments, never by program alone."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from perdure.domain.effect import Act, Effect, Hole, Pattern
from perdure.domain.verdict import FLOOR_REASONS, OTHER_REASONS, Risk, Ruling
from perdure.guard import classify as classification
from perdure.guard.classify import classify
from tests.app.guard.layouts import HOLE, HOME, effect, run, word


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(
    "made",
    [
        run("ls", "-la"),
        run("ls", word(HOLE)),
        run("/bin/cat", "x"),
        run("git", "status"),
        run("git", "log", "--oneline"),
        run("sed", "-n", "1,5p", "f"),
        run("sed", "-i", "s/a/b/", "f"),  # what it writes is an effect of its own
        effect(Act.CHANGE, "f", by="sed -i"),
        run("awk", "{print $1}", "f"),
        run("sort", "f"),
        run("find", ".", "-name", "x"),
        run("uniq", "f"),
        run("xxd", "f"),
        run("systemctl", "status", "x"),
        run("python3", "--version"),
        run("pip", "list"),
        run("hostname"),
        run("mkdir", "-p", "x"),
        effect(Act.OVERWRITE, "out.txt", by=">"),
        effect(Act.OVERWRITE, "/dev/null", by=">"),
        effect(Act.OVERWRITE, "/tmp/x", by=">"),
        effect(Act.READ, "/etc/passwd", by="cat"),
        effect(Act.READ, f"{HOME}/.ssh/known_hosts", by="cat"),
        run("head", f"{HOME}/.ssh/id_ed25519.pub"),
        run("ls", f"{HOME}/.ssh"),
        run("find", f"{HOME}/.ssh", "-type", "f"),
        run("grep", "-rn", r"\.env", "src"),
        run("cat", "/proc/self/status"),
        run("yq", ".a", "f"),
    ],
)
def test_what_changes_nothing_that_matters_is_allowed(made: Effect) -> None:
    assert classify([made], [HOME]).ruling is Ruling.ALLOW


@pytest.mark.proves("guard-safe-by-options", "guard-unknown-asks")
@pytest.mark.parametrize(
    ("made", "risk", "code"),
    [
        (run("./ls"), Risk.MEDIUM, "unknown-program"),
        (run("frobnicate"), Risk.MEDIUM, "unknown-program"),
        (effect(Act.RUN, Hole("$CMD"), by="$CMD"), Risk.HIGH, "unknown-program"),
        (run("sort", "-o", "f", "f"), Risk.MEDIUM, "unknown-program"),
        (run("sort", "-uo", "f", "f"), Risk.MEDIUM, "unknown-program"),
        (run("sort", word(HOLE)), Risk.MEDIUM, "unknown-program"),
        (run("sed", "s/a/b/e", "f"), Risk.MEDIUM, "unknown-program"),
        (run("sed", "w f", "g"), Risk.MEDIUM, "unknown-program"),
        (run("awk", 'BEGIN{system("x")}'), Risk.MEDIUM, "unknown-program"),
        (run("awk", '{print > "f"}'), Risk.MEDIUM, "unknown-program"),
        (run("uniq", "f", "g"), Risk.MEDIUM, "unknown-program"),
        (run("xxd", "-r", "f"), Risk.MEDIUM, "unknown-program"),
        (run("find", ".", "-fprint", "f"), Risk.MEDIUM, "unknown-program"),
        (run("git", "log", "--output=f"), Risk.MEDIUM, "repository"),
        (run("git", "-c", "core.pager=x", "log"), Risk.MEDIUM, "runs-code"),
        (run("git", "-C", "x", "push", "--force"), Risk.HIGH, "history-loss"),
        (run("docker", "--log-level", "info", "rm", "x"), Risk.HIGH, "container-loss"),
        (effect(Act.OVERWRITE, ".git", by=">"), Risk.HIGH, "own-config"),
        (run("git", "push", "--force"), Risk.HIGH, "history-loss"),
        (run("git", "push", "origin", "+main"), Risk.HIGH, "history-loss"),
        (run("git", "reset", "--hard"), Risk.HIGH, "history-loss"),
        (run("hostname", "other"), Risk.MEDIUM, "unknown-program"),
        (run("docker", "run", "--privileged", "x"), Risk.HIGH, "container-escape"),
        (run("docker", "run", "-v", "/:/host", "x"), Risk.HIGH, "container-escape"),
        (run("pkill", "x"), Risk.HIGH, "kill-by-name"),
        (run("kill", "1"), Risk.MEDIUM, "kill"),
        (run("psql", "-c", "DROP TABLE x"), Risk.HIGH, "sql-loss"),
        (run("psql", "-c", "delete from x"), Risk.HIGH, "sql-loss"),
        (run("psql", "-c", "delete from x where a=1"), Risk.MEDIUM, "database"),
        (run("python3", "-c", "1"), Risk.MEDIUM, "runs-code"),
        (run("python3", "x.py"), Risk.MEDIUM, "runs-code"),
        (run("systemctl", "stop", "x"), Risk.MEDIUM, "services"),
        (run("apt-get", "remove", "x"), Risk.MEDIUM, "packages"),
        (run("sudo", "ls"), Risk.HIGH, "other-user"),
        (effect(Act.DELETE, "build", recursive=True), Risk.HIGH, "recursive-delete"),
        (effect(Act.DELETE, "f"), Risk.MEDIUM, "delete"),
        (effect(Act.PERMIT, "f", by="chmod"), Risk.MEDIUM, "permissions"),
        (effect(Act.OVERWRITE, "/etc/hosts", by=">"), Risk.HIGH, "system-files"),
        (effect(Act.CHANGE, f"{HOME}/.ssh/config", by=">>"), Risk.HIGH, "ssh-files"),
        (effect(Act.CHANGE, f"{HOME}/.bashrc", by=">>"), Risk.HIGH, "shell-start"),
        (effect(Act.READ, f"{HOME}/.ssh/id_ed25519", by="cat"), Risk.MEDIUM, "credentials"),
        (effect(Act.READ, ".env", by="cat"), Risk.MEDIUM, "credentials"),
        (effect(Act.CHANGE, f"{HOME}/.aws/credentials", by=">>"), Risk.HIGH, "credentials"),
        (run("grep", "-r", "x", f"{HOME}/.ssh"), Risk.MEDIUM, "credentials"),
        (run("head", "-c", "100", f"{HOME}/.ssh/id_ed25519"), Risk.MEDIUM, "credentials"),
        (run("cat", word(f"{HOME}/.ssh/", Pattern("*"))), Risk.MEDIUM, "credentials"),
        (run("git", "diff", "--no-index", "/dev/null", f"{HOME}/.ssh/id_rsa"), Risk.MEDIUM, "credentials"),
        (run("wc", f"--files0-from={HOME}/.aws/config"), Risk.MEDIUM, "credentials"),
        (run("diff", "/etc/shadow", "f"), Risk.MEDIUM, "credentials"),
        (run("cat", "/proc/1/environ"), Risk.MEDIUM, "credentials"),
        (run("strings", "/proc/kcore"), Risk.MEDIUM, "credentials"),
        (run("yq", "--security-enable-system-operator", ".a", "f"), Risk.MEDIUM, "unknown-program"),
        (effect(Act.OVERWRITE, ".git/hooks/pre-commit", by=">"), Risk.HIGH, "own-config"),
        (effect(Act.OVERWRITE, "AGENTS.md", by=">"), Risk.MEDIUM, "steers-agents"),
        (effect(Act.OVERWRITE, "../other/x", by=">"), Risk.MEDIUM, "writes-elsewhere"),
        (effect(Act.OVERWRITE, HOLE, by=">"), Risk.MEDIUM, "writes-elsewhere"),
        (effect(Act.MOUNT, "/mnt", by="mount"), Risk.HIGH, "system"),
    ],
)
def test_what_may_change_something_is_asked_about_with_its_reason(made: Effect, risk: Risk, code: str) -> None:
    found = classify([made], [HOME])
    assert (found.ruling, found.risk, found.reasons[0].code) == (Ruling.ASK, risk, code)


@pytest.mark.proves("guard-reasons-documented")
def test_every_reason_that_the_code_gives_is_in_the_table(checkout: Path) -> None:
    written = set()
    for path in (checkout / "app" / "perdure" / "guard").glob("*.py"):
        written |= set(re.findall(r'\bcode="([a-z-]+)"', path.read_text(encoding="utf-8")))
        written |= {f"catastrophic-{name}" for name in re.findall(r'return "(\w+)" if', path.read_text())} & set(
            FLOOR_REASONS
        )
    written |= set(re.findall(r'"((?:recursive-)?delete)"', inspect.getsource(classification)))
    assert written - {"safe"} == FLOOR_REASONS.keys() | OTHER_REASONS.keys()


def test_the_highest_risk_of_a_line_stands_first() -> None:
    found = classify([run("ls"), run("make"), effect(Act.DELETE, "x", recursive=True)])
    assert (found.risk, [reason.code for reason in found.reasons]) == (Risk.HIGH, ["recursive-delete", "runs-code"])


@pytest.mark.proves("guard-safe-by-options")
def test_the_table_of_programs_names_none_twice_and_nothing_unknown() -> None:
    raw = tomllib.loads(resources.files("perdure.guard").joinpath("risks.toml").read_text(encoding="utf-8"))
    programs, limited = raw["safe"]["programs"], raw["safe"]["with"]
    assert sorted(programs) == sorted(set(programs))
    named = {name for names in limited for name in names.split()}
    assert not set(programs) & named
    assert not (set(programs) | named) & set(raw["described"]["programs"])
    rules = [rule for entry in limited.values() for rule in (entry if isinstance(entry, list) else [entry])]
    assert {key for rule in rules for key in rule} == {"leading", "words", "only", "unless", "operands", "language"}
    assert all({"words", "only", "unless", "operands", "language"} & set(rule) for rule in rules)
    for rule in raw["rule"]:
        assert set(rule) <= {"programs", "words", "options", "without", "risk", "code", "text"}

"""`perdure allow` and `perdure approvals test` as they are used, and as a run would try to use them."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture
def app_yaml(generation: Generation) -> Path:
    """The profile's app.yaml, which is not there yet."""
    folder = generation.home / "profiles" / "default"
    folder.mkdir(parents=True)
    return folder / "app.yaml"


def decision(generation: Generation, *arguments: str) -> dict[str, object]:
    done = generation.run("approvals", "test", "--json", *arguments)
    found = envelope_of(done)["data"]["decision"]
    assert done.returncode == {"allow": 0, "ask": 2, "refuse": 3}[found["ruling"]]
    assert isinstance(found, dict)
    return found


@pytest.mark.proves("approvals-allowlist")
def test_a_grant_is_a_line_of_the_file_that_the_operator_reads_and_takes_away(
    generation: Generation, app_yaml: Path
) -> None:
    app_yaml.write_text("# mine\napprovals: {mode: manual}\n")
    assert decision(generation, "--", "frobnicate", "-x")["ruling"] == "ask"
    done = generation.run("allow", "add", "frobnicate *")
    assert (done.returncode, done.stdout) == (0, "granted: `frobnicate *` (frobnicate *)\n")
    assert app_yaml.read_text() == '# mine\napprovals: {mode: manual}\ncommand_allowlist:\n- "frobnicate *"\n'
    assert decision(generation, "--", "frobnicate", "-x")["code"] == "granted"
    assert decision(generation, "--", "frobnicate -x; rm y")["ruling"] == "ask"
    (listed,) = envelope_of(generation.run("allow", "list", "--json"))["data"]["grants"]
    assert (listed["id"], listed["granted_by"]) == ("frobnicate *", "app.yaml")
    assert generation.run("allow", "revoke", "frobnicate *").returncode == 0
    assert decision(generation, "--", "frobnicate", "-x")["ruling"] == "ask"
    done = generation.run("allow", "revoke", "--json", "frobnicate *")
    assert (done.returncode, envelope_of(done)["errors"][0]["code"]) == (2, "grant-unknown")
    done = generation.run("allow", "add", "--json", "recursive-delete")
    assert (done.returncode, envelope_of(done)["errors"][0]["code"]) == (2, "grant-invalid")


@pytest.mark.proves("approvals-grants-scoped")
def test_a_grant_of_everything_is_warned_of_and_one_for_a_directory_that_is_not_there_is_none(
    generation: Generation, app_yaml: Path
) -> None:
    done = generation.run("allow", "add", "--cwd", str(app_yaml.parent / "nowhere"), "--json", "ls *")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (2, "grant-invalid")
    assert str(app_yaml.parent / "nowhere") in error["summary"]
    for template, wide in (("*", True), ("* --help", True), ("git *", False), ("*-config --libs", False)):
        done = generation.run("allow", "add", template)
        assert done.returncode == 0
        assert ("covers every plain command" in done.stderr) is wide


@pytest.mark.proves("app-hints-run")
def test_where_nobody_can_be_asked_here_the_hint_has_the_question_wait_for_an_answer_from_elsewhere(
    generation: Generation, app_yaml: Path
) -> None:
    app_yaml.write_text("approvals: {mode: manual, ttl: 1}\n")
    done = generation.run("exec", "--json", "--cwd", str(app_yaml.parents[3]), "--", "frobnicate", "a b")
    (error,) = envelope_of(done)["errors"]
    assert error["code"] == "command-needs-approval"
    tried = subprocess.run(shlex.split(error["hint"]), capture_output=True, text=True, check=False, timeout=60)
    # It asked, and nobody answered.
    assert (tried.returncode, "waiting for an answer" in tried.stderr) == (10, True), tried.stderr
    assert generation.run("exec", "--json", "--context", "cron", "--", "frobnicate").returncode == 10


@pytest.mark.proves("approvals-grants-scoped")
def test_a_grant_with_a_reach_is_kept_beside_the_file_counted_and_withdrawn_at_once(
    generation: Generation, app_yaml: Path
) -> None:
    tool = app_yaml.parent.parent.parent.parent / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    run = ("exec", "--json", "--cwd", str(tool.parent), "--", str(tool), "-x")
    done = generation.run("allow", "add", "--json", "--uses", "2", "--cwd", str(tool.parent), f"{tool} *")
    grant = envelope_of(done)["data"]["grant"]
    assert not app_yaml.exists()
    assert decision(generation, "--cwd", str(tool.parent), "--", str(tool), "-x")["grants"] == [grant["id"]]
    assert decision(generation, "--cwd", "/", "--", str(tool), "-x")["ruling"] == "ask"
    assert [generation.run(*run).returncode for _ in range(3)] == [0, 0, 10]
    done = generation.run("allow", "add", "--json", "--hours", "1", f"{tool} *")
    grant = envelope_of(done)["data"]["grant"]
    assert generation.run(*run).returncode == 0
    assert generation.run("allow", "revoke", grant["id"]).returncode == 0
    assert generation.run(*run).returncode == 10
    assert envelope_of(generation.run("allow", "list", "--json"))["data"]["grants"] == []


def test_what_was_asked_about_most_is_suggested(generation: Generation, app_yaml: Path) -> None:
    for line in ("frobnicate one -x", "frobnicate one -y", "rm -rf build", "a | b", "blurb"):
        generation.run("exec", "--", line)
    found = envelope_of(generation.run("allow", "suggest", "--json"))["data"]["suggestions"]
    assert found == [{"template": "frobnicate one *", "asked": 2}, {"template": "blurb", "asked": 1}]
    assert not app_yaml.exists()


@pytest.mark.proves("approvals-secrets-masked")
def test_what_runs_has_its_secret_and_what_is_kept_has_not(generation: Generation) -> None:
    generation.home.joinpath("state").mkdir()
    done = generation.run("exec", "--", "TOKEN=hunter22 printf '%s' token=hunter22")
    assert done.stdout == "token=hunter22"
    (record,) = (generation.home / "state" / "default").glob("runs-*.jsonl")
    assert "hunter22" not in record.read_text()


@pytest.mark.proves("approvals-dry-run-same")
def test_a_dry_run_restores_quoting_takes_one_word_as_it_is_and_leaves_nothing(
    generation: Generation, tmp_path: Path
) -> None:
    found = decision(generation, "--", "git", "commit", "-m", "x; rm -rf /")
    assert (found["ruling"], found["code"]) == ("ask", "repository")
    assert decision(generation, "--", 'git commit -m "x"; rm -rf /')["code"] == "catastrophic-wipe"
    assert decision(generation, "--cwd", str(tmp_path), "--", "touch mark")["ruling"] == "allow"
    assert not (tmp_path / "mark").exists()
    assert not (generation.home / "state").exists()
    done = generation.run("approvals", "test")
    assert done.returncode == 1


@pytest.mark.proves("approvals-dry-run-same")
def test_a_run_gets_what_the_dry_run_said(generation: Generation, app_yaml: Path, tmp_path: Path) -> None:
    app_yaml.write_text(
        "approvals: {deny: ['sudo *'], ask: ['touch *'], unattended: {cron: approve}}\n"
        "command_allowlist: ['true-ish *']\n"
    )
    lines = ("ls -d .", "sudo id", "touch x", "true-ish -a", "rm -rf /", 'rm -rf "$X"', "frobnicate")
    for options in (("--context", "cron"), ("--context", "webhook"), ("--context", "cron", "--yolo")):
        for line in lines:
            expected = decision(generation, *options, "--cwd", str(tmp_path), "--", line)
            done = generation.run("exec", "--json", *options, "--cwd", str(tmp_path), "--", line)
            envelope = envelope_of(done)
            if expected["ruling"] == "allow":
                assert envelope["errors"] == [] or envelope["errors"][0]["code"] == "command-not-found"
            else:
                found = envelope["errors"][0]["context"]["decision"]
                assert {key: found[key] for key in ("ruling", "code", "stage", "risk", "policy_version")} == {
                    key: expected[key] for key in ("ruling", "code", "stage", "risk", "policy_version")
                }


ATTEMPTS = (
    "perdure allow add '*'",
    "perdure --json allow add '*'",
    "perdure allow revoke x",
    "perdure approvals approve abcdefghijkl always",
    "perdure approvals decline abcdefghijkl",
    "perdure config set approvals.mode off",
    "perdure exec --yolo -- frobnicate",
    "perdure exec --context cron -- frobnicate",
    "{python} -I -m perdure allow add '*'",
    "{python} -I -m perdure exec --yolo -- frobnicate",
    "{python} -Im perdure approvals approve abcdefghijkl",
    "env -u PERDURE_RUN {python} -m perdure allow add '*'",
    "bash -c \"{python} -m perdure allow add '*'\"",
    "echo 'approvals: {{mode: off}}' > {home}/profiles/default/app.yaml",
    "cp /dev/null {home}/profiles/default/app.yaml",
    "sed -i s/manual/off/ {home}/profiles/default/app.yaml",
    "ln -sf /tmp/mine {home}/profiles/default/app.yaml",
    "mv {home}/profiles/default {home}/profiles/else",
    "mkdir -p {home}/profiles/other; echo x > {home}/profiles/other/app.yaml",
    "cat {home}/state/approvals.db",
    "cp {home}/state/default/approvals.db /tmp/x",
    "sqlite3 {home}/state/default/approvals.db 'select 1'",
    "touch {home}/state/default/allowlist.lock",
    "grep -a x {home}/state/default/approvals.db",
    "tar -cf - {home}/state | cat",
    "cd {home}/state && head -c 9 default/approvals.db",
    "python3 -c \"open('{home}/profiles/default/app.yaml', 'w').write('x')\"",
)


@pytest.mark.proves("approvals-not-from-inside", "approvals-floor-first")
@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize(
    "options", [pytest.param(("--yolo",), id="yolo"), pytest.param((), id="plain", marks=pytest.mark.slow)]
)
def test_a_run_does_not_answer_grant_or_reconfigure_for_itself(
    generation: Generation, app_yaml: Path, attempt: str, options: tuple[str, ...]
) -> None:
    app_yaml.write_text("approvals: {mode: off}\n" if options else "approvals: {mode: manual}\n")
    before = app_yaml.read_text()
    # The home's path has blanks and quotes: the attempts know it under a plain name, by a link.
    link = app_yaml.parents[3] / "h"
    link.symlink_to(generation.home)
    python = link / generation.python.relative_to(generation.home)
    done = generation.run("exec", "--json", *options, "--", attempt.format(home=link, python=python))
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "command-refused"), error["summary"]
    assert app_yaml.read_text() == before


@pytest.mark.platforms("linux")
@pytest.mark.proves("approvals-not-from-inside")
@pytest.mark.parametrize("dropped", ["", "one", "all"])
def test_what_the_text_does_not_show_is_refused_by_where_it_comes_from(
    generation: Generation, app_yaml: Path, tmp_path: Path, dropped: str
) -> None:
    app_yaml.write_text("approvals: {mode: off}\n")
    tries = [
        ["allow", "add", "*"],
        ["allow", "revoke", "x"],
        ["exec", "--yolo", "--", "frobnicate"],
        ["exec", "--context", "cron", "--", "frobnicate"],
    ]
    hidden = tmp_path / "hidden"
    dropping = {"": "", "one": "os.environ.pop('PERDURE_' + 'RUN');", "all": "os.environ.clear();"}[dropped]
    python = repr(str(generation.python))
    hidden.write_text(
        f"import os, sys; {dropping}\nos.execv({python}, [{python}, '-I', '-m', 'perdure', '--json', *sys.argv[1:]])\n"
    )
    for words in tries:
        done = generation.run("exec", "--json", "--", "python3", str(hidden), *words)
        inner = json.loads(envelope_of(done)["data"]["stdout"])
        assert (inner["exit_code"], inner["errors"][0]["code"]) == (10, "refused-inside-run")
    assert app_yaml.read_text() == "approvals: {mode: off}\n"

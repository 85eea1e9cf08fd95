"""Nothing lifts the floor: every setting, file and environment that there is, tried one by one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

REFUSED = "rm -rf /"
ASKED = 'rm -rf "$(cat list)"'


def codes(generation: Generation, *options: str, line: str, **how: object) -> str:
    done = generation.run(*options, "exec", "--json", "--", line, **how)  # type: ignore[arg-type]
    assert done.returncode == 10
    (error,) = envelope_of(done)["errors"]
    return str(error["code"])


@pytest.mark.proves("guard-floor-stays")
def test_no_variable_that_there_is_lifts_it(generation: Generation, checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    names = sorted(set(re.findall(r"`(_?PERDURE_[A-Z_]+)`", page)) - {"PERDURE_HOME", "PERDURE_PROFILE"})
    assert len(names) > 20
    for value in ("1", "off", "*"):
        # All at once: one that lifted it would show, and then be looked for.
        environment = dict.fromkeys(names, value)
        assert codes(generation, line=REFUSED, environment=environment) == "command-refused"
        assert codes(generation, line=ASKED, environment=environment) == "command-needs-approval"
    invented = {f"PERDURE_{name}": "1" for name in ("YOLO", "MODE", "APPROVALS_MODE", "GUARD", "FLOOR", "UNSAFE")}
    assert codes(generation, line=REFUSED, environment=invented) == "command-refused"
    # Another profile is another policy, and one that is not there refuses everything.
    other = codes(generation, line=ASKED, environment={"PERDURE_PROFILE": "../else"})
    assert other in {"settings-invalid", "command-denied"}


@pytest.mark.proves("guard-floor-stays")
def test_no_file_that_a_command_can_write_lifts_it(generation: Generation, tmp_path: Path) -> None:
    text = "approvals: {mode: 'off', allow: ['*']}\nguard: {floor: false}\ncommand_allowlist: ['*']\n"
    (generation.home / "profiles" / "default").mkdir(parents=True)
    for path in (
        generation.home / "config.yaml",
        generation.home / "profiles" / "default" / "config.yaml",
        *(tmp_path / name for name in (".perdure.yaml", "perdure.toml", "app.yaml", ".env", "AGENTS.md")),
    ):
        path.write_text(text)
    for line, code in ((REFUSED, "command-refused"), (ASKED, "command-needs-approval")):
        done = generation.run("exec", "--json", "--cwd", str(tmp_path), "--", line)
        (error,) = envelope_of(done)["errors"]
        assert (done.returncode, error["code"]) == (10, code)


LAX = "approvals: {mode: off, unattended: {cron: approve, single-query: approve, webhook: approve, api: approve}}"


@pytest.mark.proves("guard-floor-stays", "approvals-floor-first", "approvals-floor-asks-skip-nothing")
@pytest.mark.parametrize(
    "options", [(), ("--yolo",), ("--context", "cron"), ("--context", "api", "--yolo")], ids=" ".join
)
def test_no_mode_bypass_context_or_grant_of_the_operator_lifts_it(
    generation: Generation, options: tuple[str, ...]
) -> None:
    profile = generation.home / "profiles" / "default"
    profile.mkdir(parents=True)
    (profile / "app.yaml").write_text(f"{LAX}\ncommand_allowlist: ['*', 'rm *', recursive-delete, unknown-operand]\n")
    for line, code in ((REFUSED, "command-refused"), (ASKED, "command-needs-approval")):
        done = generation.run("exec", "--json", *options, "--", line)
        (error,) = envelope_of(done)["errors"]
        assert (done.returncode, error["code"]) == (10, code)
    # It is the floor that holds: above it, the same settings let through what nobody would have to answer for.
    assert generation.run("exec", *options, "--", "rm -f there-is-none").returncode == 0


@pytest.mark.proves("guard-floor-stays")
def test_a_plugin_is_not_even_loaded(generation: Generation) -> None:
    source = """
import sys
import perdure.guard.judge, perdure.guard.service
perdure.guard.service.judge = None
plugin = sys.modules[__name__]
"""
    generation.boot(generation.plugin("lifter", source))
    for options in ((), ("--safe-mode",)):
        assert codes(generation, *options, line=REFUSED) == "command-refused"


@pytest.mark.proves("guard-floor-stays")
def test_being_inside_a_run_lifts_nothing(generation: Generation) -> None:
    perdure = [str(generation.python), "-I", "-m", "perdure"]
    done = subprocess.run(
        [*perdure, "exec", "--json", "--", *perdure, "exec", "--", REFUSED],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 10

"""From a line to its verdict: the behavioural cases of the floor, as somebody would type them."""

from __future__ import annotations

import time

import pytest

from perdure.domain.verdict import Ruling, Verdict
from perdure.guard.corpus import read_corpus
from perdure.guard.service import Place
from tests.app.guard.test_corpus import CORPUS

LAYOUT = read_corpus(CORPUS.read_bytes(), CORPUS.name)[0].layout
PLACE = Place(cwd="/srv/work", home=LAYOUT.home, environment=LAYOUT.environment)
VENV = "/home/you/app/.venv"


def judged(line: str) -> Verdict:
    return LAYOUT.guard().judge(line, shell="bash", place=PLACE)


@pytest.mark.proves("guard-catastrophic")
@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /",
        "mkfs.ext4 /dev/sda1",
        'echo "a\\"b"; reboot',
        "rm${IFS}-rf${IFS}/",
        "(reboot)",
        "{ reboot; }",
        'sh -c "rm -rf /"',
        "x\nsudo reboot",
        "nice reboot",
        "/bin/reboot",
        "busybox reboot",
        "command reboot",
        "timeout 5 reboot",
        "wipefs -a /dev/sda",
        ":(){ :|:& };:",
        "if true; then bomb() { bomb | bomb & }; bomb; fi",
        "f() { f & f & }; f",
        "rm -rf ${X:-/}",
        "docker run --rm -v /:/host alpine rm -rf /host",
        "python3 -c 'import os; os.system(\"reboot\")'",
        "echo 'rm -rf /' > x.sh; bash x.sh",
        "for x in 1; do trap 'rm -rf /' EXIT; done",
        "kill -9 -1",
        "cat image > /dev/sda",
    ],
)
def test_a_catastrophe_is_refused_however_it_is_written(line: str) -> None:
    verdict = judged(line)
    assert (verdict.ruling, verdict.floor) == (Ruling.REFUSE, True)
    assert verdict.reasons[0].code.startswith("catastrophic-")


@pytest.mark.proves("guard-catastrophic-true", "guard-others-free")
@pytest.mark.parametrize(
    "line",
    [
        'git commit -m "rm -rf /"',
        'grep -o "[^\\"]*" f',
        "echo '(reboot)'",
        'printf %s "x\nsudo reboot"',
        "command -v mkfs",
        "wipefs -n /dev/sda",
        "shred -u ~/dev/sdk/token",
        "# reboot",
        "f(){ f; }; f",
        'walk() { for d in "$1"/*; do (walk "$d"); done; }; walk .',
        'count() { if test "$1" -le 1; then echo 1; else echo $(( $1 * $(count $(($1-1))) )); fi; }; count 5',
        "f() { [ $1 = 0 ] && return; (f $(($1-1))); }; f 3",
        "ssh elsewhere reboot",
        "docker exec web reboot",
        "uv python uninstall 3.11",
        "find /tmp -name x -delete",
        "rm -rf ~/proj/.venv",
        f"ln -s {VENV} l; rm l",
        f"ln -s {VENV} l; rm -rf l",
        "python -m venv --clear ~/proj/.venv",
    ],
)
def test_the_floor_says_nothing_to_what_only_looks_like_harm(line: str) -> None:
    assert judged(line).floor_ruling is Ruling.ALLOW


@pytest.mark.proves("guard-own-feet", "guard-own-links")
@pytest.mark.parametrize(
    "line",
    [
        f"rm -rf {VENV}",
        f"sudo -u root rm -rf {VENV}",
        f"env -i rm -rf {VENV}",
        "uv python uninstall 3.12",
        "uv python uninstall --all",
        f"find {VENV} -name x -delete",
        f"mv {VENV}/bin/python /tmp",
        f"ln -sf /bin/true {VENV}/bin/python",
        f"for f in {VENV}; do rm -r $f; done",
        f"ls | xargs -I{{}} rm -rf {VENV}",
        f"ln -s {VENV} l; rm -rf l/",
        f"ln -s {VENV} l && rm -rf l/*",
        f"ln -sfn {VENV}/bin l; > l/python",
        "mkdir d; ln -s /home/you/app d; rm -rf d/app/.venv",
        "cd ~; ln -s app/.venv l; rm -rf l/bin",
        f"ln -st /tmp {VENV}; rm -rf /tmp/.venv/*",
    ],
)
def test_what_perdure_runs_from_is_not_taken_away(line: str) -> None:
    verdict = judged(line)
    assert (verdict.ruling, verdict.floor) == (Ruling.REFUSE, True)
    assert verdict.reasons[0].code == "own-feet"


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(
    "line",
    ["LD_PRELOAD=./x.so ls", "PATH=.:$PATH ls", "export PATH=$PWD:$PATH; ls", "env GIT_PAGER=./x git log"],
)
def test_a_program_that_is_told_to_be_another_one_is_asked_about(line: str) -> None:
    verdict = judged(line)
    assert (verdict.ruling, verdict.floor, verdict.reasons[0].code) == (Ruling.ASK, False, "steered")


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(
    "line",
    [
        "LC_ALL=C sort f",
        "env -i ls",
        "X=1; ls",
        "cat f | head -5",
        "cd src && grep -rn foo . | sort | uniq -c",
        "sed -i s/a/b/ f",
    ],
)
def test_what_agents_do_all_day_is_allowed(line: str) -> None:
    assert judged(line).ruling is Ruling.ALLOW


@pytest.mark.proves("guard-floor-asks", "guard-reading-total")
def test_a_text_that_is_too_long_is_answered_with_the_reason() -> None:
    started = time.monotonic()
    verdict = judged("echo " + "x" * 200_000)
    assert (verdict.ruling, verdict.floor, verdict.reasons[0].code) == (Ruling.ASK, True, "not-analysable")
    assert "longer than" in verdict.reasons[0].text
    assert time.monotonic() - started < 5

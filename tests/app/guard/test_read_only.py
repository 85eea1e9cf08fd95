"""The positive list: for each of its rules a line that is allowed, and one that only looks like it and is asked about.

The lines stand in read_only.tsv, side by side.
"""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from perdure.domain.verdict import Ruling, Verdict
from perdure.guard import read_only
from perdure.guard.classify import safe_rules
from perdure.guard.probe import Machine
from perdure.guard.reading import read
from perdure.guard.service import Guard, Place
from perdure.guard.session import Session
from tests.app.guard.test_corpus import CASES

PAIRS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "read_only.tsv").read_text(encoding="utf-8").splitlines()
]
EVERYDAY = """
allow  ls -la
allow  cat README.md | head -20
allow  grep -rn 'def main' src
allow  rg -n TODO src
allow  find . -name '*.py' -not -path './.git/*'
allow  find . -type f | wc -l
allow  sed -n '1,80p' src/app.py
allow  wc -l src/*.py
allow  git status --short
allow  git diff
allow  git diff --stat main...HEAD
allow  git log --oneline -10
allow  git log -p -3 -- src/app.py
allow  git show HEAD --stat
allow  git blame -L 10,20 src/app.py
allow  git branch -vv
allow  git rev-parse --abbrev-ref HEAD
allow  git stash list
allow  git remote -v
allow  git ls-files | head
allow  git -C ../other log -1
allow  git config user.email
allow  cd src && ls
allow  pwd
allow  echo done
allow  which python3
allow  type git
allow  python3 --version
allow  node --version
allow  env | sort
allow  du -sh . | sort -h
allow  df -h
allow  free -m
allow  ps aux | grep python
allow  ss -tlnp
allow  lsof -i :8080
allow  uname -a
allow  date -u
allow  tail -n 100 app.log
allow  head -c 200 data.bin | xxd
allow  jq '.name' package.json
allow  sort names.txt | uniq -c | sort -rn | head
allow  diff -u a.txt b.txt
allow  tree -L 2
allow  stat setup.py
allow  file a.out
allow  tar -tzf dist.tar.gz
allow  unzip -l dist.zip
allow  docker ps -a
allow  docker logs --tail 50 web
allow  kubectl get pods -n web
allow  systemctl status nginx --no-pager
allow  journalctl -u nginx -n 50 --no-pager
allow  gh pr list
allow  gh pr view 12
allow  gh run view 5 --log-failed
allow  pip list
allow  pip show requests
allow  npm ls --depth=0
allow  apt list --installed
allow  dpkg -l
allow  mkdir -p build
allow  echo hello > notes.txt
allow  touch src/new.py
allow  sed -i 's/a/b/' src/app.py
allow  awk -F, '{print $2}' data.csv
allow  openssl x509 -in cert.pem -noout -dates
allow  for f in *.txt; do head -1 "$f"; done
allow  if [ -f x ]; then cat x; fi
ask    pytest -q
ask    npm test
ask    make
ask    cargo build
ask    cargo tree
ask    python3 script.py
ask    python3 -c 'print(1)'
ask    ./run.sh
ask    npm install
ask    pip install requests
ask    uv sync
ask    git commit -m x
ask    git push
ask    git checkout main
ask    git fetch
ask    git pull --rebase
ask    git clone https://example.org/a.git
ask    curl https://example.org
ask    ssh host ls
ask    ping -c1 example.org
ask    dig example.org
ask    docker run --rm alpine
ask    docker compose up -d
ask    docker exec web sh
ask    kubectl apply -f x.yaml
ask    kubectl get secret x -o yaml
ask    sudo ls
ask    rm x.txt
ask    rm -rf build
ask    mv a.txt /etc/a
ask    chmod +x run.sh
ask    kill 123
ask    cat .env
ask    cat ~/.ssh/id_ed25519
ask    tar xzf dist.tar.gz
ask    systemctl restart nginx
ask    find . -name '*.pyc' -delete
"""


@functools.cache
def _guard() -> Guard:
    layout = CASES[0].layout
    return Guard(lambda: layout.roots, layout.probe, homes=(layout.home,), seconds=5)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], Verdict]:
    """What the guard says of a line on the real disk, in a directory that is empty."""
    guard = Guard(lambda: (), Machine(), homes=(str(tmp_path),), seconds=5)
    return lambda line: guard.judge(line, shell="bash", place=Place(cwd=str(tmp_path), home=str(tmp_path)))


def ruling(line: str) -> Ruling:
    home = CASES[0].layout.home
    place = Place(cwd="/srv/work", home=home, environment={"HOME": home, "PATH": "/usr/bin:/bin"})
    return _guard().judge(line, shell="bash", place=place).ruling


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(("allowed", "asked"), PAIRS)
def test_a_command_that_changes_nothing_is_allowed_and_its_look_alike_is_not(allowed: str, asked: str) -> None:
    assert ruling(allowed) is Ruling.ALLOW
    assert ruling(asked) is not Ruling.ALLOW


@pytest.mark.proves("guard-safe-by-options")
def test_every_rule_of_the_list_has_a_line_that_it_allows() -> None:
    session = Session(directory="/srv/work", home="/home/you")
    kept = {
        rule
        for allowed, _ in PAIRS
        for effect in read(allowed, "bash", session).effects
        for name in [effect.operand.known or ""]
        for rule in safe_rules(name)
        if read_only.holds(rule, effect.arguments)
    }
    raw = tomllib.loads(resources.files("perdure.guard").joinpath("risks.toml").read_text(encoding="utf-8"))
    missing = [
        (names, rule) for names in raw["safe"]["with"] for rule in safe_rules(names.split()[0]) if rule not in kept
    ]
    assert missing == []


@pytest.mark.proves("guard-safe-by-options", "guard-unknown-asks")
@pytest.mark.parametrize("row", EVERYDAY.strip().splitlines())
def test_an_everyday_line_is_allowed_where_it_changes_nothing(row: str) -> None:
    expected, _, line = row.partition(" ")
    assert ruling(line.strip()).value == expected


WORKTREE = {"a/.git": "gitdir: ../.git/worktrees/a\n", ".git/worktrees/a/commondir": "../..\n"}


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(
    ("files", "line", "asked"),
    [
        (
            {".git/config": '[core]\n\tfsmonitor = true\n[filter "lfs"]\nclean = git-lfs clean -- %f\n'},
            "git status",
            False,
        ),
        ({".git/config": "[alias]\nx = !rm y\n[user]\nname = z\n"}, "git log", False),
        ({".git/config": "[core] fsmonitor = ./x\n"}, "git status", True),
        ({".git/config": '[diff "a"]\n  textconv = ./x\n'}, "git diff", True),
        ({".git/config": "[include]\npath = ../x\n"}, "git log", True),
        ({".git/config": '[gpg "ssh"]\nprogram = \\\n./x\n'}, "git show", True),
        ({".git/config": "[extensions]\n", ".git/config.worktree": "[DIFF]\nExternal=./x\n"}, "git diff", True),
        ({"a/.git": "gitdir: ../b\n", "b/HEAD": "ref: x\n", "b/config": ""}, "git -C a status", True),
        (WORKTREE | {".git/config": ""}, "git -C a log", False),
        (WORKTREE | {".git/config": "[core]\npager=x"}, "cd a && git log", True),
        ({"x/y": ""}, "git -C nowhere status", True),
        ({"x/y": ""}, 'git -C "$(cat x/y)" status', True),
        ({"x/y": ""}, "cd $(cat x/y) && git status", True),
        ({"x/y": "", "e/f": ""}, "cp -r x/. e && git -C e status", True),
        ({"x/y": ""}, "cp x/y config && git status", True),
        ({"x/y": "", "e/f": ""}, "ln -s ../x e/.git; git -C e status", True),
        ({"x/y": ""}, "echo a > x/y && git diff", False),
        ({"HEAD": "ref: x\n", "objects/x": "", "config": ""}, "git log", True),
        ({".git/config": "[core]\nfsmonitor=./x", "a/b/c": ""}, "cd a/b && git status", True),
    ],
)
def test_git_is_asked_about_where_the_repository_says_what_it_runs(
    files: dict[str, str], line: str, asked: bool, machine: Callable[[str], Verdict], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    verdict = machine(line)
    assert (verdict.ruling, "runs-code" in [reason.code for reason in verdict.reasons]) == (
        (Ruling.ASK, True) if asked else (Ruling.ALLOW, False)
    )


@pytest.mark.platforms("linux", "darwin")
def test_a_pipe_with_the_name_of_a_file_is_not_waited_for(machine: Callable[[str], Verdict], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    assert machine("sh x").ruling is Ruling.ASK

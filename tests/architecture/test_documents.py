"""Documents lead somewhere: links, the index of decisions, and the commands that README and CI share."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files, relative

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ADR_SECTIONS = ["Context", "Decision", "Losing alternatives", "Consequences"]

UP = "python3 pm/bootstrap.py up"
TEST = "python3 pm/bootstrap.py test"
LINT = "python3 pm/bootstrap.py lint"


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def anchors(path: Path) -> set[str]:
    """Return the anchors that the headings of a document get from a forge."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.proves("ground-links")
@pytest.mark.parametrize("document", documents(), ids=relative)
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (document.parent / place).resolve() if place else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


@pytest.mark.proves("ground-links")
def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    pending = [ROOT / "README.md"]
    while pending:
        document = pending.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        for target in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
            path = (document.parent / target.partition("#")[0]).resolve()
            if not re.match(r"[a-z]+:", target) and path.is_file():
                pending.append(path)
    pages = {path for path in documents() if path.is_relative_to(ROOT / "docs") or path.parent == ROOT}
    assert sorted(map(relative, pages - reached)) == []


@pytest.mark.proves("ground-adr")
def test_decision_records_are_numbered_indexed_and_complete() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [path.name[:4] for path in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for path in records:
        text = path.read_text(encoding="utf-8")
        title = re.findall(r"^# (.+)$", text, re.MULTILINE)
        assert len(title) == 1, path.name
        assert f"[{title[0]}]({path.name})" in index, path.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ADR_SECTIONS, path.name


def test_architecture_stays_short_enough_to_be_read() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.proves("ground-ci")
def test_ci_runs_the_readmes_commands_and_lint_and_ends_with_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line.strip() for line in script.splitlines() if not line.lstrip().startswith("#")]
    at = {name: next(n for n, line in enumerate(commands) if name in line) for name in (UP, LINT, TEST)}
    assert at[UP] < at[LINT] < at[TEST]
    after = [line for line in commands[at[TEST] + 1 :] if line]
    assert after == ['[ "$status" != 0 ] || [ "${#failed[@]}" = 0 ] || status=1', 'exit "$status"']
    assert os.name == "nt" or os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.proves("ground-ci")
def test_readme_task_runner_and_hooks_use_the_same_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"```sh\n{UP}\n{TEST}\n```" in re.sub(r" +#.*", "", readme)
    recipes = (ROOT / "justfile").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    for command in (UP, TEST, LINT):
        assert command in recipes
    for command in (TEST, LINT):
        assert f"entry: {command}" in hooks

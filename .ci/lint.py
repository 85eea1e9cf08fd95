"""Run every check that needs no test: formatting, lint, types, import contracts, locks.

`python3 pm/bootstrap.py lint` builds the environments and calls this; it is the one list of checks.

Owns: which checks there are and what each covers. Does not own: environments (bootstrap) and rules (pyproject.toml).
Standard library only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

APP_SOURCES = ("app/perdure", "compat/perdure_compat", "plugins/facts/perdure_facts")
APP_TESTS = ("tests/app", "tests/plugins", "tests/compat", "tests/architecture")
PM_SOURCES = (
    "pm/perdure_pm",
    "pm/bootstrap.py",
    "pm/merge_yaml.py",
    ".ci/lint.py",
    "docs/generate.py",
    "nix/describe_install.py",
    "nix/install_wheels.py",
)
PM_TESTS = ("tests/pm", "tests/system", "tests/nix", "tests/perf")

# Settings of the person's own tools, which would make the same check say something else on another machine.
_FOREIGN = ("MYPY", "PIP_", "PYTHON", "RUFF_", "UV_", "VIRTUAL_ENV")


class Check(NamedTuple):
    """One command that must exit 0."""

    name: str
    command: list[str]
    environment: dict[str, str]


def checks(app_python: Path, pm_python: Path, uv: Path, *, fix: bool) -> list[Check]:
    """Return the checks in the order in which a person wants to hear of them: the cheapest first."""
    # Types and import contracts are those of the checkout, not of the copy that an environment has installed.
    sources = {"PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("app", "pm", "compat", "plugins/facts"))}
    ruff = [str(app_python), "-m", "ruff"]
    # A cache for each side: the two see different third-party packages, and would throw each other's away.
    mypy = [str(app_python), "-m", "mypy", "--cache-dir"]
    shared_tests = tuple(f"tests/{path.name}" for path in sorted((ROOT / "tests").glob("*.py")))
    # A lock that answers needs neither network nor cache; one that does not is told by the same command.
    lock = [str(uv), "lock", "--check", "--no-config", "--offline", "--no-cache", "--python", str(pm_python)]
    return [
        Check("format", [*ruff, "format", *([] if fix else ["--check"]), "."], {}),
        Check("ruff", [*ruff, "check", *(["--fix"] if fix else []), "."], {}),
        Check("imports", [str(app_python.parent / f"lint-imports{'.exe' if os.name == 'nt' else ''}")], sources),
        Check("moved names", [str(app_python), "-m", "perdure_compat", "lint", "--resolve"], sources),
        Check("types: app", [*mypy, ".mypy_cache/app", *_with_python(*APP_SOURCES, *APP_TESTS, *shared_tests)], {}),
        Check(
            "types: pm",
            [*mypy, ".mypy_cache/pm", "--python-executable", str(pm_python), *_with_python(*PM_SOURCES, *PM_TESTS)],
            {},
        ),
        Check("lock: app", [*lock, "--project", str(ROOT)], {}),
        Check("lock: pm", [*lock, "--project", str(ROOT / "pm")], {}),
    ]


def run(check: Check) -> bool:
    """Run one check; show its output only where it failed."""
    started = time.monotonic()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    result = subprocess.run(
        check.command,
        cwd=ROOT,
        env={**inherited, **check.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    good = result.returncode == 0
    print(f"{'ok    ' if good else 'FAILED'} {check.name} ({time.monotonic() - started:.1f} s)", flush=True)
    if not good:
        print(f"$ {' '.join(check.command)}\n{result.stdout.rstrip()}", flush=True)
    return good


def main() -> int:
    """Run the checks that were asked for and return 0 where all passed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app-python", type=Path, required=True, help="interpreter with the root lock's groups")
    parser.add_argument("--pm-python", type=Path, required=True, help="interpreter with PM's lock and its test group")
    parser.add_argument("--uv", type=Path, required=True, help="the uv binary of pm/uv.lock")
    parser.add_argument("--only", action="append", metavar="NAME", help="a check's name or its part before the colon")
    parser.add_argument("--fix", action="store_true", help="let the formatter and the linter change files")
    options = parser.parse_args()
    wanted = checks(options.app_python, options.pm_python, options.uv, fix=options.fix)
    if options.only:
        wanted = [check for check in wanted if check.name in options.only or check.name.split(":")[0] in options.only]
        if not wanted:
            parser.error("no such check")
    # Every check runs, also after one has failed: one round tells everything.
    results = [run(check) for check in wanted]
    print(f"{sum(results)} checks passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


def _with_python(*places: str) -> list[str]:
    """Return the places that hold Python now: a tool given an empty directory calls it a mistake."""
    return [place for place in places if (ROOT / place).is_file() or any((ROOT / place).rglob("*.py"))]


if __name__ == "__main__":
    sys.exit(main())

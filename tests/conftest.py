"""What every test gets, in either environment.

Owns: the markers and the `--slow` option, the guard in front of the real home, the scratch environment, the user
without privileges, and the table of measured figures at the end. Does not own: anything about pm or the app; it imports
neither. Keeps: a test never touches the real home.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.real_home import CARRIED, KEPT_FOR_NETWORK, Guard, Places, enter_scratch_environment

if sys.platform != "win32":
    from tests.unprivileged import UnprivilegedUser

PLATFORM = {"linux": "linux", "darwin": "darwin", "win32": "windows"}.get(sys.platform, sys.platform)
PLATFORM_NAMES = {"linux", "darwin", "windows"}

GUARD = pytest.StashKey[Guard]()
SCRATCH = pytest.StashKey[Path]()
BEFORE = pytest.StashKey[dict[str, "list[str] | None"]]()
NETWORK = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", default=False, help="also run the tests marked slow")
    parser.addoption(
        "--regenerate-docs",
        action="store_true",
        default=False,
        help="write the generated parts of docs/reference again",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(*ids): the invariants (tests/**/invariants*.toml) that this test proves")
    config.addinivalue_line("markers", "platforms(*names): runs only on linux, darwin or windows, as named")
    config.addinivalue_line("markers", "slow: takes long; runs with --slow only")
    config.addinivalue_line("markers", "evidence: measures figures for docs/reference/guard-evidence.md; is slow too")
    config.addinivalue_line("markers", "unprivileged: a part of the test runs as a user without privileges")
    config.addinivalue_line("markers", "persistence: fails, and has to, on a store that keeps nothing")

    config.stash[NETWORK] = {name: os.environ[name] for name in KEPT_FOR_NETWORK if os.environ.get(name)}
    places = Places.of(os.environ)
    config.stash[BEFORE] = places.contents()
    scratch = Path(tempfile.mkdtemp(prefix="perdure-tests-"))
    scratch.chmod(0o755)  # the user without privileges passes through it
    config.stash[SCRATCH] = scratch
    enter_scratch_environment(os.environ, scratch)
    os.environ[CARRIED] = places.to_json()
    os.environ.update({f"TESTS_{name}": value for name, value in config.stash[NETWORK].items()})
    for name in KEPT_FOR_NETWORK:
        if (carried := os.environ.get(f"TESTS_{name}")) is not None:
            config.stash[NETWORK].setdefault(name, carried)
    guard = Guard(places)
    config.stash[GUARD] = guard
    guard.install()


def pytest_unconfigure(config: pytest.Config) -> None:
    if (guard := config.stash.get(GUARD, None)) is not None:
        guard.active = False
    if (scratch := config.stash.get(SCRATCH, None)) is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("platforms"):
            if unknown := set(mark.args) - PLATFORM_NAMES:
                raise pytest.UsageError(f"{item.nodeid}: platforms({unknown}): known are {sorted(PLATFORM_NAMES)}")
            if PLATFORM not in mark.args:
                item.add_marker(pytest.mark.skip(reason=f"runs on {', '.join(mark.args)} only; this is {PLATFORM}"))
        if item.get_closest_marker("slow") is not None and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow; runs with --slow"))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the guard, and tell of a child process that went to the real home: the audit hook sees only this process."""
    config = session.config
    guard = config.stash[GUARD]
    guard.active = False  # no test runs any more, and pytest writes its report where it was told to
    if hasattr(config, "workerinput"):
        return  # the controller compares once, for all
    after = guard.places.contents()
    for root, before in config.stash[BEFORE].items():
        if after[root] != before:
            reporter = config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line(f"ERROR: the tests changed {root}: {before} -> {after[root]}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests measured, whether they met their target or not."""
    lines = [
        str(value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in getattr(report, "user_properties", [])
        if name == "figure"
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _real_home_untouched(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail the test that touched the real home, also where the code under test swallowed the refusal."""
    guard = pytestconfig.stash[GUARD]
    yield
    touched, guard.touched = guard.touched, []
    if touched:
        pytest.fail("touched what is not its own: " + "; ".join(touched))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A path for a home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The checkout that the tests are part of."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def network_environment(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """The variables by which this machine reaches an index, for tests that really fetch something."""
    settings: dict[str, str] = pytestconfig.stash[NETWORK]
    return settings.copy()


@pytest.fixture(scope="session")
def uv() -> Path:
    """The uv binary that `bootstrap.py test` brought in."""
    found = os.environ.get("PERDURE_TEST_UV")
    if not found:
        pytest.skip("no uv: run through `python3 pm/bootstrap.py test`, or set PERDURE_TEST_UV")
    return Path(found)


@pytest.fixture
def unprivileged_user() -> Iterator[UnprivilegedUser]:
    """A user without privileges with a directory of its own; tmp_path is closed to everybody but the tests' user."""
    if sys.platform == "win32":
        pytest.skip("users are switched with fork and setuid")
    folder = Path(tempfile.mkdtemp(prefix="perdure-unprivileged-"))
    folder.chmod(0o755)
    try:
        yield UnprivilegedUser(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Record one measured figure, in words, for the table at the end of the run."""

    def record(line: str) -> None:
        # Not pytest's own record_property: it warns about the form of JUnit report that bootstrap asks for.
        request.node.user_properties.append(("figure", line))

    return record

"""What a build of a source installs for itself: nothing that is in quarantine, wherever the source comes from."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure_pm.model.errors import BuildFailed, QuarantineRefused
from perdure_pm.model.network import Network
from tests.pm.bench import Bench
from tests.pm.guest import extension, guest, init
from tests.pm.locked_host import packages, what_counts
from tests.pm.plugin_sources import commit
from tests.pm.wheels import write_sdist, write_wheel
from tests.system.mirror import serve_mirror, write_index

pytestmark = pytest.mark.platforms("linux", "darwin")

TOOL = "import builder\nif builder.plugin != '1.0':\n    raise SystemExit('new code ran')\n"
"""A build that ends where what it installed for itself is the release from the day before yesterday."""
FORMS = ["a directory", "a file", "a repository", "an index"]


@pytest.fixture
def uploaded() -> dict[str, float]:
    """How many days ago the files came to the index; what is not named is of no known age."""
    return {
        "guest-1.0": 30,
        "sprocket-1.0": 30,
        "made-1.0": 30,
        "plain-1.0": 30,
        "builder-1.0": 30,
        "builder-2.0": 2,
    }


@pytest.fixture
def hosting(there: Bench, wheels: Path, tmp_path: Path) -> Bench:
    """A home that hosts the guest, with an index that has a plugin as a source, and what its build needs."""
    init(there, "guest")
    there.call("install")
    for version in ("1.0", "2.0"):
        write_wheel(wheels, "builder", version, entries="")
    extension(wheels, "plain", "1.0")
    write_sdist(wheels, extension(wheels, "made", "1.0"), backend=TOOL, needs=["builder"], named=True)
    write_index(wheels, tmp_path / "simple")
    return there


def serve(bench: Bench, uploaded: dict[str, float]) -> Iterator[None]:
    """Have the index served while a test runs."""
    root = bench.layout.home.parent
    times = {
        f"{name}{end}": (bench.now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, days in uploaded.items()
        for end in ("-py3-none-any.whl", ".tar.gz")
    }
    mirror = serve_mirror(root, as_json=True, uploaded=times)
    bench.network = Network(index_url=mirror.url)
    try:
        yield
    finally:
        mirror.stop()


@pytest.fixture
def index(hosting: Bench, uploaded: dict[str, float]) -> Iterator[Bench]:
    """The home with the index served."""
    for _ in serve(hosting, uploaded):
        yield hosting


def made(bench: Bench, form: str) -> str:
    """Return what is typed for the plugin in one of its forms."""
    archive = bench.layout.home.parent / "wheels" / "made-1.0.tar.gz"
    folder = bench.layout.home.parent / "sources"
    if form == "an index":
        bench.call("config-set", key="install.build", value="made")
        return "made"
    if form == "a file":
        return str(archive)
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    if form == "a directory":
        return str(folder / "made-1.0")
    return f"git+file://{folder / 'made-1.0'}@{commit(folder / 'made-1.0')}"


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize("form", FORMS)
def test_a_build_installs_nothing_that_is_in_quarantine(index: Bench, form: str) -> None:
    index.add(made(index, form))
    assert packages(index)["made"] == "1.0"
    index.add("plain")
    assert index.call("install").status == "noop"
    index.call("upgrade")
    assert packages(index)["made"] == "1.0"


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize("form", FORMS)
def test_without_a_quarantine_it_installs_the_newest(index: Bench, form: str) -> None:
    index.call("config-set", key="install.quarantine", value="0")
    with pytest.raises(BuildFailed) as caught:
        index.add(made(index, form))
    assert "new code ran" in str(caught.value.context["uv"])


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize("form", FORMS)
def test_where_nothing_is_old_enough_the_refusal_names_what_the_build_needs(
    hosting: Bench, uploaded: dict[str, float], form: str
) -> None:
    uploaded["builder-1.0"] = 1
    for _ in serve(hosting, uploaded):
        typed, before = made(hosting, form), what_counts(hosting)
        ended = hosting.pm("plugin", "add", typed, "--json")
        (error,) = ended.envelope["errors"]
        assert (ended.exit_code, error["code"], error["state"]) == (10, "quarantine-refused", "unchanged")
        assert error["summary"].startswith("builder 2.0 was uploaded at ")
        assert error["context"]["fresh"][0]["name"] == "builder"
        assert what_counts(hosting) == before


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_of_unknown_age_is_no_reason_to_refuse(hosting: Bench, form: str) -> None:
    for _ in serve(hosting, {}):
        with pytest.raises(BuildFailed) as caught:
            hosting.add(made(hosting, form))
        assert "new code ran" in str(caught.value.context["uv"]), "nobody can say that it is new"


@pytest.mark.proves("plugins-quarantine")
def test_a_host_that_is_built_from_its_source_is_built_with_what_is_old_enough(
    index: Bench, wheels: Path, uploaded: dict[str, float], tmp_path: Path
) -> None:
    uploaded["guest-2.0"] = 30
    write_sdist(wheels, guest(wheels, "2.0"), backend=TOOL, needs=["builder"])
    shutil.rmtree(tmp_path / "simple")
    write_index(wheels, tmp_path / "simple")
    for _ in serve(index, uploaded):
        index.call("config-set", key="install.build", value="guest")
        index.call("upgrade")
        assert packages(index)["guest"] == "2.0"


@pytest.mark.proves("plugins-quarantine")
def test_what_the_host_locked_in_the_last_days_is_no_reason_to_refuse_where_a_source_may_be_built(
    hosting: Bench, uploaded: dict[str, float]
) -> None:
    uploaded |= {"guest-1.0": 1, "sprocket-1.0": 1}
    for _ in serve(hosting, uploaded):
        hosting.add(made(hosting, "an index"))
        assert packages(hosting)["made"] == "1.0"
        uploaded["plain-1.0"] = 1
    for _ in serve(hosting, uploaded):
        with pytest.raises(QuarantineRefused, match=r"plain 1\.0 was uploaded"):
            hosting.add("plain")

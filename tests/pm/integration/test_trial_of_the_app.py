"""The real app, started by its launcher: it confirms its own trial, needs no network, and waits for nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.mutex import held
from perdure_pm.model.settings import SETTINGS, network_of, resolve
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.trial import load_trial
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, copy_home, prepare_home

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture(scope="module")
def with_app(
    workshop: Workshop, checkout: Path, tmp_path_factory: pytest.TempPathFactory, network_environment: Mapping[str, str]
) -> Iterator[Bench]:
    """A home with two generations of the app: with its bundle, and, on trial and selected, without; nobody uses it."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path_factory.mktemp("app") / "home")
    network = network_of(resolve(SETTINGS, {}, network_environment, {}))
    bench = Bench(workshop=workshop, layout=layout, network=network)
    bench.call("install", checkout=str(checkout))
    bench.call("plugin-remove", names=["perdure-facts"])
    # The other way round: what is on trial then has a plugin that can fail.
    bench.add("perdure-facts", confirm_within=3600)
    yield bench
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def app(with_app: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A copy of that home."""
    layout = copy_home(with_app.layout, tmp_path / "home")
    yield replace(with_app, layout=layout)
    LocalFilesystem().remove_tree(layout.home)


def perdure(bench: Bench, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, str(bench.layout.bin / "perdure"), *words],
        env={"PATH": os.defpath, "HOME": str(bench.layout.home.parent), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def generation(bench: Bench) -> str:
    return str(load_pointer(bench.layout, "default"))


def is_on_trial(layout: Layout) -> bool:
    return load_trial(layout, "default") is not None


def break_facts(bench: Bench) -> None:
    """Have the plugin of the generation on trial raise when it is imported."""
    path = next(bench.layout.generation(generation(bench)).glob("venv/lib/python3*/site-packages/perdure_facts"))
    path.chmod(0o755)
    module = path / "__init__.py"
    size = module.stat().st_size
    module.unlink()
    module.write_text("raise RuntimeError('broken on purpose')\n".ljust(size))
    shutil.rmtree(path / "__pycache__", ignore_errors=True)


@pytest.mark.proves("trial-app-confirms")
def test_the_first_healthy_start_confirms(app: Bench) -> None:
    selected = generation(app)
    ended = perdure(app, "plugins", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["data"]["generation"] == selected
    assert not is_on_trial(app.layout)
    assert [receipt.status for receipt in app.receipts("confirm")] == ["ok"]
    for _ in range(2):
        assert (perdure(app, "tools").returncode, generation(app)) == (0, selected)


@pytest.mark.proves("trial-app-confirms")
def test_a_start_that_loads_no_plugins_confirms_nothing(app: Bench) -> None:
    selected = generation(app)
    for _ in range(3):
        assert perdure(app, "--version").stdout.startswith("perdure ")
        assert perdure(app, "--help").returncode == 0
    assert is_on_trial(app.layout)
    assert (perdure(app, "tools").returncode, generation(app)) == (0, selected)
    assert not is_on_trial(app.layout)


@pytest.mark.proves("trial-app-confirms", "trial-goes-back")
def test_a_start_with_a_plugin_that_fails_confirms_nothing_and_the_next_one_goes_back(app: Bench) -> None:
    broken = generation(app)
    break_facts(app)
    ended = perdure(app, "plugins")
    assert (ended.returncode, "broken on purpose" in ended.stdout) == (0, True)
    assert (is_on_trial(app.layout), generation(app)) == (True, broken)
    ended = perdure(app, "plugins")
    assert ended.returncode == 0
    assert f"{broken} went back to {generation(app)}: its last start was not confirmed" in ended.stderr
    assert generation(app) != broken
    assert not is_on_trial(app.layout)


@pytest.mark.proves("trial-app-confirms", "trial-never-delays-a-start")
def test_where_pm_is_busy_the_start_is_not_counted_and_the_next_one_confirms(app: Bench) -> None:
    selected = generation(app)
    with held(app.layout, "a long install"):
        assert perdure(app, "tools").returncode == 0
    assert is_on_trial(app.layout)
    assert perdure(app, "tools").returncode == 0
    assert (is_on_trial(app.layout), generation(app)) == (False, selected)


@pytest.mark.proves("start-waits-for-nobody")
def test_a_long_install_elsewhere_delays_no_start(app: Bench) -> None:
    """Case 52: the app boots on the committed generation, in its usual time."""
    app.call("confirm")

    def time_three() -> float:
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            assert perdure(app, "--version").returncode == 0
            assert perdure(app, "tools").returncode == 0
            times.append(time.perf_counter() - begun)
        return min(times)

    usual = time_three()
    with held(app.layout, "a long install"):
        # It cannot have waited: the lock is not given back before it has ended.
        assert time_three() < 3 * usual + 0.5


@pytest.mark.proves("start-without-network")
@pytest.mark.platforms("linux")
def test_a_start_makes_no_network_call(app: Bench, tmp_path: Path) -> None:
    """Case 107."""
    app.call("confirm")
    trace = tmp_path / "trace"
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("nothing may be traced here")
    for words in (["--version"], ["tools"], ["plugins"], ["run", "runtime.about"]):
        prefix = ("strace", "-f", "-qq", "-e", "trace=network", "-e", "signal=none", "-o", str(trace))
        assert perdure(app, *words, prefix=prefix).returncode == 0
        assert trace.read_text() == "", words


@pytest.mark.proves("start-without-network")
@pytest.mark.platforms("linux")
def test_without_any_network_interface_the_app_starts(app: Bench, as_root: None) -> None:
    for words in (["--version"], ["tools"], ["plugins"]):
        ended = perdure(app, *words, prefix=("unshare", "-n"))
        assert ended.returncode == 0, ended.stderr
    assert not is_on_trial(app.layout)


# A plugin that ends the app, and safe mode


def crash_facts(bench: Bench, source: str) -> None:
    """Have the selected plugin do that when it is imported, and a path file of its own leave a mark."""
    site = next(bench.layout.generation(generation(bench)).glob("venv/lib/python3*/site-packages"))
    module = site / "perdure_facts" / "__init__.py"
    for path in (site, module.parent):
        path.chmod(0o755)
    size = module.stat().st_size
    module.unlink()
    module.write_text(source.ljust(size))
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    mark = bench.layout.home.parent / "path-file"
    (site / "perdure_facts.pth").write_text(f"import os; os.close(os.open({str(mark)!r}, os.O_CREAT))\n")


@pytest.mark.proves("plugins-brought-back")
def test_a_plugin_that_ends_the_app_is_left_out_by_the_next_start_and_comes_back_by_the_command_it_names(
    app: Bench,
) -> None:
    """Cases 110 and 111, as a person meets them."""
    assert perdure(app, "plugins").returncode == 0  # confirms the trial
    crash_facts(app, "import os\nos._exit(9)\n")
    mark = app.layout.home.parent / "path-file"
    assert perdure(app, "--safe-mode", "plugins", "--json").returncode == 0
    assert not mark.exists(), "not even a path file runs in safe mode"
    assert perdure(app, "tools").returncode == 9
    assert mark.exists()
    ended = perdure(app, "tools")
    assert (ended.returncode, "runtime.about" in ended.stdout, "facts." in ended.stdout) == (0, True, False)
    command = ended.stderr.partition("bring it back: ")[2].split()
    assert command[1:] == ["plugin", "enable", "perdure-facts"]
    states = app.pm("plugin", "list", "--json").envelope["data"]["states"]
    assert [(state["name"], state["state"]) for state in states] == [("perdure-facts", "skipped")]
    crash_facts(app, "plugin = object()\n")
    assert "left out" in perdure(app, "tools").stderr
    brought = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (brought.returncode, "loads perdure-facts again" in brought.stdout) == (0, True), brought.stderr
    assert "left out" not in perdure(app, "tools").stderr

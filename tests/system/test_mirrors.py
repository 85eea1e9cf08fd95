"""Ways to the packages: a mirror, a directory, a proxy, an authority of one's own, a wheelhouse, a cache, or nothing.

Every home here starts with empty caches unless it says so: nothing that a test needs comes from somewhere else.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, built_contents, differences, fingerprint
from tests.system.mirror import Mirror, make_authority
from tests.system.proxies import serve_proxy

DEAD_PROXY = "http://127.0.0.1:9"


def require_same_packages(found: Installation, expected: Installation) -> None:
    """Compare every file of both environments with those of another installation of the same checkout."""
    for name in ("generation_path", "runtime_path"):
        pair = [getattr(it, name) / "venv" for it in (expected, found)]
        assert differences(*(built_contents(venv, byte_code=False) for venv in pair)) == [], name


def require_nothing_selected(home: Path) -> None:
    """Check that a failed first installation selected nothing, and left no runtime, generation or launcher."""
    for name in ("pm/current", "profiles/default/current", "bin/perdure", "config.yaml"):
        assert not (home / name).exists(), name
    for name in ("pm/runtimes", "store/generations"):
        assert list(home.glob(f"{name}/*/record.json")) == [], name


@pytest.mark.proves("system-mirror")
@pytest.mark.parametrize("as_json", [pytest.param(False, marks=pytest.mark.slow), True], ids=["html", "json"])
def test_a_mirror_with_other_addresses_gives_the_same_files(
    installed: Installation, new_home: Path, mirror: Callable[..., Mirror], as_json: bool
) -> None:
    """Case 11."""
    served = mirror(as_json=as_json)
    there = replace(installed, home=new_home)
    there.up("--index-url", served.url).succeeded()
    require_same_packages(there, installed)
    fetched = {path.rpartition("/")[2].partition("-")[0] for path in served.asked if path.startswith("/wheels/")}
    assert {"uv", "click", "pluggy", "rich"} <= fetched


@pytest.mark.proves("system-mirror")
def test_a_directory_is_a_mirror_too(
    installed: Installation, new_home: Path, index: Path, without_network: tuple[str, ...]
) -> None:
    """Case 11, without a network."""
    there = replace(installed, home=new_home, prefix=without_network)
    there.up("--index-url", index.as_uri()).succeeded()
    require_same_packages(there, installed)


@pytest.mark.proves("system-mirror")
def test_an_https_mirror_through_a_proxy_under_an_authority_of_ones_own(
    installed: Installation, new_home: Path, mirror: Callable[..., Mirror], tmp_path: Path
) -> None:
    """The authority, the proxy and the mirror are named by variables once and by flags once."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make an authority with")
    authority, context = make_authority(tmp_path / "authority")
    served = mirror(context=context)
    there = replace(installed, home=new_home)
    distrusted = there.up("--index-url", served.url)
    assert (distrusted.code, distrusted.error["code"]) == (1, "network-unreachable")
    assert "--certificate FILE" in distrusted.error["hint"]
    require_nothing_selected(new_home)
    with serve_proxy() as proxy:
        there.with_environment(
            PERDURE_INDEX_URL=served.url, PERDURE_PROXY=proxy.url, PERDURE_CERTIFICATE=str(authority)
        ).up().succeeded()
        passed = list(proxy.passed)
        require_same_packages(there, installed)
        LocalFilesystem().remove_tree(new_home / "cache" / "uv")
        LocalFilesystem().remove_tree(there.generation_path)
        ways = ("--index-url", served.url, "--proxy", proxy.url, "--certificate", authority)
        assert there.pm("install", "--json", *ways).succeeded().json["status"] == "ok"
        assert len(proxy.passed) > len(passed), "the flags of perdure-pm lead the same way"
    host = served.url.split("/")[2]
    assert set(proxy.passed) == {f"CONNECT {host}"}


@pytest.mark.proves("system-mirror")
def test_the_mirror_of_config_yaml_is_used(own: Installation, mirror: Callable[..., Mirror]) -> None:
    served = mirror()
    own.pm("config", "set", "network.index-url", served.url).succeeded()
    LocalFilesystem().remove_tree(own.home / "cache" / "uv")
    LocalFilesystem().remove_tree(own.generation_path)
    own.pm("install").succeeded()
    assert any(path.startswith("/wheels/click") for path in served.asked)
    own.perdure("plugins", "--check").succeeded()


@pytest.mark.proves("system-integrity")
@pytest.mark.parametrize(
    ("tampered", "broken"),
    [("uv-", False), ("rich-", False), ("rich-", True)],
    ids=["uv itself", "a package of PM", "no archive any more"],
)
def test_a_mirror_that_serves_other_bytes_is_refused(
    installed: Installation, new_home: Path, mirror: Callable[..., Mirror], tampered: str, broken: bool
) -> None:
    served = mirror(tampered=tampered, broken=broken)
    answer = replace(installed, home=new_home).up("--index-url", served.url)
    assert (answer.code, answer.error["code"]) == (8, "integrity")
    assert tampered.rstrip("-") in answer.error["summary"]
    require_nothing_selected(new_home)


@pytest.mark.proves("system-integrity")
def test_other_bytes_for_the_app_leave_the_old_generation(own: Installation, mirror: Callable[..., Mirror]) -> None:
    LocalFilesystem().remove_tree(own.home / "cache" / "uv")
    (own.generation_path / "boot.json").chmod(0o644)
    (own.generation_path / "boot.json").write_text("{}", encoding="utf-8")  # damaged: the next install rebuilds
    before = fingerprint(own.home, without=("receipts", "cache"))
    answer = own.pm("install", "--json", "--index-url", mirror(tampered="pluggy-").url)
    assert (answer.code, answer.error["code"]) == (8, "integrity")
    assert "pluggy==" in answer.error["summary"]
    assert differences(before, fingerprint(own.home, without=("receipts", "cache"))) == []
    assert own.receipts()[-1]["status"] == "failed"
    assert "Hash mismatch" in own.receipts()[-1]["error"]["context"]["uv"]
    own.pm("install", "--json", "--index-url", mirror().url).succeeded()
    own.perdure("plugins", "--check").succeeded()


@pytest.mark.proves("system-missing-named")
def test_a_mirror_without_a_package_is_told_so_by_name(
    installed: Installation, new_home: Path, index: Path, tmp_path: Path
) -> None:
    shutil.copytree(index.parent / "wheels", tmp_path / "wheels")
    shutil.copytree(index, tmp_path / "simple", ignore=shutil.ignore_patterns("markdown-it-py"))
    answer = replace(installed, home=new_home).up("--index-url", (tmp_path / "simple").as_uri())
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert "markdown-it-py==" in answer.error["summary"]
    require_nothing_selected(new_home)


@pytest.mark.proves("system-missing-named")
def test_a_wheelhouse_is_enough_without_any_network_and_what_it_lacks_is_named(
    installed: Installation, new_home: Path, wheels: Path, tmp_path: Path, without_network: tuple[str, ...]
) -> None:
    """Cases 8 and 106: a wheel that only another wheel needs is missing; with it the same command works."""
    house = tmp_path / "wheel house"
    shutil.copytree(wheels, house)
    (missing,) = house.glob("mdurl-*.whl")
    missing.rename(tmp_path / missing.name)
    there = replace(installed, home=new_home, prefix=without_network)
    answer = there.up("--wheelhouse", house)
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert "mdurl==" in answer.error["summary"]
    assert str(house) in answer.error["summary"]
    require_nothing_selected(new_home)
    (tmp_path / missing.name).rename(missing)
    there.up("--wheelhouse", house).succeeded()
    require_same_packages(there, installed)


@pytest.mark.proves("system-missing-named")
def test_a_wheelhouse_without_uv_is_told_which_file_to_add(
    installed: Installation, new_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    answer = replace(installed, home=new_home).up("--wheelhouse", tmp_path / "empty")
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert answer.error["context"]["file"].startswith("uv-")
    assert answer.error["hint"] == f"put {answer.error['context']['file']} into {tmp_path / 'empty'}"


@pytest.mark.proves("system-missing-named")
def test_offline_with_cold_caches_names_what_is_missing(installed: Installation, new_home: Path) -> None:
    there = replace(installed, home=new_home)
    answer = there.up("--offline")
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert "uv-" in answer.error["summary"]
    shutil.copytree(installed.home / "tools", new_home / "tools")
    answer = there.up("--offline")
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert "==" in answer.error["summary"]
    require_nothing_selected(new_home)


@pytest.mark.proves("system-no-network")
def test_offline_with_warm_caches_asks_nothing_of_the_network(
    installed: Installation, warm_home: Path, without_network: tuple[str, ...]
) -> None:
    """Case 107 in part: there is no interface to ask."""
    there = replace(installed, home=warm_home, prefix=without_network)
    there.up("--offline").succeeded()
    require_same_packages(there, installed)


@pytest.mark.proves("system-no-network")
def test_without_a_network_the_person_is_told_soon_and_the_same_command_works_later(
    installed: Installation, new_home: Path, without_network: tuple[str, ...], mirror: Callable[..., Mirror]
) -> None:
    there = replace(installed, home=new_home)
    started = time.monotonic()
    answer = replace(there, prefix=without_network).bootstrap("up")
    assert time.monotonic() - started < 30
    assert answer.code == 1
    error, state, hint = answer.err.splitlines()[-3:]
    assert error.startswith("error: no connection to ")
    assert state == "  state: unchanged"
    assert hint.startswith("  try: check the connection, or name a way: ")
    assert "Traceback" not in answer.err
    require_nothing_selected(new_home)
    there.up("--index-url", mirror().url).succeeded()
    require_same_packages(there, installed)


@pytest.mark.slow
@pytest.mark.proves("system-no-network")
def test_a_network_that_goes_away_before_the_packages_is_told_soon_too(
    installed: Installation, new_home: Path, without_network: tuple[str, ...], figure: Callable[[str], None]
) -> None:
    shutil.copytree(installed.home / "tools", new_home / "tools")
    started = time.monotonic()
    answer = replace(installed, home=new_home, prefix=without_network).up()
    figure(f"no network: told after {time.monotonic() - started:.0f} s (uv waits for names)")
    assert time.monotonic() - started < 90
    assert (answer.code, answer.error["code"]) == (1, "network-unreachable")
    assert (answer.error["retry"], answer.error["state"]) == ("later", "unchanged")
    assert "--wheelhouse DIR" in answer.error["hint"]
    require_nothing_selected(new_home)


@pytest.mark.proves("system-no-network")
def test_a_dead_proxy_is_told_as_an_outage(installed: Installation, new_home: Path) -> None:
    answer = replace(installed, home=new_home).up("--proxy", DEAD_PROXY)
    assert (answer.code, answer.error["code"]) == (1, "network-unreachable")
    require_nothing_selected(new_home)

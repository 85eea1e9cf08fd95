"""A payload of a host with an extra, a plugin from an index and one from a directory: staged, moved and activated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.pm.fake_host import make_workshop
from tests.pm.locked_host import write_locked_checkout, write_shop
from tests.pm.plugin_sources import write_manifest_plugin
from tests.pm.polling import wait_until
from tests.pm.wheels import write_wheel
from tests.system.local_python_index import write_downloads
from tests.system.machine import Answer, Installation, copy_home, execute, fingerprint, plain_environment
from tests.system.mirror import serve_mirror, write_index

pytestmark = pytest.mark.platforms("linux", "darwin")

PLUGINS = {"fakehost-clock": "0.1.0", "gadget": "1.5", "notify": "here"}


@pytest.fixture(scope="module")
def hosting(
    empty: Installation, wheels: Path, uv: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A home of that host with both plugins; where everything was had from is gone from then on. Nobody changes it."""
    folder = tmp_path_factory.mktemp("hosting")
    shop = folder / "shop"
    shop.mkdir()
    write_shop(shop)
    for wheel in wheels.glob("*.whl"):
        shutil.copy(wheel, shop / "wheels")
    shutil.rmtree(shop / "simple")
    write_index(shop / "wheels", shop / "simple")
    served = serve_mirror(shop)
    source = write_locked_checkout(make_workshop(folder / "workshop", uv, checkout / "pm" / "uv.lock"), served, folder)
    there = replace(empty, home=copy_home(empty.home, folder / "home"), environment=plain_environment())
    there.pm("config", "set", "network.index-url", served.url).succeeded()
    there.pm("install", "--checkout", source, "--extra", "gear").succeeded()
    notify = write_manifest_plugin(folder / "notify", says="here")
    there.pm("plugin", "add", "gadget", notify, "--yes").succeeded()
    shutil.rmtree(notify)
    shutil.rmtree(source)
    yield there
    served.stop()
    LocalFilesystem().remove_tree(there.home)


@pytest.fixture(scope="module")
def staged(hosting: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What that home stages; nobody changes it."""
    out = tmp_path_factory.mktemp("staged") / "pay load"
    answer = hosting.pm("stage", "--out", out, "--json").succeeded()
    assert answer.json["data"]["generations"] == [hosting.generation]
    return out


@pytest.fixture
def payload(staged: Path, tmp_path: Path) -> Path:
    """A copy of it at another path, to be changed at will."""
    return Path(shutil.copytree(staged, tmp_path / "an other place"))


def activate(payload: Path, home: Path, *words: str | Path, prefix: tuple[str, ...] = ()) -> Answer:
    """Put a payload into a home as a person does, with the Python that runs the tests first on the PATH."""
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.defpath}"
    command = [*prefix, "sh", payload / "activate", "--home", home, "--json", *words]
    return execute(command, environment=plain_environment({"PATH": path}), cwd=payload.parent)


def says(there: Installation) -> dict[str, object]:
    """Return what the host says that it runs."""
    said: dict[str, object] = json.loads(there.run([there.home / "bin" / "fakehost"]).succeeded().out)
    return said


def packages(there: Installation) -> dict[str, str]:
    record = json.loads((there.generation_path / "record.json").read_bytes())
    return {entry["name"]: entry["version"] for entry in record["packages"]}


@pytest.mark.proves("stage-whole")
def test_a_payload_runs_at_another_place_without_a_network_and_grows_from_its_wheelhouse(
    hosting: Installation, payload: Path, new_home: Path, without_network: tuple[str, ...]
) -> None:
    """Cases 7 and 43."""
    activate(payload, new_home, prefix=without_network).succeeded()
    there = replace(hosting, home=new_home, prefix=without_network)
    assert says(there)["plugins"] == PLUGINS
    assert packages(there) == packages(hosting)
    assert packages(there)["pinion"] == "1.0", "the extra came with it"
    there.pm("doctor", "--deep", "--json").succeeded()
    assert there.pm("install", "--offline", "--json").succeeded().json["status"] == "noop"
    # Nothing of the old place is left: neither its paths, nor how it reached its index.
    for file in (new_home / "config.yaml", *new_home.glob("store/releases/*/release.json")):
        text = file.read_text(encoding="utf-8")
        assert str(hosting.home.parent) not in text
        assert "127.0.0.1" not in text
    # What is put into the wheelhouse can be added; the extra, the host and the other plugins stay as they were locked.
    write_wheel(payload / "wheelhouse", "late", "1.0", requires=["sprocket"])
    write_wheel(payload / "wheelhouse", "sprocket", "1.9")
    there.pm("plugin", "add", "late", "--yes", "--wheelhouse", payload / "wheelhouse").succeeded()
    assert packages(there) == {**packages(hosting), "late": "1.0"}
    assert says(there)["plugins"] == {**PLUGINS, "late": "1.0"}
    # And what breaks is mended from the payload alone.
    LocalFilesystem().remove_tree(there.home / "cache" / "uv")
    LocalFilesystem().remove_tree(there.generation_path / "venv")
    there.pm("repair", "--offline", "--wheelhouse", payload / "wheelhouse").succeeded()
    assert says(there)["plugins"] == {**PLUGINS, "late": "1.0"}


@pytest.mark.proves("stage-whole")
def test_a_payload_with_its_own_interpreter_needs_nothing_of_the_machine_but_sh(
    hosting: Installation,
    new_home: Path,
    tmp_path: Path,
    without_network: tuple[str, ...],
    without_python: tuple[str, ...],
) -> None:
    try:
        downloads = write_downloads(tmp_path / "pythons", Path(sys.base_prefix))
    except ValueError as error:
        pytest.skip(f"the interpreter that runs this cannot be packed: {error}")
    own = replace(hosting, home=copy_home(hosting.home, tmp_path / "home"))
    out = tmp_path / "payload"
    answer = own.pm("stage", "--with-python", "--out", out, "--json", "--python-downloads", downloads).succeeded()
    interpreter = answer.json["data"]["interpreter"]
    assert (out / "content" / interpreter).is_file()
    LocalFilesystem().remove_tree(own.home)
    moved = tmp_path / "moved"
    out.rename(moved)
    before = fingerprint(moved)
    prefix = (*without_network, *without_python)
    activate(moved, new_home, prefix=prefix).succeeded()
    assert fingerprint(moved) == before, "not even byte code was written into it"
    there = replace(hosting, home=new_home, prefix=prefix)
    assert says(there)["plugins"] == PLUGINS
    record = json.loads((there.generation_path / "record.json").read_bytes())
    assert record["interpreter"]["path"] == str(new_home / interpreter)
    listed = there.pm("python", "list", "--json").succeeded()
    assert str(new_home / interpreter) in listed.out
    assert not os.stat(new_home / interpreter).st_mode & 0o222, "one that can be written is one that was cut off"
    shutil.rmtree(moved)
    assert says(there)["plugins"] == PLUGINS
    there.pm("doctor", "--deep", "--json").succeeded()


@pytest.mark.proves("stage-whole")
def test_what_cannot_be_staged_whole_is_not_there(hosting: Installation, tmp_path: Path) -> None:
    """Cases 8 and 9, and a plugin that runs from where it is edited."""
    own = replace(hosting, home=copy_home(hosting.home, tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    shutil.copytree(Path(__file__).parent, place / "there")
    before = fingerprint(place)
    answer = own.pm("stage", "--out", place / "there", "--json")
    assert (answer.code, answer.error["code"]) == (2, "usage")
    # A directory of wheels that lacks one which only another one needs.
    house = tmp_path / "house"
    own.pm("wheelhouse", "build", "--out", house).succeeded()
    (house / "wheelhouse.json").unlink()
    for name in ("mdurl", "sprocket"):
        (wheel,) = house.glob(f"{name}-*.whl")
        wheel.unlink()
    answer = own.pm("stage", "--out", place / "new", "--json", "--wheelhouse", house)
    assert (answer.code, answer.error["code"]) == (6, "artefact-missing")
    assert [name.split("-")[0] for name in answer.error["context"]["missing"]] == ["mdurl", "sprocket"]
    edited = write_manifest_plugin(tmp_path / "edited", name="edited")
    own.pm("plugin", "add", "--editable", edited, "--yes").succeeded()
    for words in (("stage",), ("wheelhouse", "build"), ("stage", "--dry-run")):
        answer = own.pm(*words, "--out", place / "new", "--json")
        assert (answer.code, answer.error["code"]) == (2, "source-unusable")
        assert "edited runs from where it is edited" in answer.error["summary"]
        assert answer.error["hint"].endswith("perdure-pm plugin disable edited")
    assert fingerprint(place) == before
    own.pm("plugin", "disable", "edited").succeeded()
    assert own.pm("stage", "--out", place / "new", "--json", "--dry-run").succeeded().json["data"]["dry_run"] is True
    assert fingerprint(place) == before
    LocalFilesystem().remove_tree(own.home)


@pytest.mark.proves("payload-sealed")
def test_a_payload_that_is_not_for_this_place_is_refused_before_anything_is_written(
    hosting: Installation, payload: Path, new_home: Path, tmp_path: Path
) -> None:
    """Case 10, another machine, another Python, changed bytes, and a home that is somebody's already."""
    script = (payload / "activate").read_text(encoding="utf-8")

    def refused(code: str, exit_code: int, *words: str | Path) -> Answer:
        answer = activate(payload, new_home, *words)
        assert (answer.code, answer.error["code"]) == (exit_code, code), answer.out
        assert not new_home.exists()
        return answer

    target = json.loads((payload / "payload.json").read_bytes())["target"]
    (payload / "activate").write_text(
        script.replace(f'"{target}"', '"amiga-68k"').replace(f"for {target}", "for amiga-68k")
    )
    assert f"is for amiga-68k, and this machine is {target}" in refused("platform-unsupported", 1).error["summary"]
    (payload / "activate").write_text(script.replace("3.11", "3.99").replace("3.12", "3.99").replace("3.13", "3.99"))
    assert "is for Python 3.99, and there is none" in refused("interpreter-missing", 1).error["summary"]
    (payload / "activate").write_text(script + "\n", encoding="utf-8")
    assert "activate: has " in refused("integrity", 8).error["summary"]
    (payload / "activate").write_text(script, encoding="utf-8")
    (wheel,) = (payload / "wheelhouse").glob("click-*.whl")
    data = bytearray(wheel.read_bytes())
    data[1000] ^= 1
    wheel.write_bytes(data)
    seed = payload / "content" / "pm" / "seed"
    answer = refused("integrity", 8)
    assert f"wheelhouse/{wheel.name}: has other contents" in answer.error["summary"]
    assert answer.error["hint"].startswith("reinstall ")
    # What says where PM is in it leads out of it.
    name = (seed / "current").read_text(encoding="ascii").strip()
    shutil.move(seed / name, tmp_path / "seed")
    (seed / name).symlink_to(tmp_path / "seed")
    answer = refused("integrity", 8)
    assert answer.error["hint"].startswith("reinstall ")
    (seed / "current").write_text(f"../../../../{tmp_path.name}\n", encoding="ascii")
    assert refused("integrity", 8).error["hint"].startswith("reinstall ")


@pytest.mark.proves("payload-resumed")
def test_an_activation_that_was_killed_is_carried_on_and_no_other_home_is_written_over(
    hosting: Installation, payload: Path, new_home: Path
) -> None:
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.defpath}"
    generations = new_home / "store" / "generations"
    for step in ("copying ", "building PM's runtime", ""):
        with subprocess.Popen(
            [payload / "activate", "--home", new_home],
            env=plain_environment({"PATH": path}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stderr is not None
            told: list[str] = []
            while step and not any(line.startswith(step) for line in told[-1:]):
                told.append(running.stderr.readline())
                assert told[-1], f"{running.wait()}: {''.join(told)}"
            if not step:  # what ends within a second tells nothing; here the generation says how far it is
                wait_until(lambda: generations.is_dir() and any(generations.iterdir()), "a generation is being built")
            os.killpg(running.pid, signal.SIGKILL)
        assert (new_home / "pm" / "activation").exists()
    activate(payload, new_home).succeeded()
    there = replace(hosting, home=new_home)
    assert says(there)["plugins"] == PLUGINS
    there.pm("collect").succeeded()
    there.pm("doctor", "--deep", "--json").succeeded()
    before = fingerprint(new_home)
    answer = activate(payload, new_home)
    assert (answer.code, answer.error["code"]) == (2, "usage")
    assert "is not empty" in answer.error["summary"]
    assert fingerprint(new_home) == before

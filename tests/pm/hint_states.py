"""The states in which PM tells a person to run a command: how each is reached.

Owns: bringing a home there. Does not own: which text is printed in which state (hint_rows), finding the texts
(hint_sites), or running what they name (integration/test_hints).

A state is a function that brings a home there and returns what PM printed. It has 500 lines and more because there is
one for each place that names a command, and they build upon each other.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.lock_view import parse_locked_tool
from perdure_pm.model.registration import parse_registrations
from perdure_pm.model.requirement import parse_source
from perdure_pm.ops.packages import install_packages
from perdure_pm.store.inventory import hash_file
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.pm.guest import extension, guest, init
from tests.pm.integration.test_moved_names import TABLE
from tests.pm.plugin_sources import commit, project, write_files, write_manifest_plugin, write_plugin
from tests.pm.wheels import write_sdist, write_wheel

State = Callable[[Bench, Path], str]
"""Takes the home and an empty directory, and returns what was printed."""


def real(bench: Bench, text: str) -> str:
    """Return what was printed as it was: the command line of the tests writes HOME for the home."""
    return text.replace("HOME/", f"{bench.layout.home}/").replace("HOME ", f"{bench.layout.home} ")


def refused(*words: str, before: State | None = None) -> State:
    """Return a state in which this command line is refused, and the hint of that."""

    def state(bench: Bench, folder: Path) -> str:
        if before is not None:
            before(bench, folder)
        ended = bench.pm("--json", *(word.format(folder=folder) for word in words))
        (error,) = ended.envelope["errors"]
        return real(bench, str(error["hint"]))

    return state


def said(*words: str, line: str, before: State | None = None) -> State:
    """Return a state in which this command line says a line with `line` in it, and that line, or all where it is ""."""

    def state(bench: Bench, folder: Path) -> str:
        if before is not None:
            before(bench, folder)
        ended = bench.pm(*(word.format(folder=folder) for word in words))
        lines = [text for text in (ended.out + ended.err).splitlines() if line in text]
        assert lines, ended
        return real(bench, lines[0] if line else ended.out)

    return state


def diagnosed(code: str, before: State) -> State:
    """Return a state of which doctor says this, and its hint."""

    def state(bench: Bench, folder: Path) -> str:
        before(bench, folder)
        problems = bench.pm("doctor", "--json").envelope["data"]["problems"]
        return real(bench, next(problem["hint"] for problem in problems if problem["code"] == code))

    return state


def raised(operation: str, *, before: State | None = None, lazy: bool = False, **arguments: object) -> State:
    """Return a state in which an operation that no command line asks for is refused, and the hint of that."""

    def state(bench: Bench, folder: Path) -> str:
        if before is not None:
            before(bench, folder)
        context = bench.context(lazy=lazy, lazy_allowed=not lazy)
        with pytest.raises(PerdureError) as caught:
            bench.call(operation, context, **arguments)
        return str(caught.value.hint)

    return state


def listed(name: str, before: State) -> State:
    """Return a state in which `plugin list` says of this plugin how to change its state."""

    def state(bench: Bench, folder: Path) -> str:
        before(bench, folder)
        states = bench.pm("plugin", "list", "--json").envelope["data"]["states"]
        return real(bench, next(found["hint"] for found in states if found["name"] == name))

    return state


# Ways into a state


def added(*names: str) -> State:
    def state(bench: Bench, _folder: Path) -> str:
        return bench.add(*names)

    return state


def after(*states: State) -> State:
    def state(bench: Bench, folder: Path) -> str:
        for step in states:
            step(bench, folder)
        return ""

    return state


def ran(*words: str) -> State:
    def state(bench: Bench, folder: Path) -> str:
        ended = bench.pm(*(word.format(folder=folder) for word in words))
        assert ended.exit_code == 0, ended
        return ended.out

    return state


def edited(change: Callable[[str], str]) -> State:
    """Have a person change the profile's configuration."""

    def state(bench: Bench, _folder: Path) -> str:
        bench.config.write_text(change(bench.config.read_text(encoding="utf-8")), encoding="utf-8")
        return ""

    return state


def writable(path: Path) -> Path:
    """Have what lies in a directory of a generation removable; what lies elsewhere, and above, keeps its mode."""
    ways = (path, *path.parents)
    end = next((at for at, folder in enumerate(ways) if folder.parent.name == "generations"), -1)
    for folder in ways[: end + 1]:
        if folder.is_dir():
            folder.chmod(0o755)
    return path


def without(place: Callable[[Bench], Path]) -> State:
    """Have a file or a directory gone."""

    def state(bench: Bench, _folder: Path) -> str:
        path = place(bench)
        writable(path.parent)
        LocalFilesystem().remove_tree(path)
        return ""

    return state


def first(bench: Bench) -> Path:
    """Return the directory of the oldest generation."""
    return bench.layout.generation(min(bench.generations, key=lambda name: int(name.partition("-")[0])))


def spoiled(place: Callable[[Bench], Path], text: str = "nonsense") -> State:
    def state(bench: Bench, _folder: Path) -> str:
        path = place(bench)
        if path.parent.parent.name == "generations":
            writable(path.parent)
            path.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return ""

    return state


def pointer_gone(bench: Bench, _folder: Path) -> str:
    bench.layout.pointer("default").unlink()
    return ""


def release_gone(bench: Bench, _folder: Path) -> str:
    LocalFilesystem().remove_tree(bench.layout.release(bench.current.record["host"]["release"]))
    return ""


def interpreter_gone(bench: Bench, _folder: Path) -> str:
    python = bench.current.path / "venv" / "bin" / "python"
    writable(python.parent)
    python.unlink()
    python.symlink_to("/nowhere/python3")
    return ""


def crashed(bench: Bench, _folder: Path) -> str:
    """Have the app have noted that gadget ended a start."""
    bench.add("gadget")
    folder = bench.layout.crashes("default")
    folder.mkdir()
    note = {"distribution": "gadget", "version": "1.0", "during": "its import", "at": "2026-11-29T12:00:00Z"}
    (folder / "gadget.json").write_text(json.dumps(note), encoding="utf-8")
    return ""


def hosting(*with_plugins: str) -> State:
    """Have the guest installed, and plugins of it."""

    def state(bench: Bench, _folder: Path) -> str:
        init(bench, "guest")
        bench.call("install")
        if with_plugins:
            bench.add(*with_plugins)
        return ""

    return state


def wheelhouse(bench: Bench) -> Path:
    assert bench.network.wheelhouse is not None
    return Path(bench.network.wheelhouse)


def only_as_source(bench: Bench, _folder: Path) -> str:
    hosting()(bench, _folder)
    write_sdist(wheelhouse(bench), extension(wheelhouse(bench), "grown", "1.0"), backend="")
    return ""


def built_beside(bench: Bench, folder: Path) -> str:
    hosting()(bench, folder)
    write_sdist(wheelhouse(bench), extension(wheelhouse(bench), "grown", "1.0"), backend="import guest\n")
    bench.call("config-set", key="install.build", value="grown")
    return ""


def feathered(bench: Bench, folder: Path) -> str:
    hosting("hat")(bench, folder)
    write_wheel(wheelhouse(bench), "feather", "1.0", entries="")
    write_wheel(wheelhouse(bench), "hat", "2.0", requires=["guest", "feather"], entries="[guest]\nhat = hat:plugin\n")
    return ""


def newer_guest(version: str) -> State:
    """Have a plugin that needs a newer host than the one installed."""

    def state(bench: Bench, folder: Path) -> str:
        init(bench, "guest>=1,<3" if version == "2.0" else "guest<2")
        bench.call("install")
        guest(wheelhouse(bench), version)
        extension(wheelhouse(bench), "wants", "1.0", needs=f"guest>={version}")
        return ""

    return state


def way_out(plugin: str, command: str, before: State) -> State:
    """Return the refusal of a plugin, and that of the ways out which begins with `command`."""

    def state(bench: Bench, folder: Path) -> str:
        before(bench, folder)
        context = bench.pm("plugin", "add", plugin, "--json").envelope["errors"][0]["context"]
        (clash,) = context["clashes"]
        found = [way["command"] for way in clash["ways_out"] if way["command"]]
        chosen = next(text for text in found if command in text)
        return real(bench, chosen)

    return state


def host_wheel_gone(bench: Bench, folder: Path) -> str:
    wheel = guest(folder, "1.5")
    init(bench, str(wheel))
    wheel.rename(folder / "moved.whl")
    guest(folder, "1.0")
    return ""


def noisy_host(bench: Bench, _folder: Path) -> str:
    source = "import pathlib\ndef main(): pathlib.Path(__file__).with_name('noise').write_text('x')\n"
    write_wheel(wheelhouse(bench), "noisy", "1.0", source=source, entries="[console_scripts]\nnoisy = noisy:main\n")
    init(bench, "noisy")
    return ""


def changing_host(bench: Bench, _folder: Path) -> str:
    source = "import pathlib\ndef main(): pathlib.Path(__file__).write_text('x')\n"
    write_wheel(wheelhouse(bench), "odd", "1.0", source=source, entries="[console_scripts]\nodd = odd:main\n")
    init(bench, "odd")
    return ""


def failing_host(bench: Bench, _folder: Path) -> str:
    source = "import sys\ndef main(): sys.exit(sys.argv[1:] != ['--ready'])\n"
    write_wheel(wheelhouse(bench), "sick", "1.0", source=source, entries="[console_scripts]\nsick = sick:main\n")
    init(bench, "sick")
    return ""


def without_lock(bench: Bench, folder: Path) -> str:
    shutil.copytree(bench.workshop.checkout, folder / "host")
    (folder / "host" / "uv.lock").unlink()
    return ""


def with_a_lock_of(text: str) -> State:
    def state(bench: Bench, folder: Path) -> str:
        shutil.copytree(bench.workshop.checkout, folder / "host")
        lock = folder / "host" / "uv.lock"
        lock.write_text(text or lock.read_text().replace('directory = "clock"', 'directory = "gone"'))
        return ""

    return state


def lagging(bench: Bench, folder: Path) -> str:
    """Have a second profile whose host is the older one."""
    bench.call("install", bench.context(profile="other"))
    bench.call("upgrade", checkout=str(bench.workshop.newer_checkout))
    return ""


def trials(bench: Bench, _folder: Path) -> str:
    bench.add("gadget", confirm_within=600)
    bench.add("part-1", confirm_within=3600)
    return ""


def half_built(bench: Bench, _folder: Path) -> str:
    (bench.layout.generation("9-00000000dead") / "venv").mkdir(parents=True)
    return ""


def source_gone(*, copy_only: bool) -> State:
    def state(bench: Bench, folder: Path) -> str:
        identity = bench.add(str(write_plugin(folder / "notify")))
        if not copy_only:
            shutil.rmtree(folder / "notify")
        LocalFilesystem().remove_tree(bench.layout.plugins)
        LocalFilesystem().remove_tree(bench.layout.generation(identity) / "venv" / "lib")
        return ""

    return state


def old_project(bench: Bench, folder: Path) -> str:
    place = write_plugin(folder / "old")
    backend = "[build-system]\nrequires = []\nbuild-backend = 'made'\nbackend-path = ['.']\n"
    made = write_wheel(folder, "notify", "1.0", source='plugin = "old"\n')
    script = f"import shutil\ndef build_wheel(to, *_):\n    shutil.copy({str(made)!r}, to)\n    return {made.name!r}\n"
    write_files(place, {"pyproject.toml": backend, "made.py": script, "setup.py": ""})
    return ""


def authored(bench: Bench, folder: Path) -> str:
    write_manifest_plugin(folder / "notify")
    return ""


def taken(_bench: Bench, folder: Path) -> str:
    (folder / "taken").mkdir()
    return ""


def boot_file(bench: Bench) -> Path:
    return first(bench) / "boot.json"


def committed(_bench: Bench, folder: Path) -> str:
    commit(write_plugin(folder / "notify"))
    return ""


def unheard(bench: Bench, _folder: Path) -> str:
    """Have an operation succeed whose answer nobody can read."""
    ended = bench.command_line("plugin", "add", "gadget", variables=bench.settings(), shell_suffix=">/dev/full")
    return real(bench, ended.err.splitlines()[-1])


def lock_damaged(_bench: Bench, folder: Path) -> str:
    lock = folder / "pm" / "uv.lock"
    write_files(folder, {"pm/uv.lock": "version = 1\n"})
    commit(folder)
    lock.write_text("nonsense", encoding="utf-8")
    with pytest.raises(PerdureError) as caught:
        parse_locked_tool(lock.read_text(encoding="utf-8"), "uv")
    return str(caught.value.hint)


def nameless_source(bench: Bench, folder: Path) -> str:
    authored(bench, folder)
    with pytest.raises(PerdureError) as caught:
        parse_source("notify @ file://relative")
    return str(caught.value.hint).replace("perdure-pm", f"{bench.layout.bin}/perdure-pm")


def edited_in_place(bench: Bench, folder: Path) -> str:
    bench.add(str(write_plugin(folder / "notify")), editable=True)
    return ""


def edited_source_gone(bench: Bench, folder: Path) -> str:
    edited_in_place(bench, folder)
    shutil.rmtree(folder / "notify")
    return ""


def newer_form(number: int) -> State:
    """Have a generation as a newer PM writes it."""

    def state(bench: Bench, _folder: Path) -> str:
        (identity,) = (name for name in bench.generations if name.startswith(f"{number}-"))
        record = writable(bench.layout.generation(identity) / "record.json")
        text = json.dumps({**json.loads(record.read_text(encoding="utf-8")), "schema": 2})
        record.unlink()
        record.write_text(text, encoding="utf-8")
        return ""

    return state


def old_names(bench: Bench, folder: Path) -> str:
    """Have a plugin at hand that uses old names of another one, more than are shown at once."""
    notify = write_plugin(folder / "notify")
    write_files(notify, {"src/notify/moved-names.toml": TABLE, "src/notify/api.py": "def send(): ...\n"})
    bench.add(str(notify))
    uses = "def page():\n" + "    from notify.old import send\n" * 7 + "    send()\n\nplugin = 'pager 1'\n"
    write_files(folder / "pager", {"pyproject.toml": project("pager"), "src/pager/__init__.py": uses})
    return ""


def package_in_the_way(bench: Bench, folder: Path) -> str:
    """Have config.yaml register a package whose command cannot be put where something else lies."""
    write_files(folder, {"hello": "#!/bin/sh\n"})
    archive = folder / "hello.tar"
    with tarfile.open(archive, "w") as file:
        file.add(folder / "hello", "hello")
    artefact = {"target": target_name(), "path": str(archive), "sha256": hash_file(archive)}
    raw = {"name": "hello", "version": "1.0", "kind": "archive", "artefacts": [artefact], "executables": ["hello"]}
    with bench.layout.config.open("a", encoding="utf-8") as config:
        config.write(f"packages:\n- {json.dumps(raw)}\n")
    (bench.layout.bin / "hello" / "mine").mkdir(parents=True)
    return ""


def program_sick(bench: Bench, folder: Path) -> str:
    """Have an external plugin whose own check fails since it was added."""
    manifest = "manifest: 1\nname: bridge\nruntime: external\nexternal: {command: [./run], check: [./run, --check]}\n"
    write_files(folder / "bridge", {"plugin.yaml": manifest, "run": "#!/bin/sh\n"})
    (folder / "bridge" / "run").chmod(0o755)
    bench.add(str(folder / "bridge"))
    (folder / "bridge" / "run").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    return ""


def package_lost(bench: Bench, folder: Path) -> str:
    """Have the launcher of a package gone that config.yaml registers."""
    with zipfile.ZipFile(folder / "hello.zip", "w") as archive:
        archive.writestr("hello", "#!/bin/sh\n")
    place = folder / "hello.zip"
    artefact = {"target": target_name(), "path": str(place), "sha256": hash_file(place)}
    raw = {"name": "hello", "version": "1.0", "kind": "archive", "artefacts": [artefact], "executables": ["hello"]}
    with bench.layout.config.open("a", encoding="utf-8") as file:
        file.write(f"packages:\n- {json.dumps(raw)}\n")
    bench.call("install")
    (bench.layout.bin / "hello").unlink()
    return ""


def package_unasked(bench: Bench, _folder: Path) -> str:
    raw = {
        "name": "hello",
        "version": "1.0",
        "kind": "archive",
        "artefacts": [{"target": target_name(), "url": "https://nowhere.invalid/hello.tar", "sha256": "0" * 64}],
        "executables": ["hello"],
    }
    context = replace(bench.context(lazy=True, lazy_allowed=False), packages=parse_registrations([raw]))
    with pytest.raises(PerdureError) as caught:
        install_packages(context, {})
    return str(caught.value.hint)


def lying_uv(bench: Bench, _folder: Path) -> str:
    """Have uv export another version than the one that the host locked."""
    script = f'if [ "$1" = export ]; then "{bench.workshop.uv}" "$@" | sed s/sprocket==1.0/sprocket==1.1/; exit; fi\n'
    replace_uv(bench.workshop, bench.layout, f'{script}exec "{bench.workshop.uv}" "$@"\n')
    return ""


def other_python() -> tuple[str, str]:
    """Return an interpreter of another minor version than this one, and that version; nothing where there is none."""
    for minor in range(11, 20):
        found = shutil.which(f"python3.{minor}")
        if found is None or minor == sys.version_info.minor:
            continue
        ended = subprocess.run([found, "-I", "-c", ""], capture_output=True, check=False)
        if ended.returncode == 0:  # a shim may lead to nothing
            return found, f"3.{minor}"
    return "", ""


def for_another_python(bench: Bench, _folder: Path) -> str:
    python, version = other_python()
    if not python:
        pytest.skip("this machine has one Python only")
    hosting()(bench, _folder)
    needs = [f"Requires-Python: =={version}.*"]
    write_wheel(wheelhouse(bench), "elsewhere", "1.0", requires=["guest"], metadata=needs, entries="")
    return ""

"""The states in which PM tells a person to run a command: how each is reached, and what is said there.

Owns: one row for each such text in the source, with the values that a person puts in the place of a placeholder. Does
not own: finding the texts (hint_sites), or running what they name (integration/test_hints).

A state is a function that brings a home there and returns what PM printed, in a shell's spelling.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import PerdureError
from tests.pm.bench import Bench
from tests.pm.guest import extension, guest, init
from tests.pm.plugin_sources import write_files, write_manifest_plugin, write_plugin
from tests.pm.wheels import write_sdist, write_wheel

State = Callable[[Bench, Path], str]
"""Takes the home and an empty directory, and returns what was printed."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One text, and how it comes to be printed."""

    site: str
    """Its key (hint_sites.Site.key)."""
    state: State
    home: str = "bench"
    """The fixture that the home is: `bench`, `there` or `locked` of tests/pm/integration."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What a person writes for each placeholder; `{folder}`, `{home}` and `{checkout}` in it are paths of the test."""
    exit_codes: tuple[int, ...] = (0,)
    """3 where the command is one that finds what is wrong."""


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
    """Return a state in which this command line says a line with `line` in it, and that line; all of it where none is
    named."""

    def state(bench: Bench, folder: Path) -> str:
        if before is not None:
            before(bench, folder)
        ended = bench.pm(*words)
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
    """Have what lies in a directory of a generation removable."""
    for folder in (path, *path.parents):
        if folder.is_dir():
            folder.chmod(0o755)
        if folder.parent.name == "generations":
            break
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
    (folder / "gadget.json").write_text('{"distribution": "gadget", "version": "1.0", "during": "its import", "at": "2026-11-29T12:00:00Z"}')
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
        found = [way["command"] for way in context["clash"]["ways_out"] if way["command"]]
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


GADGET = added("gadget")
ROWS = (
    Row(
        site="adapters/uv.py: where you trust it: perdure-pm config set install.build {name}",
        home="there",
        state=refused("plugin", "add", "grown", before=only_as_source),
    ),
    Row(
        site="ops/builds.py: perdure-pm config set {setting} {','.join([*before, package])}",
        home="there",
        state=refused("plugin", "add", "grown", before=only_as_source),
    ),
    Row(
        site="adapters/uv.py: where its build needs the host: perdure-pm config set install.build-with-host {name}",
        home="there",
        state=refused("plugin", "add", "grown", before=built_beside),
    ),
    Row(
        site="cli/configuration.py: perdure-pm config set --help",
        state=refused("config", "set", "install.lazy", "true", "--unset"),
    ),
    Row(
        site="cli/host.py: {data['home']} {said} {data['host']['name']}; next: perdure-pm --home {shlex.quote(data['home'])} install",
        home="there",
        state=said("host", "init", "guest", line="next:"),
    ),
    Row(
        site="cli/host.py: perdure-pm host init SOURCE --env NAME=VALUE",
        home="there",
        state=refused("host", "init", "guest", "--env", "nonsense"),
        words={"SOURCE": "guest"},
    ),
    Row(
        site="cli/looking.py: until {trial['until']}, then {trial['previous']} again; to keep it: perdure-pm confirm",
        state=said("plugin", "add", "gadget", "--confirm-within", "10m", line="on trial"),
    ),
    Row(site="cli/looking.py: perdure-pm receipts", state=refused("receipts", "no-such-one")),
    Row(
        site="cli/mending.py:   try: {true_hint('perdure-pm collect', session)}",
        state=said("doctor", line=" collect", before=half_built),
    ),
    Row(
        site="cli/mending.py:   and {len(files) - SHOWN_FILES} more, which this names: perdure-pm doctor --json",
        state=said("doctor", line="more, which", before=without(lambda bench: bench.current.path / "venv" / "lib")),
        exit_codes=(3,),
    ),
    Row(
        site="cli/plugins.py: everything works with all {len(data['plugins'])} plugins\nwhere it does not for you: "
        "perdure-pm plugin bisect -- COMMAND, which fails then",
        state=said("plugin", "bisect", line="", before=GADGET),
        words={"COMMAND": "fakehost"},
    ),
    Row(
        site="cli/plugins.py: the configuration and the generation differ: perdure-pm install",
        state=said("plugin", "list", line="differ", before=edited(lambda text: text + "- part-1\n")),
    ),
    Row(
        site="cli/plugins.py: found in {data['tries']} tries; leave out: perdure-pm plugin disable {names}",
        state=said(
            "plugin", "bisect", "--", "sh", "-c", "! fakehost | grep -q gadget", line="leave out", before=GADGET
        ),
    ),
    Row(site="cli/plugins.py: perdure-pm plugin list", state=refused("plugin", "disable")),
    Row(site="cli/session.py: {PROGRAM} {self.command} --yes", state=refused("uninstall")),
    Row(
        site="ops/bisect.py: perdure-pm install",
        state=refused("plugin", "bisect", before=after(GADGET, release_gone)),
    ),
    Row(site="ops/bisect.py: perdure-pm status", state=refused("plugin", "bisect", "--", "false", before=GADGET)),
    Row(
        site="ops/candidate.py: perdure-pm config set host.commands NAME",
        state=refused("plugin", "add", "gadget", before=ran("config", "set", "host.commands", "absent")),
        words={"NAME": "fakehost"},
    ),
    Row(
        site="ops/consent.py: perdure-pm {command} --yes",
        home="there",
        state=refused("plugin", "update", "hat", before=feathered),
    ),
    Row(site="ops/doctor.py: perdure-pm repair", state=diagnosed("generation-damaged", without(boot_file))),
    Row(
        site="ops/doctor.py: perdure-pm confirm   (keeps what is selected; to go back: perdure-pm rollback)",
        state=diagnosed("trial-damaged", after(GADGET, spoiled(lambda bench: bench.layout.trial("default")))),
    ),
    Row(
        site="ops/environment.py: perdure-pm install",
        state=refused("run", "--", "true", before=interpreter_gone),
    ),
    Row(
        site="ops/environment.py: perdure-pm env   (shows the PATH that commands are looked for in)",
        state=refused("run", "--", "no-such-command"),
    ),
    Row(
        site="ops/explanation.py: perdure-pm plugin add '{bare}=={version}'",
        home="locked",
        state=way_out("choosy>=1.1", "plugin add", added("right")),
    ),
    Row(
        site="ops/explanation.py: perdure-pm plugin disable {name}",
        home="locked",
        state=way_out("choosy>=1.1", "plugin disable", added("right")),
    ),
    Row(
        site="ops/explanation.py: perdure-pm upgrade",
        home="there",
        state=way_out("wants", "upgrade", newer_guest("2.0")),
    ),
    Row(
        site="ops/explanation.py: perdure-pm host init '{asked.name}{extras}=={version}' --yes",
        home="there",
        state=way_out("wants", "host init", newer_guest("2.5")),
    ),
    Row(
        site="ops/host.py: perdure-pm host init REQUIREMENT   (or install --checkout DIR, for a host's source tree)",
        home="there",
        state=refused("install"),
        words={"REQUIREMENT": "guest"},
    ),
    Row(
        site="ops/host_lock.py: perdure-pm host init PATH-OF-A-WHEEL --yes",
        home="there",
        state=refused("install", before=host_wheel_gone),
        words={"PATH-OF-A-WHEEL": "{folder}/guest-1.0-py3-none-any.whl"},
    ),
    Row(site="ops/labelling.py: perdure-pm history", state=refused("label", "absent", "--remove")),
    Row(
        site='ops/lazy.py: "{context.layout.bin / \'perdure-pm\'}" install',
        state=raised("install", lazy=True, before=edited(lambda text: text + "- part-1\n")),
    ),
    Row(
        site="ops/plugin_check.py: name a directory, a wheel or an sdist: perdure-pm plugin check ./DIRECTORY",
        state=refused("plugin", "check", "gadget", before=authored),
        words={"./DIRECTORY": "{folder}/notify"},
    ),
    Row(
        site="ops/plugin_check.py: perdure-pm install",
        state=refused("plugin", "check", "{folder}/notify", before=after(authored, release_gone)),
    ),
    Row(
        site="ops/plugin_project.py: say it: perdure-pm plugin add 'NAME @ {shown}', or give it a plugin.yaml with name",
        state=refused("plugin", "add", "{folder}/old", before=old_project),
        words={"NAME": "notify"},
    ),
    Row(site="ops/plugin_view.py: perdure-pm plugin list", state=refused("plugin", "info", "absent")),
    Row(
        site="ops/plugin_view.py: perdure-pm install",
        state=listed("part-1", edited(lambda text: text + "- part-1\n")),
    ),
    Row(
        site="ops/plugin_view.py: perdure-pm plugin enable {name}",
        state=listed("gadget", after(GADGET, ran("plugin", "disable", "gadget"))),
    ),
    Row(
        site="ops/plugins.py: where that is what you want: perdure-pm plugin remove {name}, then add it",
        state=refused(
            "plugin", "add", "notify==1.0", before=after(authored, ran("plugin", "add", "{folder}/notify"))
        ),
    ),
    Row(site="ops/plugins.py: perdure-pm plugin list", state=refused("plugin", "remove", "absent")),
    Row(
        site="ops/profiles.py: the profile {profile} still runs {host['name']} {host['version']}: "
        "perdure-pm upgrade --profile {profile}",
        state=said("rollback", "2", line="still runs", before=lagging),
    ),
    Row(
        site="ops/recovery.py: {found.generation} is on trial again until {until}; to keep it: perdure-pm confirm",
        state=said("rollback", line="on trial again", before=trials),
    ),
    Row(
        site="ops/release.py: uv lock --project {shlex.quote(str(checkout))}",
        state=refused("install", "--checkout", "{folder}/host", before=without_lock),
    ),
    Row(
        site="ops/release.py: get the checkout back as it was released, or lock it again: "
        "uv lock --project {shlex.quote(str(checkout))}",
        state=refused("install", "--checkout", "{folder}/host", before=with_a_lock_of("")),
    ),
    Row(site="ops/rollback.py: perdure-pm history", state=refused("rollback")),
    Row(
        site="ops/rollback.py: choose another: perdure-pm history",
        state=refused("rollback", before=after(GADGET, spoiled(lambda bench: first(bench) / "record.json"))),
    ),
    Row(
        site="ops/soundness.py: choose another: perdure-pm history",
        state=refused("rollback", before=after(GADGET, without(boot_file))),
    ),
    Row(
        site="ops/skeleton.py: perdure-pm plugin new NAME",
        home="there",
        state=refused("plugin", "new", ""),
        words={"NAME": "{folder}/mine"},
    ),
    Row(
        site="ops/skeleton.py: choose another name, or another directory: perdure-pm plugin new DIRECTORY/NAME",
        home="there",
        state=refused("plugin", "new", "{folder}/taken", before=taken),
        words={"DIRECTORY/NAME": "{folder}/mine"},
    ),
    Row(
        site="ops/snapshots.py: put it back, or take the plugin out: perdure-pm plugin remove {source.name}",
        state=refused("install", before=source_gone(copy_only=False)),
    ),
    Row(
        site="ops/sources.py: perdure-pm plugin add {shlex.quote(source.entry)}",
        state=refused("repair", before=source_gone(copy_only=True)),
    ),
    Row(
        site="ops/status.py: perdure-pm plugin enable {crash.distribution}",
        state=said("status", line="since a crash", before=crashed),
    ),
    Row(site="ops/switching.py: perdure-pm plugin list", state=refused("plugin", "enable", "absent")),
    Row(site="ops/wanted.py: perdure-pm plugin list", state=refused("plugin", "update", "absent")),
    Row(
        site="ops/verify.py: by its own settings or by a variable (perdure-pm host init SOURCE --env NAME=VALUE)",
        home="there",
        state=said("install", line="wrote lib", before=noisy_host),
        words={"SOURCE": "noisy"},
    ),
    Row(
        site="ops/verify.py: where the command is asked wrongly: perdure-pm config set host.health ARGUMENTS",
        home="there",
        state=refused("install", before=failing_host),
        words={"ARGUMENTS": "-- --ready"},
    ),
    Row(
        site="ops/verify.py: where another command of it does not: perdure-pm config set host.health ARGUMENTS",
        home="there",
        state=refused("install", before=changing_host),
        words={"ARGUMENTS": "-- --ready"},
    ),
    Row(site="store/generations.py: perdure-pm history", state=refused("rollback", "99")),
    Row(
        site="store/generations.py: perdure-pm install",
        state=refused("run", "--", "true", before=without(lambda bench: bench.layout.pointer("default"))),
    ),
    Row(
        site="store/generations.py: perdure-pm install --checkout DIR",
        home="there",
        state=refused("run", "--", "true"),
        words={"DIR": "{checkout}"},
    ),
    Row(
        site="store/pointer.py: perdure-pm install",
        state=refused("run", "--", "true", before=spoiled(lambda bench: bench.layout.pointer("default"))),
    ),
)

HINTS = "tests/pm/integration/test_hints.py"
CONSENT = "tests/pm/integration/test_consent.py::test_an_address_among_a_plugins_requirements_is_refused_by_name_until_it_is_accepted"
ELSEWHERE: Mapping[str, str] = {}
"""Texts whose state another test brings about, which does there what it says."""
NO_COMMANDS: Mapping[str, str] = {}
"""Texts that name a program and ask nobody to run it, each with what it is."""

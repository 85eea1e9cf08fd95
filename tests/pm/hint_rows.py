"""Every text of PM that tells a person to run a command, with the state in which it is printed.

Owns: one row for each such text in the source, with the values of its placeholders, and what is tried elsewhere. Does
not own: the states (hint_states), finding the texts (hint_sites), or running what they name (integration/test_hints).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.pm.hint_states import (
    State,
    added,
    after,
    authored,
    boot_file,
    built_beside,
    changing_host,
    committed,
    crashed,
    diagnosed,
    edited,
    edited_source_gone,
    failing_host,
    feathered,
    first,
    for_another_python,
    half_built,
    host_wheel_gone,
    interpreter_gone,
    lagging,
    listed,
    lock_damaged,
    lying_uv,
    nameless_source,
    newer_form,
    newer_guest,
    noisy_host,
    old_names,
    old_project,
    only_as_source,
    other_python,
    package_in_the_way,
    package_unasked,
    pointer_gone,
    program_sick,
    raised,
    ran,
    refused,
    release_gone,
    said,
    source_gone,
    spoiled,
    taken,
    trials,
    unheard,
    way_out,
    with_a_lock_of,
    without,
    without_lock,
)

ADDRESS = (
    "tests/pm/integration/test_consent.py::"
    "test_an_address_among_a_plugins_requirements_is_refused_by_name_until_it_is_accepted"
)
FRESH = "tests/pm/integration/test_screening.py::test_what_is_too_new_is_let_through_by_the_commands_of_the_refusal"
OLD = (
    "tests/pm/integration/test_screening.py::"
    "test_an_old_release_that_only_seems_to_fit_is_refused_unless_it_is_asked_for"
)
RUNTIME = "tests/system/test_runtime.py"
STAGE = "tests/system/test_stage.py"
STAGED = f"{STAGE}::test_a_payload_runs_at_another_place_without_a_network_and_grows_from_its_wheelhouse"
REBUILD = f"{RUNTIME}::test_self_rebuild_gives_a_fresh_runtime_beside_the_old_one"
RESCUE = f"{RUNTIME}::test_what_cannot_be_rescued_is_told_once_and_not_tried_for_ever"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One text, and how it comes to be printed."""

    site: str
    """Its key (hint_sites.Site.key)."""
    state: State
    home: str = "bench"
    """The fixture that the home is: `bench`, `there` or `locked` of tests/pm/integration."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What a person writes for each placeholder; `{folder}` and `{checkout}` in it are paths of the test."""
    exit_codes: tuple[int, ...] = (0,)
    """3 where the command is one that finds what is wrong."""


GADGET = added("gadget")
ROWS = (
    Row(site="adapters/uv_failures.py: perdure-pm python list --available", state=refused("python", "install", "3.99")),
    Row(
        site="ops/interpreter_verbs.py: perdure-pm python list --available",
        state=refused("python", "install", "3.9"),
    ),
    Row(
        site="ops/interpreter_verbs.py: perdure-pm python list --available   (shows the versions)",
        state=refused("python", "install", "nothing"),
    ),
    Row(site="ops/interpreter_verbs.py: perdure-pm python list", state=refused("python", "uninstall", "3.13")),
    Row(site="ops/own_runtime.py: perdure-pm self status", state=refused("self", "rollback", "ffffffffffff")),
    Row(
        site="adapters/uv_failures.py: where you trust it: perdure-pm config set install.build {name}",
        home="there",
        state=refused("plugin", "add", "grown", before=only_as_source),
    ),
    Row(
        site="ops/builds.py: perdure-pm config set {setting} {','.join([*before, package])}",
        home="there",
        state=refused("plugin", "add", "grown", before=only_as_source),
    ),
    Row(
        site="adapters/uv_failures.py: where its build needs the host: "
        "perdure-pm config set install.build-with-host {name}",
        home="there",
        state=refused("plugin", "add", "grown", before=built_beside),
    ),
    Row(
        site="cli/configuration.py: perdure-pm config set --help",
        state=refused("config", "set", "install.lazy", "true", "--unset"),
    ),
    Row(
        site="cli/host.py: {data['home']} {said} {data['host']['name']}; next: perdure-pm --home {home} install",
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
        site="cli/mending.py:   and {more} more, which this names: perdure-pm doctor --json",
        state=said("doctor", line="more, which", before=without(lambda bench: bench.current.path / "venv" / "lib")),
        exit_codes=(3,),
    ),
    Row(
        site="cli/mending.py:   try: {true_hint('perdure-pm repair', session)}",
        state=said("verify", line=" repair", before=without(boot_file)),
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
        site="ops/host_lock.py: where the name is mistyped: perdure-pm host init NAME --yes   "
        "(else name what has it: --index-url URL, or --wheelhouse DIR)",
        home="there",
        state=refused("install", before=ran("host", "init", "gueast")),
        words={"NAME": "guest"},
    ),
    Row(
        site="ops/host_lock.py: perdure-pm host init PATH-OF-A-WHEEL --yes",
        home="there",
        state=refused("install", before=host_wheel_gone),
        words={"PATH-OF-A-WHEEL": "{folder}/guest-1.0-py3-none-any.whl"},
    ),
    Row(site="ops/labelling.py: perdure-pm history", state=refused("label", "absent", "--remove")),
    Row(
        site="ops/lazy.py: \"{context.layout.bin / 'perdure-pm'}\" install",
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
        site="ops/plugin_project.py: say it: perdure-pm plugin add 'NAME @ {shown}', "
        "or give it a plugin.yaml with name",
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
        state=refused("plugin", "add", "notify==1.0", before=after(authored, ran("plugin", "add", "{folder}/notify"))),
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
        state=refused("run", "--", "true", before=pointer_gone),
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
    Row(
        site="adapters/git.py: look at what it has: git ls-remote {shlex.quote(url)}",
        state=refused("plugin", "add", "git+file://{folder}/notify@absent", before=committed),
    ),
    Row(
        site="cli/render.py: it was done all the same: {PROGRAM} receipts {receipt[:8]}",
        state=unheard,
    ),
    Row(
        site="model/lock_view.py: get pm/uv.lock back as it was released (in a checkout: git checkout pm/uv.lock)",
        state=lock_damaged,
    ),
    Row(
        site="model/requirement.py: name its directory or its file instead: perdure-pm plugin add ./DIRECTORY",
        state=nameless_source,
        words={"./DIRECTORY": "{folder}/notify"},
    ),
    Row(
        site="ops/doctor.py: install what it needs, or leave it out: perdure-pm plugin disable {program}",
        state=diagnosed("external-broken", program_sick),
    ),
    Row(
        site="ops/doctor.py: perdure-pm install",
        state=diagnosed("protection-behind", ran("config", "set", "host.protect", "prefer")),
    ),
    Row(
        site="ops/configured_packages.py: {fault.summary}; what config.yaml has under packages is not in line: "
        "perdure-pm install",
        state=said("install", line="not in line", before=package_in_the_way),
    ),
    Row(
        site="ops/moved_names.py: {name} uses names that moved: {say_use(own[0])}{more} "
        "(perdure-pm plugin info {name})",
        state=said("plugin", "add", "{folder}/pager", line="uses names", before=old_names),
    ),
    Row(
        site="cli/looking.py: and {len(moved) - SHOWN_USES} more: perdure-pm plugin info NAME",
        state=said("status", line="2 more", before=after(old_names, ran("plugin", "add", "{folder}/pager"))),
        words={"NAME": "pager"},
    ),
    Row(
        site="ops/doctor.py: a newer PM reads it; what there is of PM in this home: perdure-pm self status",
        state=diagnosed("record-newer", after(GADGET, newer_form(1))),
    ),
    Row(
        site="ops/doctor.py: {NEWER}   (or one that this PM reads: perdure-pm rollback)",
        state=diagnosed("selection-newer", after(GADGET, newer_form(2))),
    ),
    Row(
        site="ops/doctor.py: put it back, or take the plugin out: perdure-pm plugin remove {source.name}",
        state=diagnosed("editable-gone", edited_source_gone),
    ),
    Row(
        site="ops/packages.py: \"{layout.bin / 'perdure-pm'}\" config set install.lazy true",
        state=package_unasked,
    ),
    Row(
        site="ops/resolve.py: perdure-pm plan", home="locked", state=refused("plugin", "add", "gadget", before=lying_uv)
    ),
    Row(
        site="ops/sitting_out.py: build on an interpreter that it runs on: "
        "perdure-pm plugin add '{misfit.entry}' --python PATH",
        home="there",
        state=refused("plugin", "add", "elsewhere", before=for_another_python),
        words={"PATH": other_python()[0]},
    ),
    Row(
        site="ops/typed_sources.py: name the directory: perdure-pm plugin add --editable ./DIRECTORY",
        state=refused("plugin", "add", "--editable", "gadget", before=authored),
        words={"./DIRECTORY": "{folder}/notify"},
    ),
    Row(
        site="ops/stage.py: perdure-pm plugin update {name}",
        state=refused(
            "stage",
            "--out",
            "{folder}/out",
            before=after(
                authored,
                ran("plugin", "add", "{folder}/notify"),
                without(lambda bench: next(bench.layout.plugins.iterdir())),
            ),
        ),
    ),
    Row(
        site="ops/stage.py: perdure-pm repair",
        state=refused("stage", "--out", "{folder}/out", before=release_gone),
    ),
    Row(
        site="ops/wheelhouse.py: add a copy of it in its place, or take it out: perdure-pm plugin disable {name}",
        state=refused(
            "stage",
            "--out",
            "{folder}/out",
            before=after(authored, ran("plugin", "add", "--editable", "{folder}/notify")),
        ),
    ),
    Row(
        site="ops/wheelhouse.py: perdure-pm install",
        state=refused(
            "wheelhouse",
            "build",
            "--out",
            "{folder}/out",
            before=without(lambda bench: bench.layout.pointer("default")),
        ),
    ),
    Row(
        site="ops/wheelhouse.py: perdure-pm repair",
        state=refused("wheelhouse", "build", "--out", "{folder}/out", before=release_gone),
    ),
)

ELSEWHERE: Mapping[str, str] = {
    "store/managed.py: change it in the flake and build again; or have an installation of PM's own beside it, "
    "in a checkout: python3 pm/bootstrap.py --home DIR up": "tests/system/test_up.py::"
    "test_up_without_json_speaks_to_a_person",
    "ops/doctor.py: install bubblewrap, or: perdure-pm config set host.protect prefer   (then perdure-pm install)": (
        "tests/pm/integration/test_protection.py::test_doctor_says_what_is_behind_and_what_is_missing"
    ),
    "adapters/uv_failures.py: where you trust that address: perdure-pm config set install.direct-urls {name}": ADDRESS,
    "ops/verify.py: where it is to end by itself: perdure-pm config set host.serve --unset": "tests/pm/integration/"
    "test_hosting.py::test_a_version_that_ends_by_itself_is_not_selected_and_the_receipt_says_how_it_ended",
    "ops/resolve.py: where you trust that address: perdure-pm config set install.direct-urls {names}": ADDRESS,
    "bootstrapping.py: \"{self.layout.bin / 'perdure-pm'}\" self rebuild": f"{RUNTIME}::"
    "test_what_a_person_asks_for_in_so_many_words_is_not_lazy",
    "bootstrapping.py: {said} answers from generation {generation} in {self.layout.home}\nto have it on your PATH: "
    "\"{self.layout.bin / 'perdure-pm'}\" path\n": "tests/system/test_up.py::test_up_without_json_speaks_to_a_person",
    "cli/authoring.py: perdure-pm plugin add {shlex.quote(click.format_filename(str(data['path'])))}": "tests/system/"
    "test_authoring.py::test_a_new_plugin_installs_runs_and_passes_its_own_tests",
    "client.py: run the same command again; if it happens again: perdure-pm self rebuild": REBUILD,
    "client.py: see what was recorded: perdure-pm receipts": "tests/pm/cli/test_contract.py::"
    "test_an_answer_is_one_object",
    'launcher/entry.py: python3 pm/bootstrap.py --home "{home}" up   (in a checkout of Perdure)': RESCUE,
    'ops/doctor.py: python3 pm/bootstrap.py --home "{layout.home}" up': RESCUE,
    "ops/doctor.py: give this user the right to read it, or remove it; then perdure-pm repair": "tests/pm/integration/"
    "test_any_state.py::test_what_this_user_may_not_read_is_named_and_what_helps_does",
    "ops/doctor.py: perdure-pm self rebuild": REBUILD,
    "ops/repair.py: {problem}: python3 pm/bootstrap.py --home {home} up, in a checkout": RESCUE,
    'ops/seed.py: python3 pm/bootstrap.py --home "{home}" up   (in a checkout of Perdure)': RESCUE,
    "ops/carried.py: make one for it where there is a network: perdure-pm wheelhouse build --platform {here} "
    "--out DIR": "tests/system/test_carrying.py::test_a_wheelhouse_for_another_machine_and_python_holds_their_wheels",
    "bootstrapping.py: {text}\nto have it on your PATH: \"{self.layout.bin / 'perdure-pm'}\" path\n": f"{STAGE}::"
    "test_an_activation_that_was_killed_is_carried_on_and_no_other_home_is_written_over",
    "ops/payload.py: make one on a machine of the same kind as this: perdure-pm stage --out DIR": STAGED,
    "ops/payload.py: name a Python {payload.python} with --python PATH, or have one in the payload: perdure-pm stage "
    "--with-python --out DIR": f"{STAGE}::test_a_payload_with_its_own_interpreter_needs_nothing_of_the_machine_but_sh",
    "ops/payload.py: reinstall from a payload that is as it was made: copy all of it again, or make one anew with "
    "perdure-pm stage --out DIR": STAGED,
    "ops/screening.py: or let it through: {command}, then perdure-pm {verb} {pins}{agreed}{by_hand}": FRESH,
    "ops/screening.py: perdure-pm config set install.quarantine-exceptions '{', '.join([*others, *asked])}'": FRESH,
    "ops/screening.py: to have the old one all the same: perdure-pm plugin add '{one.name}=={one.chosen.version}'": OLD,
    "ops/screening.py: where the old release is what you want: "
    "perdure-pm plugin add '{far[0].name}=={far[0].chosen.version}'": OLD,
    "ops/interpreter_verbs.py: perdure-pm python list   (perdure-pm collect removes what nothing needs any more)": ""
    "tests/system/test_own_pythons.py::test_the_host_moves_to_a_python_once_and_that_stays_as_long_as_anything_needs_it",
    "ops/own_runtime.py: {source} holds another version of PM than the one that runs: perdure-pm self update": "tests/"
    "system/test_self_update.py::test_an_upgrade_of_the_host_says_that_pm_is_another_version_than_its_checkout",
    "ops/own_runtime.py: name a checkout of Perdure, or an archive of one: perdure-pm self update DIR": "tests/system/"
    "test_self_update.py::test_an_update_is_selected_beside_the_old_version_and_one_step_goes_back",
    "ops/own_runtime.py: perdure-pm self rebuild   (builds the present one anew)": REBUILD,
    "wire.py: perdure-pm self rebuild": REBUILD,
    "wire.py: run the same command again; if it happens again: perdure-pm self rebuild": REBUILD,
}
"""Texts whose state another test brings about, which does there what they say; a fake home has no PM of its own."""

NO_COMMANDS: Mapping[str, str] = {
    "bootstrapping.py: perdure-pm {verb} ended with {ended.returncode} and no answer": "what was run",
    "bootstrap_options.py: perdure-pm {__version__}": "the version",
    "bootstrap_options.py: run perdure-pm from here": "a verb's help",
    "bootstrap_options.py: what perdure-pm stage made": "an argument's meaning",
    "ops/payload.py: name a directory that perdure-pm stage made": "says which",
    "cli/entry.py: {PROGRAM} {__version__}": "the version",
    "cli/options.py: Shared options (perdure-pm --help explains them)": "a heading of the help",
    "model/settings.py: the uv binary that tests use; bootstrap.py test sets it": "a variable's meaning",
    "ops/seed.py: run bootstrap.py from a complete checkout": "says from where",
}
"""Texts that name a program and no command that a person is to run, each with what it is."""

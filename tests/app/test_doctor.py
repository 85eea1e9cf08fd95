"""`perdure doctor` as a user meets it: whole output, of a sound generation and of everything that can be wrong."""

import shlex

import pytest

from tests.app.command_line import PYTHON, envelope_of
from tests.app.conftest import IDENTITY, Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

PM_OK = 'echo \'{"exit_code": 0, "data": {"summary": "generation 1 is whole"}}\'\n'


@pytest.fixture(autouse=True)
def _without_a_jail(generation: Generation) -> None:
    """Have doctor say the same on every machine: not each has what makes a jail."""
    policy = generation.home / "profiles" / "default" / "app.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("jail: off\n")


ON = {"active": True, "why_not": None, "gap": None}


def doctors_rows(generation: Generation, **changes: str) -> str:
    rows = {
        "perdure": "0.1.0",
        "python": f"{PYTHON} ({generation.python})",
        "generation": IDENTITY,
        "home": str(generation.home),
        "boot.json": "ok",
        "plugins": "2 loaded (runtime, files), 0 failures",
        "layers": "environment, floor, sentinels, audit-hook",
        "not on": "jail: the policy of this profile turns it off",
        "findings": "none",
        **changes,
    }
    return "".join(f"{name:10}  {value}\n" for name, value in rows.items())


@pytest.mark.proves("app-doctor-always-answers", "app-exit-codes")
def test_doctor_of_a_sound_generation_ends_with_pms_line(generation: Generation) -> None:
    generation.launcher("perdure-pm", PM_OK)
    done = generation.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == doctors_rows(generation) + "pm: generation 1 is whole\n"
    assert envelope_of(generation.run("doctor", "--json")) == {
        "schema": 1,
        "command": "doctor",
        "status": "ok",
        "exit_code": 0,
        "data": {
            "version": "0.1.0",
            "python": {"version": PYTHON, "executable": str(generation.python)},
            "generation": IDENTITY,
            "home": str(generation.home),
            "safe_mode": False,
            "boot": {"path": str(generation.boot_path), "state": "ok"},
            "plugins": {"loaded": ["runtime", "files"], "failures": []},
            "pm": {
                "status": "ok",
                "line": "generation 1 is whole",
                "data": {"summary": "generation 1 is whole"},
            },
            "moved_names": [],
            "layers": {
                "environment": ON,
                "floor": ON,
                "jail": {"active": False, "why_not": "the policy of this profile turns it off", "gap": None},
                "sentinels": ON,
                "audit-hook": ON,
            },
            "findings": [],
        },
        "errors": [],
    }


@pytest.mark.proves("app-doctor-shows-moved-names")
def test_doctor_shows_which_plugins_use_names_that_moved(generation: Generation) -> None:
    use = (
        '{"distribution": "hello", "file": "hello/__init__.py", "line": 3, "text": "a is now b, since 1; breaks at 2"}'
    )
    data = f'{{"summary": "generation 1 is whole", "generation": {{"moved_names": [{use}]}}}}'
    generation.launcher("perdure-pm", f'echo \'{{"exit_code": 0, "data": {data}}}\'\n')
    done = generation.run("doctor")
    said = "hello: hello/__init__.py:3: a is now b, since 1; breaks at 2"
    rows = doctors_rows(generation, findings="none")
    before, findings = rows.split("findings", 1)
    assert done.stdout == f"{before}old name    {said}\nfindings{findings}pm: generation 1 is whole\n"
    assert done.returncode == 0
    assert envelope_of(generation.run("doctor", "--json"))["data"]["moved_names"] == [said]


@pytest.mark.proves("app-doctor-always-answers", "app-boot-faults-named", "app-hints-run", "app-exit-codes")
@pytest.mark.parametrize("state", ["missing", "invalid"])
def test_doctor_and_version_answer_where_boot_json_is_broken(generation: Generation, state: str) -> None:
    launcher = generation.launcher("perdure-pm", PM_OK)
    if state == "missing":
        generation.boot_path.unlink()
        summary = f"{generation.boot_path} is missing: this generation does not say which plugins it holds"
    else:
        generation.boot_path.write_text("{}")
        fault = "$.schema is null; this version of perdure reads schema 1"
        summary = f"{generation.boot_path} is not a boot manifest: {fault}"
    hint = shlex.join([str(launcher), "install"])
    done = generation.run("doctor")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == (
        doctors_rows(generation, **{"boot.json": state, "findings": "1"})
        + f"found: {summary}\n  try: {hint}\npm: generation 1 is whole\n"
    )
    assert generation.run("--version").stdout == "perdure 0.1.0\n"
    for command in (["plugins"], ["tools"], ["run", "runtime.about"]):
        done = generation.run(*command)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {summary}\n  try: {hint}\n")


@pytest.mark.proves("app-doctor-always-answers", "app-hints-run")
def test_doctor_names_everything_that_is_wrong(generation: Generation) -> None:
    generation.boot(
        generation.plugin("dead", "import gone"),
        {"name": "crooked"},
        generation="9-other",
        host={"name": "perdure", "version": "9.9"},
    )
    (generation.home / "state").write_text("")
    done = generation.run("doctor")
    pm = f"python3 pm/bootstrap.py --home {shlex.quote(str(generation.home))} up   (in a checkout of Perdure)"
    plugins = shlex.join([str(generation.python), "-m", "perdure", "plugins"])
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == (
        doctors_rows(
            generation, **{"boot.json": "mismatch", "plugins": "2 loaded (runtime, files), 2 failures", "findings": "5"}
        )
        + f"found: {generation.boot_path} is for perdure 9.9 in generation 9-other, "
        f"and this is perdure 0.1.0 in {IDENTITY}\n  try: {pm}\n"
        f"found: {generation.home}/state is not a directory\n"
        "found: plugin dead: import: ModuleNotFoundError: No module named 'gone' "
        f"({generation.site}/dead_plugin.py:1)\n  try: {plugins}\n"
        "found: plugin crooked: its entry in boot.json: $.plugins[1].distribution must be text, not null or missing; "
        "$.plugins[1].version must be text, not null or missing; $.plugins[1].entry must be text, not null or missing\n"
        f"  try: {plugins}\n"
        f"found: PM: there is no {generation.home}/bin/perdure-pm\n  try: {pm}\n"
        f"pm: there is no {generation.home}/bin/perdure-pm\n"
    )

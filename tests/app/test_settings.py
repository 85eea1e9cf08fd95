"""What a person set for a plugin: checked before the plugin is imported, and given to it before anything else."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.app.conftest import IDENTITY, Generation

pytestmark = pytest.mark.proves("app-settings-validated")

PLUGIN = """
import sys
from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolResult
plugin = sys.modules[__name__]
taken = []

@hookimpl
def configure(settings, host):
    taken.append(dict(settings))
    assert host.version

@hookimpl
def tools():
    say = lambda call: ToolResult(text=str(taken))
    return [Tool(name="notify.taken", summary="Say.", parameters={"type": "object"}, run=say)]
"""
SCHEMA = {
    "properties": {"token": {"type": "string", "minLength": 2}, "retries": {"type": "integer", "default": 3}},
    "additionalProperties": False,
}


def write(generation: Generation, text: str | None, schema: object = SCHEMA, source: str = PLUGIN) -> Path:
    """Have a plugin with a schema, and the profile's app.yaml; return that."""
    plugin = generation.plugin("notify", source)
    manifests = {} if schema is None else {plugin["distribution"]: {"manifest": 1, "settings": schema}}
    generation.boot(plugin, manifests=manifests)
    path = generation.home / "profiles" / "default" / "app.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "current").write_text(f"{IDENTITY}\n")
    if text is not None:
        path.write_text(text, encoding="utf-8")
    return path


def taken(generation: Generation) -> str:
    """Return what the plugin was given, by its own word."""
    ended = generation.run("run", "notify.taken")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("name", ["perdure-notify", "Perdure_Notify"])
def test_a_plugin_is_given_what_was_set_for_it_and_nothing_else(generation: Generation, name: str) -> None:
    write(generation, f"# mine\nplugins:\n  {name}: {{token: abc}}\n  other: {{x: 1}}\napprovals: [x]\n")
    assert taken(generation) == "[{'token': 'abc'}]"


@pytest.mark.parametrize("text", [None, "", "plugins:\n", "plugins: {other: 1}\n"])
def test_without_anything_set_it_is_given_nothing(generation: Generation, text: str | None) -> None:
    write(generation, text)
    assert taken(generation) == "[{}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: {perdure-notify: {token: 5}}", "plugins.perdure-notify.token: 5 is not of type 'string'"),
        ("plugins: {perdure-notify: {token: x}}", "plugins.perdure-notify.token: 'x' is too short"),
        ("plugins: {perdure-notify: {tokens: x}}", "plugins.perdure-notify: Additional properties are not allowed"),
        ("plugins: {perdure-notify: [x]}", "plugins.perdure-notify: ['x'] is not of type 'object'"),
        ("plugins: {perdure-notify: {token: 2026-11-30}}", "plugins.perdure-notify.token is of type date"),
        ("plugins: [perdure-notify]", "plugins must be a mapping of plugins to their settings"),
        ("plugins: {", "cannot be read: "),
    ],
)
def test_what_does_not_fit_leaves_the_plugin_out_before_it_is_imported(
    generation: Generation, text: str, said: str
) -> None:
    path = write(generation, text, source="raise SystemExit('imported')\n")
    ended = generation.run("plugins", "--check", "--json")
    assert ended.returncode == 3
    (failure,) = json.loads(ended.stdout)["data"]["failures"]
    assert (failure["plugin"], failure["stage"]) == ("notify", "settings")
    assert failure["summary"].startswith(str(path))
    assert said in failure["summary"]


def test_what_a_schema_requires_is_asked_for_also_where_nothing_is_set(generation: Generation) -> None:
    write(generation, None, {**SCHEMA, "required": ["token"]})
    (failure,) = json.loads(generation.run("plugins", "--json").stdout)["data"]["failures"]
    assert failure["summary"].endswith("plugins.perdure-notify: 'token' is a required property")


@pytest.mark.parametrize(("text", "loaded"), [("plugins: {perdure-notify: {token: abc}}", True), (None, False)])
def test_what_a_person_set_keeps_no_generation_from_being_selected(
    generation: Generation, text: str | None, loaded: bool
) -> None:
    """PM tries a generation before the profile runs it: what can be tried is, and a missing token is no fault."""
    path = write(generation, text, {**SCHEMA, "required": ["token"]})
    (path.parent / "current").write_text("9-0123456789ab\n")
    ended = generation.run("plugins", "--check", "--json")
    assert ended.returncode == 0
    assert bool(json.loads(ended.stdout)["data"]["plugins"][-1]["tools"]) is loaded
    write(generation, text, {**SCHEMA, "required": ["token"]}, source="raise SystemExit(1)\n")
    (path.parent / "current").write_text("9-0123456789ab\n")
    assert generation.run("plugins", "--check").returncode == 3


def test_a_plugin_that_does_not_take_its_settings_is_left_out_and_the_others_work(
    generation: Generation, greeter: str
) -> None:
    write(generation, None, source=PLUGIN.replace("assert host.version", "raise ValueError('no')"))
    boot = json.loads(generation.boot_path.read_text())
    generation.boot(*boot["plugins"], generation.plugin("greeter", greeter), manifests=boot["manifests"])
    shown = json.loads(generation.run("plugins", "--json").stdout)["data"]
    (failure,) = shown["failures"]
    assert (failure["plugin"], failure["hook"], failure["summary"]) == ("notify", "configure", "ValueError: no")
    assert {plugin["name"]: plugin["loaded"] for plugin in shown["plugins"]} == {
        "runtime": True,
        "files": True,
        "notify": False,
        "greeter": True,
    }


def test_a_file_that_cannot_be_read_keeps_no_plugin_without_settings_from_loading(generation: Generation) -> None:
    write(generation, "plugins: {", schema=None)
    assert taken(generation) == "[{}]"


def test_what_judges_settings_is_loaded_only_where_there_is_something_to_judge(generation: Generation) -> None:
    write(generation, None)
    code = "import sys; from perdure.cli import main; main(['plugins']); print([m for m in ('jsonschema', 'ruamel') "
    code += "if m in sys.modules], file=sys.stderr)"
    ended = subprocess.run(
        [generation.python, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stderr.splitlines()[-1] == "[]"

"""plugin.yaml: every field, every fault at once, and nothing that YAML says behind a person's back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.model.errors import ManifestInvalid
from perdure_pm.model.json_schema import TYPES
from perdure_pm.model.manifest import FIELDS, Manifest, manifest_from_json, parse_manifest
from perdure_pm.store.yaml_text import read_document

WHOLE = """\
manifest: 1
name: Perdure_Notify
version: 1.2.0
entry: perdure_notify:plugin
group: perdure
requires-host: ">=0.3,<1"
api: 1
requires-python: ">=3.11"
dependencies: ["apprise>=1.9,<2"]
platforms: ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
runtime: in-process
requires-plugins: ["terminal>=1"]
settings:
  properties:
    token: {type: string, minLength: 1}
  required: [token]
capabilities: [commands, network.http]
"""

NO_VERSIONS = "is not a set of versions such as >=1,<2, is the text '>>1': Invalid specifier: '>>1'"
NO_REQUIREMENT = (
    "is not a requirement such as NAME>=1,<2, is the text 'not a requirement!': "
    "Expected semicolon (after name with no version specifier) or end"
)


def parse(text: str) -> Manifest:
    return parse_manifest(read_document(text, "plugin.yaml"))


def faults(text: str) -> list[str]:
    with pytest.raises(ManifestInvalid) as caught:
        parse(text)
    found = caught.value.context["faults"]
    assert isinstance(found, list)
    return found


def test_every_field_is_read() -> None:
    found = parse(WHOLE)
    assert found == Manifest(
        name="perdure-notify",
        version="1.2.0",
        entry="perdure_notify:plugin",
        group="perdure",
        requires_host=">=0.3,<1",
        api=1,
        requires_python=">=3.11",
        dependencies=("apprise>=1.9,<2",),
        platforms=("sys_platform == 'linux'", "sys_platform == 'darwin'"),
        requires_plugins=("terminal>=1",),
        settings={"properties": {"token": {"type": "string", "minLength": 1}}, "required": ["token"]},
        capabilities=("commands", "network.http"),
    )
    assert {*(line.partition(":")[0] for line in WHOLE.splitlines() if line[0] != " "), "external"} == set(FIELDS)


def test_another_hosts_entry_may_be_a_module() -> None:
    assert parse("name: x\nentry: x\ngroup: datasette\n").entry == "x"
    assert faults("name: x\nentry: x\n") == ["plugin.yaml:2:8 entry: must be module:attribute, is 'x'"]
    assert faults("group: perdure\nentry: x\n") == ["plugin.yaml:2:8 entry: must be module:attribute, is 'x'"]
    assert faults("group: datasette\n") == ["plugin.yaml:1:1 group: says where `entry` belongs, and there is no entry"]


def test_an_external_plugin_says_its_command() -> None:
    found = parse("runtime: external\nname: x\nexternal: {command: [node, server.js], check: [node, --version]}\n")
    assert (found.external_command, found.external_check) == (("node", "server.js"), ("node", "--version"))
    assert faults("runtime: external\nentry: a:b\n") == [
        "plugin.yaml:1:10 runtime: is external, so the field external must say the command",
        "plugin.yaml:2:1 entry: does not go with runtime: external, which is never imported",
    ]
    assert faults("external: {check: []}\n") == [
        "plugin.yaml:1:1 external: is for a plugin with runtime: external",
        "plugin.yaml:1:11 external: must say command, the list of words that starts it",
        "plugin.yaml:1:19 external.check: must hold at least the name of a program",
    ]


@pytest.mark.proves("manifest-every-fault")
def test_every_fault_is_named_at_once_with_its_place() -> None:
    text = """\
manifest: 2
name: -no-
version: 1.10
entry: no-tify
requires-host: ">>1"
api: "1"
dependencies:
- apprise>=1
- "not a requirement!"
- 5
platforms: linux
runtime: inprocess
requires-plugins: {a: b}
settings: {properties: {x: {type: text}}, required: x}
capabilities: [Network Access]
group:
"""
    assert faults(text) == [
        "plugin.yaml:1:11 manifest: must be 1, is 2; another form needs another version of PM",
        "plugin.yaml:2:7 name: must be a distribution's name, is '-no-'",
        'plugin.yaml:3:10 version: must be text: write "1.10" in quotes; without them it is the number 1.1',
        "plugin.yaml:4:8 entry: must be module:attribute, is 'no-tify'",
        "plugin.yaml:5:16 requires-host: " + NO_VERSIONS,
        "plugin.yaml:6:6 api: must be a whole number, is the text '1'",
        "plugin.yaml:9:3 dependencies[1]: " + NO_REQUIREMENT,
        'plugin.yaml:10:3 dependencies[2]: must be text: write "5" in quotes; without them it is the number 5',
        "plugin.yaml:11:12 platforms: must be a list of markers, is the text 'linux'",
        "plugin.yaml:12:10 runtime: must be one of in-process, isolated, external, is 'inprocess'",
        "plugin.yaml:13:19 requires-plugins: must be a list of requirements, is a mapping",
        "plugin.yaml:14:35 settings.properties.x.type: must be one of " + ", ".join(TYPES),
        "plugin.yaml:14:53 settings.required: must be a list of names of settings",
        "plugin.yaml:15:16 capabilities[0]: is not a capability such as network: 'Network Access'",
        "plugin.yaml:16:6 group: is empty; say something, or take the line out",
    ]


@pytest.mark.proves("manifest-every-fault")
@pytest.mark.parametrize(
    "text", ["", "- a\n", "just text\n", "a: [\n", "name: a\nname: b\n", "a: &x b\nc: !!python/x y\n"]
)
def test_what_is_no_manifest_is_refused_with_its_place(text: str) -> None:
    assert all(fault.startswith("plugin.yaml") for fault in faults(text))


@pytest.mark.proves("manifest-no-surprise")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1.10", 'write "1.10" in quotes; without them it is the number 1.1'),
        ("version: 3", 'write "3" in quotes; without them it is the number 3'),
        ("version: 2026-11-29", 'write "2026-11-29" in quotes; without them it is a date'),
        ("name: true", 'write "true" in quotes; without them it is true'),
        ("name: 0o17", 'write "0o17" in quotes; without them it is the number 15'),
        ("api: 010", "must be a whole number, is 010, which readers of YAML take for different numbers"),
        ("api: 1_0", "which readers of YAML take for different numbers"),
        ("api: true", "must be a whole number, is true"),
        ("api: 1.0", "must be a whole number, is the number 1.0"),
        ("settings: {properties: {day: {default: 2026-01-01}}}", "is a date, which JSON has not"),
        ("settings: {properties: {x: {maximum: .inf}}}", "is no number that JSON has"),
    ],
)
def test_what_yaml_takes_for_something_else_is_refused(text: str, message: str) -> None:
    (fault,) = faults(text)
    assert message in fault


@pytest.mark.proves("manifest-no-surprise")
@pytest.mark.parametrize("word", ["no", "No", "yes", "on", "OFF", "y", "n"])
def test_words_that_were_truth_values_are_text_and_said(word: str) -> None:
    found = parse(f"capabilities: [network]\nsettings: {{properties: {{x: {{default: {word}}}}}}}\n")
    assert found.settings == {"properties": {"x": {"default": word}}}
    old = "true" if word.lower() in {"yes", "on", "y"} else "false"
    (warning,) = found.warnings
    place = "plugin.yaml:2:38 settings.properties.x.default"
    assert warning == f'{place}: {word} is text here and {old} for readers of YAML 1.1; write "{word}" in quotes'
    assert parse(f'settings: {{properties: {{x: {{default: "{word}"}}}}}}\n').warnings == ()


@pytest.mark.proves("manifest-every-fault")
def test_a_plugin_that_requires_itself_is_refused_under_every_spelling() -> None:
    assert faults("name: my-plugin\nrequires-plugins: [terminal, 'My_Plugin>=1']\n") == [
        "plugin.yaml:2:30 requires-plugins[1]: names the plugin itself, my-plugin: it is always there"
    ]


@pytest.mark.proves("manifest-no-surprise")
def test_numbers_to_the_base_of_sixty_are_text_and_said() -> None:
    assert "a number to the base of 60" in parse("settings: {properties: {x: {default: 12:30}}}").warnings[0]


def test_a_list_that_a_tool_wrote_as_text_is_recovered_and_said() -> None:
    found = parse("dependencies: \"['apprise>=1', 'x']\"\n")
    assert found.dependencies == ("apprise>=1", "x")
    assert found.warnings == (
        "plugin.yaml:1:15 dependencies: is a list written as text; it is read as the list, write it as one",
    )
    assert faults("dependencies: \"['apprise', 5]\"\n")
    assert faults("dependencies: apprise\n")


def test_an_unknown_field_warns_with_the_nearest() -> None:
    assert parse("name: x\nrequires_host: '>=1'\n").warnings == (
        "plugin.yaml:2:1 requires_host: unknown field, without effect; did you mean requires-host?",
    )


def test_what_a_record_holds_reads_as_the_same() -> None:
    found = parse(WHOLE)
    assert manifest_from_json(found.to_json()) == found


@given(st.text(max_size=40))
def test_no_text_makes_reading_fail_otherwise(text: str) -> None:
    with contextlib.suppress(ManifestInvalid):
        parse(text)

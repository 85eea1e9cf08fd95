"""Parsing boot.json: what is wrong with the document, and what is wrong with one plugin's entry."""

import json

import pytest

from perdure.domain.boot import Boot, BootFaults, parse_boot
from perdure.domain.plugin import PluginFailure, PluginSource

HOST = {"name": "perdure", "version": "0.1.0"}
FACTS = {"name": "facts", "distribution": "perdure-facts", "version": "0.1.0", "entry": "perdure_facts:plugin"}


@pytest.mark.proves("app-plugin-order")
def test_a_valid_document_gives_its_plugins_in_its_order() -> None:
    second = {**FACTS, "name": "aaa", "entry": "a.b_c:d.e"}
    document = {"schema": 1, "generation": "7-abc", "host": HOST, "plugins": [FACTS, second], "later": True}
    assert parse_boot(json.dumps(document)) == Boot(
        generation="7-abc",
        host="perdure",
        host_version="0.1.0",
        plugins=(
            PluginSource(name="facts", distribution="perdure-facts", version="0.1.0", entry="perdure_facts:plugin"),
            PluginSource(name="aaa", distribution="perdure-facts", version="0.1.0", entry="a.b_c:d.e"),
        ),
    )


@pytest.mark.proves("app-boot-faults-named")
@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["not JSON: Expecting value: line 1 column 1 (char 0)"]),
        ('{"schema": 1', ["not JSON: Expecting ',' delimiter: line 1 column 13 (char 12)"]),
        ("\0" * 64, ["not JSON: Expecting value: line 1 column 1 (char 0)"]),
        ("[]", ["$ must be an object, not an array"]),
        ("null", ["$ must be an object, not null or missing"]),
        ("{}", ["$.schema is null; this version of perdure reads schema 1"]),
        ('{"schema": 2}', ["$.schema is 2; this version of perdure reads schema 1"]),
        ('{"schema": "1"}', ['$.schema is "1"; this version of perdure reads schema 1']),
        ('{"schema": true}', ["$.schema is true; this version of perdure reads schema 1"]),
        (
            '{"schema": 1}',
            [
                "$.generation must be text, not null or missing",
                "$.host must be an object, not null or missing",
                "$.plugins must be an array, not null or missing",
            ],
        ),
        (
            '{"schema": 1, "generation": "", "host": {"name": 4, "version": true}, "plugins": {}}',
            [
                "$.generation must be text that is not empty",
                "$.host.name must be text, not a number",
                "$.host.version must be text, not a boolean",
                "$.plugins must be an array, not an object",
            ],
        ),
    ],
)
def test_every_fault_of_a_document_is_named_with_its_place(text: str, faults: list[str]) -> None:
    with pytest.raises(BootFaults) as caught:
        parse_boot(text)
    assert caught.value.faults == faults


@pytest.mark.proves("app-boot-faults-named")
def test_nesting_beyond_the_readers_depth_is_a_fault_and_no_crash() -> None:
    with pytest.raises(BootFaults, match="not JSON: maximum recursion depth exceeded"):
        parse_boot("[" * 100_000)


@pytest.mark.proves("app-boot-faults-named", "app-broken-plugin-isolated")
@pytest.mark.parametrize(
    ("entry", "plugin", "summary"),
    [
        ("perdure-facts", "$.plugins[1]", "must be an object, not text"),
        (None, "$.plugins[1]", "must be an object, not null or missing"),
        (
            {},
            "$.plugins[1]",
            (
                "$.plugins[1].name must be text, not null or missing; "
                "$.plugins[1].distribution must be text, not null or missing; "
                "$.plugins[1].version must be text, not null or missing; "
                "$.plugins[1].entry must be text, not null or missing"
            ),
        ),
        ({**FACTS, "version": 1.5}, "facts", "$.plugins[1].version must be text, not a number"),
        *(
            ({**FACTS, "entry": target}, "facts", f"$.plugins[1].entry is {target!r}, not module:attribute")
            for target in (
                "perdure_facts",
                "perdure_facts:",
                ":plugin",
                "a:b:c",
                "a..b:c",
                "a:b.",
                "1a:b",
                "a b:c",
                "a:b\n",
            )
        ),
    ],
)
def test_a_wrong_entry_is_that_plugins_failure(entry: object, plugin: str, summary: str) -> None:
    text = json.dumps({"schema": 1, "generation": "7-abc", "host": HOST, "plugins": [FACTS, entry, FACTS]})
    before, failure, after = parse_boot(text).plugins
    assert isinstance(before, PluginSource)
    assert isinstance(after, PluginSource)
    assert failure == PluginFailure(plugin=plugin, stage="boot", summary=summary)

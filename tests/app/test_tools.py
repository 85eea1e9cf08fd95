"""From what was typed to a tool's result: reading arguments, checking them, and what a tool may do wrong."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.api.tools import JsonValue, Tool, ToolCall, ToolFailed, ToolResult
from perdure.domain.errors import ArgumentsInvalid, ToolBroken, UsageFault
from perdure.domain.json_value import find_non_json
from perdure.domain.tool import OfferedTool
from perdure.tools.arguments import parse_arguments
from perdure.tools.dispatch import run_tool

SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "either": {"type": ["integer", "string"]},
        "maybe": {"type": ["string", "null"]},
        "any": {},
    },
}

# What is typed for which argument, and what the tool gets.
TYPED: list[tuple[str, JsonValue]] = [
    ("text=5", "5"),
    ("text=true", "true"),
    ("text=", ""),
    ('text="quoted"', "quoted"),
    ("text=a=b", "a=b"),
    ("text=1e999", "1e999"),
    ("count=5", 5),
    ("count=5.0", 5.0),
    ("count=five", "five"),
    ("count=5.5", 5.5),
    ("share=0.5", 0.5),
    ("share=2", 2),
    ("flag=true", True),
    ("flag=True", "True"),
    ("list=[1, 2]", [1, 2]),
    ("either=5", 5),
    ("either=5x", "5x"),
    ("maybe=null", None),
    ("maybe=5", "5"),
    ("any=5", 5),
    ("any=words", "words"),
    ("any=NaN", "NaN"),
    ('undeclared={"a": 1}', {"a": 1}),
    ("undeclared=[", "["),
    ("undeclared=" + "[" * 100_000, "[" * 100_000),
    ("count=" + "9" * 5000, "9" * 5000),
]


@pytest.mark.proves("app-arguments-validated")
@pytest.mark.parametrize(("pair", "value"), TYPED, ids=lambda value: str(value)[:20])
def test_a_typed_value_becomes_what_the_schema_takes(pair: str, value: JsonValue) -> None:
    read = parse_arguments([pair], None, SCHEMA)
    assert read == {pair.partition("=")[0]: value}
    assert [type(item) for item in read.values()] == [type(value)]


@pytest.mark.proves("app-arguments-validated")
@settings(deadline=None)  # the machine that runs this may be busy
@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: "=" not in name),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_any_json_value_written_as_json_arrives_as_it_was(values: dict[str, JsonValue]) -> None:
    pairs = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    assert parse_arguments(pairs, None, {"type": "object"}) == values
    assert parse_arguments([], json.dumps(values), {"type": "object"}) == values


@pytest.mark.proves("app-arguments-validated")
@pytest.mark.parametrize(
    ("pairs", "document", "fault"),
    [
        (["text"], None, "--arg takes name=value, not 'text'"),
        (["=5"], None, "--arg takes name=value, not '=5'"),
        (["text=a", "text=b"], None, "argument 'text' is given twice"),
        (["text=a"], '{"text": "b"}', "argument 'text' is given twice"),
        ([], "", "--json-args is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ([], "[1]", "--json-args must be a JSON object"),
        ([], '{"share": NaN}', "--json-args is not JSON: NaN is not JSON"),
    ],
)
def test_a_command_line_that_gives_no_arguments_is_refused(pairs: list[str], document: str | None, fault: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_arguments(pairs, document, SCHEMA)
    assert caught.value.summary == fault


def offered(run: Callable[[ToolCall], object], parameters: Mapping[str, JsonValue] | None = None) -> OfferedTool:
    tool = Tool(
        name="test.tool",
        summary="Does it.",
        parameters={"type": "object"} if parameters is None else parameters,
        run=run,  # type: ignore[arg-type]  # what an unchecked plugin could pass
    )
    return OfferedTool(plugin="test", tool=tool)


@pytest.mark.proves("app-arguments-validated")
def test_a_tool_gets_its_arguments_and_its_result_comes_back() -> None:
    result = run_tool(offered(lambda call: ToolResult(text=call.tool, data=call.arguments["x"])), {"x": [1]})
    assert result == ToolResult(text="test.tool", data=[1])


@pytest.mark.proves("app-arguments-validated")
def test_arguments_that_do_not_fit_are_all_named_and_nothing_runs() -> None:
    called: list[ToolCall] = []
    schema: Mapping[str, JsonValue] = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "maximum": 3},
            "nested": {"type": "object", "properties": {"list": {"items": {"enum": ["a"]}}}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    with pytest.raises(ArgumentsInvalid) as caught:
        run_tool(offered(called.append, schema), {"limit": 7, "nested": {"list": ["a", "b"]}, "odd": 1})
    assert caught.value.context == {
        "tool": "test.tool",
        "faults": [
            "'name' is a required property",
            "Additional properties are not allowed ('odd' was unexpected)",
            "limit: 7 is greater than the maximum of 3",
            "nested.list[1]: 'b' is not one of ['a']",
        ],
    }
    assert called == []


@pytest.mark.proves("app-arguments-validated")
def test_a_number_that_json_cannot_say_is_no_argument() -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        run_tool(offered(lambda _: ToolResult(text="")), {"x": json.loads("1e999")})
    assert caught.value.summary == "tool test.tool: $.x is inf, which JSON cannot say"


def raising(error: BaseException) -> Callable[[ToolCall], object]:
    def run(_call: ToolCall) -> object:
        raise error

    return run


NUMBERED: Any = {1: 2}


class _Odd(BaseException):
    pass


@pytest.mark.proves("app-tool-defects-attributed")
@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (raising(KeyError("gone")), "KeyError: 'gone'"),
        (raising(SystemExit(0)), "SystemExit: 0"),
        (raising(_Odd()), "_Odd"),
        (lambda _: None, "returned NoneType, not ToolResult"),
        (lambda _: "text", "returned str, not ToolResult"),
        (lambda _: ToolResult(text=None), "TypeError: ToolResult.text must be a str, not NoneType"),  # type: ignore[arg-type]  # as above
        (
            lambda _: ToolResult(text="", data=NUMBERED),
            "returned data that is not JSON: $ has the key 1, which is no string",
        ),
        (lambda _: ToolResult(text="", data=[b""]), "returned data that is not JSON: $[0] is of type bytes"),
        (raising(ToolFailed("")), "raised ToolFailed with a summary or a hint that is not one line of text"),
        (raising(ToolFailed("x", hint="")), "raised ToolFailed with a summary or a hint that is not one line of text"),
        (
            raising(ToolFailed("x", context={"at": object()})),  # type: ignore[dict-item]  # as above
            "raised ToolFailed with what is not JSON: error.context.at is of type object",
        ),
    ],
)
def test_a_defect_of_a_tool_names_tool_and_plugin(run: Callable[[ToolCall], object], fault: str) -> None:
    with pytest.raises(ToolBroken) as caught:
        run_tool(offered(run), {})
    assert caught.value.summary == f"tool test.tool of plugin test is broken: {fault}"
    assert (caught.value.context["tool"], caught.value.context["plugin"]) == ("test.tool", "test")


@pytest.mark.proves("app-tool-defects-attributed")
@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object", "required": "name"}, "its schema is invalid at $.required: 'name' is not of type 'array'"),
        # It must not be looked for on the network either.
        (
            {"type": "object", "properties": {"x": {"$ref": "https://schemas.example/x.json"}}},
            "its schema refers to something that is not in it: https://schemas.example/x.json",
        ),
        (
            {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
            "its schema refers to something that is not in it: /$defs/none",
        ),
    ],
)
def test_a_defect_of_a_schema_names_tool_and_plugin(schema: Mapping[str, JsonValue], fault: str) -> None:
    called: list[ToolCall] = []
    with pytest.raises(ToolBroken) as caught:
        run_tool(offered(called.append, schema), {"x": 1})
    assert caught.value.summary == f"tool test.tool of plugin test is broken: {fault}"
    assert called == []


@pytest.mark.proves("app-tool-defects-attributed")
def test_what_a_tool_says_about_a_failure_reaches_the_caller_as_it_is() -> None:
    failure = ToolFailed("no such thing", hint="look elsewhere", context={"thing": "x"}, retry="later")
    with pytest.raises(ToolFailed) as caught:
        run_tool(offered(raising(failure)), {})
    assert caught.value is failure


@pytest.mark.proves("app-tool-defects-attributed")
def test_a_persons_interrupt_goes_through_a_tool() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_tool(offered(raising(KeyboardInterrupt())), {})


@pytest.mark.proves("app-tool-defects-attributed")
def test_a_structure_that_contains_itself_is_no_json() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert find_non_json(ring) == "$" + "[0]" * 64 + " is nested more than 64 deep"

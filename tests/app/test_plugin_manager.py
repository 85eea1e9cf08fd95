"""Loading and calling plugins: one order, and each plugin's faults its own."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.api.findings import Finding
from perdure.api.hooks import Host
from perdure.api.tools import Tool, ToolCall, ToolResult
from perdure.domain.boot import Boot
from perdure.domain.plugin import PluginFailure, PluginSource, PluginState
from perdure.plugin_manager import BUILTIN, PluginManager

HOST = Host(version="0.1.0", python="3.11.0", executable=Path("/python"), generation="1-abc", home=Path("/home"))

OWN = ("runtime.about", *(f"files.{name}" for name in ("read", "list", "write", "patch", "move", "delete")), "code.run")
"""The tools of the built-in plugins."""

HEAD = """
import sys
from perdure.api.findings import Finding
from perdure.api.hooks import Host, hookimpl
from perdure.api.tools import Tool, ToolCall, ToolResult

plugin = sys.modules[__name__]

def run(call):
    return ToolResult(text=f"{__name__} ran {call.tool}")

def tool(name):
    return Tool(name=name, summary="Does it.", parameters={"type": "object"}, run=run)
"""

GOOD = HEAD + "@hookimpl\ndef tools():\n    return [tool(__name__ + '.go')]\n"

Load = Callable[..., PluginManager]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Write modules, name them in a boot manifest in this order, and load it with a clock that ticks once a reading."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load_plugins(entries: dict[str, str] | None = None, **modules: str) -> PluginManager:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        listed = {name: f"{name}:plugin" for name in modules} if entries is None else entries
        manager = PluginManager(HOST, itertools.count().__next__)
        manager.load(
            Boot(
                generation="1-abc",
                host="perdure",
                host_version="0.1.0",
                plugins=tuple(
                    PluginSource(name=name, distribution=f"perdure-{name}", version="1", entry=entry)
                    for name, entry in listed.items()
                ),
            )
        )
        return manager

    yield load_plugins
    for name in set(sys.modules) - before:
        if not name.startswith("perdure"):
            del sys.modules[name]


@pytest.mark.proves("app-plugin-order")
def test_built_ins_come_first_and_then_the_order_of_the_boot_manifest(load: Load) -> None:
    manager = load(zeta=GOOD, alpha=GOOD, mid=GOOD)
    assert list(manager.tools()) == [*OWN, "zeta.go", "alpha.go", "mid.go"]
    assert manager.states == [
        PluginState(source=BUILTIN[0], loaded=True, load_seconds=1, hooks=("findings", "tools")),
        PluginState(source=BUILTIN[1], loaded=True, load_seconds=1, hooks=("tools",)),
        *(
            PluginState(
                source=PluginSource(name=name, distribution=f"perdure-{name}", version="1", entry=f"{name}:plugin"),
                loaded=True,
                load_seconds=1,
                hooks=("tools",),
            )
            for name in ("zeta", "alpha", "mid")
        ),
    ]
    assert manager.failures == []


@pytest.mark.proves("app-plugin-order")
@pytest.mark.parametrize("option", ["tryfirst=True", "trylast=True"])
def test_a_plugin_that_asks_for_another_order_is_left_out(load: Load, option: str) -> None:
    pushy = HEAD + f"import pluggy\n@pluggy.HookimplMarker('perdure')({option})\ndef tools():\n    return []\n"
    manager = load(good=GOOD, pushy=pushy)
    assert manager.failures == [
        PluginFailure(
            plugin="pushy",
            stage="register",
            hook="tools",
            summary="tryfirst and trylast are not supported: the order is that of the configuration",
        )
    ]
    assert list(manager.tools()) == [*OWN, "good.go"]


@pytest.mark.proves("app-plugin-order", "app-broken-plugin-isolated")
def test_a_hook_gets_the_arguments_it_names_and_is_asked_once(load: Load) -> None:
    counting = HEAD + (
        "asked = []\n@hookimpl\ndef tools(host):\n    asked.append(host)\n    return (tool('counting.go'),)\n"
    )
    manager = load(counting=counting)
    assert list(manager.tools()) == [*OWN, "counting.go"]
    assert manager.tools() is manager.tools()
    assert sys.modules["counting"].asked == [HOST]


OBJECT = (
    HEAD
    + """
class Plugin:
    @hookimpl
    def tools(self, host):
        return [tool("object.go")]

plugin = Plugin()
"""
)


@pytest.mark.proves("app-plugin-order")
def test_a_plugin_may_be_an_object_below_a_module(load: Load) -> None:
    manager = load(
        {"object": "objectmodule:holder.plugin"}, objectmodule=OBJECT + "class holder:\n    plugin = Plugin()\n"
    )
    assert list(manager.tools()) == [*OWN, "object.go"]
    assert manager.failures == []


def hook(body: str) -> str:
    return HEAD + f"@hookimpl\ndef tools():\n    {body}\n"


# What a plugin does -> stage, hook, what is recorded, line of the plugin's module that is named.
BROKEN: dict[str, tuple[str, str, str | None, str, int | None]] = {
    "missing dependency": (
        "import no_such", "import", None, "ModuleNotFoundError: No module named 'no_such'", 1,
    ),
    "raises": ("raise ValueError('at import')", "import", None, "ValueError: at import", 1),
    "exits": ("import sys\nsys.exit(3)", "import", None, "SystemExit: 3", 2),
    "base exception": ("class Odd(BaseException): pass\nraise Odd", "import", None, "Odd", 2),
    "syntax": ("def broken(:\n", "import", None, "SyntaxError: invalid syntax (broken.py, line 1)", None),
    "no attribute": ("x = 1", "import", None, "AttributeError: module 'broken' has no attribute 'plugin'", None),
    "is none": ("plugin = None", "register", None, "the entry is None, not a plugin object", None),
    "recursion": (
        "def f():\n    f()\nf()", "import", None, "RecursionError: maximum recursion depth exceeded", 2,
    ),
    "mute exception": (
        "class Mute(Exception):\n    def __str__(self):\n        raise Mute\nraise Mute", "import", None, "Mute", 4,
    ),
    "long message": ("raise ValueError('x' * 9999)", "import", None, "ValueError: " + "x" * 488 + "…", 1),
    "many lines": ("raise ValueError('one\\n\\ntwo')", "import", None, "ValueError: one two", 1),
    "wrong argument": (
        HEAD + "@hookimpl\ndef tools(hosts): pass\n",
        "register", None,
        (
            "PluginValidationError: Plugin 'broken' for hook 'tools' hookimpl definition: tools(hosts) "
            "Argument(s) {'hosts'} are declared in the hookimpl but can not be found in the hookspec"
        ),
        None,
    ),
    "unknown hook": (
        HEAD + "@hookimpl\ndef toolz(): pass\n", "register", "toolz", "there is no hook of this name", None,
    ),
    "wrapper": (
        HEAD + "import pluggy\n@pluggy.HookimplMarker('perdure')(wrapper=True)\ndef tools():\n    yield\n",
        "register", "tools", "wrappers are not supported: a plugin does not stand between others", None,
    ),
    "hook raises": (hook("raise KeyError('gone')"), "hook", "tools", "KeyError: 'gone'", 16),
    "hook exits": (hook("sys.exit()"), "hook", "tools", "SystemExit", 16),
    "hook returns text": (hook("return 'tools'"), "hook", "tools", "returned str, not a list of Tool", None),
    "hook returns a tool": (hook("return tool('a.b')"), "hook", "tools", "returned Tool, not a list of Tool", None),
    "hook is a generator": (hook("yield tool('a.b')"), "hook", "tools", "returned generator, not a list of Tool", None),
    "hook returns a mixture": (
        hook("return [None]"), "hook", "tools", "returned a list with NoneType in it, not Tool", None,
    ),
    "tool of a taken name": (
        hook("return [tool('good.go')]"), "hook", "tools", "tool good.go is already offered by plugin good", None,
    ),
    "tool of a bad name": (
        hook("return [tool('Bad')]"), "hook", "tools",
        "ValueError: a tool's name is dotted, in lower case, and at most 64 characters long, not 'Bad'", 13,
    ),
}  # fmt: skip


@pytest.mark.proves("app-broken-plugin-isolated")
@pytest.mark.parametrize("case", list(BROKEN))
def test_a_broken_plugin_is_recorded_and_the_others_work(load: Load, tmp_path: Path, case: str) -> None:
    source, stage, hook_name, summary, line = BROKEN[case]
    manager = load(good=GOOD, broken=source, later=GOOD)
    assert list(manager.tools()) == [*OWN, "good.go", "later.go"]
    (failure,) = manager.failures
    assert (failure.plugin, failure.stage, failure.hook, failure.summary) == ("broken", stage, hook_name, summary)
    assert failure.place == (None if line is None else f"{tmp_path}/broken.py:{line}")
    loaded = {state.source.name: state.loaded for state in manager.states}
    assert loaded == {"runtime": True, "files": True, "good": True, "broken": stage == "hook", "later": True}


@pytest.mark.proves("app-broken-plugin-isolated")
def test_a_plugin_half_registered_leaves_no_hook_behind(load: Load) -> None:
    half = hook("return [tool('half.go')]") + "@hookimpl\ndef findings(): return []\n@hookimpl\ndef zzz(): pass\n"
    manager = load(half=half)
    assert list(manager.tools()) == [*OWN]
    assert [failure.hook for failure in manager.failures] == ["zzz"]


@pytest.mark.proves("app-broken-plugin-isolated")
def test_good_values_beside_a_wrong_one_are_kept(load: Load) -> None:
    manager = load(mixed=hook("return [tool('mixed.one'), 7, tool('mixed.two')]"))
    assert list(manager.tools()) == [*OWN, "mixed.one", "mixed.two"]
    assert [str(failure) for failure in manager.failures] == [
        "plugin mixed: hook tools: returned a list with int in it, not Tool"
    ]


@pytest.mark.proves("app-broken-plugin-isolated")
def test_a_second_plugin_of_one_name_is_left_out_and_the_first_works(load: Load) -> None:
    manager = load({"runtime": "one:plugin"}, one=GOOD)
    assert list(manager.tools()) == [*OWN]
    assert [str(failure) for failure in manager.failures] == [
        "plugin runtime: its entry in boot.json: a plugin of this name is already there; this one is left out"
    ]


@pytest.mark.proves("app-broken-plugin-isolated")
def test_one_object_under_two_names_is_registered_once(load: Load) -> None:
    manager = load({"first": "one:plugin", "second": "one:plugin"}, one=GOOD)
    assert list(manager.tools()) == [*OWN, "one.go"]
    (failure,) = manager.failures
    assert (failure.plugin, failure.stage, failure.hook) == ("second", "register", None)


@pytest.mark.proves("app-broken-plugin-isolated")
def test_the_persons_interrupt_is_no_plugins_failure(load: Load) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(slow="raise KeyboardInterrupt")
    manager = load(slower=hook("raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        manager.tools()


@pytest.mark.proves("app-broken-plugin-isolated")
def test_findings_are_collected_with_their_plugins_and_failures_apart(load: Load) -> None:
    finder = (
        HEAD
        + "@hookimpl\ndef findings(host):\n    return [Finding(code='odd-thing', summary=f'Odd: {host.version}')]\n"
    )
    broken = HEAD + "@hookimpl\ndef findings(): return 1 / 0\n"
    manager = load(broken=broken, finder=finder)
    assert [pair for pair in manager.findings() if pair[0] != "runtime"] == [
        ("finder", Finding(code="odd-thing", summary="Odd: 0.1.0"))
    ]
    assert [(failure.plugin, failure.hook, failure.summary) for failure in manager.failures] == [
        ("broken", "findings", "ZeroDivisionError: division by zero")
    ]


def run(_call: ToolCall) -> ToolResult:
    return ToolResult(text="")


@pytest.mark.proves("app-broken-plugin-isolated")
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "nodot"}, "a tool's name is dotted, in lower case, and at most 64 characters long, not 'nodot'"),
        ({"name": "a.b\n"}, "a tool's name is dotted, in lower case, and at most 64 characters long, not 'a.b\\n'"),
        (
            {"name": "a." + "b" * 63},
            f"a tool's name is dotted, in lower case, and at most 64 characters long, not 'a.{'b' * 63}'",
        ),
        ({"name": 7}, "a tool's name is dotted, in lower case, and at most 64 characters long, not 7"),
        ({"summary": " "}, "tool a.b: the summary must be one line of text"),
        ({"summary": "two\nlines"}, "tool a.b: the summary must be one line of text"),
        ({"parameters": {"type": "array"}}, 'tool a.b: parameters must be a JSON Schema with "type": "object"'),
        (
            {"parameters": {"type": "object", "default": {1, 2}}},
            "tool a.b: parameters must be JSON: $.default is of type set",
        ),
        ({"run": "run"}, "tool a.b: run must be callable"),
        ({"read_only": "yes"}, "tool a.b: read_only must be a bool"),
    ],
)
def test_a_tool_that_no_one_could_call_or_show_cannot_be_made(changes: dict[str, object], fault: str) -> None:
    fields: dict[str, object] = {"name": "a.b", "summary": "Does it.", "parameters": {"type": "object"}, "run": run}
    with pytest.raises((ValueError, TypeError)) as caught:
        Tool(**{**fields, **changes})  # type: ignore[arg-type]  # what an unchecked plugin could pass
    assert str(caught.value) == fault


@pytest.mark.proves("app-broken-plugin-isolated")
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"code": "Odd Thing"}, "a finding's code is kebab-case, not 'Odd Thing'"),
        ({"summary": ""}, "finding odd-thing: the summary must be one line of text"),
        ({"hint": 5}, "finding odd-thing: the hint must be text or None"),
        (
            {"context": {"at": float("nan")}},
            "finding odd-thing: the context must be JSON: $.at is nan, which JSON cannot say",
        ),
    ],
)
def test_a_finding_that_no_one_could_show_cannot_be_made(changes: dict[str, object], fault: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        Finding(**{"code": "odd-thing", "summary": "It is odd.", **changes})  # type: ignore[arg-type]  # as above
    assert str(caught.value) == fault

"""What is late: expressions, each of which is one and serves as the compiled one does, and the guard itself."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import perdure.guard
from perdure.guard.late import Late, late


def held(value: object) -> Iterator[Late]:
    if isinstance(value, Late):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from held(inner)


def test_every_expression_of_the_guard_can_be_compiled() -> None:
    names = [module.name for module in pkgutil.iter_modules(perdure.guard.__path__, "perdure.guard.")]
    found = [late for name in names for value in vars(importlib.import_module(name)).values() for late in held(value)]
    assert len(found) > 100
    for expression in found:
        expression.pattern  # noqa: B018  # asking for it compiles it


def test_it_serves_as_the_compiled_expression_does() -> None:
    expression = late(r"a(\d)", re.IGNORECASE)
    assert (found := expression.fullmatch("A1")) is not None
    assert found[1] == "1"
    assert expression.sub("-", "xa2") == "x-"
    assert expression.pattern == r"a(\d)"
    with pytest.raises(AttributeError):
        expression.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_fault_in_it_is_told_when_it_is_first_used() -> None:
    with pytest.raises(re.error):
        late("(").match("x")


@pytest.mark.proves("guard-lazy")
def test_a_command_that_asks_the_guard_nothing_does_not_import_it() -> None:
    code = "import sys; import perdure.cli.commands; print([name for name in sys.modules if 'perdure.guard' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

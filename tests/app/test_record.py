"""What is defined with the app's decorator is what the standard one would have made of it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import threading
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.record import dataclass

OURS: Any = dataclass
STANDARD: Any = dataclasses.dataclass
STANDARD_IMPORT = re.compile(r"^from dataclasses import .*\bdataclass\b|@dataclasses\.dataclass", re.MULTILINE)
BOTH = pytest.mark.parametrize("decorator", [OURS, STANDARD], ids=["ours", "standard"])


@dataclass(frozen=True, slots=True)
class Point:
    """Two numbers."""

    x: int
    y: int = 2


@dataclass(frozen=True, slots=True)
class Place(Point):
    """A point with a name."""

    name: str = ""


@dataclass(slots=True, kw_only=True)
class Basket:
    """What changes."""

    owner: str
    items: list[str] = field(default_factory=list)
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.count = len(self.items)


def define(decorator: Any) -> tuple[Any, Any, Any]:
    """Return the same three classes, defined anew."""

    @decorator(frozen=True, slots=True)
    class Fixed:
        a: int
        b: tuple[int, ...] = ()

    @decorator(frozen=True, slots=True)
    class More(Fixed):
        b: tuple[int, ...] = (1,)
        c: str = "c"

    @decorator(slots=True, kw_only=True)
    class Open:
        d: int
        e: list[int] = field(default_factory=list)
        f: int = field(default=7, init=False)

        def __post_init__(self) -> None:
            self.f += self.d

        @property
        def twice(self) -> int:
            return 2 * self.d

    return Fixed, More, Open


@BOTH
def test_an_instance_is_made_compared_and_shown_by_its_fields(decorator: Any) -> None:
    fixed, more, opened = define(decorator)
    assert (fixed(1), fixed(1, (2,)), fixed(b=(), a=1)) == (fixed(1, ()), fixed(a=1, b=(2,)), fixed(1))
    assert more(1) != fixed(1, (1,))
    assert (more(1).b, more(1, (), "d").c) == ((1,), "d")
    assert {fixed(1): "x"}[fixed(1)] == "x"
    assert hash(more(1)) == hash((1, (1,), "c"))
    assert repr(more(1)).endswith("More(a=1, b=(1,), c='c')")
    one, other = opened(d=1), opened(d=1, e=[])
    assert (one, one.f, one.twice) == (other, 8, 2)
    one.e.append(1)
    assert one != other
    assert other.e == []
    with pytest.raises(TypeError):
        hash(one)
    with pytest.raises(AttributeError):
        one.unheard_of = 1
    assert fixed(1).__eq__(1) is NotImplemented


@BOTH
def test_what_is_not_given_or_too_much_is_refused_by_name(decorator: Any) -> None:
    fixed, _, opened = define(decorator)
    with pytest.raises(TypeError, match=r"Fixed.__init__\(\) missing 1 required positional argument: 'a'"):
        fixed()
    with pytest.raises(TypeError, match=r"Open.__init__\(\) takes 1 positional argument but 2 were given"):
        opened(1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'f'"):
        opened(d=1, f=2)


@BOTH
def test_a_frozen_instance_stays_as_it_is(decorator: Any) -> None:
    fixed, more, _ = define(decorator)
    for instance in (fixed(1), more(1)):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
            instance.a = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
            del instance.a
        assert not hasattr(instance, "__dict__")


@BOTH
def test_the_standard_library_knows_its_fields_before_there_is_an_instance(decorator: Any) -> None:
    fixed, more, opened = define(decorator)
    assert [(one.name, one.default, one.init) for one in dataclasses.fields(more)] == [
        ("a", dataclasses.MISSING, True),
        ("b", (1,), True),
        ("c", "c", True),
    ]
    assert [one.kw_only for one in dataclasses.fields(opened)] == [True, True, True]
    assert [dataclasses.is_dataclass(kind) for kind in (fixed, int)] == [True, False]
    one: Any = more(1)
    assert dataclasses.replace(one, a=2) == more(2)
    assert dataclasses.asdict(opened(d=1, e=[fixed(1)])) == {"d": 1, "e": [{"a": 1, "b": ()}], "f": 8}
    assert (more.__match_args__, opened.__match_args__) == (("a", "b", "c"), ())


@BOTH
def test_a_standard_dataclass_may_inherit_from_it(decorator: Any) -> None:
    _, more, _ = define(decorator)

    last = STANDARD(frozen=True)(type("Last", (more,), {"__annotations__": {"z": int}, "z": 0}))
    assert last(1, z=2) == last(1, (1,), "c", 2)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        STANDARD(type("Loose", (more,), {}))


def test_copies_are_equal_and_of_the_same_kind() -> None:
    """Also where the first instance in a process comes out of a pickle: nothing has called `__init__` there."""
    basket = Basket(owner="you", items=["a"])
    for made in (Point(1), Place(1, name="here"), basket):
        for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301  # our own
            assert (again, type(again)) == (made, type(made))
    assert copy.deepcopy(basket).items is not basket.items
    rebuild, (kind, held) = define(OURS)[0].__reduce__(Point(3))
    assert (rebuild(kind, held), kind) == (Point(3), Point)


def test_a_class_that_a_pickle_comes_first_to_has_its_functions() -> None:
    fixed, _, _ = define(OURS)
    rebuild = fixed.__reduce__(fixed(1))[0]
    _, more, _ = define(OURS)
    one, other = (rebuild(more, {"a": 1, "b": (), "c": ""}) for _ in range(2))
    assert one == other == more(1, (), "")


def test_first_instances_may_be_made_by_many_threads_at_once() -> None:
    for _ in range(30):
        fixed, more, _ = define(OURS)
        together = threading.Barrier(4)
        made: list[object] = []

        def work(kind: Any, together: threading.Barrier = together, made: list[object] = made) -> None:
            together.wait()
            made.append(kind(1))

        threads = [threading.Thread(target=work, args=(kind,)) for kind in (fixed, more, fixed, more)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(repr, made)) == sorted(map(repr, [fixed(1), fixed(1), more(1), more(1)]))


def test_what_it_does_not_know_is_refused() -> None:
    @OURS(slots=True)
    class Hidden:
        a: int = field(default=1, repr=False)

    with pytest.raises(TypeError, match="a: a field is compared and shown like all others here"):
        Hidden()
    with pytest.raises(TypeError, match="a dataclass without slots is the standard library's"):
        OURS(slots=False)


def test_the_app_defines_none_with_the_standard_decorator(checkout: Path) -> None:
    record = checkout / "app" / "perdure" / "domain" / "record.py"
    modules = sorted((checkout / "app").rglob("*.py"))
    assert record in modules
    standard = [path.name for path in modules if path != record and STANDARD_IMPORT.search(path.read_text("utf-8"))]
    assert standard == []

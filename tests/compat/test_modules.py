"""The facade as a module: identity, writing, pickles, submodules, stubs of deleted modules: cases 22 to 33."""

import json
from pathlib import Path

import pytest

from tests.compat.conftest import Run, succeeded

STUB = (
    "from perdure_compat import facade\n"
    '__getattr__, __dir__ = facade(__name__, {"*": ("moved", "newhome:*", "0.3", "0.6")}, gone=True)\n'
)


@pytest.mark.proves("compat-same-object")
def test_classes_are_the_same_through_either_path(run: Run) -> None:
    """Cases 22 and 23."""
    output = succeeded(
        run(
            """
            import abc, newhome
            from collections.abc import Sized
            import stub
            try:
                raise newhome.Err("x")
            except stub.Err as error:
                print("caught", error)
            class Sub(stub.Err): pass
            print(isinstance(newhome.Err(), stub.Err), issubclass(Sub, newhome.Err))
            stub.Base.register(int)
            print(isinstance(1, newhome.Base))
            """,
            "-Wignore",
            stub=STUB,
            newhome="import abc\nclass Err(Exception): pass\nclass Base(abc.ABC): pass\n",
        )
    )
    assert output == "caught x\nTrue True\nTrue\n"


@pytest.mark.proves("compat-same-object")
def test_old_pickles_load_and_new_ones_name_the_new_module(run: Run) -> None:
    """Case 24."""
    output = succeeded(
        run(
            """
            import copyreg, pickle, stub, newhome
            from pickle import _loads
            old = b"cstub\\nErr\\n."
            print(pickle.loads(old) is newhome.Err, _loads(old) is newhome.Err)
            made = pickle.dumps(stub.Err("x"), 0)
            print(b"newhome" in made, b"stub" in made, type(pickle.loads(made)) is newhome.Err)
            copyreg.pickle(stub.Err, lambda error: (stub.Err, ("reduced",)))
            print(pickle.loads(pickle.dumps(newhome.Err("x"))))
            """,
            "-Wignore",
            stub=STUB,
        )
    )
    assert output == "newhome imported\nTrue True\nTrue False True\nreduced\n"


@pytest.mark.proves("compat-writes-through")
def test_mock_patches_the_target_and_is_undone_also_nested(run: Run) -> None:
    """Case 25."""
    output = succeeded(
        run(
            """
            from unittest import mock
            import newhome
            first = newhome.register_tool
            with mock.patch("oldhome.register", lambda: "outer"):
                print(newhome.again())
                with mock.patch("oldhome.register") as inner:
                    inner.return_value = "inner"
                    print(newhome.again())
                print(newhome.again())
            print(newhome.again(), newhome.register_tool is first)
            import oldhome
            with mock.patch.object(oldhome, "CONST", 7):
                print(newhome.again())
            print(newhome.again(), sorted(vars(oldhome).keys() & {"register", "CONST"}))
            """,
            "-Wignore",
        )
    )
    assert output == ("newhome imported\nouter\ninner\nouter\nregistered 1 True\nregistered 7\nregistered 1 []\n")


@pytest.mark.proves("compat-writes-through")
def test_monkeypatch_sets_and_deletes_through_the_facade_and_is_undone(run: Run, tmp_path: Path) -> None:
    """Cases 26 and 27."""
    (tmp_path / "test_it.py").write_text(
        "import pytest, newhome, oldhome\n\n"
        "first = newhome.register_tool\n\n"
        "def test_by_string_and_by_object_nested(monkeypatch):\n"
        "    with pytest.warns(FutureWarning, match='register') as caught:\n"
        "        monkeypatch.setattr('oldhome.register', lambda: 'one')\n"
        "    assert [(w.filename, w.lineno) for w in caught] == [(__file__, 7)]\n"
        "    assert newhome.again() == 'one'\n"
        "    with monkeypatch.context() as inner:\n"
        "        inner.setattr(oldhome, 'register', lambda: 'two')\n"
        "        assert newhome.again() == 'two'\n"
        "    assert newhome.again() == 'one'\n\n"
        "def test_it_was_undone():\n"
        "    assert newhome.register_tool is first\n\n"
        "def test_a_delete(monkeypatch):\n"
        "    monkeypatch.delattr('oldhome.register')\n"
        "    assert not hasattr(newhome, 'register_tool')\n\n"
        "def test_the_delete_was_undone():\n"
        "    assert newhome.register_tool is first\n"
    )
    done = run("import sys, pytest\nsys.exit(pytest.main(['-q', '-Werror', '-p', 'no:cacheprovider', 'test_it.py']))")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.proves("compat-writes-through")
def test_assignment_is_seen_on_both_sides_and_warns_at_its_line(run: Run, tmp_path: Path) -> None:
    """Case 28."""
    done = run(
        """
        import oldhome, newhome
        oldhome.CONST = 5
        print(newhome.CONST)
        newhome.CONST = 6
        print(oldhome.CONST)
        oldhome.brand_new = 1
        print(oldhome.brand_new, hasattr(newhome, "brand_new"))
        del oldhome.brand_new
        print(hasattr(oldhome, "brand_new"))
        try:
            oldhome.whole = 1
        except AttributeError as error:
            print(error)
        try:
            oldhome.gone = 1
        except AttributeError as error:
            print(error)
        """
    )
    assert done.stdout == (
        "newhome imported\n5\n6\n1 False\nFalse\n"
        "oldhome.whole is the module newhome, which has no other place to be set\n"
        "oldhome.gone is gone since oldhome 0.4: nobody used it\n"
    )
    assert done.stderr.startswith(f"{tmp_path}/program.py:3: PerdureCompatWarning: oldhome.CONST is now newhome.CONST")
    assert done.stderr.count("PerdureCompatWarning") == 1


@pytest.mark.proves("compat-chains")
def test_a_module_that_defines_its_own_hook_after_the_facade_is_asked_first(run: Run) -> None:
    """Case 29."""
    output = succeeded(
        run(
            """
            import late
            print(late.dynamic, late.register())
            try:
                late.unknown
            except AttributeError as error:
                print(error)
            """,
            "-Wignore",
            late="""
            from perdure_compat import facade
            __getattr__, __dir__ = facade(__name__, {"register": ("moved", "newhome:register_tool", "1", "2")})
            def __getattr__(name):
                if name == "dynamic":
                    return "own"
                raise AttributeError(name)
            """,
        )
    )
    assert output == "newhome imported\nown registered 1\nmodule 'late' has no attribute 'unknown'\n"


@pytest.mark.proves("compat-chains")
@pytest.mark.parametrize("order", ["import package\nimport package.tool", "import package.tool\nimport package"])
def test_a_moved_name_wins_over_a_submodule_of_the_same_name_in_both_orders(run: Run, order: str) -> None:
    """Case 30."""
    output = succeeded(
        run(
            f"{order}\nfrom package.tool import inside\nprint(package.tool(), inside)",
            "-Wignore",
            package__INIT="""
            from perdure_compat import facade
            __getattr__, __dir__ = facade(__name__, {"tool": ("moved", "newhome:register_tool", "1", "2")})
            """,
            package__tool="inside = 1\n",
        )
    )
    assert output == "newhome imported\nregistered 1 1\n"


@pytest.mark.proves("compat-stubs")
def test_a_deleted_module_is_imported_found_reloaded_and_says_where_it_runs_now(run: Run) -> None:
    """Case 31."""
    modules = {"package__INIT": "", "package__sub": STUB}
    output = succeeded(
        run(
            """
            import importlib, importlib.util, package.sub
            print(importlib.util.find_spec("package.sub") is not None)
            importlib.reload(package.sub)
            from package.sub import register_tool
            print(register_tool(), "Outer" in dir(package.sub), hasattr(package.sub, "nope"))
            from package.sub import *
            print(again())
            """,
            "-Wignore",
            **modules,
        )
    )
    assert output == "True\nnewhome imported\nregistered 1 True False\nregistered 1\n"
    done = run("import runpy, sys\nsys.argv = ['x']\nrunpy.run_module('package.sub', run_name='__main__')", **modules)
    assert (done.returncode, done.stderr) == (
        1,
        "package.sub is now newhome, since package 0.3: run `python -m newhome`\n",
    )


@pytest.mark.proves("compat-lazy")
@pytest.mark.parametrize("order", ["newround, oldround", "oldround, newround"])
def test_a_target_that_imports_its_facade_works_in_both_orders(run: Run, order: str) -> None:
    """Case 32."""
    output = succeeded(
        run(
            f"import {order}\nprint(oldround.thing, newround.back())",
            "-Wignore",
            oldround="""
            from perdure_compat import facade
            __getattr__, __dir__ = facade(__name__, {"thing": ("moved", "newround:thing", "1", "2")})
            """,
            newround="import oldround\nthing = 'thing'\ndef back(): return oldround.thing\n",
        )
    )
    assert output == "thing thing\n"


@pytest.mark.proves("compat-lazy")
def test_two_hundred_facades_load_nothing_of_weight(run: Run) -> None:
    """Case 33."""
    names = {
        f"f{number}": "from perdure_compat import facade\n__getattr__, __dir__ = facade(__name__, "
        '{"a": ("moved", "newhome:again", "1", "2")})\n'
        for number in range(200)
    }
    output = succeeded(
        run(
            "import sys\nbefore = set(sys.modules)\n"
            + "".join(f"import {name}\n" for name in names)
            + "import json\nbefore.add('json')\nprint(len(before))\n"
            "heavy = {'logging', 'typing', 'dataclasses', 'warnings', 'newhome', 'tomllib'} - before\n"
            "print(sorted(m for m in sys.modules if m in heavy and m != 'typing'))",
            "-Wignore",
            **names,
        )
    )
    assert json.loads(output.splitlines()[1].replace("'", '"')) == []

"""Who used a moved name, where, and how it was told: cases 3 to 21 of the facade."""

from pathlib import Path

import pytest

from tests.compat.conftest import Run, succeeded

WATCH = """
import warnings
seen = []
warnings.simplefilter("always")
def show(message, category, file, line, *rest):
    seen.append((file.rsplit("/", 1)[-1], line, str(message).split(",")[0]))
warnings.showwarning = show
"""


@pytest.mark.proves("compat-recorded")
def test_a_second_plugin_is_not_warned_about_but_recorded_with_its_line(run: Run) -> None:
    """Cases 4 and 5."""
    output = succeeded(
        run(
            """
            import watch, one, two
            from perdure_compat import uses
            print(watch.seen)
            for use in uses():
                print(use.old, use.new, use.module, use.file.rsplit("/", 1)[-1], use.line, use.uses, use.probes)
            """,
            watch=WATCH,
            one="from oldhome import register\nimport oldhome\noldhome.dumps\n",
            two="\nimport oldhome\nfor _ in range(3):\n    oldhome.register\nhasattr(oldhome, 'register')\n",
        )
    )
    assert output == (
        "newhome imported\n"
        "[('one.py', 1, 'oldhome.register is now newhome.register_tool')]\n"
        "oldhome.dumps json.dumps one one.py 3 1 0\n"
        "oldhome.register newhome.register_tool one one.py 1 1 0\n"
        "oldhome.register newhome.register_tool two two.py 4 1 0\n"
        "oldhome.register newhome.register_tool two two.py 5 0 1\n"
    )


@pytest.mark.proves("compat-user-line")
@pytest.mark.parametrize(
    ("plugin", "line"),
    [
        ("\nfrom oldhome import register\n", 2),
        ("\nimport oldhome\n\ndef f():\n    return oldhome.register()\nf()\n", 5),
        ("import oldhome\n\n@oldhome.register\ndef f(): ...\n", 3),
        ("import oldhome\nclass A:\n    x = 1\n    y = oldhome.register\n", 4),
        ("import importlib\n\nold = importlib.import_module('oldhome')\ngetattr(old, 'register')\n", 4),
        (
            "import typing\nimport oldhome\ndef f(x: 'oldhome.Deep'): ...\n\ntyping.get_type_hints(f)\n",
            5,
        ),
        ("from functools import partial\nimport oldhome\np = partial(lambda: oldhome.register)\n\np()\n", 3),
    ],
    ids=["from", "function", "decorator", "class-body", "import-module", "type-hints", "partial"],
)
def test_the_warning_names_the_plugins_own_line(run: Run, plugin: str, line: int) -> None:
    """Cases 6, 7 and 8."""
    new = NEW_WITH_DECORATOR
    output = succeeded(run("import watch, plugin\nprint(watch.seen)", watch=WATCH, plugin=plugin, newhome=new))
    name = "Deep is now newhome.Outer.Inner" if "Deep" in plugin else "register is now newhome.register_tool"
    assert output == f"[('plugin.py', {line}, 'oldhome.{name}')]\n"


NEW_WITH_DECORATOR = """
def register_tool(f=None):
    return f

class Outer:
    class Inner:
        pass
"""


@pytest.mark.proves("compat-user-line")
def test_a_package_and_a_module_in_it_name_the_plugins_line(run: Run) -> None:
    """Case 6."""
    facade = (
        "from perdure_compat import facade\n"
        '__getattr__, __dir__ = facade(__name__, {"register": ("moved", "newhome:register_tool", "1", "2")})\n'
    )
    output = succeeded(
        run(
            "import watch, plugin\nprint(watch.seen)",
            watch=WATCH,
            plugin="from oldpackage import register\nfrom oldpackage.inner import register\n",
            oldpackage__INIT=facade,
            oldpackage__inner=facade,
        )
    )
    place = "register is now newhome.register_tool"
    assert output == (
        f"newhome imported\n[('plugin.py', 1, 'oldpackage.{place}'), ('plugin.py', 2, 'oldpackage.inner.{place}')]\n"
    )


@pytest.mark.proves("compat-probes-are-silent")
@pytest.mark.parametrize("option", ["-Wdefault", "-Werror"])
def test_looking_whether_a_name_is_there_neither_warns_nor_raises(run: Run, option: str) -> None:
    """Cases 9, 10, 19 and 20."""
    output = succeeded(
        run(
            """
            import doctest, inspect, operator, pydoc, rlcompleter, oldhome
            print(hasattr(oldhome, "register"), getattr(oldhome, "nope", "d"), getattr(oldhome, "lost", "d"))
            print(getattr(oldhome, "register", None) is not None, operator.attrgetter("Deep")(oldhome) is not None)
            print("register" in dir(oldhome), "gone" in dir(oldhome), "check" in dir(oldhome))
            print([name for name, _ in inspect.getmembers(oldhome) if name in ("register", "Deep", "dumps")])
            print(rlcompleter.Completer({"oldhome": oldhome}).complete("oldhome.regis", 0)[:16])
            pydoc.plain(pydoc.render_doc(oldhome)) and doctest.DocTestFinder().find(oldhome)
            """,
            option,
        )
    )
    assert output.splitlines() == [
        "newhome imported",
        "True d d",
        "True True",
        "True False False",
        "['Deep', 'dumps', 'register']",
        "oldhome.register",
    ]


@pytest.mark.proves("compat-probes-are-silent")
def test_what_of_unittest_reads_every_name_neither_warns_nor_raises(run: Run) -> None:
    """Case 20: where warnings are errors, a mock after a facade and a search for tests in one would stop."""
    output = succeeded(
        run(
            """
            import unittest, facade_alone
            from unittest import mock
            print(callable(mock.create_autospec(facade_alone).register))
            mock.Mock(spec=facade_alone).register()
            print(unittest.defaultTestLoader.loadTestsFromModule(facade_alone).countTestCases())
            """,
            "-Werror",
            facade_alone="""
            from perdure_compat import facade as _facade
            __getattr__, __dir__ = _facade(__name__, {"register": ("moved", "newhome:register_tool", "1", "2")})
            """,
        )
    )
    assert output == "newhome imported\nTrue\n0\n"


@pytest.mark.proves("compat-warns-once")
def test_catching_the_warning_does_not_make_later_uses_warn_again(run: Run) -> None:
    """Case 17."""
    output = succeeded(
        run(
            """
            import watch, warnings, oldhome
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                oldhome.register
            oldhome.register
            print(len(caught), watch.seen)
            """,
            watch=WATCH,
        )
    )
    assert output == "newhome imported\n1 []\n"


@pytest.mark.proves("compat-star")
def test_a_star_import_takes_public_and_moved_names_with_one_warning(run: Run) -> None:
    """Case 18."""
    home = """
        from perdure_compat import facade as _facade
        def still_here(): return "own"
        __getattr__, __dir__ = _facade(__name__, {
            "register": ("moved", "newhome:register_tool", "0.3", "0.6"),
            "Deep": ("moved", "newhome:Outer.Inner", "0.3", "0.6"),
            "dumps": ("import", "json:dumps", "0.3", "0.6"),
            "gone": ("removed", "", "0.3", "0.6"),
        })
    """
    output = succeeded(
        run(
            """
            import watch, oldstar
            print(hasattr(oldstar, "__all__"))
            from oldstar import *
            print(register(), Deep.__name__, still_here(), dumps(1))
            oldstar.register
            from package import *
            print(register is oldstar.register)
            print(watch.seen)
            """,
            watch=WATCH,
            oldstar=home,
            package__INIT=home,
        )
    )
    assert output == (
        "False\nnewhome imported\nregistered 1 Inner own 1\nTrue\n"
        "[('program.py', 4, 'from oldstar import * takes names that moved: Deep is now newhome.Outer.Inner until 0.6; "
        "register is now newhome.register_tool until 0.6 (used by __main__)'), "
        "('program.py', 7, 'from package import * takes names that moved: Deep is now newhome.Outer.Inner until 0.6; "
        "register is now newhome.register_tool until 0.6 (used by __main__)')]\n"
    )


@pytest.mark.proves("compat-hints")
def test_a_removed_name_shows_its_hint_on_attribute_access_and_on_import(run: Run) -> None:
    """Case 21."""
    output = succeeded(
        run(
            """
            import oldhome
            for statement in ("oldhome.gone", "from oldhome import gone", "oldhome.replaced"):
                try:
                    exec(statement)
                except (AttributeError, ImportError) as error:
                    print(isinstance(error, AttributeError), error)
            print(hasattr(oldhome, "gone"))
            """
        )
    )
    assert output == (
        "True oldhome.gone is gone since oldhome 0.4: nobody used it\n"
        "False oldhome.gone is gone since oldhome 0.4: nobody used it\n"
        "True oldhome.replaced is gone since oldhome 0.4; use newhome.register_tool\n"
        "False\n"
    )


@pytest.mark.proves("compat-hints")
def test_a_loud_name_is_refused_with_an_error_that_no_fallback_catches(run: Run) -> None:
    output = succeeded(
        run(
            """
            import inspect, oldhome
            for statement in ("oldhome.check", "from oldhome import check", "hasattr(oldhome, 'check')"):
                try:
                    try:
                        exec(statement)
                    except (AttributeError, ImportError):
                        print("caught by accident")
                except RuntimeError as error:
                    print(type(error).__name__, error)
            print(len(inspect.getmembers(oldhome)) > 0)
            """,
        )
    )
    line = (
        "MovedNameRefused oldhome.check is now newhome.check, since oldhome 0.4, and is not answered at its old place: "
        "it asks the gate now\n"
    )
    assert output == line * 3 + "newhome imported\nTrue\n"


@pytest.mark.proves("compat-warns-once")
def test_a_restored_name_warns_that_it_has_no_new_place(run: Run) -> None:
    done = run("import oldhome\nprint(oldhome.kept())")
    assert done.stdout == "newhome imported\nkept\n"
    assert "oldhome.kept has no new place, since oldhome 0.4; the old name goes away in oldhome 0.7" in done.stderr


@pytest.mark.proves("compat-recorded")
def test_a_host_that_logs_finds_the_warning_in_its_log_and_another_sees_it_once(run: Run) -> None:
    program = "import {0} oldhome\noldhome.register\n"
    quiet = run(program.format("logging,"))
    assert quiet.stderr.count("oldhome.register is now") == 1
    logged = run("import logging\nlogging.basicConfig(format='LOG %(message)s')\n" + program.format(""), "-Wignore")
    assert "LOG " in logged.stderr
    assert "program.py:4: oldhome.register is now newhome.register_tool" in logged.stderr


@pytest.mark.proves("compat-warns-once")
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_the_shipped_pytest_plugin_gives_each_test_its_own_warning(
    run: Run, tmp_path: Path, workers: list[str]
) -> None:
    """Cases 15 and 16."""
    (tmp_path / "test_plugin.py").write_text(
        "import pytest, oldhome\nfrom perdure_compat import PerdureCompatWarning\n\n"
        "@pytest.mark.parametrize('n', range(4))\ndef test_it(n):\n"
        "    with pytest.warns(PerdureCompatWarning, match='register'):\n        oldhome.register()\n"
        "    oldhome.register()\n"
    )
    done = run(
        "import sys, pytest\n"
        "options = ['-q', '-Werror', '-p', 'no:cacheprovider', '-p', 'perdure_compat.pytest_plugin']\n"
        f"sys.exit(pytest.main([*options, 'test_plugin.py', *{workers!r}]))"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.proves("compat-warns-once")
def test_sixteen_threads_give_one_warning_each_round_also_without_the_global_lock(run: Run) -> None:
    """Cases 13 and 14: test_interpreters runs it without the global lock where there is such a build."""
    output = succeeded(
        run(
            """
            import sys, threading, warnings
            from perdure_compat import facade
            sys.setswitchinterval(1e-6)
            shown = []
            warnings.simplefilter("always")
            warnings.showwarning = lambda *a, **k: shown.append(a)
            for round in range(200):
                getter, _ = facade(f"home{round}", {"name": ("moved", "os:sep", "1", "2")})
                module = type(sys)(f"home{round}")
                module.__getattr__ = getter
                gate = threading.Barrier(16)
                def use():
                    gate.wait()
                    module.name
                threads = [threading.Thread(target=use) for _ in range(16)]
                [t.start() for t in threads]
                [t.join() for t in threads]
            print(len(shown))
            """
        )
    )
    assert output == "200\n"

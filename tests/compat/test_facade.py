"""The facade on real modules in a folder of their own, mostly in fresh processes: `once per process` is the promise."""

from pathlib import Path

import pytest

from tests.compat.conftest import HOME, Run, succeeded

REGISTER_WARNING = (
    "oldhome.register is now newhome.register_tool, since oldhome 0.3 (now keyword-only); "
    "the old name goes away in oldhome 0.6 (used by {user})"
)


@pytest.mark.proves("compat-lazy")
def test_importing_a_facade_loads_no_target_and_nothing_of_weight(run: Run) -> None:
    """Case 33."""
    output = succeeded(
        run(
            """
            import sys
            before = set(sys.modules)
            import oldhome
            print(sorted(set(sys.modules) - before))
            """
        )
    )
    assert output == "['__future__', 'oldhome', 'perdure_compat']\n"


@pytest.mark.proves("compat-lazy")
def test_probing_an_unknown_name_or_listing_a_facade_imports_and_warns_nothing(run: Run) -> None:
    output = succeeded(
        run(
            """
            import sys, oldhome
            before = set(sys.modules)
            print(hasattr(oldhome, "registr"), hasattr(oldhome, "__path__"), "register" in dir(oldhome))
            print(sorted(set(sys.modules) - before))
            """,
            "-Werror",
        )
    )
    assert output == "False False True\n[]\n"


@pytest.mark.proves("compat-same-object")
def test_moved_names_give_the_targets_objects(run: Run) -> None:
    """Cases 1 and 2."""
    output = succeeded(
        run(
            """
            import pickle, oldhome, newhome
            Inner = newhome.Outer.Inner
            print(oldhome.register is newhome.register_tool, oldhome.Deep is Inner, oldhome.whole is newhome)
            from oldhome import register, Deep
            print(register is newhome.register_tool, Deep is Inner)
            print(isinstance(Inner(), oldhome.Deep), pickle.dumps(oldhome.Deep) == pickle.dumps(Inner))
            newhome.register_tool = "patched"
            print(oldhome.register)
            """,
            "-Wignore",
        )
    )
    assert output == "newhome imported\nTrue True True\nTrue True\nTrue True\npatched\n"


@pytest.mark.proves("compat-warns-once", "compat-user-line")
def test_every_way_to_use_a_name_warns_at_the_users_line_and_once(run: Run, tmp_path: Path) -> None:
    """Cases 4, 5 and 6."""
    done = run(
        """
        import oldhome
        import plugin_one
        import plugin_two
        oldhome.register()
        """,
        plugin_one="""
        # line 2

        from oldhome import register
        """,
        plugin_two="""
        from oldhome import register, Deep
        """,
    )
    deep = "oldhome.Deep is now newhome.Outer.Inner, since oldhome 0.3; the old name goes away in oldhome 0.6"
    assert (done.returncode, done.stdout) == (0, "newhome imported\n")
    assert done.stderr == (
        f"{tmp_path}/plugin_one.py:4: PerdureCompatWarning: {REGISTER_WARNING.format(user='plugin_one')}\n"
        "  from oldhome import register\n"
        f"{tmp_path}/plugin_two.py:2: PerdureCompatWarning: {deep} (used by plugin_two)\n"
        "  from oldhome import register, Deep\n"
    )


@pytest.mark.proves("compat-user-line")
def test_a_from_import_out_of_a_package_warns_once_at_the_users_line(run: Run, tmp_path: Path) -> None:
    """Case 3: for a package, importlib's handling of the from-list asks for the name first, from frames of its own."""
    (tmp_path / "oldpackage").mkdir()
    (tmp_path / "oldpackage" / "__init__.py").write_text(HOME)
    done = run("\nfrom oldpackage import register\nprint(register())\n")
    assert (done.returncode, done.stdout) == (0, "newhome imported\nregistered 1\n")
    assert done.stderr == (
        f"{tmp_path}/program.py:2: PerdureCompatWarning: "
        + REGISTER_WARNING.format(user="__main__").replace("oldhome", "oldpackage")
        + "\n  from oldpackage import register\n"
    )


@pytest.mark.proves("compat-warns-once")
def test_the_warning_as_an_error_is_raised_at_every_use(run: Run) -> None:
    """Case 12."""
    output = succeeded(
        run(
            """
            import oldhome
            for _ in range(2):
                try:
                    oldhome.register
                except FutureWarning as error:
                    print(type(error).__name__, error)
            try:
                from oldhome import register
            except FutureWarning as error:
                print(type(error).__name__)
            """,
            "-Werror",
        )
    )
    line = f"PerdureCompatWarning {REGISTER_WARNING.format(user='__main__')}\n"
    assert output == f"newhome imported\n{line}{line}PerdureCompatWarning\n"


@pytest.mark.proves("compat-warns-once")
def test_a_handler_of_warnings_that_uses_the_name_itself_ends(run: Run) -> None:
    output = succeeded(
        run(
            """
            import oldhome, warnings
            warnings.simplefilter("always")
            warnings.showwarning = lambda *a, **k: print("shown", oldhome.register())
            oldhome.register()
            oldhome.register()
            """
        )
    )
    assert output == "newhome imported\nshown registered 1\n"


@pytest.mark.proves("compat-warns-once")
def test_a_target_that_cannot_be_imported_raises_an_error_that_names_both_places_and_does_not_warn(run: Run) -> None:
    """Cases 10 and 11."""
    output = succeeded(
        run(
            """
            import oldhome
            for name in ("lost", "absent"):
                try:
                    exec(f"oldhome.{name}")
                except ImportError as error:
                    print(type(error).__name__, error, type(error.__cause__).__name__)
                try:
                    exec(f"from oldhome import {name}")
                except ImportError as error:
                    print(error)
                print(getattr(oldhome, name, "default"), hasattr(oldhome, name))
            """
        )
    )
    lost = "oldhome.lost is now nowhere.at_all, which cannot be had: No module named 'nowhere'"
    absent = (
        "oldhome.absent is now newhome.not_there, which cannot be had: module 'newhome' has no attribute 'not_there'"
    )
    assert output == (
        f"MovedNameImportError {lost} ModuleNotFoundError\n{lost}\ndefault False\n"
        f"newhome imported\nMovedNameImportError {absent} AttributeError\n{absent}\ndefault False\n"
    )


@pytest.mark.proves("compat-near-miss")
def test_an_unknown_name_is_refused_with_the_nearest_known_one(run: Run) -> None:
    done = run(
        """
        import oldhome
        for name in ("regster", "still_her", "zzz", "__wrapped__"):
            try:
                getattr(oldhome, name)
            except AttributeError as error:
                print(error)
        oldhome.regster
        """
    )
    assert done.returncode == 1
    assert done.stdout == (
        "module 'oldhome' has no attribute 'regster'; did you mean 'register'?\n"
        "module 'oldhome' has no attribute 'still_her'; did you mean 'still_here'?\n"
        "module 'oldhome' has no attribute 'zzz'\n"
        "module 'oldhome' has no attribute '__wrapped__'\n"
    )
    assert done.stderr.splitlines()[-1] == (
        "perdure_compat.MovedNameError: module 'oldhome' has no attribute 'regster'; did you mean 'register'?"
    )


CHAINED = """
from perdure_compat import facade

log = globals().setdefault("log", [])
live = "live"

def __getattr__(name):
    log.append(name)
    if name == "dynamic":
        return "from the module's own"
    raise AttributeError(f"the module's own knows no {name}")

def __dir__():
    return ["live", "dynamic"]

__getattr__, __dir__ = facade(
    __name__,
    {name: ("moved", "newhome:register_tool", "0.3", "0.6") for name in ("register", "live")},
)
"""


@pytest.mark.proves("compat-chains")
def test_a_modules_own_names_and_hooks_keep_working_also_after_reloads(run: Run) -> None:
    """Case 29."""
    output = succeeded(
        run(
            """
            import importlib, chained
            for _ in range(3):
                importlib.reload(chained)
                chained.log.clear()
                print(chained.live, "|", chained.dynamic, "|", chained.register(), "|", dir(chained), "|", chained.log)
                try:
                    chained.unknown
                except AttributeError as error:
                    print(error)
            """,
            "-Wignore",
            chained=CHAINED,
        )
    )
    line = "live | from the module's own | registered 1 | ['dynamic', 'live', 'register'] | ['dynamic']\n"
    assert output == "newhome imported\n" + (line + "the module's own knows no unknown\n") * 3


@pytest.mark.proves("compat-chains")
def test_a_reloaded_module_without_hooks_of_its_own_does_not_chain_to_its_old_facade(run: Run) -> None:
    output = succeeded(
        run(
            """
            import importlib, oldhome
            for _ in range(2000):
                importlib.reload(oldhome)
            print(oldhome.register())
            try:
                oldhome.unknown
            except AttributeError as error:
                print(error)
            """,
            "-Wignore",
        )
    )
    assert output == "newhome imported\nregistered 1\nmodule 'oldhome' has no attribute 'unknown'\n"


@pytest.mark.proves("compat-same-object")
def test_a_star_import_gives_what_the_old_all_gave(run: Run) -> None:
    """Case 18."""
    output = succeeded(
        run(
            """
            from starred import *
            print(register(), still_here())
            """,
            "-Wignore",
            starred=HOME + '\n__all__ = ["register", "still_here"]\n',
        )
    )
    assert output == "newhome imported\nregistered 1 own\n"

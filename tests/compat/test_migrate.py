"""What the codemod writes: each case is compared whole, run again, and must not change a second time."""

from pathlib import Path

import pytest

from perdure_compat.index import Index
from perdure_compat.manifest import parse_manifest
from perdure_compat.migrate import migrate
from perdure_compat.outcome import Migration
from perdure_compat.reading import Reading
from perdure_compat.source import Source
from tests.compat.shop import PLUGIN, command, make_shop, python

MANIFEST = """
schema = 1
package = "old"
[[moved]]
old = "old.X"
new = "new.X"
since = "1"
removed-in = "3"
[[moved]]
old = "old.Z"
new = "new.Z"
since = "1"
removed-in = "3"
[[moved]]
old = "old.reg"
new = "new.tools.register"
since = "1"
removed-in = "3"
[[moved]]
old = "old.Inner"
new = "new:Outer.Inner"
since = "1"
removed-in = "3"
[[moved]]
old = "old.json"
new = "json:"
kind = "import"
since = "1"
removed-in = "3"
[[moved]]
old = "old.sub"
new = "new.deep.sub"
since = "1"
removed-in = "3"
kind = "module"
[[moved]]
old = "old.gone"
since = "1"
removed-in = "3"
kind = "removed"
note = "use nothing"
[[moved]]
old = "old.check"
new = "new.check"
since = "1"
removed-in = "3"
loud = true
"""
INDEX = Index([parse_manifest(MANIFEST, Path("m.toml"))])


def migrated(text: str, outside: frozenset[str] = frozenset(), module: str = "plug.p") -> Migration:
    source = Source(Path("p.py"), text)
    reading = Reading(source, module, package=False, roots=frozenset(INDEX.roots))
    return migrate(reading, INDEX, asked_outside=outside)


CASES = {
    "plain": ("from old import X\nX()\n", "from new import X\nX()\n"),
    "aliased": ("from old import X as Y\n", "from new import X as Y\n"),
    "split": (
        "from old import X, keep, Z, reg\nreg()\n",
        "from new import X, Z\nfrom old import keep\nfrom new.tools import register\nregister()\n",
    ),
    "parenthesised": (
        "from old import (\n    X,  # the x\n    # above z\n    Z,\n)\n",
        "from new import (\n    X,  # the x\n    # above z\n    Z,\n)\n",
    ),
    "parenthesised-split": (
        (
            "from old import (\n    X,  # the x\n    keep,  # stays\n    # above reg\n    reg,\n)  # noqa: F401\n"
            "x = 'reg'\n"
        ),
        (
            "from new import (\n    X,  # the x\n)  # noqa: F401\n"
            "from old import (\n    keep,  # stays\n)  # noqa: F401\n"
            "from new.tools import (\n    # above reg\n    register as reg,\n)  # noqa: F401\nx = 'reg'\n"
        ),
    ),
    "comment-for-people-once": (
        "from old import X, keep  # why\n",
        "from new import X  # why\nfrom old import keep\n",
    ),
    "in-a-function": (
        "def f():\n    from old import reg\n    return reg(1)\n",
        "def f():\n    from new.tools import register\n    return register(1)\n",
    ),
    "type-checking": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from old import X\ndef f(a: 'X'): ...\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from new import X\ndef f(a: 'X'): ...\n",
    ),
    "module-alias": (
        "import old.sub as c\nc.thing.x()\nimport old as o\no.reg(o.other)\n",
        "import new.deep.sub as c\nc.thing.x()\nimport old as o\nimport new.tools\nnew.tools.register(o.other)\n",
    ),
    "module-alias-alone": ("import old as o\no.reg(o.reg)\n", "import new.tools as o\no.register(o.register)\n"),
    "several-homes": (
        "import old\nold.X(); old.other\nold.Inner\n",
        "import old\nimport new\nnew.X(); old.other\nnew.Outer.Inner\n",
    ),
    "module-and-its-parent": (
        "import old.sub\nold.sub.a.b(old.keep)\n",
        "import old, new.deep.sub\nnew.deep.sub.a.b(old.keep)\n",
    ),
    "module-among-others": ("import old.sub, os\nold.sub.a\n", "import new.deep.sub, os\nnew.deep.sub.a\n"),
    "decorator": ("import old\n@old.X\ndef f(): ...\n", "import new\n@new.X\ndef f(): ...\n"),
    "type-comment": ("import old\nx = 1  # type: old.X\n", "import new\nx = 1  # type: new.X\n"),
    "text-annotation": (
        "import old\ndef f(a: 'old.reg', b: \"list[old.X]\"): ...\n",
        "import new.tools\nimport new\ndef f(a: 'new.tools.register', b: \"list[new.X]\"): ...\n",
    ),
    "patch": (
        "def t(mocker):\n    mocker.patch('old.reg')\n    mocker.patch(\"old.sub.a.b\", 1)\n",
        "def t(mocker):\n    mocker.patch('new.tools.register')\n    mocker.patch(\"new.deep.sub.a.b\", 1)\n",
    ),
    "getattr": (
        "import old as o\ngetattr(o, 'reg')\nsetattr(o, \"Inner\", 1)\n",
        "import new.tools\nimport new\ngetattr(new.tools, 'register')\nsetattr(new.Outer, \"Inner\", 1)\n",
    ),
    "crlf": ("from old import X, keep\r\nX()\r\n", "from new import X\r\nfrom old import keep\r\nX()\r\n"),
    "tabs": ("if 1:\n\tfrom old import X, keep\n", "if 1:\n\tfrom new import X\n\tfrom old import keep\n"),
    "form-feed": ("\x0cfrom old import X\n", "\x0cfrom new import X\n"),
    "not-ascii": ("x = 'é'; import old; y = 'é', old.X\n", "x = 'é'; import new; y = 'é', new.X\n"),
    "semicolon": ("from old import X, keep; y = 1\n", "from new import X; from old import keep; y = 1\n"),
    "noqa": ("from old import X  # noqa\n", "from new import X  # noqa\n"),
    "backslash": ("from old import \\\n    X, \\\n    keep\n", "from new import X\nfrom old import keep\n"),
    "no-newline-at-end": ("from old import X, keep", "from new import X\nfrom old import keep"),
    "reexported": (
        "from old import reg\n__all__ = ['reg']\n",
        "from new.tools import register as reg\n__all__ = ['reg']\n",
    ),
    "shadowed": (
        "from old import reg\ndef f(reg): return reg\nreg()\n",
        "from new.tools import register\ndef f(reg): return reg\nregister()\n",
    ),
    "new-name-taken": (
        "from old import reg\nregister = 1\nreg()\n",
        "from new.tools import register as reg\nregister = 1\nreg()\n",
    ),
    "merged": ("from new import A\nfrom old import X\n", "from new import A, X\n"),
    "merged-over-lines": (
        "from new import (\n    A,\n    B,\n)\nimport os\nfrom old import X, Z\n",
        "from new import (\n    A,\n    B,\n    X,\n    Z,\n)\nimport os\n",
    ),
    "exposed-import": ("from old import json\njson.dumps\n", "import json\njson.dumps\n"),
    "module-by-from": ("from old import sub\nsub.x\n", "from new.deep import sub\nsub.x\n"),
    "out-of-a-module": ("from old.sub import a, b as c\n", "from new.deep.sub import a, b as c\n"),
    "star-of-a-module": ("from old.sub import *\n", "from new.deep.sub import *\n"),
    "known-already": (
        "import new.tools as nt\nimport old\nold.reg()\nold.other\n",
        "import new.tools as nt\nimport old\nnt.register()\nold.other\n",
    ),
    "already-moved": (
        "from new import X\nfrom new.tools import register\n",
        "from new import X\nfrom new.tools import register\n",
    ),
    "brackets": ("import old\n(old).X((old.Z))\n", "import new\nnew.X((new.Z))\n"),
    "comment-in-a-chain": ("import old\ny = (old  # why\n    .X)\n", "import new\ny = (new.X  # why\n    )\n"),
    "f-strings": (
        "import old\nx = ('old.X' f'é{old.X}{old.X!r:>{old.Z}}' f'''\n{old.X} old.X\n''')\n",
        "import new\nx = ('old.X' f'é{new.X}{new.X!r:>{new.Z}}' f'''\n{new.X} old.X\n''')\n",
    ),
    "bound-in-a-class-as-well": (
        "from old import reg\nclass A:\n    reg = reg\n",
        "from new.tools import register as reg\nclass A:\n    reg = reg\n",
    ),
    "imported-in-either-branch": (
        "if V:\n    import old\nelse:\n    import old\nold.X(old.keep)\n",
        "if V:\n    import old\n    import new\nelse:\n    import old\n    import new\nnew.X(old.keep)\n",
    ),
    "known-under-another-name-in-the-same-statement": (
        "import new.tools as nt, old\nold.reg(old.keep)\nold.reg(old.X)\n",
        "import new.tools as nt, old\nimport new\nnt.register(old.keep)\nnt.register(new.X)\n",
    ),
    "deep-in-a-module": (
        "import old.sub.deep.er\nold.sub.deep.er.x\n",
        "import new.deep.sub.deep.er\nnew.deep.sub.deep.er.x\n",
    ),
    "values-of-a-literal": (
        "import old\nimport typing as t\ndef f(a: t.Literal['old.X'], b: t.Annotated['old.X', 'old.Z']): ...\n",
        "import new\nimport typing as t\ndef f(a: t.Literal['old.X'], b: t.Annotated['new.X', 'old.Z']): ...\n",
    ),
    "patch-dict": ("mock.patch.dict('old.Z', a=1)\n", "mock.patch.dict('new.Z', a=1)\n"),
    "class-body": ("class A:\n    from old import X\n    y = X\n", "class A:\n    from new import X\n    y = X\n"),
}


@pytest.mark.proves("compat-migrate-keeps-text", "compat-migrate-idempotent")
@pytest.mark.parametrize("name", CASES)
def test_each_form_is_written_anew_and_nothing_else_changes(name: str) -> None:
    """Case 38."""
    before, after = CASES[name]
    first = migrated(before)
    assert (first.after, first.left) == (after, ())
    assert migrated(after).after == after


LEFT = {
    "try-old-first": "try:\n    from old import X\nexcept ImportError:\n    X = None\n",
    "try-new-first": "try:\n    from new import X\nexcept ImportError:\n    from old import X\n",
    "by-version": "if V:\n    from new import X\nelse:\n    from old import X\n",
    "through-a-fallback": "try:\n    import old\nexcept ImportError:\n    old = None\nold and old.X\n",
    "removed": "from old import gone\ngone()\n",
    "loud": "from old import check\n",
    "star": "from old import *\nX()\n",
    "new-root-shadowed": "import old\ndef f(new):\n    return old.X(new)\n",
    "attribute-of-a-class": "from old import Inner\n",
    "mention": "print('old.X')\n",
    "global": "def f():\n    global old\n    import old\ndef g():\n    return old.X\n",
    "global-module": "def f():\n    global old\n    import old.sub\ndef g():\n    return old.sub.x\n",
    "class-of-its-own-name": "import old\nclass A:\n    old = old.X\n",
    "package-by-call": "__import__('old.sub').sub.x\n",
    "comment-in-brackets": "import old\ny = (old  # why\n).X\n",
    "odd-text": "mocker.patch('old' '.X')\n",
}
REASONS = {
    "try-old-first": ["p.py:2: left old.X: a fallback is beside it"],
    "try-new-first": ["p.py:4: left old.X: a fallback is beside it"],
    "by-version": ["p.py:4: left old.X: a fallback is beside it"],
    "through-a-fallback": ["p.py:5: left old.X: old has more than one meaning here"],
    "removed": ["p.py:1: left old.gone: it is gone since 1 (use nothing)"],
    "loud": ["p.py:1: left old.check: what it does matters for safety: move it by hand"],
    "star": ["p.py:1: left old.X: it comes with a star import: name what is needed"],
    "new-root-shadowed": ["p.py:3: left old.X: new means something else here, so new cannot be named"],
    "attribute-of-a-class": ["p.py:1: left old.Inner: new:Outer.Inner is an attribute, which no import takes"],
    "mention": ["p.py:1: left old.X: it is a text, and nothing here tells what for"],
    "global": ["p.py:5: left old.X: a `global` or `nonlocal` gives the import to another scope"],
    "global-module": [
        "p.py:3: left old.sub: a `global` or `nonlocal` gives the import to another scope",
        "p.py:5: left old.sub.x: its import stays",
    ],
    "class-of-its-own-name": ["p.py:3: left old.X: old has more than one meaning here"],
    "package-by-call": [
        "p.py:1: left old.sub: the call gives the package at the top, and what is done with that is not changed here"
    ],
    "comment-in-brackets": ["p.py:2: left old.X: it is written in a way that is not changed here"],
    "odd-text": ["p.py:1: left old.X: the text is written in a way that is not changed here"],
}


@pytest.mark.proves("compat-migrate-leaves")
@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_decided_is_left_and_listed(name: str) -> None:
    """Case 38."""
    migration = migrated(LEFT[name])
    assert (migration.after, [str(left) for left in migration.left]) == (LEFT[name], REASONS[name])


@pytest.mark.proves("compat-migrate-leaves")
def test_a_file_that_the_parser_warns_of_is_migrated_where_warnings_are_errors() -> None:
    """These tests run with every warning as an error."""
    text = "from old import X\npattern = '\\d'\n"
    assert migrated(text).after == text.replace("from old", "from new")


@pytest.mark.proves("compat-migrate-leaves")
def test_a_name_that_another_file_asks_for_keeps_its_name() -> None:
    text = "from old import reg\nreg()\n"
    assert migrated(text, frozenset({"reg"})).after == "from new.tools import register as reg\nreg()\n"


@pytest.mark.proves("compat-migrate-keeps-text")
def test_the_command_shows_the_change_then_writes_it_and_the_result_runs(tmp_path: Path) -> None:
    make_shop(tmp_path)
    assert command(tmp_path, "render").returncode == 0
    plugin = tmp_path / "plugin.py"
    plugin.write_bytes(b"\xef\xbb\xbf" + PLUGIN.replace("\n", "\r\n").encode())
    plugin.chmod(0o755)
    before = plugin.read_bytes()
    shown = command(tmp_path, "migrate", "plugin.py")
    assert (shown.returncode, plugin.read_bytes()) == (0, before)
    assert "-from shop.orders import (" in shown.stdout
    assert "+from shop.api.orders import (" in shown.stdout
    assert shown.stderr == "would move 4 uses in 1 files; 0 left; 0 unreadable\n"
    assert python(tmp_path, "-Werror", "-c", "import plugin").returncode == 1
    assert command(tmp_path, "migrate", "plugin.py", "--write").returncode == 0
    after = plugin.read_bytes()
    assert after.startswith(b"\xef\xbb\xbffrom shop.api.orders import (\r\n    Order,  # what is bought\r\n    place")
    assert plugin.stat().st_mode & 0o777 == 0o755
    ran = python(tmp_path, "-Werror", "-c", "import plugin; print(plugin.buy())")
    assert (ran.stdout, ran.stderr) == ("(False, 3, 3)\n", "")
    again = command(tmp_path, "migrate", "plugin.py", "--write")
    assert (again.returncode, plugin.read_bytes()) == (0, after)
    assert command(tmp_path, "scan", "plugin.py").returncode == 0

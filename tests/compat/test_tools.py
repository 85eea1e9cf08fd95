"""What is made from a manifest, what is wrong with a tree, and taking a layer away again, on a project of its own."""

import tomllib
from pathlib import Path

import pytest

from tests.compat.shop import MANIFEST, PLUGIN, command, make_shop, python


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    make_shop(tmp_path)
    done = command(tmp_path, "render")
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.mark.proves("compat-render")
def test_render_writes_facades_stubs_tables_and_a_page_and_then_has_nothing_to_do(shop: Path) -> None:
    assert command(shop, "render").stdout == ""
    assert command(shop, "render", "--check").returncode == 0
    assert (shop / "src/shop/live.py").read_text() == (
        '"""Still here."""\n\n\ndef here() -> int:\n    return 1\n\n'
        "# perdure-compat: begin (written by `perdure-compat render` from the manifest; edits are lost)\n"
        "from perdure_compat import facade as _facade  # noqa: E402\n\n"
        "__getattr__, __dir__ = _facade(\n    __name__,\n    {\n"
        '        "LIMIT": ("moved", "shop.api.orders:LIMIT", "0.3", "0.5"),\n'
        '        "old_price": ("restored", "shop._restored:old_price", "0.3", "0.5"),\n'
        '        "sku": ("removed", "", "0.3", "0.5", "every order has a number"),\n'
        "    },\n)\n\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n"
        "    from shop._restored import old_price as old_price  # noqa: E402\n"
        "    from shop.api.orders import LIMIT as LIMIT  # noqa: E402\n"
        "# perdure-compat: end\n"
    )
    assert (
        (shop / "src/shop/orders.pyi")
        .read_text()
        .endswith(
            'from typing_extensions import deprecated\n\n@deprecated("shop.orders.place_order is now '
            'shop.api.orders.place; the old name goes away in 0.6")\n'
            "def place_order(order: Order, notes: Sequence[str]=...) -> bool: ...\n"
        )
    )
    assert sorted(path.name for path in (shop / "src/shop/rest").iterdir()) == [
        "__init__.py",
        "__init__.pyi",
        "orders.py",
        "orders.pyi",
    ]
    banned = tomllib.loads((shop / "ruff-moved.toml").read_text())["lint"]["flake8-tidy-imports"]["banned-api"]
    assert banned["shop.live.LIMIT"]["msg"] == (
        "It is now shop.api.orders.LIMIT, since shop 0.3; the old name goes away in 0.5."
    )
    page = (shop / "docs/moved.md").read_text()
    assert "| `shop.orders.place_order` | `shop.api.orders.place` | 0.3 | 0.6 | notes is new |" in page
    assert "| `shop.live.sku` | removed | 0.3 | refused | every order has a number |" in page


@pytest.mark.proves("compat-render")
def test_every_old_name_works_after_render(shop: Path) -> None:
    program = (
        "import shop.live, shop.rest.orders, shop.orders, shop.api.orders as new\n"
        "print(shop.live.LIMIT, shop.live.old_price())\n"
        "print(shop.orders.Order is new.Order, shop.rest.orders.place is new.place)\n"
        "try:\n    shop.live.sku\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = python(shop, "-c", program)
    assert done.stdout == "3 7\nTrue True\nshop.live.sku is gone since shop 0.3: every order has a number\n"
    assert done.stderr.count("PerdureCompatWarning") == 4
    assert command(shop, "lint", "--resolve").returncode == 0


@pytest.mark.proves("compat-types")
def test_a_type_checker_sees_the_right_types_and_strikes_old_functions_through(shop: Path) -> None:
    """Case 37."""
    (shop / "plugin.py").write_text(
        "from shop.api.orders import Order as New\nfrom shop.orders import Order, place_order\nimport shop.live\n\n"
        "def take(order: Order) -> None: ...\n\ntake(New())\nreveal_type(place_order(Order()))\n"
        "reveal_type(shop.live.LIMIT)\nplace_order(1)\n"
    )
    done = python(
        shop, "-m", "mypy", "--strict", "--enable-error-code", "deprecated", "--no-error-summary", "--cache-dir",
        str(shop / "cache"), "plugin.py",
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("plugin.py")]
    assert lines == [
        (
            "plugin.py:2: error: function shop.orders.place_order is deprecated: shop.orders.place_order is now "
            "shop.api.orders.place; the old name goes away in 0.6  [deprecated]"
        ),
        'plugin.py:8: note: Revealed type is "bool"',
        'plugin.py:9: note: Revealed type is "int"',
        'plugin.py:10: error: Argument 1 to "place_order" has incompatible type "int"; expected "Order"  [arg-type]',
    ]


@pytest.mark.proves("compat-types")
def test_a_class_is_struck_through_only_where_it_is_only_constructed(shop: Path) -> None:
    """Case 37."""
    text = MANIFEST.replace(
        'new = "shop.api.orders.Order"\nsince = "0.3"\n',
        'new = "shop.api.orders.Order"\nsince = "0.3"\nconstructed-only = true\n',
    )
    (shop / "moved-names.toml").write_text(text)
    assert command(shop, "stubs", "--out", "typings").returncode == 0
    stub = (shop / "typings/shop/orders.pyi").read_text()
    assert '@deprecated("shop.orders.Order is now shop.api.orders.Order; the old name goes away in 0.6")' in stub
    assert "class Order(_Order): ...\n" in stub


@pytest.mark.proves("compat-lint-manifest")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("shop.api.orders.LIMIT", "shop.api.orders.LIMITS"), "shop.live.LIMIT: shop.api.orders defines no LIMITS"),
        (("shop.api.orders.LIMIT", "shop.api.gone.LIMIT"), "shop.live.LIMIT: there is no module shop.api.gone"),
        (("shop.live.LIMIT", "shop.live.here"), "shop.live.here is still defined, at "),
        (('old = "shop.rest"', 'old = "shop.live"'), "shop.live is still a module of its own"),
        (("notes is new", "notes is newer"), "is not as the manifest says: run `perdure-compat render`"),
        (("tests/old_plugin.py", "tests/other.py"), "uses shop.orders.Order, which is now shop.api.orders.Order"),
        (('"docs"]', '"doc"]'), "tree: lint: there is no "),
    ],
)
def test_what_is_wrong_between_manifest_and_tree_is_told(shop: Path, change: tuple[str, str], fault: str) -> None:
    """Case 35."""
    assert command(shop, "lint").returncode == 0
    assert change[0] in MANIFEST
    (shop / "moved-names.toml").write_text(MANIFEST.replace(*change))
    done = command(shop, "lint")
    assert done.returncode == 1
    assert fault in done.stdout


@pytest.mark.proves("compat-lint-manifest")
def test_an_entry_whose_version_has_come_fails_the_lint(shop: Path) -> None:
    """Case 35."""
    done = command(shop, "lint", "--current", "0.5")
    assert done.returncode == 1
    assert "shop.live.LIMIT: 0.5 has come (this is 0.5): run `perdure-compat remove --up-to 0.5`" in done.stdout
    assert "shop.orders" not in done.stdout


@pytest.mark.proves("compat-lint-uses")
@pytest.mark.parametrize(
    "text",
    [
        "from shop.live import LIMIT\n",
        "import shop.live as l\nl.LIMIT\n",
        "import shop\nshop.live.LIMIT\n",
        "mock.patch('shop.live.LIMIT')\n",
        "import shop.live\nsetattr(shop.live, 'LIMIT', 1)\n",
        "import shop.live\ngetattr(shop.live, 'LIMIT')\n",
        "from shop.live import *\nLIMIT\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.live import LIMIT\n",
        "try:\n    from shop.live import LIMIT\nexcept ImportError:\n    pass\n",
    ],
)
def test_no_use_of_an_old_name_in_the_tree_is_missed(shop: Path, text: str) -> None:
    """Case 36."""
    (shop / "tests" / "test_more.py").write_text(text)
    done = command(shop, "lint")
    assert done.returncode == 1
    assert "tests/test_more.py:" in done.stdout
    assert "uses shop.live.LIMIT, which is now shop.api.orders.LIMIT" in done.stdout


@pytest.mark.proves("compat-lint-uses")
def test_a_program_that_a_test_holds_as_a_text_is_linted(shop: Path) -> None:
    (shop / "tests" / "test_more.py").write_text(
        'PLUGIN = """\\\nimport os\n\nfrom shop.live import LIMIT\n"""\n'
        "SHORT = 'import shop.live; shop.live.LIMIT'\n"
        "PART = 'from shop.live import LIMIT, and so on'\n"
    )
    assert command(shop, "lint").stdout.splitlines() == [
        "tests/test_more.py:4: uses shop.live.LIMIT, which is now shop.api.orders.LIMIT",
        "tests/test_more.py:6: uses shop.live.LIMIT, which is now shop.api.orders.LIMIT",
    ]


@pytest.mark.proves("compat-lint-uses")
def test_a_relative_import_and_an_example_in_a_document_are_uses_too(shop: Path) -> None:
    """Case 36."""
    (shop / "src/shop/more.py").write_text("from .live import LIMIT\n")
    (shop / "docs/orders.md").write_text("Text\n\n```python\n>>> from shop.orders import Order\n```\n")
    assert sorted(command(shop, "lint").stdout.splitlines()) == [
        "docs/orders.md:4: uses shop.orders.Order, which is now shop.api.orders.Order",
        "src/shop/more.py:1: uses shop.live.LIMIT, which is now shop.api.orders.LIMIT",
    ]


@pytest.mark.proves("compat-remove")
def test_a_layer_is_removed_by_one_command_and_the_codemod_still_works(shop: Path) -> None:
    """Case 40."""
    plugin = shop / "plugin.py"
    plugin.write_text(PLUGIN)
    done = command(shop, "remove", "--up-to", "0.6")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (shop / "src/shop").rglob("*.py")) == [
        "__init__.py",
        "__init__.py",
        "live.py",
        "orders.py",
    ]
    assert (shop / "src/shop/live.py").read_text() == '"""Still here."""\n\n\ndef here() -> int:\n    return 1\n'
    assert command(shop, "lint", "--current", "0.6").returncode == 0
    failed = python(shop, "-c", "import plugin")
    assert failed.stderr.endswith("ModuleNotFoundError: No module named 'shop.orders'\n")
    scan = command(shop, "scan", "plugin.py", "--manifest", "moved-names-archive.toml", "--host-version", "0.6")
    assert (scan.returncode, "gone since 0.6" in scan.stdout) == (3, True)
    assert command(shop, "migrate", "plugin.py", "--write", "--manifest", "moved-names-archive.toml").returncode == 0
    assert python(shop, "-c", "import plugin; print(plugin.buy())").stdout == "(False, 3, 3)\n"


@pytest.mark.proves("compat-remove")
def test_a_removal_takes_only_what_has_come_and_keeps_comments(shop: Path) -> None:
    assert command(shop, "remove", "--up-to", "0.5", "--dry-run").returncode == 0
    assert (shop / "moved-names.toml").read_text() == MANIFEST
    assert command(shop, "remove", "--up-to", "0.5").returncode == 0
    text = (shop / "moved-names.toml").read_text()
    assert "# Where orders are placed." in text
    assert "# A number." not in text
    assert "shop.live" not in text
    assert not (shop / "src/shop/_restored.py").exists()
    assert command(shop, "lint", "--current", "0.5").returncode == 0
    assert command(shop, "remove", "--up-to", "0.5").stdout == ""


@pytest.mark.proves("compat-remove")
def test_with_hints_an_old_name_raises_an_error_that_names_the_new_place(shop: Path) -> None:
    assert command(shop, "remove", "--up-to", "0.6", "--keep-hints").returncode == 0
    done = python(shop, "-c", "import shop.live\nshop.live.LIMIT")
    assert done.stderr.endswith("shop.live.LIMIT is gone since shop 0.3; use shop.api.orders.LIMIT\n")
    assert command(shop, "lint", "--current", "0.6", "--resolve").returncode == 0
    assert command(shop, "remove", "--up-to", "0.6", "--keep-hints").stdout == ""


@pytest.mark.proves("compat-check")
def test_a_public_name_that_vanished_without_an_entry_is_told(shop: Path) -> None:
    old = shop / "before"
    for name, text in {
        "__init__.py": "",
        "live.py": "LIMIT = 3\ndef here(): ...\n_private = 1\ndef old_price(): ...\ndef sku(): ...\ndef lost(): ...\n",
        "orders.py": "class Order:\n    size = 1\n\ndef place_order(): ...\n",
        "lost/__init__.py": "",
        "lost/inner.py": "x = 1\n",
    }.items():
        path = old / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    new = shop / "after"
    assert python(shop, "-c", "import shutil; shutil.copytree('src', 'after')").returncode == 0
    for name in ("orders.py", "orders.pyi", "rest"):
        assert python(shop, "-c", f"import shutil, os; p = 'after/shop/{name}'; "
                      "shutil.rmtree(p) if os.path.isdir(p) else os.remove(p)").returncode == 0  # fmt: skip
    done = command(shop, "check", str(old), str(new))
    assert done.returncode == 1
    assert [line.split(": ", 1)[1] for line in done.stdout.splitlines()] == [
        "shop.live.lost vanished, and no entry of moved-names.toml says where to",
        "shop.lost vanished, and no entry of moved-names.toml says where to",
    ]
    assert command(shop, "check", str(new), str(new)).returncode == 0


@pytest.mark.proves("compat-manifest-faults")
def test_a_new_entry_is_written_with_the_trees_version(shop: Path) -> None:
    done = command(
        shop, "new-entry", "shop.live.extra", "shop.api.orders.place", "--removed-in", "0.7", "--note", 'a "note"'
    )
    assert done.returncode == 0, done.stderr
    assert (
        (shop / "moved-names.toml")
        .read_text()
        .endswith(
            '\n[[moved]]\nold = "shop.live.extra"\nnew = "shop.api.orders.place"\nsince = "0.4"\nremoved-in = "0.7"\n'
            'note = "a \\"note\\""\n'
        )
    )
    refused = command(shop, "new-entry", "shop._x.y", "shop.api.orders.place", "--removed-in", "0.7")
    assert (refused.returncode, "a private name gets no pointer" in refused.stderr) == (2, True)


@pytest.mark.proves("compat-manifest-faults")
def test_a_question_that_cannot_be_answered_exits_2_and_says_why(tmp_path: Path) -> None:
    done = command(tmp_path, "lint")
    assert (done.returncode, done.stderr) == (
        2,
        (
            "perdure-compat: there is no manifest: name one with --manifest (looked for compat/manifest.toml and "
            "moved-names.toml)\n"
        ),
    )
    (tmp_path / "moved-names.toml").write_text('schema = 1\npackage = "shop"\n')
    assert "does not say where the package lies" in command(tmp_path, "render").stderr
    assert command(tmp_path, "migrate", "none.py").stderr == "perdure-compat: there is no none.py\n"


@pytest.mark.proves("compat-lazy")
def test_the_core_is_free_of_the_tools(shop: Path) -> None:
    done = python(
        shop,
        "-c",
        (
            "import sys; b = set(sys.modules); import shop.live; shop.live.LIMIT\n"
            "ours = ('perdure_compat', 'tomllib', 'json', 'argparse')\n"
            "print(sorted(m for m in set(sys.modules) - b if m.startswith(ours)))"
        ),
    )
    assert done.stdout == "['perdure_compat', 'perdure_compat._uses']\n"


SMALL = """\
schema = 1
package = "{package}"

[tree]
source = "src"
lint = ["src"]

[[moved]]
old = "{package}.{old}"
new = "{package}.{new}"
since = "1"
removed-in = "3"
"""


@pytest.mark.proves("compat-render", "compat-remove")
@pytest.mark.parametrize(
    ("package", "old", "new", "there", "written"),
    [
        # A package that is one file.
        ("shop", "put", "place", "shop.py", ["shop.py"]),
        # Folders that others have a part in: a file in them would hide the others'.
        ("acme.shop", "orders.put", "api.place", "acme/shop/api.py", ["acme/shop/orders.py", "acme/shop/orders.pyi"]),
        # Packages that are gone with all that was in them.
        (
            "shop",
            "gone.inner.put",
            "api.place",
            "shop/api.py",
            [f"shop/gone/{name}" for name in ("__init__.py", "__init__.pyi", "inner.py", "inner.pyi")],
        ),
    ],
    ids=["one-file", "shared-folders", "gone-packages"],
)
def test_packages_of_every_shape_are_rendered_answer_and_are_as_before_without_the_layer(
    tmp_path: Path, package: str, old: str, new: str, there: str, written: list[str]
) -> None:
    source = tmp_path / "src" / there
    source.parent.mkdir(parents=True)
    text = '"""A module."""\n\n\ndef place() -> int:\n    return 1\n'
    source.write_text(text)
    if there == "shop/api.py":
        source.with_name("__init__.py").write_text("")
    (tmp_path / "moved-names.toml").write_text(SMALL.format(package=package, old=old, new=new))

    def files() -> set[str]:
        below = (tmp_path / "src").rglob("*.py*")
        return {path.relative_to(tmp_path / "src").as_posix() for path in below if path.suffix in {".py", ".pyi"}}

    before = files()
    rendered = command(tmp_path, "render")
    assert sorted(rendered.stdout.split()[1::2]) == sorted(f"src/{name}" for name in written), rendered.stderr
    assert command(tmp_path, "render").stdout == ""
    module, _, name = f"{package}.{old}".rpartition(".")
    assert python(tmp_path, "-Wignore", "-c", f"from {module} import {name}; print({name}())").stdout == "1\n"
    linted = command(tmp_path, "lint", "--resolve")
    assert (linted.returncode, linted.stdout) == (0, "")
    assert command(tmp_path, "check", "src", "src").returncode == 0
    assert command(tmp_path, "remove", "--up-to", "3").returncode == 0
    assert (files(), source.read_text()) == (before, text)

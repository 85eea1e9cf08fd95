"""What a scan finds, how far each finding reaches, and how it is told."""

import json
from pathlib import Path

import pytest

from perdure_compat.findings import Finding
from perdure_compat.index import Index
from perdure_compat.manifest import parse_manifest
from perdure_compat.scan import NotFound, files_of, in_words, scan
from tests.compat.shop import MANIFEST, PLUGIN, command, make_shop

INDEX = Index([parse_manifest(MANIFEST, Path("moved-names.toml"))])


def found(tmp_path: Path, text: str, name: str = "plugin.py") -> list[Finding]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    report = scan([path], INDEX)
    assert report.unreadable == ()
    return list(report.findings)


@pytest.mark.proves("compat-scan-forms")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from shop.orders import Order", ["from shop.orders.Order"]),
        ("from shop.orders import Order as O, place_order", ["from shop.orders.Order", "from shop.orders.place_order"]),
        ("import shop.live\nshop.live.LIMIT", ["attribute shop.live.LIMIT"]),
        ("import shop.live as l\nl.LIMIT + l.here()", ["attribute shop.live.LIMIT"]),
        ("from shop import live\nlive.LIMIT", ["attribute shop.live.LIMIT"]),
        ("import shop\nx = shop.live.LIMIT", ["attribute shop.live.LIMIT"]),
        ("import shop.rest.orders", ["import shop.rest.orders"]),
        ("import shop.rest as r\nr.orders.place()", ["import shop.rest"]),
        ("from shop import rest", ["from shop.rest"]),
        ("from shop.rest.orders import place", ["from shop.rest.orders.place"]),
        ("from shop.rest import *", ["star shop.rest"]),
        ("from shop.live import *\nLIMIT", ["star shop.live.LIMIT"]),
        ("from shop.live import *", []),
        ("import shop.live\ngetattr(shop.live, 'LIMIT')", ["getattr shop.live.LIMIT"]),
        ("import shop.live\nmonkeypatch.setattr(shop.live, 'LIMIT', 1)", ["getattr shop.live.LIMIT"]),
        ("import shop.live\nmock.patch.object(shop.live, 'LIMIT')", ["getattr shop.live.LIMIT"]),
        ("patch('shop.live.LIMIT')", ["text shop.live.LIMIT"]),
        ("monkeypatch.setattr('shop.live.LIMIT', 1)", ["text shop.live.LIMIT"]),
        ("import_module('shop.rest.orders')", ["text shop.rest.orders"]),
        ("print('shop.live.LIMIT')", ["mention shop.live.LIMIT"]),
        ("import shop.live\ndef f(x: 'shop.live.LIMIT'): ...", ["attribute shop.live.LIMIT"]),
        ("import shop.live\nx = 1  # type: shop.live.LIMIT", ["attribute shop.live.LIMIT"]),
        ("def f(shop):\n    return shop.live.LIMIT", []),
        ("shop = 1\nshop.live.LIMIT", []),
        ("import shopping.live\nshopping.live.LIMIT", []),
        ("from shop.live import here", []),
        (
            "class A:\n    import shop.live as l\n    x = l.LIMIT\n    def f(self): return l.LIMIT",
            ["attribute shop.live.LIMIT"],
        ),
        ("[l.LIMIT for l in []]\nimport shop.live as l", []),
        ("def f():\n    global l\n    import shop.live as l\nl.LIMIT", ["attribute shop.live.LIMIT"]),
    ],
)
def test_every_form_of_a_use_is_found_and_nothing_else(tmp_path: Path, text: str, wanted: list[str]) -> None:
    assert [f"{finding.form} {finding.written}" for finding in found(tmp_path, text)] == wanted


@pytest.mark.proves("compat-scan-forms")
def test_a_relative_import_is_read_by_the_packages_around_it(tmp_path: Path) -> None:
    for folder in ("shop", "shop/inner"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    texts = [
        f.written
        for f in found(
            tmp_path, "from ..orders import Order\nfrom .. import rest\nfrom . import x\n", "shop/inner/a.py"
        )
    ]
    assert texts == ["shop.orders.Order", "shop.rest"]


@pytest.mark.proves("compat-scan-reach")
@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("from shop.live import LIMIT", "breaks"),
        ("class A:\n    from shop.live import LIMIT", "breaks"),
        ("if True:\n    from shop.live import LIMIT", "breaks"),
        ("def f():\n    from shop.live import LIMIT", "when-run"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.live import LIMIT", "when-run"),
        ("try:\n    from shop.live import LIMIT\nexcept ImportError:\n    LIMIT = 1", "info"),
        ("try:\n    from shop.api.orders import LIMIT\nexcept ImportError:\n    from shop.live import LIMIT", "info"),
        ("try:\n    from shop.live import LIMIT\nexcept ValueError:\n    LIMIT = 1", "breaks"),
        ("import contextlib\nwith contextlib.suppress(ImportError):\n    from shop.live import LIMIT", "info"),
        ("if NEW:\n    from shop.api.orders import LIMIT\nelse:\n    from shop.live import LIMIT", "info"),
    ],
)
def test_a_finding_tells_how_far_it_reaches(tmp_path: Path, text: str, reach: str) -> None:
    """Case 39."""
    assert [finding.reach for finding in found(tmp_path, text)] == [reach]


@pytest.mark.proves("compat-scan-reach")
def test_the_report_says_what_breaks_when(tmp_path: Path) -> None:
    """Case 39."""
    (tmp_path / "a.py").write_text(
        "from shop.live import LIMIT, sku\ntry:\n    import shop.rest\nexcept ImportError:\n    pass\n"
    )
    report = scan([tmp_path / "a.py"], INDEX)
    words = [line.removeprefix(f"{tmp_path}/a.py:") for line in in_words(report).splitlines()]
    now = "is now shop.api.orders.LIMIT, since 0.3"
    gone = "has no new place, since 0.3 (every order has a number)"
    assert words == [
        f"1:23: breaks: shop.live.LIMIT {now}; breaks at 0.5, when the module is imported",
        f"1:30: breaks: shop.live.sku {gone}; fails since 0.3",
        "3:12: info: shop.rest is now shop.api, since 0.3; nothing breaks: something else is tried, or it is a text",
        "1 files: 2 uses break on import, 0 when they run, 1 are guarded or mentions; 0 files cannot be read",
    ]
    assert "LIMIT is now shop.api.orders.LIMIT, since 0.3; gone since 0.5" in in_words(report, "0.5.1")


@pytest.mark.proves("compat-scan-every-file")
def test_a_file_that_cannot_be_read_is_listed_and_not_passed_over(tmp_path: Path) -> None:
    """Case 39."""
    (tmp_path / "bad.py").write_text("import shop\ndef LIMIT(:\n")
    (tmp_path / "latin.py").write_bytes(b"# shop LIMIT \xe9\n")
    report = scan([tmp_path / "bad.py", tmp_path / "latin.py"], INDEX)
    assert [(bad.path.name, bad.line) for bad in report.unreadable] == [("bad.py", 2), ("latin.py", 0)]
    assert report.remaining


@pytest.mark.proves("compat-scan-every-file")
def test_a_path_a_distribution_and_an_entry_point_lead_to_their_files_without_an_import(tmp_path: Path) -> None:
    """Case 39."""
    package = tmp_path / "plug"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "part.py").write_text("")
    info = tmp_path / "shop_plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-plug\nVersion: 1.0\n")
    (info / "RECORD").write_text("plug/__init__.py,,\nplug/part.py,,\nplug/data.txt,,\n")
    files = [package / "__init__.py", package / "part.py"]
    search = [str(tmp_path)]
    assert files_of(str(package)) == files
    assert files_of("shop-plug", search=search) == files
    assert files_of("plug:plugin", search=search) == files
    assert files_of("plug.part:plugin", search=search) == files
    with pytest.raises(NotFound):
        files_of("C:\\nowhere\\plug", search=search)
    with pytest.raises(NotFound):
        files_of("nothing", search=search)


@pytest.mark.proves("compat-scan-every-file")
def test_a_path_that_looks_like_an_entry_point_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 39."""
    monkeypatch.chdir(tmp_path)
    Path("os:path").mkdir()
    Path("os:path", "x.py").write_text("")
    assert files_of("os:path") == [Path("os:path", "x.py")]


@pytest.mark.proves("compat-scan-forms")
def test_the_command_prints_words_json_or_sarif_and_exits_3_while_uses_remain(tmp_path: Path) -> None:
    make_shop(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    words = command(tmp_path, "scan", "plugin.py")
    assert words.returncode == 3
    assert "plugin.py:2:5: breaks: shop.orders.Order is now shop.api.orders.Order" in words.stdout
    data = json.loads(command(tmp_path, "scan", "plugin.py", "--json").stdout)
    assert [(each["line"], each["old"], each["reach"]) for each in data["findings"]] == [
        (2, "shop.orders.Order", "breaks"),
        (3, "shop.orders.place_order", "breaks"),
        (9, "shop.rest.orders.LIMIT", "when-run"),
        (11, "shop.live.LIMIT", "when-run"),
    ]
    sarif = json.loads(command(tmp_path, "scan", "plugin.py", "--sarif").stdout)
    (run,) = sarif["runs"]
    assert (sarif["version"], [result["level"] for result in run["results"]]) == (
        "2.1.0",
        ["error", "error", "warning", "warning"],
    )
    (tmp_path / "clean.py").write_text("import shop.live\n")
    assert command(tmp_path, "scan", "clean.py").returncode == 0
    missing = command(tmp_path, "scan", "none.py")
    assert (missing.returncode, missing.stderr) == (
        2,
        "perdure-compat: none.py is no path, no installed distribution and no module here\n",
    )

"""What type checkers and editors see at old places, besides mypy: those that others use most.

They are fetched: pyright by npm, where that is at hand; ty as a wheel.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compat.conftest import Tool
from tests.compat.shop import command, make_shop

PLUGIN = """\
from typing_extensions import reveal_type
from shop.api.orders import Order as New
from shop.orders import Order, place_order
import shop.live
import shop.rest.orders

def take(order: Order) -> None: ...

take(New())
reveal_type(place_order(Order()))
reveal_type(shop.live.LIMIT.bit_length())
reveal_type(shop.live.old_price())
reveal_type(shop.rest.orders.place(New()))
place_order(1)
"""
STRUCK, WRONG = [10, 14], [14]
"""The lines that use the old function, and the one that uses it wrongly: by the function's own types."""
REVEALED = {10: "bool", 11: "int", 12: "int", 13: "bool"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return the project as rendered, with a plugin of it."""
    shop = make_shop(tmp_path / "shop")
    assert command(shop, "render").returncode == 0
    (shop / "plugin.py").write_text(PLUGIN)
    return shop


@pytest.mark.slow
@pytest.mark.proves("compat-types")
def test_pyright_strikes_old_functions_through_and_sees_the_right_types(
    shop: Path, tmp_path: Path, network_environment: Mapping[str, str]
) -> None:
    """Case 37."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no npm, which brings pyright")
    fetched = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path / "pyright"), "pyright"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **network_environment},
    )
    if fetched.returncode != 0:
        pytest.skip(f"npm brings no pyright: {fetched.stderr.strip()[-200:]}")
    (shop / "pyrightconfig.json").write_text('{"extraPaths": ["src"], "reportDeprecated": "warning"}')
    done = subprocess.run(
        [node, str(tmp_path / "pyright/node_modules/pyright/index.js"), "--outputjson", "plugin.py"],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [
        (each["severity"], each["range"]["start"]["line"] + 1, each.get("rule", ""), each["message"])
        for each in json.loads(done.stdout)["generalDiagnostics"]
    ]
    assert [line for _, line, rule, _ in told if rule == "reportDeprecated"] == [3, *STRUCK]
    assert all(
        "shop.orders.place_order is now shop.api.orders.place" in text for *_, rule, text in told if "Dep" in rule
    )
    assert [line for severity, line, *_ in told if severity == "error"] == WRONG
    revealed = {
        line: text.rpartition(" is ")[2].strip('"') for severity, line, _, text in told if severity == "information"
    }
    assert revealed == REVEALED


@pytest.mark.slow
@pytest.mark.proves("compat-types")
def test_ty_strikes_old_functions_through_and_sees_the_right_types(shop: Path, tmp_path: Path, tool: Tool) -> None:
    """Case 37."""
    tool("pip", "install", "--target", str(tmp_path / "ty"), "ty", "typing_extensions")
    done = subprocess.run(
        [
            *(tmp_path / "ty" / "bin" / "ty", "check", "--output-format", "concise"),
            *("--extra-search-path", "src", "--extra-search-path", str(tmp_path / "ty"), "plugin.py"),
        ],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.findall(r"^plugin\.py:(\d+):\d+: (\w+)\[([\w-]+)\] (.*)$", done.stdout, re.MULTILINE)
    assert sorted({int(line) for line, _, rule, _ in told if rule == "deprecated"} - {3}) == STRUCK, done.stdout
    assert [int(line) for line, severity, *_ in told if severity == "error"] == WRONG
    revealed = {int(line): text.rpartition(": ")[2].strip("`") for line, _, rule, text in told if "reveal" in rule}
    assert revealed == REVEALED

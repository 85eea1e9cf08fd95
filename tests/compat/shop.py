"""A small project that moved some of its names: what the tests of the tools work on.

Owns: the project's files and how the command is run on it. Does not own: what is asserted of either.
"""

import os
import subprocess
import sys
from pathlib import Path

import perdure_compat

MANIFEST = """\
schema = 1
package = "shop"

[tree]
source = "src"
docs = "docs/moved.md"
ruff = "ruff-moved.toml"
data = "src/shop/moved-names.toml"
lint = ["src", "tests", "docs"]

[[except]]
path = "tests/old_plugin.py"
why = "a plugin of the past, kept as it was"

# Where orders are placed.
[[moved]]
old = "shop.orders.place_order"
new = "shop.api.orders.place"
since = "0.3"
removed-in = "0.6"
kind = "renamed"
note = "notes is new"

[[moved]]
old = "shop.orders.Order"
new = "shop.api.orders.Order"
since = "0.3"
removed-in = "0.6"

# A number.
[[moved]]
old = "shop.live.LIMIT"
new = "shop.api.orders.LIMIT"
since = "0.3"
removed-in = "0.5"

[[moved]]
old = "shop.live.old_price"
since = "0.3"
removed-in = "0.5"
kind = "restored"

[[moved]]
old = "shop.live.sku"
since = "0.3"
removed-in = "0.5"
kind = "removed"
note = "every order has a number"

[[moved]]
old = "shop.rest"
new = "shop.api"
since = "0.3"
removed-in = "0.6"
kind = "module"
"""

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "0.4"\n',
    "moved-names.toml": MANIFEST,
    "src/shop/__init__.py": "",
    "src/shop/py.typed": "",
    "src/shop/api/__init__.py": "",
    "src/shop/api/orders.py": (
        "from collections.abc import Sequence\n\nLIMIT = 3\n\n\nclass Order:\n    pass\n\n\n"
        "def place(order: Order, notes: Sequence[str] = ()) -> bool:\n    return bool(notes)\n"
    ),
    "src/shop/live.py": '"""Still here."""\n\n\ndef here() -> int:\n    return 1\n',
    "src/shop/_restored.py": "def old_price() -> int:\n    return 7\n",
    "tests/test_live.py": "from shop.api.orders import LIMIT\nfrom shop.live import here\n",
    "tests/old_plugin.py": "from shop.orders import Order\n",
    "docs/orders.md": "# Orders\n\n```python\nfrom shop.api.orders import place\n```\n",
}

PLUGIN = """\
from shop.orders import (
    Order,  # what is bought
    place_order,
)
import shop.live as live


def buy():
    from shop.rest.orders import LIMIT

    return place_order(Order()), live.LIMIT, LIMIT
"""


def make_shop(folder: Path) -> Path:
    """Write the project into a folder, not yet rendered, and return the folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `perdure-compat` in a folder."""
    return python(folder, "-m", "perdure_compat", *arguments)


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a folder that has the project on its path."""
    path = os.pathsep.join([str(folder / "src"), str(Path(perdure_compat.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )

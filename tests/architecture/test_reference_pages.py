"""The reference pages say what the app's code says."""

from __future__ import annotations

import pytest

from docs import generate

AGAIN = "python3 pm/bootstrap.py test --only architecture -- -k reference_pages --regenerate-docs"


@pytest.mark.proves("ground-docs-parity")
@pytest.mark.parametrize("block", generate.app_blocks(), ids=lambda block: block.name)
def test_reference_pages_say_what_the_code_says(block: generate.Block, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--regenerate-docs"):
        generate.write(block)
    assert generate.is_current(block), f"docs/reference/{block.page} is behind the code; run: {AGAIN}"

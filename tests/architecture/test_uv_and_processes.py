"""One module speaks uv's command line; who may start processes at all is an import contract in pyproject.toml."""

from __future__ import annotations

import pytest

from tests.architecture.sources import first_party_modules, relative, strings

UV_OWNER = "pm/perdure_pm/adapters/uv.py"

# Words that nobody writes but to call uv; flags that PM has too (--offline, --python) say nothing.
UV_WORDS = {
    "--compile-bytecode",
    "--exclude-newer",
    "--extra-index-url",
    "--find-links",
    "--frozen",
    "--link-mode",
    "--no-config",
    "--no-emit-project",
    "--no-index",
    "--no-managed-python",
    "--no-python-downloads",
    "--require-hashes",
    "--system-certs",
}


@pytest.mark.proves("ground-one-uv")
def test_only_one_module_builds_a_uv_command_line() -> None:
    found = [
        f"{relative(path)}:{line}: {word}"
        for _, path in first_party_modules()
        if relative(path) != UV_OWNER
        for line, word in strings(path)
        if word.split("=")[0] in UV_WORDS
    ]
    assert found == []

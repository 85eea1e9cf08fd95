"""The facade under tools as plugins use them, in versions that this project does not use itself: each is fetched.

Owns: pytest's earlier generations, whose way to undo a patch differs, and Sphinx. What they do is asserted by the
tests that they run again, or by what Sphinx writes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import perdure_compat
from tests.compat.conftest import HOME, NEW, Tool


@pytest.fixture
def environment(tool: Tool, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the interpreter of an environment with what the test asks for."""
    folder = tmp_path / "environment"
    tool("venv", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    tool("pip", "install", "--python", str(python), *request.param)
    return python


@pytest.mark.slow
@pytest.mark.proves("compat-writes-through")
@pytest.mark.parametrize(
    "environment",
    [[f"pytest=={version}", "pytest-xdist"] for version in ("7.4.4", "8.3.5", "9.0.2")],
    ids=["7.4", "8.3", "9.0"],
    indirect=True,
)
def test_patches_through_a_facade_are_undone_under_this_pytest(environment: Path) -> None:
    """Cases 15, 16, 25, 26 and 27."""
    folder = Path(__file__).parent
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-k", "monkeypatch or mock or shipped_pytest_plugin"),
            *(str(folder / f"test_{name}.py") for name in ("modules", "uses")),
        ],
        cwd=folder.parent.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PERDURE_TEST_COMPAT_PYTHON": str(environment), "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


PAGE = """
x
=

.. autosummary::

   oldhome.register

.. autoclass:: oldhome.Deep
   :no-index:

.. automodule:: oldhome
   :members:
   :imported-members:
   :undoc-members:
"""


@pytest.mark.slow
@pytest.mark.proves("compat-probes-are-silent")
@pytest.mark.parametrize("environment", [["sphinx"]], ids=["sphinx"], indirect=True)
def test_sphinx_documents_a_facade_without_a_warning_of_it(environment: Path, tmp_path: Path) -> None:
    """Case 20: autodoc and autosummary look at every name."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in {
        "oldhome.py": HOME.replace("import facade", "import facade as _facade").replace("= facade(", "= _facade("),
        "newhome.py": NEW,
        "conf.py": 'extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary"]\n',
        "index.rst": PAGE,
    }.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [environment, "-W", "error::FutureWarning", "-m", "sphinx", "--fail-on-warning", "-b", "text", ".", "out"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(Path(perdure_compat.__file__).parent.parent)]),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (folder / "out" / "index.txt").read_text()
    assert "oldhome.register" in page
    assert 'alias of "Inner"' in page

"""Sets of hosts and plugins that nobody here wrote and that do not go together: what the refusal names.

Every version is pinned, or bounded from above, so that each row stays what it is. Nothing is installed: a host that is
only written down is resolved with its plugins, and the refusal comes before a build.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, copy_home, fingerprint


@dataclass(frozen=True, kw_only=True)
class Clashing:
    """One set."""

    host: str
    plugins: tuple[str, ...]
    says: str
    """What the summary ends with."""
    fits: str | None = None
    """A way out that resolves, where one is to be found that stays true."""


SETS: dict[str, Clashing] = {
    "the host is too old": Clashing(
        host="datasette==0.65.1",
        plugins=("datasette-acl==0.4a4",),
        says="datasette-acl 0.4a4 needs datasette>=1.0a16, and the host is datasette 0.65.1",
        fits="leaving out datasette-acl",
    ),
    "one version of the host alone": Clashing(
        host="datasette==0.65.1",
        plugins=("datasette-write-ui==0.0.1a13",),
        says="datasette-write-ui 0.0.1a13 needs datasette==1.0a19, and the host is datasette 0.65.1",
        fits="datasette 1.0a19",
    ),
    "the host is too new": Clashing(
        host="jupyterlab==4.2.5",
        plugins=("jupyterlab-drawio==0.9.0",),
        says="jupyterlab-drawio 0.9.0 needs jupyterlab>=3.0.0rc13,<4.dev0, and the host is jupyterlab 4.2.5",
        fits="leaving out jupyterlab-drawio",
    ),
    "something that the host locked": Clashing(
        host="poetry==2.0.1",
        plugins=("poetry-plugin-export==1.6.0",),
        says="poetry-plugin-export 1.6.0 needs poetry-core>=1.7.0,<2.0.0, and poetry 2.0.1 locked poetry-core 2.0.1",
    ),
    "one plugin against another": Clashing(
        host="jupyterlab==4.2.5",
        plugins=("jupyterlab-git==0.50.2", "nbdime==3.2.1"),
        says="jupyterlab-git 0.50.2 needs nbdime>=4.0.1,<4.1.dev0, the profile needs nbdime==3.2.1: no nbdime is both",
        fits="leaving out nbdime",
    ),
    "one among others that fit": Clashing(
        host="pytest==9.0.1",
        plugins=("pytest-mock==3.14.0", "pytest-asyncio==0.23.8", "pytest-timeout==2.3.1", "pytest-xdist==3.6.1"),
        says="pytest-asyncio 0.23.8 needs pytest>=7.0.0,<9, and the host is pytest 9.0.1",
        fits="leaving out pytest-asyncio",
    ),
    "a plugin of the host before": Clashing(
        host="tox==4.23.2",
        plugins=("tox-conda==0.10.2",),
        says="tox-conda 0.10.2 needs tox>=3.8.1,<4, and the host is tox 4.23.2",
        fits="leaving out tox-conda",
    ),
    "a theme of the host before": Clashing(
        host="sphinx==8.1.3",
        plugins=("furo==2023.9.10",),
        says="furo 2023.9.10 needs sphinx>=6.0,<8.0, and the host is sphinx 8.1.3",
        fits="leaving out furo",
    ),
    "a whole bundle of the host before": Clashing(
        host="sphinx==8.1.3",
        plugins=("jupyter-book==0.15.1",),
        says="jupyter-book 0.15.1 needs sphinx>=4,<6, and the host is sphinx 8.1.3",
        fits="leaving out jupyter-book",
    ),
    "a plugin of the host after": Clashing(
        host="mkdocs==1.4.3",
        plugins=("mkdocs-material==9.5.49",),
        says="mkdocs-material 9.5.49 needs mkdocs>=1.6,<2.dev0, and the host is mkdocs 1.4.3",
        fits="mkdocs-material 9.1.20",
    ),
    "a checker of the host before": Clashing(
        host="pylint==3.3.3",
        plugins=("pylint-django==2.5.3",),
        says="pylint-django 2.5.3 needs pylint>=2.0,<3, and the host is pylint 3.3.3",
        fits="leaving out pylint-django",
    ),
    "a model that needs a newer host": Clashing(
        host="llm==0.19",
        plugins=("llm-gemini==0.20",),
        says="llm-gemini 0.20 needs llm>=0.23, and the host is llm 0.19",
        fits="llm-gemini 0.10, far older than 0.20: it may only seem to fit",
    ),
    "in disguise: metadata that said less": Clashing(
        host="flake8==7.1.1",
        plugins=("flake8-nb<=0.5.3",),
        says="flake8-nb 0.1.3 of 2019-11-13 although there is 0.5.3 of 2023-03-28: flake8-nb 0.5.3 needs "
        "flake8>=3.8.0,<5.0.5, and the host is flake8 7.1.1",
    ),
    "in disguise: the host would not start": Clashing(
        host="flake8==7.1.1",
        plugins=("flakeheaven<=3.3.0",),
        says="flakeheaven 0.11.0 of 2022-01-06 although there is 3.3.0 of 2023-04-10: flakeheaven 3.3.0 needs "
        "flake8>=4.0.1,<5.0.0, and the host is flake8 7.1.1",
    ),
}
QUICK = {"the host is too old", "something that the host locked", "in disguise: metadata that said less"}
"""What is tried in every run."""


@pytest.fixture
def own_empty(empty: Installation, tmp_path: Path) -> Iterator[Installation]:
    """A home that has PM and hosts nothing, to be changed at will."""
    home = copy_home(empty.home, tmp_path / "home")
    yield replace(empty, home=home)
    LocalFilesystem().remove_tree(home)


@pytest.mark.proves("conflicts-real")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETS])
def test_a_set_that_does_not_go_together_is_refused_and_says_why(own_empty: Installation, name: str) -> None:
    clashing = SETS[name]
    own_empty.pm("host", "init", clashing.host).succeeded()
    before = (own_empty.home / "config.yaml").read_bytes()
    answer = own_empty.pm("plugin", "add", *clashing.plugins, "--json")
    assert answer.code == 4, answer.out + answer.err
    (error,) = json.loads(answer.out)["errors"]
    assert (error["code"], error["state"]) == ("conflict", "unchanged")
    assert error["summary"].endswith(f": {clashing.says}")
    if clashing.fits is not None:
        assert clashing.fits in [way["what"] for way in error["context"]["clashes"][0]["ways_out"] if way["fits"]]
    assert (own_empty.home / "config.yaml").read_bytes() == before
    assert not any((own_empty.home / "store" / "generations").glob("*"))
    assert not (own_empty.home / "profiles" / "default" / "current").exists()
    assert fingerprint(own_empty.home / "bin")

"""Whether a plugin fits here, and the words that say why not."""

from __future__ import annotations

import pytest

from perdure_pm.model.fit import Surroundings, find_misfits
from perdure_pm.model.manifest import Manifest

HERE = Surroundings(
    host="perdure",
    host_version="0.3.1",
    python="3.12.4",
    plugins={"terminal": "1.2", "files": None},
    api=frozenset({1, 3}),
    platform={"sys_platform": "linux"},
)


@pytest.mark.parametrize(
    ("manifest", "reasons"),
    [
        (Manifest(), []),
        (Manifest(platforms=("sys_platform == 'win32'", "sys_platform == 'linux'")), []),
        (Manifest(platforms=("sys_platform == 'win32'",)), ["it is for sys_platform == 'win32' only"]),
        (Manifest(platforms=("python_version < '3.12'",)), ["it is for python_version < '3.12' only"]),
        (Manifest(requires_host=">=0.3"), []),
        (Manifest(requires_host=">=1"), ["it needs perdure >=1; this is 0.3.1"]),
        (Manifest(requires_python=">=3.13"), ["it needs Python >=3.13; this is 3.12.4"]),
        (Manifest(api=1), []),
        (Manifest(api=3), []),
        (Manifest(api=2), ["it is written for generation 2 of the plugin API; perdure 0.3.1 offers 1, 3"]),
        (Manifest(requires_plugins=("Terminal>=1", "files>=9", "x; sys_platform == 'win32'")), []),
        (Manifest(requires_plugins=("terminal>=2",)), ["it needs the plugin terminal>=2; the profile has 1.2"]),
        (Manifest(requires_plugins=("web",)), ["it needs the plugin web, which is not among the profile's"]),
    ],
)
def test_reasons(manifest: Manifest, reasons: list[str]) -> None:
    assert [misfit.reason for misfit in find_misfits(manifest, HERE)] == reasons


def test_a_pre_release_of_the_host_counts() -> None:
    here = Surroundings(host="h", host_version="1.0a3", python="3.12.4", plugins={})
    assert find_misfits(Manifest(requires_host=">=0.9"), here) == ()
    assert find_misfits(Manifest(requires_host=">=1"), here) != ()


def test_a_host_that_says_nothing_of_its_api_takes_every_number() -> None:
    here = Surroundings(host="h", host_version="1.0", python="3.12.4", plugins={})
    assert find_misfits(Manifest(api=7), here) == ()

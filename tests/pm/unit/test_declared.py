"""What a distribution declares, and which of it is for which host."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.ops.declared import Entry, find_modules, parse_entry_points, read_commands, read_entries


def entry(group: str) -> Entry:
    return Entry(name="x", distribution="y", version="1", group=group, value="y:z")


@pytest.mark.parametrize(
    ("group", "host", "word"),
    [
        ("tox", "keyring", "tox"),
        ("keyring.backends", "keyring", None),
        ("pytest11", "pytest", None),
        ("pytest11", "datasette", "pytest"),
        ("flake8.extension", "flake8", None),
        ("mkdocs.plugins", "mkdocs", None),
        ("apache_airflow_provider", "airflow", None),
        ("sqlite_utils", "sqlite-utils", None),
        ("2to3.fixers", "flake8", None),
    ],
)
def test_a_group_is_of_the_host_that_it_is_called_after(group: str, host: str, word: str | None) -> None:
    assert entry(group).other_host(host, ()) == word
    assert entry(group).other_host(host, (group,)) is None


def installed(folder: Path, name: str, files: list[str], entries: str = "") -> None:
    """Have a distribution in the environment at `folder`, of which nothing but its metadata is there."""
    info = folder / "lib" / "python3.11" / "site-packages" / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    if entries:
        (info / "entry_points.txt").write_text(entries, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        (["one.py"], ["one"]),
        (["pack/__init__.py", "pack/deep/__init__.py", "pack/deep/x.py", "pack/loose/y.py"], ["pack"]),
        (["space/first.py", "space/second/__init__.py", "space/second/z.py"], ["space.first", "space.second"]),
        (["pack/__init__.py", "tests/__init__.py", "docs/conf.py", "../../../bin/tool.py", "a-b.py"], ["pack"]),
        (["theme/index.html"], []),
    ],
)
def test_the_modules_of_a_distribution_are_what_can_be_imported_of_it(
    tmp_path: Path, files: list[str], modules: list[str]
) -> None:
    installed(tmp_path, "thing", files)
    assert find_modules(tmp_path, "thing") == modules
    assert find_modules(tmp_path, "absent") == []


def test_commands_are_no_plugins_and_extras_are_no_part_of_an_entry(tmp_path: Path) -> None:
    text = "[console_scripts]\nRun-It = a:run [old]\n[gui_scripts]\nshow = a:show\n[host.parts]\nPart = a:part [x]\n"
    installed(tmp_path, "thing", [], text)
    assert parse_entry_points(text)["host.parts"] == {"Part": "a:part"}
    assert read_commands(tmp_path, "thing") == {"Run-It": "a:run", "show": "a:show"}
    (found,) = read_entries(tmp_path, ["thing", "absent"], own=False, groups=())
    assert (found.name, found.group, found.value) == ("Part", "host.parts", "a:part")
    assert read_entries(tmp_path, ["thing"], own=False, groups=("other",)) == []
    assert read_entries(tmp_path, ["thing"], own=True, groups=()) == []

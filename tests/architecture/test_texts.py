"""What no file may say, and what every file must: hosts, machine paths, YAML, variables, versions, lengths."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.architecture.sources import (
    PACKAGES,
    ROOT,
    files,
    first_party_modules,
    imports,
    registry_hosts,
    relative,
    strings,
    tree,
)

LOCKS = {"uv.lock", "pm/uv.lock"}
MACHINE = re.compile(
    r"/(?:root|work|farm)/[\w.]|/home/(?!you\b)\w+/|/Users/(?!you\b)\w+/|[A-Z]:\\\\?Users\\\\?(?!you\b)\w+"
)
VARIABLE = re.compile(r"\bPERDURE_[A-Z][A-Z_]*\b")
LONGEST = 500


@pytest.mark.proves("ground-no-machine")
def test_only_the_locks_name_a_registrys_host() -> None:
    hosts = registry_hosts()
    assert hosts
    assert [
        f"{relative(path)}: {host}"
        for path in files()
        if relative(path) not in LOCKS
        for host in hosts
        if host in path.read_text(encoding="utf-8")
    ] == []


@pytest.mark.proves("ground-no-machine")
def test_no_file_names_a_path_of_one_machine() -> None:
    assert [
        f"{relative(path)}: {found.group()}"
        for path in files()
        for found in MACHINE.finditer(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.proves("ground-yaml")
def test_no_module_imports_yaml() -> None:
    assert [
        relative(path)
        for module, path in first_party_modules()
        for imported, _ in imports(path, module=module)
        if imported.split(".")[0] == "yaml"
    ] == []


@pytest.mark.proves("ground-settings")
def test_every_variable_in_the_code_is_in_the_table_of_settings() -> None:
    table = {value for _, value in strings(ROOT / "pm" / "perdure_pm" / "model" / "settings.py")}
    known = {name for value in table for name in VARIABLE.findall(value)}
    assert "PERDURE_HOME" in known
    code = [path for folder in PACKAGES.values() for path in folder.rglob("*") if path in set(files())]
    used = {
        (relative(path), name)
        for path in [*code, ROOT / "pm" / "bootstrap.py"]
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
        if not name.startswith("PERDURE_TEST_")
    }
    assert sorted((path, name) for path, name in used if name not in known) == []


@pytest.mark.proves("ground-versions")
@pytest.mark.parametrize(
    ("project", "package"),
    [
        (".", "perdure"),
        ("pm", "perdure_pm"),
        ("compat", "perdure_compat"),
        ("plugins/facts", "perdure_facts"),
    ],
)
def test_project_and_package_say_the_same_version(project: str, package: str) -> None:
    declared = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (PACKAGES[package] / "__init__.py").read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE) == [declared]


@pytest.mark.proves("ground-versions")
def test_the_changelog_has_a_section_for_the_version() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_module_above_500_lines_gives_its_reason() -> None:
    long = [
        relative(path)
        for _, path in first_party_modules()
        if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST
        and f"{LONGEST} lines" not in (ast.get_docstring(tree(path)) or "")
    ]
    assert long == []

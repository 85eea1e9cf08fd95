"""The public surface, the hooks and the table of errors: what others build on, and documentation is made from."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pluggy
import pytest

import perdure
import perdure.api
import perdure.builtin
import perdure_facts
from perdure import hookspecs
from perdure.domain.errors import EXIT_CODES, InternalFault, PerdureError, error_classes


@pytest.mark.proves("app-plugins-use-only-the-api")
def test_the_api_is_these_names() -> None:
    found = {
        each.name: importlib.import_module(f"perdure.api.{each.name}").__all__
        for each in pkgutil.iter_modules(perdure.api.__path__)
    }
    assert found == {
        "approvals": ["Assessment", "AssessmentRequest", "Opinion", "Risk"],
        "backends": ["Backend", "FarCommand", "Launch"],
        "findings": ["Finding"],
        "hooks": ["Host", "hookimpl"],
        "tools": ["JsonValue", "Tool", "ToolCall", "ToolFailed", "ToolResult"],
        "workspace": ["Change", "CodeResult", "Edit", "FileText", "ListedFile", "Patch", "Workspace"],
    }
    modules = [importlib.import_module(f"perdure.api.{name}") for name in found]
    assert all(hasattr(module, name) for module in modules for name in module.__all__)


def test_the_distribution_says_which_generations_of_the_api_it_offers(checkout: Path) -> None:
    """PM reads that from the wheel: it imports nothing of the app."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["perdure.plugin_api"] == {"1": "perdure.api"}


@pytest.mark.proves("app-plugins-use-only-the-api")
def test_plugins_import_nothing_of_the_app_but_the_api() -> None:
    for package in (perdure.builtin, perdure_facts):
        folder = Path(inspect.getfile(package)).parent
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    if name.partition(".")[0] == "perdure":
                        assert name.rpartition(".")[0] == "perdure.api", f"{path} imports {name}"


@pytest.mark.proves("app-plugins-use-only-the-api")
def test_every_hook_is_typed_and_documented_with_its_arguments() -> None:
    manager = pluggy.PluginManager("perdure")
    manager.add_hookspecs(hookspecs)
    hooks = {name: getattr(hookspecs, name) for name in vars(manager.hook) if not name.startswith("_")}
    assert sorted(hooks) == ["assess", "backends", "configure", "findings", "tools"]
    for hook in hooks.values():
        signature = inspect.signature(hook)
        assert signature.return_annotation is not inspect.Signature.empty
        documentation = inspect.getdoc(hook) or ""
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty
            assert re.search(rf"^    {parameter.name}: ", documentation, re.MULTILINE)


@pytest.mark.proves("app-exit-codes")
def test_every_error_has_a_code_of_its_own_and_an_exit_code_of_the_table() -> None:
    classes: list[type[PerdureError]] = [PerdureError]
    for kind in classes:
        classes.extend(kind.__subclasses__())
    listed = error_classes()
    assert list(listed) == sorted(listed)
    assert listed["internal"] is InternalFault
    # The base class and what the catch-all makes share the code "internal"; no others share one.
    assert len(classes) == len(listed) + 1
    for code, kind in listed.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert kind.exit_code in EXIT_CODES
        assert kind.exit_code != 0
        assert kind.default_retry in {"never", "later", "after-change"}
        assert kind.meaning.endswith(".")
        assert kind is InternalFault or kind.meaning != PerdureError.meaning

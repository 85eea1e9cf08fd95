"""A source tree, as far as a manifest speaks of it.

Owns: finding the file of a module, what a module defines, and which modules lie below one, without importing anything.
Does not own: what is made from it (render) and what is wrong with it (lint).
"""

from __future__ import annotations

import ast
import tomllib
from importlib.machinery import PathFinder
from pathlib import Path

from perdure_compat.manifest import Manifest
from perdure_compat.source import Source, newline_of, text_of

BEGIN = "# perdure-compat: begin (written by `perdure-compat render` from the manifest; edits are lost)"
END = "# perdure-compat: end"
STUB = "A module that moved. This file only points to where; `perdure-compat render` wrote it from the manifest."


class Tree:
    """The files of one package."""

    def __init__(self, root: Path) -> None:
        """Look below `root`, which holds the package's folder."""
        self.root = root
        self._sources: dict[str, Source | None] = {}

    def file_of(self, module: str) -> Path | None:
        """Return the file of a module of this tree, or None."""
        place = self.root.joinpath(*module.split("."))
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
        return None

    def future_file_of(self, module: str, *, package: bool) -> Path:
        """Return the file that a module has, or would have as a package or as a module."""
        path = self.file_of(module)
        if path is not None and not (package and path.name != "__init__.py" and is_stub(text_of(path) or "")):
            return path
        place = self.root.joinpath(*module.split("."))
        return place / "__init__.py" if package else place.with_suffix(".py")

    def is_gone(self, module: str) -> bool:
        """Return whether nothing of a module is left but, maybe, the pointer that was written for it."""
        path = self.file_of(module)
        return is_stub(text_of(path) or "") if path is not None else not self.root.joinpath(*module.split(".")).is_dir()

    def source_of(self, module: str) -> Source | None:
        """Return a module's text and tree, in this tree or where the interpreter would find it; or None."""
        if module not in self._sources:
            path = self.file_of(module) or _installed(module)
            try:
                self._sources[module] = Source.load(path) if path is not None and path.suffix == ".py" else None
            except (SyntaxError, OSError):
                self._sources[module] = None
        return self._sources[module]

    def below(self, module: str) -> list[str]:
        """Return the public modules below a package of this tree, itself not among them."""
        path = self.file_of(module)
        if path is None or path.name != "__init__.py":
            return []
        folder = path.parent
        found = []
        for each in sorted(folder.rglob("*.py")):
            parts = each.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and not any(part.startswith("_") for part in parts) and "__pycache__" not in parts:
                found.append(".".join([module, *parts]))
        return found

    def definition(self, module: str, name: str) -> ast.stmt | None:
        """Return the statement at a module's top that defines a name, or None."""
        source = self.source_of(module)
        return None if source is None else _definition(source.tree.body, name)


def is_stub(text: str) -> bool:
    """Return whether a file is nothing but a pointer that was written here."""
    return STUB in text.partition("\n")[0]


def without_region(text: str) -> str:
    """Return a module's text without what was written into it."""
    begin = text.find(BEGIN)
    end = text.find(END)
    if begin < 0 or end < begin:
        return text
    return text[:begin].rstrip() + newline_of(text) + text[end + len(END) :].lstrip("\r\n")


def version_of(manifest: Manifest) -> str | None:
    """Return the version that the tree of a manifest has: what the nearest pyproject.toml above its source says."""
    source = manifest.place("source")
    folder = (source or manifest.path.parent).resolve()
    for place in (folder, *folder.parents):
        try:
            version = (
                tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8")).get("project", {}).get("version")
            )
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(version, str):
            return version
    return None


def _installed(module: str) -> Path | None:
    """Return the file of a module that this interpreter has, found without importing what is above it."""
    search: list[str] | None = None
    spec = None
    for at, _ in enumerate(parts := module.split(".")):
        spec = PathFinder.find_spec(".".join(parts[: at + 1]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def _definition(body: list[ast.stmt], name: str) -> ast.stmt | None:  # noqa: C901  # one case per kind of statement
    for statement in reversed(body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if statement.name == name:
                return statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(each, ast.Name) and each.id == name for target in targets for each in ast.walk(target)):
                return statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            if any((alias.asname or alias.name.partition(".")[0]) == name for alias in statement.names):
                return statement
        elif type(statement).__name__ == "TypeAlias" and statement.name.id == name:  # type: ignore[attr-defined]
            return statement
        else:
            for block in ("body", "orelse", "finalbody"):
                found = _definition(getattr(statement, block, []), name)
                if found is not None:
                    return found
            for handler in getattr(statement, "handlers", []):
                found = _definition(handler.body, name)
                if found is not None:
                    return found
    return None

"""What type checkers and editors see at an old place.

Owns: the `.pyi` of a module that is gone, and the block for type checkers in one that is not. Does not own: what
happens at run time. A function's old name is struck through (PEP 702). A class is re-exported as it is: a deprecated
subclass could not be given where the old class is asked for, so there is one only where the manifest says that the
class is only ever constructed. Constants and modules cannot be marked.

Keeps: compat-types.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from perdure_compat.manifest import Entry
from perdure_compat.tree import STUB, Tree


def stub_for(entries: Sequence[Entry], tree: Tree) -> str:
    """Return the type stub of a module that is gone."""
    imports: list[str] = []
    bodies: list[str] = []
    for entry in sorted(entries, key=lambda each: each.old_name):
        if entry.whole:
            imports.append(f"from {entry.new_module} import *" if entry.new_module else "")
            continue
        target = _target(entry)
        if target is None:
            continue
        home, name = target
        definition = tree.definition(home, name)
        written = _deprecated(entry, definition, home, tree, imports)
        if written is not None:
            bodies.append(written)
        else:
            imports.append(_plain(home, name, entry.old_name))
    if any("@deprecated" in body for body in bodies):
        imports.append("from typing_extensions import deprecated")
    # What a signature needs may be a name that is offered as well; only the form with `as` offers it to others.
    wanted = {line for line in imports if line and f"{line} as {line.rpartition(' ')[2]}" not in imports}
    return "\n".join([f"# {STUB}", *sorted(wanted), *(f"\n{body}" for body in bodies), ""])


def type_only_imports(entries: Sequence[Entry], pragma: str) -> list[str]:
    """Return the block of a live module's facade that only type checkers read: each name as it is at its new place.

    Nothing is struck through here: the signature of a function would be a second definition in the live module.
    """
    found = [(*target, entry.old_name) for entry in entries if not entry.whole and (target := _target(entry))]
    lines = [f"    {_plain(*each)}{pragma}" for each in sorted(found, key=_import_order)]
    return ["", "TYPE_CHECKING = False", "if TYPE_CHECKING:", *lines] if lines else []


def _import_order(target: tuple[str, str, str]) -> tuple[str, int, str]:
    """Return what imports are sorted by, as import sorters do: module, then constants, classes and the rest."""
    home, name, _ = target
    return home, 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name


def _target(entry: Entry) -> tuple[str, str] | None:
    if entry.kind == "restored":
        return entry.restored_module, entry.old_name
    if entry.kind == "removed" or entry.loud or not entry.new_module:
        return None
    return entry.new_module, entry.new_name


def _plain(home: str, name: str, local: str) -> str:
    if not name:
        return f"import {home} as {local}"
    first, _, rest = name.partition(".")
    if rest:
        return f"from {home} import {first} as _{first}; {local} = _{name}"
    return f"from {home} import {name} as {local}"


def _deprecated(entry: Entry, definition: ast.stmt | None, home: str, tree: Tree, imports: list[str]) -> str | None:
    """Return a definition that is struck through, or None where there can be none."""
    text = f"{entry.old} is now {entry.new}" if entry.new else f"{entry.old} goes away in {entry.removed_in}"
    mark = f'@deprecated("{text}; the old name goes away in {entry.removed_in}")'
    if isinstance(definition, ast.ClassDef) and entry.constructed_only:
        imports.append(f"from {home} import {definition.name} as _{definition.name}")
        return f"{mark}\nclass {entry.old_name}(_{definition.name}): ..."
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef) or definition.decorator_list:
        return None
    needed = _imports_for(definition, home, tree)
    if needed is None:
        return None
    imports += needed
    start = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    arguments = ast.unparse(_without_values(definition.args))
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns is not None else ""
    return f"{mark}\n{start} {entry.old_name}({arguments}){returns}: ..."


def _without_values(arguments: ast.arguments) -> ast.arguments:
    """Return a signature whose defaults are `...`: a type checker wants to know that there is one."""
    nothing = ast.Constant(...)
    return ast.arguments(
        posonlyargs=arguments.posonlyargs,
        args=arguments.args,
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=[None if value is None else nothing for value in arguments.kw_defaults],
        kwarg=arguments.kwarg,
        defaults=[nothing for _ in arguments.defaults],
    )


def _imports_for(function: ast.FunctionDef | ast.AsyncFunctionDef, home: str, tree: Tree) -> list[str] | None:
    """Return the imports that a function's annotations need, or None where one of their names cannot be found."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [each for each in (function.args.vararg, function.args.kwarg) if each is not None]
    annotations = [each.annotation for each in every if each.annotation is not None]
    annotations += [function.returns] if function.returns is not None else []
    inner = [node for each in annotations for node in ast.walk(each)]
    if any(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in inner):
        return None  # code in a text, whose names would have to be found as well
    needed = []
    for name in sorted({node.id for node in inner if isinstance(node, ast.Name)}):
        definition = tree.definition(home, name)
        if isinstance(definition, ast.ImportFrom) and not definition.level:
            alias = next(alias for alias in definition.names if (alias.asname or alias.name) == name)
            needed.append(f"from {definition.module} import {alias.name}" + (f" as {name}" if alias.asname else ""))
        elif isinstance(definition, ast.Import):
            alias = next(each for each in definition.names if (each.asname or each.name.partition(".")[0]) == name)
            needed.append(f"import {alias.name}" + (f" as {name}" if alias.asname else ""))
        elif definition is not None:
            needed.append(f"from {home} import {name}")
        elif not hasattr(builtins, name):
            return None
    return needed

"""What the code of one file calls by which names: scopes, imports, and the dotted names that code reaches through them.

Owns: binding and looking up names as Python does, and which part of a dotted name is whose. Does not own: what moved
(index), and what follows from a use (scan, migrate). Standard library only, and nothing is imported that is read.

Keeps: compat-scan-forms, compat-scan-reach.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from perdure_compat.scopes import AttributeCall, Binding, Context, Reference, Scope, Text
from perdure_compat.source import Source

PATCHERS = frozenset({
    "patch", "setattr", "delattr", "import_module", "importorskip", "import_string", "locate", "resolve",
    "resolve_name", "spy", "stub", "find_spec", "__import__", "run_module",
})  # fmt: skip
"""Last names of functions whose text argument is a dotted name that they look up."""
ATTRIBUTE_CALLS = frozenset({"getattr", "setattr", "hasattr", "delattr", "object"})
"""Last names of functions that take an object and an attribute's name, as `monkeypatch.setattr` and `patch.object`."""
_FORGIVING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})
_TYPE_COMMENT = re.compile(r"#\s*type:\s*(?!ignore\b)(.+)")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


class Reading:
    """What one file binds and uses."""

    def __init__(self, source: Source, module: str, *, package: bool, roots: frozenset[str]) -> None:
        """Read a file; texts and attributes are kept only where they could lead to one of the top-level `roots`."""
        self.source = source
        self.module = module
        self.package = package
        self.roots = roots
        self.scope = Scope("module", None)
        self.imports: list[Binding] = []
        """Every alias of every import statement, also stars, in the file's order."""
        self.references: list[Reference] = []
        self.calls: list[AttributeCall] = []
        self.texts: list[Text] = []
        _Visitor(self).read(source.tree.body)
        self._read_type_comments()
        for reference in self.references:
            for binding in reference.scope.lookup(reference.root):
                binding.references.append(reference)

    def resolve(self, reference: Reference) -> tuple[str, ...] | None:
        """Return the dotted name that a reference reaches, or None where it is no import's or has several meanings."""
        found = self.meanings(reference)
        return (*next(iter(found)), *reference.attributes) if len(found) == 1 and () not in found else None

    def meanings(self, reference: Reference) -> set[tuple[str, ...]]:
        """Return the dotted names that its root stands for; the empty one stands for what is no import."""
        return {binding.dotted for binding in reference.scope.lookup(reference.root)}

    def origin(self, statement: ast.ImportFrom) -> tuple[str, ...]:
        """Return the module that a `from` import takes from, relative ones made absolute; nothing where it has none."""
        named = tuple(statement.module.split(".")) if statement.module else ()
        if not statement.level:
            return named
        parts = tuple(self.module.split(".")) if self.module else ()
        up = statement.level - (1 if self.package else 0)
        if up < len(parts):
            return (*parts[: len(parts) - up], *named)
        # Above the packages that have an `__init__.py` there may be some without: known by the name that matters here.
        folders = self.source.path.resolve().parent.parts
        folders = folders[: max(len(folders) - statement.level + 1, 0)]
        at = next((at for at in range(len(folders) - 1, -1, -1) if folders[at] in self.roots), None)
        return () if at is None else (*folders[at:], *named)

    def two_homes(self, binding: Binding) -> bool:
        """Return whether other code of the same scope may bind the name from elsewhere: a fallback by condition."""
        others = {other.dotted for other in binding.scope.bindings.get(binding.name, ()) if other.statement is not None}
        return binding.context.conditional and len(others) > 1

    def _read_type_comments(self) -> None:
        if "type:" not in self.source.text or not any(root in self.source.text for root in self.roots):
            return
        at = 0
        for line in self.source.lines:
            found = _TYPE_COMMENT.search(line)
            if found is not None:
                self.read_expression(found.group(1).rstrip(), at + found.start(1), self.scope, Context(typing=True))
            at += len(line)

    def read_expression(self, text: str, at: int, scope: Scope, context: Context) -> None:
        """Take the references of an expression that stands in a text or comment; what is none is passed over."""
        at += len(text) - len(text.lstrip())
        try:
            inside = Source(self.source.path, text.strip(), expression=True)
        except (SyntaxError, ValueError):
            return
        inner: set[ast.AST] = set()
        for node in ast.walk(inside.tree):  # from the outside in
            chain = None if node in inner else _chain(node)
            if chain is not None:
                root, attributes, nodes = chain
                inner.update(nodes)
                self.references.append(Reference(scope, context, root, attributes, (inside, at, nodes)))


def _chain(node: ast.AST) -> tuple[str, tuple[str, ...], list[ast.expr]] | None:
    """Return root, attributes and their nodes, the root's first, of a name or a chain that begins with one."""
    if isinstance(node, ast.Name):  # most are
        return node.id, (), [node]
    nodes: list[ast.expr] = []
    while isinstance(node, ast.Attribute):
        nodes.append(node)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    nodes.append(node)
    nodes.reverse()
    return node.id, tuple(each.attr for each in nodes if isinstance(each, ast.Attribute)), nodes


class _Visitor(ast.NodeVisitor):
    """One walk over a file's tree, with the scope and the conditions of the place."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.source = reading.source
        self.scope = reading.scope
        self.context = Context()
        self.annotating = False

    def read(self, statements: Sequence[ast.stmt]) -> None:
        self.body(statements, self.under(typing=self.source.path.suffix == ".pyi"))

    def body(self, statements: Sequence[ast.stmt], context: Context) -> None:
        before = self.context
        self.context = Context(
            context.function, context.guarded, context.typing, context.conditional, tuple(statements)
        )
        for statement in statements:
            self.visit(statement)
        self.context = before

    def under(self, **changes: bool) -> Context:
        now = self.context
        return Context(
            changes.get("function", now.function),
            now.guarded or changes.get("guarded", False),
            now.typing or changes.get("typing", False),
            changes.get("conditional", now.conditional),
        )

    def bind(self, name: str, node: ast.AST) -> None:
        self.add(Binding(self.home(name), name, getattr(node, "lineno", 0)))

    def home(self, name: str) -> Scope:
        return self.scope.outside.get(name, self.scope)

    def add(self, binding: Binding) -> None:
        binding.scope.bindings.setdefault(binding.name, []).append(binding)

    def each(self, nodes: Sequence[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            parts = tuple(alias.name.split("."))
            name = alias.asname or parts[0]
            dotted = parts if alias.asname else parts[:1]
            self.imported(name, node, alias, dotted)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = self.reading.origin(node)
        for alias in node.names:
            self.imported(alias.asname or alias.name, node, alias, (*origin, alias.name))

    def imported(self, name: str, node: ast.Import | ast.ImportFrom, alias: ast.alias, dotted: tuple[str, ...]) -> None:
        outside = name in self.scope.outside
        binding = Binding(self.home(name), name, node.lineno, dotted, node, alias, self.context, outside)
        if name != "*":
            self.add(binding)
        self.reading.imports.append(binding)

    # Names and chains

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.reference(node)
        else:
            self.bind(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self.reference(node) is None:
            self.generic_visit(node)

    def reference(self, node: ast.expr) -> Reference | None:
        chain = _chain(node)
        if chain is None:
            return None
        root, attributes, nodes = chain
        found = Reference(
            self.scope,
            self.context,
            root,
            attributes,
            (self.source, 0, nodes),
            stored=not isinstance(getattr(node, "ctx", None), ast.Load),
        )
        self.reading.references.append(found)
        return found

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        before = len(self.reading.references)
        self.visit(node.func)
        # `patch.dict` takes a name as `patch` does; a `dict` by itself does not.
        called = "patch" if called == "dict" and isinstance(node.func, ast.Attribute) else called
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in arguments:
            before = len(self.reading.references)
            if called in PATCHERS and argument is arguments[0] and self.text(argument, looked_up=True, by=called):
                continue
            self.visit(argument)
            if argument is not arguments[0] or called not in ATTRIBUTE_CALLS or len(node.args) < 2:
                continue
            literal = node.args[1]
            if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
                continue
            if len(self.reading.references) == before + 1:
                self.reading.calls.append(AttributeCall(self.reading.references[before], literal, self.context))

    def visit_Constant(self, node: ast.Constant) -> None:
        if not self.annotating:
            self.text(node, looked_up=False)

    def text(self, node: ast.AST, *, looked_up: bool, by: str = "") -> bool:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return False
        if _DOTTED.fullmatch(node.value) and node.value.partition(".")[0] in self.reading.roots:
            self.reading.texts.append(Text(node, looked_up, self.context, by))
        return True

    # Scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.each(node.decorator_list)
        self.bind(node.name, node)
        self.parameters(node.args, annotations=True)
        self.annotation(node.returns)
        outer = self.enter("function", node.args, getattr(node, "type_params", ()))
        self.body(node.body, self.under(function=True, conditional=False))
        self.scope = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the parser's name of the node

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.parameters(node.args, annotations=False)
        outer, before = self.enter("function", node.args, ()), self.context
        self.context = self.under(function=True)
        self.visit(node.body)
        self.scope, self.context = outer, before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.each(node.decorator_list)
        self.bind(node.name, node)
        self.each(node.bases)
        self.each([keyword.value for keyword in node.keywords])
        outer = self.scope
        self.scope = Scope("class", outer)
        self.each(list(getattr(node, "type_params", ())))
        self.body(node.body, self.under(conditional=False))
        self.scope = outer

    def parameters(self, arguments: ast.arguments, *, annotations: bool) -> None:
        self.each([*arguments.defaults, *arguments.kw_defaults])
        if annotations:
            for argument in _every_argument(arguments):
                self.annotation(argument.annotation)

    def enter(self, kind: str, arguments: ast.arguments, type_parameters: Sequence[ast.AST]) -> Scope:
        outer = self.scope
        self.scope = Scope(kind, outer)
        for argument in _every_argument(arguments):
            self.bind(argument.arg, argument)
        self.each(list(type_parameters))
        return outer

    def visit_TypeVar(self, node: ast.AST) -> None:
        self.bind(getattr(node, "name", ""), node)
        self.generic_visit(node)

    visit_ParamSpec = visit_TypeVar  # noqa: N815  # the parser's name of the node
    visit_TypeVarTuple = visit_TypeVar  # noqa: N815  # the parser's name of the node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        outer = self.scope
        self.visit(node.generators[0].iter)
        self.scope = Scope("comprehension", outer)
        for number, generator in enumerate(node.generators):
            self.visit(generator.target)
            self.each(([generator.iter] if number else []) + generator.ifs)
        self.each([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.scope = outer

    visit_SetComp = visit_ListComp  # noqa: N815  # the parser's name of the node
    visit_GeneratorExp = visit_ListComp  # noqa: N815  # the parser's name of the node
    visit_DictComp = visit_ListComp  # noqa: N815  # the parser's name of the node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        self.add(Binding(scope, node.target.id, node.lineno))
        self.visit(node.value)

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.scope.outside[name] = self.reading.scope

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            scope = self.scope.parent
            while scope is not None and not (scope.kind == "function" and name in scope.bindings):
                scope = scope.parent
            self.scope.outside[name] = scope or self.reading.scope

    # What binds without being a Name

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self.bind(node.name, node)
        self.body(node.body, self.under(conditional=True))

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.bind(node.name, node)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815  # the parser's name of the node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bind(node.rest, node)
        self.generic_visit(node)

    # Annotations

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation)
        self.each([node.target, node.value])

    def annotation(self, node: ast.expr | None) -> None:
        """Visit an annotation; a text in it is code that a type checker reads."""
        if node is None:
            return
        self.annotating = True
        self.visit(node)
        self.annotating = False
        plain = set(_data_of(node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner not in plain:
                at = self.source.start(inner)
                raw = self.source.text[at : self.source.end(inner)]
                quote = raw[:1]
                if quote in {"'", '"'} and raw[1:-1] == inner.value and not raw.startswith(quote * 3):
                    self.reading.read_expression(inner.value, at + 1, self.scope, self.context)

    # Conditions

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        checked = _chain(node.test)
        typing = checked is not None and (checked[1] or (checked[0],))[-1] == "TYPE_CHECKING"
        self.body(node.body, self.under(conditional=True, typing=typing))
        self.body(node.orelse, self.under(conditional=True))

    def visit_Try(self, node: ast.Try) -> None:
        forgiving = any(_forgives(handler.type) for handler in node.handlers)
        self.body(node.body, self.under(conditional=bool(node.handlers), guarded=forgiving))
        before = self.context
        for handler in node.handlers:
            self.context = self.under(guarded=_forgives(handler.type))
            self.visit(handler)
            self.context = before
        self.body(node.orelse, self.under(conditional=True))
        self.body(node.finalbody, self.under())

    visit_TryStar = visit_Try  # type: ignore[assignment]  # noqa: N815  # the parser's name of the node

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        suppressing = False
        for item in node.items:
            self.each([item.context_expr, item.optional_vars])
            call = item.context_expr
            if isinstance(call, ast.Call) and (_chain(call.func) or ("",))[0] in {"suppress", "contextlib"}:
                suppressing = suppressing or any(_forgives(argument) for argument in call.args)
        self.body(node.body, self.under(guarded=suppressing))

    visit_AsyncWith = visit_With  # noqa: N815  # the parser's name of the node

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.each([node.iter, node.target])
        self.body(node.body, self.under(conditional=True))
        self.body(node.orelse, self.under(conditional=True))

    visit_AsyncFor = visit_For  # noqa: N815  # the parser's name of the node

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.body(node.body, self.under(conditional=True))
        self.body(node.orelse, self.under(conditional=True))

    def visit_match_case(self, node: ast.match_case) -> None:
        self.visit(node.pattern)
        if node.guard is not None:
            self.visit(node.guard)
        self.body(node.body, self.under(conditional=True))


def _every_argument(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from arguments.posonlyargs
    yield from arguments.args
    yield from arguments.kwonlyargs
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _data_of(annotation: ast.expr) -> Iterator[ast.AST]:
    """Yield what is inside an annotation and no part of the type's code: a literal's values, what is noted beside."""
    for node in ast.walk(annotation):
        name = (_chain(node.value) or ("", ()))[:2] if isinstance(node, ast.Subscript) else ("", ())
        last = (name[1] or (name[0],))[-1]
        if isinstance(node, ast.Subscript) and last == "Literal":
            yield from ast.walk(node.slice)
        elif isinstance(node, ast.Subscript) and last == "Annotated" and isinstance(node.slice, ast.Tuple):
            for beside in node.slice.elts[1:]:
                yield from ast.walk(beside)


def _forgives(caught: ast.expr | None) -> bool:
    """Return whether an `except` clause catches a failed import."""
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_forgives(each) for each in caught.elts)
    name = caught.attr if isinstance(caught, ast.Attribute) else getattr(caught, "id", "")
    return name in _FORGIVING

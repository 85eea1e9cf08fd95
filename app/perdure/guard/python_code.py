"""What literal Python code does to files.

Owns: the calls that delete, move, overwrite or run something, with arguments that the code itself spells out. Does
not own: anything that would need running it. A call whose argument is not spelled out has an unknown operand; code
that cannot be parsed is not analysable.
"""

from __future__ import annotations

import ast

from perdure.domain.effect import Act, Certainty, Pattern
from perdure.domain.record import dataclass, field
from perdure.guard import values
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_MOST_CHARACTERS = 16_384
_TEXTUAL = frozenset({"os.path.abspath", "os.path.realpath", "str", "os.fspath"})
_PATHS = frozenset({"pathlib.Path", "Path", "pathlib.PosixPath", "os.path.join"})


@dataclass(frozen=True, slots=True)
class _Deed:
    act: Act
    argument: int = 0
    """Which argument is the operand."""
    keyword: str = ""
    recursive: bool = False
    through_link: bool = False
    conditional: bool = False


_READ_SOURCE = _Deed(Act.READ, keyword="src", through_link=True)
_CALLS: dict[str, tuple[_Deed, ...]] = {
    "shutil.rmtree": (_Deed(Act.DELETE, keyword="path", recursive=True),),
    "os.remove": (_Deed(Act.DELETE, keyword="path"),),
    "os.unlink": (_Deed(Act.DELETE, keyword="path"),),
    "os.rmdir": (_Deed(Act.DELETE, keyword="path"),),
    "os.removedirs": (_Deed(Act.DELETE, keyword="name"),),
    "os.rename": (_Deed(Act.MOVE, keyword="src"), _Deed(Act.OVERWRITE, 1, "dst")),
    "os.renames": (_Deed(Act.MOVE, keyword="old"), _Deed(Act.OVERWRITE, 1, "new")),
    "os.replace": (_Deed(Act.MOVE, keyword="src"), _Deed(Act.OVERWRITE, 1, "dst")),
    "shutil.move": (_Deed(Act.MOVE, keyword="src"), _Deed(Act.OVERWRITE, 1, "dst")),
    "shutil.copy": (_READ_SOURCE, _Deed(Act.OVERWRITE, 1, "dst", through_link=True)),
    "shutil.copy2": (_READ_SOURCE, _Deed(Act.OVERWRITE, 1, "dst", through_link=True)),
    "shutil.copyfile": (_READ_SOURCE, _Deed(Act.OVERWRITE, 1, "dst", through_link=True)),
    "shutil.copytree": (
        _Deed(Act.READ, keyword="src", recursive=True),
        _Deed(Act.OVERWRITE, 1, "dst", recursive=True, through_link=True),
    ),
    "shutil.make_archive": (_Deed(Act.READ, 2, "root_dir", recursive=True),),
    "sqlite3.connect": (_Deed(Act.READ, keyword="database"),),
    "os.truncate": (_Deed(Act.EMPTY, keyword="path", through_link=True),),
    "os.chmod": (_Deed(Act.PERMIT, keyword="path", through_link=True),),
    "os.chown": (_Deed(Act.PERMIT, keyword="path", through_link=True),),
    "os.symlink": (_Deed(Act.OVERWRITE, 1, "dst", conditional=True),),
    "os.link": (_Deed(Act.OVERWRITE, 1, "dst", conditional=True),),
    "send2trash.send2trash": (_Deed(Act.DELETE, recursive=True),),
    "venv.create": (_Deed(Act.OVERWRITE, recursive=True),),
}
_METHODS: dict[str, _Deed] = {
    "unlink": _Deed(Act.DELETE),
    "rmdir": _Deed(Act.DELETE),
    "rmtree": _Deed(Act.DELETE, recursive=True),
    "rename": _Deed(Act.MOVE),
    "replace": _Deed(Act.MOVE),
    "read_text": _Deed(Act.READ, through_link=True),
    "read_bytes": _Deed(Act.READ, through_link=True),
    "write_text": _Deed(Act.OVERWRITE, through_link=True),
    "write_bytes": _Deed(Act.OVERWRITE, through_link=True),
    "symlink_to": _Deed(Act.OVERWRITE, conditional=True),
    "chmod": _Deed(Act.PERMIT, through_link=True),
}
_RUNNERS = frozenset(
    [
        "subprocess.run",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "subprocess.Popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "os.system",
        "os.popen",
        "pty.spawn",
        "os.execv",
        "os.execvp",
        "os.spawnvp",
        "asyncio.create_subprocess_shell",
        "asyncio.create_subprocess_exec",
    ]
)
_CODE_RUNNERS = frozenset(
    {
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "asyncio.create_subprocess_shell",
    }
)


def read(machine: Machine, code: Value, state: State, *, what: str) -> None:
    """Note what Python code does; every text that it may be."""
    with machine.nested() as allowed:
        if not allowed:
            machine.problem(f"{what}: code in strings is nested too deep")
            return
        for pieces in code:
            source = values.spelled(pieces)
            if source is None or len(source) > _MOST_CHARACTERS:
                machine.problem(f"{what}: the code is not known before it runs")
                continue
            try:
                tree = ast.parse(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # Python would not run it either
            machine.step(len(source) // 64 + 1)
            with machine.under(Certainty.DEFINITE if len(code) == 1 else Certainty.POSSIBLE):
                try:
                    _Reader(machine, state.copy(), what).block(tree.body)
                except RecursionError:
                    machine.problem(f"{what}: the code is nested too deep")


@dataclass(slots=True)
class _Reader:
    """One piece of code: its names, as far as they are spelled out."""

    machine: Machine
    state: State
    what: str
    names: dict[str, Value] = field(default_factory=dict)
    """Variables with a text or a path."""
    modules: dict[str, str] = field(default_factory=dict)
    """What imported names stand for, in full."""

    def block(self, body: list[ast.stmt]) -> None:
        """Follow statements in order; branches and loops are taken as they stand."""
        for statement in body:
            self.machine.step()
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement)
            return
        for expression in ast.iter_child_nodes(statement):
            if isinstance(expression, ast.expr):
                self._expression(expression)
            elif isinstance(expression, ast.withitem):
                self._expression(expression.context_expr)
        if isinstance(statement, ast.Assign):
            self._assign(statement)
        elif isinstance(statement, ast.For):
            self._loop(statement)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                with self.machine.under(Certainty.POSSIBLE):
                    self.block(inner)
        for handler in getattr(statement, "handlers", []):
            with self.machine.under(Certainty.POSSIBLE):
                self.block(handler.body)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                self.modules[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
            else:
                first = alias.name.partition(".")[0]
                self.modules[alias.asname or first] = alias.name if alias.asname else first

    def _assign(self, statement: ast.Assign) -> None:
        if len(statement.targets) != 1 or not isinstance(target := statement.targets[0], ast.Name):
            return
        self.names[target.id] = self._value(statement.value)
        full = self._full(statement.value)
        if full:
            self.modules[target.id] = full

    def _loop(self, statement: ast.For) -> None:
        if not isinstance(statement.target, ast.Name):
            return
        items = statement.iter
        if isinstance(items, ast.List | ast.Tuple | ast.Set) and items.elts:
            self.names[statement.target.id] = values.union(*[self._value(item) for item in items.elts])
        else:
            self.names[statement.target.id] = self._found(items)

    def _found(self, node: ast.expr) -> Value:
        """Return what a search yields: ``glob.glob("…")``, ``Path(…).rglob("…")``, ``os.listdir(…)``."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
            return values.union(*[self._value(item) for item in node.elts])
        if isinstance(node, ast.Call):
            full = self._full(node.func)
            if full in {"glob.glob", "glob.iglob"} and node.args:
                return tuple(
                    values.globbed(text) if (text := values.spelled(p)) is not None else p
                    for p in self._value(node.args[0])
                )
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"glob", "rglob", "iterdir"}:
                return values.joined(self._value(node.func.value), values.text("/"), values.unknown(node.func.attr))
            if full in {"sorted", "list", "reversed", "set"} and node.args:
                return self._found(node.args[0])
        return values.unknown("for …")

    def _expression(self, node: ast.expr) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                self.machine.step()
                self._call(inner)
            elif isinstance(inner, ast.ListComp | ast.GeneratorExp | ast.SetComp):
                for generator in inner.generators:
                    if isinstance(generator.target, ast.Name):
                        self.names[generator.target.id] = self._found(generator.iter)

    def _handed_on(self, node: ast.Call) -> None:
        """Note what a function may do that is given to another one, which calls it with who knows what."""
        for given in node.args:
            name = self._full(given) if isinstance(given, ast.Name | ast.Attribute) else ""
            for deed in _CALLS.get(name, ()):
                self._deed(deed, values.unknown("an argument"), f"{self.what}: {name}")

    def _call(self, node: ast.Call) -> None:
        full = self._full(node.func)
        by = f"{self.what}: {full or '…'}"
        self._handed_on(node)
        if full in _CALLS:
            for deed in _CALLS[full]:
                self._deed(deed, self._argument(node, deed.argument, deed.keyword), by)
        elif full in _RUNNERS:
            self._run(node, full)
        elif full in {"open", "io.open"}:
            self._open(node, 0, by)
        elif full == "os.chdir":
            self.state.directories = values.absolute(self._argument(node, 0, "path"), self.state.directories)
        elif full in {"exec", "eval"} and node.args:
            code = self._value(node.args[0])
            if values.texts(code) is not None:
                read(self.machine, code, self.state, what=self.what)
            elif full == "exec":
                self.machine.problem(f"{self.what}: it runs code that is not known before")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and self._is_path(node.func.value):
            deed = _METHODS[node.func.attr]
            self._deed(deed, self._value(node.func.value), f"{self.what}: Path.{node.func.attr}")
            if node.func.attr in {"rename", "replace"}:
                self._deed(
                    _Deed(Act.OVERWRITE), self._argument(node, 0, "target"), f"{self.what}: Path.{node.func.attr}"
                )
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "open" and self._is_path(node.func.value):
            self._open(node, -1, by)

    def _deed(self, deed: _Deed, operand: Value, by: str) -> None:
        self.machine.emit(
            deed.act,
            operand,
            self.state,
            by=by,
            recursive=deed.recursive,
            through_link=deed.through_link,
            certainty=Certainty.CONDITIONAL if deed.conditional else None,
        )

    def _open(self, node: ast.Call, position: int, by: str) -> None:
        mode_value = (
            self._argument(node, position + 1, "mode") if len(node.args) > position + 1 or node.keywords else None
        )
        mode = values.known(mode_value) if mode_value is not None else "r"
        path = (
            self._value(node.func.value)
            if position < 0 and isinstance(node.func, ast.Attribute)
            else self._argument(node, 0, "file")
        )
        if mode is not None and set(mode) & set("wax+"):
            act = Act.OVERWRITE if "w" in mode else Act.CHANGE
            self.machine.emit(act, path, self.state, by=by, through_link=True)
        elif mode is not None:
            self.machine.emit(Act.READ, path, self.state, by=by, through_link=True)

    def _run(self, node: ast.Call, full: str) -> None:
        shell = full in _CODE_RUNNERS or any(
            keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in node.keywords
        )
        position = 1 if full.startswith(("os.exec", "os.spawn")) else 0
        position = 2 if full.startswith("os.spawn") else position
        command = node.args[position] if len(node.args) > position else None
        if full == "asyncio.create_subprocess_exec":
            command = ast.List(node.args)
        state = self.state.copy()
        for keyword in node.keywords:
            if keyword.arg in {"args", "cmd", "command"}:
                command = keyword.value
            elif keyword.arg == "cwd":
                state.directories = values.absolute(self._value(keyword.value), state.directories)
        if command is None:
            return
        if isinstance(command, ast.Call) and isinstance(command.func, ast.Attribute) and command.func.attr == "split":
            text = values.known(self._value(command.func.value if not command.args else command.args[0]))
            words = [values.text(word) for word in (text or "").split()] or [values.unknown("a command")]
            self.machine.call(words, state, external=True)
        elif isinstance(command, ast.List | ast.Tuple):
            words = [self._value(item) for item in command.elts]
            if words:
                self.machine.call(words, state, external=True)
        elif shell:
            self.machine.shell(
                self._value(command), state, positionals=(), name=values.text("sh"), what=f"{self.what}: {full}"
            )
        elif (text := values.known(self._value(command))) is not None:
            self.machine.call([values.text(text)], state, external=True)

    def _argument(self, node: ast.Call, position: int, keyword: str) -> Value:
        for given in node.keywords:
            if given.arg == keyword:
                return self._value(given.value)
        if 0 <= position < len(node.args) and not any(
            isinstance(item, ast.Starred) for item in node.args[: position + 1]
        ):
            return self._value(node.args[position])
        return values.unknown("an argument")

    def _full(self, node: ast.expr) -> str:
        """Return the full name of what is called, such as ``shutil.rmtree``; empty where it is no plain name."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            left = self._full(node.value)
            return f"{left}.{node.attr}" if left else ""
        if (
            isinstance(node, ast.Call)
            and self._full(node.func) in {"__import__", "importlib.import_module"}
            and node.args
        ):
            return values.known(self._value(node.args[0])) or ""
        if isinstance(node, ast.Call) and self._full(node.func) == "getattr" and len(node.args) > 1:
            name = values.known(self._value(node.args[1]))
            left = self._full(node.args[0])
            return f"{left}.{name}" if left and name else ""
        return ""

    def _is_path(self, node: ast.expr) -> bool:
        """Return whether an expression may be a path rather than a text with the same method."""
        if isinstance(node, ast.Constant):
            return False
        if isinstance(node, ast.Call):
            full = self._full(node.func)
            if full.startswith("pathlib.") or full in {"Path", "PurePath"}:
                return True
            return isinstance(node.func, ast.Attribute) and self._is_path(node.func.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return True
        if isinstance(node, ast.Attribute):
            return node.attr == "parent"
        return isinstance(node, ast.Name) and node.id in self.names

    def _value(self, node: ast.expr) -> Value:
        """Return the text or path of an expression, as far as it is spelled out."""
        if isinstance(node, ast.Constant):
            text = node.value.decode(errors="replace") if isinstance(node.value, bytes) else str(node.value)
            return values.text(text)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, values.unknown(node.id))
        if isinstance(node, ast.JoinedStr):
            parts = [item.value if isinstance(item, ast.FormattedValue) else item for item in node.values]
            return values.joined(*[self._value(part) for part in parts])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            sides = [self._value(node.left), self._value(node.right)]
            return _path(sides) if isinstance(node.op, ast.Div) else values.joined(*sides)
        if isinstance(node, ast.Call):
            return self._result(node)
        if isinstance(node, ast.IfExp):
            return values.union(self._value(node.body), self._value(node.orelse))
        return self._attribute(node)

    def _attribute(self, node: ast.expr) -> Value:
        """Return what an attribute or an element stands for."""
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            return values.joined(self._value(node.value), values.text("/.."))
        if isinstance(node, ast.Attribute) and self._full(node) == "sys.prefix":
            return self._environment("VIRTUAL_ENV")
        if isinstance(node, ast.Subscript) and self._full(node.value) == "os.environ":
            return self._environment(values.known(self._value(node.slice)) or "")
        return values.unknown("an expression")

    def _environment(self, name: str) -> Value:
        return self.state.variable(name) or values.unknown(f"${name}")

    def _result(self, node: ast.Call) -> Value:
        """Return the path or text that a call gives back."""
        full = self._full(node.func)
        arguments = [self._value(item) for item in node.args]
        if full in _PATHS and arguments:
            return _path(arguments)
        if full in {*_PATHS, "pathlib.Path.cwd", "Path.cwd", "os.getcwd"}:
            return self.state.directories
        if full in {"pathlib.Path.home", "Path.home"}:
            return self._environment("HOME")
        if full in {"os.getenv", "os.environ.get"} and arguments:
            return self._environment(values.known(arguments[0]) or "")
        if full == "os.path.expanduser" and arguments:
            return self._expanded(arguments[0])
        if full in _TEXTUAL and arguments:
            return arguments[0]
        if full == "tempfile.mkdtemp":
            return values.joined(values.text("/tmp/tmp"), ((Pattern("*"),),))  # noqa: S108  # its documented default
        if isinstance(node.func, ast.Attribute):
            inner = self._value(node.func.value)
            if node.func.attr == "expanduser":
                return self._expanded(inner)
            if node.func.attr in {"resolve", "absolute", "strip", "rstrip", "as_posix"}:
                return inner
            if node.func.attr == "joinpath":
                return _path([inner, *arguments])
        return values.unknown(full or "a call")

    def _expanded(self, path: Value) -> Value:
        text = values.known(path)
        if text is None or not (text == "~" or text.startswith("~/")):
            return path
        return values.joined(self._environment("HOME"), values.text(text[1:]))


def _path(parts: list[Value]) -> Value:
    """Return parts joined to a path; one that is absolute starts anew."""
    result = parts[0]
    for part in parts[1:]:
        known = values.known(part)
        below = values.joined(result, values.text("/"), part)
        if known is not None:
            result = part if known.startswith("/") else below
        else:
            result = values.union(below, part) if values.starts_with(part, "/") else below
    return result

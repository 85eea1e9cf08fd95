"""Writes the parts of docs/reference that the code knows better than people.

Owns: the generated blocks of the reference pages: errors, exit codes, settings, commands. Does not own: the prose
around them, which is written by hand in the same files. Keeps: ground-docs-parity.

pm and the app are never importable in one environment, so each block belongs to one side, and a run in one environment
writes that side's blocks only. The tests call this module, in both environments; with --regenerate-docs they write.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import click

REFERENCE = Path(__file__).resolve().parent / "reference"

PM_COMMAND = "perdure-pm"
APP_COMMAND = "perdure"


class Block(NamedTuple):
    """One generated part of a page."""

    page: str
    name: str
    make: Callable[[], str]


def pm_blocks() -> list[Block]:
    """Return the blocks that PM's environment can make."""
    return [
        Block("errors.md", "pm-exit-codes", lambda: exit_codes("perdure_pm.model.errors")),
        Block("errors.md", "pm-errors", lambda: errors("perdure_pm.model.errors")),
        Block("environment.md", "pm-settings", settings),
        Block("plugin-yaml.md", "pm-manifest-fields", manifest_fields),
        Block("command-line.md", "pm-commands", lambda: commands("perdure_pm.cli.entry", "root", PM_COMMAND)),
    ]


def app_blocks() -> list[Block]:
    """Return the blocks that the app's environment can make."""
    return [
        Block("errors.md", "app-exit-codes", lambda: exit_codes("perdure.domain.errors")),
        Block("errors.md", "app-errors", lambda: errors("perdure.domain.errors")),
        Block("plugin-api.md", "app-api", api),
        Block("plugin-api.md", "app-hooks", hooks),
        Block("command-line.md", "app-commands", lambda: commands("perdure.cli.commands", "perdure", APP_COMMAND)),
        Block("approvals-store.md", "app-approvals-schema", approvals_schema),
        Block("guard.md", "app-guard-floor", lambda: guard_reasons("FLOOR_REASONS")),
        Block("policy.md", "app-decision-codes", decision_codes),
        Block("guard.md", "app-guard-reasons", lambda: guard_reasons("OTHER_REASONS")),
        Block("guard.md", "app-guard-rules", guard_rules),
        Block("guard.md", "app-guard-places", guard_places),
        Block("guard.md", "app-guard-safe", guard_safe),
        Block("guard.md", "app-guard-home", guard_home),
    ]


def is_current(block: Block) -> bool:
    """Return whether the page holds what the code says."""
    page = REFERENCE / block.page
    text = page.read_text(encoding="utf-8")
    return _replaced(text, block) == text


def write(block: Block) -> None:
    """Bring the page in line with the code."""
    page = REFERENCE / block.page
    page.write_text(_replaced(page.read_text(encoding="utf-8"), block), encoding="utf-8", newline="\n")


def exit_codes(module: str) -> str:
    """Return the table of exit codes of one side."""
    found: dict[int, str] = importlib.import_module(module).EXIT_CODES
    return _table(["exit code", "meaning"], ([str(code), text] for code, text in sorted(found.items())))


def errors(module: str) -> str:
    """Return the table of error codes of one side."""
    classes: dict[str, Any] = importlib.import_module(module).error_classes()
    rows = (
        [f"`{code}`", str(kind.exit_code), kind.default_retry, kind.meaning] for code, kind in sorted(classes.items())
    )
    return _table(["code", "exit code", "retry", "raised when"], rows)


def approvals_schema() -> str:
    """Return the statements that make the store of approvals, step by step."""
    steps = importlib.import_module("perdure.store.schema").STEPS
    sections = []
    for number, step in enumerate(steps, start=1):
        statements = ";\n".join((*step.tables, *step.columns, *step.indexes))
        sections.append(f"## Schema {number}\n\n```sql\n{statements};\n```")
    return "\n\n".join(sections)


def settings() -> str:
    """Return the table of PM's settings: variable, flag, key of config.yaml, commands, meaning."""
    table = importlib.import_module("perdure_pm.model.settings").SETTINGS
    rows = []
    for setting in table:
        flag = f"`{setting.flag}{' ' + setting.metavar if setting.metavar else ''}`" if setting.flag else ""
        if flag and setting.opposite:
            flag += f", `{setting.opposite}`"
        key = f"`{setting.config_key}`" if setting.config_key else ""
        rows.append([f"`{setting.variable}`", flag, key, setting.scope, setting.meaning])
    return _table(["variable", "flag", "config.yaml", "commands", "meaning"], rows)


def manifest_fields() -> str:
    """Return the table of the fields of a plugin.yaml."""
    module = importlib.import_module("perdure_pm.model.manifest")
    rows = [[f"`{name}`", module.KINDS[kind], meaning] for name, (kind, meaning) in module.FIELDS.items()]
    return _table(["field", "kind", "meaning"], rows)


def commands(module: str, name: str, program: str) -> str:
    """Return one section for each command of a program, as click knows it."""
    root: click.Command = getattr(importlib.import_module(module), name)
    return "\n\n".join(_section(words, command) for words, command in _walk(root, [program]))


def api() -> str:
    """Return the table of what a plugin may import."""
    rows = []
    for each in pkgutil.iter_modules(importlib.import_module("perdure.api").__path__, "perdure.api."):
        module = importlib.import_module(each.name)
        for name in module.__all__:
            found = getattr(module, name)
            own = inspect.getdoc(found) if inspect.isclass(found) else None
            rows.append([f"`{each.name}.{name}`", own.splitlines()[0] if own else _sentence_about(module, name)])
    return _table(["name", "is"], rows)


def hooks() -> str:
    """Return one section for each hook, from its signature and docstring."""
    module = importlib.import_module("perdure.hookspecs")
    sections = []
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if hasattr(function, "perdure_spec"):
            signature = re.sub(
                r"\b(?:perdure|collections)\.[a-z_.]+\.", "", str(inspect.signature(function)).replace("'", "")
            )
            sections.append(
                f"### {name}\n\n```python\ndef {name}{signature}\n```\n\n{_prose(inspect.getdoc(function) or '')}"
            )
    return "\n\n".join(sections)


def guard_reasons(table: str) -> str:
    """Return the table of one kind of reasons that the guard gives."""
    found: dict[str, str] = getattr(importlib.import_module("perdure.domain.verdict"), table)
    return _table(["code", "means"], ([f"`{code}`", meaning] for code, meaning in found.items()))


def decision_codes() -> str:
    """Return the table of what the pipeline of approvals says of itself."""
    found: dict[str, str] = importlib.import_module("perdure.domain.decision").DECISION_REASONS
    return _table(["code", "means"], ([f"`{code}`", meaning] for code, meaning in found.items()))


def guard_rules() -> str:
    """Return the table of what speaks for a risk, by program."""
    rows = []
    for rule in _risks()["rule"]:
        when = [f"`{word}`" for word in (*rule.get("words", ()), *rule.get("options", ()))]
        programs = ", ".join(f"`{name}`" for name in rule["programs"])
        rows.append([f"`{rule['code']}`", rule["risk"], programs, " ".join(when).replace("|", "\\|"), rule["text"]])
    return _table(["code", "risk", "programs", "only with", "because it"], rows)


def guard_places() -> str:
    """Return the table of what a write to a path means."""
    rows = (
        [
            f"`{place['code']}`",
            place["risk"],
            "medium" if place.get("read") else "",
            f"`{place['path']}`",
            place["text"],
        ]
        for place in _risks()["place"]
    )
    return _table(["code", "written: risk", "read: risk", "path", "is"], rows)


def guard_safe() -> str:
    """Return what is known of the programs that change nothing."""
    safe = _risks()["safe"]
    rows = []
    for names, entries in sorted(safe["with"].items()):
        programs = ", ".join(f"`{name}`" for name in names.split())
        for entry in entries if isinstance(entries, list) else [entries]:
            said = [", ".join(f"`{item}`" for item in entry["words"])] if "words" in entry else []
            said += [f"before it {', '.join(f'`{item}`' for item in entry['leading'])}"] if "leading" in entry else []
            said += [f"at most {entry['operands']} operands"] if "operands" in entry else []
            said += ["programs in its language that read and print alone"] if "language" in entry else []
            options = ", ".join(f"`{item}`" for item in entry.get("only", ())) or ("none" if "only" in entry else "")
            unless = ", ".join(f"`{item}`" for item in entry.get("unless", ()))
            rows.append([programs, *(text.replace("|", "\\|") for text in ("; ".join(said), options, unless))])
    listed = ", ".join(f"`{name}`" for name in safe["programs"])
    return f"Whatever they are given: {listed}.\n\n" + _table(
        ["program", "only with", "options that there may be", "not with"], rows
    )


def guard_home() -> str:
    """Return the table of what of a home is protected."""
    rows = []
    for entry in importlib.import_module("perdure.guard.roots").HOME:
        state = ("not to be read either" if entry.secret else "protected") if entry.protected else "free"
        rows.append([f"`{entry.pattern}`", state, entry.why])
    return _table(["in the home", "is", "because"], rows)


def _risks() -> dict[str, Any]:
    folder = Path(inspect.getfile(importlib.import_module("perdure.guard"))).parent
    return tomllib.loads((folder / "risks.toml").read_text(encoding="utf-8"))


def _sentence_about(module: ModuleType, name: str) -> str:
    """Return the sentence about a name that is no class: the string below it, else what its own module says it owns."""
    body = ast.parse(inspect.getsource(module)).body
    for node, following in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(getattr(target, "id", None) == name for target in targets) and isinstance(following, ast.Expr):
            return str(ast.literal_eval(following.value)).splitlines()[0]
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return (importlib.import_module(node.module).__doc__ or "").splitlines()[0]
    raise ValueError(f"{module.__name__} has no {name}")


def _prose(text: str) -> str:
    """Return a docstring as markdown: its Google sections become paragraphs."""
    text = re.sub(r"^(Args|Returns|Raises):\n", r"*\1*\n\n", text, flags=re.MULTILINE)
    return re.sub(
        r"^    (\w+): ", r"- `\1`: ", re.sub(r"^    (?!\w+: )", "", text, flags=re.MULTILINE), flags=re.MULTILINE
    )


def _walk(command: click.Command, words: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    import click

    if command.hidden:
        return
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _walk(child, [*words, name])


def _section(words: list[str], command: click.Command) -> str:
    import click

    context = click.Context(command, info_name=" ".join(words))
    usage = " ".join([*words, *command.collect_usage_pieces(context)])
    help_text = re.sub(r"\s*\n\s*", " ", (command.help or "").replace("\b", "").strip())
    parts = [f"### {' '.join(words)}", help_text, f"```\n{usage}\n```"]
    known = _setting_flags()
    rows, taken = [], []
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden and "--help" not in parameter.opts:
            if parameter.opts[0] in known:
                taken.append(f"`{parameter.opts[0]}`")
            elif (record := parameter.get_help_record(context)) is not None:
                rows.append([f"`{record[0]}`", record[1]])
    if rows:
        parts.append(_table(["option", "meaning"], rows))
    if taken:
        parts.append(f"[Settings](environment.md): {', '.join(taken)}")
    return "\n\n".join(part for part in parts if part)


def _setting_flags() -> set[str]:
    """Return the flags that the table of settings explains; empty on the app's side, which has no such table."""
    try:
        table = importlib.import_module("perdure_pm.model.settings").SETTINGS
    except ModuleNotFoundError:
        return set()
    return {setting.flag for setting in table if setting.flag}


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _replaced(text: str, block: Block) -> str:
    start, end = f"<!-- generated: {block.name} -->\n", "<!-- end of generated -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{block.page} has no block {block.name}")
    return f"{before}{start}\n{block.make()}\n\n{end}{after}"

"""The command `perdure-compat`.

Owns: arguments, output, exit codes, and writing files. Does not own: any decision about them.

Exit codes: 0 nothing to do, or done; 1 something is wrong, as printed; 2 the question was wrong; 3 old names are used.
Standard output is the answer; what is said about it goes to standard error.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure_compat import __version__, api_check, editing, lint, migrate, render, scan
from perdure_compat.index import Index
from perdure_compat.manifest import Entry, Manifest, ManifestFaults, load_manifest
from perdure_compat.outcome import Migration
from perdure_compat.source import encoded_like, replace_file, text_of
from perdure_compat.tree import Tree, version_of
from perdure_compat.type_stubs import stub_for

FOUND, WRONG, QUESTION, REMAINS = 0, 1, 2, 3
DEFAULT_MANIFESTS = ("compat/manifest.toml", "moved-names.toml")


class Refused(Exception):  # says what happened
    """The question cannot be answered."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A file's name or text that the terminal cannot show must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A sum of some hundred terms is nested as deeply. What walks it is Python, whose frames are not on the C stack.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
    options = _parser().parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except ManifestFaults as error:
        print(error, file=sys.stderr)
        return QUESTION
    except (Refused, scan.NotFound, api_check.NoGriffe, FileNotFoundError) as error:
        print(f"perdure-compat: {error}", file=sys.stderr)
        return QUESTION
    except BrokenPipeError:
        # Whoever reads has seen enough; the interpreter must not complain while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except SyntaxError as error:
        print(f"perdure-compat: {error.filename}:{error.lineno or 0}: cannot be read: {error.msg}", file=sys.stderr)
        return WRONG
    except UnicodeEncodeError as error:
        print(f"perdure-compat: {error.encoding} cannot write what moved: {error.reason}", file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"perdure-compat: {in_words(error)}", file=sys.stderr)
        return WRONG


def in_words(error: OSError) -> str:
    """Return which file an operating system's error is about, and what it says."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perdure-compat",
        description="Moved names keep working, warn once, and migrate themselves: everything from one manifest.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument(
            "--manifest",
            type=Path,
            action="append",
            metavar="FILE",
            help=f"what moved (default: {' or '.join(DEFAULT_MANIFESTS)})",
        )
        added.set_defaults(run=run)
        return added

    found = command("scan", _scan, "List the uses of moved names in a path, a distribution or an entry point's module.")
    found.add_argument("what", nargs="+", metavar="PATH|DIST|MODULE:ATTR", help="whose files; nothing is imported")
    found.add_argument("--json", action="store_true", help="print the report as JSON")
    found.add_argument("--sarif", action="store_true", help="print the report as SARIF 2.1.0")
    found.add_argument("--host-version", default="", metavar="VERSION", help="the version that the plugin meets")

    moved = command("migrate", _migrate, "Write the new names in a path's files, in one pass over all entries.")
    moved.add_argument("what", nargs="+", type=Path, metavar="PATH", help="files or folders")
    moved.add_argument("--write", action="store_true", help="change the files (default: print the change)")
    moved.add_argument("--diff", action="store_true", help="print the change, also with --write")

    stubs = command("stubs", _stubs, "Write type stubs of the modules that are gone into a folder.")
    stubs.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the stubs go")

    checked = command(
        "lint", _lint, "Compare manifest, files and the project's own code; exit 1 where something is wrong."
    )
    checked.add_argument("--current", metavar="VERSION", help="the tree's version (default: of its pyproject.toml)")
    checked.add_argument("--resolve", action="store_true", help="also import every entry in a fresh interpreter")

    compared = command(
        "check", _check, "Compare the public API of two trees; exit 1 where a name vanished unannounced."
    )
    compared.add_argument("old", type=Path, help="the folder that holds the package's earlier version")
    compared.add_argument("new", type=Path, help="the folder that holds its present one")

    entry = command("new-entry", _new_entry, "Add an entry to the manifest.")
    entry.add_argument("old", help="the full old name")
    entry.add_argument("new", nargs="?", default="", help="the full new name, or module:attribute")
    entry.add_argument("--since", metavar="VERSION", help="when it moved (default: the tree's version)")
    entry.add_argument("--removed-in", required=True, metavar="VERSION", help="when the old name stops to work")
    entry.add_argument("--kind", help="moved, renamed, module, import, restored or removed")
    entry.add_argument("--note", default="", help="what else changed")
    entry.add_argument("--loud", action="store_true", help="refuse the old name: its old habit would be unsafe")

    rendered = command("render", _render, "Write facades, stubs, tables and pages from the manifest.")
    rendered.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file would change")

    removed = command(
        "remove", _remove, "Take out the entries whose version of removal has come, with all that is made of them."
    )
    removed.add_argument("--up-to", required=True, metavar="VERSION", help="the version that is released")
    removed.add_argument("--keep-hints", action="store_true", help="old names raise an error that names the new place")
    removed.add_argument("--dry-run", action="store_true", help="only list the files")
    return parser


def _manifests(options: argparse.Namespace) -> list[Manifest]:
    paths: list[Path] = options.manifest or [path for name in DEFAULT_MANIFESTS if (path := Path(name)).is_file()][:1]
    if not paths:
        raise Refused(f"there is no manifest: name one with --manifest (looked for {' and '.join(DEFAULT_MANIFESTS)})")
    return [load_manifest(path) for path in paths]


def _one(options: argparse.Namespace) -> Manifest:
    manifests = _manifests(options)
    if len(manifests) != 1:
        raise Refused("this command takes one manifest")
    return manifests[0]


def _tree(manifest: Manifest) -> Tree:
    source = manifest.place("source")
    if source is None:
        raise Refused(f'{manifest.path} does not say where the package lies: add [tree] with source = "…"')
    # A package may be one file.
    if not source.joinpath(*manifest.package.split(".")).is_dir() and Tree(source).file_of(manifest.package) is None:
        raise Refused(f"{manifest.path}: tree.source is {source}, which does not hold {manifest.package}")
    return Tree(Path(os.path.normpath(source)))


def _scan(options: argparse.Namespace) -> int:
    files = [path for what in options.what for path in scan.files_of(what)]
    report = scan.scan(files, Index(_manifests(options)))
    if options.sarif:
        print(scan.as_sarif(report, __version__, options.host_version))
    elif options.json:
        print(json.dumps(scan.as_json(report, options.host_version), indent=2))
    else:
        print(scan.in_words(report, options.host_version))
    return REMAINS if report.remaining else FOUND


def _migrate(options: argparse.Namespace) -> int:
    for path in options.what:
        if not path.exists():
            raise Refused(f"there is no {path}")
    found, unreadable = migrate.migrate_files(scan.files_below(options.what), Index(_manifests(options)))
    for migration in found:
        if migration.changed and (options.diff or not options.write):
            sys.stdout.write(migration.diff())
    failed = _write(found) if options.write else {}
    for migration in found:
        for each in migration.left:
            print(f"{each}{' (info)' if each.guarded else ''}", file=sys.stderr)
    for bad in unreadable:
        print(f"{bad.path}:{bad.line}: cannot be read: {bad.text}", file=sys.stderr)
    for text in failed.values():
        print(f"not written: {text}", file=sys.stderr)
    done = [migration for migration in found if migration.changed and migration.path not in failed]
    left = [left for migration in found for left in migration.left]
    verb = "moved" if options.write else "would move"
    print(
        f"{verb} {sum(migration.moved for migration in done)} uses in {len(done)} files; {len(left)} left; "
        f"{len(unreadable)} unreadable" + (f"; {len(failed)} not written" if failed else ""),
        file=sys.stderr,
    )
    if failed:
        return WRONG
    return REMAINS if unreadable or any(not each.guarded for each in left) else FOUND


def _write(found: Sequence[Migration]) -> dict[Path, str]:
    """Have what changed in the files; return why some are as they were: one that fails holds up no other."""
    failed: dict[Path, str] = {}
    for migration in found:
        try:
            if migration.changed:
                migration.write()
        except OSError as error:
            failed[migration.path] = in_words(error)
        except UnicodeEncodeError as error:
            failed[migration.path] = f"{migration.path}: its encoding {error.encoding} cannot write the new names"
    return failed


def _stubs(options: argparse.Namespace) -> int:
    manifest = _one(options)
    tree = _tree(manifest)
    changes: dict[Path, str | None] = {}
    for module, entries in render.facade_modules(manifest, tree).items():
        path = options.out.joinpath(*module.split(".")).with_suffix(".pyi")
        changes[path] = stub_for(entries, tree)
    return _apply(changes)


def _lint(options: argparse.Namespace) -> int:
    manifest = _one(options)
    tree = _tree(manifest)
    faults = lint.lint(manifest, tree, options.current or version_of(manifest))
    if options.resolve:
        faults += lint.unresolved(manifest, [tree.root])
    for fault in faults:
        print(fault)
    print(f"{len(manifest.entries)} entries, {len(faults)} faults", file=sys.stderr)
    return WRONG if faults else FOUND


def _check(options: argparse.Namespace) -> int:
    faults = api_check.check(_one(options), options.old, options.new)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} public names vanished without an entry", file=sys.stderr)
    return WRONG if faults else FOUND


def _new_entry(options: argparse.Namespace) -> int:
    manifest = _one(options)
    since = options.since or version_of(manifest)
    if since is None:
        raise Refused("the tree's version is not known: say when it moved with --since")
    kind = options.kind or ("removed" if not options.new else "moved")
    module = kind == "module"
    old_module, _, old_name = options.old.rpartition(".")
    new_module, _, new_name = options.new.partition(":") if ":" in options.new else options.new.rpartition(".")
    entry = Entry(
        old_module=options.old if module else old_module,
        old_name="" if module else old_name,
        new_module=options.new if module else new_module,
        new_name="" if module else new_name,
        since=since,
        removed_in=options.removed_in,
        kind=kind,
        note=options.note,
        loud=options.loud,
        warn=kind != "import",
    )
    text = text_of(manifest.path) or ""
    return _apply({manifest.path: editing.with_entry(manifest, text, entry)})


def _render(options: argparse.Namespace) -> int:
    manifest = _one(options)
    changes = render.render(manifest, _tree(manifest))
    if options.check:
        for path in changes:
            print(f"{path} would change")
        return WRONG if changes else FOUND
    return _apply(changes)


def _remove(options: argparse.Namespace) -> int:
    manifest = _one(options)
    changes = editing.remove(manifest, _tree(manifest), options.up_to, hints=options.keep_hints)
    return _apply(changes, dry=options.dry_run)


def _apply(changes: Mapping[Path, str | None], *, dry: bool = False) -> int:
    for path, text in changes.items():
        if not dry and text is None:
            path.unlink(missing_ok=True)
        elif not dry and text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, encoded_like(path, text))
        print(f"{'removed' if text is None else 'written'} {path}" if not dry else f"{path} would change")
    return FOUND

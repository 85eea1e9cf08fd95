"""plugin new, plugin check: for people who write plugins.

Owns: the words. Does not own: what they do (ops.skeleton, ops.plugin_check).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer, columns, true_hint
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import EXIT_FOUND_WORK


@click.command(cls=Verb, kind="mutating", answers_managed=True)
@click.argument("place", metavar="NAME")
@click.pass_obj
def plugin_new(session: Session, place: str) -> Answer:
    """Write a plugin to start from, in a new directory NAME.

    It installs as it is (plugin add ./NAME), offers one tool, and passes its own tests. NAME may be a path that ends
    with the name.
    """
    from perdure_pm.ops.skeleton import write_plugin
    from perdure_pm.store.generations import current_generation

    data = write_plugin(session.layout, session.profile, place, dry_run=session.dry_run)
    files = "\n".join(f"  {path}" for path in data["files"]) if isinstance(data["files"], list) else ""
    said = "would be" if session.dry_run else "is"
    text = f"the plugin {data['name']} {said} in {data['path']}\n{files}"
    if not session.dry_run and current_generation(session.layout, session.profile) is not None:
        install = f"perdure-pm plugin add {shlex.quote(click.format_filename(str(data['path'])))}"
        text += f"\n\ninstall it: {true_hint(install, session)}"
    return Answer(data={**data, "dry_run": session.dry_run} if session.dry_run else data, text=text)


@click.command(cls=Verb, kind="building")
@click.argument("source", metavar="PATH")
@click.option("--fix", is_flag=True, help="first have the directory's files use the names that moved")
@click.pass_obj
def plugin_check(session: Session, source: str, fix: bool) -> Answer:
    """Check a plugin before it is given to others; exit 3 where something is found.

    Its manifest, its build, its requirements with the host's lock on every machine that the lock is for, names of the
    host that moved, files that other distributions have too, a start of the host with it alone, and the time of its
    imports. Nothing that runs is changed.
    """
    from perdure_pm.cli.remote import call
    from perdure_pm.model.source import looks_like_path

    place = os.path.abspath(os.path.expanduser(source))
    word = place if looks_like_path(source) or os.path.exists(source) else source
    answer = call(session, "plugin-check", {"source": word, "fix": fix}, _show_checks)
    return replace(answer, exit_code=EXIT_FOUND_WORK) if answer.data.get("found") else answer


def _show_checks(data: Mapping[str, Any], _status: str) -> str:
    lines = [["fixed", "moved names", data["fixed"]]] if data.get("fixed") else []
    for check in data.get("checks", ()):
        lines.append([check["status"], check["name"], check["about"] if not check["found"] else check["found"][0]])
        lines += [["", "", found] for found in check["found"][1:]]
    return columns(lines)

"""plugin new, plugin check: for people who write plugins.

Owns: the words. Does not own: what they do (ops.skeleton).
"""

from __future__ import annotations

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import Session


@click.command(cls=Verb, kind="mutating")
@click.argument("place", metavar="NAME")
@click.pass_obj
def plugin_new(session: Session, place: str) -> Answer:
    """Write a plugin to start from, in a new directory NAME.

    It installs as it is (plugin add ./NAME), offers one tool, and passes its own tests. NAME may be a path that ends
    with the name.
    """
    from perdure_pm.ops.skeleton import write_plugin

    data = write_plugin(session.layout, session.profile, place, dry_run=session.dry_run)
    files = "\n".join(f"  {path}" for path in data["files"]) if isinstance(data["files"], list) else ""
    said = "would be" if session.dry_run else "is"
    text = f"the plugin {data['name']} {said} in {data['path']}\n{files}"
    if not session.dry_run:
        text += f"\n\ninstall it: perdure-pm plugin add {click.format_filename(str(data['path']))}"
    return Answer(data={**data, "dry_run": session.dry_run} if session.dry_run else data, text=text)

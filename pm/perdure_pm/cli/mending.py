"""doctor, verify and repair: what is wrong, and having it right again.

Owns: the words. Does not own: examining (ops.doctor, ops.contents) or mending (ops.repair).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer, true_hint
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import EXIT_DONE, EXIT_FOUND_WORK

SHOWN_FILES = 10
"""How many files of one generation are named; --json names all of them."""


@click.command(cls=Verb, answers_managed=True)
@click.option("--deep", is_flag=True, help="Read every byte, of every generation and of PM itself.")
@click.pass_obj
def doctor(session: Session, deep: bool) -> Answer:
    """Show everything that is wrong, and what mends it.

    Nothing is changed. The exit code is 0 where all is well and 3 where something is not.
    """
    from perdure_pm.ops.doctor import examine

    if session.stamp is not None:
        from perdure_pm.ops.managed import examine_managed

        data = examine_managed(session.stamp, session.layout, deep=deep)
    else:
        data = examine(session.layout, session.profile, deep=deep, environ=session.environ)
    return Answer(
        data=data,
        text=_show_problems(data, session),
        exit_code=EXIT_DONE if data["healthy"] else EXIT_FOUND_WORK,
    )


@click.command(cls=Verb)
@click.argument("generations", metavar="[N|ID|LABEL]...", nargs=-1)
@click.pass_obj
def verify(session: Session, generations: tuple[str, ...]) -> Answer:
    """Read every byte of generations, by default of all.

    The exit code is 0 where all is as it was sealed, 8 where something that runs or was named is not, and 3 where
    only others are not. What mends it, and what else is wrong with the home, doctor says.
    """
    from perdure_pm.ops.contents import check_contents

    data, exit_code = check_contents(session.layout, generations)
    return Answer(data=data, text=_show_contents(data, session), exit_code=exit_code)


@click.command(cls=Verb, kind="building")
@click.pass_obj
def repair(session: Session) -> Answer:
    """Rebuild what is damaged from its own record.

    What is selected runs again, configuration is not changed, and nothing happens where every byte is as it should be.
    """
    from perdure_pm.cli.remote import call

    return call(session, "repair", {}, _show_repair)


def _show_problems(data: Mapping[str, Any], session: Session) -> str:
    checked = f"{data['checked']['files']} files"
    if session.stamp is None:
        checked += f" of {data['checked']['generations']} generations"
    checked += " looked at"
    lines = []
    for problem in data["problems"]:
        lines.append(f"wrong: {problem['summary']}")
        lines += _show_files(problem["files"])
        more = len(problem["files"]) - SHOWN_FILES
        if more > 0:
            lines.append(true_hint(f"  and {more} more, which this names: perdure-pm doctor --json", session) or "")
        lines.append(f"  try: {true_hint(problem['hint'], session)}")
    lines += [f"left over: {leftover}" for leftover in data["leftovers"]]
    if data["leftovers"]:
        lines.append(f"  try: {true_hint('perdure-pm collect', session)}")
    found = "nothing is wrong" if data["healthy"] else f"{len(data['problems'])} found wrong"
    how = "every byte" if data["deep"] else "sizes" if session.stamp is None else "that each is there"
    return "\n".join([*lines, f"{found}; {checked} ({how})"])


def _show_files(files: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"  {file['path']}{' of ' + file['distribution'] if file['distribution'] else ''}: {file['problem']}"
        for file in files[:SHOWN_FILES]
    ]


def _show_contents(data: Mapping[str, Any], session: Session) -> str:
    lines = []
    for generation in data["generations"]:
        runs = f", which {' and '.join(generation['profiles'])} run" if generation["profiles"] else ""
        lines.append(
            f"{generation['id']}{runs}: {'as it was sealed' if generation['sound'] else 'not as it was sealed'}"
        )
        lines += _show_files(generation["files"])
        more = len(generation["files"]) - SHOWN_FILES
        if more > 0:
            lines.append(f"  and {more} more, which --json names")
    if any(not generation["sound"] for generation in data["generations"]):
        lines.append(f"  try: {true_hint('perdure-pm repair', session)}")
    return "\n".join([*lines, f"{data['files']} files read"]) if lines else "there is no generation"


def _show_repair(data: Mapping[str, Any], status: str) -> str:
    if status == "noop":
        return "nothing is damaged"
    if data.get("dry_run"):
        return "\n".join(["would repair:", *(f"  {problem['summary']}" for problem in data["problems"])])
    lines = [f"{done['profile']}: {done['from']} was rebuilt as {done['generation']}" for done in data["rebuilt"]]
    lines += [f"{done['profile']}: {done['generation']} is selected again" for done in data["selected"]]
    lines += [f"{done['profile']}: installed anew as {done['generation']}" for done in data["anew"]]
    lines += [f"{identity} has its record again" for identity in data["restored"]]
    lines += [f"Python {version} of this home was brought in again" for version in data.get("interpreters", ())]
    lines += [f"the package {name} was brought in again" for name in data.get("packages", ())]
    lines += [f"mended: {summary}" for summary in data["mended"]]
    if data["separated"]:
        count = len(data["separated"])
        lines.append(f"{count} file{'' if count == 1 else 's'} of the home had a name outside of it, and has none now")
    lines += [f"{identity} is damaged and will not be selected any more" for identity in data["retired"]]
    return "\n".join(lines)

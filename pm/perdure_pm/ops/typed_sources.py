"""What a person types for a plugin, turned into the entry of the profile's list that means the same for good.

Owns: directories, files and repositories as they are typed; reading their names; the commit of a branch or a tag. Does
not own: the form of an entry (model.source), copies (snapshots).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from perdure_pm.model.errors import SourceUnusable, UsageFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.requirement import find_entry_problem
from perdure_pm.model.source import (
    COMMIT,
    Source,
    file_entry,
    git_entry,
    holds_secret,
    kind_of_file,
    leads_out,
    looks_like_path,
    split_repository,
    without_secret,
)
from perdure_pm.ops.context import Context
from perdure_pm.ops.plugin_project import read_plugin_project
from perdure_pm.ops.snapshots import fetch_tree, make_git
from perdure_pm.ops.wheel_file import read_metadata

_NAMED = re.compile(r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?\s*@\s*(?P<place>.+?)\s*")


def find_entry(context: Context, word: str, *, editable: bool = False) -> tuple[str, str]:
    """Return the entry that a typed word means, and what a person should know of it. The caller holds the mutex.

    Args:
        context: the world.
        word: a requirement, an entry, a path (absolute, the command line saw to that), ``git+…@REVISION``, or one of
            the latter two behind ``NAME @``.
        editable: whether it is to run from where it is edited, which only a directory can.

    Raises:
        UsageFault: it is none of them.
        SourceUnusable, ManifestInvalid: there is no plugin where it leads.
        NetworkUnreachable, ArtefactMissing: its repository could not be asked.
    """
    match = _NAMED.fullmatch(word)
    place = match["place"] if match else word.strip()
    name = normalise_distribution(match["name"]) if match else None
    extras = (
        tuple(sorted(extra.strip() for extra in (match["extras"] or "").split(",") if extra.strip())) if match else ()
    )
    if editable and (place.startswith("git+") or not looks_like_path(place) or kind_of_file(place) != "directory"):
        raise UsageFault(
            f"only a directory can run from where it is edited, and {without_secret(word)} is none",
            hint="name the directory: perdure-pm plugin add --editable ./DIRECTORY",
            context={"requirement": without_secret(word)},
        )
    if place.startswith("git+"):
        return _find_repository(context, place, name, extras)
    if looks_like_path(place):
        path = os.path.abspath(os.path.expanduser(place))
        if not os.path.lexists(path):
            raise SourceUnusable(
                f"there is no {path}",
                hint="name a directory, a wheel or an sdist; a plugin from an index is named without a path",
                context={"path": path},
            )
        return file_entry(name or _read_name(context, path), path, extras, editable=editable), ""
    problem = find_entry_problem(word)
    if problem is not None:
        raise UsageFault(
            f"a plugin {problem}",
            hint="write it as NAME, as NAME>=1,<2, as ./DIRECTORY, ./FILE.whl, or git+https://…@REVISION",
            context={"requirement": without_secret(word)},
        )
    return word, ""


def _find_repository(context: Context, place: str, name: str | None, extras: tuple[str, ...]) -> tuple[str, str]:
    if holds_secret(place):  # before anybody is asked, and without it in any message or receipt
        raise UsageFault(
            f"{without_secret(place)} must not hold a user or a password: git's own credentials are used",
            hint="leave them out; have git know them (git credential, ssh-agent, ~/.gitconfig)",
            context={"requirement": without_secret(place)},
        )
    url, revision, below = split_repository(place)
    if below is not None and leads_out(below):
        raise UsageFault(
            f"the subdirectory {below!r} of {place} leads out of the repository",
            hint="correct #subdirectory=",
            context={"requirement": place},
        )
    git = make_git(context, url)
    said = ""
    commit = revision or ""
    if revision is None or not COMMIT.fullmatch(revision):
        commit = git.find_commit(url, revision)
        said = f"{revision or 'the default branch'} of {url} is {commit} now; add it again to have it looked up anew"
    entry = git_entry(name or "unnamed", url, commit, below, extras)
    problem = find_entry_problem(entry)
    if problem is not None:
        raise UsageFault(
            f"{place} {problem}", hint="write it as git+https://…@REVISION", context={"requirement": place}
        )
    if name is None:
        source = Source(
            entry=entry, name="unnamed", extras=extras, kind="git", url=url, commit=commit, subdirectory=below
        )
        found = _read_tree_name(context, source)
        entry = git_entry(found, url, commit, below, extras)
    return entry, said


def _read_tree_name(context: Context, source: Source) -> str:
    """Return the name that a repository's or an sdist's own files say."""
    folder = context.layout.scratch / f"name-{os.urandom(6).hex()}"
    context.filesystem.make_directories(folder)
    try:
        fetch_tree(context, source, folder / "source")
        below = folder / "source" / (source.subdirectory or "")
        if not below.is_dir():
            raise SourceUnusable(
                f"{source.place} has no directory {source.subdirectory}", hint="correct #subdirectory="
            )
        return read_plugin_project(context.layout, below, source.place).name
    finally:
        context.filesystem.remove_tree(folder)


def _read_name(context: Context, path: str) -> str:
    kind = kind_of_file(path)
    if kind == "wheel":
        return normalise_distribution(str(read_metadata(Path(path))["name"]))
    if kind == "directory":
        if not os.path.isdir(path):
            raise SourceUnusable(
                f"{path} is neither a directory nor a wheel (.whl) nor an sdist (.tar.gz)", hint="name one of them"
            )
        return read_plugin_project(context.layout, Path(path), path).name
    return _read_tree_name(context, Source(entry="", name="unnamed", extras=(), kind="sdist", path=path))

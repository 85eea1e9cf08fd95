"""plugin new: a plugin to start from, which installs, runs and passes its own tests as it is written.

Owns: which names a new plugin may have, and writing its files, all of them or none. Does not own: their text
(perdure_pm/skeleton). The directory is outside the home, and a person's from then on. Keeps: skeleton-works,
skeleton-whole-or-none.
"""

from __future__ import annotations

import keyword
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import is_distribution_name, normalise_distribution
from perdure_pm.ops.release import OWN_PREFIX
from perdure_pm.store.generations import current_generation
from perdure_pm.store.layout import Layout

TEMPLATES = Path(__file__).resolve().parent.parent / "skeleton"
SUFFIX = ".txt"
"""Templates end so that no tool takes them for what they become."""
OWN_APP = "perdure"


def write_plugin(layout: Layout, profile: str, place: str, *, dry_run: bool) -> dict[str, object]:
    """Have a new plugin in a directory that does not exist yet, and return its name, place and files.

    Args:
        layout: the home whose host and packages its name must not take.
        profile: whose generation is looked at.
        place: the plugin's name, or a path that ends with it.
        dry_run: whether nothing is written.

    Raises:
        UsageFault: the name cannot be a plugin's, is taken, or the directory is there already.
        HomeUnusable, NoSpace: it cannot be written.
    """
    if not place.strip():
        raise UsageFault("the name of a new plugin is empty", hint="perdure-pm plugin new NAME")
    folder = Path(os.path.abspath(os.path.expanduser(place)))
    name = normalise_distribution(folder.name)
    _require_own_app(layout, profile)
    _require_name(folder.name, name, _taken(layout, profile))
    if os.path.lexists(folder):
        raise UsageFault(
            f"{folder} is there already",
            hint="choose another name, or another directory: perdure-pm plugin new DIRECTORY/NAME",
            context={"path": str(folder)},
        )
    if not folder.parent.is_dir():
        raise UsageFault(
            f"there is no directory {folder.parent}", hint="make it first", context={"path": str(folder.parent)}
        )
    module = name.replace("-", "_")
    words = {"@NAME@": name, "@MODULE@": module, "@TOOL@": module}
    texts = {_target(path, module): _fill(path, words) for path in sorted(TEMPLATES.rglob(f"*{SUFFIX}"))}
    if not dry_run:
        _write(folder, texts)
    return {"name": name, "path": str(folder), "files": sorted(texts)}


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Have the files in `folder`: written beside it and renamed, so that a crash leaves no half of a plugin."""
    beside = folder.with_name(f".{folder.name}.{os.urandom(6).hex()}.tmp")
    with explained(folder):
        try:
            for path, text in texts.items():
                (beside / path).parent.mkdir(parents=True, exist_ok=True)
                (beside / path).write_text(text, encoding="utf-8")
            os.rename(beside, folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def _target(path: Path, module: str) -> str:
    return path.relative_to(TEMPLATES).as_posix().removesuffix(SUFFIX).replace("MODULE", module)


def _fill(path: Path, words: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def _require_own_app(layout: Layout, profile: str) -> None:
    current = current_generation(layout, profile)
    host = None if current is None else str(current.record["host"]["name"])
    if host not in {None, OWN_APP}:
        raise UsageFault(
            f"what is written is a plugin of Perdure's own app, and {layout.home} hosts {host}",
            hint=f"see {host}'s own documentation; any project with an entry point can be added as ./DIRECTORY",
            context={"host": host},
        )


def _taken(layout: Layout, profile: str) -> set[str]:
    """Return the names of the distributions that the profile's generation has."""
    current = current_generation(layout, profile)
    return set() if current is None else {str(package["name"]) for package in current.record["packages"]}


def _require_name(typed: str, name: str, taken: Collection[str]) -> None:
    module = name.replace("-", "_").replace(".", "_")
    problem = ""
    if not is_distribution_name(typed):
        problem = "is no distribution's name: letters, digits and single dashes between them"
    elif not module.isidentifier() or keyword.iskeyword(module):
        problem = f"gives no module's name: {module} cannot be imported"
    elif len(name) > 50:
        problem = "is too long: a tool's name begins with it"
    elif module in sys.stdlib_module_names or name == OWN_APP:
        problem = f"is taken: {module} is {'the host' if name == OWN_APP else 'a module of Python itself'}"
    elif name in taken:
        problem = "is taken: the application has a distribution of that name"
    elif name.startswith(OWN_PREFIX):
        problem = f"begins with {OWN_PREFIX}, which stands for what ships with the application"
    if problem:
        raise UsageFault(f"{typed!r} {problem}", hint="choose another name", context={"name": typed})

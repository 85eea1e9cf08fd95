"""Every byte of generations compared with what was sealed: the narrow question that a script asks before it goes there.

Owns: which generations are read, and how bad what is found is. Does not own: reading one (soundness), nor everything
else that may be wrong with a home, which doctor says with what mends it.

Keeps: doctor-answers-always, for the generations: no mutex, no write and no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure_pm.model.errors import EXIT_DONE, EXIT_FOUND_WORK, EXIT_INTEGRITY, IntegrityFault
from perdure_pm.ops.soundness import find_all_damage
from perdure_pm.store.generations import RECORD, find_generation, known_inventory, list_generations
from perdure_pm.store.inventory import Finding
from perdure_pm.store.labels import load_names
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer


def check_contents(layout: Layout, wanted: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return what of the generations is not as it was sealed, and the exit code that says so.

    Args:
        layout: the home.
        wanted: numbers, ids or labels; without any, every generation that is kept is read.

    Returns:
        ``generations``: each with its id, the profiles that run it, whether it is sound, and every file that is not;
        ``files``: how many were read. The code is 0 where all is as it was sealed, 8 where something that a profile
        runs or that was named is not, and 3 where only others are not: those a repair takes out of the choice.

    Raises:
        UsageFault: one of them names no generation.
    """
    running: dict[str, list[str]] = {}
    for profile in list_profiles(layout):
        try:
            running.setdefault(load_pointer(layout, profile) or "", []).append(profile)
        except IntegrityFault:
            continue  # doctor says so; this is about generations
    hashes: dict[tuple[int, int], str] = {}
    sealed, damaged = list_generations(layout)
    reasons = {broken.identity: broken.reason for broken in damaged}
    there = {generation.identity: generation for generation in sealed}
    names = [_find(layout, word, reasons) for word in wanted] or [*there, *reasons]
    data: list[dict[str, Any]] = []
    files, worst = 0, EXIT_DONE
    for identity in dict.fromkeys(names):
        if identity in there:
            findings = find_all_damage(layout, there[identity], deep=True, hashes=hashes)
            files += len(known_inventory(layout, there[identity]).files)
        else:
            findings = [Finding(RECORD, reasons[identity])]
        matters = bool(wanted) or identity in running
        if findings:
            worst = max(worst, EXIT_INTEGRITY if matters else EXIT_FOUND_WORK)
        data.append(
            {
                "id": identity,
                "profiles": running.get(identity, []),
                "sound": not findings,
                "files": [finding.to_json() for finding in findings],
            }
        )
    return {"generations": data, "files": files}, worst


def _find(layout: Layout, word: str, broken: dict[str, str]) -> str:
    """Return the generation that a person means, also where its record is damaged."""
    try:
        return find_generation(layout, word, load_names(layout, word)).identity
    except IntegrityFault as fault:
        identity = Path(str(fault.context.get("path", ""))).parent.name
        if identity not in broken:
            raise  # the labels are what cannot be read
        return identity

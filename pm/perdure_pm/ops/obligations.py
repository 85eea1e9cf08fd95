"""What an operation could not finish itself: processes that still run from a generation which is not selected any more.

Owns: finding them. Does not own: the receipt that carries them (the worker, for every operation that leaves one,
however it ended). They are looked for anew each time, so later receipts carry an obligation until the last process is
gone, and none outlives its reason.

Keeps: obligation-carried-forward.
"""

from __future__ import annotations

import sys

from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ops.profiles import find_lagging_profiles
from perdure_pm.store.generations import list_identities
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer

SHOWN = 5
"""How many processes are named one by one."""


def find_obligations(layout: Layout) -> tuple[str, ...]:
    """Return a sentence for each generation that no profile selects and that runs, and for each profile that lags."""
    try:
        selected = {load_pointer(layout, profile) for profile in list_profiles(layout)}
    except IntegrityFault:
        return ()  # what is selected cannot be told, and nobody is to restart what may be right
    used = {identity: users for identity, users in find_users(layout).items() if identity not in selected}
    said = []
    for identity, users in sorted(used.items()):
        numbers = ", ".join(str(user.pid) for user in users[:SHOWN]) + (", …" if len(users) > SHOWN else "")
        what = "1 process still runs" if len(users) == 1 else f"{len(users)} processes still run"
        said.append(f"{what} {identity}: restart {'it' if len(users) == 1 else 'them'} ({numbers})")
    # Another platform, or another container on the same home: the lease tells that there is one, and not which.
    others = [name for name in list_identities(layout) if name not in selected and name not in used]
    said += [
        f"a process that does not show here still runs {identity}: restart it"
        for identity in others
        if sys.platform != "win32" and is_leased(layout.generation(identity))
    ]
    return (*said, *find_lagging_profiles(layout))

"""The guard's tables, which lie beside its modules.

Owns: reading one. Does not own: what it says. All that this needs is loaded with the first verdict, not with the guard.
"""

from __future__ import annotations


def table(name: str) -> dict[str, object]:
    """Return a table by its file's name."""
    import pkgutil  # what importlib.resources needs for the same takes longer to load
    import tomllib

    data = pkgutil.get_data("perdure.guard", name)
    if data is None:
        raise FileNotFoundError(name)
    return tomllib.loads(data.decode())

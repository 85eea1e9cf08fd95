"""Lazy installs: what no person asked for in so many words is refused where that is not allowed.

Owns: the refusal. Does not own: whether it is allowed (store.policy, by way of the context).
"""

from __future__ import annotations

from perdure_pm.model.errors import LazyInstallRefused
from perdure_pm.ops.context import Context


def require_asked(context: Context) -> None:
    """Return when a person asked for what is about to be fetched or built, or it may be done unasked.

    Raises:
        LazyInstallRefused: neither; nothing was fetched.
    """
    if context.lazy and not context.lazy_allowed:
        raise LazyInstallRefused(
            "an install is needed that nobody asked for, and lazy installs are off",
            hint=f'"{context.layout.bin / "perdure-pm"}" install',
        )

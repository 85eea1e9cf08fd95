"""How a plugin is called: the mark of its hooks, and the host that they are given."""

import pluggy

from perdure.domain.host import Host

__all__ = ["Host", "hookimpl"]

hookimpl = pluggy.HookimplMarker("perdure")
"""Marks a function as the implementation of the hook that it is named after."""

"""What a home says of its plugins: the host of those that it runs, and PM of each one's state.

Owns: asking. Does not own: what is asserted.
"""

from __future__ import annotations

import json

from tests.pm.bench import Bench


def running(bench: Bench, profile: str = "default") -> list[str]:
    """Return the plugins that the host says it runs, in their order."""
    ended = bench.start(variables={"PERDURE_PROFILE": profile})
    assert ended.returncode == 0, ended.stderr
    return list(json.loads(ended.stdout)["plugins"])


def states(bench: Bench, profile: str = "default") -> dict[str, str]:
    """Return what `plugin list` says of each plugin."""
    data = bench.pm("plugin", "list", "--profile", profile, "--json").envelope["data"]
    return {state["name"]: state["state"] for state in data["states"]}

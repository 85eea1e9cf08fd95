"""pm/policy: the few settings that bootstrap and launchers must know before they can read YAML.

Owns: its lines, and whether anything may be installed that nobody asked for. Does not own: config.yaml, which it
mirrors (store.config). Keeps: only a literal `true` is true; what cannot be read, does not match config.yaml, or is
unclear, is off; reading changes and prints nothing.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.settings import parse_boolean
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

VERSION = "1"
ABSENT = "absent"
VARIABLE = "PERDURE_NO_LAZY"
MAX_BYTES = 4096
MAX_CONFIG_BYTES = 1 << 20
"""More than this in a config.yaml is a fault, and is not read."""


def lazy_allowed(layout: Layout, environ: Mapping[str, str], no_lazy: bool | None = None) -> bool:  # noqa: FBT001 - the third of three answers to one question
    """Return whether an install that nobody asked for may be made: flag, then variable, then pm/policy.

    Neither the flag nor the variable can allow what pm/policy forbids.
    """
    try:
        if no_lazy or parse_boolean(environ.get(VARIABLE, ""), VARIABLE):
            return False
    except UsageFault:
        return False
    return _mirrored(layout)


def mirror_policy(filesystem: Filesystem, layout: Layout, *, lazy: bool, config_digest: str | None = None) -> None:
    """Have pm/policy say `lazy` for the config.yaml of that digest; an unchanged file keeps its bytes.

    Args:
        filesystem: where it is written.
        layout: the home.
        lazy: what config.yaml says.
        config_digest: of the config.yaml that said it, which may have been changed since; by default, as it is now.
    """
    digest = config_digest or config_digest_now(layout)
    if digest is None:
        return  # nothing to mirror; what stands there does not match, which means off
    data = f"version={VERSION}\nlazy={'true' if lazy else 'false'}\nconfig={digest}\n".encode()
    if _read(layout) != data:
        filesystem.make_directories(layout.pm)
        filesystem.write_durable(layout.policy, data)


def config_digest_now(layout: Layout) -> str | None:
    """Return the sha256 of config.yaml in hex, `absent` where there is none, or None where it cannot be read."""
    try:
        return hashlib.sha256(read_regular(layout.config, MAX_CONFIG_BYTES)).hexdigest()
    except FileNotFoundError:
        return None if layout.config.is_symlink() else ABSENT
    except OSError:
        return None


def _mirrored(layout: Layout) -> bool:
    data = _read(layout)
    digest = config_digest_now(layout)
    if data is None:
        return digest == ABSENT and not layout.policy.is_symlink() and not layout.policy.exists()
    try:
        pairs = [line.split("=", 1) for line in data.decode("ascii").splitlines()]
        values = dict(pairs)
    except ValueError:
        return False
    return (
        len(values) == len(pairs)
        and values.get("version") == VERSION
        and values.get("config") == digest
        and values.get("lazy") == "true"
    )


def _read(layout: Layout) -> bytes | None:
    try:
        return read_regular(layout.policy, MAX_BYTES)
    except OSError:
        return None

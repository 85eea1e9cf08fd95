"""What may be built from source, and what a build finds beside its own tools.

Owns: the settings by which a build has the host in its environment, and the words that say which names to allow. Does
not own: what is built when (adapters.uv), nor whether it may be (config.yaml).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import BuildFailed, BuildRefused
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.release import Release
from perdure_pm.ops.trials import host_pins
from perdure_pm.store.layout import Layout


def with_host_in_builds(
    uv: Uv, filesystem: ports.Filesystem, layout: Layout, release: Release, config: HomeConfig
) -> Uv:
    """Return a uv whose builds of the distributions that are named for it have the host beside their own tools.

    They get it as its lock has it: what is imported at the build is what the plugin will run with.
    """
    if not config.build_with_host:
        return uv
    host = [_named(wheel) for wheel in release.wheels] + list(release.direct) + host_pins(release)
    lines = ["[extra-build-dependencies]", *(f"{json.dumps(n)} = {json.dumps(host)}" for n in config.build_with_host)]
    text = "\n".join(lines) + "\n"
    path = layout.scratch / f"builds-{hashlib.sha256(text.encode()).hexdigest()[:12]}.toml"
    filesystem.make_directories(path.parent)
    filesystem.write_durable(path, text.encode())
    return uv.with_settings(path)


def name_what_to_allow(fault: BuildFailed, config: HomeConfig) -> BuildFailed:
    """Return the error with a hint that keeps what is allowed already: a setting is written as a whole."""
    package, setting = fault.context.get("package"), fault.context.get("setting")
    if not isinstance(package, str) or setting not in {"install.build", "install.build-with-host"}:
        return fault
    with_host = setting == "install.build-with-host"
    before = config.build_with_host if with_host else tuple(n for n in config.build if n not in config.build_with_host)
    if package in before:
        why = "its build has the host beside it already" if with_host else "its build is allowed already"
        return BuildFailed(f"{fault.summary} ({why})", context=fault.context)
    reason = "where its build needs the host" if with_host else "where you trust it"
    command = f"perdure-pm config set {setting} {','.join([*before, package])}"
    context = dict(fault.context)
    if isinstance(fault, BuildRefused) and config.admission.build_policy == "ask":
        # What a terminal asks about; the answer is kept, else the next operation would be refused again.
        context |= {"allow": [*before, package], "question": f"{fault.summary}. Build {package} all the same?"}
    return type(fault)(fault.summary, hint=f"{reason}: {command}", context=context)


def _named(wheel: Wheel) -> str:
    return f"{wheel.distribution} @ {Path(wheel.path).absolute().as_uri()}"

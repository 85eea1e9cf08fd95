"""What may be built from source, and what a build installs for itself.

Owns: the settings by which a build has the host in its environment, the quarantine of what else it installs, and the
words that say which names to allow. Does not own: what is built when (adapters.uv), nor whether it may be
(config.yaml).

Keeps: plugins-quarantine, for builds: what one installs stands in no lock, so it is kept out from the start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from perdure_pm.adapters.uv import Uv
from perdure_pm.model.admission import Admission
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import BuildFailed, BuildRefused
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.context import Context
from perdure_pm.ops.release import Release
from perdure_pm.ops.screening import format_cutoff, read_ages
from perdure_pm.ops.trials import host_pins
from perdure_pm.store.generations import Generation


def prepare_builds(context: Context, uv: Uv, release: Release, config: HomeConfig, current: Generation | None) -> Uv:
    """Return a uv whose builds install what they may: nothing in quarantine, and the host where it is named for them.

    They get the host as its lock has it: what is imported at the build is what the plugin will run with.
    """
    layout = context.layout
    locks = [layout.release(release.digest) / "uv.lock", *([] if current is None else [current.path / "uv.lock"])]
    uv = with_quarantine(uv, config.admission, context.clock(), locks)
    if not config.build_with_host:
        return uv
    host = [_named(wheel) for wheel in release.wheels] + list(release.direct) + host_pins(release)
    lines = ["[extra-build-dependencies]", *(f"{json.dumps(n)} = {json.dumps(host)}" for n in config.build_with_host)]
    text = "\n".join(lines) + "\n"
    path = layout.scratch / f"builds-{hashlib.sha256(text.encode()).hexdigest()[:12]}.toml"
    context.filesystem.make_directories(path.parent)
    context.filesystem.write_durable(path, text.encode())
    return uv.with_settings(path)


def with_quarantine(uv: Uv, rules: Admission, now: datetime, locks: Sequence[Path | str]) -> Uv:
    """Return a uv whose builds install nothing that is in quarantine.

    Args:
        uv: the uv to build with.
        rules: of the home.
        now: when it is.
        locks: uv.lock files, where they are there, or their texts: what they hold was let in, and counts also where it
            is newer.
    """
    if not rules.quarantine:
        return uv
    cutoff = now - rules.quarantine
    spared = {exemption.name for exemption in rules.exemptions}  # which of them count is seen by the answer
    for lock in locks if rules.builds is None or rules.builds else ():
        with contextlib.suppress(OSError, ValueError):
            ages = read_ages(lock if isinstance(lock, str) else lock.read_text(encoding="utf-8"))
            spared |= {aged.name for aged in ages if aged.newest is None or aged.newest > cutoff}
    return uv.with_cutoff(format_cutoff(cutoff), sorted(spared))


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

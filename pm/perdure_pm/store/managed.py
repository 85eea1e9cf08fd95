"""The install stamp: that a package manager of the system installed this PM, and what it installed with it.

Owns: the form of install.json, and refusing what would change such an installation. Does not own: writing it (nix/),
nor what status and doctor say of it (ops.managed). Keeps: nix-refuses: PM never changes what another program manages,
and never installs beside it what that program would not know of.

The stamp lies in the prefix of the running interpreter: no variable and no option leads to another one. It lies where
only that package manager writes, so a stamp that cannot be read is damage, and counts as one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.model.errors import IntegrityFault, ManagedElsewhere
from perdure_pm.store.reading import read_regular

STAMP = "install.json"
SCHEMA = 1
_MAX_BYTES = 1 << 20

WAYS: dict[str, str] = {
    "collect": "nix-collect-garbage",
    "install": "nix profile upgrade, or nixos-rebuild switch on NixOS",
    "repair": "nix-store --verify --check-contents --repair",
    "rollback": "nix profile rollback, or nixos-rebuild switch --rollback on NixOS",
    "uninstall": "nix profile remove, or take it out of the configuration on NixOS",
    "upgrade": "nix flake update, then nix profile upgrade, or nixos-rebuild switch on NixOS",
    "verify": "nix-store --verify --check-contents",
}
"""What does with Nix what a verb does without it."""
OTHER_WAY = (
    "change it in the flake and build again; or have an installation of PM's own beside it, in a checkout: "
    "python3 pm/bootstrap.py --home DIR up"
)
"""What to do where Nix has no such verb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a package manager of the system installed."""

    place: Path
    """The directory of the installation."""
    manager: str
    """``nix``."""
    host: dict[str, Any] | None
    """``name``, ``version``, ``commands`` of the app; None where PM was installed alone."""
    plugins: tuple[dict[str, str], ...]
    """``name`` and ``version`` of each."""
    packages: tuple[dict[str, str], ...]
    """The same of everything in the app's environment."""
    app: Path | None
    pm: Path
    """The two environments."""
    python: str
    uv: str
    """Versions."""

    @property
    def launcher(self) -> Path:
        """The command by which this PM is called."""
        return self.place / "bin" / "perdure-pm"


def load_stamp(prefix: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of the installation whose interpreter has this prefix; None where there is none.

    Raises:
        IntegrityFault: it is not what was written.
    """
    path = Path(prefix, STAMP)
    try:
        data = json.loads(read_regular(path, _MAX_BYTES))
        if data["schema"] != SCHEMA:
            raise ValueError(f"its schema is {data['schema']!r}, and this reads {SCHEMA}")
        place = Path(os.path.realpath(path)).parent
        host = data["host"]
        return Stamp(
            place=place,
            manager=str(data["manager"]),
            host=None if host is None else {**host, "name": str(host["name"]), "version": str(host["version"])},
            plugins=_named(data["plugins"]),
            packages=_named(data.get("packages", [])),
            app=None if data["app"] is None else Path(data["app"]),
            pm=Path(data.get("pm") or place),
            python=str(data["python"]),
            uv=str(data["uv"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityFault(
            f"the install stamp {path} is damaged: {error}", hint=WAYS["repair"], context={"path": str(path)}
        ) from error


def refuse_managed(stamp: Stamp, verb: str) -> None:
    """Refuse a verb, or an operation of the same name, that would change an installation.

    Raises:
        ManagedElsewhere: always; it says what does the same with the package manager that manages it.
    """
    first = verb.replace("-", " ").partition(" ")[0]
    raise ManagedElsewhere(
        f"{stamp.place} was installed by Nix, and PM changes nothing there: {verb} is not done",
        hint=WAYS.get(first, OTHER_WAY),
        context={"manager": stamp.manager, "path": str(stamp.place), "verb": verb},
    )


def _named(items: Any) -> tuple[dict[str, str], ...]:
    return tuple({"name": str(item["name"]), "version": str(item["version"])} for item in items)

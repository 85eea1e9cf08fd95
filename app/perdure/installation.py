"""Where this process runs from.

Owns: telling a generation, and what Nix installed, from any other environment, the home it lies in, reading its
boot.json, and the command lines by which a message may refer to this installation. Does not own: the home's layout
beyond the four names used here (pm's store/layout does), or writing anything. Keeps: app-outside-a-generation,
app-boot-faults-named, app-hints-run.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from perdure import __version__
from perdure.domain.boot import Boot, BootFaults, parse_boot
from perdure.domain.errors import BootInvalid, BootMissing
from perdure.domain.host import Host
from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The environment of this process, and the generation and home around it, if any."""

    executable: Path
    """The interpreter."""
    generation: Path | None
    """The generation's directory; None when the app runs from some other environment.

    What Nix installed counts as one: a complete environment that never changes, with its boot manifest beside it.
    """
    home: Path
    """The home around the generation; elsewhere, the home that `perdure pm` would talk to."""
    managed: bool = False
    """Whether Nix installed it: then its commands lie beside it, and none in the home."""

    @property
    def bin(self) -> Path:
        """The directory of the commands."""
        return self.generation / "bin" if self.managed and self.generation is not None else self.home / "bin"

    @property
    def boot_path(self) -> Path | None:
        return None if self.generation is None else self.generation / "boot.json"

    @property
    def pm_launcher(self) -> Path:
        return self.bin / ("perdure-pm.cmd" if sys.platform == "win32" else "perdure-pm")

    def host(self) -> Host:
        """Return what plugins are told about this process."""
        return Host(
            version=__version__,
            python=".".join(map(str, sys.version_info[:3])),
            executable=self.executable,
            generation=None if self.generation is None else self.generation.name,
            home=None if self.generation is None else self.home,
        )

    def app_command(self, *words: str) -> str:
        """Return a command line that runs `words` of this very app, for a hint."""
        launcher = self.bin / ("perdure.cmd" if sys.platform == "win32" else "perdure")
        if self.generation is not None and os.access(launcher, os.X_OK):
            return shlex.join([str(launcher), *words])
        return shlex.join([str(self.executable), "-m", "perdure", *words])

    def pm_command(self, *words: str) -> str:
        """Return a command line that runs `words` of the home's PM, for a hint; without a PM, the way to get one."""
        if self.managed and words[:1] in (("install",), ("repair",)):
            return "nix-store --verify --check-contents --repair"  # PM refuses both there, and names the same
        if os.access(self.pm_launcher, os.X_OK):
            return shlex.join([str(self.pm_launcher), *words])
        bootstrap = shlex.join(["python3", "pm/bootstrap.py", "--home", str(self.home), "up"])
        return f"{bootstrap}   (in a checkout of Perdure)"

    def load_boot(self) -> Boot | None:
        """Return the generation's boot manifest, or None outside a generation.

        This one file is everything that is read to learn which plugins there are.

        Raises:
            BootMissing: the generation has none.
            BootInvalid: it cannot be read, or is not one.
        """
        path = self.boot_path
        if path is None:
            return None
        hint = self.pm_command("install")
        try:
            return parse_boot(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            message = f"{path} is missing: this generation does not say which plugins it holds"
            raise BootMissing(message, hint=hint, context={"path": str(path)}) from error
        except BootFaults as error:
            context = {"path": str(path), "faults": error.faults}
            raise BootInvalid(f"{path} is not a boot manifest: {error}", hint=hint, context=context) from error
        except (OSError, UnicodeDecodeError) as error:
            context = {"path": str(path), "faults": [str(error)]}
            raise BootInvalid(f"{path} cannot be read: {error}", hint=hint, context=context) from error


def find_installation(prefix: str, executable: str, environ: Mapping[str, str]) -> Installation:
    """Return where the process with this `sys.prefix` and `sys.executable` runs from.

    Args:
        prefix: the environment's directory. A generation's is `<home>/store/generations/<id>/venv`; the launcher may
            spell it with `bin/..` inside.
        executable: the interpreter.
        environ: names the home outside a home's generation: `PERDURE_HOME`, else the platform's data directory +
            `perdure`.
    """
    venv = Path(os.path.abspath(prefix))
    place = venv.parent
    # The install stamp lies where only Nix writes; which installation this is, no variable can say otherwise.
    managed = venv.name == "venv" and (place / "install.json").is_file()
    is_generation = venv.name == "venv" and place.parent.name == "generations" and place.parent.parent.name == "store"
    return Installation(
        executable=Path(os.path.abspath(executable)),
        generation=place if is_generation or managed else None,
        home=place.parents[2] if is_generation and not managed else _default_home(environ),
        managed=managed,
    )


def _default_home(environ: Mapping[str, str]) -> Path:
    # pm's store/layout has the same rule; the app imports nothing of pm.
    chosen = environ.get("PERDURE_HOME")
    if chosen:
        return Path(os.path.abspath(chosen))
    user = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or user / "AppData" / "Local") / "perdure"
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "perdure"
    data = environ.get("XDG_DATA_HOME", "")
    return (Path(data) if os.path.isabs(data) else user / ".local" / "share") / "perdure"

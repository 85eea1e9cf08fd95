"""uv: the only module that knows its flags, its environment, and how to read its answers.

Owns: command lines, the scrubbed environment. Does not own: what a failure means (adapters.uv_failures), what is built
(ops). Measured traps it keeps to (uv 0.13): `uv sync --frozen` ignores another index, so locks are exported and
installed with hashes; `--no-config` alone does not silence UV_* variables; with pyvenv.cfg gone uv writes into the base
interpreter; in a path with a newline uv compiles nothing, so byte code is compiled by the interpreter itself.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure_pm.adapters.processes import Completed, run
from perdure_pm.model.errors import (
    BuildFailed,
    HomeUnusable,
    IntegrityFault,
    InterpreterMissing,
    NoSpace,
    PerdureError,
)
from perdure_pm.model.lock_view import with_cutoff, without_cutoff
from perdure_pm.model.network import Network
from perdure_pm.store.layout import Layout, environment_python

PASSED = frozenset(
    name
    for base in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC")
    for name in (base, base.lower())
) | {"SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "PROCESSOR_ARCHITECTURE"}
"""Variables that reach uv: how this machine reaches the network, and what Windows needs to start a process."""

STEP_SECONDS = 1800.0
"""The longest that one call of uv may take."""


class Uv:
    """One uv binary, with PM's own cache, settings and interpreters."""

    def __init__(
        self,
        binary: Path,
        layout: Layout,
        network: Network,
        environ: Mapping[str, str],
        *,
        on_line: Callable[[str], None] = lambda line: None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.binary = binary
        self.network = network
        self._layout = layout
        self._environ = environ
        self._on_line = on_line
        self._on_tick = on_tick
        self._settings: Path | None = None
        self._cutoff: str | None = None
        self._spared: tuple[str, ...] = ()

    def with_network(self, network: Network) -> Uv:
        """Return the same uv that reaches the network another way."""
        other = Uv(self.binary, self._layout, network, self._environ, on_line=self._on_line, on_tick=self._on_tick)
        other._settings = self._settings
        return other

    def with_settings(self, settings: Path) -> Uv:
        """Return the same uv that reads one settings file of PM's (a uv.toml), and still no other."""
        other = Uv(self.binary, self._layout, self.network, self._environ, on_line=self._on_line, on_tick=self._on_tick)
        other._settings, other._cutoff, other._spared = settings, self._cutoff, self._spared
        return other

    def with_cutoff(self, moment: str, spared: Sequence[str]) -> Uv:
        """Return the same uv whose builds install nothing that was uploaded after `moment` (a time in RFC 3339).

        Of the distributions `spared` newer files count too: they are pinned to what was let in already.
        """
        other = Uv(self.binary, self._layout, self.network, self._environ, on_line=self._on_line, on_tick=self._on_tick)
        other._settings, other._cutoff, other._spared = self._settings, moment, tuple(spared)
        return other

    def build_wheel(self, source: Path, target: Path, python: Path) -> Path:
        """Return the wheel of the project at `source`, built into the empty directory `target`.

        The project's build backend is the one that uv brings (uv_build), so nothing is fetched.
        """
        self._uv(
            ["build", "--wheel", "--offline", "--out-dir", target, "--python", python, "--no-create-gitignore", source],
            f"building a wheel of {source.name}",
        )
        return _only_wheel(target, source.name)

    def build_source(
        self,
        source: Path,
        target: Path,
        python: Path,
        what: str,
        *,
        builds: Sequence[str] | None = (),
        variables: Mapping[str, str] | None = None,
    ) -> Path:
        """Return the wheel of the project at `source`, built into the empty directory `target` by its own backend.

        The backend runs in an environment that uv makes for it and nothing else, from the same index as everything; it
        may write into `source`, which is a copy.

        Args:
            source: the copy.
            target: where the wheel goes.
            python: the interpreter that it is for.
            what: the project's name, for messages.
            builds: as for `lock`, of what the backend itself needs.
            variables: what the backend is told beside.
        """
        arguments: list[str | Path] = ["build", "--wheel", "--out-dir", target, "--python", python, "--no-sources"]
        arguments += [*_build_arguments(builds), "--no-create-gitignore", *self._index_arguments()]
        told = variables or {}
        self._sparing(
            lambda exempt: self._uv([*arguments, *self._dated(exempt), source], f"building {what}", variables=told)
        )
        return _only_wheel(target, what)

    def export(self, project: Path, python: Path, *, groups: Sequence[str] = (), extras: Sequence[str] = ()) -> str:
        """Return the requirements, pinned and hashed, that a project's lock holds for it, `groups` and `extras`.

        Packages from the project's own tree are left out; markers stay as the lock has them.
        """
        arguments: list[str | Path] = ["export", "--frozen", "--no-header", "--no-annotate", "--no-emit-local"]
        arguments += ["--no-default-groups", "--offline", "--project", project, "--python", python]
        for group in groups:
            arguments += ["--group", group]
        for extra in extras:
            arguments += ["--extra", extra]
        text = self._uv(arguments, f"reading {project / 'uv.lock'}").stdout
        # A release keeps this for good: whatever else uv printed must not get into it.
        odd = next((line for line in text.splitlines() if line and not _EXPORTED.match(line)), None)
        if odd is not None:
            raise BuildFailed(
                f"uv gave something else than requirements while reading {project / 'uv.lock'}: {odd[:80]}"
            )
        return text

    def make_environment(self, path: Path, python: Path) -> None:
        """Make an empty virtual environment at `path` that still works when its parent directory moves."""
        self._uv(
            ["venv", "--relocatable", "--no-project", "--offline", "--python", python, path], f"making {path.name}"
        )

    def install(self, environment: Path, requirements: Path, *, prebuilt: Sequence[str] | None = None) -> None:
        """Have exactly the hashed requirements of the file installed.

        Nothing is built from source, or, where `prebuilt` is given, only what is not among its names.
        """
        if not (environment / "pyvenv.cfg").is_file():
            raise IntegrityFault(
                f"{environment} has no pyvenv.cfg: uv would install into the interpreter behind it",
                hint="run the same command again",
            )
        arguments: list[str | Path] = ["pip", "install", "--require-hashes", "--no-deps"]
        if prebuilt is None:
            arguments.append("--no-build")
        for name in prebuilt or ():
            arguments += ["--only-binary", name]
        arguments += ["--link-mode", "hardlink", "--python", environment_python(environment)]
        arguments += [*self._index_arguments(), "--requirements", requirements]
        if prebuilt is None:
            self._link_or_fetch(arguments)
        else:
            self._sparing(lambda exempt: self._link_or_fetch([*arguments, *self._dated(exempt)]))

    def _link_or_fetch(self, arguments: Sequence[str | Path]) -> None:
        # What is pinned and hashed is the same from the cache, and an index need not be asked whether it still is.
        if self.network.fetches:
            try:
                self._uv([*arguments, "--offline"], "linking")
            except PerdureError as error:
                if isinstance(error, NoSpace):
                    raise
            else:
                return
        self._uv(arguments, "installing packages")

    def install_interpreter(self, request: str, *, instead: bool = False) -> Path:
        """Return the interpreter for `request` (``3.13``), installed below the home and nowhere else.

        With `instead`, one that is there already is installed again.

        Raises:
            InterpreterMissing: there is no such download, or it does not land where it should.
        """
        arguments: list[str | Path] = ["python", "install", "--no-bin", "--compile-bytecode"]
        arguments += ["--reinstall"] if instead else []
        arguments += ["--install-dir", self._layout.interpreters]
        if self.network.python_downloads is not None:
            arguments += ["--python-downloads-json-url", self.network.python_downloads]
        if self.network.offline or (self.network.wheelhouse is not None and self.network.python_downloads is None):
            arguments += ["--offline"]
        self._uv([*arguments, request], f"installing Python {request}")
        found = self._uv(
            ["python", "find", "--managed-python", "--no-project", "--offline", request], f"finding Python {request}"
        )
        path = Path(os.path.realpath(found.stdout.strip()))
        if not path.is_file() or self._layout.interpreters not in path.parents:
            raise InterpreterMissing(
                f"uv installed Python {request}, but it is not below {self._layout.interpreters}",
                hint="name an installed Python of at least 3.11 with --python PATH",
            )
        return path

    def list_downloads(self) -> list[dict[str, Any]]:
        """Return what `install_interpreter` could bring in, the newest patch of each version: its version and key."""
        arguments: list[str | Path] = ["python", "list", "--only-downloads", "--output-format", "json"]
        if self.network.python_downloads is not None:
            arguments += ["--python-downloads-json-url", self.network.python_downloads]
        listed = json.loads(self._uv(arguments, "reading the list of interpreters").stdout)
        return [
            {"version": str(entry["version"]), "key": str(entry["key"])}
            for entry in listed
            if entry.get("implementation") == "cpython" and entry.get("variant") == "default"
        ]

    def forget(self, distributions: Sequence[str]) -> None:
        """Have nothing of the distributions left in the cache: what lies there was found to be wrong."""
        self._uv(["cache", "clean", "--force", *distributions], f"cleaning {', '.join(distributions)} out of the cache")

    def prune(self) -> None:
        """Have nothing in the cache that no entry of it leads to."""
        self._uv(["cache", "prune", "--force"], "pruning the cache")

    def lock(
        self,
        project: Path,
        python: Path,
        *,
        exclude_newer: str | None = None,
        exempt: Sequence[str] = (),
        from_cache: bool = False,
        final_only: bool = False,
        builds: Sequence[str] | None = (),
        renew: Sequence[str] = (),
    ) -> None:
        """Have the generated project at `project` locked; versions in a lock that is already there stay if they fit.

        Those of the distributions `renew` are looked up anew all the same. With `exclude_newer` (a time in RFC 3339) no
        file counts that was uploaded later, except of the distributions `exempt`; the lock that comes of it does not
        say so, else the next resolution would not take its versions over. No source is built to learn what it needs but
        those of the distributions `builds`; None stands for all.

        With `from_cache` no index is asked, which is right where every version is one that was resolved before. With
        `final_only` a pre-release is taken only where a requirement names one; without it also where there is no other.

        Raises:
            BuildFailed: uv found no solution; whether it is a conflict shows only when the parts resolve alone.
        """
        arguments: list[str | Path] = ["lock", "--project", project, "--python", python, *self._index_arguments()]
        arguments += ["--prerelease", "explicit" if final_only else "if-necessary-or-explicit"]
        arguments += ["--offline"] if from_cache and self.network.fetches else []
        for name in renew:
            arguments += ["--upgrade-package", name]
        arguments += _build_arguments(builds)
        lock = project / "uv.lock"
        if exclude_newer is not None:
            self._lock(lock, arguments, exclude_newer, exempt)
        elif self._cutoff is None or (builds is not None and not builds):
            self._uv(arguments, "resolving")
        else:  # what a build installs is in no lock that could be looked at afterwards
            cutoff = self._cutoff
            self._sparing(lambda exempt: self._lock(lock, arguments, cutoff, exempt))

    def _lock(self, lock: Path, arguments: Sequence[str | Path], cutoff: str, exempt: Sequence[str]) -> None:
        if lock.is_file():  # one with another cutoff would not be read at all
            text = without_cutoff(lock.read_text(encoding="utf-8"))
            lock.write_text(with_cutoff(text, cutoff, exempt), encoding="utf-8")
        self._uv([*arguments, *_cutoff_arguments(cutoff, exempt)], "resolving")
        lock.write_text(without_cutoff(lock.read_text(encoding="utf-8")), encoding="utf-8")

    def _sparing(self, call: Callable[[Sequence[str]], object]) -> None:
        """Make a call with the names that may be newer than the cutoff; with more of them where it has to be.

        An index that does not say when a file was uploaded offers nothing under a cutoff. Whatever uv misses for that
        reason is of unknown age and no more: the call is made again with it let in.
        """
        exempt = set(self._spared)
        while True:
            try:
                call(sorted(exempt))
            except PerdureError as failure:
                said = failure.context.get("undated")
                undated = set(said) - exempt if isinstance(said, list) else set()
                if not undated or self._cutoff is None:
                    raise
                exempt |= undated
            else:
                return

    def _dated(self, exempt: Sequence[str]) -> list[str]:
        return [] if self._cutoff is None else _cutoff_arguments(self._cutoff, exempt)

    def compile(self, asked: Path, pins: Path, *, platform: str, python: str) -> str:
        """Return, as the text of a pylock.toml, what the requirements in `asked` resolve to on another machine.

        Versions in `pins` bind. Nothing is built: what has no wheel there is no answer. `platform` is in uv's words.
        """
        arguments: list[str | Path] = ["pip", "compile", asked, "--constraints", pins, *self._index_arguments()]
        arguments += ["--python-platform", platform, "--python-version", python, "--no-build", "--quiet", "--no-header"]
        return self._uv([*arguments, "--format", "pylock.toml"], f"resolving for {platform}").stdout

    def check_lock(self, project: Path, python: Path) -> None:
        """Return when the lock of `project` is what its pyproject.toml resolves to; raise BuildFailed otherwise."""
        self._uv(["lock", "--check", "--project", project, "--python", python], f"checking {project / 'uv.lock'}")

    def _index_arguments(self) -> list[str | Path]:
        if self.network.wheelhouse is not None:
            return ["--no-index", "--find-links", self.network.wheelhouse]
        arguments: list[str | Path] = []
        if self.network.index_url is not None:
            arguments += ["--default-index", self.network.index_url]
        if self.network.offline:
            arguments += ["--offline"]
        return arguments

    def _uv(
        self,
        arguments: Sequence[str | Path],
        what: str,
        *,
        again: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run uv with `arguments`; raise the error that fits when it fails."""
        settings: list[str | Path] = ["--no-config"] if self._settings is None else ["--config-file", self._settings]
        shared: list[str | Path] = [
            *settings,
            "--system-certs",
            "--no-progress",
            "--color",
            "never",
            "--no-python-downloads",
        ]
        if arguments[0] == "python" and arguments[1] != "find":
            shared.remove("--no-python-downloads")
        self._layout.scratch.mkdir(parents=True, exist_ok=True)
        try:
            completed = run(
                [self.binary, *arguments, *shared, "--cache-dir", self._layout.uv_cache],
                environment={**self._environment(), **(variables or {})},
                directory=self._layout.scratch,
                timeout=STEP_SECONDS,
                on_line=self._on_line,
                on_tick=self._on_tick,
            )
        except OSError as error:
            raise HomeUnusable(
                f"{self.binary} cannot be started: {error.strerror or error}",
                hint="choose a home on a filesystem that programs may be started from (mounted without noexec) "
                "with --home DIR"
                if isinstance(error, PermissionError)
                else "run the same command again",
                context={"path": str(self.binary)},
            ) from error
        if completed.returncode != 0 and not again and _CACHE.search(completed.stderr):
            # What a power loss cut off in the cache stops uv for good; what was built from it has its own names.
            self._uv(["cache", "clean", "--force"], "emptying the damaged cache", again=True)
            return self._uv(arguments, what, again=True, variables=variables)
        if completed.returncode != 0:
            from perdure_pm.adapters.uv_failures import sort_failure  # only here: it has many patterns to compile

            raise sort_failure(completed, what, self.network, self._layout.home)
        return completed

    def _environment(self) -> dict[str, str]:
        """Return uv's environment: nothing of the caller's but how the network is reached."""
        environment = {name: value for name, value in self._environ.items() if name in PASSED}
        user = self._environ.get("HOME") or self._environ.get("USERPROFILE")
        if user and "NETRC" not in environment and os.path.exists(os.path.join(user, ".netrc")):
            environment["NETRC"] = os.path.join(user, ".netrc")
        if self.network.proxy is not None:
            environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.network.proxy)
        if self.network.certificate is not None:
            environment["SSL_CERT_FILE"] = str(self.network.certificate)
        scratch = str(self._layout.scratch)
        return {
            **environment,
            "PATH": "/usr/bin:/bin" if os.name == "posix" else os.defpath,
            # A home of its own: no uv.toml, no pip.conf, no shared interpreters, no credentials but .netrc.
            "HOME": scratch,
            "USERPROFILE": scratch,
            "XDG_CONFIG_HOME": scratch,
            "XDG_CONFIG_DIRS": scratch,
            "APPDATA": scratch,
            "LOCALAPPDATA": scratch,
            "TMPDIR": scratch,
            "TEMP": scratch,
            "TMP": scratch,
            "LC_ALL": "C.UTF-8",
            "UV_PYTHON_INSTALL_DIR": str(self._layout.interpreters),
            # Together about a minute until a network that swallows everything is told; uv's own defaults take four.
            "UV_HTTP_TIMEOUT": "20",
            "UV_HTTP_RETRIES": "2",
        }


def _only_wheel(target: Path, what: str) -> Path:
    wheels = sorted(target.glob("*.whl"))
    if len(wheels) != 1:
        hint = "see the project's table of its build backend"
        raise BuildFailed(f"building {what} gave {len(wheels)} wheels instead of one", hint=hint)
    return wheels[0]


def _cutoff_arguments(moment: str, exempt: Sequence[str]) -> list[str]:
    arguments = ["--exclude-newer", moment]
    for name in exempt:
        arguments += ["--exclude-newer-package", f"{name}=false"]
    return arguments


def _build_arguments(builds: Sequence[str] | None) -> list[str | Path]:
    """Return what allows the source builds of some names; None stands for all."""
    arguments: list[str | Path] = [] if builds is None else ["--no-build"]
    for name in builds or ():
        arguments += ["--no-binary-package", name]  # which lifts `--no-build` for a name
    return arguments


_CACHE = re.compile(r"Failed to (?:de)?serialize cache entry|Failed to read from the distribution cache")
_EXPORTED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*(==|@)|\s+--hash=|#")

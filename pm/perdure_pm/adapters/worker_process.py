"""The process of a worker: how it is started, and what of the caller's environment it gets.

Owns: the command line and the variables. Does not own: what is said to it (client). Keeps: worker-environment-scrubbed.

Standard library only, Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure_pm.adapters import processes

WORKER_ENTRY: tuple[str, ...] = ("-I", "-m", "perdure_pm.worker")

KEPT_VARIABLES = frozenset(
    name
    for base in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC")
    for name in (base, base.lower())
) | {
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_DATA_HOME",
    # what Windows needs to start a process and to find the user's directories
    "APPDATA",
    "COMSPEC",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "WINDIR",
}
KEPT_PREFIXES = ("PERDURE_", "LC_")


def start_worker(
    python: Path, home: Path, environ: Mapping[str, str], *, entry: Sequence[str] = WORKER_ENTRY, expected: str = ""
) -> processes.Child:
    """Start a worker of a home, which waits for its request.

    Args:
        python: the interpreter of a runtime that can serve.
        home: the home.
        environ: the environment to choose the worker's variables from.
        entry: how that interpreter starts the worker.
        expected: the operation that will be asked for, so that it is imported meanwhile; another one is served too.
    """
    command: list[str | Path] = [python, *entry, "--home", home, *(["--expect", expected] if expected else [])]
    directory = home if home.is_dir() else Path(home.anchor)
    return processes.start(command, environment=worker_environment(environ), directory=directory)


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` that a worker gets: nothing that changes how Python, uv or pip work."""
    return {name: value for name, value in environ.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)}

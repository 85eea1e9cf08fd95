"""Every setting of PM's command line: its flag, its environment variable, its key in config.yaml, and what it means.

Owns: the one table from which the options of `perdure-pm` and of bootstrap and docs/reference/environment.md are made,
and which of two answers wins. Does not own: reading config.yaml (store.config) or the command line (cli).

Standard library only, Python 3.9: bootstrap uses it before PM's runtime exists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import DEFAULT_PROFILE, parse_profile
from perdure_pm.model.network import Network

BOOLEAN = "boolean"
TEXT = "text"
PATH = "path"
PLACE = "place"  # a path or a URL
INTERPRETER = "interpreter"  # a path, a command's name or a version

EVERY = "every"
MUTATING = "mutating"
BUILDING = "building"
FOREIGN = "foreign"

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})

TRIAL_VARIABLE = "PERDURE_TRIAL"

Value = Union[str, bool, None]


@dataclass(frozen=True)
class Setting:
    """One setting."""

    name: str
    """Its name among the resolved values."""
    flag: str | None
    variable: str
    config_key: str | None
    """The key of config.yaml that says the same, where there is one."""
    kind: str
    meaning: str
    """A sentence without its full stop."""
    scope: str = EVERY
    """`every` command, those that `mutating` ones add, those that `building` ones add; or `foreign`: read, not ours."""
    opposite: str | None = None
    """The flag that says no, for a boolean whose variable or key may say yes."""
    metavar: str | None = None


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "home",
        "--home",
        "PERDURE_HOME",
        None,
        PATH,
        "the directory that holds everything PM makes; a home's own launcher heeds only the flag",
        metavar="DIR",
    ),
    Setting("profile", "--profile", "PERDURE_PROFILE", None, TEXT, "the profile to work on", metavar="NAME"),
    Setting("json", "--json", "PERDURE_JSON", None, BOOLEAN, "write one JSON object to standard output"),
    Setting("events", "--events", "PERDURE_EVENTS", None, BOOLEAN, "write progress as JSON lines to standard error"),
    Setting("yes", "--yes", "PERDURE_YES", None, BOOLEAN, "answer yes to every question", scope=MUTATING),
    Setting(
        "no-wait",
        "--no-wait",
        "PERDURE_NO_WAIT",
        None,
        BOOLEAN,
        "fail at once where another operation is running, instead of waiting for it",
        scope=MUTATING,
        opposite="--wait",
    ),
    Setting(
        "dry-run", "--dry-run", "PERDURE_DRY_RUN", None, BOOLEAN, "say what would be done, and do nothing", MUTATING
    ),
    Setting(
        "offline",
        "--offline",
        "PERDURE_OFFLINE",
        "network.offline",
        BOOLEAN,
        "use no network: only the cache, the wheelhouse and what is installed",
        scope=BUILDING,
        opposite="--online",
    ),
    Setting(
        "index-url",
        "--index-url",
        "PERDURE_INDEX_URL",
        "network.index-url",
        PLACE,
        "the package index to use instead of the default one, such as a mirror",
        scope=BUILDING,
        metavar="URL",
    ),
    Setting(
        "proxy",
        "--proxy",
        "PERDURE_PROXY",
        "network.proxy",
        TEXT,
        "the proxy for http and https",
        scope=BUILDING,
        metavar="URL",
    ),
    Setting(
        "certificate",
        "--certificate",
        "PERDURE_CERTIFICATE",
        "network.certificate",
        PATH,
        "a PEM file of the certificate authorities to trust",
        scope=BUILDING,
        metavar="FILE",
    ),
    Setting(
        "wheelhouse",
        "--wheelhouse",
        "PERDURE_WHEELHOUSE",
        "network.wheelhouse",
        PATH,
        "a directory of wheels to use instead of every index",
        scope=BUILDING,
        metavar="DIR",
    ),
    Setting(
        "python-downloads",
        "--python-downloads",
        "PERDURE_PYTHON_DOWNLOADS",
        "network.python-downloads",
        PLACE,
        "a list of interpreters to download from, in uv's format, instead of uv's own",
        scope=BUILDING,
        metavar="PLACE",
    ),
    Setting(
        "python",
        "--python",
        "PERDURE_PYTHON",
        None,
        INTERPRETER,
        "the interpreter to build with",
        scope=BUILDING,
        metavar="PYTHON",
    ),
    Setting(
        "no-lazy",
        "--no-lazy",
        "PERDURE_NO_LAZY",
        None,
        BOOLEAN,
        "refuse installs that nobody asked for; `install.lazy: false` in config.yaml says the same",
    ),
    Setting("trial", None, TRIAL_VARIABLE, None, TEXT, "set for the host's process while its generation is on trial"),
    Setting(
        "safe-mode",
        None,
        "PERDURE_SAFE_MODE",
        None,
        BOOLEAN,
        "our app loads no plugin but its own; read by its launcher and by the app, as its flag `--safe-mode`",
        FOREIGN,
    ),
    Setting(
        "run",
        None,
        "PERDURE_RUN",
        None,
        TEXT,
        "set in what `perdure exec` starts: the id of the run, as in its record",
        FOREIGN,
    ),
    Setting("debug", None, "PERDURE_DEBUG", None, BOOLEAN, "print the traceback of an internal error"),
    Setting("test-uv", None, "PERDURE_TEST_UV", None, PATH, "the uv binary that tests use; bootstrap.py test sets it"),
    Setting("completion", None, "_PERDURE_PM_COMPLETE", None, TEXT, "set by the shell completion scripts"),
    Setting(
        "runtime-skipped",
        None,
        "PERDURE_RUNTIME_SKIPPED",
        None,
        BOOLEAN,
        "set by PM's runtime for its launcher, where its own interpreter cannot even rebuild it",
    ),
    Setting("rescued", None, "PERDURE_RESCUED", None, BOOLEAN, "set after a rebuild of PM's runtime; it is tried once"),
    Setting("no-color", None, "NO_COLOR", None, TEXT, "any value: no colours in what is drawn", FOREIGN),
    Setting("term", None, "TERM", None, TEXT, "`dumb`: plain lines instead of progress bars", FOREIGN),
    Setting("shell", None, "SHELL", None, TEXT, "the shell whose syntax `env` and `path` print by default", FOREIGN),
    Setting(
        "data-home",
        None,
        "XDG_DATA_HOME",
        None,
        PATH,
        "where a home lies by default, except on Windows and macOS",
        FOREIGN,
    ),
    Setting("local-app-data", None, "LOCALAPPDATA", None, PATH, "where a home lies by default on Windows", FOREIGN),
)

OWN_VARIABLES: frozenset[str] = frozenset(setting.variable for setting in SETTINGS if setting.scope != FOREIGN)
"""What a host's process must not inherit from PM's command line."""


def parse_boolean(text: str, variable: str) -> bool | None:
    """Return what a boolean variable says, or None where it is empty.

    Raises:
        UsageFault: it is neither a clear yes nor a clear no.
    """
    word = text.strip().lower()
    if not word:
        return None
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise UsageFault(
        f"{variable} must be 1, true, yes or on, or 0, false, no or off; it is {text!r}",
        hint=f"unset {variable}, or give it one of these words",
        context={"variable": variable, "value": text},
    )


def resolve(
    settings: tuple[Setting, ...],
    flags: Mapping[str, Value],
    environ: Mapping[str, str],
    config: Mapping[str, object],
    *,
    config_directory: Path | None = None,
) -> dict[str, Value]:
    """Return the value of each of our settings: flag before variable before config.yaml before None (or false).

    Relative paths count from the current directory, except those of config.yaml, which count from `config_directory`.

    Args:
        settings: the table; foreign ones are left out of the result.
        flags: by name; a missing or None entry was not given.
        environ: the variables; an empty one is not set.
        config: config.yaml's values by dotted key; an entry of another type than its kind was refused before.
        config_directory: the home, once it is known.

    Raises:
        UsageFault: a flag is empty, or a boolean variable, or the profile's name, says nothing clear.
    """
    values: dict[str, Value] = {}
    for setting in settings:
        if setting.scope == FOREIGN:
            continue
        value = flags.get(setting.name)
        if isinstance(value, str) and not value.strip():
            # A shell variable that was never set, most likely: the current directory is not what was meant.
            raise UsageFault(
                f"{setting.flag} is empty", hint=f"give it a value, or leave it out: {setting.flag} {setting.metavar}"
            )
        directory = None
        if value is None:
            text = environ.get(setting.variable, "")
            value = parse_boolean(text, setting.variable) if setting.kind == BOOLEAN else text or None
        if value is None and setting.config_key is not None:
            found = config.get(setting.config_key)
            value, directory = (found if isinstance(found, (str, bool)) else None), config_directory
        if isinstance(value, str):
            value = _made_absolute(value, setting.kind, directory)
        values[setting.name] = bool(value) if setting.kind == BOOLEAN else value
    if "profile" in values:
        values["profile"] = parse_profile(str(values["profile"] or DEFAULT_PROFILE))
    return values


def network_of(values: Mapping[str, Value]) -> Network:
    """Return how the network is reached, from resolved values; an index that is a path is a directory on this machine.

    Raises:
        UsageFault: an address is of no kind that can be reached.
    """

    def text(name: str) -> str | None:
        value = values.get(name)
        return value if isinstance(value, str) else None

    def path(name: str) -> Path | None:
        value = text(name)
        return None if value is None else Path(value)

    index, proxy = text("index-url"), text("proxy")
    if index is not None and "://" not in index:
        index = Path(index).as_uri()
    # The values themselves are not repeated: they may hold a password.
    if index is not None and not index.startswith(("http://", "https://", "file://")):
        raise UsageFault(
            "the index must be an http, https or file address, or a directory",
            hint="--index-url https://HOST/simple, or PERDURE_INDEX_URL",
        )
    if proxy is not None and "://" not in proxy:
        raise UsageFault(
            "the proxy must be a URL with its scheme, such as http://",
            hint="--proxy http://HOST:PORT, or PERDURE_PROXY",
        )
    return Network(
        index_url=index,
        proxy=proxy,
        certificate=path("certificate"),
        wheelhouse=path("wheelhouse"),
        python_downloads=text("python-downloads"),
        offline=values.get("offline") is True,
    )


def network_variables(network: Network) -> dict[str, str]:
    """Return the variables from which `resolve` and `network_of` make `network` again."""
    values = {
        "index-url": network.index_url,
        "proxy": network.proxy,
        "certificate": network.certificate,
        "wheelhouse": network.wheelhouse,
        "python-downloads": network.python_downloads,
        "offline": "1" if network.offline else None,
    }
    return {setting.variable: str(values[setting.name]) for setting in SETTINGS if values.get(setting.name) is not None}


def _made_absolute(value: str, kind: str, directory: Path | None) -> str:
    is_path = kind == PATH or (kind == PLACE and "://" not in value) or (kind == INTERPRETER and os.path.dirname(value))
    return os.path.abspath(os.path.join(directory or "", os.path.expanduser(value))) if is_path else value

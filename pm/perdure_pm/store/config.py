"""config.yaml and the profiles' config.yaml on the disk.

Owns: reading them into values, changing one key, and noticing that somebody else changed the file meanwhile. Does
not own: what the keys mean (model.config), the text (store.yaml_text), or pm/policy (store.policy). Keeps: a file that
would not be valid afterwards is not written; a linked file stays a link; a hand edit is never overwritten.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from perdure_pm.model.config import HomeConfig, Key, ProfileConfig, Typed, parse_home_config, parse_profile_config
from perdure_pm.model.document import Document, Fault
from perdure_pm.model.errors import ConfigChanged, ConfigInvalid
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout, relative_to_home
from perdure_pm.store.policy import ABSENT, MAX_CONFIG_BYTES
from perdure_pm.store.reading import read_regular


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """One file as it was at one moment."""

    path: Path
    text: str
    digest: str
    """sha256 of its bytes in hex, or `absent`."""
    document: Document
    mode: int = 0o644


def load_file(layout: Layout, path: Path, *, name: str | None = None) -> ConfigFile:
    """Return the file at `path`, which is empty where there is none; what is wrong with it is in its document.

    `name` is what it is called in faults, where that is not its path. ruamel is imported only where there is something
    to read.
    """
    name = name or relative_to_home(layout, path) or str(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return _unreadable(path, name, "is not a file")
        if status.st_size > MAX_CONFIG_BYTES:
            return _unreadable(path, name, f"is larger than {MAX_CONFIG_BYTES} bytes")
        data = read_regular(path, MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return ConfigFile(path=path, text="", digest=ABSENT, document=Document(file=name))
    except OSError as error:
        return _unreadable(path, name, f"cannot be read: {error.strerror or error}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        fault = Fault(
            file=name,
            line=before.count(b"\n") + 1,
            column=error.start - before.rfind(b"\n"),
            key="",
            message=f"is not UTF-8: byte 0x{data[error.start]:02x}",
        )
        return ConfigFile(path=path, text="", digest=_digest(data), document=Document(file=name, faults=(fault,)))
    document = _read(text.removeprefix("\ufeff"), name)
    mode = stat.S_IMODE(status.st_mode)
    return ConfigFile(path=path, text=text, digest=_digest(data), document=document, mode=mode)


def load_home_config(layout: Layout) -> HomeConfig:
    """Return what config.yaml says.

    Raises:
        ConfigInvalid: it has faults, all of which are named.
    """
    return parse_home_config(load_file(layout, layout.config).document)


def load_profile_config(layout: Layout, profile: str) -> ProfileConfig:
    """Return what a profile's config.yaml says.

    Raises:
        ConfigInvalid: it has faults, all of which are named.
    """
    return parse_profile_config(load_file(layout, layout.profile_config(profile)).document)


def read_values(layout: Layout, profile: str) -> tuple[dict[str, Typed | None], tuple[str, ...]]:
    """Return what config.yaml and the profile's say, by dotted key, and the warnings about both.

    Raises:
        ConfigInvalid: one of them has faults, all of which are named.
    """
    home = load_home_config(layout)
    profile_file = load_file(layout, layout.profile_config(profile)).document
    selection = parse_profile_config(profile_file)
    values: dict[str, Typed | None] = dict(home.values)
    for name, entries in (("plugins", selection.plugins), ("disabled", selection.disabled)):
        if isinstance(profile_file.data, dict) and name in profile_file.data:
            values[name] = list(entries)
    return values, tuple(str(warning) for warning in (*home.warnings, *selection.warnings))


def is_lazy(file: ConfigFile) -> bool:
    """Return what a config.yaml says of lazy installs; one with faults says no."""
    try:
        return parse_home_config(file.document).lazy
    except ConfigInvalid:
        return False


def plan_change(file: ConfigFile, key: Key, value: Typed | None, *, in_profile: bool) -> str:
    """Return the text of `file` with `key` set, or removed where `value` is None; nothing is written.

    Raises:
        ConfigInvalid: the file cannot be read as YAML, or would not be valid afterwards.
    """
    from perdure_pm.store.yaml_text import edit, read_document

    parse = parse_profile_config if in_profile else parse_home_config
    if file.document.faults or not isinstance(file.document.data, (dict, type(None))):
        parse(file.document)  # raises; other faults may be just what this change corrects
    text = edit(file.text, [str(part) for part in key.place], value)
    parse(read_document(text.removeprefix("\ufeff"), file.document.file))
    return text


def with_text(file: ConfigFile, text: str) -> ConfigFile:
    """Return the file as it would read with another text; nothing is written."""
    from perdure_pm.store.yaml_text import read_document

    return replace(file, text=text, document=read_document(text.removeprefix("\ufeff"), file.document.file))


def save_text(filesystem: Filesystem, file: ConfigFile, text: str) -> str:
    """Replace `file` by `text` durably and return its new digest.

    Raises:
        ConfigChanged: the file is not what it was when `file` was read.
    """
    try:
        now = _digest(read_regular(file.path, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        now = ABSENT
    if now != file.digest:
        raise ConfigChanged(
            f"{file.document.file} was changed by somebody else meanwhile",
            hint="run the same command again",
            context={"path": str(file.path)},
        )
    data = text.encode()
    # A config.yaml that lives in a dotfiles tree stays a link: it is the one file of the home that people may link.
    target = Path(os.path.realpath(file.path))
    filesystem.make_directories(file.path.parent)
    filesystem.write_durable(target, data, mode=file.mode)
    return _digest(data)


@lru_cache(maxsize=16)
def _read(text: str, name: str) -> Document:
    """Return what a text says; an operation asks about the same one several times, and a document never changes."""
    from perdure_pm.store.yaml_text import read_document

    return read_document(text, name)


def _unreadable(path: Path, name: str, message: str) -> ConfigFile:
    fault = Fault(file=name, line=0, column=0, key="", message=message)
    return ConfigFile(path=path, text="", digest="unreadable", document=Document(file=name, faults=(fault,)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

"""Where a plugin comes from when it is not from an index: a directory, a wheel, an sdist, or a commit of a repository.

Owns: the one written form of a source, a direct reference of PEP 508 (docs/adr/0016), and reading it. Does not own:
what a person may type instead (ops.typed_sources), fetching, copies (ops.snapshots).

An entry of a profile's list stays one line of text that every tool for requirements can read.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

from perdure_pm.model.identity import EDITABLE, normalise_distribution

GIT_SCHEMES = ("git+https", "git+ssh", "git+file", "git+http")
SDIST_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One direct reference."""

    entry: str
    """The whole line, as the profile's list has it."""
    name: str
    """The distribution's normalised name."""
    extras: tuple[str, ...]
    kind: str
    """``directory``, ``wheel``, ``sdist`` or ``git``."""
    path: str | None = None
    """Where a directory or a file lies: absolute."""
    url: str | None = None
    """A repository's address, without what git does not know of it."""
    commit: str | None = None
    """All 40 digits."""
    subdirectory: str | None = None
    """The project's directory in the repository, with forward slashes."""
    editable: bool = False
    """Whether the plugin runs from the directory itself, where people edit it."""

    @property
    def requirement(self) -> str:
        """The name with the extras that are asked for: what asks for it once it is known where it comes from."""
        return _with_extras(self.name, self.extras)

    @property
    def place(self) -> str:
        """Where it comes from, in a message."""
        return self.path if self.path is not None else f"{self.url}@{self.commit}"


def read_source(text: str) -> Source | str | None:
    """Return the source that a requirement names, what is wrong with it, or None where it names no address."""
    if "@" not in text:
        return None
    from packaging.requirements import InvalidRequirement, Requirement  # not for what has no address: it takes 10 ms

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        return f"is no requirement: {str(error).splitlines()[0]}" if _ADDRESS.search(text) else None
    if requirement.url is None:
        return None
    if requirement.marker is not None:
        return "a source takes no marker; say platforms in its plugin.yaml"
    named: dict[str, object] = {
        "entry": text,
        "name": normalise_distribution(requirement.name),
        "extras": tuple(sorted(requirement.extras)),
    }
    parts = urlsplit(requirement.url)
    if holds_secret(requirement.url):
        return "an address must not hold a user or a password: git's own credentials are used"
    if parts.scheme == "file":
        if parts.fragment not in {"", EDITABLE} or parts.query or parts.netloc not in {"", "localhost"}:
            return f"a file's address must be file:// and an absolute path, and nothing behind it but #{EDITABLE}"
        path = _to_path(unquote(parts.path))
        if not posixpath.isabs(parts.path) or "\0" in path:
            return "a file's address must hold an absolute path"
        editable = parts.fragment == EDITABLE
        if editable and kind_of_file(path) != "directory":
            return f"only a directory can be edited: #{EDITABLE} does not go with a wheel or an sdist"
        return Source(**named, kind=kind_of_file(path), path=path, editable=editable)  # type: ignore[arg-type]  # the three of `named`
    if parts.scheme in GIT_SCHEMES:
        return _read_repository(requirement.url, named)
    return (
        f"{parts.scheme or 'that'} is no address of a plugin: name a directory or a file with file://, or a commit "
        "with git+https://…@COMMIT"
    )


def holds_secret(address: str) -> bool:
    """Return whether an address holds a password, or a user where that is none of git's own affair."""
    try:
        parts = urlsplit(address)
        return parts.password is not None or (parts.username is not None and parts.scheme != "git+ssh")
    except ValueError:
        return False


def leads_out(below: str) -> bool:
    """Return whether a subdirectory is none of the repository's own."""
    return posixpath.isabs(below) or ".." in below.split("/") or "\\" in below


def without_secret(text: str) -> str:
    """Return a text in which no address has a user or a password, for a message."""
    return _SECRET.sub("***@", text)


def kind_of_file(path: str) -> str:
    """Return what the name of a path says it is; what ends like no archive is a directory."""
    low = path.lower()
    if low.endswith(".whl"):
        return "wheel"
    return "sdist" if low.endswith(SDIST_SUFFIXES) else "directory"


def looks_like_path(word: str) -> bool:
    """Return whether a typed word is a path, and no name: it has a separator, begins with a dot, or ends in .whl."""
    if "://" in word:
        return False
    return word.startswith((".", "/", "~")) or "/" in word or "\\" in word or kind_of_file(word) != "directory"


def file_entry(name: str, path: str, extras: Sequence[str] = (), *, editable: bool = False) -> str:
    """Return the entry for an absolute path."""
    mark = f"#{EDITABLE}" if editable else ""
    return f"{_with_extras(name, extras)} @ file://{quote(_to_address(path))}{mark}"


def git_entry(name: str, url: str, commit: str, subdirectory: str | None, extras: Sequence[str] = ()) -> str:
    """Return the entry for a commit; `url` is the repository's, as git knows it."""
    fragment = f"#subdirectory={quote(subdirectory)}" if subdirectory else ""
    return f"{_with_extras(name, extras)} @ git+{url}@{commit}{fragment}"


def split_repository(address: str) -> tuple[str, str | None, str | None]:
    """Return the address for git, the revision and the subdirectory of ``git+…@REVISION#subdirectory=DIRECTORY``."""
    parts = urlsplit(address.removeprefix("git+"))
    path, at, revision = parts.path.rpartition("@")
    if not at:
        path, revision = parts.path, ""
    below = parse_qs(parts.fragment).get("subdirectory", [None])[0]
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return url, unquote(revision) or None, below.strip("/") if below else None


def _to_path(address: str) -> str:
    """Return the path of a file's address; urllib.request has it too, and takes 30 ms to import."""
    if os.name == "nt" and re.match(r"/[A-Za-z]:", address):
        return address[1:].replace("/", "\\")
    return address


def _to_address(path: str) -> str:
    return "/" + path.replace("\\", "/").lstrip("/") if os.name == "nt" else path


def _read_repository(address: str, named: dict[str, object]) -> Source | str:
    url, commit, below = split_repository(address)
    if commit is None or not COMMIT.fullmatch(commit):
        return f"a repository's address must end with @ and all 40 digits of a commit, not {commit or 'without one'}"
    if below is not None and leads_out(below):
        return f"the subdirectory {below!r} leads out of the repository"
    if urlsplit(address).fragment == EDITABLE:
        return f"a commit cannot be edited: #{EDITABLE} goes with a directory"
    return Source(**named, kind="git", url=url, commit=commit, subdirectory=below)  # type: ignore[arg-type]  # as above


def _with_extras(name: str, extras: Sequence[str]) -> str:
    return f"{name}[{','.join(extras)}]" if extras else name


_ADDRESS = re.compile(r"@\s*[a-z+]+:")
_SECRET = re.compile(r"(?<=//)[^/\s]*:[^/\s]*@|(?<=https://)[^/\s]*@|(?<=http://)[^/\s]*@")

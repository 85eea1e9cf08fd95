"""How PM reaches an index: PM's own settings, never uv's or pip's.

Owns: the values. Does not own: where they come from (model.settings). Standard library only, Python 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NETWORK_HINT = (
    "check the connection, or name a way: --index-url URL, --proxy URL, --certificate FILE, or --wheelhouse DIR "
    "for a machine without network"
)
"""What helps when nothing can be reached."""

CREDENTIALS_HINT = (
    "give the index's credentials in its address (--index-url https://USER:PASSWORD@HOST/simple) or in ~/.netrc, or "
    "name another with --index-url URL"
)
"""What helps where an index knows this user not."""


@dataclass(frozen=True)
class Network:
    """Settings of one operation for everything that may be fetched."""

    index_url: str | None = None
    """A simple index (PEP 503/691) that stands for the default one: a mirror, also as ``file://`` directory."""
    proxy: str | None = None
    """Proxy for http and https; without it the usual ``*_PROXY`` variables count."""
    certificate: Path | None = None
    """PEM bundle of certificate authorities, in addition to nothing else."""
    wheelhouse: Path | None = None
    """Directory of wheels that stands for every index: nothing is fetched."""
    python_downloads: str | None = None
    """Path or URL of a list of interpreters in uv's download format, instead of uv's own list."""
    offline: bool = False
    """No network at all: only the cache, the wheelhouse and what is installed."""

    @property
    def fetches(self) -> bool:
        """Whether anything may be fetched over a network."""
        return not self.offline and self.wheelhouse is None


def public_address(url: str) -> str:
    """Return `url` without the password that a mirror's address may hold."""
    import urllib.parse  # only here: it takes 10 ms to import

    parts = urllib.parse.urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urllib.parse.urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))

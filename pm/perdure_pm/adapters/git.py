"""git: the only module that knows its commands, its environment, and how to read its answers.

Owns: finding the commit of a branch or a tag, fetching one commit, its tree as an archive, and a version by its tags.
Does not own: addresses (model.source), unpacking (adapters.archives), copies (ops.snapshots).

A person's own git configuration counts, for it says how repositories are reached; what would run programs for a fetch
(hooks, monitors, other transports) or ask on a terminal is off. Nothing depends on it but the way: a commit's number is
the hash of what it holds.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from perdure_pm.adapters.processes import Completed, run
from perdure_pm.model.errors import ArtefactMissing, NetworkUnreachable, SourceUnusable
from perdure_pm.model.network import NETWORK_HINT, Network

SECONDS = 600.0
_PASSED = frozenset(
    {"PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME", "SYSTEMROOT"}
)
_PROXIES = frozenset(
    name for base in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY") for name in (base, base.lower())
)
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
_UNREACHABLE = re.compile(
    r"Could not resolve host|Could not read from remote|unable to access|Connection (?:refused|reset|timed out)|"
    r"Failed to connect|Network is unreachable|early EOF|hung up",
    re.IGNORECASE,
)


class Git:
    """git, with one bare repository of its own in a scratch directory."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        environ: Mapping[str, str],
        *,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Use `folder`, which is made and belongs to nobody else; its owner removes it."""
        self._folder = folder
        self._network = network
        self._environ = environ
        self._on_tick = on_tick

    def find_commit(self, url: str, revision: str | None) -> str:
        """Return the commit that a branch, a tag or the beginning of a commit's number means now.

        Args:
            url: the repository's address.
            revision: what is meant; None for what the repository checks out by default.

        Raises:
            SourceUnusable: there is none, or several are meant.
            NetworkUnreachable, ArtefactMissing: the repository could not be asked.
        """
        self._make()
        answer = self._ask(url, ["ls-remote", "--", url])
        found: dict[str, str] = {}
        for line in answer.stdout.splitlines():
            commit, _, name = line.partition("\t")
            found[name] = commit
        if revision is None:
            if "HEAD" not in found:
                raise self._no_commit(url, "a default branch")
            return found["HEAD"]
        names = (revision, f"refs/heads/{revision}", f"refs/tags/{revision}")
        # A tag with a text of its own is listed twice; the second line names the commit.
        commits = {found.get(f"{name}^{{}}", found[name]) for name in names if name in found}
        if len(commits) > 1:
            raise SourceUnusable(
                f"{url} has both a branch and a tag {revision}, of different commits",
                hint=f"say which: @refs/tags/{revision} or @refs/heads/{revision}",
                context={"url": url, "commits": sorted(commits)},
            )
        if commits:
            return commits.pop()
        if not re.fullmatch(r"[0-9a-f]{4,40}", revision):
            raise self._no_commit(url, f"the branch or tag {revision}")
        self._fetch_all(url)
        known = self._run(["rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"])
        if known.returncode != 0:
            raise self._no_commit(url, f"the commit {revision}, or has several that begin so,")
        return known.stdout.strip()

    def fetch(self, url: str, commit: str) -> None:
        """Have the commit here.

        Raises:
            SourceUnusable: the repository has no such commit.
            NetworkUnreachable, ArtefactMissing: it could not be asked.
        """
        self._make()
        if self._has(commit):
            return
        # One commit is asked for first; a server that gives out only what has a name is asked for all of those.
        if self._run(["fetch", "--quiet", "--no-tags", "--depth", "1", "--", url, commit]).returncode != 0:
            self._fetch_all(url)
        if not self._has(commit):
            raise self._no_commit(url, f"the commit {commit}")

    def archive(self, commit: str, target: Path) -> None:
        """Have the tree of a commit that was fetched in the tar file `target`."""
        done = self._run(["archive", "--format=tar", f"--output={target}", commit])
        if done.returncode != 0:
            raise SourceUnusable(f"git could not write the tree of {commit}: {_last_line(done)}")

    def find_submodules(self, commit: str) -> list[str]:
        """Return the directories of a commit that are other repositories: its archive has them empty."""
        listed = self._run(["ls-tree", "-r", "-z", commit])
        return [line.partition("\t")[2] for line in listed.stdout.split("\0") if line.startswith("160000 ")]

    def describe(self, url: str, commit: str) -> str:
        """Return a version for a commit whose project takes its version from tags: the tag's, and what came after."""
        self._fetch_all(url)
        told = self._run(["describe", "--tags", "--long", commit]).stdout.strip()
        match = re.fullmatch(r"(?P<tag>.+)-(?P<distance>[0-9]+)-g[0-9a-f]+", told)
        number = re.search(r"[0-9].*", match["tag"]) if match else None
        try:
            version = Version(number[0]) if number else Version("0")
        except InvalidVersion:
            version = Version("0")
        if match and number and match["distance"] == "0":
            return str(version)
        return f"{version.public}+{match['distance'] if match else 0}.g{commit[:9]}"

    def _make(self) -> None:
        if not (self._folder / "HEAD").is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._run(["init", "--quiet", "--bare", "."])

    def _has(self, commit: str) -> bool:
        return self._run(["cat-file", "-e", f"{commit}^{{commit}}"]).returncode == 0

    def _fetch_all(self, url: str) -> None:
        self._make()
        deepen = ["--unshallow"] if (self._folder / "shallow").is_file() else []
        names = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        self._ask(url, ["fetch", "--quiet", *deepen, "--", url, *names])

    def _ask(self, url: str, arguments: list[str]) -> Completed:
        if self._network.offline and not url.startswith("file:"):
            raise ArtefactMissing(
                f"the repository {url} would have to be asked, and the network is not to be used",
                hint="run the same command again with network",
                context={"url": url},
            )
        answer = self._run(arguments)
        if answer.returncode == 0:
            return answer
        said = _last_line(answer)
        context = {"url": url, "git": answer.stderr[-2000:]}
        if not url.startswith("file:") and _UNREACHABLE.search(answer.stderr):
            raise NetworkUnreachable(f"{url} could not be reached: {said}", hint=NETWORK_HINT, context=context)
        raise SourceUnusable(
            f"{url} is no repository that git can read: {said}",
            hint="correct the address; credentials are git's own to know (git credential, ssh-agent)",
            context=context,
        )

    def _run(self, arguments: list[str]) -> Completed:
        program = shutil.which("git", path=self._environ.get("PATH", "/usr/bin:/bin"))
        if program is None:
            raise SourceUnusable(
                "a repository cannot be read without git, which is not installed",
                hint="install git, or name a directory or a file instead",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return run(
            [program, *settings, *arguments],
            environment=self._environment(),
            directory=self._folder,
            timeout=SECONDS,
            on_tick=self._on_tick,
        )

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in self._environ.items() if name in _PASSED | _PROXIES}
        if self._network.proxy is not None:
            environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self._network.proxy)
            environment |= dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), self._network.proxy)
        if self._network.certificate is not None:
            environment["GIT_SSL_CAINFO"] = str(self._network.certificate)
        return {
            "PATH": "/usr/bin:/bin",
            **environment,
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            # The repository of its own, and never one around the scratch directory.
            "GIT_DIR": str(self._folder),
        }

    @staticmethod
    def _no_commit(url: str, what: str) -> SourceUnusable:
        return SourceUnusable(
            f"the repository {url} does not have {what}",
            hint=f"look at what it has: git ls-remote {shlex.quote(url)}",
            context={"url": url},
        )


def _last_line(answer: Completed) -> str:
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
    return (fatal or lines or ["it said nothing"])[0]

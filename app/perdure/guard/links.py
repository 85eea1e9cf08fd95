"""Links that a text makes before it goes through them.

Owns: finding them among the effects, and a filesystem in which they exist. Does not own: the filesystem itself (probe),
or comparing (paths). A link to a place that is not known is not followed: what goes through it is compared by its name.
Keeps: guard-own-links.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence

from perdure.domain.effect import Act, Effect
from perdure.guard.patterns import with_letters
from perdure.guard.probe import Identity, Probe

_MOST_FOLLOWED = 40


def follow(path: str, link: Callable[[str], str | None]) -> str:
    """Return an absolute path without links, where `link` says what the link at a path leads to."""
    pending, done, followed = path.split("/")[::-1], "/", 0
    while pending:
        name = pending.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, name)
        target = link(here)
        if target is None or followed == _MOST_FOLLOWED:
            done = here
            continue
        followed += 1
        done = "/" if target.startswith("/") else done
        pending += reversed(target.split("/"))
    return done


def made_links(effects: Sequence[Effect], probe: Probe) -> dict[str, str]:
    """Return the symbolic links that `ln` makes, by the absolute path of each, as far as both ends are known."""
    found: dict[str, str] = {}
    folders: set[str] = set()

    def is_folder(path: str) -> bool:
        return path in folders or probe.is_directory(path) is True

    for effect in effects:
        program = (effect.operand.known or "").rpartition("/")[2] if effect.act is Act.RUN else ""
        if program not in {"ln", "mkdir"}:
            continue
        words = [text for word in effect.arguments if (text := word.known) is not None]
        for directory in effect.directories:
            if (base := directory.known) is None:
                continue
            place = with_letters(base) if probe.drives else base
            if program == "mkdir":
                folders.update(posixpath.normpath(posixpath.join(place, word)) for word in words)
            else:
                found.update(_links_of(words, place, is_folder))
    return found


def _links_of(words: Sequence[str], base: str, is_folder: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    operands: list[str] = []
    options: list[str] = []
    folder: str | None = None
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += rest
        elif word in {"-S", "--suffix"}:
            next(rest, None)
        elif word.startswith("-") and word != "-":
            options.append(word)
            if word == "--target-directory" or (word.endswith("t") and not word.startswith("--")):
                folder = next(rest, None)
        else:
            operands.append(word)
    letters = "".join(option[1:] for option in options if not option.startswith("--"))
    if "s" not in letters and "--symbolic" not in options:
        return
    if folder is None and len(operands) == 1:
        folder = "."
    if folder is None and len(operands) > 1:
        *operands, last = operands
        whole = posixpath.normpath(posixpath.join(base, last))
        into = len(operands) > 1 or (is_folder(whole) and not {"T", "n"} & set(letters))
        if not into:
            yield whole, operands[0]
            return
        folder = last
    for target in operands:
        name = posixpath.basename(target.rstrip("/"))
        yield posixpath.normpath(posixpath.join(base, folder or ".", name)), target


class LinkedProbe:
    """A filesystem with a few links more."""

    def __init__(self, probe: Probe, links: Mapping[str, str]) -> None:
        """Know the filesystem and the links by their absolute paths."""
        self._probe = probe
        self._links = links

    @property
    def case_sensitive(self) -> bool:
        return self._probe.case_sensitive

    @property
    def drives(self) -> bool:
        return self._probe.drives

    def real(self, path: str) -> str:
        return follow(with_letters(path) if self.drives else path, self.link)

    def link(self, path: str) -> str | None:
        return self._links.get(path) or self._probe.link(path)

    def identity(self, path: str) -> Identity | None:
        return self._probe.identity(self.real(path))

    def names(self, directory: str) -> Sequence[str]:
        folder = self.real(directory)
        made = [posixpath.basename(path) for path in self._links if posixpath.dirname(path) == folder]
        return [*self._probe.names(folder), *made]

    def text(self, path: str) -> str | None:
        return self._probe.text(path)

    def is_directory(self, path: str) -> bool | None:
        return self._probe.is_directory(self.real(path))

    def script(self, path: str) -> str | None:
        return self._probe.script(path)

    def held(self, path: str) -> bool:
        return self._probe.held(path)

    def changed(self, path: str) -> int | None:
        return self._probe.changed(path)

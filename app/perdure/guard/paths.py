"""What is acted on and what is protected: how the two lie to each other.

An operand meets a root when it is the root, contains it, or lies in it. That is decided by component, with the rules
that a shell has for globs, on the path as it is written and on the real one; where both exist, device and inode
settle what names cannot: other spellings on a disk that ignores case, bind mounts, drives.

Owns: the comparison. Does not own: which acts matter for which overlap (judge). Keeps: guard-compare.

It has 500 lines and more because the ways to compare (by name, through links, with something open, on the disk) share
the roots' forms, and the short one, which most paths take, has to agree with all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from perdure.domain.effect import Effect, Hole, Pattern, Spelling, Text, Word
from perdure.domain.record import dataclass
from perdure.domain.verdict import Overlap
from perdure.guard.mac_paths import without_firmlinks
from perdure.guard.patterns import (
    Component,
    Path,
    accepts,
    expression,
    folded,
    literal,
    split,
    split_text,
    with_letters,
    without_dots,
)
from perdure.guard.probe import Identity, Probe, Snapshot
from perdure.guard.roots import Root

MEMBERS = (
    "bin",
    "bin/python",
    "bin/python3",
    "bin/activate",
    "Scripts",
    "Scripts/python.exe",
    "lib",
    "lib64",
    "include",
    "pyvenv.cfg",
    "lib/python3",
    "lib/python3.12",
    "lib/python3.12/os.py",
    "lib/python3.12/site-packages",
    "lib/python3.12/site-packages/perdure",
    "lib/python3.12/site-packages/perdure/__init__.py",
    "lib/python3.12/site-packages/perdure-1.0.dist-info",
    "lib/python3.12/site-packages/perdure-1.0.dist-info/METADATA",
    "lib/python3.12/site-packages/perdure-1.0.dist-info/RECORD",
    "lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so",
    "lib/libpython3.12.so.1.0",
)
"""What lies in an environment or an interpreter, for operands that are known in part: what they could line up with."""

_PARTS = frozenset(part for member in MEMBERS for part in member.split("/"))
_SECRETS = frozenset(
    ["default", "approvals.db", "approvals.db-wal", "approvals.db-shm", "allowlist.lock", "runs-2026-01.jsonl"]
)
"""What lies in the app's own state, for names that alone are acted on."""

BYTE_CODE = "__pycache__"
_MOST_NAMES = 64
"""A path with more of them is compared the long way: nobody types it."""
_LONGEST, _LONGEST_WITH_DRIVES = 4_096, 32_767
"""No system opens a longer path, so nothing is asked about it."""


@dataclass(frozen=True, slots=True)
class Match:
    """One root that an operand meets."""

    root: Root
    overlap: Overlap
    sure: bool
    operand: str


class Protected:
    """The roots, ready to be compared with."""

    def __init__(self, roots: Sequence[Root], probe: Probe) -> None:
        """Know the roots and the filesystem that they lie in."""
        self.roots = tuple(roots)
        self.probe = probe
        self.secret = tuple(root for root in self.roots if root.secret)
        self._drives = probe.drives
        self._firmlinks = not probe.case_sensitive and not probe.drives

    def now(self) -> Protected:
        """Return the same roots, compared with the filesystem as it is from now on: for one verdict."""
        if "_own" not in vars(self):  # computed once for all verdicts
            _ = self._forms, self._identities, self._strings, self._above, self._deepest, self._own
        made = Protected.__new__(Protected)
        vars(made).update(vars(self), probe=Snapshot(self.probe))
        return made

    @cached_property
    def _forms(self) -> tuple[tuple[Root, tuple[str, ...]], ...]:
        """Each root with the components of its path, as it is called and as it really is; never the link's target."""
        forms: dict[tuple[str, ...], Root] = {}
        for root in self.roots:
            named = self._split(root.path)
            folder, _, name = root.path.rpartition("/")
            real = (*self._split(self.probe.real(folder)), name) if folder and name else named
            for form in (named, real):
                forms.setdefault(form, root)
        return tuple((root, form) for form, root in forms.items())

    @cached_property
    def _identities(self) -> dict[tuple[int, int], tuple[Root, Overlap]]:
        """What the roots that are directories are on the disk, and the directories above any root."""
        found: dict[tuple[int, int], tuple[Root, Overlap]] = {}
        for root, form in self._forms:
            if self.probe.link(root.path) is None:
                self._note(found, form, root, Overlap.IS)
        for root, form in self._forms:
            for length in range(len(form) - 1, -1, -1):
                if not self._note(found, form[:length], root, Overlap.CONTAINS):
                    break  # what stands above was noted with another root
        return found

    def _note(
        self,
        found: dict[tuple[int, int], tuple[Root, Overlap]],
        form: tuple[str, ...],
        root: Root,
        overlap: Overlap,
    ) -> bool:
        identity = self.probe.identity("/" + "/".join(form))
        if identity is None:
            return True
        key = (identity.device, identity.inode)
        if key in found and found[key][1] is overlap:
            return False
        found.setdefault(key, (root, overlap))
        return True

    @cached_property
    def _strings(self) -> tuple[tuple[Root, Overlap, str, tuple[str, ...]], ...]:
        """Every path that an operand which is known in part could come out as, and would matter as."""
        found: dict[str, tuple[Root, Overlap, str, tuple[str, ...]]] = {}
        for root, form in self._forms:
            own = "/" + "/".join(form)
            found[own] = (root, Overlap.IS, own, form)
            for member in MEMBERS:
                inner = f"{own}/{member}"
                found.setdefault(inner, (root, Overlap.WITHIN, inner, (*form, *member.split("/"))))
        for root, form in self._forms:
            for length in range(len(form)):
                above = "/" + "/".join(form[:length])
                found.setdefault(above, (root, Overlap.CONTAINS, above, form[:length]))
        return tuple(found.values())

    def _split(self, path: str) -> tuple[str, ...]:
        names = split_text(path, drives=self._drives)
        return without_firmlinks(names, names) if self._firmlinks else names

    def _placed(self, path: Path) -> Path:
        """Return a path by the one name of directories that have two."""
        if not self._firmlinks:
            return path
        return Path(without_firmlinks(path.components, tuple(map(literal, path.components))), path.slash)

    def matches(self, effect: Effect, word: Word | None = None, *, whole: bool | None = None) -> Iterator[Match]:
        """Yield the roots that an effect's operand meets, or another word of its command in the same directories.

        Args:
            effect: what happens; its directories are where a relative path counts from.
            word: what is compared instead of the operand.
            whole: whether what lies below the operand is meant too; the effect says it where this is None.
        """
        below = effect.recursive if whole is None else whole
        for spelling in (effect.operand if word is None else word).spellings:
            for directory in effect.directories or (Word(((Hole("the directory"),),)),):
                for place in directory.spellings:
                    yield from self._compare(split(spelling, place, drives=self._drives), spelling, effect, whole=below)

    def _compare(self, path: Path, spelling: Spelling, effect: Effect, *, whole: bool) -> Iterator[Match]:
        follow = effect.through_link or path.slash
        if self._lies_apart(path, follow=follow):
            return
        for candidate in self._ways(path, follow=follow):
            if candidate.open:
                found = list(self._compare_open(candidate, spelling, whole=whole))
            else:
                found = list(self._compare_names(candidate, effect))
            if found:
                yield from found
                return
        if (text := without_dots(path).text) is not None:
            yield from self._compare_identity(text, effect, follow=follow)

    def _lies_apart(self, path: Path, *, follow: bool) -> bool:
        """Return whether a path that is known and goes through no link meets no root, as most do.

        All that follows would come to the same, component by component.
        """
        names = list(map(literal, path.components))
        if not 0 < len(names) <= _MOST_NAMES or None in names or ".." in names or self._drives or self._firmlinks:
            return False
        folded = self._folded([name for name in names if name is not None])
        if folded in self._above or any(folded[:end] in self._own for end in range(len(folded))):
            return False
        written = f"/{'/'.join(map(str, names))}"
        folder = written.rpartition("/")[0]
        head = (written if follow else folder) or "/"
        if self.probe.real(head) != head or self._on_disk(written) is not None:
            return False
        while (found := self._on_disk(folder or "/")) is None and folder:
            folder = folder.rpartition("/")[0]
        return found is None or found is Overlap.CONTAINS

    def _on_disk(self, place: str) -> Overlap | None:
        """Return what is at a place, if it is a root or has one below it."""
        identity = self.probe.identity(place)
        found = None if identity is None else self._identities.get((identity.device, identity.inode))
        return None if found is None else found[1]

    def _ways(self, path: Path, *, follow: bool) -> Iterator[Path]:
        """Yield the path as names say it, and as the filesystem leads to it; a glob may go through links."""
        lexical = self._placed(without_dots(path))
        yield lexical
        known = list(itertools.takewhile(lambda name: name is not None, map(literal, path.components)))
        closed = len(known) == len(path.components)
        # The last name is meant itself, where it is a link, unless the link is followed.
        head = known if follow or not closed else known[:-1]
        rest = path.components[len(head) :]
        written = "/" + "/".join(name for name in head if name is not None)
        real = self.probe.real(written)
        if real == written and lexical is path and not self._drives:
            walked = lexical  # no link, no dots, no other name: the two ways are one
        else:
            walked = without_dots(Path((*((Text(name),) for name in self._split(real)), *rest), path.slash))
        if walked != lexical:
            yield walked
        if not closed and not path.open:
            yield from self._through_links(walked, follow=follow)

    def _through_links(self, path: Path, *, follow: bool) -> Iterator[Path]:
        """Yield what the first glob of a path comes out as where it is a link and is gone through."""
        at = next((index for index, part in enumerate(path.components) if literal(part) is None), None)
        if at is None or (at == len(path.components) - 1 and not follow):
            return
        folder = "/" + "/".join(str(literal(part)) for part in path.components[:at])
        for name in self.probe.names(folder):
            if accepts(path.components[at], name, case_sensitive=self.probe.case_sensitive):
                place = f"{folder.rstrip('/')}/{name}"
                if self.probe.link(place) is not None:
                    inner = tuple((Text(part),) for part in self._split(self.probe.real(place)))
                    yield Path((*inner, *path.components[at + 1 :]), path.slash)

    def _compare_names(self, path: Path, effect: Effect) -> Iterator[Match]:
        parts = path.components
        known = [literal(part) for part in parts]
        for root, form in self._candidates([name for name in known if name is not None], len(parts)):
            for length, matched in self._lengths(parts, form):
                if matched == len(form):
                    inner = parts[length:]
                    if _is_byte_code(inner) or (inner and only_byte_code(effect.names)):
                        continue
                    overlap = Overlap.WITHIN if inner else Overlap.IS
                    if overlap is Overlap.IS and only_byte_code(effect.names):
                        continue
                elif length == len(parts) and self._reaches(effect.names, form[matched:], root):
                    if self._spares(effect, form, matched):
                        continue
                    overlap = Overlap.CONTAINS
                else:
                    continue
                yield Match(root, overlap, sure=True, operand=show_path(path))
                break

    @cached_property
    def _above(self) -> dict[tuple[str, ...], list[tuple[Root, tuple[str, ...]]]]:
        """The forms by each path that is one of them or contains it, in their order."""
        found: dict[tuple[str, ...], list[tuple[Root, tuple[str, ...]]]] = {}
        for root, form in self._forms:
            for length in range(len(form) + 1):
                found.setdefault(self._folded(form[:length]), []).append((root, form))
        return found

    @cached_property
    def _own(self) -> dict[tuple[str, ...], tuple[Root, tuple[str, ...]]]:
        """The forms by their own path."""
        return {self._folded(form): (root, form) for root, form in reversed(self._forms)}

    @cached_property
    def _deepest(self) -> int:
        """How many names the longest form has: what has more lies in none but for its first ones."""
        return max((len(form) for _, form in self._forms), default=0)

    def _folded(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(names) if self.probe.case_sensitive else tuple(map(folded, names))

    @property
    def longest(self) -> int:
        """How long a path may be that the system opens."""
        return _LONGEST_WITH_DRIVES if self._drives else _LONGEST

    def lies(self, folder: str) -> tuple[Root | None, bool]:
        """Return the root that a directory is or lies in, and whether it is or lies above one; each looked up once."""
        found = self._folders.get(folder)
        if found is None:
            root, above = None, False
            for path in dict.fromkeys((folder, self.probe.real(folder))):
                names = self._folded(self._split(path))
                inside = (self._own.get(names[:end]) for end in range(len(names), 0, -1))
                root = root or next((form[0] for form in inside if form is not None), None)
                above = above or names in self._above
            found = self._folders[folder] = root, above
        return found

    @cached_property
    def _folders(self) -> dict[str, tuple[Root | None, bool]]:
        """The directories that were asked about."""
        return {}

    def _candidates(self, names: Sequence[str], length: int) -> Sequence[tuple[Root, tuple[str, ...]]]:
        """Return the forms that a path may meet: looked up where every name of it is known, else all of them."""
        if len(names) != length:
            return self._forms
        folded = self._folded(names)
        deepest = min(length - 1, self._deepest)
        inside = [found for end in range(deepest, -1, -1) if (found := self._own.get(folded[:end])) is not None]
        return [*self._above.get(folded, ()), *inside]

    def _lengths(self, parts: tuple[Component, ...], form: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Yield how many components were used up by how many of the form's, where one side ends and all before fit."""
        deep = [index for index, part in enumerate(parts) if part in _DEEP]
        if not deep:
            length = min(len(parts), len(form))
            sensitive = self.probe.case_sensitive
            if all(accepts(parts[at], form[at], case_sensitive=sensitive) for at in range(length)):
                yield length, length
            return
        at = deep[0]
        # `**` is any number of names, also none: each number is tried.
        for count in range(len(form) - at + 1):
            stretched = (*parts[:at], *([(Pattern("*"),)] * count), *parts[at + 1 :])
            for length, matched in self._lengths(stretched, form):
                yield length - count + 1 if length >= at + count else length, matched

    def _reaches(self, names: tuple[Word, ...], below: tuple[str, ...], root: Root) -> bool:
        """Return whether one of these names, which alone are acted on, can be one on the way to a root or in it."""
        if not names:
            return True
        if only_byte_code(names):
            return False
        candidates = {*below, *(_SECRETS if root.secret else _PARTS)}
        sensitive = self.probe.case_sensitive
        for word in names:
            for spelling in word.spellings:
                if any(isinstance(piece, Hole) for piece in spelling):
                    return True
                # find's own patterns match a leading dot.
                wide: Component = (Text(""), *spelling)
                if any(accepts(wide, name, case_sensitive=sensitive) for name in candidates):
                    return True
        return False

    def _spares(self, effect: Effect, form: tuple[str, ...], above: int) -> bool:
        """Return whether the effect leaves alone one of the directories on the way to a root, and the root with it.

        Args:
            effect: what happens; what it spares is a name at any place, or a path.
            form: the components of the root's path.
            above: how many of them are the operand's.
        """
        return any(
            self._on_the_way(spelling, place, form, above)
            for word in effect.spared
            for spelling in word.spellings
            for directory in effect.directories
            for place in directory.spellings
        )

    def _on_the_way(self, spared: Spelling, place: Spelling, form: tuple[str, ...], above: int) -> bool:
        pieces = list(spared)
        anywhere = len(pieces) == 2 and isinstance(pieces[0], Hole) and isinstance(pieces[1], Text)
        if anywhere and isinstance(name := pieces[1], Text) and name.text.count("/") == 1 and name.text[0] == "/":
            pieces = [Text(name.text[1:])]  # ``*/NAME``
        if not pieces or any(isinstance(piece, Hole) for piece in pieces):
            return False
        if not any(isinstance(piece, Text) and "/" in piece.text for piece in pieces):
            sensitive = self.probe.case_sensitive
            return any(accepts(tuple(pieces), name, case_sensitive=sensitive) for name in form[above:])
        path = without_dots(split(tuple(pieces), place, drives=self._drives))
        length = len(path.components)
        return above < length <= len(form) and tuple(map(literal, path.components)) == form[:length]

    def ignored(self, root: Root) -> bool:
        """Return whether git ignores a root, as far as a plain line of a ``.gitignore`` on its way says so."""
        parts = self._split(root.path)
        for length in range(len(parts), 0, -1):
            lines = (self.probe.text("/" + "/".join((*parts[:length], ".gitignore"))) or "").splitlines()
            if any(line.startswith("!") for line in lines):
                return False  # what is taken back here is git's to say
            below = {"*"} if length == len(parts) else {parts[length], f"/{parts[length]}"}
            if any(line.rstrip().rstrip("/") in below for line in lines):
                return True
        return False

    def _compare_open(self, path: Path, spelling: Spelling, *, whole: bool) -> Iterator[Match]:
        """Compare an operand of which a part is unknown: below a root whatever it is, or in line with one perhaps."""
        known = tuple(
            itertools.takewhile(lambda part: not any(isinstance(piece, Hole) for piece in part), path.components)
        )
        for root, form in self._forms:
            if len(known) >= len(form) and all(
                accepts(part, name, case_sensitive=self.probe.case_sensitive)
                for part, name in zip(known, form, strict=False)
            ):
                if not _is_byte_code(known[len(form) :]):
                    yield Match(root, Overlap.WITHIN, sure=True, operand=show_path(path))
                return
        written = _written_names(spelling)
        if not whole and not written:
            return
        pattern = re.compile(
            _open_expression(path), re.DOTALL if self.probe.case_sensitive else re.DOTALL | re.IGNORECASE
        )
        for root, overlap, text, parts in self._strings:
            if pattern.fullmatch(text) is None:
                continue
            # What is one file only cannot be a directory above a root, and has to name something that is in one.
            if whole or (overlap is not Overlap.CONTAINS and written & set(parts)):
                yield Match(root, overlap, sure=False, operand=show_path(path))
                return

    def _compare_identity(self, text: str, effect: Effect, *, follow: bool) -> Iterator[Match]:
        """Compare by what the path and the directories above it are on the disk."""
        parts = self._split(text)
        sizes = itertools.accumulate(len(part) + 1 for part in parts)
        longest = self.longest
        for length in range(sum(1 for _ in itertools.takewhile(lambda size: size <= longest, sizes)), 0, -1):
            place = "/" + "/".join(parts[:length])
            if length == len(parts) and not follow and self.probe.link(place) is not None:
                continue
            identity = self.probe.identity(place)
            if identity is None:
                continue
            found = self._identities.get((identity.device, identity.inode))
            if found is None:
                continue
            root, overlap = found
            own = length == len(parts)
            if overlap is Overlap.CONTAINS:
                if (
                    own
                    and self._reaches(effect.names, (), root)
                    and not self._spares(effect, self._split(root.path), 0)
                ):
                    yield Match(root, overlap, sure=True, operand=text)
                return
            if own and not identity.directory and not _in_place(effect):
                return  # another name of the same file: taking it away leaves the root's
            inner = tuple((Text(name),) for name in parts[length:])
            if not _is_byte_code(inner) and not only_byte_code(effect.names):
                yield Match(root, Overlap.IS if own else Overlap.WITHIN, sure=True, operand=text)
            return


def _in_place(effect: Effect) -> bool:
    return effect.act.value in {"empty", "overwrite", "change", "permit"}


_DEEP: frozenset[Component] = frozenset({(Pattern("**"),), (Pattern("*"), Pattern("*"))})


def _is_byte_code(inner: tuple[Component, ...]) -> bool:
    """Return whether what lies in a root is byte code, which Python writes again."""
    names = [literal(part) for part in inner]
    if BYTE_CODE in names and ".." not in names:
        return True
    return bool(inner) and _ends_as_byte_code(inner[-1])


def _ends_as_byte_code(component: Component) -> bool:
    last = component[-1]
    return isinstance(last, Text) and last.text.endswith((".pyc", ".pyo"))


def only_byte_code(names: tuple[Word, ...]) -> bool:
    """Return whether these names, which alone are acted on, are those of byte code."""
    return bool(names) and all(
        literal(spelling) == BYTE_CODE or (bool(spelling) and _ends_as_byte_code(spelling))
        for word in names
        for spelling in word.spellings
    )


def _written_names(spelling: Spelling) -> set[str]:
    """Return the components of an operand that are known from end to end, such as `pyvenv.cfg` in ``$X/pyvenv.cfg``."""
    marked = "".join(piece.text if isinstance(piece, Text) else "\0" for piece in spelling)
    return {name for name in marked.split("/") if name and "\0" not in name}


def _open_expression(path: Path) -> str:
    parts = ["".join(map(expression, part)) for part in path.components]
    made = "/".join(parts)
    first = path.components[0] if path.components else ()
    # What begins with a hole has the root's slash in the hole, or before it.
    return ("/?" if first and isinstance(first[0], Hole) else "/") + made + "/?"


def show_path(path: Path) -> str:
    """Return a path for people; what is open in it is shown as it was written."""
    return "/" + "/".join(show_pieces(component) for component in path.components)


def show_pieces(spelling: Spelling) -> str:
    """Return a spelling for people."""
    return "".join((piece.name or "…") if isinstance(piece, Hole) else piece.text for piece in spelling)


def show_word(word: Word) -> str:
    """Return a word for people: the ways it may come out, the first few of them."""
    shown = [show_pieces(spelling) or "''" for spelling in word.spellings[:3]]
    return " | ".join(shown) + (" | …" if len(word.spellings) > len(shown) else "")


__all__ = ["Identity", "Match", "Protected", "show_path", "show_pieces", "show_word", "with_letters"]

"""The floor for what no machine comes back from: wiped systems and homes, disks, everything killed or shut down.

Owns: telling these from everything that only looks like them, on effects, never on text: what is quoted, printed or
searched for has no effect. Does not own: reading, or what is protected for Perdure's own sake (judge). Keeps: guard-
catastrophic, guard-catastrophic-true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.domain.effect import Act, Certainty, Effect, Hole, Text, Word
from perdure.domain.verdict import Reason
from perdure.guard.late import late
from perdure.guard.paths import Protected, show_word
from perdure.guard.patterns import Component, Path, accepts, literal, split, without_dots

_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr", "/var"),
    *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/share", "/usr/local", "/var/lib", "/nix/store"),
    *("/Applications", "/Library", "/System", "/Users", "/private", "/private/etc", "/private/var"),
    *("/c", "/c/Windows", "/c/Windows/System32", "/c/Program Files", "/c/Users"),
)
_SYSTEM_PARTS = tuple(tuple(path.split("/")[1:]) for path in _SYSTEM)

_DISK = late(
    r"/dev/(?:sd[a-z]+|hd[a-z]|vd[a-z]+|xvd[a-z]+|nvme\d+(?:n\d+)?|mmcblk\d+|r?disk\d+|md\d+|dm-\d+)(?:p?\d+|s\d+|boot\d)*"
    r"|/dev/PhysicalDrive\d+|/dev/(?:mapper|disk|md|block)/.+|/dev/k?mem|/dev/port"
)
_TRIGGERS = frozenset({"/proc/sysrq-trigger"})
_WRITES = frozenset({Act.EMPTY, Act.OVERWRITE, Act.CHANGE})

_SYSTEM_PROGRAMS = late(r"(?:/(?:usr/)?(?:local/)?s?bin/|/opt/(?:homebrew|local)/s?bin/)?([^/]+)")
_SHUTDOWN = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_HARMLESS = frozenset({"--help", "--version", "-V", "-w", "--wtmp-only", "-k", "--show"})
_UNITS = frozenset({"poweroff", "reboot", "halt", "kexec", "soft-reboot", "rescue", "emergency", "exit"})
_TARGETS = frozenset(f"{unit}.target" for unit in _UNITS) | {"runlevel0.target", "runlevel6.target"}
_FILESYSTEMS = late(r"mkfs(?:\.\w+)?|mke2fs|mkswap|mkdosfs|mkntfs|newfs(?:_\w+)?|blkdiscard|zpool-create")
# The option or word that makes the program write: without it the same program only shows.
_DISK_TOOLS: dict[str, re.Pattern[str]] = {
    "wipefs": late(r"-[a-z]*[ao].*|--all|--offset.*"),
    "sgdisk": late(r"-[a-zA-Z]*[Zzond].*|--zap.*|--clear|--delete.*|--new.*"),
    "parted": late(r"mklabel|mktable|mkpart|rm|resizepart"),
    "cryptsetup": late(r"luksFormat|luksErase|erase|reencrypt"),
    "hdparm": late(r"--security-erase.*|--trim-sector.*|--write-sector.*"),
    "nvme": late(r"format|sanitize|write|write-zeroes"),
    "badblocks": late(r"-[a-z]*w[a-z]*"),
    "sfdisk": late(r"--delete|--wipe.*|-[wW].*"),
    "diskutil": late(r"(?i)erase\w*|partitionDisk|zeroDisk|secureErase|reformat"),
    "pvcreate": late(r"/dev/.*"),
    "dd": late(r"(?!)"),  # its output is an effect of its own
}
_READ_ONLY_OPTIONS: dict[str, frozenset[str]] = {"wipefs": frozenset({"-n", "--no-act"})}


def find_catastrophes(effect: Effect, protected: Protected, homes: tuple[str, ...]) -> Iterator[Reason]:
    """Yield what is catastrophic about one effect.

    Args:
        effect: what happens.
        protected: gives the filesystem; the roots play no part here.
        homes: the directories that a person's files are in.
    """
    if effect.certainty is Certainty.CONDITIONAL:
        return  # what only may happen is asked about, not refused
    if effect.act is Act.FORK:
        yield Reason(
            code="catastrophic-fork", text=f"the function {effect.by} starts itself again without end", span=effect.span
        )
    elif effect.act is Act.RUN:
        yield from _running(effect)
    elif effect.act in {Act.DELETE, Act.MOVE}:
        if (effect.recursive or effect.only_below or effect.act is Act.MOVE) and not effect.names:
            yield from _wiping(effect, protected, homes)
    elif effect.act in _WRITES:
        yield from _writing(effect, protected)


def _wiping(effect: Effect, protected: Protected, homes: tuple[str, ...]) -> Iterator[Reason]:
    for path in _places(effect, protected):
        if (what := _wiped(path, protected, homes)) is not None:
            verb = "moves away" if effect.act is Act.MOVE else "deletes"
            yield Reason(
                code="catastrophic-wipe",
                text=f"{effect.by} {verb} {what}: {show_word(effect.operand)}",
                span=effect.span,
            )
            return


def _wiped(path: Path, protected: Protected, homes: tuple[str, ...]) -> str | None:
    """Return what is wiped by deleting this path with everything below it."""
    parts = path.components
    sensitive = protected.probe.case_sensitive
    # `DIR/*` leaves nothing of DIR that matters; a narrower glob leaves something, and is matched by its names below.
    everything = bool(parts) and literal(parts[-1]) is None and accepts(parts[-1], "x", case_sensitive=sensitive)
    if everything and not accepts(parts[-1], "another name", case_sensitive=sensitive):
        everything = False
    whole = parts[:-1] if everything else parts
    if not whole:
        return "everything"
    for home in homes:
        form = tuple(name for name in home.split("/") if name)
        if form and len(form) == len(whole) and _same(whole, form, sensitive=sensitive):
            return "a whole home"
    for form in _SYSTEM_PARTS:
        if len(form) == len(whole) and _same(whole, form, sensitive=sensitive):
            return f"a directory of the system, /{'/'.join(form)}"
    return None


def _same(parts: tuple[Component, ...], form: tuple[str, ...], *, sensitive: bool) -> bool:
    return all(accepts(part, name, case_sensitive=sensitive) for part, name in zip(parts, form, strict=True))


def _writing(effect: Effect, protected: Protected) -> Iterator[Reason]:
    for path in _places(effect, protected):
        text = path.text
        if text is None:
            # /dev/sd* and the like: what a glob can be is asked of a few names that machines have.
            known = [name for name in _DISK_NAMES if _fits(path, name)]
            text = known[0] if known else None
        if text is None:
            continue
        if _DISK.fullmatch(text):
            yield Reason(
                code="catastrophic-device", text=f"{effect.by} writes to the raw device {text}", span=effect.span
            )
            return
        if text in _TRIGGERS:
            yield Reason(code="catastrophic-shutdown", text=f"{effect.by} writes to {text}", span=effect.span)
            return


_DISK_NAMES = ("/dev/sda", "/dev/sda1", "/dev/nvme0n1", "/dev/vda", "/dev/disk0", "/dev/mmcblk0", "/dev/xvda")


def _fits(path: Path, name: str) -> bool:
    form = name.split("/")[1:]
    return len(path.components) == len(form) and all(
        accepts(part, text, case_sensitive=True) for part, text in zip(path.components, form, strict=True)
    )


def _places(effect: Effect, protected: Protected) -> Iterator[Path]:
    """Yield the places that the operand can be, as written and as they really are; open ones are the judge's."""
    for spelling in effect.operand.spellings:
        for directory in effect.directories:
            for place in directory.spellings:
                path = split(spelling, place, drives=protected.probe.drives)
                if path.open:
                    continue
                lexical = without_dots(path)
                yield lexical
                text = path.text
                if text is not None and text != "/" and (path.slash or effect.through_link):
                    real = protected.probe.real(text)
                    if real != lexical.text:
                        yield split((Text(real),), ())


def _running(effect: Effect) -> Iterator[Reason]:
    written = effect.operand.known
    found = None if written is None else _SYSTEM_PROGRAMS.fullmatch(written)
    if found is None:
        return
    program = found[1].removesuffix(".exe")
    words = [word.known for word in effect.arguments]
    if (code := _kind(program, words, effect.arguments)) is not None:
        said = " ".join([program, *(show_word(word) for word in effect.arguments)])
        yield Reason(code=f"catastrophic-{code}", text=f"`{said}` {_MEANING[code]}", span=effect.span)


_MEANING = {
    "shutdown": "shuts the machine down or restarts it",
    "filesystem": "writes a new file system, or wipes one",
    "kill": "ends every process there is",
}


_MAY_BE = frozenset(
    [
        *(*_SHUTDOWN, *_DISK_TOOLS, "init", "telinit", "systemctl", "kexec", "kill", "killall5", "format"),
        *("Stop-Computer", "Restart-Computer", "Format-Volume", "Clear-Disk", "Initialize-Disk"),
    ]
)
"""The programs of which `_kind` looks at the words, beside those that make file systems."""


def _kind(program: str, words: list[str | None], arguments: tuple[Word, ...]) -> str | None:
    if program not in _MAY_BE and _FILESYSTEMS.fullmatch(program) is None:
        return None
    options = {word for word in words if word is not None}
    if program in _SHUTDOWN:
        cancels = program == "shutdown" and bool({"-c", "--cancel", "/a", "/l", "/?"} & options)
        return None if cancels or _HARMLESS & options else "shutdown"
    if program in {"init", "telinit"}:
        return "shutdown" if words[:1] in (["0"], ["6"]) else None
    if program in {"Stop-Computer", "Restart-Computer"}:
        return None if "-whatif" in options else "shutdown"
    if program in {"Format-Volume", "Clear-Disk", "Initialize-Disk"}:
        return None if "-whatif" in options else "filesystem"
    if program == "format":
        return "filesystem" if any(re.fullmatch(r"[A-Za-z]:\\?|\\\\.*", word) for word in options) else None
    if program == "systemctl":
        verbs = [word for word in words if word is not None and not word.startswith("-")]
        if verbs[:1] == ["isolate"] or verbs[:1] == ["start"]:
            return "shutdown" if _TARGETS & set(verbs[1:]) else None
        cancels = "--when=cancel" in options or ("--when" in words and "cancel" in verbs)
        return "shutdown" if verbs[:1] and verbs[0] in _UNITS - {"exit"} and not cancels else None
    if program == "kexec":
        return "shutdown" if {"-e", "--exec"} & options else None
    if program == "killall5":
        return "kill"
    if program == "kill":
        return "kill" if _kills_everything(words) else None
    return "filesystem" if _writes_filesystem(program, words, arguments) else None


def _kills_everything(words: list[str | None]) -> bool:
    """Return whether -1 stands where a process number does: after a signal, or after `--`."""
    if "-l" in words or "-L" in words:
        return False
    rest = list(words)
    if rest and rest[0] in {"-s", "-n", "--signal"}:
        rest = rest[2:]
    elif rest and rest[0] is not None and rest[0].startswith("-") and rest[0] != "--":
        rest = rest[1:]
    if rest and rest[0] == "--":
        rest = rest[1:]
    return "-1" in rest


def _writes_filesystem(program: str, words: list[str | None], arguments: tuple[Word, ...]) -> bool:
    if _FILESYSTEMS.fullmatch(program) is None:
        writes = _DISK_TOOLS.get(program)
        known = [word for word in words if word is not None]
        if writes is None or not any(writes.fullmatch(word) for word in known):
            return False
        if _READ_ONLY_OPTIONS.get(program, frozenset()) & set(known):
            return False
    elif {"-n", "--help", "-V", "--version", "-h"} & {word for word in words if word} and program != "mkswap":
        # mke2fs has -n for a dry run.
        return "-n" in words and program not in {"mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4"} and _names_disk(words)
    return _names_disk(words) or any(_globs_disk(word) for word in arguments)


def _names_disk(words: list[str | None]) -> bool:
    return any(word is not None and _DISK.fullmatch(word) for word in words)


def _globs_disk(word: Word) -> bool:
    return any(
        _fits(without_dots(split(spelling, ())), name)
        for spelling in word.spellings
        if not any(isinstance(piece, Hole) for piece in spelling)
        for name in _DISK_NAMES
    )

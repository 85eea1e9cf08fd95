"""What a failed call of uv means, read off its words: they are the only source there is.

Owns: sorting failures into PM's errors, and the facts that are in uv's words. Does not own: calling it (adapters.uv),
nor the verdict whether something is a conflict (ops.explanation).

Standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from pathlib import Path

from perdure_pm.adapters.filesystem import name_shortage
from perdure_pm.adapters.processes import Completed
from perdure_pm.model.errors import (
    ArtefactMissing,
    BuildFailed,
    BuildRefused,
    DirectUrlRefused,
    IntegrityFault,
    InterpreterMissing,
    NetworkUnreachable,
    NoSpace,
    PerdureError,
    QuarantineRefused,
)
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.network import CREDENTIALS_HINT, NETWORK_HINT, Network, public_address

_ASKED = re.compile(r"your project depends on ([a-z0-9][a-z0-9._-]*)")
_PYTHON = re.compile(r"\b([a-z0-9][a-z0-9._-]*(?:==\S+)?)\S* requires? Python ([<>=!~][^\s,]*(?:,[<>=!~][^\s,]*)*)")


def find_python_refusal(said: str) -> tuple[str, str, str] | None:
    """Return why what was asked for alone cannot be had, where it is the interpreter; None where it is not.

    Returns:
        What was asked for, what needs another Python, and which Python that is.
    """
    words = " ".join(said.split())
    asked, needs = set(_ASKED.findall(words)), _PYTHON.findall(words)
    return (asked.pop(), *needs[-1]) if len(asked) == 1 and needs else None


NO_SOLUTION = "No solution found"
"""How uv says that it came to an answer, and that there is none; also where an index refused, or had not everything."""
_NETWORK = re.compile(
    r"dns error|failed to lookup|error sending request|[Cc]onnection (?:refused|reset|closed)|timed? ?out|"
    r"certificate|tls|Network is unreachable|Failed to (?:fetch|download)|HTTP status (?:server|client) error|"
    r"Could not connect|error trying to connect"
)
_ABSENT = re.compile(
    r"network was disabled|connectivity is disabled|"
    r"not found in the (?:cache|package registry|provided package locations)|"
    r"no wheels? (?:with|that)|there (?:is|are) no versions? of|Failed to read `--find-links` directory|offline"
)
_NO_DOWNLOAD = re.compile(r"No download found for request: \w+-([0-9][^-\s]*)")
_CORRUPT = re.compile(r"Hash mismatch|[Ii]nvalid zip|ZIP (?:file|structure)")
"""The hash is compared after unpacking, so bytes that are no archive any more fail there first."""
_DENIED = re.compile(r"\((401 [A-Za-z ]+)\)|returned a (403 [A-Za-z]+) error")
"""uv then says that the package was not found: an index that refuses looks to it like one that lacks it."""
_PINNED = re.compile(r"\b([a-z0-9][a-z0-9._-]*==[^\s,`]+)")
_SOURCE_ONLY = re.compile(
    r"([a-z0-9][a-z0-9._-]*)(?:\{[^}]*\})?(?:==(\S+)|[<>]\S+)? ha(?:s|ve) no (?:usable )?wheels?|"
    r"Wheels are required for `([a-z0-9][a-z0-9._-]*)` because building from source is disabled"
)
_UNBUILT = re.compile(r"Failed to build `([a-z0-9][a-z0-9._-]*)(?:==([^`\s]+)| @ [^`]*)?`")
_DIRECT = re.compile(
    r"Failed to resolve dependencies for(?: package)? `([^`]+)`(?s:.*?)"
    r"Package `([a-z0-9][a-z0-9._-]*)` was included as a URL dependency(?s:.*?)"
    r"Consider adding `[^`@]+ @ ([^`\s]+)[^`]*`"
)
_FILTERED = re.compile(
    r"`([a-z0-9][a-z0-9._-]*)` was filtered by `exclude-newer` to .*? The latest version satisfying the requirement is "
    r"v(\S+?)(?:, published at (\S+?))?\. Consider"
)
_UNDATED = re.compile(r"`([^`\s]+)` is missing an upload date")
_UNKNOWN = re.compile(r"([a-z0-9][a-z0-9._-]*) was not found in the")
_TOO_OLD = re.compile(
    r"only (?P<name>[a-z0-9][a-z0-9._-]*?)[<=>]\S* (?:is|are) available and (?:your project|\S+) depends on "
    r"(?P<wanted>(?P=name)[<=>!~][^\s,]*)"
)
"""What is asked for is newer than what there is."""


def sort_failure(completed: Completed, what: str, network: Network, place: Path = Path()) -> PerdureError:
    """Return the error for a failed call of uv, which wrote below `place`; its text is the only source there is."""
    text = completed.stderr.strip() or completed.stdout.strip()
    context: dict[str, object] = {"uv": text[-4000:], "exit_code": completed.returncode}
    if NO_SOLUTION in text:  # asked of the whole: an explanation may be longer than what is kept of it
        context["unsolvable"] = True
    too_new = _find_too_new(text, what, context)
    said = [line.strip().partition(": ")[2] for line in text.splitlines() if re.match(r"error: |\s+cause: ", line)]
    pinned = _PINNED.findall(text)
    # What is not there at all is the cause, and what pins of others there are only lead to it.
    unknown = [name for name in _UNKNOWN.findall(text) if not any(pin.startswith(f"{name}==") for pin in pinned)]
    packages = ", ".join(dict.fromkeys(unknown or pinned))
    if "No space left" in text or "os error 28" in text or "os error 122" in text:
        missing, hint = name_shortage(place)
        return NoSpace(f"no {missing} left while {what}", hint=hint, context=context)
    if what.startswith("building") and "The build backend returned an error" in text:
        # What a project's own build says may hold any of the words below.
        return BuildFailed(f"{what} failed: {_last_words(text)}", context=context)
    plain = too_new or _find_no_python(text, context)
    if plain is not None:
        return plain
    if _CORRUPT.search(text):
        return IntegrityFault(
            f"what the index serves is not what the lock says, while {what}: {packages}",
            hint="use an index that serves the released files: --index-url URL",
            context=context,
        )
    denied = _DENIED.search(text)
    if network.fetches and denied is not None:
        return NetworkUnreachable(
            f"{_place(network)} refused access while {what}: {denied[1] or denied[2]}",
            hint=CREDENTIALS_HINT,
            context=context,
            retry="after-change",
        )
    # Of several the last one: the resolver tells of the newest release at the end, and of older ones before.
    refused = list(_SOURCE_ONLY.finditer(text))
    source_only = next((found for found in reversed(refused) if found[1]), refused[-1] if refused else None)
    if source_only:
        name, version = source_only[1] or source_only[3], source_only[2]
        return BuildRefused(
            f"{f'{name} {version}' if version else name} has no wheel for this machine, and a build of its source "
            "would run code that nobody checked",
            hint=f"where you trust it: perdure-pm config set install.build {name}",
            context={**context, "package": name, "setting": "install.build"},
        )
    direct = _DIRECT.search(text)
    if direct is not None:
        who, name, url = direct.groups()
        return DirectUrlRefused(
            f"{who.replace('==', ' ')} requires {name} from {public_address(url)} and not from an index",
            hint=f"where you trust that address: perdure-pm config set install.direct-urls {name}",
            context={**context, "plugin": who.partition("==")[0], "package": name, "url": url},
        )
    too_old = _TOO_OLD.search(text)
    if too_old is not None or (_ABSENT.search(text) and (packages or not network.fetches)):
        missing = (too_old and too_old["wanted"]) or packages or (said[-1] if said else text[-200:])
        return ArtefactMissing(
            f"{_place(network)} cannot be read"
            if "`--find-links` directory" in text
            else f"{_place(network)} lacks what is needed while {what}: {missing}",
            hint="name an index that has it with --index-url URL, or a directory that has it with --wheelhouse DIR"
            if network.fetches
            else "name an archive of one, or run the same command with network"
            if what.startswith("installing Python")
            else "add the missing wheels to the --wheelhouse directory, or run the same command with network",
            context=context,
        )
    if network.fetches and _NETWORK.search(text):
        return NetworkUnreachable(
            f"the index could not be reached while {what}: {said[-1] if said else text[-200:]}",
            hint=NETWORK_HINT,
            context=context,
        )
    unbuilt = _UNBUILT.search(text)
    if unbuilt is not None:
        name = unbuilt[1]
        shown = [line.strip() for line in text.partition("\nhint:")[0].splitlines() if line.strip()]
        why = shown[-1].partition("cause: ")[2] or shown[-1]
        return BuildFailed(
            f"the source of {name} {unbuilt[2] or ''}".rstrip() + f" does not build: {why[:300]}",
            hint=f"where its build needs the host: perdure-pm config set install.build-with-host {name}",
            context={**context, "package": name, "setting": "install.build-with-host"},
        )
    return BuildFailed(f"uv failed while {what}: {': '.join(said) or 'it said nothing'}", context=context)


def _find_no_python(text: str, context: dict[str, object]) -> InterpreterMissing | None:
    """Return the error of an interpreter that nobody offers, where it is that."""
    absent = _NO_DOWNLOAD.search(text)
    if absent is None:
        return None
    return InterpreterMissing(
        f"there is no Python {absent[1]} to be had for this machine",
        hint="perdure-pm python list --available",
        context=context,
    )


def _find_too_new(text: str, what: str, context: dict[str, object]) -> QuarantineRefused | None:
    """Return the refusal of what a cutoff excludes, and note in `context` what it excludes for want of a time."""
    found = {match[1]: (match[2], match[3]) for match in _FILTERED.finditer(" ".join(text.split()))}
    dated = {name for name, (_, moment) in found.items() if moment}
    undated = {_distribution_of(file) for file in _UNDATED.findall(text)} - dated
    if undated:
        context["undated"] = sorted(undated)
        return None
    for name in sorted(dated):
        version, moment = found[name]
        if f"there are no versions of {name}" in text:
            return QuarantineRefused(
                f"{name} {version} was uploaded at {moment}, the quarantine excludes it, and nothing older does, while "
                f"{what}",
                hint="wait until it is older; an exception counts for what a profile pins, and not for what builds it",
                context={**context, "fresh": [{"name": name, "version": version, "uploaded": moment}]},
            )
    return None


def _distribution_of(file: str) -> str:
    """Return the normalised name of the distribution that a file of an index is of."""
    name = file.split("-", maxsplit=1)[0] if file.endswith(".whl") else file.rpartition("-")[0]
    return normalise_distribution(name)


def _last_words(text: str) -> str:
    """Return the last line of what a build backend wrote: a traceback ends with what was wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("hint:")]
    return lines[-1][:200] if lines else "it said nothing"


def _place(network: Network) -> str:
    """Return in words where packages were looked for."""
    if network.wheelhouse is not None:
        return f"the wheelhouse {network.wheelhouse}"
    if network.offline:
        return "the cache"
    return "the index" if network.index_url is None else f"the index {public_address(network.index_url)}"

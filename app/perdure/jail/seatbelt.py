"""How macOS is told to make a jail: a profile for `sandbox-exec`.

Owns: the profile's text. Does not own: what is held (plan). Pure. It is generated and its text is tested; no Mac has
run it yet, which docs/reference/platforms.md says too.

Everything is allowed but what harms a root. A parent of one cannot be renamed or removed: both are `file-write-unlink`
of the parent itself. The last rule that fits counts, so what is given back stands behind what was taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.jail.plan import Plan

PROGRAM = "/usr/bin/sandbox-exec"


def make_profile(plan: Plan) -> str:
    """Return the profile."""
    return "".join(f"{line}\n" for line in _lines(plan))


def make_arguments(plan: Plan) -> list[str]:
    """Return the command line that the jailed command's words are appended to; it takes no `--`."""
    return [PROGRAM, "-p", make_profile(plan)]


def _lines(plan: Plan) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    for path in plan.pinned:
        yield f"(deny file-write-unlink (literal {quoted(path)}))"
    for path in plan.read_only:
        yield f"(deny file-write* (subpath {quoted(path)}))"
    for path in plan.writable:
        yield f"(allow file-write* (subpath {quoted(path)}))"
    for path in plan.loose:
        # A rule is about a name, so that a link can be held here.
        yield f"(deny file-write* (literal {quoted(path)}))"
    for path in (*plan.hidden, *plan.emptied):
        yield f"(deny file-read* file-write* (subpath {quoted(path)}))"


def quoted(text: str) -> str:
    r"""Return a string of the profile's language, which is Scheme's: `"` and `\` are escaped, all else is itself.

    Raises:
        ValueError: it holds a NUL, which no path does.
    """
    if "\0" in text:
        raise ValueError("a path holds no NUL")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

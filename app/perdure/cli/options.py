"""The options of a command as one value, where they are too many for a signature.

Owns: their names and types. Does not own: how they are written (commands), or what they mean (execute).
"""

from typing import TypedDict


class ExecuteOptions(TypedDict):
    """The options of `exec`."""

    command: tuple[str, ...]
    script: str | None
    shell: str
    cwd: str | None
    seconds: float | None
    most_output: int | None
    backend: str | None
    jail: str | None
    yolo: bool
    context: str
    no_prompt: bool
    answer_within: float | None
    session_name: str | None


class RunOptions(TypedDict):
    """The options of `run`."""

    pairs: tuple[str, ...]
    document: str | None
    no_prompt: bool
    answer_within: float | None
    session_name: str | None


class AllowOptions(TypedDict):
    """The options of `allow add`."""

    what: str
    cwd: str | None
    path: str | None
    hours: float | None
    uses: int | None


class TestOptions(TypedDict):
    """The options of `approvals test`."""

    command: tuple[str, ...]
    shell: str
    cwd: str | None
    backend: str | None
    yolo: bool
    context: str

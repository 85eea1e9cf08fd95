"""How answers and errors reach the terminal: data on stdout, talk on stderr, one JSON object with --json.

Owns: the envelope, the two streams, colour. Does not own: the words (commands, errors). Keeps: app-json-envelope,
app-stdout-is-data.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from perdure.domain.errors import PerdureError
from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass, field

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}

# Everything a terminal could take for a command, but not line feeds and tabs.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class OutputLostError(Exception):
    """Standard output takes nothing, as on a full disk: whoever asked for the data must not think it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command has to say."""

    data: JsonValue
    """For programs."""
    text: str | None
    """For people: the same, as lines; None where they have got it already."""
    exit_code: int = 0
    """The process's exit code."""


@dataclass(slots=True)
class Output:
    """The two streams of this process."""

    environ: Mapping[str, str]
    """Decides about colour: NO_COLOR, TERM."""
    as_json: bool = False
    """Whether stdout gets the JSON envelope."""
    _data: TextIO | None = field(default=None, init=False)
    _said: set[str] = field(default_factory=set, init=False)

    def reserve_stdout(self) -> None:
        """Keep stdout for our data: from now on, what plugins and their children print goes to stderr.

        It stays so until the process ends: a plugin's exit handler may print too.
        """
        if self._data is not None:
            return
        sys.stdout.flush()
        kept = os.dup(1)
        self._data = open(kept, "w", encoding=sys.stdout.encoding, errors="backslashreplace", closefd=True)  # noqa: SIM115  # lives as long as the process
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def abandon(self) -> None:
        """Send what is still buffered for stdout nowhere: Python would complain again when it flushes at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, *(() if self._data is None else (self._data.fileno(),))):
            os.dup2(nowhere, stream)

    def answer(self, command: str, answer: Answer) -> None:
        """Write a command's answer to stdout."""
        if self.as_json:
            self._write_json(command, "ok", answer.exit_code, answer.data, [])
        elif answer.text is not None:
            self._write(answer.text)

    def failure(self, command: str, error: PerdureError) -> None:
        """Write an error: to stderr for people, as an envelope to stdout for programs."""
        if self.as_json:
            self._write_json(command, "failed", error.exit_code, None, [error.to_json()])
        else:
            self.talk(f"{self.styled('error:', 'bold', 'red', stream=sys.stderr)} {printable(error.summary)}")
            if error.hint is not None:
                self.talk(f"  try: {printable(error.hint)}")

    def pass_on(self, stdout: bytes, stderr: bytes) -> None:
        """Write what a command has written, each to its own stream; a terminal gets no control characters."""
        with contextlib.suppress(OSError):
            _pass_on(sys.stderr, stderr)
        try:
            _pass_on(self._data or sys.stdout, stdout)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLostError(f"standard output cannot be written: {error.strerror or error}") from error

    def warn(self, text: str) -> None:
        """Write a warning to stderr."""
        self.talk(f"{self.styled('warning:', 'bold', 'yellow', stream=sys.stderr)} {printable(text)}")

    def warn_once(self, text: str) -> None:
        """Write a warning that this process has not written yet."""
        if text not in self._said:
            self._said.add(text)
            self.warn(text)

    def talk(self, text: str) -> None:
        """Write a line to stderr; where nobody can take it, the exit code still says how it went."""
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)

    def styled(self, text: str, *styles: str, stream: TextIO | None = None) -> str:
        """Return `text` with colour where `stream` (stdout unless told) shows it."""
        target = stream or self._data or sys.stdout
        if self.environ.get("NO_COLOR") or self.environ.get("TERM") == "dumb" or not target.isatty():
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def shown(self, text: str) -> str:
        """Return a tool's text as stdout should get it: a terminal gets no control characters, a file every byte."""
        return printable(text) if (self._data or sys.stdout).isatty() else text

    def _write_json(
        self, command: str, status: str, exit_code: int, data: JsonValue, errors: Sequence[Mapping[str, JsonValue]]
    ) -> None:
        envelope = {
            "schema": 1,
            "command": command,
            "status": status,
            "exit_code": exit_code,
            "data": data,
            "errors": errors,
        }
        # ASCII: the bytes are the same whatever the locale's encoding is.
        self._write(json.dumps(envelope, allow_nan=False, indent=2))

    def _write(self, text: str) -> None:
        stream = self._data or sys.stdout
        try:
            stream.write(text if text.endswith("\n") else text + "\n")
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLostError(f"standard output cannot be written: {error.strerror or error}") from error


def _pass_on(stream: TextIO, data: bytes) -> None:
    if stream.isatty():
        stream.write(printable(data.decode(errors="replace")))
    else:
        stream.flush()
        stream.buffer.write(data)
    stream.flush()


def printable(text: str) -> str:
    """Return `text` with control characters spelled out: names of processes and files may hold terminal commands."""
    return text.translate(_CONTROLS)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines in which every column but the last has one width."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]

"""Running a part of a test as somebody who is not root.

Owns: dropping to the user `nobody` in a forked child and carrying the answer back. Does not own: what is run. Where the
tests do not run as root, the child simply keeps its user: it is unprivileged already.
"""

from __future__ import annotations

import os
import pickle
import pwd
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

Answer = TypeVar("Answer")


class UnprivilegedUser:
    """A user without privileges, and a directory of its own."""

    def __init__(self, folder: Path) -> None:
        """Take `folder` (which every user can reach) as the user's own."""
        self.folder = folder
        self.dropped = os.geteuid() == 0
        """Whether privileges have to be dropped: the tests run as root."""
        account = pwd.getpwnam("nobody") if self.dropped else pwd.getpwuid(os.geteuid())
        self.uid = account.pw_uid
        self.gid = account.pw_gid
        self.own(folder)

    def own(self, path: Path) -> None:
        """Give `path` to the user."""
        if self.dropped:
            os.chown(path, self.uid, self.gid)

    def call(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Return what `function` returns in a forked child of that user; raise what it raises.

        The child shares nothing with the test but what was loaded: it works where the user could not start the
        interpreter, as long as what `function` needs was imported before.

        Raises:
            RuntimeError: the answer or the exception cannot be carried (pickled), or the child died.
        """
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Other threads (pytest-xdist has one) hold no lock that the short-lived child would need.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(reading)
            self._answer(writing, function, arguments)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        if not data:
            raise RuntimeError(f"the unprivileged child died: wait status {status}")
        good, value = pickle.loads(data)  # noqa: S301 - written by our own child a moment ago
        if not good:
            raise value
        return cast("Answer", value)

    def run(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` as the user, with its output captured; the program must be reachable for that user."""
        return subprocess.run(
            list(command),
            env=dict(os.environ if environment is None else environment),
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            user=self.uid if self.dropped else None,
            group=self.gid if self.dropped else None,
            extra_groups=[] if self.dropped else None,
        )

    def _answer(self, pipe: int, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        """Send the answer and end this process, which is the forked child, without any of pytest's clean-up."""
        try:
            if self.dropped:
                os.setgroups([])
                os.setgid(self.gid)
                os.setuid(self.uid)
            os.chdir(self.folder)
            try:
                message: tuple[bool, object] = (True, function(*arguments))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent raises it
                message = (False, error)
            try:
                data = pickle.dumps(message)
                pickle.loads(data)  # noqa: S301 - an exception with its own __init__ may not survive the way back
            except Exception:  # noqa: BLE001 - any failure to carry it is told in words
                data = pickle.dumps((False, RuntimeError(f"cannot carry {message[1]!r}:\n{traceback.format_exc()}")))
            with os.fdopen(pipe, "wb") as file:
                file.write(data)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

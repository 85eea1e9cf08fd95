"""The file that approvals are kept in: opening it, transactions, and what goes wrong with it.

Owns: the connection, its pragmas, the permissions, and turning SQLite's faults into ours. Does not own: tables (schema)
or what they mean (sqlite). Keeps: store-opens-in-time, store-private, store-no-fallback, store-locks-kept,
store-faults-named: a file that cannot be opened, read or written is an error that names it, and nothing is kept in
memory instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from perdure.domain.errors import PerdureError, StoreBusy, StoreDamaged, StoreNewer, StoreUnavailable
from perdure.own_writers import claim
from perdure.store.schema import STEPS, SchemaForeign, SchemaNewer, Step, migrate, number_of

OPEN_SECONDS = 10.0
"""How long opening may take, as on a file system that does not answer."""
BUSY_SECONDS = 5.0
"""How long a transaction waits for that of another process."""
_WRITER = claim("approvals")
_TRY_AGAIN_SECONDS = 0.0005, 0.004
_CHECKED_BYTES = 32 << 20
"""A larger file is not read as a whole at each opening; each payload has its own digest."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Database:
    """One open file; its connection is used by one thread at a time."""

    def __init__(
        self, path: Path, *, steps: tuple[Step, ...] = STEPS, seconds: float = OPEN_SECONDS, busy: float = BUSY_SECONDS
    ) -> None:
        """Open it, in its newest schema, making it where there is none.

        Raises:
            StoreUnavailable: it cannot be opened, or not in time.
            StoreBusy: another process does not let go of it.
            StoreDamaged: it is no database of ours, or a broken one.
            StoreNewer: a later version has written it.
        """
        self.path = path
        self._mutex = threading.RLock()
        self._busy = busy
        opened: list[sqlite3.Connection | BaseException] = []
        ended = threading.Event()

        def run() -> None:
            try:
                found: sqlite3.Connection | BaseException = self._opened(steps)
            except BaseException as error:  # noqa: BLE001  # handed to the thread that waits
                found = error
            opened.append(found)
            if ended.is_set() and isinstance(found, sqlite3.Connection):
                found.close()

        # A file system that hangs holds the thread for ever: it is left behind, and does not keep the process.
        thread = threading.Thread(target=run, daemon=True, name="open approvals.db")
        thread.start()
        thread.join(seconds)
        if not opened:
            ended.set()
            raise StoreUnavailable(f"{path} was not opened within {seconds:g} s", context={"path": str(path)})
        if isinstance(opened[0], BaseException):
            raise opened[0]
        self._connection = opened[0]

    def close(self) -> None:
        """Let go of it."""
        with self._mutex:
            self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Return the connection, for reading what was committed."""
        with self._mutex, self._faults("read"):
            yield self._connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Return the connection in a transaction that excludes every other writer; it is committed at the end.

        An exception undoes all of it.
        """
        with self._mutex, self._faults("written"):
            self._begin()
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _begin(self) -> None:
        """Begin a transaction that excludes every other writer, in turn with those that wait for it too.

        SQLite itself waits longer and longer between two tries: of many that write all the time, one may never get in.
        """
        deadline = time.monotonic() + self._busy
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
                        raise
                    time.sleep(random.uniform(*_TRY_AGAIN_SECONDS))  # noqa: S311  # no secret
                else:
                    return
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._busy * 1000)}")

    def version(self) -> int:
        """Return a number that changes when another process has committed something; cheap."""
        with self._mutex, self._faults("read"):
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _opened(self, steps: tuple[Step, ...]) -> sqlite3.Connection:
        with self._faults("opened"):
            self._prepare()
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=self._busy,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                # Before anything is set: what is not ours, or not yet, is left as it is.
                number_of(connection, len(steps))
                self._configure(connection)
                migrate(connection, steps)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare(self) -> None:
        """Have a file that only its owner may read; SQLite gives those beside it the same permissions."""
        try:
            with _WRITER.writing():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                found = os.lstat(self.path)
                if not stat.S_ISREG(found.st_mode):
                    raise StoreDamaged(f"{self.path} is not a file", context=self._context())
                if found.st_mode & 0o077 and os.name == "posix":
                    os.chmod(self.path, 0o600)
                # SQLite would take a file that may not be written for one to read only, and say so at the first answer.
                # It is not opened to find out: whoever closes a file gives up every lock that this process has on it,
                # also those of another connection; the next process to close would then take away that one's journal.
                if not os.access(self.path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
                    raise OSError(_why_barred(self.path))
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} cannot be opened: {error.strerror or error}", context=self._context()
            ) from error

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        # An answer that was acknowledged survives a loss of power.
        connection.execute("PRAGMA synchronous = FULL")
        if self.path.stat().st_size <= _CHECKED_BYTES:
            said = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said is None or said[0] != "ok":
                raise StoreDamaged(f"{self.path} is damaged: {said and said[0]}", context=self._context())
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _BUSY:
                raise
            mode = ""
        if mode != "wal":
            # A file system without shared memory: readers wait for writers there, and nothing else is different.
            connection.execute("PRAGMA journal_mode = DELETE")

    @contextlib.contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except SchemaNewer as error:
            raise StoreNewer(
                f"{self.path} is of schema {error}, which a later version of Perdure wrote",
                context={**self._context(), "schema": str(error)},
            ) from error
        except SchemaForeign as error:
            raise StoreDamaged(f"{self.path} is a database of something else", context=self._context()) from error
        except sqlite3.Error as error:
            raise self._fault(error, what) from error

    def _fault(self, error: sqlite3.Error, what: str) -> PerdureError:
        # The primary code; the higher bits tell variants apart. Faults of the binding have none.
        code = getattr(error, "sqlite_errorcode", -1) & 0xFF
        if code in _BUSY:
            return StoreBusy(
                f"{self.path} is in use by another process for more than {self._busy:g} s", context=self._context()
            )
        if code in _DAMAGED:
            return StoreDamaged(f"{self.path} is damaged: {error}", context=self._context())
        return StoreUnavailable(f"{self.path} cannot be {what}: {error}", context=self._context())

    def _context(self) -> dict[str, str]:
        return {"path": str(self.path)}


def _why_barred(path: Path) -> str:
    read_only = hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if read_only else errno.EACCES)

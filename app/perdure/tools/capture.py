"""What is kept of a stream that may not end.

Owns: the first and the last bytes, and how many there were between. Does not own: reading. Keeps: exec-output-
bounded.
"""

from __future__ import annotations

from collections import deque


class Capture:
    """The beginning and the end of a stream, in a bounded number of bytes."""

    def __init__(self, most: int) -> None:
        """Keep at most `most` bytes: a quarter from the beginning, the rest from the end, where results stand."""
        self._head_room = most // 4
        self._tail_room = most - most // 4
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.seen = 0
        """All bytes that came."""

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        self.seen += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    @property
    def cut(self) -> int:
        """How many bytes are left out of `data`."""
        return self.seen - len(self._head) - min(self._tail_size, self._tail_room)

    def data(self) -> bytes:
        """Return what was kept, with a line where something was left out."""
        tail = b"".join(self._tail)[-self._tail_room :]
        if not self.cut:
            return bytes(self._head) + tail
        return bytes(self._head) + f"\n[… {self.cut} bytes left out …]\n".encode() + tail

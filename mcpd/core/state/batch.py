"""The answers to a batch (2025-03-26 alone): gathered, and sent as one."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.wire.memory import Share


class Batch:
    """The answers to one array of messages; none where it held no request."""

    def __init__(self, send: Callable[[bytes, bytes], None], share: Share, size: int) -> None:
        """``send`` takes the line of answers, once, and the key of one of the requests.

        Until then the answers count in ``share``.
        ``size`` is the number of messages.
        """
        self._send = send
        self._share = share
        self._unread = size
        self._answers: list[bytes] = []
        self._kept_bytes = 0
        self._owed = 1  # one for the reading of it
        self._key = b""
        self._refused = b""

    def read(self) -> bool:
        """Count a message that has been read; return whether it was the last."""
        self._unread -= 1
        if not self._unread:
            self.settle(None)
        return not self._unread

    def expect(self, key: bytes) -> None:
        """Count a request whose answer is a part of this batch."""
        self._owed += 1
        self._key = self._key or key

    def has_room(self, line: bytes) -> bool:
        """Tell whether an answer can be kept until the others are there."""
        return self._owed == 1 or self._share.has_room(len(line))

    def take(self, line: bytes, key: bytes = b"") -> None:
        """Take one answer that nobody expected: the element with this key was refused."""
        self._refused = self._refused or key
        self._answers.append(line.rstrip(b"\n"))
        self._kept_bytes += len(line)
        self._share.add(len(line))

    def settle(self, line: bytes | None) -> None:
        """Take the answer of a request, ``None`` for one that gets none, or that all is read."""
        if line is not None:
            self.take(line)
        self._owed -= 1
        if not self._owed and self._answers:
            answers = self._answers
            self.drop()
            self._send(b"[" + b",".join(answers) + b"]\n", self._key or self._refused)

    def drop(self) -> None:
        """Forget the answers: they were sent, or nobody is there to take them."""
        self._share.add(-self._kept_bytes)
        self._answers, self._kept_bytes = [], 0

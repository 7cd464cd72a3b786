"""The answers to a batch (2025-03-26 alone): gathered, and sent as one."""

from __future__ import annotations

from collections.abc import Callable


class Batch:
    """What is owed for one array of messages; nothing where it held no request."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        """``send`` takes the line of answers, once."""
        self._send = send
        self._answers: list[bytes] = []
        self._owed = 1  # one for the reading of it

    def expect(self) -> None:
        """A request of it is owed an answer."""
        self._owed += 1

    def take(self, line: bytes) -> None:
        """Take one answer that nobody expected: an element could not be read."""
        self._answers.append(line.rstrip(b"\n"))

    def settle(self, line: bytes | None) -> None:
        """A request has its answer, or was cancelled and gets none; or all has been read."""
        if line is not None:
            self.take(line)
        self._owed -= 1
        if not self._owed and self._answers:
            self._send(b"[" + b",".join(self._answers) + b"]\n")

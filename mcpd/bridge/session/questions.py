"""Requests of servers to the client, and which of their responses still count."""

from __future__ import annotations

import json

MOST_WITHDRAWN = 1000


class Questions:
    """Open requests of the daemon to the client, across daemons.

    Invariant: a response never reaches a question of another daemon, even under the same id.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, None] = {}
        self._withdrawn: dict[bytes, None] = {}
        """Cancelled questions, which the client may still answer."""

    def add(self, ident: bytes) -> bool:
        """Add a question; return ``False`` if a response to it would be ambiguous."""
        if ident in self._withdrawn:
            return False
        self._open[ident] = None
        return True

    def cancel(self, ident: object) -> None:
        """Withdraw a question that the daemon has cancelled."""
        key = json.dumps(ident).encode()
        if self._open.pop(key, key) is None:
            self._withdraw(key)

    def accepts_answer(self, ident: bytes) -> bool:
        """Return whether to forward a response; ``False`` if its question was withdrawn."""
        if ident in self._withdrawn:
            del self._withdrawn[ident]
            return False
        self._open.pop(ident, None)
        return True

    def withdraw_all(self) -> list[bytes]:
        """Withdraw all open questions; return a cancellation for each."""
        frames = [
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b,'
            b'"reason":"the daemon went away"}}\n' % ident
            for ident in self._open
        ]
        for ident in self._open:
            self._withdraw(ident)
        self._open.clear()
        return frames

    def _withdraw(self, ident: bytes) -> None:
        self._withdrawn[ident] = None
        if len(self._withdrawn) > MOST_WITHDRAWN:
            del self._withdrawn[next(iter(self._withdrawn))]

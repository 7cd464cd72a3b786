"""What servers have asked the client, and whose answers are still worth anything."""

from __future__ import annotations

import json

MOST_WITHDRAWN = 1000


class Questions:
    """The requests of the daemon to the client, over the lives of daemons.

    Invariant: an answer never reaches a question of another life, even under the same id.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, None] = {}
        self._withdrawn: dict[bytes, None] = {}
        """Those that the client was told to forget, and may answer all the same."""

    def asked(self, ident: bytes) -> bool:
        """Take note of a question; ``False`` if nobody could say what an answer to it is for."""
        if ident in self._withdrawn:
            return False
        self._open[ident] = None
        return True

    def cancelled(self, ident: object) -> None:
        """The daemon does not want to know any more."""
        key = json.dumps(ident).encode()
        if self._open.pop(key, key) is None:
            self._withdraw(key)

    def takes(self, ident: bytes) -> bool:
        """Tell whether an answer of the client's is to be sent; ``False`` for a late one."""
        if ident in self._withdrawn:
            del self._withdrawn[ident]
            return False
        self._open.pop(ident, None)
        return True

    def withdraw_all(self) -> list[bytes]:
        """Return a frame for each open question that tells the client to forget it."""
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

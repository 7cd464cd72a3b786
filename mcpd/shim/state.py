"""What a session owes its client, and what it is made of."""

from __future__ import annotations

import json

from mcpd.shim import scan

REMEMBERED = frozenset(
    (
        b"initialize",
        b"notifications/initialized",
        b"notifications/roots/list_changed",
        b"logging/setLevel",
    )
)
"""Methods of which the last frame is part of the session's state."""

SUBSCRIBE = b"resources/subscribe"
UNSUBSCRIBE = b"resources/unsubscribe"
CANCEL = b"notifications/cancelled"
INITIALIZE = b"initialize"
LISTEN = b"subscriptions/listen"
"""A request that may stay open for ever; while it does, it is part of the session's state."""


class SessionState:
    """The requests whose answers are owed, and the frames that a new daemon would need.

    Invariant: a request is in ``owed`` from the moment its frame was read until its answer was
    put in line for the client whole, its client cancelled it, or the bridge answered it itself.
    """

    def __init__(self) -> None:
        self.owed: dict[bytes, tuple[bytes, ...]] = {}
        """Ids in flight as JSON, in their order, each with the methods sent under it.

        There is more than one for an id that a client uses twice: the daemon refuses the second
        with the same id, and the first is still to be answered."""

        self._frames: dict[bytes, bytes] = {}

    def awaited(self) -> int:
        """Return how many answers are owed that must come: all but those of listens."""
        return sum(method != LISTEN for methods in self.owed.values() for method in methods)

    def frames(self) -> list[bytes]:
        """Return the frames that make up the session, in the order in which they were last sent."""
        return list(self._frames.values())

    def from_client(self, chunks: list[bytes]) -> None:
        """Take note of a frame that is on its way to the daemon."""
        found = scan.messages(chunks)
        for ident, method in found:
            if method is None:
                continue  # an answer, or nothing that the daemon would take
            if method == CANCEL:
                cancelled = _cancelled(chunks)
                self.owed.pop(cancelled, None)
                self._frames.pop(LISTEN + cancelled, None)
            elif len(found) == 1:
                self._remember(ident, method, chunks)
            if ident is not None:
                self.owed[ident] = (*self.owed.get(ident, ()), method)

    def from_daemon(self, chunks: list[bytes]) -> None:
        """Take note of a frame that is on its way to the client."""
        for ident, method in scan.messages(chunks):
            if method is not None or ident is None:
                continue
            *earlier, last = self.owed.pop(ident, (b"",))
            if earlier:
                self.owed[ident] = tuple(earlier)
            if last == LISTEN and LISTEN not in earlier:
                self._frames.pop(LISTEN + ident, None)

    def cancellations(self) -> list[bytes]:
        """Return a frame for each id that is to be cancelled: not ``initialize``, MCP says.

        Nor listens, which end with the connection.
        """
        return [
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b,'
            b'"reason":"the client ended its input"}}\n' % ident
            for ident, methods in self.owed.items()
            if INITIALIZE not in methods and LISTEN not in methods
        ]

    def give_up(self, error: dict[str, object]) -> list[bytes]:
        """Return ``error`` as the answer to each request that is owed one; nothing is owed then."""
        answers = [failure(ident, error) for ident, methods in self.owed.items() for _ in methods]
        for ident in self.owed:
            self._frames.pop(LISTEN + ident, None)
        self.owed.clear()
        return answers

    def _remember(self, ident: bytes | None, method: bytes, chunks: list[bytes]) -> None:
        if method == LISTEN:
            if ident is not None and LISTEN not in self.owed.get(ident, ()):
                self._frames[LISTEN + ident] = b"".join(chunks)
            return
        if method in REMEMBERED:
            key = method
        elif method in (SUBSCRIBE, UNSUBSCRIBE):
            key = SUBSCRIBE + repr(_params(chunks).get("uri")).encode()
        else:
            return
        self._frames.pop(key, None)  # so that it comes last
        if method != UNSUBSCRIBE:
            self._frames[key] = b"".join(chunks)


def failure(ident: bytes, error: dict[str, object]) -> bytes:
    """Return the frame that answers a request with an error."""
    text = json.dumps(error, ensure_ascii=False).encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (ident, text)


def _cancelled(chunks: list[bytes]) -> bytes:
    return json.dumps(_params(chunks).get("requestId")).encode()


def _params(chunks: list[bytes]) -> dict[str, object]:
    """Return the params of a small message; none of one that is broken, large or odd."""
    frame = b"".join(chunks)
    if len(frame) > scan.DECODED_BYTES:
        return {}
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    params = message.get("params") if isinstance(message, dict) else None
    return params if isinstance(params, dict) else {}

"""The state of a session: the requests in flight, and the frames that a new daemon needs."""

from __future__ import annotations

import json

from mcpd.bridge import scan
from mcpd.bridge.error_responses import NOT_ASKED, NOT_READ, Error, failure
from mcpd.bridge.session.lists import LISTS, Lists
from mcpd.bridge.session.questions import Questions
from mcpd.bridge.session.queue import Item, Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INITIALIZE = b"initialize"
DISCOVER = b"server/discover"
SUBSCRIBE = b"resources/subscribe"
UNSUBSCRIBE = b"resources/unsubscribe"
CANCEL = b"notifications/cancelled"
LISTEN = b"subscriptions/listen"
"""A request that stays open, and is part of the session's state as long as it does."""

FAREWELL = b"mcpd/farewell"
"""The last message of a daemon that shuts down: what it has not answered it has not read."""

ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
DRAINING_KEY = "mcpd/draining"
"""In the ``_meta`` of a result: the listen ends because the daemon does."""

REMEMBERED = frozenset(
    (
        INITIALIZE,
        b"notifications/initialized",
        b"notifications/roots/list_changed",
        b"logging/setLevel",
    )
)
"""Methods whose last frame is part of the session's state."""

STATEFUL = REMEMBERED | {LISTEN, SUBSCRIBE, UNSUBSCRIBE}
"""Methods whose frames are part of the session's state, or change it."""

COPY_BYTES = 1 << 16
COPIES_BYTES = 1 << 20
"""The most that is kept of one request in flight, and of all, to send them to the next daemon."""


class SessionState:
    """The requests that are queued and in flight, and the frames that a new daemon needs.

    Invariant: a request is in ``queue`` from when it was read until the kernel has its first byte,
    and then in ``in_flight`` until the whole response is queued for the client, the client cancels
    it, or the bridge answers it itself.
    """

    def __init__(self) -> None:
        self.queue = Queue(self.sent)
        self.in_flight: dict[bytes, tuple[bytes, ...]] = {}
        """Ids as JSON, in the order of sending, each with the methods sent under it.

        An id has several if the client uses it twice: the daemon refuses the second request, with
        the same id, and the first is still to be answered."""
        self.own_requests: dict[bytes, Callable[[list[bytes]], None]] = {}
        """Ids of the bridge's own requests in flight, each with what takes the response."""
        self.on_initialized: Callable[[], None] | None = None
        """Called when the client's own ``initialize`` has been answered."""
        self.lists = Lists()
        self.questions = Questions()
        self.listens: dict[bytes, dict[str, object]] = {}
        """Ids of acknowledged listens, each with the notifications that were agreed."""
        self._said_farewell = False
        """Whether the daemon has sent ``FAREWELL``."""
        self._frames: dict[bytes, bytes] = {}
        self._reacknowledged: set[bytes] = set()  # listens whose next acknowledgement is dropped
        self._copies: dict[bytes, Item] = {}
        self._copies_bytes = 0

    def pending_count(self) -> int:
        """Return how many requests are queued or in flight, without listens."""
        flying = sum(method != LISTEN for methods in self.in_flight.values() for method in methods)
        return flying + sum(method != LISTEN for _, method in self.queue.requests())

    def frames(self) -> dict[bytes, bytes]:
        """Return the frames that restore the session, in the order in which they were last sent.

        Each key begins with the method.
        """
        return dict(self._frames)

    def from_client(self, chunks: list[bytes], *, is_up: bool) -> None:
        """Queue a frame of the client; ``is_up``: a daemon takes it now."""
        item = Item(chunks)
        ident, method = item.found[0] if len(item.found) == 1 else (None, b"")
        if method is None and ident is not None and not self.questions.accepts_answer(ident):
            return
        if method == CANCEL:
            ident = _cancelled(chunks)
            is_idle = LISTEN in self.in_flight.get(ident, ()) and not is_up  # no daemon knows of it
            if is_idle:
                self._cancel(ident)
            if is_idle or self.queue.withdraw(ident, is_up=is_up):
                return
        self.queue.put(item)

    def sent(self, item: Item) -> None:
        """Record a frame whose first byte has been sent."""
        for ident, method in item.found:
            if method is None:
                continue  # a response, or an invalid message
            if method == CANCEL:
                self._cancel(_cancelled(item.chunks))
            elif method in STATEFUL and len(item.found) == 1:
                self._remember(ident, method, item.chunks)
            if ident is not None:
                self._add(ident, method, item)

    def from_daemon(self, chunks: list[bytes]) -> bool:
        """Record a frame of the daemon; return whether it is for the client."""
        found = scan.messages(chunks)
        for ident, method in found:
            if method is None:
                if ident is not None and not self._answered(ident, chunks):
                    return False
            elif ident is not None:
                if not self.questions.add(ident):
                    self.queue.put_own(failure(ident, NOT_ASKED))
                    return False
            elif method == FAREWELL:
                self._said_farewell = True
                return False
            elif method == CANCEL:
                self.questions.cancel(scan.params(chunks).get("requestId"))
            elif method == ACKNOWLEDGED and not self._acknowledged(chunks):
                return False
        return True

    def cancellations(self) -> list[bytes]:
        """Return a cancellation for each request in flight.

        MCP forbids to cancel ``initialize``; listens end with the connection.
        """
        return [
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b,'
            b'"reason":"the client ended its input"}}\n' % ident
            for ident, methods in self.in_flight.items()
            if INITIALIZE not in methods and LISTEN not in methods
        ]

    def daemon_lost(self, error: Error) -> list[bytes]:
        """Return an error response for each request in flight whose outcome is unknown.

        Requests that can safely be sent again are kept for the next daemon: those of the
        handshake, listens, and those that the daemon has reported as not read.
        """
        answers: list[bytes] = []
        again: list[Item] = []
        kept: dict[bytes, tuple[bytes, ...]] = {}
        error = NOT_READ if self._said_farewell else error
        for ident, methods in self.in_flight.items():
            is_unread = self._said_farewell and len(methods) == 1
            if methods == (INITIALIZE,) or (
                methods == (LISTEN,) and LISTEN + ident in self._frames
            ):
                kept[ident] = methods
            elif ident in self._copies and (is_unread or methods == (DISCOVER,)):
                again.append(self._copies[ident])
            else:
                answers += [failure(ident, error)] * len(methods)
        self.in_flight = kept
        self._said_farewell = False
        self.own_requests.clear()
        self._reacknowledged.clear()
        self._copies.clear()
        self._copies_bytes = 0
        self.queue.daemon_lost(again)
        return answers

    def fail_queued(self, error: Error) -> list[bytes]:
        """Return an error response for each queued request; keep the session's state."""
        answers = []
        for item in self.queue.clear():
            answers += [failure(ident, error) for ident, _ in item.requests()]
            for ident, method in item.found:
                if ident is None and method in REMEMBERED and len(item.found) == 1:
                    self._remember(None, method, item.chunks)
        for ident in [one for one, methods in self.in_flight.items() if INITIALIZE in methods]:
            answers.append(failure(ident, error))
            del self.in_flight[ident]
            self._frames.pop(INITIALIZE, None)
        return answers

    def replay_listen(self, ident: bytes) -> None:
        """Record that a listen is sent again: its client has seen the acknowledgement."""
        if ident in self.listens:
            self._reacknowledged.add(ident)

    def _add(self, ident: bytes, method: bytes, item: Item) -> None:
        earlier = self.in_flight.get(ident)
        self.in_flight[ident] = (method,) if earlier is None else (*earlier, method)
        is_small = item.size <= COPY_BYTES and item.size + self._copies_bytes <= COPIES_BYTES
        if is_small and len(item.found) == 1 and ident not in self._copies:
            self._copies[ident] = item
            self._copies_bytes += item.size

    def _take_copy(self, ident: bytes) -> Item | None:
        copy = self._copies.pop(ident, None)
        if copy is not None:
            self._copies_bytes -= copy.size
        return copy

    def _cancel(self, ident: bytes) -> None:
        self.in_flight.pop(ident, None)
        self._take_copy(ident)
        self._forget_listen(ident)

    def _answered(self, ident: bytes, chunks: list[bytes]) -> bool:
        """Record a response; return whether it is for the client."""
        if ident in self.own_requests:
            self.own_requests.pop(ident)(chunks)
            return False
        *earlier, last = self.in_flight.get(ident, (b"",))
        is_sole = not earlier and bool(last)
        is_small = len(chunks[0]) <= COPY_BYTES
        if is_sole and is_small and b"draining" in chunks[0] and _ends_with_the_daemon(chunks):
            key = LISTEN + ident if last == LISTEN else last
            if last in (LISTEN, INITIALIZE) and key in self._frames:
                return False  # it is sent to the next daemon
            if ident in self._copies and self.queue.hold(self._copies[ident]):
                del self.in_flight[ident]
                self._take_copy(ident)
                return False
        self.in_flight.pop(ident, None)
        copy = self._take_copy(ident)
        if earlier:
            self.in_flight[ident] = tuple(earlier)
        if last == LISTEN and LISTEN not in earlier:
            self._forget_listen(ident)
        elif last == INITIALIZE:
            if "error" in scan.decoded(chunks):
                self._frames.pop(INITIALIZE, None)  # the client may try again
            if self.on_initialized is not None:
                self.on_initialized()
        elif last in LISTS and copy is not None and not earlier:
            self.lists.record(last, copy.chunks, chunks)
        return True

    def _acknowledged(self, chunks: list[bytes]) -> bool:
        params = scan.params(chunks)
        meta, agreed = params.get("_meta"), params.get("notifications")
        key = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        ident = json.dumps(key).encode()
        if LISTEN + ident in self._frames:
            self.listens[ident] = agreed if isinstance(agreed, dict) else {}
        if ident in self._reacknowledged:
            self._reacknowledged.discard(ident)
            return False
        return True

    def _forget_listen(self, ident: bytes) -> None:
        self._frames.pop(LISTEN + ident, None)
        self.listens.pop(ident, None)
        self._reacknowledged.discard(ident)

    def _remember(self, ident: bytes | None, method: bytes, chunks: list[bytes]) -> None:
        if method == LISTEN:
            if ident is not None and LISTEN not in self.in_flight.get(ident, ()):
                self._frames[LISTEN + ident] = b"".join(chunks)
            return
        if method in REMEMBERED:
            key = method
        else:
            key = SUBSCRIBE + repr(scan.params(chunks).get("uri")).encode()
        self._frames.pop(key, None)  # so that it comes last
        if method != UNSUBSCRIBE:
            self._frames[key] = b"".join(chunks)


def _cancelled(chunks: list[bytes]) -> bytes:
    return json.dumps(scan.params(chunks).get("requestId")).encode()


def _ends_with_the_daemon(chunks: list[bytes]) -> bool:
    """Return whether a response says that the daemon drains and has not carried out the request."""
    answer = scan.decoded(chunks)
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict):
        data = error.get("data")
        return (
            isinstance(data, dict)
            and data.get("kind") == "draining"
            and not data.get("outcome_unknown")
        )
    meta = result.get("_meta") if isinstance(result, dict) else None
    return isinstance(meta, dict) and meta.get(DRAINING_KEY) is True

"""What a session owes its client, and what it is made of."""

from __future__ import annotations

import json

from mcpd.bridge import scan
from mcpd.bridge.error_responses import NOT_ASKED, NOT_READ, Error, failure
from mcpd.bridge.lists import LISTS, Lists
from mcpd.bridge.questions import Questions
from mcpd.bridge.queue import Item, Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INITIALIZE = b"initialize"
DISCOVER = b"server/discover"
SUBSCRIBE = b"resources/subscribe"
UNSUBSCRIBE = b"resources/unsubscribe"
CANCEL = b"notifications/cancelled"
LISTEN = b"subscriptions/listen"
"""A request that may stay open for ever; while it does, it is part of the session's state."""

FAREWELL = b"mcpd/farewell"
"""The last that an orderly daemon says: what it has not answered it has not read."""

ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
DRAINING_KEY = "mcpd/draining"
"""In the ``_meta`` of a result: the listen ends with the daemon, and for no other reason."""

REMEMBERED = frozenset(
    (
        INITIALIZE,
        b"notifications/initialized",
        b"notifications/roots/list_changed",
        b"logging/setLevel",
    )
)
"""Methods of which the last frame is part of the session's state."""

STATEFUL = REMEMBERED | {LISTEN, SUBSCRIBE, UNSUBSCRIBE}
"""Methods whose frames are part of the session's state, or change it."""

COPY_BYTES = 1 << 16
COPIES_BYTES = 1 << 20
"""What is kept of requests in flight, for those that a daemon sends back: each, and all."""


class SessionState:
    """The requests whose answers are owed, and the frames that a new daemon needs.

    Invariant: a request is in ``queue`` from when it was read until the kernel has its first byte,
    and from then in ``owed`` until its answer was put in line for the client whole, its client
    cancelled it, or the bridge answered it itself.
    """

    def __init__(self) -> None:
        self.queue = Queue(self.sent)
        self.owed: dict[bytes, tuple[bytes, ...]] = {}
        """Ids in flight as JSON, in their order, each with the methods sent under it.

        There is more than one for an id that a client uses twice: the daemon refuses the second
        with the same id, and the first is still to be answered."""
        self.own: dict[bytes, Callable[[list[bytes]], None]] = {}
        """Ids of requests of ours in flight, each with who takes its answer."""
        self.greeted: Callable[[], None] | None = None
        """Called once the client's own ``initialize`` has been answered."""
        self.lists = Lists()
        self.questions = Questions()
        self.listens: dict[bytes, dict[str, object]] = {}
        """Ids of listens that were acknowledged, each with what is told of."""
        self._is_released = False
        """Whether the daemon has said farewell."""
        self._frames: dict[bytes, bytes] = {}
        self._heard_again: set[bytes] = set()  # listens that are to be acknowledged once more
        self._copies: dict[bytes, Item] = {}
        self._copies_bytes = 0

    def awaited(self) -> int:
        """Return how many answers are owed that must come: all but those of listens."""
        flying = sum(method != LISTEN for methods in self.owed.values() for method in methods)
        return flying + sum(method != LISTEN for _, method in self.queue.requests())

    def frames(self) -> dict[bytes, bytes]:
        """Return the frames that make up the session, in the order in which they were last sent.

        The keys begin with the method.
        """
        return dict(self._frames)

    def from_client(self, chunks: list[bytes], *, is_up: bool) -> None:
        """Take a frame that was read; ``is_up`` tells whether there is a daemon to take it now."""
        item = Item(chunks)
        ident, method = item.found[0] if len(item.found) == 1 else (None, b"")
        if method is None and ident is not None and not self.questions.takes(ident):
            return
        if method == CANCEL:
            ident = _cancelled(chunks)
            is_idle = LISTEN in self.owed.get(ident, ()) and not is_up  # no daemon knows of it
            if is_idle:
                self._cancel(ident)
            if is_idle or self.queue.withdraw(ident, is_up=is_up):
                return
        self.queue.put(item)

    def sent(self, item: Item) -> None:
        """Take note of a frame that is on its way to the daemon."""
        for ident, method in item.found:
            if method is None:
                continue  # an answer, or nothing that the daemon would take
            if method == CANCEL:
                self._cancel(_cancelled(item.chunks))
            elif method in STATEFUL and len(item.found) == 1:
                self._remember(ident, method, item.chunks)
            if ident is not None:
                self._owe(ident, method, item)

    def from_daemon(self, chunks: list[bytes]) -> bool:
        """Take note of a frame of the daemon; tell whether it is for the client."""
        found = scan.messages(chunks)
        for ident, method in found:
            if method is None:
                if ident is not None and not self._answered(ident, chunks):
                    return False
            elif ident is not None:
                if not self.questions.asked(ident):
                    self.queue.ask(failure(ident, NOT_ASKED))
                    return False
            elif method == FAREWELL:
                self._is_released = True
                return False
            elif method == CANCEL:
                self.questions.cancelled(scan.params(chunks).get("requestId"))
            elif method == ACKNOWLEDGED and not self._acknowledged(chunks):
                return False
        return True

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

    def lose(self, error: Error) -> list[bytes]:
        """Return ``error`` as the answer to each request in flight: the daemon is gone.

        What may be asked of the next one without harm is not answered so: how the client gets to
        know its server, what it listens to, and what the daemon said that it has not read.
        """
        answers: list[bytes] = []
        again: list[Item] = []
        kept: dict[bytes, tuple[bytes, ...]] = {}
        error = NOT_READ if self._is_released else error
        for ident, methods in self.owed.items():
            is_unread = self._is_released and len(methods) == 1
            if methods == (INITIALIZE,) or (
                methods == (LISTEN,) and LISTEN + ident in self._frames
            ):
                kept[ident] = methods
            elif ident in self._copies and (is_unread or methods == (DISCOVER,)):
                again.append(self._copies[ident])
            else:
                answers += [failure(ident, error)] * len(methods)
        self.owed = kept
        self._is_released = False
        self.own.clear()
        self._heard_again.clear()
        self._copies.clear()
        self._copies_bytes = 0
        self.queue.lose(again)
        return answers

    def refuse(self, error: Error) -> list[bytes]:
        """Return ``error`` as the answer to each request that waits, and keep what else counts."""
        answers = []
        for item in self.queue.clear():
            answers += [failure(ident, error) for ident, _ in item.requests()]
            for ident, method in item.found:
                if ident is None and method in REMEMBERED and len(item.found) == 1:
                    self._remember(None, method, item.chunks)
        for ident in [one for one, methods in self.owed.items() if INITIALIZE in methods]:
            answers.append(failure(ident, error))
            del self.owed[ident]
            self._frames.pop(INITIALIZE, None)
        return answers

    def replay_listen(self, ident: bytes) -> None:
        """Take note of a listen that is sent again: its client has heard that it is heard."""
        if ident in self.listens:
            self._heard_again.add(ident)

    def _owe(self, ident: bytes, method: bytes, item: Item) -> None:
        earlier = self.owed.get(ident)
        self.owed[ident] = (method,) if earlier is None else (*earlier, method)
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
        self.owed.pop(ident, None)
        self._take_copy(ident)
        self._forget_listen(ident)

    def _answered(self, ident: bytes, chunks: list[bytes]) -> bool:
        """Tell whether an answer is for the client."""
        if ident in self.own:
            self.own.pop(ident)(chunks)
            return False
        *earlier, last = self.owed.get(ident, (b"",))
        is_sole = not earlier and bool(last)
        is_small = len(chunks[0]) <= COPY_BYTES
        if is_sole and is_small and b"draining" in chunks[0] and _ends_with_the_daemon(chunks):
            key = LISTEN + ident if last == LISTEN else last
            if last in (LISTEN, INITIALIZE) and key in self._frames:
                return False  # it goes on with the next one
            if ident in self._copies and self.queue.hold(self._copies[ident]):
                del self.owed[ident]
                self._take_copy(ident)
                return False
        self.owed.pop(ident, None)
        copy = self._take_copy(ident)
        if earlier:
            self.owed[ident] = tuple(earlier)
        if last == LISTEN and LISTEN not in earlier:
            self._forget_listen(ident)
        elif last == INITIALIZE:
            if "error" in scan.decoded(chunks):
                self._frames.pop(INITIALIZE, None)  # the client may try again
            if self.greeted is not None:
                self.greeted()
        elif last in LISTS and copy is not None and not earlier:
            self.lists.answered(last, copy.chunks, chunks)
        return True

    def _acknowledged(self, chunks: list[bytes]) -> bool:
        params = scan.params(chunks)
        meta, told = params.get("_meta"), params.get("notifications")
        key = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        ident = json.dumps(key).encode()
        if LISTEN + ident in self._frames:
            self.listens[ident] = told if isinstance(told, dict) else {}
        if ident in self._heard_again:
            self._heard_again.discard(ident)
            return False
        return True

    def _forget_listen(self, ident: bytes) -> None:
        self._frames.pop(LISTEN + ident, None)
        self.listens.pop(ident, None)
        self._heard_again.discard(ident)

    def _remember(self, ident: bytes | None, method: bytes, chunks: list[bytes]) -> None:
        if method == LISTEN:
            if ident is not None and LISTEN not in self.owed.get(ident, ()):
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
    """Tell whether an answer says that the daemon drains, and that nothing else was done."""
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

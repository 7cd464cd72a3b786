"""Restoring a session in a new daemon."""

from __future__ import annotations

import json
import os

from mcpd.bridge import scan
from mcpd.bridge.session.lists import LISTS
from mcpd.bridge.session.state import INITIALIZE, LISTEN, SUBSCRIPTION_KEY, SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Replay:
    """Restores the session in a new daemon before the client's frames are sent to it.

    First the handshake, whose response is awaited. Then log level, subscriptions, listens and the
    requests that show whether a list has changed, and right behind them the client's queued frames.
    These requests have ids of the bridge, and the client sees none of their responses. A listen
    keeps its id, since its notifications carry it.
    """

    def __init__(
        self,
        state: SessionState,
        *,
        send: Callable[[list[bytes]], None],
        done: Callable[[], None],
        refused: Callable[[dict[str, object]], None],
    ) -> None:
        """``send`` writes to the client; ``done`` or ``refused`` is called once for each daemon."""
        self._state = state
        self._send = send
        self._done = done
        self._refused = refused
        self._prefix = f"mcpd-replay-{os.urandom(4).hex()}-"
        self._count = 0

    def begin(self) -> None:
        """Begin, on a connection that has just been attached."""
        state = self._state
        initialize = state.frames().get(INITIALIZE)
        if initialize is None:
            self._restore()
        elif any(INITIALIZE in methods for methods in state.in_flight.values()):
            state.on_initialized = self._restore  # the client waits for this response
            state.queue.put_own(initialize)
        else:
            self._ask(initialize, self._initialized)

    def _initialized(self, answer: list[bytes]) -> None:
        error = scan.decoded(answer).get("error")
        if isinstance(error, dict):
            self._refused(error)
        else:
            self._restore()

    def _restore(self) -> None:
        state = self._state
        state.on_initialized = None
        for key, frame in state.frames().items():
            if key == INITIALIZE:
                continue
            if key.startswith(LISTEN):
                state.replay_listen(key.removeprefix(LISTEN))
                state.queue.put_own(frame)
            elif key.startswith(b"notifications/"):
                state.queue.put_own(frame)
            else:
                self._ask(frame, _ignore)
        for method, request in state.lists.requests():
            self._ask(request, self._check_list(method))
        state.queue.is_open = True
        self._done()

    def _check_list(self, method: bytes) -> Callable[[list[bytes]], None]:
        return lambda answer: self._compare_list(method, answer)

    def _compare_list(self, method: bytes, answer: list[bytes]) -> None:
        """Notify the client if a list differs from the one that it has read."""
        if not self._state.lists.has_changed(method, answer):
            return
        kind = LISTS[method]
        notice = b'{"jsonrpc":"2.0","method":"notifications/%b/list_changed"' % kind.encode()
        frames = []
        if INITIALIZE in self._state.frames():
            frames.append(notice + b"}\n")
        for ident, notifications in self._state.listens.items():
            if notifications.get(f"{kind}ListChanged") is True:
                tag = b',"params":{"_meta":{"%b":%b}}}\n' % (SUBSCRIPTION_KEY.encode(), ident)
                frames.append(notice + tag)
        self._send(frames)

    def _ask(self, frame: bytes, then: Callable[[list[bytes]], None]) -> None:
        self._count += 1
        name = f"{self._prefix}{self._count}"
        ident = json.dumps(name).encode()
        request = scan.with_id(frame, ident)
        if not any(found == ident for found, _ in scan.messages([request])):
            request = json.dumps({**scan.decoded([frame]), "id": name}).encode() + b"\n"
        self._state.own_requests[ident] = then
        self._state.queue.put_own(request)


def _ignore(_answer: list[bytes]) -> None:
    """Ignore the response to a request that only restores state."""

"""What a new daemon is told of a session that began with an older one."""

from __future__ import annotations

import json
import os

from mcpd.bridge import scan
from mcpd.bridge.lists import LISTS
from mcpd.bridge.state import INITIALIZE, LISTEN, SUBSCRIPTION_KEY, SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Replay:
    """Brings a new daemon to where the session is, before it gets anything of the client's.

    First the handshake, whose answer is waited for: without it nothing else means anything. Then
    level, subscriptions and listens, and at once what the client has in line. Our own requests have
    ids of our own, and the client sees none of their answers; a listen keeps its id, since what it
    brings is tagged with that.
    """

    def __init__(
        self,
        state: SessionState,
        *,
        tell: Callable[[list[bytes]], None],
        done: Callable[[], None],
        refused: Callable[[dict[str, object]], None],
    ) -> None:
        """``tell`` writes to the client; ``done`` or ``refused`` is called once for each life."""
        self._state = state
        self._tell = tell
        self._done = done
        self._refused = refused
        self._prefix = f"mcpd-replay-{os.urandom(4).hex()}-"
        self._count = 0

    def begin(self) -> None:
        """A new daemon is there."""
        state = self._state
        initialize = state.frames().get(INITIALIZE)
        if initialize is None:
            self._go_on()
        elif any(INITIALIZE in methods for methods in state.owed.values()):
            state.greeted = self._go_on  # it was never answered, so the client gets this answer
            state.queue.ask(initialize)
        else:
            self._ask(initialize, self._initialized)

    def _initialized(self, answer: list[bytes]) -> None:
        error = scan.decoded(answer).get("error")
        if isinstance(error, dict):
            self._refused(error)
        else:
            self._go_on()

    def _go_on(self) -> None:
        state = self._state
        state.greeted = None
        for key, frame in state.frames().items():
            if key == INITIALIZE:
                continue
            if key.startswith(LISTEN):
                state.replay_listen(key.removeprefix(LISTEN))
                state.queue.ask(frame)
            elif key.startswith(b"notifications/"):
                state.queue.ask(frame)
            else:
                self._ask(frame, _ignore)
        for method, request in state.lists.requests():
            self._ask(request, self._listing(method))
        state.queue.is_open = True
        self._done()

    def _listing(self, method: bytes) -> Callable[[list[bytes]], None]:
        return lambda answer: self._listed(method, answer)

    def _listed(self, method: bytes, answer: list[bytes]) -> None:
        """Tell whoever wants to know of it that a list is another one than before."""
        if not self._state.lists.has_changed(method, answer):
            return
        kind = LISTS[method]
        told = b'{"jsonrpc":"2.0","method":"notifications/%b/list_changed"' % kind.encode()
        frames = []
        if INITIALIZE in self._state.frames():
            frames.append(told + b"}\n")
        for ident, notifications in self._state.listens.items():
            if notifications.get(f"{kind}ListChanged") is True:
                tag = b',"params":{"_meta":{"%b":%b}}}\n' % (SUBSCRIPTION_KEY.encode(), ident)
                frames.append(told + tag)
        self._tell(frames)

    def _ask(self, frame: bytes, then: Callable[[list[bytes]], None]) -> None:
        self._count += 1
        name = f"{self._prefix}{self._count}"
        ident = json.dumps(name).encode()
        asked = scan.with_id(frame, ident)
        if not any(found == ident for found, _ in scan.messages([asked])):
            asked = json.dumps({**scan.decoded([frame]), "id": name}).encode() + b"\n"
        self._state.own[ident] = then
        self._state.queue.ask(asked)


def _ignore(_answer: list[bytes]) -> None:
    """Take what only says that the daemon has heard it."""

"""The connection to the daemon: made anew whenever it is lost, in steps that do not wait."""

from __future__ import annotations

import math
import os
import select
import socket

from mcpd import exits
from mcpd.bridge import attachment
from mcpd.bridge.error_responses import no_daemon
from mcpd.daemon_start.connection import connect
from mcpd.errors import PASSING, DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcpd.bridge.arguments import Arguments
    from mcpd.daemon_start.search import Search

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
"""Between two tries, and with jitter less: a person's restart is to be noticed soon."""

LOOK_AGAIN_S = 0.03
"""While we start a daemon."""

LOOK_ON_S = 0.1
"""While somebody else does; twenty who look all the time would take its time from it."""

START_AGAIN_S = 30.0
"""After a daemon that ended at its start, half to all of this: every bridge has its turn at it."""

STEADY_S = 1.0
"""A connection that held for so long is no reason to be slower with the next."""

PATIENCE_S = 20.0
"""How long requests wait for a daemon to come; after that each is told why there is none."""


class Obstacle:
    """Why there is no session just now: the error that requests get, and how a bridge would end.

    ``is_firm``: it will not go away by waiting a little, so requests need not wait.
    """

    def __init__(self, error: dict[str, Any], status: int, *, is_firm: bool) -> None:
        self.error = error
        self.status = status
        self.is_firm = is_firm

    def told(self) -> str:
        """Return it for a person, with what to type next where that is known."""
        message, data = str(self.error.get("message")), self.error.get("data")
        hint = data.get("hint") if isinstance(data, dict) else None
        return f"{message}\n  {hint}" if hint and hint not in message else message


class Link:
    """At most one connection to a daemon.

    It is there, attached or on its way to be, or a daemon is being looked for, or the next try
    waits for its time.
    """

    def __init__(
        self, path: str, asked: Arguments, connection: socket.socket, first: attachment.Attaching
    ) -> None:
        self.connection: socket.socket | None = connection
        self.is_attached = True
        self.server = first.server
        self.pid: object = first.hello.get("pid")
        self.obstacle: Obstacle | None = None
        self.is_hopeless = False
        """The daemon that is there now can never be ours."""
        self.lost_at = math.inf
        """Monotonic; since when there is no session."""
        self._path = path
        self._asked = asked
        self._config = _config(first, asked)
        self._attaching: attachment.Attaching | None = None
        self._search: Search | None = None
        self._next_at = math.inf  # monotonic
        self._start_at = -math.inf  # monotonic; when a daemon may be started again
        self._tries = 0
        self._up_at = -math.inf  # monotonic

    @property
    def events(self) -> int:
        """What to poll the connection for while it is not attached."""
        return select.POLLIN if self._attaching is None else self._attaching.question.events

    def next_at(self) -> float:
        """Return when ``advance`` has something to do by itself, in monotonic seconds."""
        return self._next_at if self._attaching is None else self._attaching.question.deadline

    def patience_ends_at(self) -> float:
        """Return when requests stop waiting, in monotonic seconds; ``inf`` with a session."""
        return self.lost_at + PATIENCE_S

    def open(self, now: float) -> None:
        """The session goes on."""
        self.obstacle = None
        self.lost_at = math.inf
        self._up_at = now

    def lose(self, now: float) -> None:
        """There is no connection any more."""
        self._close()
        if self.lost_at == math.inf:
            self.lost_at = now
        if self.obstacle is None:
            from mcpd.daemon_start.hints import with_socket

            hint = with_socket("mcpctl up", self._asked.socket)
            self.obstacle = Obstacle(no_daemon(hint), exits.NO_DAEMON, is_firm=False)
        if now - self._up_at >= STEADY_S:
            self._tries = 0
        self._up_at = math.inf
        self._wait(now)

    def refuse(self, error: dict[str, Any], now: float) -> None:
        """What was attached to is of no use; try again later."""
        self._take(attachment.Refused(error))
        self.lose(now)

    def advance(self, now: float) -> bool:
        """Do what can be done without waiting; tell whether we have just been attached."""
        try:
            return self._advance(now)
        except attachment.Refused as refusal:
            self._take(refusal)
        except DaemonUnavailable as silence:
            self._miss(silence, now)
            if silence.details.get("why") == "gone":
                self._hang_up()  # it listened before it had read its configuration: why it ends
                self._wait(now)  # is told to who goes on looking
                return False
        except OSError as error:  # no process, descriptor or memory just now
            message = f"cannot reach a daemon: {error.strerror}"
            self._miss(DaemonUnavailable(message, why="start_failed"), now)
        self._close()
        self._wait(now)
        return False

    def close(self) -> None:
        """Let go of everything."""
        self._close()

    def _advance(self, now: float) -> bool:
        if self.connection is None and now >= self._next_at:
            self._look(now)
        if self._attaching is None or not self._attaching.step():
            return False
        self.server = self._attaching.server
        self.pid = self._attaching.hello.get("pid")
        self._config = _config(self._attaching, self._asked)
        self._attaching = None
        self._end_search()
        self.is_attached = True
        return True

    def _look(self, now: float) -> None:
        if self._asked.may_start and now >= self._start_at:
            if self._search is None:
                from mcpd.daemon_start.search import Search

                self._search = Search(self._path, config=self._config)
            found = self._search.poll()
        else:
            found = connect(self._path, 0)
        if found is None:
            is_ours = self._search is not None and self._search.is_starter
            self._next_at = now + (LOOK_AGAIN_S if is_ours else LOOK_ON_S)
            return
        found.setblocking(False)
        self._next_at = math.inf
        self.connection = found
        self._attaching = attachment.Attaching(found, self._asked)

    def _wait(self, now: float) -> None:
        """Have the next try wait, longer each time, by chance for less."""
        self._next_at = now + _chance() * min(
            LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(self._tries, 16)
        )
        self._tries += 1

    def _take(self, refusal: attachment.Refused) -> None:
        is_firm = refusal.kind != "draining"  # else another one is about to come
        self.obstacle = Obstacle(refusal.error, refusal.status, is_firm=is_firm)

    def _miss(self, silence: DaemonUnavailable, now: float) -> None:
        why = silence.details.get("why")
        if why == "start_failed":
            self._start_at = now + START_AGAIN_S * (1 + _chance()) / 2
        self.is_hopeless = why == "incompatible"
        data: dict[str, Any] = {"kind": silence.slug, "retryable": silence.is_retryable}
        if silence.hint is not None:
            from mcpd.daemon_start.hints import with_socket

            data["hint"] = with_socket(silence.hint, self._asked.socket)
        error = {"code": -32603, "message": silence.message, "data": data}
        if why in ("absent", "refused") and now < self._start_at:
            return  # why none could be started says more
        self.obstacle = Obstacle(error, exits.NO_DAEMON, is_firm=why not in PASSING)

    def _close(self) -> None:
        self._hang_up()
        self._end_search()

    def _hang_up(self) -> None:
        self.is_attached = False
        self._attaching = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None


def _chance() -> float:
    """Return a number from 0 to 1; ``random`` costs start-up time."""
    return int.from_bytes(os.urandom(2), "big") / 0xFFFF


def _config(attaching: attachment.Attaching, asked: Arguments) -> str | None:
    """Return the configuration that a new daemon is to have: that of the old one."""
    told = attaching.hello.get("config")
    return told if isinstance(told, str) else asked.config

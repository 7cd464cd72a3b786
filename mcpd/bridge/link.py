"""The connection to the daemon, and reconnecting when it is lost, in steps that do not block."""

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
    from collections.abc import Mapping
    from typing import Any

    from mcpd.bridge.arguments import Arguments
    from mcpd.daemon_start.search import Search

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
"""The longest time between two attempts, before jitter: a restart is noticed soon."""

START_POLL_S = 0.03
"""Between two attempts while this bridge starts a daemon."""

WAIT_POLL_S = 0.1
"""While another client starts one: twenty that poll faster would slow its start down."""

START_AGAIN_S = 30.0
"""After a daemon that failed to start: half to all of this, so that every bridge gets its turn."""

STEADY_S = 1.0
"""A connection that lasted this long resets the delay between attempts."""

QUEUE_TIMEOUT_S = 20.0
"""How long requests wait for a daemon; then each is answered with why there is none."""


class Obstacle:
    """Why there is no session: the error for requests, and the exit status if the bridge ends.

    ``is_firm``: waiting does not help, so requests are answered at once.
    """

    def __init__(self, error: dict[str, Any], status: int, *, is_firm: bool) -> None:
        self.error = error
        self.status = status
        self.is_firm = is_firm

    def text(self) -> str:
        """Return the message for people, with what to type next where that is known."""
        message, data = str(self.error.get("message")), self.error.get("data")
        hint = data.get("hint") if isinstance(data, dict) else None
        return f"{message}\n  {hint}" if hint and hint not in message else message


class Link:
    """At most one connection to a daemon.

    It is attached, or being attached; or a daemon is searched for; or the next attempt waits for
    its time.
    """

    def __init__(
        self,
        path: str,
        arguments: Arguments,
        connection: socket.socket,
        first: attachment.Attachment,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``variables`` are added to the environment of a daemon that is started."""
        self.connection: socket.socket | None = connection
        self.is_attached = True
        self.server = first.server
        self.pid: object = first.hello.get("pid")
        self.obstacle: Obstacle | None = None
        self.is_incompatible = False
        """Whether the daemon that runs speaks another version of the protocol."""
        self.lost_at = math.inf
        """Monotonic time at which the session was lost, ``inf`` while there is one."""
        self._path = path
        self._variables = variables
        self._arguments = arguments
        self._config = _config(first, arguments)
        self._attachment: attachment.Attachment | None = None
        self._search: Search | None = None
        self._next_at = math.inf  # monotonic
        self._start_at = -math.inf  # monotonic; when a daemon may be started again
        self._tries = 0
        self._up_at = -math.inf  # monotonic

    @property
    def events(self) -> int:
        """The events to poll the connection for while it is not attached."""
        return select.POLLIN if self._attachment is None else self._attachment.request.events

    def next_at(self) -> float:
        """Return the monotonic time at which to call ``advance`` if no event comes before."""
        return self._next_at if self._attachment is None else self._attachment.request.next_at

    def answer_at(self) -> float:
        """Return the monotonic time at which queued requests are answered with an error."""
        return self.lost_at + QUEUE_TIMEOUT_S

    def resumed(self, now: float) -> None:
        """Note that the session has been resumed."""
        self.obstacle = None
        self.lost_at = math.inf
        self._up_at = now

    def lost(self, now: float) -> None:
        """Close the connection, which was lost, and schedule the next attempt."""
        self._close()
        if self.lost_at == math.inf:
            self.lost_at = now
        if self.obstacle is None:
            from mcpd.daemon_start.hints import with_socket

            hint = with_socket("mcpctl up", self._arguments.socket)
            self.obstacle = Obstacle(no_daemon(hint), exits.NO_DAEMON, is_firm=False)
        if now - self._up_at >= STEADY_S:
            self._tries = 0
        self._up_at = math.inf
        self._wait(now)

    def refused(self, error: dict[str, Any], now: float) -> None:
        """Close the connection because the server refused the session; try again later."""
        self._set_refusal(attachment.Refused(error))
        self.lost(now)

    def advance(self, now: float) -> bool:
        """Do the next step without blocking; return whether it attached the connection."""
        try:
            return self._advance(now)
        except attachment.Refused as refusal:
            self._set_refusal(refusal)
        except DaemonUnavailable as error:
            self._set_unavailable(error, now)
            if error.details.get("why") == "gone":
                # It listened before it had read its configuration. The search goes on: its start
                # reports why the daemon ended.
                self._hang_up()
                self._wait(now)
                return False
        except OSError as error:  # no process, descriptor or memory is free
            message = f"cannot reach a daemon: {error.strerror}"
            self._set_unavailable(DaemonUnavailable(message, why="start_failed"), now)
        self._close()
        self._wait(now)
        return False

    def close(self) -> None:
        """Close the connection and end the search."""
        self._close()

    def _advance(self, now: float) -> bool:
        if self.connection is None and now >= self._next_at:
            self._connect(now)
        if self._attachment is None or not self._attachment.step():
            return False
        self.server = self._attachment.server
        self.pid = self._attachment.hello.get("pid")
        self._config = _config(self._attachment, self._arguments)
        self._attachment = None
        self._end_search()
        self.is_attached = True
        return True

    def _connect(self, now: float) -> None:
        if self._arguments.may_start and now >= self._start_at:
            if self._search is None:
                from mcpd.daemon_start.search import Search

                self._search = Search(self._path, config=self._config, variables=self._variables)
            found = self._search.poll()
        else:
            found = connect(self._path, 0)
        if found is None:
            is_ours = self._search is not None and self._search.is_starter
            self._next_at = now + (START_POLL_S if is_ours else WAIT_POLL_S)
            return
        found.setblocking(False)
        self._next_at = math.inf
        self.connection = found
        self._attachment = attachment.Attachment(found, self._arguments)

    def _wait(self, now: float) -> None:
        """Schedule the next attempt, later each time, with jitter."""
        self._next_at = now + _jitter() * min(
            LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(self._tries, 16)
        )
        self._tries += 1

    def _set_refusal(self, refusal: attachment.Refused) -> None:
        is_firm = refusal.kind != "draining"  # else another daemon is about to start
        self.obstacle = Obstacle(refusal.error, refusal.status, is_firm=is_firm)

    def _set_unavailable(self, error: DaemonUnavailable, now: float) -> None:
        why = error.details.get("why")
        if why == "start_failed":
            self._start_at = now + START_AGAIN_S * (1 + _jitter()) / 2
        self.is_incompatible = why == "incompatible"
        data: dict[str, Any] = {"kind": error.slug, "retryable": error.is_retryable}
        if error.hint is not None:
            from mcpd.daemon_start.hints import with_socket

            data["hint"] = with_socket(error.hint, self._arguments.socket)
        response = {"code": -32603, "message": error.message, "data": data}
        if why in ("absent", "refused") and now < self._start_at:
            return  # the reason why none could be started is kept
        self.obstacle = Obstacle(response, exits.NO_DAEMON, is_firm=why not in PASSING)

    def _close(self) -> None:
        self._hang_up()
        self._end_search()

    def _hang_up(self) -> None:
        self.is_attached = False
        self._attachment = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None


def _jitter() -> float:
    """Return a random number from 0 to 1. Importing ``random`` would cost start-up time."""
    return int.from_bytes(os.urandom(2), "big") / 0xFFFF


def _config(first: attachment.Attachment, arguments: Arguments) -> str | None:
    """Return the configuration for a new daemon: that of the old one."""
    config = first.hello.get("config")
    return config if isinstance(config, str) else arguments.config

"""A connection that is attached to an endpoint, and the questions that are asked for it."""

from __future__ import annotations

import json
import math
import os
import select
import socket
import time

from mcpd import __version__, exits
from mcpd.api import version
from mcpd.bridge import streams
from mcpd.daemon_start.connection import connect
from mcpd.daemon_start.deadline import ResponseDeadline
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpd.bridge.arguments import Arguments

SILENCE_S = 2.0
"""After which it is said that the daemon does not respond, though it may still load."""

STATUS_TIMEOUT_S = 1.0
STARTING = ("starting", "backoff")


class Refused(Exception):
    """The daemon lets us attach to no such endpoint; ``error`` is what it says."""

    def __init__(self, error: dict[str, Any]) -> None:
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        message = error.get("message")
        told = message if isinstance(message, str) and message else "the daemon gave no reason"
        super().__init__(" ".join(told.splitlines()))
        self.error = error
        self.kind = data.get("kind")
        self.hint = data.get("hint")
        self.status = exits.BY_KIND.get(str(self.kind), exits.NO_SERVER)


class Question:
    """A request on a connection on which nothing else is under way; nobody waits for the answer.

    Nothing beyond the answer is read: what follows is the session's.
    """

    def __init__(self, connection: socket.socket, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": "mcpctl", "method": method, "params": params}
        self.patience = ResponseDeadline(connection)
        self.deadline = time.monotonic() + self.patience.remaining()
        """When to ``step``, if nothing happens before; monotonic."""
        connection.setblocking(False)  # a time-out of its own would end the wait before ours does
        self._connection = connection
        self._outbox = streams.to_socket(connection)
        self._outbox.put([json.dumps(message).encode() + b"\n"])
        self._line = b""

    @property
    def events(self) -> int:
        """What to poll the connection for."""
        return select.POLLIN | (select.POLLOUT if self._outbox.size else 0)

    def step(self) -> dict[str, Any] | None:
        """Return the result once it is there.

        Raises ``Refused`` for an error, and ``DaemonUnavailable`` for a daemon that hangs up, says
        something else, or does not respond.
        """
        try:
            self._outbox.flush()
            while not self._line.endswith(b"\n"):
                chunk = self._connection.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                if not chunk:
                    raise DaemonUnavailable("the daemon hung up", hint="mcpctl status", why="gone")
                self._line += self._connection.recv(chunk.find(b"\n") + 1 or len(chunk))
        except BlockingIOError:
            if time.monotonic() >= self.deadline:
                left = self.patience.remaining()
                if not left:
                    raise self.patience.error() from None
                self.deadline = time.monotonic() + left
            return None
        except OSError as error:
            raise DaemonUnavailable(
                f"the daemon hung up: {error.strerror}", hint="mcpctl status", why="gone"
            ) from None
        try:
            answer = json.loads(self._line)
        except ValueError:
            raise DaemonUnavailable("what listens there is no mcpd", why="incompatible") from None
        if isinstance(answer, dict) and isinstance(answer.get("result"), dict):
            found: dict[str, Any] = answer["result"]
            return found
        refusal = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(refusal, dict):
            refusal = {"code": -32603, "message": "the daemon gave no answer"}
        raise Refused(refusal)

    def wait(self, until: float) -> None:
        """Wait until there is something to do, or until ``until`` (monotonic)."""
        poll = select.poll()
        poll.register(self._connection, self.events)
        poll.poll(max(0.0, min(self.deadline, until) - time.monotonic()) * 1000 + 1)


class Attaching:
    """The two questions that make a connection a session: who is there, and may we attach."""

    def __init__(self, connection: socket.socket, asked: Arguments) -> None:
        self.hello: dict[str, Any] = {}
        """What the daemon said of itself."""
        self.server: str | None = None
        """The server's name, ``None`` for the aggregate."""
        self._connection = connection
        self._asked = asked
        self.question = Question(connection, "mcpd/hello", {})

    def step(self) -> bool:
        """Tell whether we are attached by now; raise as ``Question.step`` does.

        A daemon of another protocol is ``DaemonUnavailable`` with ``incompatible``.
        """
        result = self.question.step()
        if result is None:
            return False
        if not self.hello:
            complaint = version.complaint(result.get("api"))
            if complaint is not None:
                hint = "after an upgrade: mcpctl restart --daemon, and start the client anew"
                raise DaemonUnavailable(complaint, hint=hint, why="incompatible")
            self.hello = result
            params = _params(self._asked)
            self.question = Question(self._connection, "mcpd/attach", params)
            return self.step()
        name = result.get("server")
        self.server = name if isinstance(name, str) else None
        return True


def attach(connection: socket.socket, asked: Arguments, say: Callable[[str], None]) -> Attaching:
    """Make ``connection`` a session, and wait for it; ``say`` hears of a daemon that is slow.

    Nothing is read from stdin before. Raises ``Refused`` and ``DaemonUnavailable``.
    """
    attaching = Attaching(connection, asked)
    silent_at = time.monotonic() + SILENCE_S
    while not attaching.step():
        attaching.question.wait(silent_at)
        if time.monotonic() >= silent_at:
            pid = attaching.question.patience.pid
            say(f"the daemon (pid {pid}) does not respond yet: waiting")
            silent_at = math.inf
    return attaching


def is_starting(path: str, server: str | None) -> bool:
    """Ask the daemon, on another connection, whether a server of the endpoint is starting.

    A daemon that does not say has nothing that is worth waiting for.
    """
    params = {} if server is None else {"servers": [server]}
    try:
        with connect(path, STATUS_TIMEOUT_S) as connection:
            question = Question(connection, "mcpd/status", params)
            until = time.monotonic() + STATUS_TIMEOUT_S
            while (result := question.step()) is None:
                if time.monotonic() >= until:
                    return False
                question.wait(until)
    except (DaemonUnavailable, Refused):
        return False
    found = [one for one in result.get("servers", ()) if isinstance(one, dict)]
    instances = [two for one in found for two in one.get("instances", ()) if isinstance(two, dict)]
    return any(one.get("state") in STARTING for one in found + instances)


def _params(asked: Arguments) -> dict[str, Any]:
    params: dict[str, Any] = {
        "client": {"name": "mcpctl connect", "version": __version__, "pid": os.getpid()},
        "control": False,
        "farewell": True,
    }
    cwd = _cwd()
    if cwd is not None:
        params["cwd"] = cwd
    if asked.server is not None:
        params["server"] = asked.server
    if asked.command:
        params["command"] = {
            "command": asked.command[0],
            "args": asked.command[1:],
            "env": _environment(),
            "inherit_env": "none",  # ours, not the daemon's with ours over it
        }
        if cwd is not None:
            params["command"]["cwd"] = cwd
    return params


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # removed under our feet
        return None


def _environment() -> dict[str, str]:
    """Return our environment without what tells terminals apart, and what JSON cannot hold."""
    from mcpd.daemon_start.environment import is_ephemeral

    return {
        name: value
        for name, value in os.environ.items()
        if not is_ephemeral(name) and _is_text(name + value)
    }


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

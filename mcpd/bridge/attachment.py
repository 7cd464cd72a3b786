"""Attaching a connection to a server: the two control requests that make it a session."""

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

CLIENT = "mcpctl connect"
"""What a bridge calls itself: its client is the process that started it."""

SILENCE_S = 2.0
"""Until stderr reports that the daemon does not respond; it may still be loading."""

STATUS_TIMEOUT_S = 1.0
STARTING = ("starting", "backoff")


class Refused(Exception):
    """The daemon refuses to attach; ``error`` is the ``error`` member of its response."""

    def __init__(self, error: dict[str, Any]) -> None:
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        message = error.get("message")
        text = message if isinstance(message, str) and message else "the daemon gave no reason"
        super().__init__(" ".join(text.splitlines()))
        self.error = error
        self.kind = data.get("kind")
        self.hint = data.get("hint")
        self.status = exits.BY_KIND.get(str(self.kind), exits.NO_SERVER)


class ControlRequest:
    """One request on a connection that carries nothing else, driven by ``step``.

    Reads the response and no byte after it, since those belong to the session.
    """

    def __init__(self, connection: socket.socket, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": "mcpctl", "method": method, "params": params}
        self.response_deadline = ResponseDeadline(connection)
        self.next_at = time.monotonic() + self.response_deadline.remaining()
        """Monotonic time at which to call ``step`` if no event comes before."""
        connection.setblocking(False)  # the socket's timeout must not end the wait earlier
        self._connection = connection
        self._outbox = streams.to_socket(connection)
        self._outbox.put([json.dumps(message).encode() + b"\n"])
        self._line = b""

    @property
    def events(self) -> int:
        """The events to poll the connection for."""
        return select.POLLIN | (select.POLLOUT if self._outbox.size else 0)

    def step(self) -> dict[str, Any] | None:
        """Return the result, or ``None`` while it is incomplete.

        Raises ``Refused`` for an error response, and ``DaemonUnavailable`` for a daemon that hangs
        up, sends something else, or passes the deadline.
        """
        try:
            self._outbox.flush()
            while not self._line.endswith(b"\n"):
                chunk = self._connection.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                if not chunk:
                    raise DaemonUnavailable("the daemon hung up", hint="mcpctl status", why="gone")
                self._line += self._connection.recv(chunk.find(b"\n") + 1 or len(chunk))
        except BlockingIOError:
            if time.monotonic() >= self.next_at:
                left = self.response_deadline.remaining()
                if not left:
                    raise self.response_deadline.error() from None
                self.next_at = time.monotonic() + left
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
        """Block until ``step`` has something to do, or until ``until`` (monotonic)."""
        poll = select.poll()
        poll.register(self._connection, self.events)
        poll.poll(max(0.0, min(self.next_at, until) - time.monotonic()) * 1000 + 1)


class Attachment:
    """``mcpd/hello`` and ``mcpd/attach`` on a new connection, which is a session after them."""

    def __init__(self, connection: socket.socket, arguments: Arguments) -> None:
        self.hello: dict[str, Any] = {}
        """The result of ``mcpd/hello``."""
        self.server: str | None = None
        """Name of the server, ``None`` for all enabled servers as one."""
        self._connection = connection
        self._arguments = arguments
        self.request = ControlRequest(connection, "mcpd/hello", {})

    def step(self) -> bool:
        """Return whether the connection is attached; raise as ``ControlRequest.step`` does.

        Raises ``DaemonUnavailable`` with ``incompatible`` for another version of the protocol.
        """
        result = self.request.step()
        if result is None:
            return False
        if not self.hello:
            complaint = version.complaint(result.get("api"))
            if complaint is not None:
                hint = "after an upgrade: mcpctl restart --daemon, then restart the client"
                raise DaemonUnavailable(complaint, hint=hint, why="incompatible")
            self.hello = result
            params = _params(self._arguments)
            self.request = ControlRequest(self._connection, "mcpd/attach", params)
            return self.step()
        name = result.get("server")
        self.server = name if isinstance(name, str) else None
        if isinstance(notice := result.get("notice"), str):
            streams.report(notice)
        return True


def attach(
    connection: socket.socket, arguments: Arguments, report: Callable[[str], None]
) -> Attachment:
    """Attach ``connection`` and return once it is a session; ``report`` a daemon that is slow.

    Raises as ``Attachment.step`` does.
    """
    attachment = Attachment(connection, arguments)
    silent_at = time.monotonic() + SILENCE_S
    while not attachment.step():
        attachment.request.wait(silent_at)
        if time.monotonic() >= silent_at:
            pid = attachment.request.response_deadline.pid
            report(f"the daemon (pid {pid}) does not respond yet: waiting")
            silent_at = math.inf
    return attachment


def is_starting(path: str, server: str | None) -> bool:
    """Return whether a server of the session is starting, by a request on another connection.

    Returns ``False`` if the daemon cannot be arguments.
    """
    params = {} if server is None else {"servers": [server]}
    try:
        with connect(path, STATUS_TIMEOUT_S) as connection:
            question = ControlRequest(connection, "mcpd/status", params)
            until = time.monotonic() + STATUS_TIMEOUT_S
            while (result := question.step()) is None:
                if time.monotonic() >= until:
                    return False
                question.wait(until)
    except (DaemonUnavailable, Refused):
        return False
    servers = [server for server in result.get("servers", ()) if isinstance(server, dict)]
    instances = [each for server in servers for each in server.get("instances", ())]
    states = [each.get("state") for each in servers + instances if isinstance(each, dict)]
    return any(state in STARTING for state in states)


def _params(arguments: Arguments) -> dict[str, Any]:
    params: dict[str, Any] = {
        "client": {"name": CLIENT, "version": __version__, "pid": os.getpid()},
        "control": False,
        "farewell": True,
    }
    cwd = _cwd()
    if cwd is not None:
        params["cwd"] = cwd
    if arguments.profile is not None:
        params["profile"] = arguments.profile
    if arguments.server is not None:
        params["server"] = arguments.server
    if arguments.command:
        params["command"] = {
            "command": arguments.command[0],
            "args": arguments.command[1:],
            "env": _environment(),
            "inherit_env": "none",  # this process's alone, without the daemon's below it
        }
        if cwd is not None:
            params["command"]["cwd"] = cwd
    return params


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # the directory was removed
        return None


def _environment() -> dict[str, str]:
    """Return the environment without the variables of one terminal or that JSON cannot hold."""
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

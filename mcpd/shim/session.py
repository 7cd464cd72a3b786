"""A connection that is attached to an endpoint, and the one question asked beside it."""

from __future__ import annotations

import json
import os
import socket
import time

from mcpd import __version__, launch
from mcpd.errors import DaemonUnavailable
from mcpd.shim import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcpd.shim.arguments import Arguments

ATTACH_TIMEOUT_S = 20.0
"""For a daemon that listens already and still loads; one that runs answers in milliseconds."""

STATUS_TIMEOUT_S = 1.0
STARTING = ("starting", "backoff")


class Refused(Exception):
    """The daemon lets us attach to no such endpoint."""

    def __init__(self, error: dict[str, Any]) -> None:
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        super().__init__(str(error.get("message")))
        self.hint = data.get("hint")
        self.status = exits.BY_KIND.get(str(data.get("kind")), exits.NO_SERVER)


def attach(connection: socket.socket, asked: Arguments) -> str | None:
    """Make ``connection`` a session, and return the server's name, ``None`` for the aggregate.

    Nothing is read from stdin before. Raises ``Refused``, and ``DaemonUnavailable`` for a daemon
    that hangs up or does not respond.
    """
    result = _request(connection, "mcpd/attach", _params(asked), ATTACH_TIMEOUT_S)
    name = result.get("server")
    return name if isinstance(name, str) else None


def is_starting(path: str, server: str | None) -> bool:
    """Ask the daemon, on another connection, whether a server of the endpoint is starting.

    A daemon that does not say has nothing that is worth waiting for.
    """
    params = {} if server is None else {"servers": [server]}
    try:
        connection = launch.connect(path, STATUS_TIMEOUT_S)
        with connection:
            result = _request(connection, "mcpd/status", params, STATUS_TIMEOUT_S)
    except (DaemonUnavailable, Refused):
        return False
    found = [one for one in result.get("servers", ()) if isinstance(one, dict)]
    instances = [two for one in found for two in one.get("instances", ()) if isinstance(two, dict)]
    return any(one.get("state") in STARTING for one in found + instances)


def _params(asked: Arguments) -> dict[str, Any]:
    params: dict[str, Any] = {
        "client": {"name": "mcpctl connect", "version": __version__, "pid": os.getpid()},
        "control": False,
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
    return {
        name: value
        for name, value in os.environ.items()
        if not launch.is_ephemeral(name) and _is_text(name + value)
    }


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _request(
    connection: socket.socket, method: str, params: dict[str, Any], timeout: float
) -> dict[str, Any]:
    """Send a connection's only request so far, and return the result."""
    message = {"jsonrpc": "2.0", "id": "mcpctl", "method": method, "params": params}
    deadline = time.monotonic() + timeout
    line = b""
    try:
        connection.settimeout(timeout)
        connection.sendall(json.dumps(message).encode() + b"\n")
        while not line.endswith(b"\n"):
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = connection.recv(1 << 16, socket.MSG_PEEK)  # what follows is the session's
            if not chunk:
                raise DaemonUnavailable("the daemon hung up", hint="mcpctl status", why="gone")
            line += connection.recv(chunk.find(b"\n") + 1 or len(chunk))
        answer = json.loads(line)
    except TimeoutError:
        pid, _ = launch.peer_of(connection)
        raise DaemonUnavailable(
            f"the daemon (pid {pid}) does not respond within {timeout:g} s",
            hint="if it does not recover: mcpctl down --force, then mcpctl up",
            why="unresponsive",
            pid=pid,
        ) from None
    except OSError as error:
        raise DaemonUnavailable(
            f"the daemon hung up: {error.strerror}", hint="mcpctl status", why="gone"
        ) from None
    except ValueError:
        raise DaemonUnavailable("what listens there is no mcpd", why="incompatible") from None
    if isinstance(answer, dict) and isinstance(answer.get("result"), dict):
        found: dict[str, Any] = answer["result"]
        return found
    refusal = answer.get("error") if isinstance(answer, dict) else None
    raise Refused(
        refusal if isinstance(refusal, dict) else {"message": "the daemon gave no answer"}
    )

"""Asks the daemon, if one answers; starts neither it nor a server."""

from __future__ import annotations

from typing import Any

from mcpd.client.control import Control
from mcpd.doctor.facts import Talk
from mcpd.errors import DaemonUnavailable, RequestFailed

ANSWER_S = 1.5
"""For one answer of a daemon that has said hello."""

LINES = 60
"""Of a server in trouble, to be looked through for what is known to be the matter."""

IN_TROUBLE = ("failed", "backoff")


def talk(path: str) -> Talk:
    """Return what the daemon on ``path`` says."""
    try:
        with Control.open(path) as control:
            return _ask(control)
    except DaemonUnavailable as error:
        pid = error.details.get("pid")
        return Talk(
            why=str(error.details.get("why", "gone")),
            silence=error.message,
            hint=error.hint,
            pid=pid if isinstance(pid, int) else None,
        )


def _ask(control: Control) -> Talk:
    hello: dict[str, Any] = dict(control.hello)
    status = _request(control, "mcpd/status", {})
    listed = _request(control, "mcpd/list", {})
    servers = [] if status is None else status.get("servers", [])
    tools: dict[str, list[dict[str, Any]]] = {}
    said: dict[str, list[str]] = {}
    for server in servers:
        name, state = server["name"], server["state"]
        if server.get("tools") and state not in ("disabled", "misconfigured"):
            found = _request(control, "mcpd/tools", {"server": name})  # from memory: it is known
            tools[name] = [] if found is None else found["tools"]
        if state in IN_TROUBLE:
            lines = _request(control, "mcpd/logs", {"server": name, "lines": LINES})
            known = [] if lines is None else lines["lines"]
            said[name] = [line["text"] for line in known if line["source"] == "stderr"]
    return Talk(pid=hello["pid"], hello=hello, status=status, listed=listed, tools=tools, said=said)


def _request(control: Control, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return an answer, ``None`` for an error: a server may have gone since it was listed."""
    try:
        found: dict[str, Any] = control.request(method, params, timeout=ANSWER_S)
        return found
    except RequestFailed:
        return None

"""Sends requests to the daemon, if one answers; starts neither a daemon nor a server."""

from __future__ import annotations

from typing import Any

from mcpd.client.control import Control
from mcpd.doctor.facts import Talk
from mcpd.errors import DaemonUnavailable, RequestFailed

ANSWER_S = 1.5
"""Seconds for each answer after the handshake."""

LINES = 60
"""Log lines of a failed server that are searched for known problems."""

IN_TROUBLE = ("failed", "backoff")
UNUSABLE = ("disabled", "misconfigured", "untrusted")


def talk(path: str) -> Talk:
    """Return the answers of the daemon on ``path``."""
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
        if server.get("tools") and state not in UNUSABLE:
            found = _request(control, "mcpd/tools", {"server": name})  # answered from its cache
            tools[name] = [] if found is None else found["tools"]
        if state in IN_TROUBLE:
            lines = _request(control, "mcpd/logs", {"server": name, "lines": LINES})
            known = [] if lines is None else lines["lines"]
            said[name] = [line["text"] for line in known if line["source"] == "stderr"]
    return Talk(
        pid=hello["pid"],
        hello=hello,
        status=status,
        listed=listed,
        tools=tools,
        names=_names(control, tools),
        said=said,
    )


def _names(control: Control, tools: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Return the names of the tools of servers; where none are pinned, of those that are shown."""
    names = {server: [tool["name"] for tool in listed] for server, listed in tools.items()}
    pinned = _request(control, "mcpd/pins", {})
    for server in [] if pinned is None else pinned["servers"]:
        found = [item["name"] for item in server["items"] if item["kind"] == "tool"]
        if found and server["name"] in names:
            names[server["name"]] = found
    return names


def _request(control: Control, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result, or ``None`` for an error: a server may have been removed since."""
    try:
        found: dict[str, Any] = control.request(method, params, timeout=ANSWER_S)
        return found
    except RequestFailed:
        return None

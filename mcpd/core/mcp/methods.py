"""The table of client requests: how each is routed, and the parameters that it must have."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Route(Enum):
    """How a request is handled, and which parameter selects its server."""

    INITIALIZE = "initialize"
    PING = "ping"
    DISCOVER = "discover"
    LIST = "list"
    TOOL = "tool"
    PROMPT = "prompt"
    READ = "read"
    REFERENCE = "reference"
    LEVEL = "level"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    LISTEN = "listen"
    TASK = "task"


class Method(msgspec.Struct, frozen=True):
    """One request of a client.

    ``required`` names the members of ``params`` without which real servers crash or never answer.
    ``kind`` names the list that the request reads. ``may_repeat`` is true if it changes nothing:
    it is sent again after a crash. ``is_recorded`` is true if the audit has a row for each.
    """

    name: str
    route: Route
    required: tuple[str, ...] = ()
    capability: str | None = None
    kind: str | None = None
    may_repeat: bool = False
    is_input_capable: bool = False
    is_recorded: bool = False
    is_legacy: bool = True
    is_modern: bool = True
    quoted: bytes = b""


def _table(*methods: Method) -> dict[str, Method]:
    return {
        m.name: msgspec.structs.replace(m, quoted=b'"' + m.name.encode() + b'"') for m in methods
    }


CLIENT_REQUESTS: Final = _table(
    Method("initialize", Route.INITIALIZE, is_modern=False),
    Method("ping", Route.PING, is_modern=False),
    Method("server/discover", Route.DISCOVER, is_legacy=False),
    Method("tools/list", Route.LIST, capability="tools", kind="tools"),
    Method("prompts/list", Route.LIST, capability="prompts", kind="prompts"),
    Method("resources/list", Route.LIST, capability="resources", kind="resources"),
    Method("resources/templates/list", Route.LIST, capability="resources", kind="templates"),
    Method(
        "tools/call",
        Route.TOOL,
        required=("name",),
        capability="tools",
        is_input_capable=True,
        is_recorded=True,
    ),
    Method(
        "prompts/get",
        Route.PROMPT,
        required=("name",),
        capability="prompts",
        may_repeat=True,
        is_input_capable=True,
        is_recorded=True,
    ),
    Method(
        "resources/read",
        Route.READ,
        required=("uri",),
        capability="resources",
        may_repeat=True,
        is_input_capable=True,
        is_recorded=True,
    ),
    Method(
        "completion/complete",
        Route.REFERENCE,
        required=("ref", "argument"),
        may_repeat=True,
    ),
    Method(
        "logging/setLevel",
        Route.LEVEL,
        required=("level",),
        capability="logging",
        is_modern=False,
    ),
    Method(
        "resources/subscribe",
        Route.SUBSCRIBE,
        required=("uri",),
        capability="resources",
        is_modern=False,
    ),
    Method(
        "resources/unsubscribe",
        Route.UNSUBSCRIBE,
        required=("uri",),
        capability="resources",
        is_modern=False,
    ),
    Method("subscriptions/listen", Route.LISTEN, required=("notifications",), is_legacy=False),
    Method("tasks/get", Route.TASK, required=("task_id",), may_repeat=True, is_legacy=False),
    Method("tasks/update", Route.TASK, required=("task_id",), is_legacy=False),
    Method("tasks/cancel", Route.TASK, required=("task_id",), may_repeat=True, is_legacy=False),
)
"""The requests of clients (ClientRequest in the 2025-11-25 and 2026-07-28 schemas).

Requests about tasks are those of the modern extension; the tasks of 2025-11-25 are not relayed.
``required`` names fields of ``wire.envelope.Params``.
"""

LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""RFC 5424 severities as MCP spells them, most verbose first."""

"""One table: the requests a client may send, how each is routed, and what it must carry."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Route(Enum):
    """Who answers a request, and by what the server is found."""

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


class Method(msgspec.Struct, frozen=True):
    """One request of a client.

    ``required`` names the members of ``params`` without which real servers die or fall silent;
    ``kind`` names the list that it reads; ``may_repeat`` says that it changes nothing, so that it
    is sent once more after a crash.
    """

    name: str
    route: Route
    required: tuple[str, ...] = ()
    capability: str | None = None
    kind: str | None = None
    may_repeat: bool = False
    is_input_capable: bool = False
    quoted: bytes = b""


def _table(*methods: Method) -> dict[str, Method]:
    return {
        m.name: msgspec.structs.replace(m, quoted=b'"' + m.name.encode() + b'"') for m in methods
    }


CLIENT_REQUESTS: Final = _table(
    Method("initialize", Route.INITIALIZE),
    Method("ping", Route.PING),
    Method("server/discover", Route.DISCOVER),
    Method("tools/list", Route.LIST, capability="tools", kind="tools"),
    Method("prompts/list", Route.LIST, capability="prompts", kind="prompts"),
    Method("resources/list", Route.LIST, capability="resources", kind="resources"),
    Method("resources/templates/list", Route.LIST, capability="resources", kind="templates"),
    Method("tools/call", Route.TOOL, required=("name",), capability="tools", is_input_capable=True),
    Method(
        "prompts/get",
        Route.PROMPT,
        required=("name",),
        capability="prompts",
        may_repeat=True,
        is_input_capable=True,
    ),
    Method(
        "resources/read",
        Route.READ,
        required=("uri",),
        capability="resources",
        may_repeat=True,
        is_input_capable=True,
    ),
    Method(
        "completion/complete",
        Route.REFERENCE,
        required=("ref", "argument"),
        may_repeat=True,
    ),
    Method("logging/setLevel", Route.LEVEL, required=("level",), capability="logging"),
    Method("resources/subscribe", Route.SUBSCRIBE, required=("uri",), capability="resources"),
    Method("resources/unsubscribe", Route.UNSUBSCRIBE, required=("uri",), capability="resources"),
)
"""The requests of a legacy client (2025-11-25 schema, ClientRequest); no ``tasks/*``."""

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

"""The servers that are reached by URL: which there are, how each starts, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.real.peers import CLIENTS, LEGACY, MODERN, SERVERS, Client, Server
from tests.real.servers import EVERYTHING, Call

Json = dict[str, Any]

STATELESS: Final = {
    "cancel": "no session in which a cancellation could be told",
    "ask": "no session in which an answer could be sent",
    "ask_back": "no session in which an answer could be sent",
    "change": "no stream on which a change could be told",
}
JSON_ONLY: Final = {
    "progress": "an answer in JSON has no reports before it",
    "cancel": "the client gives up at the first report",
    "ask": "an answer in JSON has no questions before it",
    "ask_back": "an answer in JSON has no questions before it",
    "log": "an answer in JSON has no messages before it",
}
LOGS_APART: Final = {
    "log": "its messages go to the stream of the session, and can come after the answer"
}
EACH_ITS_OWN: Final = {"change": "each request has a server of its own, with tools of its own"}


@dataclass(frozen=True)
class Remote:
    """A server of the matrix that listens at a port."""

    name: str
    """That of the server."""
    way: str
    """What it is told: stateful, stateless, json or sse; everything has names of its own."""
    client: str
    """A client on the same SDK, for direct use."""
    era: str = LEGACY
    """The revision that mcpd must find."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """What its entry has besides the URL."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """What it cannot do for its transport, and why."""
    lacks_for_modern: Mapping[str, str] = field(default_factory=dict)
    """What it cannot do for modern clients besides, and why."""

    @property
    def path(self) -> str:
        """The path of its URL."""
        return "/sse" if self.way == "sse" else "/mcp"

    @property
    def server(self) -> Server:
        """The server."""
        return SERVERS[self.name]

    def left_out(self, client: Client) -> dict[str, str]:
        """Return what its transport takes away from a client."""
        return {**self.lacks, **(self.lacks_for_modern if client.is_modern else {})}

    @property
    def direct(self) -> Client:
        """The client for direct use."""
        return CLIENTS[self.client]

    def started(self, real: Path, port: int) -> tuple[list[str], dict[str, str]]:
        """Return what starts it at a port: the command, and the variables that go with it."""
        command = self.server.command(real)
        if self.name == "everything":
            return [*command, self.way], {"PORT": str(port)}
        return [*command, self.way, str(port)], {}

    @property
    def calls(self) -> tuple[Call, ...]:
        """Calls of every tool that neither asks nor changes the list nor waits for ever."""
        if self.name == "everything":
            # Its SDK's client refuses one of them by itself.
            return tuple(call for call in EVERYTHING if call.tool != "simulate-research-query")
        texts = {"text": "naïve ☃ \\u2028 \u2028"}
        return (
            Call("echo", texts),
            Call("count", {"to": 2}),
            Call("tell", texts),
            Call("echo", {}),
            Call("no-such-tool"),
        )


_PYTHON1, _PYTHON2 = "python-1.30", "python-2.3"
_TYPESCRIPT1, _TYPESCRIPT2 = "typescript-1.32", "typescript-2.4"
_AS_LEGACY: Final[Json] = {"entry": {"era": "legacy"}}

REMOTES: Final = {
    "everything http": Remote("everything", "streamableHttp", _TYPESCRIPT1),
    "everything sse": Remote("everything", "sse", _TYPESCRIPT1),
    "python-1.26 stateful": Remote("python-1.26", "stateful", _PYTHON1),
    "python-1.26 sse": Remote("python-1.26", "sse", _PYTHON1),
    "python-1.30 stateful": Remote(_PYTHON1, "stateful", _PYTHON1),
    "python-1.30 stateless": Remote(_PYTHON1, "stateless", _PYTHON1, lacks=STATELESS),
    "python-1.30 json": Remote(_PYTHON1, "json", _PYTHON1, lacks=JSON_ONLY),
    "python-1.30 sse": Remote(_PYTHON1, "sse", _PYTHON1),
    "python-2.3 stateful": Remote(_PYTHON2, "stateful", "python-2.3-auto", MODERN),
    "python-2.3 stateless": Remote(_PYTHON2, "stateless", "python-2.3-auto", MODERN),
    "python-2.3 json": Remote(_PYTHON2, "json", "python-2.3-auto", MODERN, lacks=JSON_ONLY),
    "python-2.3 stateful as legacy": Remote(
        _PYTHON2, "stateful", "python-2.3-legacy", **_AS_LEGACY
    ),
    "python-2.3 stateless as legacy": Remote(
        _PYTHON2, "stateless", "python-2.3-legacy", **_AS_LEGACY, lacks=STATELESS
    ),
    "python-2.3 sse": Remote(_PYTHON2, "sse", "python-2.3-legacy"),
    "typescript-1.32 stateful": Remote(
        _TYPESCRIPT1, "stateful", _TYPESCRIPT1, lacks_for_modern=LOGS_APART
    ),
    "typescript-1.32 stateless": Remote(
        _TYPESCRIPT1, "stateless", _TYPESCRIPT1, lacks={**STATELESS, **LOGS_APART}
    ),
    "typescript-1.32 json": Remote(_TYPESCRIPT1, "json", _TYPESCRIPT1, lacks=JSON_ONLY),
    "typescript-1.32 sse": Remote(_TYPESCRIPT1, "sse", _TYPESCRIPT1),
    "typescript-2.4 stateful": Remote(_TYPESCRIPT2, "stateful", "typescript-2.4-legacy"),
    "typescript-2.4 stateless": Remote(
        _TYPESCRIPT2, "stateless", "typescript-2.4-auto", MODERN, lacks=EACH_ITS_OWN
    ),
    "typescript-2.4 json": Remote(
        _TYPESCRIPT2, "json", "typescript-2.4-auto", MODERN, lacks={**JSON_ONLY, **EACH_ITS_OWN}
    ),
    "typescript-2.4 stateless as legacy": Remote(
        _TYPESCRIPT2, "stateless", "typescript-2.4-legacy", **_AS_LEGACY, lacks=STATELESS
    ),
}
"""By the name of their entry."""

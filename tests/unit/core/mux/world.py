"""A mux with servers that are up, for tests of its parts through its front door."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcpd.core.interface import commands as cmd
from mcpd.core.requests.inflight import Outcome, Recipient, UpstreamRequest
from tests.support.transcript import Conversation


class Taker(Recipient):
    """Takes outcomes of requests, for tests of what is below clients."""

    def __init__(self, take: Callable[[Outcome], None] = lambda outcome: None) -> None:
        self._take = take

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        self._take(outcome)


class World(Conversation):
    """What a transcript plays with, and short ways to say what tests need."""

    def run(self, *lines: str) -> list[str]:
        """Do what the lines of a transcript say; return what the mux did, one line for each."""
        done: list[str] = []
        for line in lines:
            done += self._step(line)()
        return done

    def call(self, session: int, ident: int, tool: str = "write", **params: Any) -> list[str]:
        """Have a session call a tool."""
        return self.request(session, ident, "tools/call", name=tool, **params)

    def request(self, session: int, ident: int, method: str, **params: Any) -> list[str]:
        """Have a session ask something."""
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        return self.render(self.say(str(session), json.dumps(message).encode()))

    def answer(self, server: str, wire_id: int, result: Any = None) -> list[cmd.Command]:
        """Have a server answer."""
        message = {"jsonrpc": "2.0", "id": wire_id, "result": result or {}}
        return self.say(server, json.dumps(message).encode())

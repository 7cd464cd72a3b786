"""One cell of the matrix: what a client does on a server, and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.real.peers import LEGACY, MODERN, Client, Server

Json = dict[str, Any]

ACTIONS: Final = ("list", "call", "cancel", "progress", "ask", "ask_back", "log", "change")
GIVEN_UP: Final = {"duration": 1, "steps": 2}
"""A call of everything's that is given up half-way; it goes on reporting to nobody for a while."""
TOOLS: Final = {"echo", "count", "hang", "given_up", "tell", "toggle"}


@dataclass(frozen=True)
class Cell:
    """A client on a server, which is used in one of its eras."""

    client_name: str
    client: Client
    server_name: str
    server: Server
    modern: bool
    """Say whether the server is used as modern."""
    bridged: bool
    """Say whether mcpd is between them: then the client's era does not depend on the server's."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What the way to the server takes away, and why: its tools are listed all the same."""

    @property
    def version(self) -> str:
        """The revision that the client must get."""
        if self.client.is_modern and (self.bridged or self.modern):
            return MODERN
        return LEGACY if self.modern else self.server.speaks[0]

    def steps(self) -> dict[str, Json]:
        """Return what the client is told to do, by action; nothing that the server lacks."""
        own = self.client_name
        ask = {"do": "call", "arguments": {"question": f"Who is {own}?"}}
        whole: dict[str, Json] = {
            "list": {"do": "list"},
            "call": {"do": "call", "name": "echo", "arguments": {"text": f"naïve ☃ {own}"}},
            "progress": {"do": "progress", "name": "count", "arguments": {"to": 3}},
            "cancel": {"do": "cancel", "name": "hang", "arguments": {"label": own}},
            "ask": {**ask, "name": "ask"},
            "ask_back": {**ask, "name": "ask_back"},
            "log": {"do": "log", "name": "tell", "arguments": {"text": own}, "level": "debug"},
            "change": {"do": "change", "name": "toggle"},
        }
        if self.server_name == "everything":
            long = "trigger-long-running-operation"
            whole["call"] |= {"arguments": {"message": f"naïve ☃ {own}"}}
            whole["cancel"] |= {"name": long, "arguments": GIVEN_UP}
            whole["progress"] |= {"name": long, "arguments": {"duration": 0.9, "steps": 3}}
            whole["ask"] = {"do": "call", "name": "trigger-elicitation-request"}
        else:
            whole["cancel"]["heard_by"] = "given_up"
        missing = {*self.server.lacks, *self.left_out}
        return {action: whole[action] for action in ACTIONS if action not in missing}

    def asked(self) -> Json:
        """Return what the client reads.

        One that probes waits a minute for an answer before it takes the server for a legacy one:
        mcpd, which may have a process to start twice, can use it; silence need not take so long.
        """
        return {
            "probe_ms": 60_000 if self.bridged else 4_000,
            "mode": self.client.mode,
            "answer": self.client_name,
            "steps": list(self.steps().values()),
        }

    # -- what must come of it ----------------------------------------------------------------------

    def wanted(self, action: str) -> Any:
        """Return what must come of an action."""
        own = self.client_name
        match action:
            case "call":
                return self.result(f"naïve ☃ {own}")
            case "progress":
                return {"result": self.result("counted to 3"), "reports": self.reports()}
            case "cancel":
                return {"given_up": True, "heard": True}
            case "ask" | "ask_back":
                return self.result(f"Who is {own}? {own}")
            case "log":
                return {"result": self.result("told"), "messages": self.messages()}
            case "change":
                return {"result": self.result("toggled"), "told": True, "changed": True}
        raise AssertionError(action)

    def result(self, text: str) -> Json:
        """Return a fixture's result as every client prints it."""
        structured = {"structuredContent": {"result": text}} if self.server.structured else {}
        return {"content": [{"type": "text", "text": text}], **structured, "isError": False}

    def reports(self) -> list[Any]:
        """Return the reports of ``count``."""
        texts = self.server.texts_of_progress
        return [[step, 3, f"step {step}" if texts else None] for step in (1, 2, 3)]

    def messages(self) -> list[Any]:
        """Return the log messages that this client must get; it asks for those of ``debug``.

        Servers on Python's SDKs know no level in the legacy era, and advertise none: a legacy
        client cannot ask. Such a server says everything, and mcpd passes on what is not `debug`.
        """
        both = [[level, f"{level}: {self.client_name}"] for level in ("debug", "info")]
        if self.server.has_levels or self.version == MODERN or not self.bridged:
            return both
        return [] if self.modern else both[1:]

    def tools(self) -> set[str]:
        """Return the tools that must be listed, besides `extra`, which comes and goes."""
        return TOOLS | {tool for tool in ("ask", "ask_back") if tool not in self.server.lacks}


def check(cell: Cell, got: Mapping[str, Any], cannot: Mapping[str, str]) -> None:
    """Compare what came of each action; ``cannot`` are those that must fail, and the SDK's words."""
    came = dict(zip(cell.steps(), got["results"], strict=True))
    assert got["version"] == cell.version
    for action, result in came.items():
        if action in cannot:
            assert cannot[action] in json.dumps(result, ensure_ascii=False), action
        elif cell.server_name == "everything":
            _check_everything(cell, action, result)
        elif action == "list":
            assert {tool["name"] for tool in result} - {"extra"} == cell.tools()
        else:
            assert result == cell.wanted(action), action
    asked = [action for action in ("ask", "ask_back") if action in came and action not in cannot]
    if cell.server_name == "everything":
        assert len(got["questions"]) == len(asked)
    else:
        assert got["questions"] == [f"Who is {cell.client_name}?"] * len(asked)


def _check_everything(cell: Cell, action: str, result: Any) -> None:
    """Compare what came of an action on the reference server, which has words of its own."""
    match action:
        case "list":
            assert {"echo", "trigger-elicitation-request"} <= {tool["name"] for tool in result}
        case "call":
            assert result["content"][0]["text"] == f"Echo: naïve ☃ {cell.client_name}"
        case "progress":
            # The last comes together with the answer: clients on TypeScript may lose that one.
            reports = [report[:2] for report in result["reports"]]
            assert reports in ([[1, 3], [2, 3], [3, 3]], [[1, 3], [2, 3]])
            assert not result["result"]["isError"]
        case "cancel":
            assert result == {"given_up": True, "heard": None}  # see the test: the wire tells
        case "ask":
            assert cell.client_name in json.dumps(result["content"])
            assert not result["isError"]

"""A client on fastmcp, which has a client of its own above the Python SDK; ``steps.py`` says what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp.client import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPError
from sdk2 import LOG_LEVEL, MODERN
from steps import Json, Steps, headers, report


class Client(Steps):
    """A session by URL."""

    errors = MCPError

    def __init__(self, asked: Json) -> None:
        super().__init__(asked)
        self.client = FastClient(
            StreamableHttpTransport(sys.argv[1], headers=headers()),
            mode=asked.get("mode", "auto"),
            elicitation_handler=self.answers,
            log_handler=self.log,
            message_handler=self.hear,
        )

    async def answers(self, message: str, *_: object) -> Json:
        """Answer for the user."""
        self.questions.append(message)
        return {"name": self.answer}

    async def hear(self, message: Any) -> None:
        """Note a change of the list of tools."""
        self.changes += getattr(message, "method", "") == "notifications/tools/list_changed"

    async def tools(self) -> Any:
        """Return the tools that are listed."""
        return await self.client.list_tools()

    async def send(self, name: str, arguments: Json, on_progress: Any, level: str | None) -> Any:
        """Call a tool; the level is set before or sent along, as the era wants it."""
        meta = None
        if level and self.client.session.protocol_version >= MODERN:
            meta = {LOG_LEVEL: level}
        elif level and self.client.session.server_capabilities.logging:
            await self.client.set_logging_level(level)
        return await self.client.call_tool_mcp(name, arguments, on_progress, meta=meta)


async def main() -> None:
    """Do what standard input asks for."""
    asked = json.load(sys.stdin)
    client = Client(asked)
    async with client.client:
        session = client.client.session
        await report(client, asked, session.protocol_version, session.server_info.name)


if __name__ == "__main__":
    asyncio.run(main())

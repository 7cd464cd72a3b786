"""A client on the Python SDK 2.x, of the era that it is told or finds; ``steps.py`` says what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anyio
import mcp
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.exceptions import MCPError
from steps import Json, Steps, headers, program, report

MODERN = "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Client(Steps):
    """A session of the second generation."""

    errors = MCPError

    def __init__(self, asked: Json) -> None:
        super().__init__(asked)
        self.client = mcp.Client(
            server(),
            mode=asked.get("mode", "auto"),
            sampling_callback=self.sample,
            elicitation_callback=self.elicit,
            logging_callback=self.log,
            message_handler=self.hear,
        )

    @property
    def is_modern(self) -> bool:
        """Say whether the session is of the modern era."""
        return self.client.protocol_version >= MODERN

    async def hear(self, message: object) -> None:
        """Note a change of the list of tools."""
        self.changes += isinstance(message, types.ToolListChangedNotification)

    async def tools(self) -> list[types.Tool]:
        """Return the tools that are listed, whatever is in the client's own cache."""
        return (await self.client.list_tools(cache_mode="refresh")).tools

    async def send(self, name: str, arguments: Json, on_progress: Any, level: str | None) -> Any:
        """Call a tool; the level is set before or sent along, as the era wants it."""
        meta = None
        if level and self.is_modern:
            meta = {LOG_LEVEL: level}
        elif level and self.client.server_capabilities.logging:
            await self.client.set_logging_level(level)
        return await self.client.call_tool(
            name, arguments, progress_callback=on_progress, meta=meta
        )

    async def listen(self, until_told: Any) -> None:
        """Open a stream of changes, in the era that has them."""
        if not self.is_modern:
            await until_told()
            return
        async with (
            self.client.listen(tools_list_changed=True) as changes,
            anyio.create_task_group() as group,
        ):

            async def count() -> None:
                async for _ in changes:
                    self.changes += 1

            group.start_soon(count)
            await until_told()
            group.cancel_scope.cancel()


def server() -> Any:
    """Return what to connect to, as the SDK wants to be told."""
    sent = headers()
    if sent is None:
        return StdioServerParameters(**program())
    if sys.argv[1].endswith("/sse"):
        return sse_client(sys.argv[1], headers=sent)
    return streamable_http_client(sys.argv[1], http_client=create_mcp_http_client(headers=sent))


async def main() -> None:
    """Do what standard input asks for."""
    asked = json.load(sys.stdin)
    client = Client(asked)
    async with client.client:
        told = client.client.server_info
        await report(client, asked, client.client.protocol_version, told and told.name)


if __name__ == "__main__":
    asyncio.run(main())

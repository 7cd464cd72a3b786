"""A client on the Python SDK 1.x; ``steps.py`` says what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.exceptions import McpError
from steps import Json, Steps, headers, program, report


class Client(Steps):
    """A session of the first generation: always of the legacy era."""

    errors = McpError
    session: mcp.ClientSession

    async def hear(self, message: object) -> None:
        """Note a change of the list of tools."""
        if isinstance(message, types.ServerNotification):
            self.changes += isinstance(message.root, types.ToolListChangedNotification)

    async def tools(self) -> list[types.Tool]:
        """Return the tools that are listed."""
        return (await self.session.list_tools()).tools

    async def send(self, name: str, arguments: Json, on_progress: Any, level: str | None) -> Any:
        """Call a tool, after the level is set where the server knows of levels."""
        capabilities = self.session.get_server_capabilities()
        if level and capabilities and capabilities.logging:
            await self.session.set_logging_level(level)
        return await self.session.call_tool(name, arguments, progress_callback=on_progress)

    async def give_up(self) -> None:
        """Cancel the last request, which this generation does not tell the server by itself."""
        last = self.session._request_id - 1  # nor does it tell the id otherwise
        params = types.CancelledNotificationParams(requestId=last, reason="enough")
        note = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(note))


@asynccontextmanager
async def transport() -> AsyncIterator[tuple[Any, Any]]:
    """Connect to what the command line names."""
    sent = headers()
    if sent is None:
        async with mcp.stdio_client(mcp.StdioServerParameters(**program())) as (read, write):
            yield read, write
    elif sys.argv[1].endswith("/sse"):
        async with sse_client(sys.argv[1], headers=sent) as (read, write):
            yield read, write
    else:
        async with (
            create_mcp_http_client(headers=sent) as client,
            streamable_http_client(sys.argv[1], http_client=client) as (read, write, _),
        ):
            yield read, write


async def main() -> None:
    """Do what standard input asks for."""
    asked = json.load(sys.stdin)
    client = Client(asked)
    async with (
        transport() as (read, write),
        mcp.ClientSession(
            read,
            write,
            sampling_callback=client.sample,
            elicitation_callback=client.elicit,
            logging_callback=client.log,
            message_handler=client.hear,
        ) as client.session,
    ):
        hello = await client.session.initialize()
        await report(client, asked, hello.protocolVersion, hello.serverInfo.name)


asyncio.run(main())

"""A client on the Python SDK with the environment that the SDK gives to servers: ``stripped.py FILE``.

It starts the server ``fake`` of the file as it stands there, and prints the names of its tools.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import mcp


async def main() -> None:
    """List the tools."""
    entry = json.loads(Path(sys.argv[1]).read_text())["mcpServers"]["fake"]
    launch = mcp.StdioServerParameters(command=entry["command"], args=entry["args"])
    async with mcp.stdio_client(launch) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        print(json.dumps({"tools": [{"name": t.name} for t in (await session.list_tools()).tools]}))


asyncio.run(main())

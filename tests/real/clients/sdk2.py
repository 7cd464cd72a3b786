"""A client on the Python SDK 2.x, which probes for the newer era first; otherwise as sdk1.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import anyio
import mcp
from mcp import types
from mcp.client.stdio import StdioServerParameters

Json = dict[str, Any]


def plain(model: Any) -> Any:
    """Return what came, under the names of the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def with_progress(client: mcp.Client, asked: Json) -> Json:
    """Make a call to its end, and note each step."""
    steps: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append([progress, total, message])

    return {"result": plain(await call(client, asked, on_progress)), "steps": steps}


async def given_up(client: mcp.Client, asked: Json) -> bool:
    """Give a call up when it is under way; say whether it ended so. The SDK tells the server."""
    under_way = anyio.Event()

    async def on_progress(*_: object) -> None:
        under_way.set()

    async with anyio.create_task_group() as group:
        group.start_soon(call, client, asked, on_progress)
        await under_way.wait()
        group.cancel_scope.cancel()
    return group.cancel_scope.cancelled_caught


async def sample(_: object, asked: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """Answer for the model."""
    said = types.TextContent(type="text", text=f"sampled {len(asked.messages)}")
    return types.CreateMessageResult(role="assistant", content=said, model="none")


async def elicit(_: object, asked: types.ElicitRequestParams) -> types.ElicitResult:
    """Answer for the user."""
    given = {"name": "A. User", "integer": 7} if asked.mode == "form" else None
    return types.ElicitResult(action="accept", content=given)


async def call(client: mcp.Client, asked: Json, on_progress: Any = None) -> Any:
    """Call a tool."""
    return await client.call_tool(asked["name"], asked["arguments"], progress_callback=on_progress)


async def main() -> None:
    """Do what standard input asks for."""
    asked: Json = json.load(sys.stdin)
    program = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    got: Json = {}
    client = mcp.Client(program, sampling_callback=sample, elicitation_callback=elicit)
    async with client:
        got["version"], got["server"] = client.protocol_version, plain(client.server_info)
        got["tools"] = plain(await client.list_tools())["tools"]
        if "progress" in asked:
            got["progress"] = await with_progress(client, asked["progress"])
        if "cancel" in asked:
            got["cancelled"] = await given_up(client, asked["cancel"])
        got["calls"] = [plain(await call(client, each)) for each in asked["calls"]]
    json.dump(got, sys.stdout)


asyncio.run(main())

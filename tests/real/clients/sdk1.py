"""A client on the Python SDK 1.x: does what it is asked and prints what came of it, as JSON.

Usage: ``sdk1.py COMMAND ARG...``, with ``{"calls": [CALL...], "progress"?: CALL, "cancel"?: CALL}``
as standard input, each CALL ``{"name", "arguments"}``. It answers a server's questions.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import anyio
import mcp
from mcp import types

Json = dict[str, Any]


def plain(model: Any) -> Any:
    """Return what came, under the names of the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def with_progress(session: mcp.ClientSession, asked: Json) -> Json:
    """Make a call to its end, and note each step."""
    steps: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append([progress, total, message])

    return {"result": plain(await call(session, asked, on_progress)), "steps": steps}


async def given_up(session: mcp.ClientSession, asked: Json) -> bool:
    """Give a call up when it is under way; say whether it ended so."""
    under_way = anyio.Event()

    async def on_progress(*_: object) -> None:
        under_way.set()

    ident = session._request_id  # this generation does not tell it otherwise
    async with anyio.create_task_group() as group:
        group.start_soon(call, session, asked, on_progress)
        await under_way.wait()
        params = types.CancelledNotificationParams(requestId=ident, reason="enough")
        note = types.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(types.ClientNotification(note))
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


async def call(
    session: mcp.ClientSession, asked: Json, on_progress: Any = None
) -> types.CallToolResult:
    """Call a tool."""
    return await session.call_tool(asked["name"], asked["arguments"], progress_callback=on_progress)


async def main() -> None:
    """Do what standard input asks for."""
    asked: Json = json.load(sys.stdin)
    program = mcp.StdioServerParameters(
        command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ)
    )
    got: Json = {}
    async with (
        mcp.stdio_client(program) as (read, write),
        mcp.ClientSession(
            read, write, sampling_callback=sample, elicitation_callback=elicit
        ) as session,
    ):
        hello = await session.initialize()
        got["version"], got["server"] = hello.protocolVersion, plain(hello.serverInfo)
        got["tools"] = plain(await session.list_tools())["tools"]
        if "progress" in asked:
            got["progress"] = await with_progress(session, asked["progress"])
        if "cancel" in asked:
            got["cancelled"] = await given_up(session, asked["cancel"])
        got["calls"] = [plain(await call(session, each)) for each in asked["calls"]]
    json.dump(got, sys.stdout)


asyncio.run(main())

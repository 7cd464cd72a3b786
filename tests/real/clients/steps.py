"""What a client of the Python SDKs is told to do, step by step, whichever generation it is of.

Usage: ``sdkN.py COMMAND ARG...``, or ``sdkN.py URL`` with ``MCPD_TOKEN`` in the environment
(HTTP+SSE for a URL that ends in ``/sse``), with
``{"steps": [STEP...], "answer"?: TEXT, "mode"?: MODE, "probe_ms"?: N}`` as standard input. Every client here, of Python or not, takes the same steps, and
prints what came of them in the same form, as JSON. A STEP's ``do`` is one of

``list``      the tools
``call``      call ``name`` with ``arguments``; with ``times`` that often, ``at_once`` at a time, every
              ``{n}`` in an argument replaced by the number: then a list of what came
``progress``  the same, with what was reported on the way
``cancel``    the same, but given up at the first report; then ``heard_by``, a tool that returns the
              labels of cancelled calls, is asked until it names ``arguments["label"]``
``log``       the same, with the log messages that came, of ``level`` and above
``change``    the same, whether the client was told that the list of tools changed, and whether it did
``meet``      make the file ``here``, and go on once the file ``go`` exists

It answers questions: with ``answer`` as ``name`` and 7 as ``integer``, and "sampled" for a model.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import mcp

Json = dict[str, Any]


class Steps:
    """One session, and what was heard in it. What differs by generation is left to be filled in."""

    errors: type[Exception]
    """What the SDK raises for an error in an answer."""

    def __init__(self, asked: Json) -> None:
        self.answer: str = asked.get("answer", "A. User")
        self.questions: list[str] = []
        self.messages: list[Any] = []
        self.changes = 0

    # -- of each generation ----------------------------------------------------------------------

    async def tools(self) -> Any:
        """Return the tools that are listed."""
        raise NotImplementedError

    async def send(self, name: str, arguments: Json, on_progress: Any, level: str | None) -> Any:
        """Call a tool; ``level`` is that of the messages wanted."""
        raise NotImplementedError

    async def give_up(self) -> None:
        """Tell the server that the last call is given up, where the SDK does not."""

    async def listen(self, until_told: Any) -> None:
        """Hear of changes while ``until_told`` runs."""
        await until_told()

    # -- what the SDK calls ----------------------------------------------------------------------

    async def sample(self, _: object, asked: Any) -> Any:
        """Answer for the model."""
        said = mcp.types.TextContent(type="text", text=f"sampled {len(asked.messages)}")
        return mcp.types.CreateMessageResult(role="assistant", content=said, model="none")

    async def elicit(self, _: object, asked: Any) -> Any:
        """Answer for the user."""
        self.questions.append(asked.message)
        given = {"name": self.answer, "integer": 7} if asked.mode == "form" else None
        return mcp.types.ElicitResult(action="accept", content=given)

    async def log(self, message: Any) -> None:
        """Note a log message."""
        self.messages.append([message.level, message.data])

    # -- steps -----------------------------------------------------------------------------------

    async def take(self, step: Json) -> Any:
        """Take one step and return what came of it."""
        return await getattr(self, f"do_{step['do']}")(step)

    async def do_list(self, _: Json) -> Any:
        """List the tools."""
        return [plain(tool) for tool in await self.tools()]

    async def do_call(self, step: Json) -> Any:
        """Call, once or often."""
        if "times" not in step:
            return await self.call(step)
        numbers, got = iter(range(step["times"])), {}

        async def some() -> None:
            for number in numbers:
                texts = {k: v.replace("{n}", str(number)) for k, v in step["arguments"].items()}
                got[number] = await self.call({**step, "arguments": texts})

        async with anyio.create_task_group() as group:
            for _ in range(step["at_once"]):
                group.start_soon(some)
        return [got[number] for number in sorted(got)]

    async def do_progress(self, step: Json) -> Json:
        """Call, and note each report."""
        reports: list[Any] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            reports.append([progress, total, message])

        return {"result": await self.call(step, on_progress), "reports": reports}

    async def do_cancel(self, step: Json) -> Json:
        """Give a call up."""
        under_way = anyio.Event()

        async def on_progress(*_: object) -> None:
            under_way.set()

        async with anyio.create_task_group() as group:
            group.start_soon(self.call, step, on_progress)
            await under_way.wait()
            await self.give_up()
            group.cancel_scope.cancel()
        given_up = group.cancel_scope.cancelled_caught
        return {"given_up": given_up, "heard": await self.heard(step)}

    async def heard(self, step: Json) -> bool | None:
        """Say whether a tool heard of the cancellation, ``None`` where there is no tool to ask."""
        if "heard_by" not in step:
            await anyio.sleep(0.2)  # 1.x fails if an answer comes after all while it closes
            return None
        with anyio.move_on_after(5):
            while True:
                said = await self.call({"name": step["heard_by"]})
                if step["arguments"]["label"] in said["content"][0]["text"].split():
                    return True
                await anyio.sleep(0.05)
        return False

    async def do_log(self, step: Json) -> Json:
        """Call, and note the messages; one that is late is waited for a moment."""
        self.messages.clear()
        result = await self.call(step, level=step["level"])
        await anyio.sleep(0.2)
        return {"result": result, "messages": list(self.messages)}

    async def do_change(self, step: Json) -> Json:
        """Call what changes the list, and wait until that is told."""
        before, listed, result = self.changes, await self.names(), {}

        async def until_told() -> None:
            result.update(await self.call(step))
            with anyio.move_on_after(5):
                while self.changes == before:
                    await anyio.sleep(0.02)

        await self.listen(until_told)
        told = self.changes > before
        return {"result": result, "told": told, "changed": await self.names() != listed}

    async def do_meet(self, step: Json) -> None:
        """Wait for whoever has something done to the daemon."""
        await anyio.Path(step["here"]).touch()
        while not await anyio.Path(step["go"]).exists():
            await anyio.sleep(0.02)

    async def names(self) -> list[str]:
        """Return the names of the tools."""
        return [tool.name for tool in await self.tools()]

    async def call(self, step: Json, on_progress: Any = None, level: str | None = None) -> Json:
        """Call a tool and return its result in the form of all clients."""
        try:
            given = step.get("arguments", {})
            result = plain(await self.send(step["name"], given, on_progress, level))
        except self.errors as error:
            return {"error": {"code": error.error.code, "message": error.error.message}}  # type: ignore[attr-defined]
        kept = {key: result[key] for key in ("content", "structuredContent") if key in result}
        return {**kept, "isError": bool(result.get("isError"))}


def plain(model: Any) -> Any:
    """Return what came, under the names of the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def program() -> Json:
    """Return what to start, as the SDKs want to be told."""
    return {"command": sys.argv[1], "args": sys.argv[2:], "env": dict(os.environ)}


def headers() -> dict[str, str] | None:
    """Return what goes along with each request, ``None`` where a command is started instead."""
    token = os.environ.get("MCPD_TOKEN")
    return None if token is None else {"Authorization": f"Bearer {token}"}


async def report(steps: Steps, asked: Json, version: str, server: str | None) -> None:
    """Take all steps, and print what came of them."""
    results = [await steps.take(step) for step in asked["steps"]]
    got = {"version": version, "server": server, "results": results, "questions": steps.questions}
    json.dump(got, sys.stdout)

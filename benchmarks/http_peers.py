"""What the front is measured against: ``python -m benchmarks.http_peers bare|sdk PORT``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

Message = MutableMapping[str, Any]

ANSWER: Final = (
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":'
    b'"000000000001 and the quick brown fox jumps over the lazy dog, again"}]}}'
)


async def bare(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Read the body, and answer with a constant: what uvicorn costs alone."""
    del scope
    while (await receive()).get("more_body"):
        pass
    headers = [(b"Content-Length", b"%d" % len(ANSWER)), (b"Content-Type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


def sdk() -> Any:
    """Return the official SDK's server with the same echo."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("echo", log_level="ERROR")

    @server.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    return server.streamable_http_app(json_response=True)


def main() -> None:
    """Serve."""
    kind, port = sys.argv[1:]
    uvicorn.run(
        bare if kind == "bare" else sdk(),
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off" if kind == "bare" else "on",
        access_log=False,
        timeout_keep_alive=600,
        server_header=False,
        date_header=False,
        log_level="error",
    )


if __name__ == "__main__":
    main()

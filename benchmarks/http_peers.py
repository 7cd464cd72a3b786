"""HTTP servers to measure with: ``python -m benchmarks.http_peers bare|sdk|remote PORT``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from benchmarks.client import decode, encode

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


async def remote(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Be a server of Streamable HTTP without sessions, with an echo."""
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    message = decode(body) if scope["method"] == "POST" else {}
    status, answer = 200, b""
    if not message:
        status = 405
    elif "id" not in message:
        status = 202
    else:
        result = _result(message["method"], message.get("params", {}))
        answer = encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
    headers = [(b"Content-Length", b"%d" % len(answer)), (b"Content-Type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "far", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return {}


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
        {"bare": bare, "remote": remote}.get(kind) or sdk(),
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on" if kind == "sdk" else "off",
        access_log=False,
        timeout_keep_alive=600,
        server_header=False,
        date_header=False,
        log_level="error",
    )


if __name__ == "__main__":
    main()

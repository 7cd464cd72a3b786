"""A server on the Python SDK 1.8.1, run by the environment `old`; it dies of `server/discover`.

No postponed annotations here: that SDK would not recognize its `Context`.
"""

from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("old", instructions="Speaks what the SDK 1.8.1 speaks.")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def divide(a: float, b: float) -> float:
    """Divide, or fail."""
    return a / b


@server.tool()
async def count(context: Context, to: int) -> str:
    """Count, with progress."""
    for step in range(1, to + 1):
        await context.report_progress(step, to)
    return f"counted to {to}"


if __name__ == "__main__":
    server.run()

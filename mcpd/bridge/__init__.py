"""The bridge that an MCP client runs: stdin and stdout to a session, on the standard library."""

from mcpd.bridge.command import main

__all__ = ["main"]

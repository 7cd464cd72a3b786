"""The one daemon for every MCP server on a machine."""

__version__ = "0.1.0"

"""The MCP clients: where each has its servers, and what an entry means there."""

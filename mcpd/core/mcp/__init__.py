"""What the MCP specification says."""

"""Servers of other MCP clients, moved to mcpd and back."""

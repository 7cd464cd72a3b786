"""What tests share: waiting, a real daemon in a private place, a scriptable MCP server."""

"""Which endpoint a path names."""

from __future__ import annotations

import pytest

from mcpd.listeners.http.requests.paths import Endpoint, Place, find


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        (b"/mcp", Endpoint(Place.MCP)),
        (b"/mcp/", Endpoint(Place.MCP)),
        (b"/mcp/files", Endpoint(Place.MCP, "files")),
        (b"/mcp/files/", Endpoint(Place.MCP, "files")),
        (b"/mcp/my%20files%2F%C3%A4", Endpoint(Place.MCP, "my files/ä")),
        (b"/sse", Endpoint(Place.SSE)),
        (b"/sse/files", Endpoint(Place.SSE, "files")),
        (b"/messages/abc", Endpoint(Place.MESSAGES, "abc")),
        (b"/healthz", Endpoint(Place.HEALTH)),
        (b"/", None),
        (b"", None),
        (b"/nope", None),
        (b"/mcp/files/more", None),
        (b"/mcp/%FF", None),
        (b"/MCP", None),
        (b"//mcp", None),
    ],
)
def test_paths(path, endpoint):
    assert find(path) == endpoint

"""Input schemas of tools, as several tests need them."""

from __future__ import annotations

import json
from typing import Final

WITH_HEADERS: Final = json.dumps(
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limit": {"type": "integer", "x-mcp-header": "Limit"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "deep": {
                "type": "object",
                "properties": {"a": {"type": "string", "x-mcp-header": "A"}},
            },
            "sql": {"type": "string"},
        },
    }
).encode()
"""Arguments that headers repeat, in a nested object too, and one that none does."""

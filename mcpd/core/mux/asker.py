"""Who a request comes from, where the mux looks for it."""

from __future__ import annotations

from mcpd.core.mcp.asker import NOBODY as NOBODY
from mcpd.core.mcp.asker import NOTHING as NOTHING
from mcpd.core.mcp.asker import Asker as Asker

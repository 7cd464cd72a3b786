"""The bridge between an MCP client's stdin and stdout and a session with the daemon.

``mcpctl connect`` runs it, one process for each client. It loads the standard library and a few
modules of the base, because Python's own start-up is all that it may cost. ``command`` starts it,
``pump`` is its loop, ``link`` the connection to the daemon and to the next one, and ``session``
what survives from one daemon to the next.
"""

from mcpd.bridge.command import main

__all__ = ["main"]

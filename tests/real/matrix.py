"""What of the matrix cannot be, and why: whatever is not listed here must work."""

from __future__ import annotations

from typing import Final

from tests.real.peers import CLIENTS, MODERN, SERVERS

MODERN_ONLY = ("python-2.3-modern", "typescript-2.4-modern")
LEGACY_ONLY = tuple(name for name, server in SERVERS.items() if server.speaks == server.speaks[:1])

NO_MODERN = f"the client speaks {MODERN} alone, the SDK of the server no revision as new"
DIRECT_CANNOT: Final = {
    **{(client, server): NO_MODERN for client in MODERN_ONLY for server in LEGACY_ONLY},
    ("python-2.3-auto", "python-1.8.1"): "the server dies of `server/discover`",
}
"""The pairs that do not come together without mcpd, and why. All of them do with it."""

NO_BACK_CHANNEL: Final = {
    "python-2.3": "no back-channel for server-initiated requests",
    "typescript-2.4": "Server-to-client requests are not available on protocol revision 2026-07-28",
}
"""What the SDK of a server says of a request to the client in its modern era."""

USED: Final = {
    **{name: (name, MODERN in server.speaks) for name, server in SERVERS.items()},
    "python-2.3 as legacy": ("python-2.3", False),
    "typescript-2.4 as legacy": ("typescript-2.4", False),
}
"""The entries of mcpd's configuration: a server, and whether it is used as modern."""


def cannot(server: str, modern: bool) -> dict[str, str]:
    """Return the actions that a server cannot do in an era, and what its SDK says then."""
    return {"ask_back": NO_BACK_CHANNEL[server]} if modern else {}


def pairs() -> dict[tuple[str, str], bool]:
    """Return every client with every entry, and whether the pair is one of the few for each change.

    Those are a legacy and a modern client for every entry, another each time.
    """
    legacy = [name for name, client in CLIENTS.items() if not client.is_modern]
    modern = [name for name, client in CLIENTS.items() if client.is_modern]
    few = {
        (clients[number % len(clients)], entry)
        for number, entry in enumerate(USED)
        for clients in (legacy, modern)
    }
    return {(client, entry): (client, entry) in few for client in CLIENTS for entry in USED}

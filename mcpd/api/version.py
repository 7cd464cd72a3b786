"""The version of the control protocol, and what two different ones mean to each other."""

from __future__ import annotations

API = 1
"""Said in ``mcpd/hello``. New methods and members leave it; a changed or removed one raises it.

So equal numbers understand each other whatever the releases are, and a client ignores members
that it does not know.
"""


def complaint(theirs: object) -> str | None:
    """Return why this client cannot work with a daemon that says ``theirs``; ``None`` if it can."""
    if type(theirs) is not int:
        return "what listens there does not speak mcpd's protocol"
    if theirs == API:
        return None
    older = "the daemon" if theirs < API else "this mcpctl"
    return (
        f"{older} is too old: it speaks version {min(theirs, API)} of the control protocol, "
        f"the other side version {max(theirs, API)}"
    )

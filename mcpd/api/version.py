"""The version of the control protocol, and whether two versions are compatible."""

from __future__ import annotations

API = 1
"""Version in the result of ``mcpd/hello``.

A new method or member leaves it as it is; one that is changed or removed raises it. So a client and
a daemon with equal numbers work together, whatever their releases: both ignore unknown members.
"""


def complaint(theirs: object) -> str | None:
    """Return why this client cannot use a daemon of version ``theirs``, or ``None`` if it can."""
    if type(theirs) is not int:
        return "what listens there does not speak mcpd's protocol"
    if theirs == API:
        return None
    older = "the daemon" if theirs < API else "this mcpctl"
    return (
        f"{older} is too old: it speaks version {min(theirs, API)} of the control protocol, "
        f"the other side version {max(theirs, API)}"
    )

"""What to do about a socket that does not answer, by the kind of its silence."""

from __future__ import annotations

from mcpd.errors import McpdError

ADVICE = {
    "absent": "to start it: mcpctl up",
    "refused": "to start it: mcpctl up",
    "not_ours": "use a socket of your own: --socket PATH or MCPD_SOCKET",
    "exposed": "or use another socket: --socket PATH or MCPD_SOCKET",
    "forbidden": "is this the user whose daemon it is? else: --socket PATH or MCPD_SOCKET",
    "unusable": "use another socket: --socket PATH or MCPD_SOCKET",
    "unresponsive": "to find out more: mcpctl doctor",
    "incompatible": "after an upgrade: mcpctl restart --daemon",
    "gone": "to see whether it runs: mcpctl status",
    "start_timeout": "to see what it does, run it in the foreground: mcpd --log-level debug",
}
"""One line for each ``details["why"]`` of a ``DaemonUnavailable``."""


def advice(error: McpdError) -> list[str]:
    """Return what to type next, a line each; none where nothing is known to help."""
    known = ADVICE.get(str(error.details.get("why")))
    lines = [known] if known and error.hint and error.hint in known else [error.hint, known]
    return [line for line in lines if line]

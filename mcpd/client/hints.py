"""What to type when no daemon answers, by the reason."""

from __future__ import annotations

from mcpd.errors import McpdError

ADVICE = {
    "absent": "to start it: mcpctl up",
    "refused": "to start it: mcpctl up",
    "not_ours": "use a socket of your own: --socket PATH or MCPD_SOCKET",
    "exposed": "or use another socket: --socket PATH or MCPD_SOCKET",
    "forbidden": "log in as the user whose daemon it is, or use --socket PATH or MCPD_SOCKET",
    "unusable": "use another socket: --socket PATH or MCPD_SOCKET",
    "unresponsive": "to find out more: mcpctl doctor",
    "incompatible": "after an upgrade: mcpctl restart --daemon",
    "gone": "to see whether it runs: mcpctl status",
    "start_timeout": "to see what it does, run it in the foreground: mcpd --log-level debug",
}
"""A hint for each ``details["why"]`` of a ``DaemonUnavailable``."""


def advice(error: McpdError) -> list[str]:
    """Return lines with what to type next, if anything is known to help."""
    known = ADVICE.get(str(error.details.get("why")))
    lines = [known] if known and error.hint and error.hint in known else [error.hint, known]
    return [line for line in lines if line]

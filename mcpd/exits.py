"""Exit statuses of ``mcpctl``, ``mcpctl connect`` included."""

from __future__ import annotations

from mcpd.errors import ConfigError, DaemonUnavailable, McpdError, RequestFailed

DONE = 0
FAILED = 1
"""The tool or the server reported an error; of the bridge, that stdout cannot be written."""
USAGE = 2
NO_DAEMON = 3
NO_SERVER = 4
TIMED_OUT = 5
DENIED = 6
BUG = 70
INTERRUPTED = 130
TERMINATED = 143

BY_KIND = {
    "invalid_arguments": USAGE,
    "invalid_params": USAGE,
    "tool_not_found": USAGE,
    "message_too_large": USAGE,  # a request; `of_error` handles answers
    "draining": NO_DAEMON,
    "outcome_unknown": NO_DAEMON,
    "server_not_found": NO_SERVER,
    "server_disabled": NO_SERVER,
    "server_stopped": NO_SERVER,
    "server_busy": NO_SERVER,
    "spawn_failed": NO_SERVER,
    "handshake_failed": NO_SERVER,
    "server_crashed": NO_SERVER,
    "crash_loop": NO_SERVER,
    "connect_failed": NO_SERVER,
    "unsupported": NO_SERVER,
    "config_invalid": NO_SERVER,  # a server's entry; `mcpctl reload` returns USAGE by itself
    "startup_timeout": TIMED_OUT,
    "call_timeout": TIMED_OUT,
    "denied": DENIED,
    "approval_required": DENIED,
    "rate_limited": DENIED,
    "login_required": DENIED,
    "unauthorized": DENIED,
    "forbidden": DENIED,
    "login_failed": DENIED,
    "invalid_message": BUG,  # a message of mcpctl; `of_error` handles those of servers
    "keyring_locked": FAILED,
    "keyring_unavailable": FAILED,
    "internal": BUG,
}
"""Exit statuses by the ``kind`` of the daemon's error."""

ANSWER_LIMIT = "max_message_bytes"
"""The ``limit`` of a ``message_too_large`` that an answer exceeded: not the caller's fault."""


def of_error(error: McpdError) -> int:
    """Return the exit status for an error; an error without a ``kind`` is the server's own."""
    if isinstance(error, DaemonUnavailable):
        return NO_DAEMON
    if isinstance(error, ConfigError):
        return USAGE  # a file that mcpctl itself reads or writes
    if not isinstance(error, RequestFailed):
        return BY_KIND.get(error.slug, USAGE)
    if error.kind == "message_too_large" and error.data.get("limit") == ANSWER_LIMIT:
        return NO_SERVER
    if error.kind == "invalid_message" and error.data.get("server"):
        return NO_SERVER
    return FAILED if error.kind is None else BY_KIND.get(error.kind, FAILED)

"""How ``mcpctl connect`` ends: the part of ``mcpctl``'s exit statuses that it has."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
NO_DAEMON = 3
NO_SERVER = 4
TIMED_OUT = 5
DENIED = 6
BUG = 70
SIGNALLED = 128
"""Plus the signal's number."""

BY_KIND = {
    "invalid_arguments": USAGE,
    "invalid_params": USAGE,
    "message_too_large": USAGE,
    "draining": NO_DAEMON,
    "startup_timeout": TIMED_OUT,
    "call_timeout": TIMED_OUT,
    "denied": DENIED,
    "rate_limited": DENIED,
    "invalid_message": BUG,
    "internal": BUG,
}
"""By the ``kind`` of the error that attaching met; any other: ``NO_SERVER``."""

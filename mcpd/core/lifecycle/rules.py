"""The settings of a server that decide when its process starts and stops."""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. A timeout, a ``max_failures`` or a ``failed_retry`` of 0 is none at all."""

    startup_timeout: float
    startup_timeout_max: float
    idle_timeout: float
    restarts: bool
    backoff: float
    backoff_max: float
    max_failures: int
    window: float
    failed_retry: float

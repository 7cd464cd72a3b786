"""The ``[http]`` table, as the front is given it."""

from __future__ import annotations

import msgspec


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, 0 for no limit; see ``docs/http.md``."""

    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """In lower case."""
    needs_token: bool = True
    session_idle: float = 1800.0
    max_sessions: int = 1000
    json_wait: float = 5.0
    keepalive: float = 15.0
    stream_lifetime: float = 0.0
    request_timeout: float = 30.0
    replay_events: int = 256
    max_request_bytes: int = 9437184
    max_outbox_bytes: int = 134217728

"""What the mux has to know of a configured server."""

from __future__ import annotations

from enum import Enum

import msgspec

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Catalog
from mcpd.core.facts import Failure
from mcpd.core.mcp.legacy import Introduction


class Sharing(Enum):
    """Who has a process in common."""

    SHARED = "shared"
    SESSION = "session"
    WORKSPACE = "workspace"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One server of the configuration, or an ad-hoc one. Times in seconds, 0 as in the product.

    ``launch`` is a digest of everything that makes two processes different: entries with equal
    ones are one process. ``unavailable`` is what every request gets instead of an answer
    (disabled, misconfigured). ``catalog`` and ``introduction`` are what its last process said,
    from the disk.
    """

    name: str
    launch: str
    unavailable: Failure | None = None
    sharing: Sharing = Sharing.SHARED
    filter: Filter = Filter.ALL
    call_timeout: float = 0.0
    call_timeout_max: float = 86400.0
    queue_timeout: float = 60.0
    stop_grace: float = 5.0
    max_concurrency: int = 0
    may_repeat: bool = True
    validates: bool = False
    roots: tuple[str, ...] = ()
    is_listed: bool = True
    """Whether it is part of the aggregate; ad-hoc servers are not."""
    catalog: Catalog = Catalog()
    introduction: Introduction | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the mux has to know of the daemon."""

    version: str
    max_request_bytes: int = 9437184
    list_wait: float = 5.0
    max_in_flight: int = 1000
    """Requests of one session."""
    control_timeout: float = 60.0
    """``call_timeout`` of control calls where the entry sets none."""

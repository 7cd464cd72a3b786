"""What may be called and what is asked first, as types: ``[trust]``, ``[profiles]``, an entry's."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

import msgspec

Approval = Literal["auto", "ask", "trusted", "writes"]
"""Which calls are asked about: none; each; all but the tools in ``trusted``; all but those whose
approved form says ``readOnlyHint``."""

Pin = Literal["off", "warn", "hold"]
"""What happens when a definition changes: nothing, it is told, the approved one is served."""


_RATE: Final = re.compile(r"([1-9][0-9]{0,8})\s*/\s*(s|min|h)")
_UNITS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Rate(NamedTuple):
    """How many calls in how many seconds."""

    calls: int
    seconds: float


def rate_of(text: str) -> Rate | None:
    """Return the rate that is written as ``60/min``, ``None`` for another text."""
    parts = _RATE.fullmatch(text.strip())
    return None if parts is None else Rate(int(parts[1]), _UNITS[parts[2]])


class ServerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What one server's table says of its calls. An empty text means: as ``[trust]`` says."""

    approval: Approval | Literal[""] = ""
    """Which calls are asked about."""

    trusted: tuple[str, ...] = ()
    """Patterns of tools that ``approval = "trusted"`` does not ask about."""

    ask: tuple[str, ...] = ()
    """Patterns of tools that are asked about, whatever ``approval`` says."""

    pin: Pin | Literal[""] = ""
    """What happens when a definition changes."""

    pin_volatile: tuple[str, ...] = ()
    """Patterns of tools whose text changes by itself; their schemas and hints stay pinned."""

    sanitise_results: Literal["off", "flag", "clean"] = "off"
    """Whether invisible characters in results are noted, or removed."""

    rate: str = ""
    """Calls to this server, of all principals together: ``60/min``. Empty: any number."""

    rate_wait: float = 5.0
    """Seconds that a call over the rate waits for its turn; then it fails with ``rate_limited``."""

    sampling: bool = True
    """Whether the server may have clients sample."""

    sampling_rate: str = ""
    """Sampling requests of this server. Empty: any number."""

    sampling_tokens: int = 0
    """Tokens of a day (UTC), estimated. 0: no limit."""

    sampling_max_tokens: int = 0
    """Tokens that one request may want. 0: no limit."""

    record: Literal["none", "arguments", "full"] = "none"
    """What of a call is kept in the audit."""


class TrustConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[trust]`` table."""

    approval: Approval = "auto"
    """Which calls are asked about, of servers that say nothing else."""

    approval_timeout: float = 300.0
    """Seconds that a question is open while somebody may be looking."""

    approval_keep: float = 600.0
    """Seconds that a question which nobody saw can be answered, and that a late yes is good for."""

    notify: Literal["auto", "off"] = "auto"
    """Whether the desktop shows a question that is not answered within 2 seconds."""

    pin: Pin = "warn"
    """What happens when a definition changes, of servers that say nothing else."""

    sanitise: Literal["off", "invisible", "strict"] = "invisible"
    """What is removed from definitions before clients get them."""

    trusted_projects: tuple[str, ...] = ()
    """Directories whose projects are trusted without a question, whatever their files say.

    Each has all that is below it; ``*`` stands for any text within one part of the path.
    """

    client_rate: str = ""
    """Calls of each session. Empty: any number."""

    audit: bool = True
    """Whether calls are recorded."""

    audit_days: int = 30
    """Days that a record is kept."""

    audit_max: int = 256 * 1024 * 1024
    """Size of the audit in bytes; the oldest records give way."""

    audit_required: bool = False
    """Whether calls are refused while the audit cannot be written."""

    keyring: Literal["auto", "system", "file", "off"] = "auto"
    """Where secrets of ``${keyring:NAME}`` are kept."""


class ProfileConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[profiles.NAME]`` table: a scope with a name. It can only tighten."""

    servers: tuple[str, ...] = ()
    """Names of servers; none means all."""

    tools: tuple[str, ...] = ()
    """Patterns ``TOOL`` or ``SERVER.TOOL``; none means all."""

    read_only: bool = False
    """Whether only tools that say ``readOnlyHint``."""

    resources: bool = True
    """Whether resources may be read."""

    prompts: bool = True
    """Whether prompts may be got."""

    approval: Approval = "auto"
    """Which calls are asked about, besides those that the server's entry names."""

    rate: str = ""
    """Calls of each session. Empty: any number."""

    expires: str = ""
    """How long a token of this profile is valid, as ``90d``; empty: for ever."""

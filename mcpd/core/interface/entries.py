"""What the mux has to know of a configured server."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Catalog
from mcpd.core.catalog.pins import Pins, Rules
from mcpd.core.facts import Failure
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.policy.approvals import Mode
from mcpd.core.policy.rates import Rate
from mcpd.principal import EVERYTHING, Scope
from mcpd.redact import Redactor


class Sharing(Enum):
    """Who has a process in common."""

    SHARED = "shared"
    SESSION = "session"
    WORKSPACE = "workspace"


class Interactive(Enum):
    """How a question of a server finds the session that it is for."""

    AUTO = "auto"
    """As ``SHARED`` until the first question that a call can have caused, then ``EXCLUSIVE``."""
    SHARED = "shared"
    """Nobody waits for a turn; a question that could be for several is refused."""
    EXCLUSIVE = "exclusive"
    """One session at a time has requests in flight that can cause a question."""
    OFF = "off"
    """Every question is refused."""


class SamplingRules(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server may have clients sample."""

    is_on: bool = True
    rate: Rate | None = None
    """Requests in a time; ``None``: any number."""
    tokens_a_day: int = 0
    """Of a day (UTC), estimated; 0: no limit."""
    most_tokens: int = 0
    """``maxTokens`` of one request; 0: no limit."""

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return bool(not self.is_on or self.rate or self.tokens_a_day or self.most_tokens)


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
    workspace: str | None = None
    """The workspace of the project that it belongs to: only sessions there can use it. ``None``:
    all can."""
    local_name: str = ""
    """What the sessions of that workspace call it."""
    sharing: Sharing = Sharing.SHARED
    of_workspace: bool = False
    """Whether it has a process for each workspace, shared by the sessions there."""
    filter: Filter = Filter.ALL
    call_timeout: float = 0.0
    call_timeout_max: float = 86400.0
    queue_timeout: float = 60.0
    stop_grace: float = 5.0
    max_concurrency: int = 0
    may_repeat: bool = True
    validates: bool = False
    roots: tuple[str, ...] = ()
    asks_for_roots: bool = False
    """``roots = "session"``: the server is told the roots of the session whose process it is."""
    era: Era | None = None
    """The era that the configuration names; ``None`` where mcpd finds it out."""
    extensions: tuple[str, ...] = ()
    """Extensions that are declared to a legacy process of several clients."""
    verdict: Verdict | None = None
    """How the last handshake succeeded, from the disk, while its program is the same file."""
    startup_timeout: float = 30.0
    failed_retry: float = 0.0
    """After which a server that failed is tried once more for those who wait for it; 0: never."""
    is_remote: bool = False
    """Whether it is reached over HTTP: requests have headers, which repeat parts of them."""
    is_fetched: bool = False
    """Whether its command is a package runner: then it may be long before there is a server."""
    interactive: Interactive = Interactive.AUTO
    has_asked: bool = False
    """Whether a question was caused by a call in an earlier life, from the disk."""
    question_timeout: float = 300.0
    question_wait: float = 60.0
    parked_timeout: float = 600.0
    redactor: Redactor = Redactor.NONE
    """What hides its secrets in what is told of it."""
    rate: Rate | None = None
    """Calls to it, of all principals together; ``None``: any number."""
    rate_wait: float = 5.0
    """How long a call over a rate waits for its turn."""
    sampling: SamplingRules = SamplingRules()
    identity: str = ""
    """A digest of what is started, or reached: of the command, or the URL, and nothing else."""
    approval: Mode | None = None
    """Which of its calls are asked about; ``None``: as ``Policy`` says."""
    trusted: tuple[str, ...] = ()
    """Patterns of tools that are not asked about."""
    ask: tuple[str, ...] = ()
    """Patterns of tools that are asked about, whatever else is said."""
    is_listed: bool = True
    """Whether it is part of the aggregate; ad-hoc servers are not."""
    catalog: Catalog = Catalog()
    capabilities: bytes = b"{}"
    """What was declared to the process that listed this, as JSON."""
    of_clients: Mapping[str, Catalog] = {}
    """What it listed for clients that declare something else, by what these declare."""
    introduction: Introduction | None = None
    rules: Rules = Rules()
    """What is done with its definitions before clients get them."""
    pins: Pins | None = None
    """Its approved definitions, from the disk."""
    are_pins_lost: bool = False
    """Whether there are some that cannot be read: nothing new is served then."""

    @property
    def shown_name(self) -> str:
        """The name that its clients know it by."""
        return self.local_name or self.name

    @property
    def is_untrusted(self) -> bool:
        """Whether it waits until a person trusts it: nothing of it runs before."""
        return self.unavailable is not None and self.unavailable.kind == "denied"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A scope with a name."""

    scope: Scope = EVERYTHING
    rate: Rate | None = None
    """Calls of each session in it, or of each token."""
    approval: Mode = "auto"
    """Which calls are asked about, besides those that the entries name."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of calls, of no server in particular."""

    profiles: Mapping[str, Profile] = {}
    client_rate: Rate | None = None
    """Calls of each session."""
    approval: Mode = "auto"
    """Which calls are asked about, of servers that say nothing else."""
    approval_timeout: float = 300.0
    """Seconds for which a call waits while somebody may be looking; 0: any number."""
    approval_keep: float = 600.0
    """Seconds for which a question that no call waits for can be answered, and for which a late
    yes is good."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the mux has to know of the daemon."""

    version: str
    secret: bytes = b""
    """Makes handles that no client can forge; another one in each life of the daemon."""
    max_request_bytes: int = 9437184
    first_question: int = 1
    """The id of the first request to a client, such that no other life of the daemon had the same:
    a late answer to one of those is no answer to one of ours."""
    list_wait: float = 5.0
    max_in_flight: int = 1000
    """Requests of one session."""
    max_buffered_bytes: int = 536870912
    """What is kept in memory for all clients and servers together."""
    first_approval: int = 1
    """The number of the first question whether a call may run."""
    control_timeout: float = 60.0
    """``call_timeout`` of control calls where the entry sets none."""

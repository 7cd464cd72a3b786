"""Requests on their way to a server, how they end, and the table of those in flight."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, KeysView
from enum import StrEnum
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.facts import Failure
from mcpd.core.interface.context import Timer
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.methods import Method
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import RequestMemory
from mcpd.principal import Principal

OURS: Final = 0
"""The owner of requests that no session made."""


LATELY_S: Final = 0.1
"""How long what a process logs without a call in flight may belong to one that ended."""


class End(StrEnum):
    """How a request to a server ended."""

    ANSWERED = "answered"
    """The server answered with a result."""
    ERROR = "error"
    """It answered with an error, or with the result of a tool that says so."""
    FAILED = "failed"
    """It got no answer that can be passed on; the failure says why."""
    TIMED_OUT = "timed_out"
    """Its time was over before the server answered; the server is told."""
    CANCELLED = "cancelled"
    """Its client gave it up, or is gone; the server is told."""
    REFUSED = "refused"
    """It was not sent: it may not be, or there is no server to send it to."""
    LOST = "lost"
    """The process ended, and nobody waits for the answer."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What came of a request: a result, an error of the server's, or a failure of ours.

    A request that was given up has none of them. ``reason`` is JSON, told to the server with the
    cancellation.
    """

    how: End
    result: Raw | bytes | None = None
    error: Raw | bytes | None = None
    failure: Failure | None = None
    reason: bytes | None = None


LOST: Final = Outcome(End.LOST)


def failed(failure: Failure) -> Outcome:
    """Return the outcome of a request that failed."""
    return Outcome(End.FAILED, failure=failure)


class Holder(Protocol):
    """The requests of one server, which hold a request while it is on its way."""

    def end(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """End a request, wherever it is; harmless for one that has ended."""

    def meanwhile(self, leg: UpstreamRequest) -> str:
        """Return the end of an error: what the process wrote instead of an answer."""


class Recipient:
    """Takes what comes back for a request: a client's request, a parked call, or ourselves."""

    __slots__ = ()

    def arguments(self) -> Raw | bytes | None:
        """Return what the client gave, as it came; ``None`` for requests of ours."""
        return None

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """Take how a request ended; called once."""

    def take_progress(self, leg: UpstreamRequest, params: Raw) -> None:
        """Take the parameters of a progress notification."""


CONTROL_CLIENT: Final = "mcpctl"
"""What the client of a control call is called, which introduces itself as none."""


class Caller(Protocol):
    """The maker of a request, as it is recorded."""

    principal: Principal
    client: str | None


class UpstreamRequest:
    """One request to a server: the upstream leg of a client's request, or a request of our own.

    ``owner`` is the session that it belongs to (0: ours), for fairness and attribution.
    ``recipient`` takes its outcome. ``entry`` is the configured server that its client named.
    ``token`` is the client's progress token as it came. ``is_written`` says that a process may
    have read it, ``is_given_up`` that its client does not wait for the answer. ``client_info`` is
    the client, ``None`` for requests of ours and control calls. ``is_modern`` says that it speaks
    a revision without a handshake, ``is_asking`` that the server may ask it something before it
    answers, ``is_paused`` that it does so now; ``sent_at`` is when it last went upstream, in
    monotonic seconds. ``lacked`` is what the server asked for and the client had not declared (see
    ``core.mcp.questions``). ``unanswered_params`` are the parameters of a call
    that is repeated with answers, without these answers. ``kept`` is the memory that is counted
    for it, and ``key`` the key of its client's request; both only for requests of clients.
    """

    # defaults on the class: a request that needs none of it costs nothing for it
    holder: Holder | None = None
    client_info: ClientInfo | None = None
    wants_progress = False
    is_asking = False
    is_modern = False
    is_paused = False
    is_checked = False
    """Whether its arguments were checked, or need no check."""
    approved: bytes | None = None
    """For which command and which definition of its tool somebody let it through that was asked."""
    approved_call: object = None
    """What was approved, where it was this call and no other."""
    rule = 0
    """The number of the remembered answer that let it through; 0: none did."""
    limits_passed: tuple[Hashable, ...] = ()
    """The keys of the rates that it has passed."""
    turn_by = 0.0
    """Until when it waits for its turn under a rate, in monotonic seconds; 0 before it waits."""
    leveled: object = None
    """The process that was set to the log level that it wants."""
    lacked: str | None = None
    unanswered_params: Raw | bytes | None = None
    kept: RequestMemory | None = None
    key = b""
    wire_id = 0
    sent_at = 0.0
    created_at = 0.0
    """When it began, in monotonic seconds; 0 where its end is not reported."""
    seen: tuple[str, ...] = ()
    """Classes of what nobody can see that its result has, or had, where results are looked at."""
    caller: Caller | None = None
    """Who made it, where its end is reported."""
    arguments: Raw | bytes | None = None
    """Its arguments as they came, where its end is reported."""
    first_sent_at = 0.0
    """When it first went upstream, of one that was sent again."""
    pin: bytes | None = None
    """The digest of the tool's definition, where that is pinned."""
    approval = 0
    """The number of the question that let it through, 0 for none."""
    flags = 0
    """What else is reported of it: a sum of the flags in ``core.facts``."""
    tries = 0
    is_written = False
    is_over = False
    is_given_up = False
    timeout = 0.0
    most = 0.0
    left = 0.0
    timer: Timer | None = None
    hard_timer: Timer | None = None
    queue_timer: Timer | None = None

    def __init__(
        self,
        owner: int,
        method: Method,
        params: Raw | bytes | None,
        recipient: Recipient,
        entry: Entry | None = None,
        token: bytes | None = None,
        tool: str | None = None,
    ) -> None:
        self.owner = owner
        self.method = method
        self.params = params
        self.recipient = recipient
        self.entry = entry
        self.token = token
        self.tool = tool

    def drop_timers(self) -> None:
        """Cancel every timer of this request."""
        for timer in (self.timer, self.hard_timer, self.queue_timer):
            if timer is not None:
                timer.cancel()
        self.timer = self.hard_timer = self.queue_timer = None

    def unsend(self) -> None:
        """Make it a request that has not been sent: it may be sent to another process."""
        self.first_sent_at = self.first_sent_at or self.sent_at
        self.is_written = False
        self.wire_id = 0
        self.drop_timers()

    def title(self, server: str) -> str:
        """Return what people call it: a call by its server and tool."""
        return server if self.tool is None else f"{server}.{self.tool}"

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt, or the URI of the resource."""
        if self.tool is not None:
            return self.tool
        found = None if self.params is None else envelope.params_of(self.params)
        if found is None:
            return None
        return envelope.text(found.name if found.name is not UNSET else found.uri)


class Inflight:
    """The in-flight table of one process.

    Invariant: a wire id is never used twice, so a late answer to a cancelled request can never be
    delivered to somebody else's. What is below the next id and not in the table is therefore the
    tombstone of a request that is over.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: there is a new process, or none; ids count from 1."""
        self._pending: dict[int, UpstreamRequest] = {}
        self._by_owner: dict[int, dict[int, UpstreamRequest]] = {}
        """Those of sessions, once more: ours (0) are left out."""
        self._next = 1
        self.of_sessions = 0
        """How many of those in flight are sessions' requests."""
        self._last_owner = OURS
        """Whose request was the last to end, of those of sessions."""
        self._ended_at = -math.inf
        self._others_ended_at = -math.inf
        """When a request of another session was the last to end."""

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, leg: UpstreamRequest) -> int:
        """Record a request about to go upstream and return the id to send it under."""
        wire_id = self._next
        self._next = wire_id + 1
        self._pending[wire_id] = leg
        leg.wire_id = wire_id
        owner = leg.owner
        if owner:
            self.of_sessions += 1
            own = self._by_owner.get(owner)
            if own is None:
                self._by_owner[owner] = {wire_id: leg}
            else:
                own[wire_id] = leg
        return wire_id

    def close(self, wire_id: int, now: float | None = None) -> UpstreamRequest | None:
        """Take a request out; ``None`` where it is over or never was.

        ``now`` is when it ends, in monotonic seconds; it is not known of one that was not sent.
        """
        leg = self._pending.pop(wire_id, None)
        if leg is not None and leg.owner:
            self.of_sessions -= 1
            owner = leg.owner
            own = self._by_owner[owner]
            if len(own) == 1:
                del self._by_owner[owner]
            else:
                del own[wire_id]
            if now is not None:
                if owner != self._last_owner:
                    self._others_ended_at, self._last_owner = self._ended_at, owner
                self._ended_at = now
        return leg

    def ended_lately(self, now: float) -> set[int]:
        """Return whose requests have ended within ``LATELY_S``: one owner, two for several."""
        since = now - LATELY_S
        if self._ended_at <= since:
            return set()
        return {self._last_owner} if self._others_ended_at <= since else {self._last_owner, OURS}

    def get(self, wire_id: int) -> UpstreamRequest | None:
        """Return a request that is in flight."""
        return self._pending.get(wire_id)

    def was_used(self, wire_id: int) -> bool:
        """Tell a late or second answer from one to a request that was never made."""
        return 0 < wire_id < self._next

    def owed_since(self) -> float | None:
        """Return since when the process owes its oldest answer, ``None`` where it owes none.

        One that waits for an answer to a question of its own does not owe.
        """
        owed = (leg for leg in self._pending.values() if leg.is_written and not leg.is_paused)
        oldest = next(owed, None)  # they are in the order in which they were sent
        return None if oldest is None else oldest.sent_at

    def all(self) -> Collection[UpstreamRequest]:
        """Return what is in flight, oldest first."""
        return self._pending.values()

    def of(self, owner: int) -> Collection[UpstreamRequest]:
        """Return what is in flight of one session, oldest first."""
        return self._by_owner.get(owner, _NOTHING).values()

    def sole_owner(self) -> int | None:
        """Return whose the requests in flight are, 0 for ours or none, ``None`` for several's."""
        return None if len(self._by_owner) > 1 else next(iter(self._by_owner), 0)

    def owners(self) -> KeysView[int]:
        """Return whose requests are in flight, ours (0) left out."""
        return self._by_owner.keys()


_NOTHING: Final[dict[int, UpstreamRequest]] = {}

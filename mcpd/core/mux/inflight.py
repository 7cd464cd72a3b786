"""Requests that are owed an answer, and the in-flight table of one upstream process."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.methods import Method
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.entries import Entry

_FEW: Final = 16
"""Requests in flight that are looked at one by one for a line of noise."""

Outcome = Callable[["Pending", Raw | bytes | None, Raw | bytes | None, Failure | None], None]
"""Called once: with a result, with an error of the server's, or with a failure of ours."""


class Canceller(Protocol):
    """Where a request can be given up, wherever it is on its way."""

    def cancel(self, pending: Pending, reason: bytes | None = None) -> None:
        """Give a request up: it will not be answered."""

    def expire(self, pending: Pending, reason: bytes) -> None:
        """Give a request up whose time is over."""

    def meanwhile(self, pending: Pending) -> str:
        """Return the end of an error: what was written instead of an answer."""


class Pending:
    """One request on its way through us.

    ``owner`` tells whose it is (a session's id; ours are 0), for fairness and attribution.
    ``token`` is the requester's progress token as it came. ``is_written`` says that a process
    may have seen it, ``is_given_up`` that nobody waited for its answer. ``asker`` is the client,
    ``None`` for requests of ours and control calls. ``is_modern`` says that the client speaks a
    revision without a handshake, ``is_asking`` that the server may ask it something before it
    answers, ``is_paused`` that it does just now; ``sent_at`` is when it last went upstream, in
    monotonic seconds. ``lacked`` is what it asked and its client had not declared (see
    ``core.mcp.questions``). ``anew`` are the parameters of a call that was made again with answers
    to a modern process, without these.
    """

    # defaults on the class: a request that needs none of it costs nothing for it
    on_progress: Callable[[Raw], None] | None = None
    on_lost: Callable[[], None] | None = None
    upstream: Canceller | None = None
    asker: Asker | None = None
    is_asking = False
    is_modern = False
    is_paused = False
    lacked: str | None = None
    anew: Raw | bytes | None = None
    wire_id = 0
    sent_at = 0.0
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
        done: Outcome,
        *,
        entry: Entry | None = None,
        token: bytes | None = None,
        tool: str | None = None,
    ) -> None:
        self.owner = owner
        self.method = method
        self.params = params
        self.done = done
        self.entry = entry
        self.token = token
        self.tool = tool

    def drop_timers(self) -> None:
        """Call off every deadline of this request."""
        for timer in (self.timer, self.hard_timer, self.queue_timer):
            if timer is not None:
                timer.cancel()
        self.timer = self.hard_timer = self.queue_timer = None


class Inflight:
    """The in-flight table of one process.

    Invariant: a wire id is never used twice, so a late answer to a cancelled request can never be
    delivered to somebody else's. What is below the next id and not in the table is therefore the
    tombstone of a request that is over.
    """

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, pending: Pending) -> int:
        """Record a request about to go upstream and return the id to send it under."""
        wire_id = self._next
        self._next = wire_id + 1
        self._pending[wire_id] = pending
        pending.wire_id = wire_id
        return wire_id

    def close(self, wire_id: int) -> Pending | None:
        """Take a request out; ``None`` where it is over or never was."""
        return self._pending.pop(wire_id, None)

    def get(self, wire_id: int) -> Pending | None:
        """Return a request that is in flight."""
        return self._pending.get(wire_id)

    def was_used(self, wire_id: int) -> bool:
        """Tell a late or second answer from one to a request that was never made."""
        return 0 < wire_id < self._next

    def all(self) -> list[Pending]:
        """Return what is in flight, oldest first."""
        return list(self._pending.values())

    def sole_owner(self) -> int | None:
        """Return whose the requests in flight are, 0 for ours or none, ``None`` for several's.

        A glance: of more than a few it is not looked who all the owners are.
        """
        if len(self._pending) > _FEW:
            return None
        owners = self.owners()
        return None if len(owners) > 1 else next(iter(owners), 0)

    def owners(self) -> set[int]:
        """Return whose requests are in flight, ours (0) left out."""
        return {pending.owner for pending in self._pending.values() if pending.owner}


class FairQueue:
    """Requests that wait for their place: one of each owner in turn."""

    def __init__(self) -> None:
        self._lines: OrderedDict[int, deque[Pending]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, pending: Pending) -> None:
        """Put a request behind those of its owner."""
        self._lines.setdefault(pending.owner, deque()).append(pending)

    def pop(self) -> Pending | None:
        """Take the next owner's oldest request."""
        if not self._lines:
            return None
        owner, line = next(iter(self._lines.items()))
        pending = line.popleft()
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return pending

    def remove(self, pending: Pending) -> bool:
        """Take out a request that is given up; tell whether it was there."""
        line = self._lines.get(pending.owner)
        if line is None or pending not in line:
            return False
        line.remove(pending)
        if not line:
            del self._lines[pending.owner]
        return True

    def take(self, owner: int) -> list[Pending]:
        """Take out all of one owner."""
        return list(self._lines.pop(owner, ()))

    def drain(self) -> list[Pending]:
        """Take out everything."""
        lines, self._lines = self._lines, OrderedDict()
        return [pending for line in lines.values() for pending in line]

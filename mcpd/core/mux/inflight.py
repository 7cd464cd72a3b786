"""Requests that are owed an answer, and the in-flight table of one upstream process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, KeysView
from typing import Final, Protocol

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.methods import Method
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.entries import Entry
from mcpd.core.wire.memory import Kept

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
    to a modern process, without these. ``kept`` is what is kept of it, and ``key`` that of the id
    of the request that is owed its answer; both only for requests of clients.
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
    kept: Kept | None = None
    key = b""
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
        self._by_owner: dict[int, dict[int, Pending]] = {}
        """Those of sessions, once more: ours (0) are left out."""
        self._next = 1
        self.of_sessions = 0
        """How many of those in flight are sessions' requests."""

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, pending: Pending) -> int:
        """Record a request about to go upstream and return the id to send it under."""
        wire_id = self._next
        self._next = wire_id + 1
        self._pending[wire_id] = pending
        pending.wire_id = wire_id
        owner = pending.owner
        if owner:
            self.of_sessions += 1
            own = self._by_owner.get(owner)
            if own is None:
                self._by_owner[owner] = {wire_id: pending}
            else:
                own[wire_id] = pending
        return wire_id

    def close(self, wire_id: int) -> Pending | None:
        """Take a request out; ``None`` where it is over or never was."""
        pending = self._pending.pop(wire_id, None)
        if pending is not None and pending.owner:
            self.of_sessions -= 1
            own = self._by_owner[pending.owner]
            if len(own) == 1:
                del self._by_owner[pending.owner]
            else:
                del own[wire_id]
        return pending

    def get(self, wire_id: int) -> Pending | None:
        """Return a request that is in flight."""
        return self._pending.get(wire_id)

    def was_used(self, wire_id: int) -> bool:
        """Tell a late or second answer from one to a request that was never made."""
        return 0 < wire_id < self._next

    def all(self) -> Collection[Pending]:
        """Return what is in flight, oldest first."""
        return self._pending.values()

    def of(self, owner: int) -> Collection[Pending]:
        """Return what is in flight of one session, oldest first."""
        return self._by_owner.get(owner, _NOTHING).values()

    def sole_owner(self) -> int | None:
        """Return whose the requests in flight are, 0 for ours or none, ``None`` for several's."""
        return None if len(self._by_owner) > 1 else next(iter(self._by_owner), 0)

    def owners(self) -> KeysView[int]:
        """Return whose requests are in flight, ours (0) left out."""
        return self._by_owner.keys()


_NOTHING: Final[dict[int, Pending]] = {}


class FairQueue:
    """Requests that wait for their place: one of each owner in turn.

    Whatever waits, to put one in, to take the next or to take out any is one step.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, OrderedDict[Pending, None]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, pending: Pending) -> None:
        """Put a request behind those of its owner."""
        line = self._lines.get(pending.owner)
        if line is None:
            line = self._lines[pending.owner] = OrderedDict()
        line[pending] = None
        self._length += 1

    def pop(self) -> Pending | None:
        """Take the next owner's oldest request."""
        if not self._lines:
            return None
        owner, line = next(iter(self._lines.items()))
        pending, _ = line.popitem(last=False)
        self._length -= 1
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
        del line[pending]
        self._length -= 1
        if not line:
            del self._lines[pending.owner]
        return True

    def take(self, owner: int) -> list[Pending]:
        """Take out all of one owner."""
        taken = list(self._lines.pop(owner, ()))
        self._length -= len(taken)
        return taken

    def drain(self) -> list[Pending]:
        """Take out everything."""
        lines, self._lines, self._length = self._lines, OrderedDict(), 0
        return [pending for line in lines.values() for pending in line]

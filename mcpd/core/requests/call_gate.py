"""CallGate: lets one session at a time call a server that asks questions.

A legacy server's question does not say which call caused it. With the calls of one session alone
in flight there is nothing to guess. So a session may send a call while all calls in flight that
can cause a question are its own. It holds no token: several sessions may have calls in flight
when a server asks for the first time. A session whose question is open for a while lends its
turn; its own further requests never wait, because answering may need the server. A call that is
given up keeps its turn until the process has read that: what it asks before is for nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mcpd.core.facts import QUEUED, Failure
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.entries import Interactive
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.given_up import GivenUp
from mcpd.core.requests.inflight import Outcome, UpstreamRequest, failed
from mcpd.core.requests.process import Process

LENDS_AFTER: Final = 2.0
"""Seconds that a question is open before calls of other sessions may go ahead."""


class Who(msgspec.Struct, frozen=True):
    """A session that has the turn or waits for it, for how many seconds already."""

    session: int
    for_s: float
    client: str | None = None
    """What its client calls itself."""
    is_lent: bool = False
    """Whether others go ahead while its question is open."""


class TurnsReport(msgspec.Struct, frozen=True):
    """Who waits for whom; ``running`` is empty where nobody takes turns."""

    mode: Interactive
    """What is done, with ``AUTO`` decided: ``SHARED`` until the server has asked."""
    running: tuple[Who, ...] = ()
    waiting: tuple[Who, ...] = ()


class _Holder:
    __slots__ = ("client_info", "count", "since")

    def __init__(self, now: float, client_info: ClientInfo | None) -> None:
        self.count = 0
        self.since = now
        self.client_info = client_info


class _Line:
    __slots__ = ("client_info", "requests", "since")

    def __init__(self, now: float, client_info: ClientInfo | None) -> None:
        self.requests: dict[UpstreamRequest, None] = {}
        self.since = now
        self.client_info = client_info


class _Open:
    __slots__ = ("count", "is_lent", "timer")

    def __init__(self, timer: Timer) -> None:
        self.count = 1
        self.is_lent = False
        self.timer = timer


class CallGate:
    """Decides when a request that can cause a question may be sent.

    It only ever holds back requests of sessions that can be asked something, and only where the
    process is a legacy one and the mode is exclusive.
    """

    def __init__(
        self,
        ctx: Context,
        process: Process,
        *,
        send: Callable[[UpstreamRequest], None],
        ping: Callable[[Callable[[object, object], None]], int],
        end: Callable[[UpstreamRequest, Outcome], None],
    ) -> None:
        """``send`` takes a request that has its turn, ``end`` one that waited for too long.

        ``ping`` pings the process, and returns the wire id of that.
        """
        self.has_asked = process.entry.has_asked
        """Whether a call was seen to cause a question, in this life or an earlier one."""
        self._ctx = ctx
        self._process = process
        self._send_one = send
        self._end = end
        self._running: dict[UpstreamRequest, None] = {}
        self._holders: dict[int, _Holder] = {}
        self._lines: dict[int, _Line] = {}
        """The sessions that wait, in order of arrival; a session's requests go all together."""
        self._length = 0
        """How many requests wait."""
        self._open: dict[int, _Open] = {}
        self._watched: dict[UpstreamRequest, dict[object, Callable[[], None]]] = {}
        self.calls_given_up = GivenUp(ctx, process, ping=ping, let_go=self._let_go)

    @property
    def mode(self) -> Interactive:
        """Return what is done now, with ``AUTO`` decided."""
        mode = self._process.entry.interactive
        if mode is Interactive.AUTO:
            return Interactive.EXCLUSIVE if self.has_asked else Interactive.SHARED
        return mode

    @property
    def is_exclusive(self) -> bool:
        """Whether sessions take turns."""
        return self._process.era is Era.LEGACY and self.mode is Interactive.EXCLUSIVE

    def mark_asked(self) -> None:
        """A call has caused a question: from now on sessions take turns, where that is AUTO."""
        self.has_asked = True

    # -- the gate --------------------------------------------------------------------------------

    def admits(self, leg: UpstreamRequest) -> bool:
        """Tell whether a request may go now; else it waits for its turn."""
        if leg in self._running:
            return True
        owner = leg.owner
        if owner not in self._open and self.is_exclusive and (self._lines or self._blocks(owner)):
            self._keep(leg)
            return False
        self._run(leg)
        return True

    def given_up(self, leg: UpstreamRequest) -> None:
        """Note that the process was told that a request is given up; it may have asked before."""
        if self._process.era is not Era.LEGACY:
            return
        self.calls_given_up.add(leg)

    def possible(self) -> list[UpstreamRequest]:
        """Return the calls that were given up and that a question may still be of."""
        return list(self.calls_given_up.unread)

    def _let_go(self, legs: Iterable[UpstreamRequest]) -> None:
        for leg in legs:
            self._run_no_more(leg)
        self._advance()

    def _run_no_more(self, leg: UpstreamRequest) -> None:
        if leg in self._running:
            del self._running[leg]
            holder = self._holders[leg.owner]
            holder.count -= 1
            if not holder.count:
                del self._holders[leg.owner]

    def over(self, leg: UpstreamRequest) -> None:
        """A request is over, whether it had its turn or not."""
        if leg not in self.calls_given_up.unread:
            self._run_no_more(leg)
        if self._watched:
            for act in self._watched.pop(leg, {}).values():
                act()
        if self._lines:
            self._advance()

    def remove(self, leg: UpstreamRequest) -> bool:
        """Take out one that waits and is given up; tell whether it was there."""
        line = self._lines.get(leg.owner)
        if line is None or leg not in line.requests:
            return False
        del line.requests[leg]
        self._length -= 1
        if not line.requests:
            del self._lines[leg.owner]
        return True

    def drain(self) -> list[UpstreamRequest]:
        """Take out all that wait."""
        lines, self._lines, self._length = self._lines, {}, 0
        found = [leg for line in lines.values() for leg in line.requests]
        for leg in found:
            _drop_queue_timer(leg)
        return found

    def waiting(self) -> list[UpstreamRequest]:
        """Return the requests that wait for their session's turn."""
        return [leg for line in self._lines.values() for leg in line.requests]

    def server_gone(self) -> None:
        """Forget all turns: the process is gone, and asks nothing of what was given up."""
        self.calls_given_up.clear()
        self._running.clear()  # what is repeated asks for its turn again
        self._holders.clear()

    def reconsider(self) -> None:
        """The entry says something else now: there may be nothing to wait for."""
        self._advance()

    def __len__(self) -> int:
        return self._length

    def watch(self, leg: UpstreamRequest, key: object, act: Callable[[], None]) -> None:
        """Call back once a request of a client that can be asked is over, however it ends."""
        self._watched.setdefault(leg, {})[key] = act

    def unwatch(self, leg: UpstreamRequest, key: object) -> None:
        """Do not call back under ``key`` any more."""
        self._watched.get(leg, {}).pop(key, None)

    # -- open questions --------------------------------------------------------------------------

    def question_opened(self, owner: int) -> bool:
        """Note that a session is asked something; tell whether it is its only open question.

        None of its requests waits then, and after ``LENDS_AFTER`` no other session waits for it.
        """
        known = self._open.get(owner)
        if known is not None:
            known.count += 1
            return False
        self._open[owner] = _Open(self._ctx.after(LENDS_AFTER, lambda: self._lend(owner)))
        self._send(self._lines.pop(owner, None))
        return True

    def is_asked(self, owner: int) -> bool:
        """Tell whether a session has an open question: nothing of it waits."""
        return owner in self._open

    def question_closed(self, owner: int) -> None:
        """One of its questions is answered, or nobody wants to know any more."""
        known = self._open[owner]
        known.count -= 1
        if not known.count:
            known.timer.cancel()
            del self._open[owner]

    def _lend(self, owner: int) -> None:
        self._open[owner].is_lent = True
        self._advance()

    # -- who goes ahead --------------------------------------------------------------------------

    def _is_lent(self, owner: int) -> bool:
        known = self._open.get(owner)
        return known is not None and known.is_lent

    def _blocks(self, owner: int) -> bool:
        """Tell whether somebody else has the turn."""
        return any(other != owner and not self._is_lent(other) for other in self._holders)

    def _advance(self) -> None:
        while self._lines and self._process.is_ready:
            owner = next(iter(self._lines))
            if self.is_exclusive and self._blocks(owner):
                return
            self._send(self._lines.pop(owner))

    def _send(self, line: _Line | None) -> None:
        if line is None:
            return
        self._length -= len(line.requests)
        for leg in line.requests:  # all of them first: one that fails must not let others in
            self._run(leg)
        for leg in line.requests:
            _drop_queue_timer(leg)
            if not leg.is_over:
                self._send_one(leg)

    def _run(self, leg: UpstreamRequest) -> None:
        self._running[leg] = None
        holder = self._holders.get(leg.owner)
        if holder is None:
            holder = self._holders[leg.owner] = _Holder(self._ctx.now, leg.client_info)
        holder.count += 1

    def _keep(self, leg: UpstreamRequest) -> None:
        line = self._lines.get(leg.owner)
        if line is None:
            line = self._lines[leg.owner] = _Line(self._ctx.now, leg.client_info)
        line.requests[leg] = None
        leg.flags |= QUEUED
        self._length += 1
        wait = self._process.entry.queue_timeout
        if wait > 0:
            leg.queue_timer = self._ctx.after(wait, lambda: self._give_up(leg, wait))

    def _give_up(self, leg: UpstreamRequest, wait: float) -> None:
        if not self.remove(leg):
            return
        entry = leg.entry or self._process.entry
        who = max(
            (w for w in self._who_runs(self._ctx.now) if w.session != leg.owner),
            key=lambda w: (not w.is_lent, w.for_s),
            default=None,
        )
        details: dict[str, Any] = {"limit": "queue_timeout", "seconds": wait}
        message = f"{entry.name} had no turn for this call within {wait:g} s (queue_timeout)"
        if who is not None:
            details |= {"turn": {"session": who.session, "since_s": round(who.for_s, 3)}}
            whose = f"session {who.session}"
            if who.client is not None:
                details["turn"]["client"] = who.client
                whose = f"{who.client} ({whose})"
            message += f": {whose} has had it for {who.for_s:.0f} s"
        hint = f"`mcpctl status {entry.name}` shows who waits for whom"
        failure = Failure("server_busy", message, entry.name, True, hint, details)
        self._end(leg, failed(failure))

    # -- status ----------------------------------------------------------------------------------

    def report(self, now: float) -> TurnsReport:
        """Return who has the turn and who waits for it; ``now`` is monotonic seconds."""
        if not self.is_exclusive:
            return TurnsReport(self.mode)
        waiting = (
            Who(owner, now - line.since, _name_of(line.client_info))
            for owner, line in self._lines.items()
        )
        return TurnsReport(self.mode, tuple(self._who_runs(now)), tuple(waiting))

    def _who_runs(self, now: float) -> list[Who]:
        return [
            Who(owner, now - holder.since, _name_of(holder.client_info), self._is_lent(owner))
            for owner, holder in self._holders.items()
        ]


def _name_of(client_info: ClientInfo | None) -> str | None:
    return None if client_info is None else client_info.name


def _drop_queue_timer(leg: UpstreamRequest) -> None:
    if leg.queue_timer is not None:
        leg.queue_timer.cancel()
        leg.queue_timer = None

"""Requests to one process: those that wait, those in flight, their deadlines and answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, KeysView
from functools import partial
from typing import Final

from msgspec import Raw, structs

from mcpd.core.catalog.model import Item
from mcpd.core.facts import Failure, ServerLogged
from mcpd.core.interface.commands import Answered, Busy, Idle, ToServer, Want
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.failures import does_not_read, no_place, timed_out, too_large, with_details
from mcpd.core.mcp import translation
from mcpd.core.mcp.client_info import UNKNOWN_CLIENT, ClientInfo
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method, Route
from mcpd.core.requests import call_facts, progress
from mcpd.core.requests.call_gate import CallGate
from mcpd.core.requests.inflight import (
    LOST,
    OURS,
    End,
    Inflight,
    Outcome,
    UpstreamRequest,
    failed,
)
from mcpd.core.requests.noise import Noise
from mcpd.core.requests.own_requests import Answer, OwnRequest
from mcpd.core.requests.process import Process
from mcpd.core.requests.queue import FairQueue
from mcpd.core.requests.timeouts import Timeouts
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame
from mcpd.ids import SlotId

LATELY_S: Final = 0.1
"""How long what a process logs without a call in flight may belong to one that ended."""

_EDGE: Final = 65536  # bytes of an answer in which `isError` is looked for
_OWN_TIMEOUT: Final = 60.0  # seconds for a list, a level or a subscription of ours
_PING: Final = CLIENT_REQUESTS["ping"]
_COUNTED: Final = (End.ANSWERED, End.ERROR, End.FAILED, End.TIMED_OUT)
"""The ends of requests that count as calls."""

Waiter = Callable[[Failure | None], None]


class Calls(Process):
    """What one slot's processes are asked, over their lives.

    A request waits until a process is ready, then for its turn and for room where the entry bounds
    them, and is then in flight. When the process ends it waits for the next one, or fails. However
    a request ends, it ends in ``end``.
    """

    def __init__(self, ctx: Context, slot: SlotId, entry: Entry) -> None:
        super().__init__(slot, entry)
        self.is_held = False
        """Whether requests of others wait although the process is ready: see ``hold_all``."""
        self.users: set[int] = set()
        """Sessions that keep this server alive."""
        self.calls = 0
        self.errors = 0
        self.has_answered = False
        """Whether the process has answered a request of a client."""
        self.ours = UNKNOWN_CLIENT
        """Who asks a modern process when we do ourselves."""
        self.callers = UNKNOWN_CLIENT
        """Who makes control calls to one: it can be asked nothing."""
        self.between: dict[UpstreamRequest, None] = {}
        """Requests that are not over, while clients are asked for input, or arguments checked."""
        self.timeouts = Timeouts(ctx, self._time_out)
        self.gate = CallGate(ctx, self, send=self.place, ping=self._ping, end=self.end)
        self._ctx = ctx
        self._inflight = Inflight()
        self._noise = Noise(ctx, self)
        self._queue = FairQueue()
        self._waiting: dict[UpstreamRequest, None] = {}
        self._on_ready: dict[Waiter, None] = {}
        self._refused = 0
        """Lines that are no requests, that were not written and not told of yet."""
        self._refusals_told_at = -math.inf
        self._is_busy = False
        self._when_free: Callable[[], None] | None = None

    # -- on the way to the process ---------------------------------------------------------------

    def submit(self, leg: UpstreamRequest) -> None:
        """Send a request as soon as the process is ready and has room for it."""
        leg.holder = self
        if not self._is_busy:
            self.mark_busy()
        if self.is_overrun and leg.owner:
            self.end(leg, failed(does_not_read(self._name_for(leg))))
        elif not self.is_ready:
            self._waiting[leg] = None
            self._ctx.emit(Want(self.slot))
        elif self.is_held:
            self._waiting[leg] = None
        elif leg.is_asking and not self.gate.admits(leg):
            return  # it has no turn yet
        elif self.entry.max_concurrency:
            self.place(leg)
        else:
            self._send(leg)

    def place(self, leg: UpstreamRequest) -> None:
        """Send a request that has its turn as soon as there is room for it."""
        if leg.owner and not (self._has_room() or self.gate.is_asked(leg.owner)):
            self._enqueue(leg)
        else:
            self._send(leg)

    def question_opened(self, owner: int) -> None:
        """Send what waits of a session that is asked something: it may need that to answer."""
        if self.gate.question_opened(owner):
            for leg in self._queue.take(owner):
                if leg.queue_timer is not None:
                    leg.queue_timer.cancel()
                self._send(leg)

    def _has_room(self) -> bool:
        """Tell whether one more request may go; ours take up nobody's place."""
        limit = self.entry.max_concurrency
        return not limit or self._inflight.of_sessions < limit

    def hold(self, leg: UpstreamRequest) -> None:
        """Keep the server in use while a request's arguments are checked before it is sent."""
        self.between[leg] = None
        self.mark_busy()

    def let_go(self, leg: UpstreamRequest) -> None:
        """End ``hold``: the request has been sent, or will not be."""
        self.between.pop(leg, None)
        self.mark_idle()

    def await_client(self, leg: UpstreamRequest) -> None:
        """Keep a request whose client is asked for input; it is submitted again with answers."""
        leg.is_written = False
        leg.wire_id = 0
        leg.drop_timers()
        self.between[leg] = None

    # -- the end ---------------------------------------------------------------------------------

    def end(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """End a request, wherever it is: the only way in which one ends.

        It leaves its table and is counted. Then its recipient takes the outcome, its turn and its
        room go to the next requests, and at last the server may be idle.
        """
        if leg.is_over:
            return
        leg.is_over = True
        if leg.created_at:
            call_facts.ended(self._ctx, leg, outcome)
        how = outcome.how
        if how is not End.ANSWERED and how is not End.ERROR:  # else it was taken already
            leg.is_given_up = how is End.CANCELLED or how is End.TIMED_OUT
            self._remove(leg, outcome.reason)
        if leg.method.route is Route.TOOL and how in _COUNTED:
            self.calls += 1
            self.errors += how is not End.ANSWERED
        if leg.timer is not None or leg.queue_timer is not None:
            leg.drop_timers()
        leg.recipient.take_outcome(leg, outcome)
        if leg.is_asking:
            self.gate.over(leg)
        if leg.is_written and self._queue.length:
            self.send_queued()
        if not self.users:
            self.mark_idle()

    def _remove(self, leg: UpstreamRequest, reason: bytes | None) -> None:
        """Take a request out of wherever it is; one given up is cancelled with ``reason``."""
        if leg.wire_id and self._inflight.get(leg.wire_id) is leg:
            self._inflight.close(leg.wire_id, self._ctx.now)
            if leg.is_given_up:
                self._cancel(leg, reason)
        elif leg in self.between:
            del self.between[leg]
        elif leg in self._waiting:
            del self._waiting[leg]
        elif not self._queue.remove(leg):
            self.gate.remove(leg)

    def _cancel(self, leg: UpstreamRequest, reason: bytes | None) -> None:
        if leg.method.route is not Route.INITIALIZE:
            why = b',"reason":' + reason if reason else b""
            params = b'{"requestId":%d%b}' % (leg.wire_id, why)
            line = envelope.notification(b'"notifications/cancelled"', params)
            self._ctx.emit(ToServer(self.slot, line, cancels=leg.wire_id))
        if leg.owner:
            self.gate.given_up(leg)

    # -- waiting for the process -----------------------------------------------------------------

    def when_ready(self, waiter: Waiter) -> None:
        """Call back once the process is ready, or with why it is not going to be.

        A waiter that waits already is called once.
        """
        if self.is_ready:
            waiter(None)
            return
        self._on_ready[waiter] = None
        self.mark_busy()
        self._ctx.emit(Want(self.slot))

    def wait_no_more(self, waiter: Waiter) -> None:
        """Remove a waiter of ``when_ready``; harmless for one that does not wait."""
        if waiter in self._on_ready:
            del self._on_ready[waiter]
            self.mark_idle()

    def unfinished(self) -> list[UpstreamRequest]:
        """Return the requests that are in flight, or wait for the process."""
        return [*self._inflight.all(), *self._waiting]

    def levels(self) -> list[str]:
        """Return the log levels that modern requests want which a process is about to get."""
        client_infos = (p.client_info for p in (*self.unfinished(), *self.between) if p.is_modern)
        return [
            client_info.level
            for client_info in client_infos
            if client_info is not None and client_info.level
        ]

    def load(self) -> int:
        """Return how many requests of others are in flight, waiting or queued."""
        flying = self._inflight.of_sessions
        return flying + len(self._waiting) + len(self.between) + self.queued()

    def waits_for_start(self, owner: int) -> bool:
        """Tell whether a request of a session waits until the process is ready."""
        return any(leg.owner == owner for leg in self._waiting)

    def owed_since(self) -> float | None:
        """Return since when the process owes its oldest answer, ``None`` where it owes none.

        One that waits for an answer to a question of its own does not owe.
        """
        owed = (p for p in self._inflight.all() if p.is_written and not p.is_paused)
        oldest = next(owed, None)  # they are in the order in which they were sent
        return None if oldest is None else oldest.sent_at

    def queued(self) -> int:
        """Return how many requests wait for their place."""
        return self._queue.length + len(self.gate)

    def owners_in_flight(self) -> KeysView[int]:
        """Return the sessions whose requests the process is working on."""
        return self._inflight.owners()

    def mark_busy(self) -> None:
        """Report that the server is in use."""
        if not self._is_busy:
            self._is_busy = True
            self._ctx.emit(Busy(self.slot))

    def release(
        self, failure: Failure, when_free: Callable[[], None] | None
    ) -> list[UpstreamRequest]:
        """Hand over what has not been sent; ``when_free`` is called when all else is over.

        Waiters of ``when_ready`` get ``failure``.
        """
        released = [*self.gate.drain(), *self._queue.drain(), *self._waiting]
        self._waiting = {}
        waiters, self._on_ready = self._on_ready, {}
        for waiter in waiters:
            waiter(failure)
        for leg in released:
            leg.drop_timers()
            if leg.is_asking:
                self.gate.over(leg)  # it waits for another one elsewhere
        self._when_free = when_free
        self.mark_idle()
        return released

    def reclaim(self) -> None:
        """Keep the process in use: its slot is not released after all."""
        self._when_free = None

    def mark_idle(self) -> None:
        """Report that the server is not in use any more, if it is not."""
        if self._when_free is not None and not self.load():
            when_free, self._when_free = self._when_free, None
            when_free()
            return
        if self._is_busy and not (
            self.users
            or len(self._inflight)
            or self._waiting
            or self.between
            or self.queued()
            or self._on_ready
        ):
            self._is_busy = False
            self._ctx.emit(Idle(self.slot))

    def configure(self, entry: Entry) -> None:
        """Take over what the entry says now; there may be more room than before."""
        self.entry = entry
        self.gate.reconsider()
        self.send_queued()

    def _name_for(self, leg: UpstreamRequest) -> str:
        """Return what a client calls the server: entries may share a process."""
        return self.entry.name if leg.entry is None else leg.entry.name

    def _enqueue(self, leg: UpstreamRequest) -> None:
        self._queue.push(leg)
        if self.entry.queue_timeout > 0:
            act = partial(self._time_out_in_queue, leg)
            leg.queue_timer = self._ctx.after(self.entry.queue_timeout, act)

    def _time_out_in_queue(self, leg: UpstreamRequest) -> None:
        entry, name = self.entry, self._name_for(leg)
        failure = no_place(_title(name, leg), name, entry.queue_timeout, entry.max_concurrency)
        self.end(leg, failed(failure))

    def send_queued(self) -> None:
        """Send what waits for room, as far as there is some."""
        while self._queue.length and self.is_ready and self._has_room():
            leg = self._queue.pop()
            if leg is None:
                return
            if leg.queue_timer is not None:
                leg.queue_timer.cancel()
            self._send(leg)

    def _send(self, leg: UpstreamRequest) -> None:
        wire_id = self._inflight.open(leg)
        params = leg.params
        entry = leg.entry
        if self.is_modern or leg.is_modern:
            params = translation.params_for_server(
                params, leg.client_info or self._we(leg), self.era
            )
        elif leg.unanswered_params is not None:
            params = leg.unanswered_params  # a legacy process has come, and has asked nothing
        is_timed = entry is not None and (leg.timeout > 0 or entry.call_timeout > 0)
        if leg.token is not None or is_timed or leg.wants_progress:
            params = progress.with_token(params, wire_id)
        line = envelope.request(wire_id, leg.method.quoted, params)
        if len(line) - 1 > self._ctx.settings.max_request_bytes:
            self._inflight.close(wire_id)
            most = self._ctx.settings.max_request_bytes
            self.end(leg, failed(too_large(self.entry.name, most)))
            return
        leg.is_written = True
        leg.sent_at = self._ctx.now
        if leg.created_at:
            call_facts.sent(self._ctx, leg)
        if is_timed and entry is not None:
            timeout = leg.timeout or entry.call_timeout
            self.timeouts.start(leg, timeout, entry.call_timeout_max)
        self._ctx.commands.append(ToServer(self.slot, line, wire_id))

    def _we(self, leg: UpstreamRequest) -> ClientInfo:
        return self.ours if leg.owner == OURS else self.callers

    def _time_out(self, leg: UpstreamRequest, limit: str, seconds: float) -> None:
        if leg.is_over:
            return
        name = self._name_for(leg)
        title, meanwhile = _title(name, leg), self.meanwhile(leg)
        failure = timed_out(title, name, limit, seconds, meanwhile)
        reason = envelope.quote(f"{limit} of {seconds:g} s")
        self.end(leg, Outcome(End.TIMED_OUT, failure=failure, reason=reason))

    def refuse_write(self, wire_id: int, *, is_gone: bool = False) -> None:
        """What is kept for the process has reached its bound: this request was not written.

        Nor is one where it closed its stdin; its end, or the start-up time, tells why.
        """
        if not wire_id:
            if not is_gone:
                self._tell_refused()
            return
        leg = self._inflight.get(wire_id)
        if leg is not None and is_gone:
            leg.is_written = False
            return
        if leg is not None and leg.owner == OURS and not self.is_ready:
            return
        if leg is not None:
            self.end(leg, failed(does_not_read(self.entry.name)))

    def _tell_refused(self) -> None:
        """Log how many lines that are no requests were not written, once a second."""
        self._refused += 1
        if self._ctx.now < self._refusals_told_at + 1.0:
            return
        text = f"does not read its input: answers and notifications not written: {self._refused}"
        self._ctx.tell(ServerLogged(self.entry.name, "warning", text))
        self._refused, self._refusals_told_at = 0, self._ctx.now

    # -- answers ---------------------------------------------------------------------------------

    def take(self, wire_id: int) -> UpstreamRequest | None:
        """Take a request out that the process has answered; ``None`` where nobody waits for it."""
        leg = self._inflight.close(wire_id, self._ctx.now)
        if leg is not None and self.gate.unread:
            self.gate.answered(wire_id)
        return leg

    def detach(self, wire_id: int) -> None:
        """Take a request out whose answer is expected elsewhere."""
        self._inflight.close(wire_id)

    def lately(self) -> set[int]:
        """Return whose requests ended within ``LATELY_S``: one owner, two for several."""
        return self._inflight.ended_since(self._ctx.now - LATELY_S)

    def get(self, wire_id: int) -> UpstreamRequest | None:
        """Return a request that is in flight."""
        return self._inflight.get(wire_id)

    def note_noise(self, reason: str, text: str) -> None:
        """Keep a line of the process that is no message, for the errors of what waits."""
        self._noise.note(reason, text, self._inflight.sole_owner())

    def meanwhile(self, leg: UpstreamRequest) -> str:
        """Return what the process wrote instead of an answer, as the end of an error."""
        if not leg.is_written:
            return ""
        return self._noise.meanwhile(leg.sent_at, leg.owner, self._inflight.sole_owner())

    def while_starting(self) -> str:
        """Return what a process that is not ready wrote instead of its answers."""
        if self.is_ready:
            return ""
        return self._noise.meanwhile(0.0, OURS, self._inflight.sole_owner())

    def was_used(self, wire_id: int) -> bool:
        """Tell a late or second answer from one to a request that was never made."""
        return self._inflight.was_used(wire_id)

    def mark_answered(self) -> None:
        """Report that the process has answered a request of a client, for the first time."""
        self.has_answered = True
        self._ctx.emit(Answered(self.slot))

    def finish(
        self, leg: UpstreamRequest, result: Raw | None, frame: Frame, outcome: Outcome
    ) -> None:
        """End a request with its answer.

        ``result`` is what the process wrote, ``frame`` the line that it came in.
        """
        if result is None or outcome.failure is not None or _is_error(leg, result, frame):
            outcome = structs.replace(outcome, how=End.ERROR)
        self.end(leg, outcome)

    def take_counts(self) -> tuple[int, int]:
        """Return the calls and errors counted so far, and set both to 0."""
        counts = (self.calls, self.errors)
        self.calls = self.errors = 0
        return counts

    def sent(self) -> Collection[UpstreamRequest]:
        """Return what the process is working on, oldest first."""
        return self._inflight.all()

    def sent_of(self, owner: int) -> Collection[UpstreamRequest]:
        """Return what the process is working on for one session, oldest first."""
        return self._inflight.of(owner)

    # -- requests of ours, and the life of a process ---------------------------------------------

    def ask(
        self,
        method: Method,
        params: bytes | None,
        then: Answer,
        *,
        lost: Callable[[], None] | None = None,
        client_info: ClientInfo | None = None,
    ) -> UpstreamRequest:
        """Send a request of our own, past every queue; ``then`` gets its result or error.

        Where the process ends before it answers, ``lost`` is called instead. A modern process is
        told the capabilities of ``client_info``, if there is one, instead of ours.
        """

        leg = UpstreamRequest(OURS, method, params, OwnRequest(then, lost))
        leg.client_info = client_info
        leg.holder = self
        self._send(leg)
        if self.is_ready and not leg.is_over:  # before, the start-up time counts
            self.timeouts.start(leg, _OWN_TIMEOUT, 0)
        return leg

    def _ping(self, then: Answer) -> int:
        """Ping the process; return the wire id of the request."""
        return self.ask(_PING, None, then).wire_id

    def begin(self) -> None:
        """Begin with a new process; ids count from 1."""
        self._inflight = Inflight()
        self._noise.clear()
        self.has_answered = False

    def open(self) -> None:
        """Send what waits: the process is ready."""
        self.is_ready = True
        waiters, self._on_ready = self._on_ready, {}
        self._submit_waiting()
        for waiter in waiters:
            waiter(None)

    def hold_all(self) -> None:
        """Have the requests of sessions and control calls wait until ``let_all_go``."""
        self.is_held = True

    def let_all_go(self) -> None:
        """Send what ``hold_all`` has kept."""
        self.is_held = False
        self._submit_waiting()

    def _submit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for leg in waiting:
            if not leg.is_over:
                self.submit(leg)

    def lose(
        self,
        failure: Failure,
        *,
        is_planned: bool,
        comes_back: bool,
        tool: Callable[[str], Item | None],
    ) -> None:
        """There is no process: fail what it request, and keep what may go to the next one.

        ``tool`` finds what a tool says of itself: whether calling it twice does harm.
        """
        self.is_ready = False
        waiting, self._waiting = self._waiting, {}
        flying, queued = self._inflight.all(), self._queue.drain()
        if self.is_held:  # these had a process, and were not sent
            self.is_held = False
            queued, waiting = [*queued, *waiting], {}
        queued += self.gate.drain()
        self.gate.server_gone()
        self._inflight = Inflight()
        waiters, self._on_ready = self._on_ready, {}
        if is_planned and comes_back:  # a restart: what has not been sent goes to the new process
            self._waiting, self._on_ready = dict.fromkeys([*queued, *waiting]), waiters
            waiting, queued, waiters = {}, [], {}
        lost = []
        for leg in [*flying, *queued]:
            if leg.owner and comes_back and not is_planned and _may_repeat(leg, tool):
                self._wait_again(leg)
            else:
                lost.append(leg)
        for leg in lost:
            if leg.owner == OURS:
                self.end(leg, LOST)
            elif leg.is_written:
                heard = self._noise.since(leg.sent_at, leg.owner)
                self.end(leg, failed(with_details(failure, heard, outcome_unknown=True)))
            else:
                self.end(leg, failed(failure))
        for leg in waiting:
            self.end(leg, failed(failure))
        for waiter in waiters:
            waiter(failure)
        self.mark_idle()

    def _wait_again(self, leg: UpstreamRequest) -> None:
        """Have the next process get a request that this one has not answered."""
        if leg.is_over:
            return
        leg.tries += 1
        leg.is_written = False
        leg.wire_id = 0  # the next process gives it to somebody else
        leg.drop_timers()
        self._waiting[leg] = None


def _title(server: str, leg: UpstreamRequest) -> str:
    """Return what people call a request: a call by its server and tool."""
    return server if leg.tool is None else f"{server}.{leg.tool}"


def _may_repeat(leg: UpstreamRequest, tool: Callable[[str], Item | None]) -> bool:
    if leg.tries:
        return False
    if not leg.is_written:
        return True
    if leg.entry is None or not leg.entry.may_repeat:
        return False
    if leg.tool is not None:
        known = tool(leg.tool)
        return known is not None and (known.read_only or known.idempotent)
    return leg.method.may_repeat


def _is_error(leg: UpstreamRequest, result: Raw, frame: Frame) -> bool:
    """Tell whether the result of a tool says that it failed."""
    # a large result says it before its content or after: its middle is not searched
    if b'"isError"' not in frame[:_EDGE] and b'"isError"' not in frame[-_EDGE:]:
        return False
    members = envelope.object_of(result) if leg.method.route is Route.TOOL else None
    return members is not None and bytes(members.get("isError", Raw(b""))) == b"true"

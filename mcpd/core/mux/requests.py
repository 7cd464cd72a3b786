"""Requests to one process: those that wait, those in flight, their deadlines and answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, KeysView
from typing import Final, Protocol

from msgspec import Raw

from mcpd.core.catalog.model import Item
from mcpd.core.facts import Failure, ServerLogged
from mcpd.core.mcp import codes
from mcpd.core.mcp.asker import NOBODY, Asker
from mcpd.core.mcp.methods import Method, Route
from mcpd.core.mcp.versions import Era
from mcpd.core.mux import bridge, progress
from mcpd.core.mux.commands import Answered, Busy, Idle, ToServer, Want
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import too_large, with_details
from mcpd.core.mux.inflight import FairQueue, Inflight, Pending
from mcpd.core.mux.noise import Noise, unfinished
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame
from mcpd.ids import SlotId

OURS: Final = 0
"""The owner of requests that no session made."""

LATELY_S: Final = 0.1
"""How long what a process logs without a call in flight may belong to one that ended."""

_EDGE: Final = 65536  # bytes of an answer in which `isError` is looked for
_OWN_TIMEOUT: Final = 60.0  # seconds for a list, a level or a subscription of ours

Waiter = Callable[[Failure | None], None]
Answer = Callable[[Raw | bytes | None, Raw | bytes | None], None]
"""Called with the result or the error of a request of ours."""


Interpreted = tuple[Raw | bytes | None, Raw | bytes | None, Failure | None]
"""A result, an error of the server's, or a failure of ours: what an answer means to its client."""


class Gate(Protocol):
    """Decides when a request that can cause a question may be sent."""

    def admits(self, pending: Pending) -> bool:
        """Tell whether it may go now; else it is kept, and handed to ``Requests.place`` later."""

    def given_up(self, pending: Pending) -> None:
        """The process was told that a request which it works on is given up; ``over`` follows."""

    def answered(self, wire_id: int) -> None:
        """The process has answered a request: it has read what came before."""

    def is_asked(self, owner: int) -> bool:
        """Tell whether a session has a question to answer, for which it may need the server."""

    def over(self, pending: Pending) -> None:
        """A request that was admitted is over."""

    def remove(self, pending: Pending) -> bool:
        """Take out one that is kept and given up; tell whether it was there."""

    def drain(self) -> list[Pending]:
        """Take out all that are kept; the process, or its place, is gone."""

    def server_gone(self) -> None:
        """The process is gone; it has nothing left to read."""

    def reconsider(self) -> None:
        """The entry is another one; let those go that need not wait any more."""

    def __len__(self) -> int: ...


class Requests:
    """What one slot's processes are asked, over their lives.

    A request waits until a process is ready, then for its place where the entry bounds them, and
    is then in flight; a death takes it back to waiting or fails it.
    """

    def __init__(self, effects: Effects, slot: SlotId, entry: Entry) -> None:
        self.slot = slot
        self.entry = entry
        self.is_ready = False
        self.is_held = False
        """Whether requests of others wait although the process is ready: see ``hold_all``."""
        self.is_overrun = False
        """Whether so many requests were given up, unread, that the process gets no more."""
        self.users: set[int] = set()
        """Sessions that keep this server alive."""
        self.calls = 0
        self.errors = 0
        self._era = Era.LEGACY
        self._is_modern = False
        self.ours = NOBODY
        """Who asks a modern process when we do ourselves."""
        self.callers = NOBODY
        """Who makes control calls to one: it can be asked nothing."""
        self.gate: Gate | None = None
        self.interpret: Callable[[Pending, Raw | None, Raw | None], Interpreted | None] | None = (
            None
        )
        """Says what an answer means to a client of another era, or to any of a modern process's;
        ``None`` when the client has to be asked something first. It is shown each error."""
        self.between: dict[Pending, None] = {}
        """Requests that are not over, while clients are asked for input, or arguments checked."""
        self._fx = effects
        self._inflight = Inflight()
        self._noise = Noise()
        self._queue = FairQueue()
        self._waiting: dict[Pending, None] = {}
        self._on_ready: dict[Waiter, None] = {}
        self._has_answered = False
        self._last_owner = OURS
        """Whose request was the last to end, of those that sessions made."""
        self._ended_at = -math.inf
        self._others_ended_at = -math.inf
        """When a request of another session was the last to end."""
        self._refused = 0
        """Lines that are no requests, that were not written and not told of yet."""
        self._refusals_told_at = -math.inf
        self._is_busy = False
        self._when_free: Callable[[], None] | None = None

    @property
    def era(self) -> Era:
        """What the process speaks, once it has introduced itself."""
        return self._era

    @era.setter
    def era(self, era: Era) -> None:
        self._era = era
        self._is_modern = era is Era.MODERN

    def submit(self, pending: Pending) -> None:
        """Send a request as soon as the process is ready and has room for it."""
        pending.upstream = self
        if not self._is_busy:
            self.mark_busy()
        if self.is_overrun and pending.owner:
            self._fail(pending, self._does_not_read(self._name_for(pending)))
            return
        if not self.is_ready:
            self._waiting[pending] = None
            self._fx.emit(Want(self.slot))
            return
        if self.is_held:
            self._waiting[pending] = None
            return
        if pending.is_asking and self.gate is not None and not self.gate.admits(pending):
            return
        if self.entry.max_concurrency:
            self.place(pending)
        else:
            self._send(pending)

    def place(self, pending: Pending) -> None:
        """Send a request that has its turn as soon as there is room for it."""
        if pending.owner and not (self._has_room() or self._is_asked(pending.owner)):
            self._enqueue(pending)
            return
        self._send(pending)

    def hurry(self, owner: int) -> None:
        """A session is asked something: what of it waits for a place may be needed to answer."""
        for pending in self._queue.take(owner):
            if pending.queue_timer is not None:
                pending.queue_timer.cancel()
            self._send(pending)

    def _has_room(self) -> bool:
        """Tell whether one more request may go; ours take up nobody's place."""
        limit = self.entry.max_concurrency
        return not limit or self._inflight.of_sessions < limit

    def _is_asked(self, owner: int) -> bool:
        return self.gate is not None and self.gate.is_asked(owner)

    def hold(self, pending: Pending) -> None:
        """Its arguments are checked before a request is sent: the server is in use meanwhile."""
        self.between[pending] = None
        self.mark_busy()

    def let_go(self, pending: Pending) -> None:
        """It has been sent, or will not be."""
        self.between.pop(pending, None)
        self.mark_idle()

    def ask_between(self, pending: Pending) -> None:
        """Keep a request whose client is asked for input; ``submit`` it again with the answers."""
        pending.is_written = False
        pending.wire_id = 0
        pending.drop_timers()
        self.between[pending] = None

    def end_between(self, pending: Pending, error: Raw | bytes) -> None:
        """Answer a request whose client was asked for input: it has said no."""
        if pending.is_over:
            return
        self.between.pop(pending, None)
        pending.is_over = True
        self._count_error(pending)
        pending.done(pending, None, error, None)
        self._pass_turn(pending)
        self.mark_idle()

    def cancel(self, pending: Pending, reason: bytes | None = None) -> None:
        """Give a request up: it will not be answered, and the process is told.

        ``reason`` is JSON: the client's own, or ours.
        """
        if pending.is_over:
            return
        pending.is_over = pending.is_given_up = True
        pending.drop_timers()
        if pending.wire_id and self._close(pending.wire_id) is not None:
            if pending.method.route is not Route.INITIALIZE:
                why = b',"reason":' + reason if reason else b""
                params = b'{"requestId":%d%b}' % (pending.wire_id, why)
                line = envelope.notification(b'"notifications/cancelled"', params)
                self._fx.emit(ToServer(self.slot, line, cancels=pending.wire_id))
            if pending.owner and self.gate is not None:
                self.gate.given_up(pending)
            self._next_from_queue()
        elif pending in self.between:
            del self.between[pending]
        elif pending in self._waiting:
            del self._waiting[pending]
        elif not self._queue.remove(pending) and self.gate is not None:
            self.gate.remove(pending)
        self._pass_turn(pending)
        self.mark_idle()

    def expire(self, pending: Pending, reason: bytes) -> None:
        """Give a request up whose time is over: it counts as one that failed."""
        if not pending.is_over:
            self._count_error(pending)
            self.cancel(pending, reason)

    def _pass_turn(self, pending: Pending) -> None:
        if pending.is_asking and self.gate is not None:
            self.gate.over(pending)

    def when_ready(self, waiter: Waiter) -> None:
        """Call back once the process is ready, or with why it is not going to be.

        A waiter that waits already is called once.
        """
        if self.is_ready:
            waiter(None)
            return
        self._on_ready[waiter] = None
        self.mark_busy()
        self._fx.emit(Want(self.slot))

    def wait_no_more(self, waiter: Waiter) -> None:
        """Forget who waited for the process to be ready; harmless where nobody did."""
        if waiter in self._on_ready:
            del self._on_ready[waiter]
            self.mark_idle()

    def in_flight(self) -> list[Pending]:
        """Return the requests that are owed an answer by the process or wait for it."""
        return [*self._inflight.all(), *self._waiting]

    def levels(self) -> list[str]:
        """Return the log levels that modern requests want which a process is about to get."""
        askers = (p.asker for p in (*self.in_flight(), *self.between) if p.is_modern)
        return [asker.level for asker in askers if asker is not None and asker.level]

    def load(self) -> int:
        """Return how many requests of others are in flight, waiting or queued."""
        flying = self._inflight.of_sessions
        return flying + len(self._waiting) + len(self.between) + self.queued()

    def waits_for_start(self, owner: int) -> bool:
        """Tell whether a request of a session waits until the process is ready."""
        return any(pending.owner == owner for pending in self._waiting)

    def owed_since(self) -> float | None:
        """Return since when the process owes its oldest answer, ``None`` where it owes none.

        One that waits for an answer to a question of its own does not owe.
        """
        owed = (p for p in self._inflight.all() if p.is_written and not p.is_paused)
        oldest = next(owed, None)  # they are in the order in which they were sent
        return None if oldest is None else oldest.sent_at

    def queued(self) -> int:
        """Return how many requests wait for their place."""
        return len(self._queue) + (len(self.gate) if self.gate is not None else 0)

    def owners_in_flight(self) -> KeysView[int]:
        """Return the sessions whose requests the process is working on."""
        return self._inflight.owners()

    def mark_busy(self) -> None:
        """Somebody uses the server."""
        if not self._is_busy:
            self._is_busy = True
            self._fx.emit(Busy(self.slot))

    def release(self, failure: Failure, when_free: Callable[[], None] | None) -> list[Pending]:
        """Hand over what has not been sent; ``when_free`` is called when all else is over.

        Whoever waits for the process to be ready gets ``failure``.
        """
        gated = self.gate.drain() if self.gate is not None else []
        released, self._waiting = [*gated, *self._queue.drain(), *self._waiting], {}
        waiters, self._on_ready = self._on_ready, {}
        for waiter in waiters:
            waiter(failure)
        for pending in released:
            pending.drop_timers()
            self._pass_turn(pending)  # it waits for another one elsewhere
        self._when_free = when_free
        self.mark_idle()
        return released

    def reclaim(self) -> None:
        """The process stays in use after all."""
        self._when_free = None

    def mark_idle(self) -> None:
        """Say so when nobody uses the server any more."""
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
            self._fx.emit(Idle(self.slot))

    def configure(self, entry: Entry) -> None:
        """Take over what the entry says now; there may be more room than before."""
        self.entry = entry
        if self.gate is not None:
            self.gate.reconsider()
        self._next_from_queue()

    def _enqueue(self, pending: Pending) -> None:
        self._queue.push(pending)

        def give_up() -> None:
            if self._queue.remove(pending):
                wait, name = self.entry.queue_timeout, self._name_for(pending)
                title = _title(name, pending)
                self._fail(
                    pending,
                    Failure(
                        kind="server_busy",
                        message=f"{title} had no place for this call within {wait:g} s",
                        server=name,
                        is_retryable=True,
                        hint=f"max_concurrency of {name} is {self.entry.max_concurrency}",
                    ),
                )

        if self.entry.queue_timeout > 0:
            pending.queue_timer = self._fx.after(self.entry.queue_timeout, give_up)

    def _name_for(self, pending: Pending) -> str:
        """Return what its requester calls the server: entries may share a process."""
        return self.entry.name if pending.entry is None else pending.entry.name

    def _next_from_queue(self) -> None:
        while self._queue and self.is_ready and self._has_room():
            pending = self._queue.pop()
            if pending is None:
                return
            if pending.queue_timer is not None:
                pending.queue_timer.cancel()
            self._send(pending)

    def _send(self, pending: Pending) -> None:
        wire_id = self._inflight.open(pending)
        params = pending.params
        entry = pending.entry
        if self._is_modern or pending.is_modern:
            params = bridge.params_up(params, pending.asker or self._we(pending), self._era)
        elif pending.anew is not None:
            params = pending.anew  # a legacy process has come, and has asked nothing
        is_timed = entry is not None and (pending.timeout > 0 or entry.call_timeout > 0)
        if pending.token is not None or is_timed or pending.on_progress is not None:
            params = progress.with_token(params, wire_id)
        line = envelope.request(wire_id, pending.method.quoted, params)
        if len(line) - 1 > self._fx.settings.max_request_bytes:
            self._inflight.close(wire_id)
            self._fail(pending, too_large(self.entry.name, self._fx.settings.max_request_bytes))
            return
        pending.is_written = True
        pending.sent_at = self._fx.now
        if is_timed and entry is not None:
            self._arm(pending, pending.timeout or entry.call_timeout, entry.call_timeout_max)
        self._fx.commands.append(ToServer(self.slot, line, wire_id))

    def _we(self, pending: Pending) -> Asker:
        return self.ours if pending.owner == OURS else self.callers

    def _arm(self, pending: Pending, timeout: float, most: float) -> None:
        pending.timeout = timeout
        self._restart_timer(pending)
        if most > 0:
            pending.most = most
            self._arm_hard(pending, most)

    def _arm_hard(self, pending: Pending, seconds: float) -> None:
        pending.hard_timer = self._fx.after(
            seconds, lambda: self._time_out(pending, "call_timeout_max", pending.most)
        )

    def _restart_timer(self, pending: Pending) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        pending.timer = self._fx.after(
            pending.timeout, lambda: self._time_out(pending, "call_timeout", pending.timeout)
        )

    def _time_out(self, pending: Pending, limit: str, seconds: float) -> None:
        if pending.is_over:
            return
        meanwhile = self.meanwhile(pending)
        self.expire(pending, envelope.quote(f"{limit} of {seconds:g} s"))
        what = "no answer and no progress" if limit == "call_timeout" else "no answer"
        name = self._name_for(pending)
        pending.done(
            pending,
            None,
            None,
            Failure(
                kind="call_timeout",
                message=(
                    f"{_title(name, pending)}: {what} within {seconds:g} s ({limit}){meanwhile}"
                ),
                server=name,
                is_retryable=False,
                hint=f"{limit} in the entry of {name} sets another limit",
                details={"limit": limit, "seconds": seconds, "outcome_unknown": True},
            ),
        )

    def _count_error(self, pending: Pending) -> None:
        if pending.method.route is Route.TOOL:
            self.calls += 1
            self.errors += 1

    def refuse_write(self, wire_id: int, *, is_gone: bool = False) -> None:
        """What is kept for the process has reached its bound: this request was not written.

        Nor is one where it closed its stdin; its end, or the start-up time, tells why.
        """
        if not wire_id:
            if not is_gone:
                self._tell_refused()
            return
        pending = self._inflight.get(wire_id)
        if pending is not None and is_gone:
            pending.is_written = False
            return
        if pending is not None and pending.owner == OURS and not self.is_ready:
            return
        self._inflight.close(wire_id)
        if pending is not None:
            pending.is_written = False
            self._fail(pending, self._does_not_read(self.entry.name))
            self._next_from_queue()

    def _does_not_read(self, name: str) -> Failure:
        why = f"{name} does not read its input"
        return Failure("server_busy", why, name, True, f"mcpctl restart {name}")

    def _tell_refused(self) -> None:
        """Log how many lines that are no requests were not written, once a second."""
        self._refused += 1
        if self._fx.now < self._refusals_told_at + 1.0:
            return
        text = f"does not read its input: answers and notifications not written: {self._refused}"
        self._fx.tell(ServerLogged(self.entry.name, "warning", text))
        self._refused, self._refusals_told_at = 0, self._fx.now

    def _fail(self, pending: Pending, failure: Failure) -> None:
        if pending.is_over:
            return
        pending.is_over = True
        pending.drop_timers()
        self._count_error(pending)
        pending.done(pending, None, None, failure)
        self._pass_turn(pending)
        self.mark_idle()

    # -- answers ---------------------------------------------------------------------------------

    def take(self, wire_id: int) -> Pending | None:
        """Take a request out that the process has answered; ``None`` where nobody waits for it."""
        pending = self._close(wire_id)
        if pending is not None and self.gate is not None:
            self.gate.answered(wire_id)
        return pending

    def _close(self, wire_id: int) -> Pending | None:
        """Take a request out that is answered or given up, and remember whose it was."""
        pending = self._inflight.close(wire_id)
        if pending is not None and pending.owner:
            if pending.owner != self._last_owner:
                self._others_ended_at, self._last_owner = self._ended_at, pending.owner
            self._ended_at = self._fx.now
        return pending

    def detach(self, wire_id: int) -> None:
        """Take a request out whose answer is expected elsewhere."""
        self._inflight.close(wire_id)

    def lately(self) -> set[int]:
        """Return whose requests ended within ``LATELY_S``: one owner, two for several."""
        since = self._fx.now - LATELY_S
        if self._ended_at <= since:
            return set()
        return {self._last_owner} if self._others_ended_at <= since else {self._last_owner, OURS}

    def get(self, wire_id: int) -> Pending | None:
        """Return a request that is in flight."""
        return self._inflight.get(wire_id)

    def hear_noise(self, reason: str, text: str) -> None:
        """The process wrote a line that is no message."""
        text = self.entry.redactor.mask(text)
        self._noise.note(self._fx.now, reason, text, self._inflight.sole_owner())

    def meanwhile(self, pending: Pending) -> str:
        """Say what the process wrote instead of an answer, as the end of an error."""
        if not pending.is_written:
            return ""
        return self._meanwhile(pending.sent_at, pending.owner)

    def while_starting(self) -> str:
        """Say what a process that is not ready wrote instead of its answers."""
        return "" if self.is_ready else self._meanwhile(0.0, OURS)

    def _meanwhile(self, at: float, owner: int) -> str:
        if heard := self._noise.since(at, owner):
            return heard
        begun, size = self._fx.unfinished(self.slot)
        if not size or self._inflight.sole_owner() not in (OURS, owner):
            return ""
        redactor, text = self.entry.redactor, begun.decode("utf-8", "replace")
        whole = redactor.mask(text) if len(begun) == size else redactor.mask_cut(text)
        return unfinished(whole, size)

    def was_used(self, wire_id: int) -> bool:
        """Tell a late or second answer from one to a request that was never made."""
        return self._inflight.was_used(wire_id)

    def finish(self, pending: Pending, result: Raw | None, error: Raw | None, frame: Frame) -> None:
        """Hand an answer to whoever asked; ``frame`` is the line that it came in."""
        failure: Failure | None = None
        said: Raw | bytes | None = result
        wrong: Raw | bytes | None = error
        if pending.owner:
            if not self._has_answered:
                self._has_answered = True
                self._fx.emit(Answered(self.slot))
            is_to_be_read = self._is_modern or pending.is_modern or error is not None
            if is_to_be_read and self.interpret is not None:
                meant = self.interpret(pending, result, error)
                if meant is None:
                    self._next_from_queue()
                    return
                said, wrong, failure = meant
        pending.is_over = True
        if pending.timer is not None or pending.hard_timer is not None:
            pending.drop_timers()
        if pending.owner and pending.method.route is Route.TOOL:
            self.calls += 1
            if result is None or failure is not None or _is_error(result, frame):
                self.errors += 1
        pending.done(pending, said, wrong, failure)
        if pending.is_asking and self.gate is not None:
            self.gate.over(pending)
        if self._queue:
            self._next_from_queue()
        if not self.users:
            self.mark_idle()

    def take_counts(self) -> tuple[int, int]:
        """Return the calls and errors counted so far, and begin anew."""
        counts = (self.calls, self.errors)
        self.calls = self.errors = 0
        return counts

    def spoil(self, pending: Pending, failure: Failure) -> None:
        """Fail a request whose answer cannot be passed on."""
        self._fail(pending, failure)
        self._next_from_queue()

    def flying(self) -> Collection[Pending]:
        """Return what the process is working on, oldest first."""
        return self._inflight.all()

    def flying_of(self, owner: int) -> Collection[Pending]:
        """Return what the process is working on for one session, oldest first."""
        return self._inflight.of(owner)

    def pause(self, pending: Pending) -> None:
        """A question is open: the time of the call that caused it stands still."""
        pending.is_paused = True
        if pending.timer is not None:
            pending.timer.cancel()
        if pending.hard_timer is not None and pending.hard_timer.act is not None:
            pending.left = max(0.0, pending.hard_timer.at - self._fx.now)
            pending.hard_timer.cancel()

    def resume(self, pending: Pending) -> None:
        """The question is answered: time goes on."""
        pending.is_paused = False
        if pending.timer is not None:
            self._restart_timer(pending)
        if pending.hard_timer is not None:
            self._arm_hard(pending, pending.left)

    def restart_timer(self, pending: Pending) -> None:
        """Progress has come: a request's time begins anew."""
        if pending.timer is not None and pending.timer.act is not None:
            self._restart_timer(pending)

    # -- requests of ours, and the life of a process ---------------------------------------------

    def ask(
        self,
        method: Method,
        params: bytes | None,
        then: Answer,
        *,
        lost: Callable[[], None] | None = None,
        asker: Asker | None = None,
    ) -> Pending:
        """Send a request of our own, past every queue; ``then`` gets its result or error.

        Where the process ends before it answers, ``lost`` is called instead. A modern process is
        told the capabilities of ``asker``, if there is one, instead of ours.
        """

        def done(
            _: Pending,
            result: Raw | bytes | None,
            error: Raw | bytes | None,
            failure: Failure | None,
        ) -> None:
            then(result, error if failure is None else codes.error_object(failure))

        pending = Pending(OURS, method, params, done)
        pending.on_lost = lost
        pending.asker = asker
        pending.upstream = self
        self._send(pending)
        if self.is_ready and not pending.is_over:  # before, the start-up time counts
            self._arm(pending, _OWN_TIMEOUT, 0)
        return pending

    def begin(self) -> None:
        """A new process is there; ids begin anew."""
        self._inflight = Inflight()
        self._noise = Noise()
        self._ended_at = self._others_ended_at = -math.inf
        self._has_answered = False

    def open(self) -> None:
        """The process is ready: send what waits."""
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
        for pending in waiting:
            if not pending.is_over:
                self.submit(pending)

    def lose(
        self,
        failure: Failure,
        *,
        is_planned: bool,
        comes_back: bool,
        tool: Callable[[str], Item | None],
    ) -> None:
        """There is no process: fail what it owed, and keep what may go to the next one.

        ``tool`` finds what a tool says of itself: whether calling it twice does harm.
        """
        self.is_ready = False
        waiting, self._waiting = self._waiting, {}
        flying, queued = self._inflight.all(), self._queue.drain()
        if self.is_held:  # these had a process, and were not sent
            self.is_held = False
            queued, waiting = [*queued, *waiting], {}
        if self.gate is not None:
            queued += self.gate.drain()
            self.gate.server_gone()
        self._inflight = Inflight()
        waiters, self._on_ready = self._on_ready, {}
        if is_planned and comes_back:  # a restart: what has not been sent goes to the new process
            self._waiting, self._on_ready = dict.fromkeys([*queued, *waiting]), waiters
            waiting, queued, waiters = {}, [], {}
        for pending in [*flying, *queued]:
            if pending.is_over:
                continue
            if pending.owner == OURS:
                pending.is_over = True
                pending.drop_timers()
                if pending.on_lost is not None:
                    pending.on_lost()
            elif comes_back and not is_planned and _may_repeat(pending, tool):
                pending.tries += 1
                pending.is_written = False
                pending.wire_id = 0  # the next process gives it to somebody else
                pending.drop_timers()
                self._waiting[pending] = None
            elif pending.is_written:
                heard = self._noise.since(pending.sent_at, pending.owner)
                self._fail(pending, with_details(failure, heard, outcome_unknown=True))
            else:
                self._fail(pending, failure)
        for pending in waiting:
            self._fail(pending, failure)
        for waiter in waiters:
            waiter(failure)
        self.mark_idle()


def _title(server: str, pending: Pending) -> str:
    """Return what people call a request: a call by its server and tool."""
    return server if pending.tool is None else f"{server}.{pending.tool}"


def _may_repeat(pending: Pending, tool: Callable[[str], Item | None]) -> bool:
    if pending.tries:
        return False
    if not pending.is_written:
        return True
    if pending.entry is None or not pending.entry.may_repeat:
        return False
    if pending.tool is not None:
        known = tool(pending.tool)
        return known is not None and (known.read_only or known.idempotent)
    return pending.method.may_repeat


def _is_error(result: Raw | None, frame: Frame) -> bool:
    # a large result says it before its content or after: its middle is not worth a look
    if b'"isError"' not in frame[:_EDGE] and b'"isError"' not in frame[-_EDGE:]:
        return False
    members = envelope.object_of(result) if result is not None else None
    return members is not None and bytes(members.get("isError", Raw(b""))) == b"true"

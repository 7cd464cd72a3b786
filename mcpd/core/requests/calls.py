"""Requests to one process: how each is sent, where it waits before, and how it ends.

The module is long because a request ends in one way, wherever it waits: the order in which its
place, turn and memory are given back is here alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw, structs

from mcpd.core.catalog.model import Item
from mcpd.core.facts import Failure
from mcpd.core.interface.commands import Answered, ToServer
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.failures import does_not_read, timed_out, too_large
from mcpd.core.mcp import translation
from mcpd.core.mcp.client_info import UNKNOWN_CLIENT
from mcpd.core.mcp.methods import Route
from mcpd.core.mcp.routing import NAMED, Routing, parameters, repeated
from mcpd.core.mcp.versions import NEWEST_MODERN
from mcpd.core.requests import call_facts, loss
from mcpd.core.requests.call_facts import CallCounts
from mcpd.core.requests.call_gate import CallGate
from mcpd.core.requests.inflight import OURS, End, Inflight, Outcome, UpstreamRequest, failed
from mcpd.core.requests.noise import Noise
from mcpd.core.requests.own_requests import OwnRequests
from mcpd.core.requests.process import Process
from mcpd.core.requests.room import Room
from mcpd.core.requests.start_wait import StartWait
from mcpd.core.requests.timeouts import Timeouts
from mcpd.core.requests.unwritten import Unwritten
from mcpd.core.requests.usage import Usage
from mcpd.core.wire import envelope, progress
from mcpd.core.wire.framing import Frame
from mcpd.ids import SlotId

_EDGE: Final = 65536  # bytes of an answer in which `isError` is looked for
_COUNTED: Final = (End.ANSWERED, End.ERROR, End.FAILED, End.TIMED_OUT)
"""The ends of requests that count as calls."""


class Calls(Process):
    """What one slot's processes are asked, over their lives.

    A request waits until a process is ready, then for its turn and for room where the entry bounds
    them, and is then in flight. When the process ends it waits for the next one, or fails. However
    a request ends, it ends in ``end``.
    """

    def __init__(self, ctx: Context, slot: SlotId, entry: Entry) -> None:
        super().__init__(slot, entry)
        self.counts = CallCounts()
        self.has_answered = False
        """Whether the process has answered a request of a client."""
        self.ours = UNKNOWN_CLIENT
        """Who asks a modern process when we do ourselves."""
        self.callers = UNKNOWN_CLIENT
        """Who makes control calls to one: it can be asked nothing."""
        self.find_tool: Callable[[str], Item | None] = lambda name: None
        """Finds what a tool says of itself: which of its arguments headers repeat, and whether
        calling it twice does harm."""
        self.between: dict[UpstreamRequest, None] = {}
        """Requests that are not over, while clients are asked for input, or arguments checked."""
        self.inflight = inflight = Inflight()
        """The requests that the process is working on."""
        self.noise = Noise(ctx, self)
        self.timeouts = Timeouts(ctx, self._time_out)
        self.own_requests = OwnRequests(self, self, self.timeouts, self._send)
        self.gate = CallGate(ctx, self, send=self.place, ping=self.own_requests.ping, end=self.end)
        self.room = Room(ctx, self, inflight, send=self._send, end=self.end)
        self.usage = Usage(ctx, slot, load=self.load, has_work=self._has_work)
        self.start_wait = StartWait(ctx, self, self.usage, self.submit)
        self.unwritten = Unwritten(ctx, self, inflight, self.end)
        self._ctx = ctx

    # -- on the way to the process ---------------------------------------------------------------

    def submit(self, leg: UpstreamRequest) -> None:
        """Send a request as soon as the process is ready and has room for it."""
        leg.holder = self
        if not self.usage.is_busy:
            self.usage.mark_busy()
        if self.is_overrun and leg.owner:
            self.end(leg, failed(does_not_read(self.name_for(leg))))
        elif not self.is_ready:
            self.start_wait.add(leg)
        elif self.start_wait.is_held:
            self.start_wait.requests[leg] = None
        elif leg.is_asking and not self.gate.admits(leg):
            return  # it has no turn yet
        elif self.entry.max_concurrency:
            self.place(leg)
        else:
            self._send(leg)

    def place(self, leg: UpstreamRequest) -> None:
        """Send a request that has its turn as soon as there is room for it."""
        if leg.owner and not (self.room.is_free() or self.gate.is_asked(leg.owner)):
            self.room.wait(leg)
        else:
            self._send(leg)

    def question_opened(self, owner: int) -> None:
        """Send what waits of a session that is asked something: it may need that to answer."""
        if self.gate.question_opened(owner):
            self.room.send_all_of(owner)

    def hold(self, leg: UpstreamRequest) -> None:
        """Keep the server in use while a request's arguments are checked before it is sent."""
        self.between[leg] = None
        self.usage.mark_busy()

    def let_go(self, leg: UpstreamRequest) -> None:
        """End ``hold``: the request has been sent, or will not be."""
        self.between.pop(leg, None)
        self.usage.mark_idle()

    def waiting(self) -> list[UpstreamRequest]:
        """Return the requests of others that were not sent yet."""
        return [*self.start_wait.requests, *self.gate.waiting(), *self.room.queue]

    def take_back(self, leg: UpstreamRequest) -> None:
        """Take out a request that was not sent: it is decided about again."""
        leg.drop_timers()
        self._remove(leg, None)
        if leg.is_asking:
            self.gate.over(leg)
        leg.holder = None

    def await_client(self, leg: UpstreamRequest) -> None:
        """Keep a request whose client is asked for input; it is submitted again with answers."""
        leg.unsend()
        self.between[leg] = None

    # -- the end ---------------------------------------------------------------------------------

    def end(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """End a request that was submitted, wherever it is.

        It leaves its table and is counted. Then its recipient takes the outcome, its turn and its
        room go to the next requests, and at last the server may be idle.
        """
        if leg.is_over:
            return
        leg.is_over = True
        if leg.caller is not None:
            call_facts.ended(self._ctx, leg, outcome)
        how = outcome.how
        if how is not End.ANSWERED and how is not End.ERROR:  # else it was taken already
            leg.is_given_up = how is End.CANCELLED or how is End.TIMED_OUT
            self._remove(leg, outcome.reason)
        if leg.method.route is Route.TOOL and how in _COUNTED:
            self.counts.calls += 1
            self.counts.errors += how is not End.ANSWERED
        if leg.timer is not None or leg.queue_timer is not None:
            leg.drop_timers()
        leg.recipient.take_outcome(leg, outcome)
        if leg.is_asking:
            self.gate.over(leg)
        if leg.is_written and self.room.queue.length:
            self.room.fill()
        if not self.usage.users:
            self.usage.mark_idle()

    def _remove(self, leg: UpstreamRequest, reason: bytes | None) -> None:
        """Take a request out of wherever it is; one given up is cancelled with ``reason``."""
        if leg.wire_id and self.inflight.get(leg.wire_id) is leg:
            self.inflight.close(leg.wire_id, self._ctx.now)
            if leg.is_given_up:
                self._cancel(leg, reason)
        elif leg in self.between:
            del self.between[leg]
        elif leg in self.start_wait.requests:
            del self.start_wait.requests[leg]
        elif not self.room.queue.remove(leg):
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

    def unfinished(self) -> list[UpstreamRequest]:
        """Return the requests that are in flight, or wait for the process."""
        return [*self.inflight.all(), *self.start_wait.requests]

    def load(self) -> int:
        """Return how many requests of others are in flight, waiting or queued."""
        flying, waiting = self.inflight.of_sessions, len(self.start_wait.requests)
        return flying + waiting + len(self.between) + self.queued()

    def queued(self) -> int:
        """Return how many requests wait for room or for their session's turn."""
        return self.room.queue.length + len(self.gate)

    def release(
        self, failure: Failure, when_free: Callable[[], None] | None
    ) -> list[UpstreamRequest]:
        """Hand over what has not been sent; ``when_free`` is called when all else is over.

        Waiters of ``start_wait`` get ``failure``.
        """
        waiting, waiters = self.start_wait.take()
        released = [*self.gate.drain(), *self.room.drain(), *waiting]
        for waiter in waiters:
            waiter(failure)
        for leg in released:
            leg.drop_timers()
            if leg.is_asking:
                self.gate.over(leg)  # it waits for another one elsewhere
        self.usage.release(when_free)
        return released

    def _has_work(self) -> bool:
        start = self.start_wait
        return bool(
            len(self.inflight) or start.requests or self.between or self.queued() or start.waiters
        )

    def configure(self, entry: Entry) -> None:
        """Take over what the entry says now; there may be more room than before."""
        self.entry = entry
        self.gate.reconsider()
        self.room.fill()

    def _send(self, leg: UpstreamRequest) -> None:
        wire_id = self.inflight.open(leg)
        params = leg.params
        entry = leg.entry
        if self.is_modern or leg.is_modern:
            client = leg.client_info or (self.ours if leg.owner == OURS else self.callers)
            params = translation.params_for_server(params, client, self.era)
        elif leg.unanswered_params is not None:
            params = leg.unanswered_params  # a legacy process has come, and has asked nothing
        is_timed = entry is not None and (leg.timeout > 0 or entry.call_timeout > 0)
        if leg.token is not None or is_timed or leg.wants_progress:
            params = progress.with_token(params, wire_id)
        line = envelope.request(wire_id, leg.method.quoted, params)
        if len(line) - 1 > self._ctx.settings.max_request_bytes:
            self.inflight.close(wire_id)
            most = self._ctx.settings.max_request_bytes
            self.end(leg, failed(too_large(self.entry.name, most)))
            return
        leg.is_written = True
        leg.sent_at = self._ctx.now
        if is_timed and entry is not None:
            timeout = leg.timeout or entry.call_timeout
            self.timeouts.start(leg, timeout, entry.call_timeout_max)
        routing = self._routing(leg) if self.entry.is_remote else None
        self._ctx.commands.append(ToServer(self.slot, line, wire_id, routing=routing))

    def _routing(self, leg: UpstreamRequest) -> Routing:
        """Return what headers repeat of a request."""
        method = leg.method.name
        if not (self.is_modern or leg.method.route is Route.DISCOVER):
            return Routing(method)
        name = _named(leg)
        tool = None if leg.tool is None else self.find_tool(leg.tool)
        if tool is None or leg.params is None or b"x-mcp-header" not in tool.raw:
            return Routing(method, NEWEST_MODERN, name)
        wanted, params = parameters(tool.input_schema()), envelope.params_of(leg.params)
        if not wanted or params is None:
            return Routing(method, NEWEST_MODERN, name)
        return Routing(method, NEWEST_MODERN, name, tuple(repeated(wanted, params.arguments)))

    def _time_out(self, leg: UpstreamRequest, limit: str, seconds: float) -> None:
        if leg.is_over:
            return
        name, meanwhile = self.name_for(leg), self.meanwhile(leg)
        failure = timed_out(leg.title(name), name, limit, seconds, meanwhile)
        reason = envelope.quote(f"{limit} of {seconds:g} s")
        self.end(leg, Outcome(End.TIMED_OUT, failure=failure, reason=reason))

    # -- answers ---------------------------------------------------------------------------------

    def take(self, wire_id: int) -> UpstreamRequest | None:
        """Take a request out that the process has answered; ``None`` where nobody waits for it."""
        leg = self.inflight.close(wire_id, self._ctx.now)
        if leg is not None and self.gate.calls_given_up.unread:
            self.gate.calls_given_up.answered(wire_id)
        return leg

    def meanwhile(self, leg: UpstreamRequest) -> str:
        """Return what the process wrote instead of an answer, as the end of an error."""
        if not leg.is_written:
            return ""
        return self.noise.meanwhile(leg.sent_at, leg.owner, self.inflight.sole_owner())

    def while_starting(self) -> str:
        """Return what a process that is not ready wrote instead of its answers."""
        if self.is_ready:
            return ""
        return self.noise.meanwhile(0.0, OURS, self.inflight.sole_owner())

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

    # -- the life of a process ------------------------------------------------------------------

    def begin(self) -> None:
        """Begin with a new process; ids count from 1."""
        self.inflight.reset()
        self.noise.clear()
        self.has_answered = False

    def open(self) -> None:
        """Send what waits: the process is ready."""
        self.is_ready = True
        self.start_wait.end()

    def fail(self, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """End a request that the process will not answer, or send it once more.

        ``may_repeat``: where that does no harm.
        """
        leg = self.take(wire_id)
        if leg is None:
            return
        if may_repeat and leg.owner and loss.may_repeat(leg, self.find_tool):
            leg.tries += 1
            leg.unsend()
            self.place(leg)
        else:
            self.end(leg, failed(failure))

    def lose(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it was asked, and keep what may go to the next one."""
        self.is_ready = False
        waiting, waiters = self.start_wait.take()
        flying, queued = self.inflight.all(), self.room.drain()
        if self.start_wait.is_held:  # these had a process, and were not sent
            self.start_wait.is_held = False
            queued, waiting = [*queued, *waiting], {}
        queued += self.gate.drain()
        self.gate.server_gone()
        self.inflight.reset()
        if is_planned and comes_back:  # a restart: what has not been sent goes to the new process
            self.start_wait.requests = dict.fromkeys([*queued, *waiting])
            self.start_wait.waiters = waiters
            waiting, queued, waiters = {}, [], {}
        lost = []
        for leg in [*flying, *queued]:
            if is_planned or not (
                comes_back and leg.owner and loss.may_repeat(leg, self.find_tool)
            ):
                lost.append(leg)
            elif not leg.is_over:
                leg.tries += 1
                leg.unsend()
                self.start_wait.requests[leg] = None
        for leg in lost:
            self.end(leg, loss.outcome_of(leg, failure, self.noise))
        for leg in waiting:
            self.end(leg, failed(failure))
        for waiter in waiters:
            waiter(failure)
        self.usage.mark_idle()


def _named(leg: UpstreamRequest) -> str | None:
    """Return what ``Mcp-Name`` repeats of a request."""
    member = NAMED.get(leg.method.name)
    if member is None or leg.tool is not None:
        return leg.tool
    found = None if leg.params is None else envelope.params_of(leg.params)
    return None if found is None else envelope.text(getattr(found, member))


def _is_error(leg: UpstreamRequest, result: Raw, frame: Frame) -> bool:
    """Tell whether the result of a tool says that it failed."""
    # a large result says it before its content or after: its middle is not searched
    if b'"isError"' not in frame[:_EDGE] and b'"isError"' not in frame[-_EDGE:]:
        return False
    members = envelope.object_of(result) if leg.method.route is Route.TOOL else None
    return members is not None and bytes(members.get("isError", Raw(b""))) == b"true"

"""One process's protocol side: handshake, lists, requests and answers, what it says unasked."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind, ListError, Listing
from mcpd.core.catalog.paging import Paging
from mcpd.core.facts import CatalogChanged, Failure, ServerNoise, ServerWarning
from mcpd.core.mcp import codes
from mcpd.core.mcp import legacy as era
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS, Method, Route
from mcpd.core.mux import progress
from mcpd.core.mux.commands import (
    Answered,
    Busy,
    Idle,
    KeepCatalog,
    Ready,
    StartRefused,
    ToServer,
    Want,
)
from mcpd.core.mux.effects import Effects, Timer
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.inflight import FairQueue, Inflight, Pending
from mcpd.core.mux.subscriptions import Subscriptions
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Oversized
from mcpd.ids import SlotId

OURS: Final = 0
"""The owner of requests that no session made."""

_HANDSHAKE: Final = Method("initialize", Route.INITIALIZE, quoted=era.HANDSHAKE_METHOD)
_LISTS: Final = {kind: CLIENT_REQUESTS[kind.method] for kind in Kind}
_CHANGES: Final = {
    "notifications/tools/list_changed": (Kind.TOOLS,),
    "notifications/prompts/list_changed": (Kind.PROMPTS,),
    "notifications/resources/list_changed": (Kind.RESOURCES, Kind.TEMPLATES),
}
_OWN_TIMEOUT: Final = 60.0  # seconds for a list, a level or a subscription of ours
_GATHER: Final = 0.02  # seconds in which a burst of list changes becomes one
_REFRESH_EVERY: Final = 1.0  # seconds: a server's list changes are acted on so often at most
_CONTENT_LENGTH: Final = b"content-length:"

Waiter = Callable[[Failure | None], None]
ListWaiter = Callable[[Listing | None, Failure | None], None]


class Audience(Protocol):
    """Those to whom a server speaks without being asked."""

    def heard_change(self, upstream: Upstream, kind: Kind, *, everybody: bool) -> None:
        """A list is another one now; ``everybody``: also for those who wait for it."""

    def heard_update(self, upstream: Upstream, uri: str, params: Raw) -> None:
        """A resource has changed."""

    def heard_log(self, upstream: Upstream, params: Raw) -> None:
        """The server logged something."""

    def heard_question(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """The server asks; ``ident`` is its own id."""

    def heard_withdrawal(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""


class Phase(Enum):
    """How far the process is."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"


class Upstream:
    """What outlives a process of one slot: its users, its lists, what waits for the next start."""

    def __init__(self, effects: Effects, slot: SlotId, entry: Entry, audience: Audience) -> None:
        self.slot = slot
        self.entry = entry
        self.introduction = entry.introduction
        self.catalog = entry.catalog
        self.phase = Phase.DOWN
        self.users: set[int] = set()
        """Sessions that keep this server alive."""
        self.calls = 0
        self.errors = 0
        self.noise = 0
        self.level: str | None = None
        """The log level that the process is, or will be, set to."""
        self.subscriptions = Subscriptions(self._move_subscription)
        self._fx = effects
        self._audience = audience
        self._inflight = Inflight()
        self._queue = FairQueue()
        self._waiting: list[Pending] = []
        self._on_ready: list[Waiter] = []
        self._reading: dict[Kind, list[ListWaiter]] = {}
        self._start_steps = 0  # answers that are owed before the process is ready
        self._before: dict[Kind, Listing] = {}
        self._has_answered = False
        self._is_busy = False
        self._refresh_at: dict[Kind, float] = {}
        self._refresh_timers: dict[Kind, Timer] = {}

    # -- requests -------------------------------------------------------------------------------

    def submit(self, pending: Pending) -> None:
        """Send a request as soon as the process is ready and has room for it."""
        pending.upstream = self
        self.mark_busy()
        if self.phase is not Phase.READY:
            self._waiting.append(pending)
            self._fx.emit(Want(self.slot))
            return
        limit = self.entry.max_concurrency
        if limit and pending.owner and len(self._inflight) >= limit:
            self._enqueue(pending)
            return
        self._send(pending)

    def cancel(self, pending: Pending, reason: str | None = None) -> None:
        """Give a request up: it will not be answered, and the process is told."""
        if pending.is_over:
            return
        pending.is_over = True
        pending.drop_timers()
        if pending.wire_id and self._inflight.close(pending.wire_id) is not None:
            if pending.method is not _HANDSHAKE:
                why = b',"reason":' + envelope.quote(reason) if reason else b""
                params = b'{"requestId":%d%b}' % (pending.wire_id, why)
                line = envelope.notification(b'"notifications/cancelled"', params)
                self._fx.emit(ToServer(self.slot, line))
            self._next_from_queue()
        elif not self._queue.remove(pending) and pending in self._waiting:
            self._waiting.remove(pending)
        self.mark_idle()

    def when_ready(self, waiter: Waiter) -> None:
        """Call back once the process is ready, or with why it is not going to be."""
        if self.phase is Phase.READY:
            waiter(None)
            return
        self._on_ready.append(waiter)
        self.mark_busy()
        self._fx.emit(Want(self.slot))

    def in_flight(self) -> list[Pending]:
        """Return the requests that are owed an answer by the process or wait for it."""
        return [*self._inflight.all(), *self._waiting]

    def load(self) -> int:
        """Return how many requests of others are in flight, waiting or queued."""
        flying = sum(1 for pending in self._inflight.all() if pending.owner)
        return flying + len(self._waiting) + len(self._queue)

    def queued(self) -> int:
        """Return how many requests wait for their place."""
        return len(self._queue)

    def owners_in_flight(self) -> set[int]:
        """Return whose requests the process is working on."""
        return self._inflight.owners()

    def notify(self, method: bytes, params: Raw | bytes | None = None) -> None:
        """Send a notification, if there is a process to read it."""
        if self.phase is not Phase.DOWN:
            self._fx.emit(ToServer(self.slot, envelope.notification(method, params)))

    def answer(
        self, ident: bytes, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None:
        """Answer a question of the server's."""
        if self.phase is not Phase.DOWN:
            line = envelope.error(ident, error) if error is not None else None
            line = line or envelope.result(ident, result if result is not None else b"{}")
            self._fx.emit(ToServer(self.slot, line))

    def mark_busy(self) -> None:
        """Somebody uses the server."""
        if not self._is_busy:
            self._is_busy = True
            self._fx.emit(Busy(self.slot))

    def mark_idle(self) -> None:
        """Say so when nobody uses the server any more."""
        if self._is_busy and not (
            self.users or len(self._inflight) or self._waiting or len(self._queue) or self._on_ready
        ):
            self._is_busy = False
            self._fx.emit(Idle(self.slot))

    def _enqueue(self, pending: Pending) -> None:
        self._queue.push(pending)

        def give_up() -> None:
            if self._queue.remove(pending):
                wait = self.entry.queue_timeout
                self._fail(
                    pending,
                    Failure(
                        kind="server_busy",
                        message=f"{self.entry.name} had no place for this call within {wait:g} s",
                        server=self.entry.name,
                        is_retryable=True,
                        hint=f"max_concurrency of {self.entry.name} is "
                        f"{self.entry.max_concurrency}",
                    ),
                )

        if self.entry.queue_timeout > 0:
            pending.queue_timer = self._fx.after(self.entry.queue_timeout, give_up)

    def _next_from_queue(self) -> None:
        limit = self.entry.max_concurrency
        while self._queue and len(self._inflight) < limit and self.phase is Phase.READY:
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
        is_timed = entry is not None and (pending.timeout > 0 or entry.call_timeout > 0)
        if pending.token is not None or is_timed or pending.on_progress is not None:
            params = progress.with_token(params, wire_id)
        line = envelope.request(wire_id, pending.method.quoted, params)
        if len(line) - 1 > self._fx.settings.max_request_bytes:
            self._inflight.close(wire_id)
            self._fail(pending, too_large(self.entry.name, self._fx.settings.max_request_bytes))
            return
        pending.is_written = True
        if is_timed and entry is not None:
            self._arm(pending, pending.timeout or entry.call_timeout, entry.call_timeout_max)
        self._fx.commands.append(ToServer(self.slot, line, wire_id))

    def _arm(self, pending: Pending, timeout: float, most: float) -> None:
        pending.timeout = timeout
        pending.at = self._fx.now
        self._restart_timer(pending)
        if most > 0 and pending.hard_timer is None:
            pending.hard_timer = self._fx.after(
                most, lambda: self._time_out(pending, "call_timeout_max", most)
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
        self.cancel(pending, f"{limit} of {seconds:g} s")
        what = "no answer and no progress" if limit == "call_timeout" else "no answer"
        pending.done(
            pending,
            None,
            None,
            Failure(
                kind="call_timeout",
                message=f"{self.entry.name}: {what} within {seconds:g} s ({limit})",
                server=self.entry.name,
                is_retryable=False,
                hint=f"{limit} in the entry of {self.entry.name} sets another limit",
                details={"limit": limit, "seconds": seconds, "outcome_unknown": True},
            ),
        )

    def refuse_write(self, wire_id: int) -> None:
        """What is kept for the process has reached its bound: this request was not written."""
        pending = self._inflight.close(wire_id)
        if pending is not None:
            self._fail(
                pending,
                Failure(
                    kind="server_busy",
                    message=f"{self.entry.name} does not read its input",
                    server=self.entry.name,
                    is_retryable=True,
                    hint=f"mcpctl restart {self.entry.name}",
                ),
            )

    def _fail(self, pending: Pending, failure: Failure) -> None:
        if pending.is_over:
            return
        pending.is_over = True
        pending.drop_timers()
        if pending.method.route is Route.TOOL:
            self.errors += 1
        pending.done(pending, None, None, failure)
        self.mark_idle()

    # -- the life of a process ------------------------------------------------------------------

    def up(self) -> None:
        """A new process is there: introduce ourselves."""
        self.phase = Phase.STARTING
        self._inflight = Inflight()
        self._has_answered = False
        settings = self._fx.settings
        params = era.handshake_params(
            "mcpd", settings.version, declares_roots=bool(self.entry.roots)
        )
        self._request(_HANDSHAKE, params, self._introduced)

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it owed, and keep what may go to the next one."""
        self.phase = Phase.DOWN
        self._start_steps = 0
        for timer in self._refresh_timers.values():
            timer.cancel()
        self._refresh_timers.clear()
        waiting, self._waiting = self._waiting, []
        flying, queued = self._inflight.all(), self._queue.drain()
        self._inflight = Inflight()
        readers, self._reading = self._reading, {}
        waiters, self._on_ready = self._on_ready, []
        self.subscriptions.down()
        if is_planned and comes_back:  # a restart: what has not been sent goes to the new process
            self._waiting, self._on_ready = [*queued, *waiting], waiters
            waiting, queued, waiters = [], [], []
        for pending in [*flying, *queued]:
            if pending.is_over:
                continue
            if comes_back and not is_planned and self._may_repeat(pending):
                pending.tries += 1
                pending.is_written = False
                pending.drop_timers()
                self._waiting.append(pending)
            elif pending.is_written:
                self._fail(pending, with_details(failure, outcome_unknown=True))
            else:
                self._fail(pending, failure)
        for pending in waiting:
            self._fail(pending, failure)
        for listed in readers.values():
            for reader in listed:
                reader(None, failure)
        for waiter in waiters:
            waiter(failure)
        if not comes_back:
            self.subscriptions.fail(failure)
        self.mark_idle()

    def _may_repeat(self, pending: Pending) -> bool:
        if pending.owner == OURS or pending.tries:
            return False
        if not pending.is_written:
            return True
        if pending.entry is None or not pending.entry.may_repeat:
            return False
        if pending.tool is not None:
            tool = self.catalog.tool(pending.tool)
            return tool is not None and (tool.read_only or tool.idempotent)
        return pending.method.may_repeat

    def _request(
        self,
        method: Method,
        params: bytes | None,
        then: Callable[[Raw | bytes | None, Raw | bytes | None], None],
    ) -> None:
        """Send a request of our own, past every queue; ``then`` gets its result or error."""

        def done(
            _: Pending,
            result: Raw | bytes | None,
            error: Raw | bytes | None,
            failure: Failure | None,
        ) -> None:
            if failure is None:
                then(result, error)
            elif failure.kind == "call_timeout":  # when the process ends, down() clears up
                then(None, codes.error_object(failure))

        pending = Pending(OURS, method, params, done)
        pending.upstream = self
        self._send(pending)
        if self.phase is Phase.READY:  # before, the start-up time counts
            self._arm(pending, _OWN_TIMEOUT, 0)

    def _introduced(self, result: Raw | bytes | None, error: Raw | bytes | None) -> None:
        name = self.entry.name
        if result is None:
            said = bytes(error or b"null").decode("utf-8", "replace")[:500]
            self._refuse_start(f"{name} answered the handshake with an error: {said}")
            return
        try:
            self.introduction = era.read_handshake(result, name)
        except era.HandshakeRefused as refusal:
            self._refuse_start(f"{name}: {refusal}")
            return
        self.notify(b'"notifications/initialized"')
        self._before = dict(self.catalog.lists)
        self._start_steps = 1
        if self.level is not None and self.introduction.has("logging"):
            self._start_steps += 1
            self._request(
                CLIENT_REQUESTS["logging/setLevel"],
                era.level_params(self.level),
                lambda result, error: self._started_step(),
            )
        for kind in Kind:
            if kind is Kind.TOOLS or kind in self._before:
                self._start_steps += 1
                self.read(kind, lambda listing, failure: self._started_step())
        self.subscriptions.renew()
        self._started_step()

    def _refuse_start(self, message: str) -> None:
        hint = f"see `mcpctl logs {self.entry.name}`"
        failure = Failure("handshake_failed", message, self.entry.name, True, hint)
        self._fx.emit(StartRefused(self.slot, failure))

    def _started_step(self) -> None:
        if self.phase is not Phase.STARTING:
            return
        self._start_steps -= 1
        if self._start_steps:
            return
        self.phase = Phase.READY
        self._fx.emit(Ready(self.slot))
        self._keep()
        waiting, self._waiting = self._waiting, []
        waiters, self._on_ready = self._on_ready, []
        for pending in waiting:
            if not pending.is_over:
                self.submit(pending)
        for waiter in waiters:
            waiter(None)
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                self._audience.heard_change(self, kind, everybody=kind in self._before)
        self._before = {}
        self.mark_idle()

    # -- lists ----------------------------------------------------------------------------------

    def listing(self, kind: Kind, waiter: ListWaiter) -> None:
        """Give a list: what is known at once, else what a running process says."""
        known = self.catalog.get(kind)
        if known is not None:
            waiter(known, None)
            return

        def ready(failure: Failure | None) -> None:
            known = self.catalog.get(kind)
            if known is not None or failure is not None:
                waiter(known, failure)
            else:
                self.read(kind, waiter)

        self.when_ready(ready)

    def read(self, kind: Kind, waiter: ListWaiter) -> None:
        """Read a list anew, page by page; one reading at a time serves all who wait."""
        if kind in self._reading:
            self._reading[kind].append(waiter)
            return
        if self.introduction is None or not self.introduction.has(kind.capability):
            self._take_listing(kind, Listing.empty(kind))
            waiter(self.catalog.get(kind), None)
            return
        self._reading[kind] = [waiter]
        self._ask_page(kind, Paging(kind), None)

    def _ask_page(self, kind: Kind, paging: Paging, cursor: str | None) -> None:
        params = b"{}" if cursor is None else b'{"cursor":%b}' % envelope.quote(cursor)

        def take(result: Raw | bytes | None, error: Raw | bytes | None) -> None:
            if result is None:
                self._list_failed(kind, error)
                return
            try:
                following = paging.take(result)
            except ListError as problem:
                self._warn(f"{problem.message}; the previous list stays")
                self._end_reading(kind)
                return
            if following is not None:
                self._ask_page(kind, paging, following)
                return
            for note in paging.notes:
                self._warn(note)
            self._take_listing(kind, paging.listing())
            self._end_reading(kind)

        self._request(_LISTS[kind], params, take)

    def _list_failed(self, kind: Kind, error: Raw | bytes | None) -> None:
        members = envelope.object_of(error or b"{}") or {}
        if bytes(members.get("code", Raw(b""))) == b"%d" % codes.METHOD_NOT_FOUND:
            self._take_listing(kind, Listing.empty(kind))  # declared and missing: empty, not broken
        else:
            said = bytes(error or b"null").decode("utf-8", "replace")[:300]
            self._warn(f"{kind.method} failed, the previous list stays: {said}")
        self._end_reading(kind)

    def _end_reading(self, kind: Kind) -> None:
        if self.catalog.get(kind) is None:
            self.catalog = self.catalog.replaced(kind, Listing.empty(kind))
        for waiter in self._reading.pop(kind, []):
            waiter(self.catalog.get(kind), None)

    def _take_listing(self, kind: Kind, listing: Listing) -> None:
        if self.catalog.get(kind) == listing:
            return
        self.catalog = self.catalog.replaced(kind, listing)
        self._fx.tell(CatalogChanged(self.entry.name, kind.value, len(listing)))
        if self.phase is Phase.READY:
            self._keep()

    def _keep(self) -> None:
        if self.introduction is not None:
            self._fx.emit(
                KeepCatalog(self.entry.name, self.entry.launch, self.introduction, self.catalog)
            )

    def _list_changed(self, kinds: tuple[Kind, ...]) -> None:
        for kind in kinds:
            if kind in self._refresh_timers:
                continue
            due = max(self._fx.now + _GATHER, self._refresh_at.get(kind, 0.0) + _REFRESH_EVERY)

            def refresh(kind: Kind = kind) -> None:
                self._refresh_timers.pop(kind, None)
                self._refresh_at[kind] = self._fx.now
                if self.phase is not Phase.READY:
                    return
                if self.catalog.get(kind) is None:
                    self._audience.heard_change(self, kind, everybody=True)
                else:
                    self.read(
                        kind,
                        lambda listing, failure: self._audience.heard_change(
                            self, kind, everybody=True
                        ),
                    )

            self._refresh_timers[kind] = self._fx.after(due - self._fx.now, refresh)

    # -- log level and subscriptions ------------------------------------------------------------

    def set_level(
        self, level: str, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set the most verbose level that anybody wants; ``then`` gets the server's refusal."""
        changed = level != self.level
        self.level = level
        if changed and self.phase is Phase.READY:
            self._request(
                CLIENT_REQUESTS["logging/setLevel"],
                era.level_params(level),
                lambda result, error: then(error) if then is not None else None,
            )
        elif then is not None:
            then(None)

    def _move_subscription(self, uri: str, wanted: bool) -> None:
        method = "resources/subscribe" if wanted else "resources/unsubscribe"
        if self.phase is Phase.STARTING:
            self._start_steps += 1

        def moved(result: Raw | bytes | None, error: Raw | bytes | None) -> None:
            self.subscriptions.moved(uri, wanted, error)
            self._started_step()

        params = b'{"uri":%b}' % envelope.quote(uri)
        self._request(CLIENT_REQUESTS[method], params, moved)

    @property
    def is_ready(self) -> bool:
        """Whether requests are sent at once."""
        return self.phase is Phase.READY

    # -- what the process says ------------------------------------------------------------------

    def hear(self, frame: bytes | Oversized) -> None:
        """React to one line of the process. Whatever it is, nobody's session ends of it."""
        if isinstance(frame, Oversized):
            self._hear_oversized(frame)
            return
        try:
            message = envelope.decode(frame)
        except envelope.Malformed as problem:
            self._hear_malformed(frame, problem)
            return
        if message.method is UNSET:
            self._hear_answer(message, frame)
        elif message.id is UNSET:
            self._hear_notification(str(message.method), message.params)
        else:
            params = message.params if message.params is not UNSET else Raw(b"{}")
            ident = bytes(message.id)
            self._audience.heard_question(self, ident, str(message.method), params)

    def _hear_answer(self, message: envelope.Message, frame: bytes) -> None:
        wire_id = _wire_id(message.id)
        pending = None if wire_id is None else self._inflight.close(wire_id)
        if pending is None:
            if wire_id is None or not self._inflight.was_used(wire_id):
                self._hear_noise(frame, "no answer that anybody waits for")
            return
        if message.result is not UNSET and message.error is UNSET:
            self._finish(pending, message.result, None, frame)
        elif message.error is not UNSET and message.result is UNSET:
            self._finish(pending, None, message.error, frame)
        else:
            both = "both a result and an error" if message.result is not UNSET else "neither"
            self._fail(pending, invalid_answer(self.entry.name, f"its answer has {both}"))
            self._next_from_queue()

    def _finish(
        self, pending: Pending, result: Raw | None, error: Raw | None, frame: bytes
    ) -> None:
        pending.is_over = True
        if pending.timer is not None or pending.hard_timer is not None:
            pending.drop_timers()
        if pending.owner:
            if not self._has_answered:
                self._has_answered = True
                self._fx.emit(Answered(self.slot))
            if pending.method.route is Route.TOOL:
                self.calls += 1
                if error is not None or (b'"isError"' in frame and _is_error(result)):
                    self.errors += 1
        pending.done(pending, result, error, None)
        if self._queue:
            self._next_from_queue()
        if not self.users:
            self.mark_idle()

    def _hear_oversized(self, frame: Oversized) -> None:
        ident = envelope.find_id(frame.head, frame.tail)
        wire_id = None if ident is None else _wire_id(Raw(ident))
        pending = None if wire_id is None else self._inflight.close(wire_id)
        if pending is None:
            self._warn(f"a line of {frame.size_bytes} bytes was over max_message_bytes; skipped")
            return
        self._fail(pending, too_large(self.entry.name, frame.size_bytes, is_answer=True))
        self._next_from_queue()

    def _hear_malformed(self, frame: bytes, problem: envelope.Malformed) -> None:
        ident = envelope.find_id(frame[:4096], frame[-4096:]) if frame[:1] == b"{" else None
        wire_id = None if ident is None else _wire_id(Raw(ident))
        pending = None if wire_id is None else self._inflight.close(wire_id)
        if pending is not None:
            self._fail(pending, invalid_answer(self.entry.name, f"its answer is {problem.reason}"))
            self._next_from_queue()
            return
        reason = "not JSON-RPC"
        if frame[:15].lower() == _CONTENT_LENGTH:
            reason = "Content-Length framing (LSP): MCP over stdio is one JSON message per line"
        self._hear_noise(frame, reason)

    def _hear_noise(self, frame: bytes, reason: str) -> None:
        self.noise += 1
        line = frame[:2000].decode("utf-8", "replace")
        self._fx.tell(ServerNoise(self.entry.name, reason, line, self.noise == 1))

    def _hear_notification(self, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._hear_progress(params)
        elif (kinds := _CHANGES.get(method)) is not None:
            self._list_changed(kinds)
        elif params is UNSET:
            return
        elif method == "notifications/message":
            self._audience.heard_log(self, params)
        elif method == "notifications/resources/updated":
            found = envelope.params_of(params)
            uri = envelope.text(found.uri) if found is not None else None
            if uri is not None:
                self._audience.heard_update(self, uri, params)
        elif method == "notifications/cancelled":
            found = envelope.params_of(params)
            if found is not None and found.request_id is not UNSET:
                self._audience.heard_withdrawal(self, bytes(found.request_id))

    def _hear_progress(self, params: Raw) -> None:
        found = envelope.params_of(params)
        if found is None or found.progress_token is UNSET:
            return
        wire_id = progress.token_of(found.progress_token)
        pending = None if wire_id is None else self._inflight.get(wire_id)
        if pending is None:
            return  # finished or never given: real clients close the connection on one
        if pending.timer is not None:
            self._restart_timer(pending)
        if pending.on_progress is not None:
            pending.on_progress(params)

    def _warn(self, text: str) -> None:
        self._fx.tell(ServerWarning(self.entry.name, text))


def _wire_id(raw: envelope.Bytes) -> int | None:
    if raw is UNSET:
        return None
    digits = bytes(raw).strip(b'"')  # some servers make strings of ids
    return int(digits) if digits.isdigit() and len(digits) < 20 else None


def _is_error(result: Raw | None) -> bool:
    members = envelope.object_of(result) if result is not None else None
    return members is not None and bytes(members.get("isError", Raw(b""))) == b"true"


def too_large(server: str, size_bytes: int, *, is_answer: bool = False) -> Failure:
    """Say that a message is over its limit; ``size_bytes`` is the answer's size, or the limit."""
    if is_answer:
        message = f"the answer of {server} has {size_bytes} bytes, more than max_message_bytes"
        hint = "max_message_bytes in the table `daemon` sets another limit"
    else:
        message = f"the request is larger than {size_bytes} bytes (max_request_bytes)"
        hint = "many servers end at larger lines; max_request_bytes sets another limit"
    details = {"direction": "answer" if is_answer else "request"}
    return Failure("message_too_large", message, server, False, hint, details)


def invalid_answer(server: str, what: str) -> Failure:
    """Say that a server's answer cannot be passed on."""
    return Failure(
        "invalid_message", f"{server}: {what}", server, False, None, {"outcome_unknown": True}
    )


def with_details(failure: Failure, **details: object) -> Failure:
    """Return a failure with more to act on."""
    return Failure(
        failure.kind,
        failure.message,
        failure.server,
        failure.is_retryable,
        failure.hint,
        {**failure.details, **details},
    )


def most_verbose(levels: list[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)

"""One server's protocol side: its handshake, what it is asked, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.facts import Failure, ServerNoise, ServerWarning
from mcpd.core.mcp import legacy as era
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS, Method, Route
from mcpd.core.mux import progress
from mcpd.core.mux.commands import KeepCatalog, Ready, StartRefused, ToServer
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import invalid_answer, too_large
from mcpd.core.mux.lists import Lists
from mcpd.core.mux.requests import Requests
from mcpd.core.mux.subscriptions import Subscriptions
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SlotId

_HANDSHAKE: Final = Method("initialize", Route.INITIALIZE, quoted=era.HANDSHAKE_METHOD)
_CHANGES: Final = {
    "notifications/tools/list_changed": (Kind.TOOLS,),
    "notifications/prompts/list_changed": (Kind.PROMPTS,),
    "notifications/resources/list_changed": (Kind.RESOURCES, Kind.TEMPLATES),
}
_CONTENT_LENGTH: Final = b"content-length:"


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

    def heard_end(self, upstream: Upstream) -> None:
        """The process is gone, with whatever it wanted to know."""


class Phase(Enum):
    """How far the process is."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"


class Upstream:
    """What outlives a process of one slot: its users, its lists, what waits for the next start."""

    def __init__(self, effects: Effects, slot: SlotId, entry: Entry, audience: Audience) -> None:
        self.slot = slot
        self.introduction = entry.introduction
        self.phase = Phase.DOWN
        self.noise = 0
        self.level: str | None = None
        """The log level that the process is, or will be, set to."""
        self._level_sent: str | None = None
        self.requests = Requests(effects, slot, entry)
        self.lists = Lists(effects, self.requests, entry.catalog, self)
        self.subscriptions = Subscriptions(self._move_subscription)
        self._fx = effects
        self._audience = audience
        self._start_steps = 0  # answers that are owed before the process is ready
        self._before: dict[Kind, Listing] = {}

    @property
    def entry(self) -> Entry:
        """The entry, or the first of those, whose process this is."""
        return self.requests.entry

    @property
    def catalog(self) -> Catalog:
        """What the server last listed."""
        return self.lists.catalog

    @property
    def is_ready(self) -> bool:
        """Whether requests are sent at once."""
        return self.requests.is_ready

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""
        return self.introduction is not None and self.introduction.has(capability)

    def recall(self, introduction: era.Introduction | None, catalog: Catalog) -> None:
        """Take over what an earlier process of the same launch said."""
        self.introduction = introduction
        self.lists.catalog = catalog

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

    # -- the life of a process ------------------------------------------------------------------

    def up(self) -> None:
        """A new process is there: introduce ourselves."""
        self.phase = Phase.STARTING
        self.requests.begin()
        version = self._fx.settings.version
        roots = bool(self.entry.roots)
        params = era.handshake_params("mcpd", version, declares_roots=roots)
        self.requests.ask(_HANDSHAKE, params, self._introduced)

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it owed, and keep what may go to the next one."""
        self._audience.heard_end(self)
        self.phase = Phase.DOWN
        self._start_steps = 0
        self.subscriptions.down()
        self.requests.lose(
            failure,
            is_planned=is_planned,
            comes_back=comes_back,
            tool=self.catalog.tool,
        )
        self.lists.lose(failure, comes_back=comes_back)
        if not comes_back:
            self.subscriptions.fail(failure)

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
        self._level_sent = None
        if self.level is not None and self.introduction.has("logging"):
            self._start_steps += 1
            self._send_level(self.level, lambda error: self._started_step())
        for kind in Kind:
            if kind is Kind.TOOLS or kind in self._before:
                self._start_steps += 1
                self.lists.read(kind, lambda listing, failure: self._started_step())
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
        self.keep_lists()
        if self.level is not None and self.level != self._level_sent and self.has("logging"):
            self._send_level(self.level, None)  # they were told to change meanwhile
        self.subscriptions.renew()
        self.requests.open()
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                self._audience.heard_change(self, kind, everybody=kind in self._before)
        self._before = {}
        self.requests.mark_idle()

    def keep_lists(self) -> None:
        """Have what the server said put on disk."""
        if self.introduction is not None:
            self._fx.emit(
                KeepCatalog(self.entry.name, self.entry.launch, self.introduction, self.catalog)
            )

    def lists_changed(self, kind: Kind) -> None:
        """The server said that a list changed, and it has been read anew."""
        self._audience.heard_change(self, kind, everybody=True)

    # -- log level and subscriptions ------------------------------------------------------------

    def set_level(
        self, level: str, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set the most verbose level that anybody wants; ``then`` gets the server's refusal."""
        before, self.level = self.level, level
        if before != level and self.phase is Phase.READY:

            def answered(error: Raw | bytes | None) -> None:
                if error is not None and self.level == level:
                    self.level = self._level_sent = before
                if then is not None:
                    then(error)

            self._send_level(level, answered)
        elif then is not None:
            then(None)

    def _send_level(self, level: str, then: Callable[[Raw | bytes | None], None] | None) -> None:
        def answered(error: Raw | bytes | None) -> None:
            if then is not None:
                then(error)

        self._level_sent = level
        self.requests.ask(
            CLIENT_REQUESTS["logging/setLevel"],
            era.level_params(level),
            lambda result, error: answered(error),
            lost=lambda: answered(None),  # the next process will be told
        )

    def _move_subscription(self, uri: str, wanted: bool) -> None:
        method = "resources/subscribe" if wanted else "resources/unsubscribe"
        if self.phase is Phase.STARTING:
            self._start_steps += 1

        def moved(result: Raw | bytes | None, error: Raw | bytes | None) -> None:
            self.subscriptions.moved(uri, wanted, error)
            self._started_step()

        params = b'{"uri":%b}' % envelope.quote(uri)
        self.requests.ask(CLIENT_REQUESTS[method], params, moved)

    # -- what the process says ------------------------------------------------------------------

    def hear(self, frame: Frame | Oversized) -> None:
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

    def _hear_answer(self, message: envelope.Message, frame: Frame) -> None:
        wire_id = _wire_id(message.id)
        pending = None if wire_id is None else self.requests.take(wire_id)
        if pending is None:
            if wire_id is None or not self.requests.was_used(wire_id):
                self._hear_noise(frame, "no answer that anybody waits for")
            return
        result, error = message.result, message.error
        if result is not UNSET and error is not UNSET:  # some libraries write one as null
            if bytes(error) == b"null":
                error = UNSET
            elif bytes(result) == b"null":
                result = UNSET
        if result is not UNSET and error is UNSET:
            self.requests.finish(pending, result, None, frame)
        elif error is not UNSET and result is UNSET:
            self.requests.finish(pending, None, error, frame)
        else:
            both = "both a result and an error"
            if result is UNSET:
                both = "neither a result nor an error"
            self.requests.spoil(pending, invalid_answer(self.entry.name, f"its answer has {both}"))

    def _hear_oversized(self, frame: Oversized) -> None:
        ident = envelope.find_id(frame.head, frame.tail, of_answer=True)
        wire_id = None if ident is None else _wire_id(Raw(ident))
        pending = None if wire_id is None else self.requests.take(wire_id)
        if pending is None:
            self.warn(f"a line of {frame.size_bytes} bytes was over max_message_bytes; skipped")
            return
        self.requests.spoil(pending, too_large(self.entry.name, frame.size_bytes, is_answer=True))

    def _hear_malformed(self, frame: Frame, problem: envelope.Malformed) -> None:
        batch = envelope.batch_of(frame) if problem.is_json else None
        if batch and all(element.startswith(b"{") for element in batch):
            for element in batch:  # 2025-03-26 allows it
                self.hear(element)
            return
        ident = envelope.find_id(bytes(frame[:4096]), bytes(frame[-4096:]), of_answer=True)
        wire_id = None if ident is None else _wire_id(Raw(ident))
        pending = None if wire_id is None else self.requests.take(wire_id)
        if pending is not None:
            why = f"its answer cannot be read: {problem.reason}"
            self.requests.spoil(pending, invalid_answer(self.entry.name, why))
            return
        reason = "not JSON-RPC"
        if frame[:15].lower() == _CONTENT_LENGTH:
            reason = "Content-Length framing (LSP): MCP over stdio is one JSON message per line"
        self._hear_noise(frame, reason)

    def _hear_noise(self, frame: Frame, reason: str) -> None:
        self.noise += 1
        line = frame[:2000].decode("utf-8", "replace")
        self._fx.tell(ServerNoise(self.entry.name, reason, line, self.noise == 1))

    def _hear_notification(self, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._hear_progress(params)
        elif (kinds := _CHANGES.get(method)) is not None:
            self.lists.changed(kinds)
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
        pending = None if wire_id is None else self.requests.get(wire_id)
        if pending is None:
            return  # finished or never given: real clients close the connection on one
        self.requests.restart_timer(pending)
        if pending.on_progress is not None:
            pending.on_progress(params)

    def warn(self, text: str) -> None:
        """Say that the server did something odd."""
        self._fx.tell(ServerWarning(self.entry.name, text))


def _wire_id(raw: envelope.Bytes) -> int | None:
    if raw is UNSET:
        return None
    digits = bytes(raw)
    if not digits.isdigit():
        digits = digits.strip(b'"')  # some servers make strings of ids
    return int(digits) if digits.isdigit() and len(digits) < 20 else None


def most_verbose(levels: list[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)

"""One server's protocol side: its handshake, what it is asked, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.facts import Failure, ServerNoise, ServerWarning
from mcpd.core.mcp import codes, legacy, modern
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS
from mcpd.core.mcp.versions import MODERN, Era
from mcpd.core.mux import ourselves, progress
from mcpd.core.mux.commands import KeepCatalog, Ready, ToServer
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import invalid_answer, too_large
from mcpd.core.mux.feeds import Feeds
from mcpd.core.mux.handshake import Handshake
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.lists import Lists
from mcpd.core.mux.requests import Interpreted, Requests
from mcpd.core.mux.subscriptions import Subscriptions
from mcpd.core.mux.turns import Turns
from mcpd.core.mux.wire_ids import wire_id_of
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SlotId

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

    def heard_completion(self, upstream: Upstream, params: Raw) -> None:
        """What somebody was to do elsewhere is done."""

    def heard_withdrawal(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""

    def heard_answer(
        self, upstream: Upstream, pending: Pending, result: Raw | None, error: Raw | None
    ) -> Interpreted | None:
        """Say what an answer means to its client; ``None`` when that is asked something first."""

    def heard_end(self, upstream: Upstream) -> None:
        """The process is gone, with whatever it wanted to know."""


class Known(NamedTuple):
    """What is known of a launch, whether a process of it runs or not.

    ``verdict`` is the era of the last handshake that succeeded.
    """

    introduction: Introduction | None
    catalog: Catalog
    verdict: Era | None = None
    has_asked: bool = False


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
        self.has_asked = entry.has_asked
        """Whether a call was seen to cause a question, in this life or an earlier one."""
        self._level_sent: str | None = None
        self.requests = requests = Requests(effects, slot, entry)
        version = effects.settings.version
        requests.ours = ourselves.listing_asker(entry, version)
        requests.callers = ourselves.calling_asker(version)
        requests.interpret = lambda p, r, e: audience.heard_answer(self, p, r, e)
        self.turns = requests.gate = Turns(effects, requests)
        self.lists = Lists(effects, requests, entry.catalog, self)
        self.subscriptions = Subscriptions(self._move_subscription)
        self._handshake = Handshake(effects, requests, self._take_introduction)
        self._feeds = Feeds(effects, requests, self)
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

    @property
    def is_modern(self) -> bool:
        """Whether the process that runs speaks a revision without a handshake."""
        return self.requests.era is Era.MODERN

    def hints(self, kind: Kind) -> tuple[int, str]:
        """Return ``ttlMs``, less the age of our copy, and ``cacheScope`` of a list."""
        return self.lists.hints(kind, self._fx.now)

    def known(self) -> Known:
        """Return what the next process of the same launch may take over."""
        return Known(self.introduction, self.catalog, self._handshake.verdict, self.has_asked)

    def recall(self, known: Known) -> None:
        """Take over what an earlier process of the same launch said."""
        self.introduction = known.introduction
        self.lists.catalog = known.catalog
        self._handshake.verdict = known.verdict
        self.has_asked = self.turns.has_asked = known.has_asked

    def mark_asked(self) -> None:
        """A call has caused a question: that is remembered, as long as the launch is the same."""
        if not self.has_asked:
            self.has_asked = True
            self.keep_lists()

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
        self._handshake.up()

    def probe_read(self) -> None:
        """The process has read what it was asked, or has written something."""
        self._handshake.probe_read()

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it owed, and keep what may go to the next one."""
        self._handshake.down(failure, is_planned=is_planned, comes_back=comes_back)
        self._audience.heard_end(self)
        self.phase = Phase.DOWN
        self._start_steps = 0
        self._feeds.down()
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

    def _take_introduction(self, introduction: Introduction) -> None:
        self.introduction = introduction
        self.requests.era = introduction.era
        self._before = dict(self.catalog.lists)
        self._start_steps = 1
        self._level_sent = None
        if self.is_modern:
            self._follow_lists(introduction)  # before they are read, so that no change is lost
        else:
            self.notify(b'"notifications/initialized"')
            if self.level is not None and introduction.has("logging"):
                self._start_steps += 1
                self._send_level(self.level, lambda error: self._started_step())
        for kind in Kind:
            if kind is Kind.TOOLS or kind in self._before:
                self._start_steps += 1
                self.lists.read(kind, lambda listing, failure: self._started_step())
        self.subscriptions.renew()
        self._started_step()

    def _started_step(self) -> None:
        if self.phase is not Phase.STARTING:
            return
        self._start_steps -= 1
        if self._start_steps:
            return
        self.phase = Phase.READY
        version = "" if self.introduction is None else self.introduction.version
        self._fx.emit(Ready(self.slot, version))
        self.keep_lists()
        if self.level is not None and self.level != self._level_sent and self._takes_levels:
            self._send_level(self.level, None)  # they were told to change meanwhile
        self.subscriptions.renew()
        self.requests.open()
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                self._audience.heard_change(self, kind, everybody=kind in self._before)
        self._before = {}
        self.lists.opened()
        self.requests.mark_idle()

    def keep_lists(self) -> None:
        """Have what the server said put on disk."""
        if self.introduction is not None:
            said, entry = self.introduction, self.entry
            self._fx.emit(KeepCatalog(entry.name, entry.launch, said, self.catalog, self.has_asked))

    def lists_changed(self, kind: Kind) -> None:
        """The server said that a list changed, and it has been read anew."""
        self._audience.heard_change(self, kind, everybody=True)

    # -- log level and subscriptions ------------------------------------------------------------

    @property
    def _takes_levels(self) -> bool:
        return not self.is_modern and self.has("logging")

    def set_level(
        self, level: str, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set the most verbose level that anybody wants; ``then`` gets the server's refusal."""
        before, self.level = self.level, level
        if before != level and self.phase is Phase.READY and not self.is_modern:

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
            legacy.level_params(level),
            lambda result, error: answered(error),
            lost=lambda: answered(None),  # the next process will be told
        )

    def _move_subscription(self, uri: str, wanted: bool) -> None:
        if self.phase is Phase.STARTING:
            self._start_steps += 1

        def moved(error: Raw | bytes | None) -> None:
            self.subscriptions.moved(uri, wanted, error)
            self._started_step()

        if not self.is_modern:
            method = "resources/subscribe" if wanted else "resources/unsubscribe"
            params = b'{"uri":%b}' % envelope.quote(uri)
            self.requests.ask(CLIENT_REQUESTS[method], params, lambda result, error: moved(error))
        elif wanted:
            self._feeds.follow(uri, moved)
        else:
            self._feeds.leave(uri)
            moved(None)

    def _follow_lists(self, introduction: Introduction) -> None:
        tools, prompts, resources = (
            introduction.has(name, "listChanged") for name in legacy.LIST_CHANGED
        )
        if tools or prompts or resources:
            self._feeds.follow_lists(
                modern.Listen(tools=tools, prompts=prompts, resources=resources, uris=())
            )

    def feed_reopened(self, listen: modern.Listen) -> None:
        """For a time the server told of no changes: look for some."""
        wanted = {"tools": listen.tools, "prompts": listen.prompts, "resources": listen.resources}
        self.lists.compare(kind for kind in Kind if wanted[kind.capability])

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
            self._hear_request(bytes(message.id), str(message.method), params)

    def _hear_request(self, ident: bytes, method: str, params: Raw) -> None:
        if not self.is_modern:
            self._audience.heard_question(self, ident, method, params)
        elif envelope.is_id(ident):
            why = f"no request comes from a server in revision {MODERN[-1]}: {method}"
            self.answer(ident, result=None, error=codes.plain_error(codes.METHOD_NOT_FOUND, why))

    def _hear_answer(self, message: envelope.Message, frame: Frame) -> None:
        wire_id = wire_id_of(message.id)
        pending = None if wire_id is None else self.requests.take(wire_id)
        if pending is None:
            why = None if message.error is UNSET else message.error
            if wire_id is not None and self._feeds.ended(wire_id, why):
                return
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
        wire_id = None if ident is None else wire_id_of(Raw(ident))
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
        wire_id = None if ident is None else wire_id_of(Raw(ident))
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
            if not self.is_modern or params is UNSET or self._feeds.carries(params):
                self.lists.changed(kinds)
        elif params is UNSET:
            return
        elif method == "notifications/message":
            self._audience.heard_log(self, params)
        elif method == "notifications/resources/updated":
            self._hear_update(params)
        elif method == "notifications/elicitation/complete":
            self._audience.heard_completion(self, params)
        elif method == "notifications/subscriptions/acknowledged":
            self._feeds.acknowledged(params)
        elif method == "notifications/cancelled":
            found = envelope.params_of(params)
            if found is None or found.request_id is UNSET:
                return
            if self.is_modern:
                self._feeds.ended(wire_id_of(found.request_id) or 0)
            else:
                self._audience.heard_withdrawal(self, bytes(found.request_id))

    def _hear_update(self, params: Raw) -> None:
        found = envelope.params_of(params)
        uri = envelope.text(found.uri) if found is not None else None
        if uri is None:
            return
        if self.is_modern:
            if not self._feeds.carries_update(params, uri):
                return
            params = Raw(modern.untagged(params)[0] or b"{}")
        self._audience.heard_update(self, uri, params)

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


def most_verbose(levels: list[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)

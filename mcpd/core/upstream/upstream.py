"""One server's protocol side: what outlives its processes, and what each is told at its start.

The module is long because this is the one object of a server that its processes, lists and
definitions share: what each may change of it is a method here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final, Protocol

from msgspec import Raw, structs

from mcpd.core.catalog.canonical import PINNED
from mcpd.core.catalog.examine import KINDS
from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.definitions.all_definitions import AllDefinitions
from mcpd.core.definitions.definitions import Definitions
from mcpd.core.definitions.served import Heard, Reviewed
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.interface.commands import Introduced, Ready, StartRefused, ToServer
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.calls import Calls
from mcpd.core.upstream import own_info
from mcpd.core.upstream.client_lists import ClientLists, canonical
from mcpd.core.upstream.handshake import Handshake
from mcpd.core.upstream.known import Known
from mcpd.core.upstream.listen_streams import ListenStreams
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.log_level import LogLevel
from mcpd.core.upstream.phase import Phase
from mcpd.core.upstream.roots_wait import RootsWait
from mcpd.core.upstream.subscriptions import Subscriptions, Topic, move_at_legacy
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share
from mcpd.ids import SlotId


class Observer(Protocol):
    """Serves the clients of a server, and is notified of what changes there.

    A server's protocol side knows no clients, so this is what it knows of them.
    """

    def lists_kept(self, upstream: Upstream) -> None:
        """Remember what the server has listed, before any client that waits is answered."""

    def list_changed(
        self, upstream: Upstream, kind: Kind, *, everybody: bool, lists: Lists | None = None
    ) -> None:
        """Report that a list differs; ``everybody``: also to clients that do not wait for it.

        ``lists`` are those of which it is one, ``None`` for the lists of all clients.
        """

    def list_judged(self, upstream: Upstream) -> None:
        """Decide again about what waits for the process: it may be of what was listed."""

    def process_ready(self, upstream: Upstream) -> None:
        """Note that the process is ready, and that its lists can be read."""

    def process_gone(self, upstream: Upstream) -> None:
        """Drop what the process has asked: it has ended."""


KEEP_AFTER: Final = 2.0
"""Seconds after which lists of clients are put on disk: many come at once, in many turns."""


class Upstream:
    """What outlives a process of one slot: its users, its lists, what waits for the next start."""

    def __init__(
        self,
        ctx: Context,
        slot: SlotId,
        entry: Entry,
        observer: Observer,
        client: Callable[[], ClientInfo] | None = None,
        definitions: AllDefinitions | None = None,
    ) -> None:
        """``client`` returns whose process it is; ``None`` where several clients share it.

        ``definitions`` judge what it says of itself, where anything does.
        """
        self.slot = slot
        self.introduction = entry.introduction
        self.phase = Phase.DOWN
        self.heard_at = 0.0
        """When a process last said anything, in monotonic seconds."""
        self.noise = 0
        self.noise_reason: str | None = None
        """What was wrong with the last line of noise."""
        self.has_asked = entry.has_asked
        """Whether a call was seen to cause a question, in this life or an earlier one."""
        self.share = Share(ctx.memory)
        """What is kept of its questions."""
        self.calls = calls = Calls(ctx, slot, entry)
        calls.callers = own_info.control_client_info(ctx.settings.version)
        lists = entry.catalog if client is None else Catalog()  # what its client is shown
        self.lists = Lists(ctx, calls, lists, self)
        self.client_lists = ClientLists(ctx, calls, self, self.lists)
        calls.find_tool = self.client_lists.tool
        self.subscriptions = Subscriptions(self._move_subscription)
        self._handshake = Handshake(ctx, calls, self._take_introduction)
        self.listen_streams = ListenStreams(ctx, calls, self.client_lists.compare)
        self.log_level = LogLevel(calls, self._can_set_level)
        self._roots_wait = RootsWait(ctx, calls)
        self._ctx = ctx
        self._observer = observer
        self._client = client
        self._definitions = definitions
        if client is None:
            calls.ours = own_info.client_info_for(entry, None, ctx.settings.version)
        self._start_steps = 0  # answers that are owed before the process is ready
        self._keep_timer: Timer | None = None
        self._before: dict[Kind, Listing] = {}
        self._warned_at = -math.inf

    @property
    def entry(self) -> Entry:
        """The entry, or the first of those, whose process this is."""
        return self.calls.entry

    @property
    def catalog(self) -> Catalog:
        """What the server last listed."""
        return self.lists.catalog

    @property
    def is_private(self) -> bool:
        """Whether the process serves one client alone, or control calls."""
        return self._client is not None

    @property
    def lists_by_client(self) -> bool:
        """Whether the server may list something else for clients that declare something else."""
        known = self.introduction
        return self._client is None and known is not None and known.era is Era.MODERN

    @property
    def is_ready(self) -> bool:
        """Whether requests are sent at once."""
        return self.calls.is_ready

    @property
    def version(self) -> str | None:
        """The revision of the last handshake, ``None`` before the first."""
        return None if self.introduction is None else self.introduction.version

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""
        return self.introduction is not None and self.introduction.has(capability)

    def tells_changes(self, kind: Kind) -> bool:
        """Tell whether the server declares ``listChanged`` for a list, and tells us."""
        known = self.introduction
        if known is None or not known.has(kind.capability, "listChanged"):
            return False
        return not self.is_modern or self.listen_streams.hears(kind)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which of our capabilities the server refuses, such as ``elicitation.form``."""
        return self._handshake.left_out

    @property
    def is_modern(self) -> bool:
        """Whether the process that runs speaks a revision without a handshake."""
        return self.calls.era is Era.MODERN

    def silent_s(self) -> float | None:
        """Return for how long the process has said nothing while it owes an answer."""
        owed_since = self.calls.inflight.owed_since()
        return None if owed_since is None else self._ctx.now - max(owed_since, self.heard_at)

    def known(self) -> Known:
        """Return what the next process of the same launch may take over."""
        verdict, told = self._handshake.verdict, self.calls.ours.capabilities
        of_clients = self.client_lists.known()
        return Known(self.introduction, self.catalog, verdict, self.has_asked, told, of_clients)

    def recall(self, known: Known) -> None:
        """Take over what an earlier process of the same launch said."""
        self.introduction = known.introduction
        if not self.is_private:
            self.lists.catalog = known.catalog
            self.client_lists.recall(known.of_clients)
        self._handshake.verdict = known.verdict
        self.has_asked = self.calls.gate.has_asked = known.has_asked

    def recall_lists(self, known: Known) -> None:
        """Take over what another client's process listed, if it was told the same."""
        if self._client is None or self.catalog.lists or self.phase is not Phase.DOWN:
            return
        ours = own_info.client_info_for(self.entry, self._client(), self._ctx.settings.version)
        if canonical(known.capabilities) == canonical(ours.capabilities):
            self.lists.catalog = known.catalog

    def mark_asked(self) -> None:
        """Remember that a call has caused a question, for as long as the launch is the same."""
        if not self.has_asked:
            self.has_asked = True
            self.keep_lists()

    def notify(self, method: bytes, params: Raw | bytes | None = None) -> None:
        """Send a notification, if there is a process to read it."""
        if self.phase is not Phase.DOWN:
            self._ctx.emit(ToServer(self.slot, envelope.notification(method, params)))

    def answer(
        self, ident: bytes, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None:
        """Answer a question of the server's."""
        if self.phase is not Phase.DOWN:
            line = envelope.error(ident, error) if error is not None else None
            line = line or envelope.result(ident, result if result is not None else b"{}")
            self._ctx.emit(ToServer(self.slot, line))
            self._roots_wait.answered(ident)

    def roots_asked(self, ident: bytes) -> None:
        """Note that the server has asked for the roots; ``answer`` sends them."""
        if self.phase is Phase.STARTING or self.calls.start_wait.is_held:
            self._roots_wait.asked(ident)

    # -- the life of a process ------------------------------------------------------------------

    def up(self) -> None:
        """Introduce ourselves to a new process."""
        self.phase = Phase.STARTING
        client = None if self._client is None else self._client()
        version = self._ctx.settings.version
        self.calls.ours = own_info.client_info_for(self.entry, client, version)
        self.calls.begin()
        self._handshake.up()

    def probe_read(self) -> None:
        """The process has read what it was asked, or has written something."""
        self._handshake.probe_read()

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it was asked, and keep what may go to the next one."""
        self._handshake.down(failure, is_planned=is_planned, comes_back=comes_back)
        self.calls.is_ready = False  # a session that gets its turn now waits for the next process
        self._observer.process_gone(self)
        if self._keep_timer is not None:
            self.keep_lists()
        self.phase = Phase.DOWN
        self._start_steps = 0
        self._roots_wait.process_gone()
        self.listen_streams.down()
        self.subscriptions.down()
        self.calls.lose(failure, is_planned=is_planned, comes_back=comes_back)
        self.client_lists.lose(failure, is_planned=is_planned, comes_back=comes_back)
        if not comes_back:
            self.subscriptions.fail(failure)

    def request_failed(self, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """End a request that the process will not answer; without one of ours it cannot start."""
        if self.listen_streams.ended(wire_id):
            return
        if self.phase is Phase.STARTING:
            if self.calls.inflight.get(wire_id) is not None:
                self._ctx.emit(StartRefused(self.slot, failure))
            return
        self.calls.fail(wire_id, failure, may_repeat=may_repeat)

    def _take_introduction(self, introduction: Introduction) -> None:
        self.introduction = self._judged(introduction)
        self._ctx.emit(Introduced(self.slot, introduction.version))
        self.calls.era = introduction.era
        self._before = dict(self.catalog.lists)
        self._start_steps = 1
        self.log_level.process_introduced()
        if self.is_modern:  # before the lists are read, so that no change is lost
            self.listen_streams.follow_lists(introduction)
        else:
            self.client_lists.clear()
            self.notify(b'"notifications/initialized"')
            if self.log_level.wanted is not None and introduction.has("logging"):
                self._start_steps += 1
                self.log_level.send(lambda error: self._started_step())
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
        self._ctx.emit(Ready(self.slot, self.version or ""))
        self.keep_lists()
        self.log_level.send_due()
        self.subscriptions.renew()
        self._roots_wait.process_ready()
        self._observer.list_judged(self)  # before what has waited for the process is sent
        self.calls.open()
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                is_other = kind in self._before
                self._observer.list_changed(self, kind, everybody=is_other, lists=self.lists)
        self._before = {}
        self.lists.opened()
        self._read_held()
        self._observer.process_ready(self)
        self.calls.usage.mark_idle()

    def _read_held(self) -> None:
        """Read what is held, so that its first form is known before anybody asks for it."""
        definitions = self.definitions
        if definitions is None or not definitions.approved.holds:
            return
        for kind in PINNED:
            if self.catalog.get(kind) is None and self.has(kind.capability):
                self.lists.read(kind, _ignore)

    def keep_lists(self) -> None:
        """Have what the server has said and listed remembered, and put on disk."""
        if self._keep_timer is not None:
            self._keep_timer.cancel()
            self._keep_timer = None
        if self.introduction is not None:
            self._observer.lists_kept(self)
            self._ctx.emit(self.known().kept(self.introduction, self.entry))

    @property
    def definitions(self) -> Definitions | None:
        """What judges what the server says of itself; ``None`` where nothing does."""
        return None if self._definitions is None else self._definitions.of(self.entry)

    def key_of(self, lists: Lists) -> str:
        """Return the capabilities that lists were asked with; empty for ours of all clients."""
        if lists.capabilities is not None:
            return canonical(lists.capabilities)
        return canonical(self.calls.ours.capabilities) if self.is_private else ""

    def _judged(self, introduction: Introduction) -> Introduction:
        """Return an introduction with the instructions that clients get."""
        definitions = self.definitions
        if definitions is None:
            return introduction
        before = None if self.introduction is None else self.introduction.instructions
        definitions.approved.take_version(introduction.info)
        text = definitions.instructions(self.key_of(self.lists), introduction.instructions, before)
        return structs.replace(introduction, instructions=text)

    def review(
        self,
        listing: Listing,
        lists: Lists,
        then: Callable[[Reviewed], None],
        *,
        is_whole: bool,
    ) -> None:
        """Call ``then`` with what clients get of a list that has arrived, now or later."""

        def judged(found: Reviewed) -> None:
            then(found)
            self._observer.list_judged(self)

        definitions = self.definitions
        if definitions is None:
            judged(Reviewed(listing, Heard(listing)))
            return
        served = lists.catalog.get(listing.kind)
        key = self.key_of(lists)
        definitions.review(key, listing, served, judged, is_whole=is_whole)

    def recalled(
        self, listing: Listing, lists: Lists, fresh: Collection[tuple[str, str]]
    ) -> Listing:
        """Return what clients get of a list of an earlier process, which they got until now."""
        definitions = self.definitions
        if definitions is None:
            return listing
        names = [name for kind, name in fresh if kind == KINDS[listing.kind]]
        return definitions.served.recalled(self.key_of(lists), listing, names)

    def judge_again(self, fresh: Collection[tuple[str, str]] = ()) -> None:
        """Give clients what they get now of what the server said; notify them of what differs."""
        definitions = self.definitions
        if definitions is None:
            return
        if self.introduction is not None:
            key, said = self.key_of(self.lists), self.introduction
            text = definitions.served.instructions_again(key, said.instructions)
            if text != said.instructions:
                self.introduction = structs.replace(said, instructions=text)
                self.keep_lists()
        for lists in (self.lists, *self.client_lists):
            lists.judge_again(fresh)

    def have_read(self, lists: Lists) -> None:
        """Remember one of these lists, which a running process has changed."""
        if lists is self.lists:
            self.keep_lists()
            return
        self.client_lists.bound()
        self._observer.lists_kept(self)
        if self._keep_timer is None:
            self._keep_timer = self._ctx.after(KEEP_AFTER, self.keep_lists)

    def lists_changed(self, kind: Kind, lists: Lists) -> None:
        """Report to all clients that a list has changed, as read again or as the server says."""
        self.client_lists.outdate_others(kind, lists)
        self._observer.list_changed(self, kind, everybody=True)

    def lists_differ(self, kind: Kind, lists: Lists) -> None:
        """Report a list that this process lists otherwise than the one before."""
        self._observer.list_changed(self, kind, everybody=True, lists=lists)

    # -- log level and subscriptions ------------------------------------------------------------

    def _can_set_level(self) -> bool:
        return self.phase is Phase.READY and not self.is_modern and self.has("logging")

    def _move_subscription(self, topic: Topic, wanted: bool) -> None:
        if self.phase is Phase.STARTING:
            self._start_steps += 1

        def moved(error: Raw | bytes | None) -> None:
            self.subscriptions.moved(topic, wanted, error)
            self._started_step()

        if not self.is_modern:
            move_at_legacy(self.calls, topic, wanted, moved)
        elif wanted:
            self.listen_streams.follow(topic, moved)
        else:
            self.listen_streams.leave(topic)
            moved(None)

    def warn_seldom(self, text: str) -> None:
        """Report something odd that the server does, at most once a second."""
        if self._ctx.now >= self._warned_at + 1.0:
            self._warned_at = self._ctx.now
            self.warn(text)

    def warn(self, text: str) -> None:
        """Report something odd that the server does."""
        self._ctx.tell(ServerWarning(self.entry.name, text))


def _ignore(listing: Listing | None, failure: Failure | None) -> None:
    """Ignore that a list was read: what it says is remembered."""

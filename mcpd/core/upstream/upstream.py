"""One server's protocol side: what outlives its processes, and what each is told at its start."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeGuard

from msgspec import Raw

from mcpd.core.catalog.model import Catalog, Item, Kind, Listing
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.interface.commands import KeepCatalog, Ready, ToServer
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp import legacy
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.listen import Listen
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS
from mcpd.core.mcp.offer import FULL, Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.calls import Calls
from mcpd.core.upstream import own_info
from mcpd.core.upstream.client_lists import ClientLists, canonical, key_of
from mcpd.core.upstream.handshake import Handshake
from mcpd.core.upstream.listen_streams import ListenStreams
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.subscriptions import Subscriptions, Task, Topic
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share
from mcpd.ids import SlotId


class Observer(Protocol):
    """Whoever serves clients of a server: it learns what changes there.

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

    def process_ready(self, upstream: Upstream) -> None:
        """Note that the process is ready, and that its lists can be read."""

    def process_gone(self, upstream: Upstream) -> None:
        """Drop what the process has asked: it has ended."""


ROOTS_IN: Final = 0.25
"""Seconds from when a process is ready until it has asked for roots, and from when it has been told
them until it has taken them over."""

ROOTS_MOST: Final = 10.0
"""Seconds that requests wait for that at most."""


KEEP_AFTER: Final = 2.0
"""Seconds after which lists of clients are put on disk: many come at once, in many turns."""


class Known(NamedTuple):
    """What is known of a launch, whether a process of it runs or not.

    ``verdict`` is how the last handshake succeeded. ``capabilities`` were declared to the process
    that said so, as JSON; what it lists may depend on them. ``of_clients`` is what a modern one
    listed with others, by these (see ``key_of``). ``others`` are lists that it has not read, of
    processes that were told other capabilities.
    """

    introduction: Introduction | None
    catalog: Catalog
    verdict: Verdict | None = None
    has_asked: bool = False
    capabilities: bytes = b"{}"
    of_clients: Mapping[str, Catalog] = {}
    others: Catalog = Catalog()

    @property
    def newest(self) -> Catalog:
        """Return the newest list of each kind, whichever process read it."""
        if not self.others.lists:
            return self.catalog
        return Catalog({**self.others.lists, **self.catalog.lists})

    def after(self, before: Known) -> Known:
        """Return this with those lists of ``before`` that have not been read since."""
        introduction, read = self.introduction, self.catalog.lists
        missing = {
            kind: listing
            for kind, listing in before.newest.lists.items()
            if kind not in read and (introduction is None or introduction.has(kind.capability))
        }
        if canonical(before.capabilities) != canonical(self.capabilities):
            return self._replace(others=Catalog(missing))
        own = {kind: missing[kind] for kind in before.catalog.lists if kind in missing}
        others = {kind: listing for kind, listing in missing.items() if kind not in own}
        return self._replace(catalog=Catalog({**own, **read}), others=Catalog(others))

    def catalog_for(self, entry: Entry, client: ClientInfo) -> Catalog:
        """Return what was listed for a client, as far as that is known."""
        if self.introduction is None or self.introduction.era is not Era.MODERN:
            return self.catalog
        key = key_of(entry, client)
        ours = own_info.client_info_for(entry, None, "").capabilities
        return self.catalog if key == canonical(ours) else self.of_clients.get(key, Catalog())


class Phase(Enum):
    """How far the process is."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"


class Upstream:
    """What outlives a process of one slot: its users, its lists, what waits for the next start."""

    def __init__(
        self,
        ctx: Context,
        slot: SlotId,
        entry: Entry,
        observer: Observer,
        client: Callable[[], ClientInfo] | None = None,
    ) -> None:
        """``client`` returns whose process it is; ``None`` where several clients share it."""
        self.slot = slot
        self.introduction = entry.introduction
        self.phase = Phase.DOWN
        self.heard_at = 0.0
        """When a process last said anything, in monotonic seconds."""
        self.noise = 0
        self.noise_reason: str | None = None
        """What was wrong with the last line of noise."""
        self.level: str | None = None
        """The log level that the process is, or will be, set to."""
        self.has_asked = entry.has_asked
        """Whether a call was seen to cause a question, in this life or an earlier one."""
        self._level_sent: str | None = None
        self._level_taken: str | None = None  # the last that a process agreed to
        self._is_setting_level = False
        self._level_waiters: dict[Callable[[Raw | bytes | None], None], None] = {}
        self.share = Share(ctx.memory)
        """What is kept of its questions."""
        self.calls = calls = Calls(ctx, slot, entry)
        calls.callers = own_info.control_client_info(ctx.settings.version)
        lists = entry.catalog if client is None else Catalog()  # what its client is shown
        self.lists = Lists(ctx, calls, lists, self)
        self._client_lists = ClientLists(ctx, calls, self, self.lists)
        self.subscriptions = Subscriptions(self._move_subscription)
        self._handshake = Handshake(ctx, calls, self._take_introduction)
        self.listen_streams = ListenStreams(ctx, calls, self.feed_reopened)
        self._ctx = ctx
        self._observer = observer
        self._client = client
        if client is None:
            calls.ours = own_info.client_info_for(entry, None, ctx.settings.version)
        self._start_steps = 0  # answers that are owed before the process is ready
        self._roots_asked: set[bytes] = set()  # the ids of its open questions for roots
        self._roots_timer: Timer | None = None
        self._keep_timer: Timer | None = None
        self._roots_by = 0.0  # when requests wait for roots no more
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

    def lists_for(self, client: ClientInfo | None) -> Lists:
        """Return what the server lists for a client; ``None`` is us.

        A modern server can list by what each request declares, so clients that declare something
        else than we do have lists of their own, which may have to be read first.
        """
        return self._client_lists.of(client) if self._has_own_lists(client) else self.lists

    def known_lists_for(self, client: ClientInfo | None) -> Lists | None:
        """Return what the server lists for a client if it was ever asked for that."""
        return self._client_lists.get(client) if self._has_own_lists(client) else self.lists

    def lists_shown(self, client: ClientInfo, kind: Kind) -> Lists:
        """Return the lists that a client is shown, or was before this daemon: ours if no others."""
        own = self.known_lists_for(client)
        return self.lists if own is None or own.catalog.get(kind) is None else own

    def catalog_for(self, client: ClientInfo | None) -> Catalog:
        """Return what the server last listed for a client."""
        lists = self.known_lists_for(client)
        return Catalog() if lists is None else lists.catalog

    def _has_own_lists(self, client: ClientInfo | None) -> TypeGuard[ClientInfo]:
        known = self.introduction
        if client is None or self.is_private or known is None or known.era is not Era.MODERN:
            return False
        return key_of(self.entry, client) != canonical(self.calls.ours.capabilities)

    def tool(self, name: str) -> Item | None:
        """Return a tool that the server has listed for anybody."""
        return self.catalog.tool(name) or self._client_lists.tool(name)

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
        owed_since = self.calls.owed_since()
        return None if owed_since is None else self._ctx.now - max(owed_since, self.heard_at)

    def known(self) -> Known:
        """Return what the next process of the same launch may take over."""
        verdict, told = self._handshake.verdict, self.calls.ours.capabilities
        of_clients = self._client_lists.known()
        return Known(self.introduction, self.catalog, verdict, self.has_asked, told, of_clients)

    def recall(self, known: Known) -> None:
        """Take over what an earlier process of the same launch said."""
        self.introduction = known.introduction
        if not self.is_private:
            self.lists.catalog = known.catalog
            self._client_lists.recall(known.of_clients)
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
        """A call has caused a question: that is remembered, as long as the launch is the same."""
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
            if ident in self._roots_asked:
                self._roots_asked.discard(ident)
                self._wait_for_roots()

    # -- roots ----------------------------------------------------------------------------------

    def roots_asked(self, ident: bytes) -> None:
        """Note that the server wants to know the roots; ``answer`` tells it."""
        if self.phase is Phase.STARTING or self.calls.is_held:
            self._roots_asked.add(ident)
            self._wait_for_roots()

    def _hold_for_roots(self) -> None:
        """Have the first requests wait until a process that asks for roots has been told them.

        It asks when it is initialized, and denies what is outside of them: a client alone with it
        has answered that long before it calls a tool.
        """
        has_roots = bool(self.entry.roots) or self.entry.asks_for_roots
        if has_roots and not self.is_modern:
            self.calls.hold_all()
            self._roots_by = self._ctx.now + ROOTS_MOST
            self._wait_for_roots()

    def _wait_for_roots(self) -> None:
        if not self.calls.is_held:
            return
        if self._roots_timer is not None:
            self._roots_timer.cancel()
        left = self._roots_by - self._ctx.now
        wait = left if self._roots_asked else min(ROOTS_IN, left)
        self._roots_timer = self._ctx.after(wait, self._let_all_go)

    def _let_all_go(self) -> None:
        self._roots_asked.clear()
        self.calls.let_all_go()

    # -- the life of a process ------------------------------------------------------------------

    def up(self) -> None:
        """A new process is there: introduce ourselves."""
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
        """There is no process: fail what it request, and keep what may go to the next one."""
        self._handshake.down(failure, is_planned=is_planned, comes_back=comes_back)
        self.calls.is_ready = False  # whoever gets a turn now waits for the next process
        self._observer.process_gone(self)
        if self._keep_timer is not None:
            self.keep_lists()
        self.phase = Phase.DOWN
        self._start_steps = 0
        self._roots_asked.clear()
        if self._roots_timer is not None:
            self._roots_timer.cancel()
        self.listen_streams.down()
        self.subscriptions.down()
        self.calls.lose(
            failure,
            is_planned=is_planned,
            comes_back=comes_back,
            tool=self.tool,
        )
        self.lists.lose(failure, is_planned=is_planned, comes_back=comes_back)
        self._client_lists.lose(failure, is_planned=is_planned, comes_back=comes_back)
        if not comes_back:
            self.subscriptions.fail(failure)

    def _take_introduction(self, introduction: Introduction) -> None:
        self.introduction = introduction
        self.calls.era = introduction.era
        self._before = dict(self.catalog.lists)
        self._start_steps = 1
        self._level_sent = None
        if self.is_modern:
            self._follow_lists(introduction)  # before they are read, so that no change is lost
        else:
            self._client_lists.clear()
            self.notify(b'"notifications/initialized"')
            for level in self.calls.levels():  # the process before may have been a modern one
                self.log_at_least(level)
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
        self._ctx.emit(Ready(self.slot, version))
        self.keep_lists()
        if self.level is not None and self._is_level_due:
            self._send_level(self.level, None)  # they were told to change meanwhile
        self.subscriptions.renew()
        self._hold_for_roots()
        self.calls.open()
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                is_other = kind in self._before
                self._observer.list_changed(self, kind, everybody=is_other, lists=self.lists)
        self._before = {}
        self.lists.opened()
        self._observer.process_ready(self)
        self.calls.mark_idle()

    def keep_lists(self) -> None:
        """Have what the server said known to everybody, and put on disk."""
        if self._keep_timer is not None:
            self._keep_timer.cancel()
            self._keep_timer = None
        if self.introduction is not None:
            self._observer.lists_kept(self)
            said, entry = self.introduction, self.entry
            verdict = self._handshake.verdict
            offer = FULL if verdict is None else verdict.offer
            known = self.known()
            self._ctx.emit(
                KeepCatalog(
                    entry.name,
                    entry.launch,
                    said,
                    known.catalog,
                    known.has_asked,
                    offer,
                    known.capabilities,
                    known.of_clients,
                )
            )

    def have_read(self, lists: Lists) -> None:
        """One of these lists of a running process is another one now than the one we kept."""
        if lists is self.lists:
            self.keep_lists()
            return
        self._client_lists.bound()
        self._observer.lists_kept(self)
        if self._keep_timer is None:
            self._keep_timer = self._ctx.after(KEEP_AFTER, self.keep_lists)

    def lists_changed(self, kind: Kind, lists: Lists) -> None:
        """A list has been read again, and it is another one, or the server said so."""
        for others in (self.lists, *self._client_lists):
            if others is not lists:
                others.outdate(kind)
        self._observer.list_changed(self, kind, everybody=True)

    def lists_differ(self, kind: Kind, lists: Lists) -> None:
        """A list of the process before is another one of this."""
        self._observer.list_changed(self, kind, everybody=True, lists=lists)

    def verify_lists(self, used: Collection[Lists]) -> None:
        """A new process may list something else: look, for those clients that are there."""
        for lists in self._client_lists:
            if lists in used:
                lists.verify()
            else:
                lists.outdate_all()

    # -- log level and subscriptions ------------------------------------------------------------

    @property
    def _takes_levels(self) -> bool:
        return not self.is_modern and self.has("logging")

    def set_level(
        self, level: str, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set the most verbose level that anybody wants; ``then`` gets the server's refusal."""
        self.level = level
        if self.phase is Phase.READY and self._is_setting_level:
            if then is not None:
                self._level_waiters[then] = None
        elif self._is_level_due:
            self._send_level(level, then)
        elif then is not None:
            then(None)

    def log_at_least(
        self, level: str, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set this level where nobody wants a more verbose one."""
        self.set_level(min(level, self.level or level, key=LEVELS.index), then)

    def wait_for_no_level(self, then: Callable[[Raw | bytes | None], None]) -> None:
        """Forget who waited for a log level; harmless where nobody did."""
        self._level_waiters.pop(then, None)

    @property
    def _is_level_due(self) -> bool:
        is_other = self.level is not None and self.level != self._level_sent
        return is_other and self.phase is Phase.READY and self._takes_levels

    def _send_level(self, level: str, then: Callable[[Raw | bytes | None], None] | None) -> None:
        """Send it: one at a time, for a server may do what two of them say in any order."""

        def answered(error: Raw | bytes | None, *, is_lost: bool = False) -> None:
            self._is_setting_level = False
            if error is not None and self.level == level:
                self.level = self._level_sent = self._level_taken
            elif error is None and not is_lost:  # else the next process will be told
                self._level_taken = level
            if then is not None:
                then(error)
            if self._is_setting_level:
                return
            if self.level is not None and self._is_level_due:  # it was to be another meanwhile
                self._send_level(self.level, None)
                return
            waiters, self._level_waiters = self._level_waiters, {}
            for waiter in waiters:
                waiter(error)

        self._is_setting_level = True
        self._level_sent = level
        self.calls.ask(
            CLIENT_REQUESTS["logging/setLevel"],
            legacy.level_params(level),
            lambda result, error: answered(error),
            lost=lambda: answered(None, is_lost=True),
        )

    def _move_subscription(self, topic: Topic, wanted: bool) -> None:
        if self.phase is Phase.STARTING:
            self._start_steps += 1

        def moved(error: Raw | bytes | None) -> None:
            self.subscriptions.moved(topic, wanted, error)
            self._started_step()

        if self.is_modern and wanted:
            self.listen_streams.follow(topic, moved)
        elif self.is_modern:
            self.listen_streams.leave(topic)
            moved(None)
        elif isinstance(topic, Task):
            moved(None)  # a legacy process, in the place of a modern one, has none to tell of
        else:
            method = "resources/subscribe" if wanted else "resources/unsubscribe"
            params = b'{"uri":%b}' % envelope.quote(topic)
            self.calls.ask(CLIENT_REQUESTS[method], params, lambda result, error: moved(error))

    def _follow_lists(self, introduction: Introduction) -> None:
        tools, prompts, resources = (
            introduction.has(name, "listChanged") for name in legacy.LIST_CHANGED
        )
        if tools or prompts or resources:
            self.listen_streams.follow_lists(
                Listen(tools=tools, prompts=prompts, resources=resources, uris=())
            )

    def feed_reopened(self, listen: Listen) -> None:
        """For a time the server told of no changes: look for some."""
        wanted = {"tools": listen.tools, "prompts": listen.prompts, "resources": listen.resources}
        kinds = [kind for kind in Kind if wanted[kind.capability]]
        for lists in (self.lists, *self._client_lists):
            lists.compare(kinds)

    def warn_seldom(self, text: str) -> None:
        """Say that the server does something odd, once a second at most."""
        if self._ctx.now >= self._warned_at + 1.0:
            self._warned_at = self._ctx.now
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say that the server did something odd."""
        self._ctx.tell(ServerWarning(self.entry.name, text))


def most_verbose(levels: list[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)

"""One server's protocol side: what outlives its processes, and what each is told at its start."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from msgspec import MsgspecError, Raw, json

from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.mcp import legacy, modern
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.introduction import TASKS_EXTENSION as TASKS
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS
from mcpd.core.mcp.offer import FULL, Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.mux import ourselves
from mcpd.core.mux.commands import KeepCatalog, Ready, ToServer
from mcpd.core.mux.effects import Effects, Timer
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.feeds import Feeds
from mcpd.core.mux.handshake import Handshake
from mcpd.core.mux.hearing import Hearing, Told
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.lists import Lists
from mcpd.core.mux.requests import Interpreted, Requests
from mcpd.core.mux.subscriptions import Subscriptions, Task, Topic
from mcpd.core.mux.turns import Turns
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share
from mcpd.ids import SlotId


class Audience(Told["Upstream"], Protocol):
    """Those to whom a server speaks without being asked, and who know what its answers mean."""

    def heard_lists(self, upstream: Upstream) -> None:
        """Remember what the server has listed, before anybody who waits for it is answered."""

    def heard_change(self, upstream: Upstream, kind: Kind, *, everybody: bool) -> None:
        """A list is another one now; ``everybody``: also for those who wait for it."""

    def heard_ready(self, upstream: Upstream) -> None:
        """The process is ready, and its lists can be read."""

    def heard_answer(
        self, upstream: Upstream, pending: Pending, result: Raw | None, error: Raw | None
    ) -> Interpreted | None:
        """Say what an answer means to its client; ``None`` when that is asked something first."""

    def heard_end(self, upstream: Upstream) -> None:
        """The process is gone, with whatever it wanted to know."""


ROOTS_IN: Final = 0.25
"""Seconds from when a process is ready until it has asked for roots, and from when it has been told
them until it has taken them over."""

ROOTS_MOST: Final = 10.0
"""Seconds that requests wait for that at most."""


MOST_LISTS: Final = 8
"""How many kinds of clients a modern server's lists are kept for."""


class Known(NamedTuple):
    """What is known of a launch, whether a process of it runs or not.

    ``verdict`` is how the last handshake succeeded. ``capabilities`` were declared to the process
    that said so, as JSON; what it lists may depend on them. ``others`` are lists that it has not
    read, of processes that were told other capabilities.
    """

    introduction: Introduction | None
    catalog: Catalog
    verdict: Verdict | None = None
    has_asked: bool = False
    capabilities: bytes = b"{}"
    others: Catalog = Catalog()

    @property
    def shown(self) -> Catalog:
        """Return the newest list of each kind, whichever process read it."""
        if not self.others.lists:
            return self.catalog
        return Catalog({**self.others.lists, **self.catalog.lists})

    def after(self, before: Known) -> Known:
        """Return this with those lists of ``before`` that have not been read since."""
        said, read = self.introduction, self.catalog.lists
        missing = {
            kind: listing
            for kind, listing in before.shown.lists.items()
            if kind not in read and (said is None or said.has(kind.capability))
        }
        if _declared(before.capabilities) != _declared(self.capabilities):
            return self._replace(others=Catalog(missing))
        own = {kind: missing[kind] for kind in before.catalog.lists if kind in missing}
        others = {kind: listing for kind, listing in missing.items() if kind not in own}
        return self._replace(catalog=Catalog({**own, **read}), others=Catalog(others))


class Phase(Enum):
    """How far the process is."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"


class Upstream:
    """What outlives a process of one slot: its users, its lists, what waits for the next start."""

    def __init__(
        self,
        effects: Effects,
        slot: SlotId,
        entry: Entry,
        audience: Audience,
        client: Callable[[], Asker] | None = None,
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
        self.share = Share(effects.memory)
        """What is kept of its questions."""
        self.requests = requests = Requests(effects, slot, entry)
        requests.callers = ourselves.calling_asker(effects.settings.version)
        requests.interpret = lambda p, r, e: audience.heard_answer(self, p, r, e)
        self.turns = requests.gate = Turns(effects, requests)
        lists = entry.catalog if client is None else Catalog()  # what its client is shown
        self.lists = Lists(effects, requests, lists, self)
        self._lists_of: OrderedDict[bytes, Lists] = OrderedDict()
        self.subscriptions = Subscriptions(self._move_subscription)
        self._handshake = Handshake(effects, requests, self._take_introduction)
        self._feeds = Feeds(effects, requests, self)
        self.hear: Final = Hearing(effects, self, self._feeds, audience).hear
        """React to one line of the process. Whatever it is, nobody's session ends of it."""
        self._fx = effects
        self._audience = audience
        self._client = client
        self._start_steps = 0  # answers that are owed before the process is ready
        self._roots_asked: set[bytes] = set()  # the ids of its open questions for roots
        self._roots_timer: Timer | None = None
        self._roots_by = 0.0  # when requests wait for roots no more
        self._before: dict[Kind, Listing] = {}
        self._warned_at = -math.inf

    @property
    def entry(self) -> Entry:
        """The entry, or the first of those, whose process this is."""
        return self.requests.entry

    @property
    def catalog(self) -> Catalog:
        """What the server last listed."""
        return self.lists.catalog

    @property
    def is_private(self) -> bool:
        """Whether the process serves one client alone, or control calls."""
        return self._client is not None

    def lists_for(self, client: Asker) -> Lists:
        """Return what the server lists for a client.

        A modern server can list by what each request declares, so clients whose extensions are
        others than ours have lists of their own: those of the last ``MOST_LISTS`` are kept.
        """
        told = client.capabilities
        if not self.is_modern or self.is_private:
            return self.lists
        if _extensions(told) == _extensions(self.requests.ours.capabilities):
            return self.lists
        found = self._lists_of.get(told)
        if found is None:
            host = _ListsOfClients(self)
            asker = Asker(Era.LEGACY, told, client.info)  # its envelope is written by us
            found = self._lists_of[told] = Lists(self._fx, self.requests, Catalog(), host, asker)
            if len(self._lists_of) > MOST_LISTS:
                self._lists_of.popitem(last=False)
        self._lists_of.move_to_end(told)
        return found

    @property
    def is_ready(self) -> bool:
        """Whether requests are sent at once."""
        return self.requests.is_ready

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
        return not self.is_modern or self._feeds.hears(kind)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which of our capabilities the server refuses, such as ``elicitation.form``."""
        return self._handshake.left_out

    @property
    def is_modern(self) -> bool:
        """Whether the process that runs speaks a revision without a handshake."""
        return self.requests.era is Era.MODERN

    def silent_s(self) -> float | None:
        """Return for how long the process has said nothing while it owes an answer."""
        owed_since = self.requests.owed_since()
        return None if owed_since is None else self._fx.now - max(owed_since, self.heard_at)

    def hints(self, kind: Kind) -> tuple[int, str]:
        """Return ``ttlMs``, less the age of our copy, and ``cacheScope`` of a list."""
        return self.lists.hints(kind, self._fx.now)

    def known(self) -> Known:
        """Return what the next process of the same launch may take over."""
        verdict, told = self._handshake.verdict, self.requests.ours.capabilities
        return Known(self.introduction, self.catalog, verdict, self.has_asked, told)

    def recall(self, known: Known) -> None:
        """Take over what an earlier process of the same launch said."""
        self.introduction = known.introduction
        if not self.is_private:
            self.lists.catalog = known.catalog
        self._handshake.verdict = known.verdict
        self.has_asked = self.turns.has_asked = known.has_asked

    def recall_lists(self, known: Known) -> None:
        """Take over what another client's process listed, if it was told the same."""
        if self._client is None or self.catalog.lists or self.phase is not Phase.DOWN:
            return
        ours = ourselves.asker_for(self.entry, self._client(), self._fx.settings.version)
        if _declared(known.capabilities) == _declared(ours.capabilities):
            self.lists.catalog = known.catalog

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
            if ident in self._roots_asked:
                self._roots_asked.discard(ident)
                self._wait_for_roots()

    # -- roots ----------------------------------------------------------------------------------

    def roots_asked(self, ident: bytes) -> None:
        """Note that the server wants to know the roots; ``answer`` tells it."""
        if self.phase is Phase.STARTING or self.requests.is_held:
            self._roots_asked.add(ident)
            self._wait_for_roots()

    def _hold_for_roots(self) -> None:
        """Have the first requests wait until a process that asks for roots has been told them.

        It asks when it is initialized, and denies what is outside of them: a client alone with it
        has answered that long before it calls a tool.
        """
        has_roots = bool(self.entry.roots) or self.entry.asks_for_roots
        if has_roots and not self.is_modern:
            self.requests.hold_all()
            self._roots_by = self._fx.now + ROOTS_MOST
            self._wait_for_roots()

    def _wait_for_roots(self) -> None:
        if not self.requests.is_held:
            return
        if self._roots_timer is not None:
            self._roots_timer.cancel()
        left = self._roots_by - self._fx.now
        wait = left if self._roots_asked else min(ROOTS_IN, left)
        self._roots_timer = self._fx.after(wait, self._let_all_go)

    def _let_all_go(self) -> None:
        self._roots_asked.clear()
        self.requests.let_all_go()

    # -- the life of a process ------------------------------------------------------------------

    def up(self) -> None:
        """A new process is there: introduce ourselves."""
        self.phase = Phase.STARTING
        client = None if self._client is None else self._client()
        version = self._fx.settings.version
        self.requests.ours = ourselves.asker_for(self.entry, client, version)
        self.requests.begin()
        self._handshake.up()

    def probe_read(self) -> None:
        """The process has read what it was asked, or has written something."""
        self._handshake.probe_read()

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """There is no process: fail what it owed, and keep what may go to the next one."""
        self._handshake.down(failure, is_planned=is_planned, comes_back=comes_back)
        self.requests.is_ready = False  # whoever gets a turn now waits for the next process
        self._audience.heard_end(self)
        self.phase = Phase.DOWN
        self._start_steps = 0
        self._roots_asked.clear()
        if self._roots_timer is not None:
            self._roots_timer.cancel()
        self._feeds.down()
        self.subscriptions.down()
        self.requests.lose(
            failure,
            is_planned=is_planned,
            comes_back=comes_back,
            tool=self.catalog.tool,
        )
        self.lists.lose(failure, is_planned=is_planned, comes_back=comes_back)
        for lists in self._lists_of.values():
            lists.lose(failure, is_planned=is_planned, comes_back=False)
        self._lists_of.clear()
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
            for level in self.requests.levels():  # the process before may have been a modern one
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
        self._fx.emit(Ready(self.slot, version))
        self.keep_lists()
        if self.level is not None and self._is_level_due:
            self._send_level(self.level, None)  # they were told to change meanwhile
        self.subscriptions.renew()
        self._hold_for_roots()
        self.requests.open()
        for kind, listing in self.catalog.lists.items():
            if self._before.get(kind) != listing:
                self._audience.heard_change(self, kind, everybody=kind in self._before)
        self._before = {}
        self.lists.opened()
        self._audience.heard_ready(self)
        self.requests.mark_idle()

    def keep_lists(self) -> None:
        """Have what the server said known to everybody, and put on disk."""
        if self.introduction is not None:
            self._audience.heard_lists(self)
            said, entry = self.introduction, self.entry
            verdict = self._handshake.verdict
            offer = FULL if verdict is None else verdict.offer
            told = self.requests.ours.capabilities
            self._fx.emit(
                KeepCatalog(
                    entry.name, entry.launch, said, self.catalog, self.has_asked, offer, told
                )
            )

    def lists_changed(self, kind: Kind) -> None:
        """A list has been read again, and it is another one, or the server said so."""
        self._lists_of.clear()  # what is being read there still comes to those who wait
        self._audience.heard_change(self, kind, everybody=True)

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
        self.requests.ask(
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
            self._feeds.follow(topic, moved)
        elif self.is_modern:
            self._feeds.leave(topic)
            moved(None)
        elif isinstance(topic, Task):
            moved(None)  # a legacy process, in the place of a modern one, has none to tell of
        else:
            method = "resources/subscribe" if wanted else "resources/unsubscribe"
            params = b'{"uri":%b}' % envelope.quote(topic)
            self.requests.ask(CLIENT_REQUESTS[method], params, lambda result, error: moved(error))

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

    def warn_seldom(self, text: str) -> None:
        """Say that the server does something odd, once a second at most."""
        if self._fx.now >= self._warned_at + 1.0:
            self._warned_at = self._fx.now
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say that the server did something odd."""
        self._fx.tell(ServerWarning(self.entry.name, text))


def most_verbose(levels: list[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)


class _ListsOfClients:
    """The server whose lists are read for clients with capabilities of their own."""

    def __init__(self, upstream: Upstream) -> None:
        self.has = upstream.has
        self.tells_changes = upstream.tells_changes
        self.warn = upstream.warn
        self.lists_changed = upstream.lists_changed

    def keep_lists(self) -> None:
        """Keep nothing on disk: these lists are few clients' alone."""


def _extensions(capabilities: bytes) -> object:
    """Return the extensions that are declared, but for tasks, on which no list depends."""
    found = _declared(capabilities).get("extensions")
    return {k: v for k, v in found.items() if k != TASKS} if isinstance(found, dict) else {}


def _declared(capabilities: bytes) -> dict[str, Any]:
    """Read capabilities, so that they can be compared whatever the order of the members."""
    try:
        found = json.decode(capabilities)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

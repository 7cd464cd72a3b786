"""What one server lists: read page by page, kept, and read again when it may have changed.

The module is long because reading, keeping and reading again change the same pages: a list that
is read while another reading goes on is decided about here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, Protocol

from msgspec import Raw, structs

from mcpd.core.catalog.model import Catalog, Kind, ListError, Listing
from mcpd.core.catalog.paging import Hints, Paging
from mcpd.core.definitions.served import Heard, Reviewed
from mcpd.core.facts import CatalogChanged, Failure
from mcpd.core.interface.context import Context
from mcpd.core.mcp import codes
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.routing import parameters
from mcpd.core.requests.calls import Calls
from mcpd.core.upstream.list_changes import REFRESH_EVERY, ListChanges
from mcpd.core.upstream.list_reading import ListReading, ListWaiter
from mcpd.core.wire import envelope

_LISTS: Final = {kind: CLIENT_REQUESTS[kind.method] for kind in Kind}
_ERROR_LENGTH: Final = 300  # characters of a list's error that are told


class ListHost(Protocol):
    """The server whose lists these are."""

    @property
    def lists_by_client(self) -> bool:
        """Whether the server may list something else for clients that declare something else."""

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""

    def tells_changes(self, kind: Kind) -> bool:
        """Tell whether the server says so when a list changes."""

    def review(
        self,
        listing: Listing,
        lists: Lists,
        then: Callable[[Reviewed], None],
        *,
        is_whole: bool,
    ) -> None:
        """Call ``then`` with what clients get of a list that has arrived, now or later."""

    def recalled(
        self, listing: Listing, lists: Lists, fresh: Collection[tuple[str, str]]
    ) -> Listing:
        """Return what clients get of a list of an earlier process, which they got until now."""

    def have_read(self, lists: Lists) -> None:
        """Remember one of these lists, which a running process has changed."""

    def lists_changed(self, kind: Kind, lists: Lists) -> None:
        """Report to all clients that a list has changed, as read again or as the server says."""

    def lists_differ(self, kind: Kind, lists: Lists) -> None:
        """Report a list that this process lists otherwise than the one before."""

    def warn(self, text: str) -> None:
        """Report something odd that the server does."""


class Lists:
    """The catalog of one server. Those that ask for a list while it is read share the reading."""

    def __init__(
        self,
        ctx: Context,
        calls: Calls,
        catalog: Catalog,
        host: ListHost,
        capabilities: bytes | None = None,
        ours: Lists | None = None,
    ) -> None:
        """``capabilities`` are what a modern server is told, as JSON, and ``ours`` what it lists
        for us; each ``None`` for our own lists.
        """
        self.catalog = catalog
        """What clients get."""
        self.heard: dict[Kind, Heard] = {}
        """What the process sent, of the lists that were read in this life of the daemon."""
        self.capabilities = capabilities
        self._ours = ours
        self._ctx = ctx
        self._calls = calls
        self._host = host
        self._waiting: dict[Kind, dict[ListWaiter, bool]] = {kind: {} for kind in Kind}
        """Who waits for a process that is to list, and whether one has begun to do so before."""
        self._ready = {kind: partial(self._read_for_all, kind) for kind in Kind}
        self._reading: dict[Kind, ListReading] = {}
        self._began_at: dict[Kind, float] = {}
        """When each list was last begun to be read, in monotonic seconds."""
        self._hints: dict[Kind, tuple[Hints, float]] = {}
        """How long lists may be kept, and when they were read; none for a copy from the disk."""
        self._changes = ListChanges(ctx, calls, self._refresh)
        self._outdated: set[Kind] = set()
        """Lists that everybody was told to be others, and that were not read since."""
        self._of_process: set[Kind] = set()

    def drop(self) -> None:
        """Let go of what was listed: this object is of a circle, and the collector comes late."""
        self.catalog = Catalog()
        self.heard.clear()

    @property
    def size_bytes(self) -> int:
        """How long the lists are together; those that are the same as ours do not count."""
        ours = Catalog() if self._ours is None else self._ours.catalog
        own = (each for kind, each in self.catalog.lists.items() if each is not ours.get(kind))
        return sum(len(listing.page()) for listing in own)

    @property
    def is_awaited(self) -> bool:
        """Whether a list is being read, or a request waits for one."""
        return bool(self._reading) or any(self._waiting.values())

    def are_of_process(self, kind: Kind) -> bool:
        """Whether the process that there is has listed this, and not only one before it."""
        return kind in self._of_process

    def outdate(self, kind: Kind) -> None:
        """Note that all clients were notified of a change: read the list when next asked."""
        if kind in self._reading:
            self._reading[kind].is_outdated = True
        elif self.catalog.get(kind) is not None:
            self._outdated.add(kind)
            self._began_at.pop(kind, None)

    def outdate_all(self) -> None:
        """Note that the process that listed this is gone: read each list when next asked."""
        for kind in self.catalog.lists:
            self.outdate(kind)

    def hints(self, kind: Kind, now: float) -> tuple[int, str]:
        """Return ``ttlMs``, less the age of our copy, and ``cacheScope`` of a list.

        ``now`` is monotonic seconds.
        """
        hints, read_at = self._hints.get(kind, (Hints(), now))
        left = hints.less(now - read_at)
        return left.ttl_ms, left.scope

    def listing(self, kind: Kind, waiter: ListWaiter) -> None:
        """Give a list: what is known at once, else what a running process says."""
        known = self.catalog.get(kind)
        if known is not None:
            waiter(known, None)
            return
        self._waiting[kind][waiter] = False
        self._calls.start_wait.when_ready(self._ready[kind])

    def _read_for_all(self, kind: Kind, failure: Failure | None) -> None:
        """Read a list for those who waited for a process, or tell them that none comes."""
        waiting, self._waiting[kind] = self._waiting[kind], {}
        for waiter, is_again in waiting.items():
            known = None if is_again else self.catalog.get(kind)
            if known is not None or failure is not None:
                waiter(known, failure)
            else:
                may_repeat = self._calls.entry.may_repeat and not is_again
                self.read(kind, waiter, may_repeat=may_repeat)

    def wait_no_more(self, kind: Kind, waiter: ListWaiter) -> None:
        """Remove a waiter of a list; harmless for one that does not wait."""
        waiting = self._waiting[kind]
        if waiter not in waiting:
            if kind in self._reading:
                self._reading[kind].waiters.pop(waiter, None)
            return
        del waiting[waiter]
        if not waiting:
            self._calls.start_wait.wait_no_more(self._ready[kind])

    def fresh(self, kind: Kind, then: Callable[[], None]) -> None:
        """Call ``then`` once our copy of a list is what a client may be given now.

        That is at once, unless the list may have changed and the process can be asked; then it is
        when the list has been read again, or ``list_wait`` seconds after that was begun. A list
        that differs is told to everybody.
        """
        if not self._is_stale(kind):
            then()
            return
        now, wait = self._ctx.now, self._ctx.settings.list_wait
        reading = self._reading.get(kind)
        left = wait if reading is None else reading.began_at + wait - now
        if left <= 0:  # the process hangs
            then()
            return
        is_done = False

        def once(listing: Listing | None, failure: Failure | None) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                timer.cancel()
                then()

        timer = self._ctx.after(left, lambda: once(None, None))
        self._read(kind, (once, False), is_compared=True)

    def _is_stale(self, kind: Kind) -> bool:
        """Tell whether a list may be another by now than our copy, and can be read again.

        A server that declares ``listChanged`` is believed. A ``ttlMs`` holds for servers that
        send one; 0, which is what legacy servers have, says nothing about when the list changes.
        """
        if not self._calls.is_ready or not self._host.has(kind.capability):
            return False
        if kind in self._reading:
            return True
        now = self._ctx.now
        if now < self._began_at.get(kind, -REFRESH_EVERY) + REFRESH_EVERY:
            return False
        if kind in self._outdated or self.catalog.get(kind) is None:
            return True
        hints, read_at = self._hints.get(kind, (Hints(), now))
        if hints.ttl_ms:
            return not hints.less(now - read_at).ttl_ms
        return not self._host.tells_changes(kind)

    def read(self, kind: Kind, waiter: ListWaiter, *, may_repeat: bool = False) -> None:
        """Read a list from the process, page by page; one reading at a time serves all who wait.

        With ``may_repeat`` it is done once more where the process dies and comes back.
        """
        self._read(kind, (waiter, may_repeat))

    def _read(
        self,
        kind: Kind,
        waiter: tuple[ListWaiter, bool] | None = None,
        *,
        is_compared: bool = False,
        is_announced: bool = False,
        is_verified: bool = False,
    ) -> None:
        reading = self._reading.get(kind)
        is_new = reading is None
        if reading is None:
            self._began_at[kind] = self._ctx.now
            known = None if kind in self._outdated else self.catalog.get(kind)
            reading = self._reading[kind] = ListReading(self._ctx.now, known)
        if waiter is not None:
            reading.waiters[waiter[0]] = waiter[1]
        reading.is_compared |= is_compared
        reading.is_announced |= is_announced
        reading.is_verified |= is_verified
        if not is_new:
            return
        if self._host.has(kind.capability):
            self._ask_page(kind, Paging(kind), None)
        else:
            self._arrived(Listing.empty(kind))

    def _ask_page(self, kind: Kind, paging: Paging, cursor: str | None) -> None:
        params = b"{}" if cursor is None else b'{"cursor":%b}' % envelope.quote(cursor)

        def take(result: Raw | bytes | None, error: Raw | bytes | None) -> None:
            if result is None:
                self._list_failed(kind, paging, error)
                return
            try:
                following = paging.take(result, is_modern=self._calls.is_modern)
            except ListError as problem:
                self._keep_previous(kind, paging, problem.message)
                return
            if following is not None:
                self._ask_page(kind, paging, following)
                return
            for note in paging.notes:
                self._host.warn(note)
            self._arrived(self._usable(paging.listing()), paging.hints)

        client_info = None
        if self.capabilities is not None:
            client_info = structs.replace(self._calls.ours, capabilities=self.capabilities)
        self._calls.own_requests.ask(_LISTS[kind], params, take, client_info=client_info)

    def _usable(self, listing: Listing) -> Listing:
        """Return a list without the tools whose headers a client must refuse to send.

        Source: MCP 2026-07-28, basic/transports/streamable-http, "x-mcp-header".
        """
        if listing.kind is not Kind.TOOLS or not (
            self._calls.entry.is_remote and self._calls.is_modern
        ):
            return listing
        bad = [
            item.identity
            for item in listing.items
            if b"x-mcp-header" in item.raw and parameters(item.input_schema()) is None
        ]
        if not bad:
            return listing
        self._host.warn(f"tools with an invalid x-mcp-header are left out: {', '.join(bad)[:300]}")
        return Listing(Kind.TOOLS, (item for item in listing.items if item.identity not in bad))

    def _list_failed(self, kind: Kind, paging: Paging, error: Raw | bytes | None) -> None:
        members = envelope.object_of(error or b"{}") or {}
        is_missing = bytes(members.get("code", Raw(b""))) == b"%d" % codes.METHOD_NOT_FOUND
        if is_missing and not (self._calls.is_ready and self.catalog.get(kind) is not None):
            self._arrived(Listing.empty(kind))  # declared and missing: empty, not broken
        else:
            said = self._calls.entry.redactor.excerpt(error or b"null", _ERROR_LENGTH)
            self._keep_previous(kind, paging, f"{kind.method} failed: {said}")

    def _keep_previous(self, kind: Kind, paging: Paging, why: str) -> None:
        if self.catalog.get(kind) is not None:
            self._host.warn(f"{why}; the previous list stays")
        elif self._ours is not None:
            self._host.warn(f"{why}; a client is given the list of others")
        else:
            self._host.warn(f"{why}; what was read so far is kept")
            self._arrived(paging.listing(), is_whole=False)
            return
        self._end_reading(kind)

    def _arrived(
        self, listing: Listing, hints: Hints | None = None, *, is_whole: bool = True
    ) -> None:
        """Have a list that was read judged, then give clients what they get of it."""
        kind = listing.kind
        reading = self._reading.get(kind)

        def reviewed(found: Reviewed) -> None:
            if reading is None or self._reading.get(kind) is not reading:
                return  # the process has gone meanwhile
            if is_whole:
                self.heard[kind] = found.heard
            reading.hides = found.hides
            self._take_listing(kind, found.listing, hints)
            self._end_reading(kind)

        self._host.review(listing, self, reviewed, is_whole=is_whole)

    def judge_again(self, fresh: Collection[tuple[str, str]] = ()) -> None:
        """Give clients what they get of each list now; notify them of those that differ.

        ``fresh`` are the kinds and names of definitions that were approved just now.
        """
        for kind, known in self.catalog.lists.items():
            heard = self.heard.get(kind)
            if heard is None:
                self._serve(kind, self._host.recalled(known, self, fresh))
            else:
                self._host.review(heard.listing, self, self._judged_again, is_whole=True)

    def _judged_again(self, found: Reviewed) -> None:
        kind = found.listing.kind
        if kind in self.heard and self.heard[kind].listing is found.heard.listing:
            self.heard[kind] = found.heard
            self._serve(kind, found.listing)

    def _serve(self, kind: Kind, listing: Listing) -> None:
        if listing == self.catalog.get(kind):
            return
        ours = None if self._ours is None else self._ours.catalog.get(kind)
        shown = listing if ours is None or ours != listing else ours
        self.catalog = self.catalog.replaced(kind, shown)
        self._host.have_read(self)
        self._host.lists_differ(kind, self)

    def _end_reading(self, kind: Kind) -> None:
        """Give a list to the requests that wait for it; ``None`` if it cannot be read."""
        reading = self._reading.pop(kind)
        if reading.is_outdated:
            self.outdate(kind)
            for again in reading.waiters.items():
                self._read(kind, again)
            return
        listing = self.catalog.get(kind)
        for waiter in reading.waiters:
            waiter(listing, None)
        is_other = reading.before is not None and listing != reading.before
        if (reading.is_announced and (is_other or not reading.hides)) or (
            reading.is_compared and is_other
        ):
            self._host.lists_changed(kind, self)
        elif reading.is_verified and is_other:
            self._host.lists_differ(kind, self)

    def _take_listing(self, kind: Kind, listing: Listing, hints: Hints | None = None) -> None:
        self._hints[kind] = (hints or Hints(), self._ctx.now)
        self._outdated.discard(kind)
        self._of_process.add(kind)
        if self.catalog.get(kind) == listing:
            return
        ours = None if self._ours is None else self._ours.catalog.get(kind)
        shown = listing if ours is None or ours != listing else ours
        self.catalog = self.catalog.replaced(kind, shown)
        if self._ours is None:
            self._ctx.tell(CatalogChanged(self._calls.entry.name, kind.value, len(listing)))
        if self._calls.is_ready:
            self._host.have_read(self)

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """Read these lists again soon: the server says that they have changed."""
        for kind in kinds:
            self._hints.pop(kind, None)
        self._changes.add(kinds)

    def _refresh(self, kind: Kind) -> None:
        """Read a list that has changed, for all; one that no client has seen is only announced."""
        if self.catalog.get(kind) is None:
            self._host.lists_changed(kind, self)
        else:
            self._read(kind, is_announced=True)

    def opened(self) -> None:
        """Read again the lists that changed before the process was ready, which it is now."""
        self.compare(self._changes.take_early())

    def compare(self, kinds: Iterable[Kind]) -> None:
        """Read lists that are known again, and report those that differ."""
        for kind in kinds:
            if self.catalog.get(kind) is not None:
                self._read(kind, is_compared=True)

    def verify(self) -> None:
        """Read what an earlier process listed, and notify the clients whose lists differ."""
        for kind in self.catalog.lists:
            self._read(kind, is_verified=True)

    def lose(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """End all readings: the process is gone.

        A list is read once more after a death, and after each restart that was planned.
        """
        self._changes.clear()
        self._of_process.clear()
        readers, self._reading = self._reading, {}
        for kind, reading in readers.items():
            for waiter, may_repeat in reading.waiters.items():
                if comes_back and may_repeat:
                    self._waiting[kind][waiter] = not is_planned
                    self._calls.start_wait.when_ready(self._ready[kind])
                else:
                    waiter(None, failure)

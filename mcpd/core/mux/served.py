"""Lists as sessions get them, and which server a resource belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.methods import Method
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.greeting import aggregate_info
from mcpd.core.mux.lists import Lists, ListWaiter
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables, Waiting
from mcpd.core.wire.envelope import Params
from mcpd.ids import SlotId

_KINDS: Final = {kind.value: kind for kind in Kind}
_NO_HINTS: Final = (0, "private")
_NO_CURSOR: Final = (b"null", b'""')  # what some clients write for the first page


class Served:
    """Answers from the catalogs; whoever has not listed yet is asked, and waited for."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def answer(self, session: Session, owed: Owed, rule: Method, found: Params) -> None:
        """Answer a list request, with what is known or what a server says now."""
        kind = _KINDS[rule.kind or ""]
        if found.cursor is not UNSET and bytes(found.cursor) not in _NO_CURSOR:
            why = "there are no further pages: the first is the whole list"
            self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            self.gather(
                session,
                owed,
                (kind,),
                lambda: self._reply_aggregate_list(session, owed, kind),
                is_fresh=True,
            )
            return
        entry = self._tables.entries.get(session.server)
        usable = self._tables.entry(session.server)
        if entry is None or (isinstance(usable, Failure) and usable.kind != "server_stopped"):
            failure = usable if isinstance(usable, Failure) else None
            self._tables.refuse(session, owed, failure or self._tables.not_found(session.server))
            return
        if not self.has(session.server, kind.capability):
            why = f"{session.server} has no {kind.capability}"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        is_held = isinstance(usable, Failure)
        client = self._tables.client_of(session, owed)
        known = self._known(session, entry.name, kind, client, is_held=is_held)
        if known is not None:
            self._reply_known(session, owed, entry, kind, known, is_held=is_held)
            return
        if isinstance(usable, Failure):
            self._tables.refuse(session, owed, usable)
            return

        def listed(listing: Listing | None, failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if failure is not None and self._tables.has_left(upstream):
                self.answer(session, owed, rule, found)
            elif failure is None and upstream.lists_for(client) is not lists:
                self.answer(session, owed, rule, found)  # only now it is known that it has others
            elif listing is not None:
                self._reply_known(session, owed, entry, kind, listing, is_held=False)
            elif failure is not None:
                ours = None if upstream.is_private else upstream.catalog.get(kind)
                if ours is None:
                    self._tables.refuse(session, owed, failure)
                    return
                session.incomplete.add(kind)
                self._reply_list(session, owed, entry, kind, ours, _NO_HINTS)

        upstream = self._tables.upstream_for(session, usable)
        lists = upstream.lists_for(client)
        self._tables.when_listed(owed, lists, kind, listed)

    def _known(
        self, session: Session, server: str, kind: Kind, client: Asker | None, *, is_held: bool
    ) -> Listing | None:
        """Return a list as far as it is known for a client.

        A server that ``is_held`` cannot be asked, so what it listed for others must do.
        """
        current = session.upstreams.get(server)
        known = None
        if current is not None:
            self._tables.recall_lists(current)
            known = current.catalog_for(client).get(kind)
            if current.is_private and not is_held:
                return known
        if known is None:
            known = self._tables.catalog_for(server, client).get(kind)
        if known is None and is_held:
            known = self._tables.catalog_of(server).get(kind)
        return known

    def _reply_known(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        kind: Kind,
        known: Listing,
        *,
        is_held: bool,
    ) -> None:
        """Answer with a list that is known, as fresh as it is to be had now."""
        upstream = self._tables.lister(session, entry.name)
        client = self._tables.client_of(session, owed)
        lists = None if upstream is None else upstream.lists_for(client)

        def reply() -> None:
            now = self._known(session, entry.name, kind, client, is_held=is_held)
            own = None if lists is None else lists.catalog.get(kind)
            listing = next(each for each in (own, now, known) if each is not None)
            hints = _NO_HINTS if lists is None else lists.hints(kind, self._tables.fx.now)
            if session.owed.get(owed.key) is owed:
                self._reply_list(session, owed, entry, kind, listing, hints)

        if lists is None:
            reply()
        else:
            lists.fresh(kind, reply)

    def _reply_list(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        kind: Kind,
        listing: Listing,
        hints: tuple[int, str],
    ) -> None:
        shown = entry.filter.apply(listing) if kind is Kind.TOOLS else listing
        page = shown.page()
        if owed.asker is not None:
            known = self._tables.introduction_of(entry.name)
            info = (
                known.info
                if known is not None
                else msgspec.json.encode({"name": entry.name, "version": "0"})
            )
            page = modern.list_page(page, info, *hints)
        self._tables.reply(session, owed, page)

    def _reply_aggregate_list(self, session: Session, owed: Owed, kind: Kind) -> None:
        if session.owed.get(owed.key) is not owed:
            return
        servers = self._tables.aggregate.servers()
        client = self._tables.client_of(session, owed)
        if any(self.unlisted(server, kind, client) is not None for server in servers):
            session.incomplete.add(kind)
        page = self._tables.aggregate_for(client).page(kind)
        if owed.asker is not None:
            known = [self._hints(session, server, kind, client) for server in servers]
            hints = known or [_NO_HINTS]
            ttl_ms = min(ttl for ttl, _ in hints)
            is_private = any(scope == "private" for _, scope in hints)
            scope = "private" if is_private else "public"
            page = modern.list_page(page, aggregate_info(self._tables), ttl_ms, scope)
        self._tables.reply(session, owed, page)

    def _hints(
        self, session: Session, server: str, kind: Kind, client: Asker | None
    ) -> tuple[int, str]:
        """Return for how many milliseconds a list may be kept, and by whom."""
        entry = self._tables.entries.get(server)  # it may have been removed meanwhile
        upstream = session.upstreams.get(server)
        if upstream is None and entry is not None:
            upstream = self._tables.upstreams.get(SlotId(entry.launch))
        lists = None if upstream is None else upstream.known_lists_for(client)
        return _NO_HINTS if lists is None else lists.hints(kind, self._tables.fx.now)

    def gather(
        self,
        session: Session,
        who: Waiting,
        kinds: Collection[Kind],
        then: Callable[[], None],
        servers: Iterable[str] | None = None,
        failures: list[Failure] | None = None,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Wait, ``list_wait`` at most, until every server of the aggregate has listed some kinds.

        With ``servers`` only these are waited for, until each has started or failed to; why is
        put into ``failures``. With ``is_fresh`` lists that may have changed are read again.
        """
        tables = self._tables
        missing: set[tuple[str, Kind]] = set()
        client = tables.client_of(session, who)
        waits: dict[tuple[str, Kind], tuple[Lists, ListWaiter]] = {}
        is_done = False

        def leave() -> None:
            nonlocal is_done
            is_done = True
            if timer is not None:
                timer.cancel()
            for (_, kind), (lists, waiter) in waits.items():
                lists.wait_no_more(kind, waiter)
            waits.clear()

        def finish() -> None:
            if not is_done:
                who.leave = None
                leave()
                then()

        wait = tables.fx.settings.list_wait
        timer = tables.fx.after(wait, finish) if servers is None else None
        is_asked = False

        def settle() -> None:
            if not missing and is_asked:
                finish()

        def refreshed(part: tuple[str, Kind]) -> None:
            missing.discard(part)
            settle()

        def ask(part: tuple[str, Kind]) -> None:
            server, kind = part
            entry = self.unlisted(server, kind, client)
            if entry is None:
                lister = tables.lister(session, server) if is_fresh else None
                if lister is not None:
                    missing.add(part)
                    lister.lists_for(client).fresh(kind, lambda: refreshed(part))
                return
            missing.add(part)
            upstream = session.upstreams.get(server) or tables.control_upstream(
                entry, session.workspace
            )
            lists = upstream.lists_for(client)

            def arrived(listing: Listing | None, failure: Failure | None) -> None:
                missing.discard(part)
                waits.pop(part, None)
                is_there = tables.sessions.get(session.id) is session and not is_done
                if failure is not None:
                    if is_there and tables.has_left(upstream):
                        for kind in kinds:  # what the one that took its place lists counts
                            ask((server, kind))
                    elif failures is not None:
                        failures.append(failure)
                elif is_there and upstream.lists_for(client) is not lists:
                    ask(part)  # only now it is known that the client has lists of its own
                settle()

            waits[part] = (lists, arrived)
            lists.listing(kind, arrived)

        names = tables.aggregate.servers() if servers is None else servers
        for part in itertools.product(names, kinds):
            ask(part)
        is_asked = True
        settle()
        if missing and not is_done:
            who.leave = leave

    def unlisted(self, server: str, kind: Kind, client: Asker | None = None) -> Entry | None:
        """Return the entry of a server that may list something, and has not done it for a client.

        Without one it is whether it has for us.
        """
        entry, known = self._tables.entry(server), self._tables.catalog_for(server, client)
        if isinstance(entry, Failure) or known.get(kind) is not None:
            return None
        return entry if self.has(server, kind.capability) else None

    def has(self, server: str, capability: str, member: str | None = None) -> bool:
        """Tell whether a server has a capability, as far as is known: ``True`` before it ran."""
        known = self._tables.introduction_of(server)
        return known is None or known.has(capability, member)

    def by_uri(
        self,
        session: Session,
        owed: Owed,
        uri: str | None,
        then: Callable[[Entry], None],
        unusable: Callable[[str, Failure], None] | None = None,
        *,
        template: bool = False,
    ) -> None:
        """Find the server a resource URI belongs to.

        Lists that are unknown are read first; where nobody has it, those that may have changed.
        Where it is not to be used its request is refused, but by ``unusable`` where that is given.
        """
        if uri is None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, "uri must be a string")
            return
        tables = self._tables
        kinds = (Kind.RESOURCES, Kind.TEMPLATES)

        client = tables.client_of(session, owed)

        def owner() -> str | None:
            aggregate = tables.aggregate_for(client)
            return aggregate.template_owner(uri) if template else aggregate.owner(uri)

        def find() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            server = owner()
            if server is None:
                servers = tables.aggregate.servers()
                asked = [name for name in servers if self._has_listed(name, kinds)]
                why = f"Resource not found: {uri} (servers asked: {', '.join(asked) or 'none'})"
                data = {"uri": uri, "servers": asked}
                is_modern = owed.asker is not None
                code = codes.INVALID_PARAMS if is_modern else codes.RESOURCE_NOT_FOUND
                error = codes.plain_error(code, why, data)
                tables.pass_error(session, owed, error)
                return
            entry = tables.entry(server)
            if not isinstance(entry, Failure):
                then(entry)
            elif unusable is not None:
                unusable(server, entry)
            else:
                tables.refuse(session, owed, entry)

        if not template and self._is_owned(uri, client):
            find()
            return
        self.gather(session, owed, kinds, find, is_fresh=owner() is None)

    def owners(
        self,
        session: Session,
        who: Waiting,
        uris: tuple[str, ...],
        then: Callable[[Mapping[str, Entry]], None],
    ) -> None:
        """Find the servers that resources belong to likewise; what has none is left out."""
        tables = self._tables
        client = tables.client_of(session, who)

        def find() -> None:
            found: dict[str, Entry] = {}
            for uri in uris:
                server = tables.aggregate_for(client).owner(uri)
                entry = None if server is None else tables.entry(server)
                if isinstance(entry, Entry):
                    found[uri] = entry
            then(found)

        if all(self._is_owned(uri, client) for uri in uris):
            find()
        else:
            kinds = (Kind.RESOURCES, Kind.TEMPLATES)
            self.gather(session, who, kinds, find, is_fresh=True)

    def _has_listed(self, server: str, kinds: Iterable[Kind]) -> bool:
        catalog = self._tables.catalog_of(server)
        return any(catalog.get(kind) is not None for kind in kinds)

    def _is_owned(self, uri: str, client: Asker | None) -> bool:
        """Tell whether a server lists this, and none before it could still do so."""
        for server in self._tables.aggregate.servers():
            known = self._tables.catalog_for(server, client).get(Kind.RESOURCES)
            if known is not None and known.get(uri) is not None:
                return True
            if self.unlisted(server, Kind.RESOURCES, client) is not None:
                return False
        return False

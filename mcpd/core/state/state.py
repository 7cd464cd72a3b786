"""Who there is: entries, sessions, upstreams, and the ways from one to another."""

from __future__ import annotations

from collections.abc import Iterable

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Catalog, Item, Kind
from mcpd.core.definitions import held_refusals
from mcpd.core.definitions.all_definitions import AllDefinitions
from mcpd.core.definitions.definitions import Definitions
from mcpd.core.facts import Failure, SessionNamed, SessionOpened
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.entries import Entry, Policy, Profile, Sharing
from mcpd.core.mcp import modern
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.policy.approvals import Asks
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.aggregate import Aggregate
from mcpd.core.state.judged import judged
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.shown_lists import ShownLists
from mcpd.core.state.slot_keys import KEY_KINDS, control_key, key_of, slot_of
from mcpd.core.state.views import Views
from mcpd.core.upstream.known import Known
from mcpd.core.upstream.upstream import Upstream
from mcpd.ids import SessionId, SlotId
from mcpd.principal import EVERYTHING, NOTHING, Principal, Scope

_GONE = Profile(scope=NOTHING)


class MuxState:
    """The state that all parts of the mux look at."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.entries: dict[str, Entry] = {}
        self.views = Views()
        """Which of the entries the sessions of a workspace know."""
        self.sources = ""
        """Which files were read, for people."""
        self.held: dict[str, Failure] = {}
        self.sessions: dict[SessionId, Session] = {}
        self.upstreams: dict[SlotId, Upstream] = {}
        self.retiring: dict[SlotId, tuple[Upstream, Timer]] = {}
        """Slots that nobody comes to any more, while what is in flight there has its time."""
        self.keys: dict[SlotId, str | None] = {}
        self.memory: dict[str, Known] = {}
        """What the last process of a launch said, and what was listed last."""
        self.past_calls: dict[str, tuple[int, int]] = {}
        """Calls and errors of processes whose places are forgotten, by server."""
        self.definitions = AllDefinitions(ctx)
        """What judges what servers say of themselves, before anybody gets it."""
        self.shown = ShownLists(self.catalog_of, self.catalog_for, self.filter_within)
        """The lists of all servers as we and our clients are shown them."""
        self.policy = Policy()
        """What the configuration says of calls."""
        self.asks: dict[tuple[str, str | None], Asks | None] | None = None
        """Which calls somebody is asked about, by server and profile; ``None``: about none."""
        self.has_rates = False
        """Whether calls of anybody, or to any server, are measured by a rate."""
        self._scopes: dict[tuple[Scope, str], Scope] = {}
        """The scopes of principals within their profiles."""
        self._filters: dict[tuple[str, Scope], Filter] = {}
        """The filters of entries as they are for principals with a scope."""

    # -- servers --------------------------------------------------------------------------------

    def entry(self, name: str) -> Entry | Failure:
        """Return an entry that can be used, or why there is none."""
        entry = self.entries.get(name)
        if entry is None:
            return self.not_found(name)
        if entry.unavailable is not None:
            return entry.unavailable
        return self.held.get(name) or entry

    def filter_of(self, session: Session, entry: Entry) -> Filter:
        """Return what of a server a session is shown, and may use."""
        return self.filter_within(self.scope_of(session.principal), entry)

    def filter_within(self, scope: Scope, entry: Entry) -> Filter:
        """Return what of a server a principal with this scope is shown, and may use."""
        if scope is EVERYTHING:
            return entry.filter
        key = entry.name, scope
        found = self._filters.get(key)
        if found is None:
            found = self._filters[key] = entry.filter.within(scope, entry.shown_name)
        return found

    def scope_of(self, principal: Principal) -> Scope:
        """Return what a principal may use now; a profile that is gone lets it use nothing."""
        if principal.profile is None:
            return principal.scope
        key = principal.scope, principal.profile
        found = self._scopes.get(key)
        if found is None:
            profile = self.policy.profiles.get(principal.profile, _GONE)
            found = self._scopes[key] = principal.scope.within(profile.scope)
        return found

    def asks_of(self, principal: Principal, entry: Entry) -> Asks | None:
        """Return which calls of a server a principal is asked about, ``None`` for none."""
        tables = self.asks
        if tables is None:
            return None
        key = entry.name, principal.profile
        if key not in tables:
            profile = self.policy.profiles.get(principal.profile or "", _GONE)
            tables[key] = Asks.of(
                entry.approval or self.policy.approval,
                trusted=entry.trusted,
                ask=entry.ask,
                profile=profile.approval,
            )
        return tables[key]

    def not_found(
        self, name: str, scope: Scope = EVERYTHING, workspace: str | None = None
    ) -> Failure:
        """Say that no server has this name, and which have one like it that may be used."""
        known = (entry.shown_name for entry in self.views.of(workspace).values())
        near = self.ctx.suggest(name, filter(scope.has, known))
        hint = f"did you mean {' or '.join(near)}?" if near else "mcpctl list shows the servers"
        return Failure(
            "server_not_found", f"there is no server {name!r}", name, False, hint, {"near": near}
        )

    def catalog_of(self, name: str) -> Catalog:
        """Return what a server last listed, running or not."""
        entry = self.entries.get(name)
        if entry is None:
            return Catalog()
        shared = self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.catalog
        known = self.memory.get(entry.launch)
        return entry.catalog if known is None else known.newest

    def catalog_for(self, name: str, client: ClientInfo | None) -> Catalog:
        """Return what a server last listed for a client, ``None`` for us; nothing if never asked.

        What a server with processes of its own for each client listed for any of them counts for
        all.
        """
        entry = self.entries.get(name)
        if entry is None or client is None or entry.sharing is not Sharing.SHARED:
            return self.catalog_of(name)
        shared = self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.client_lists.catalog_for(client)
        return self.known(entry).catalog_for(entry, client)

    def tool_for(self, name: str, client: ClientInfo | None, tool: str) -> Item | None:
        """Return a tool of a server as a client gets it, for what depends on its definition."""
        entry = self.entries.get(name)
        shared = None if entry is None else self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.client_lists.tool_for(client, tool)
        return self.catalog_for(name, client).tool(tool) or self.catalog_of(name).tool(tool)

    def client_of(self, session: Session, who: object) -> ClientInfo | None:
        """Return for whom a server is asked, as it is told: ``None`` for a control call, for us."""
        client_info = (
            session.legacy_client_info(who) if isinstance(who, ClientRequest) else session.speaker()
        )
        if client_info is None or session.server is not None:
            return client_info
        return modern.without_tasks(client_info)

    def aggregate_of(self, request: ClientRequest) -> Aggregate:
        """Return all servers' lists as the client of a request is shown them."""
        return self.aggregate_for(self.client_of(request.session, request), request.session)

    def aggregate_for(self, client: ClientInfo | None, session: Session) -> Aggregate:
        """Return all servers' lists as a client is shown them, ours where its own are unknown.

        What it may use, and which servers it knows, are those of its session.
        """
        if client is None:
            return self.shown.ours(session.workspace)
        return self.shown.for_client(client, self.scope_of(session.principal), session.workspace)

    def servers_of(self, session: Session) -> list[str]:
        """Return the servers that are part of the aggregate for a session, in config order."""
        servers = self.shown.ours(session.workspace).servers()
        scope = self.scope_of(session.principal)
        return [name for name in servers if scope.has(self.entries[name].shown_name)]

    def configure(self, entries: Iterable[Entry]) -> None:
        """Take over all entries, in their order, for sessions and for the aggregate."""
        self.entries = {entry.name: entry for entry in entries}
        self.views = Views(self.entries.values())
        self.shown.configure(self.views)
        self._filters.clear()
        self._scopes.clear()
        policy, entries = self.policy, self.entries.values()
        is_asked = (
            policy.approval != "auto"
            or any(profile.approval != "auto" for profile in policy.profiles.values())
            or any(entry.ask or entry.approval not in (None, "auto") for entry in entries)
        )
        self.asks = {} if is_asked else None
        rates = [policy.client_rate, *(entry.rate for entry in entries)]
        rates += [profile.rate for profile in policy.profiles.values()]
        self.has_rates = any(rates)

    def introduction_of(self, name: str) -> Introduction | None:
        """Return what a server last said of itself."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        shared = self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.introduction
        known = self.memory.get(entry.launch)
        if known is not None:
            return known.introduction
        said = (own.introduction for own in self.upstreams_of(name))  # nobody shares these
        return next((each for each in said if each is not None), entry.introduction)

    def upstreams_of(self, name: str) -> list[Upstream]:
        """Return the processes, or places for one, that a server has."""
        entry = self.entries.get(name)
        if entry is None:
            return []
        prefix = entry.launch + "@"
        return [
            upstream
            for slot, upstream in self.upstreams.items()
            if slot == entry.launch or slot.startswith(prefix)
        ]

    # -- processes, and slots for them ------------------------------------------------------------

    def lister(self, session: Session, name: str) -> Upstream | None:
        """Return the process whose lists of a server a session sees; none is made for that."""
        own = session.upstreams.get(name)
        entry = self.entries.get(name)
        if own is not None or entry is None:
            return own
        return self.upstreams.get(slot_of(entry, control_key(entry, session.workspace)))

    def is_wanted(self, upstream: Upstream) -> bool:
        """Tell whether an entry asks for processes of this launch that are shared like this."""
        key = self.keys.get(upstream.slot)
        kind = None if key is None else key.partition(":")[0]
        return any(
            entry.launch == upstream.entry.launch
            and entry.unavailable is None
            and kind in KEY_KINDS[entry.sharing]
            for entry in self.entries.values()
        )

    def is_right(self, upstream: Upstream, session: Session, entry: Entry) -> bool:
        """Tell whether a session's process is still the one that its entry asks for."""
        if upstream.entry.launch != entry.launch:
            return False
        key = self.keys.get(upstream.slot)
        return key is None if entry.sharing is Sharing.SHARED else key == key_of(session, entry)

    def has_left(self, upstream: Upstream) -> bool:
        """Tell whether another place has taken over from this one, or none."""
        return self.upstreams.get(upstream.slot) is not upstream

    def at(self, slot: SlotId) -> Upstream | None:
        """Return who speaks from a place, though it may be about to close."""
        found = self.upstreams.get(slot)
        if found is None and slot in self.retiring:
            found = self.retiring[slot][0]
        return found

    def all_upstreams(self) -> list[Upstream]:
        """Return all places, those about to close included."""
        return [*self.upstreams.values(), *(upstream for upstream, _ in self.retiring.values())]

    def recall_lists(self, upstream: Upstream) -> None:
        """Let a process that is one client's alone begin with lists that hold for that client."""
        upstream.recall_lists(self.known(upstream.entry))

    def known(self, entry: Entry) -> Known:
        """Return what is known of a launch, from its last process or from the disk."""
        return self.memory.get(entry.launch) or Known(
            entry.introduction,
            entry.catalog,
            entry.verdict,
            entry.has_asked,
            entry.capabilities,
            entry.of_clients,
        )

    def definitions_of(self, name: str) -> Definitions | None:
        """Return what judges the definitions of a server; ``None`` where nothing does."""
        entry = self.entries.get(name)
        return None if entry is None else self.definitions.of(entry)

    def pin_refusal(self, server: str, leg: UpstreamRequest) -> Failure | None:
        """Return why a request may not use what it names, since nobody approved it; or ``None``."""
        if not self.definitions.is_holding:
            return None
        definitions = self.definitions_of(server)
        return None if definitions is None else held_refusals.refusal_of(definitions.approved, leg)

    def recall(self, entry: Entry) -> None:
        """Judge what is known from the disk of a server that is new to us."""
        definitions = self.definitions.of(entry)
        if definitions is None or entry.launch in self.memory or not entry.catalog.lists:
            return
        if SlotId(entry.launch) not in self.upstreams:
            self.memory[entry.launch] = judged(definitions, self.known(entry))

    def may_have_listed(self, entry: Entry | None, kind: Kind) -> bool:
        """Tell whether a server's sessions can have been told that it has this list."""
        known = self.memory.get(entry.launch) if entry is not None else None
        return (
            known is None or known.introduction is None or known.introduction.has(kind.capability)
        )

    def remember(self, upstream: Upstream) -> None:
        """Keep what a process said and listed, for its next process and for sessions without one.

        It may have read fewer lists than others before it: theirs stay known.
        """
        known = upstream.known().after(self.known(upstream.entry))
        self.memory.pop(upstream.entry.launch, None)  # the newest is the last
        self.memory[upstream.entry.launch] = known

    def is_abandoned(self, upstream: Upstream) -> bool:
        """Tell whether it was the process of a session that has another one now, or none."""
        return self.is_private(upstream) and not upstream.calls.usage.users

    def is_private(self, upstream: Upstream) -> bool:
        key = self.keys.get(upstream.slot)
        return key is not None and key.startswith("session:")

    # -- sessions -------------------------------------------------------------------------------

    def open_session(self, session: Session) -> None:
        """The connection is a session from now on."""
        session.is_session = True
        if session.is_brief:
            return
        self.ctx.tell(
            SessionOpened(session.id, session.server, session.label, session.principal.label)
        )

    def introduce(self, session: Session, client: ClientInfo) -> None:
        """Call a session what its client calls itself."""
        name = client.name
        if name is None:
            return
        session.client = name
        if not (session.has_introduced_itself or session.is_brief):
            session.has_introduced_itself = True
            self.ctx.tell(SessionNamed(session.id, session.server, session.label or name))

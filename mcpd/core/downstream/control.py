"""Control requests that need servers: calls, lists, reads and prompts, for people and scripts."""

from __future__ import annotations

from functools import partial

import msgspec

from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.resource_owners import ResourceOwners
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.events import CallTool, GetPrompt, ListItems, ReadResource
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest
from mcpd.core.state.held_names import held_name
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope

_KINDS = {kind.value: kind for kind in Kind}
_NO_ARGUMENTS = b"{}"


class ControlRequests:
    """Serves ``mcpd/call``, ``mcpd/tools``, ``mcpd/read`` and the like."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        admission: Admission,
        served: ListRequests,
        owners: ResourceOwners,
    ) -> None:
        self._state = state
        self._slots = slots
        self._admission = admission
        self._list_requests = served
        self._resource_owners = owners

    # -- calls -----------------------------------------------------------------------------------

    def call(self, event: CallTool) -> None:
        """Call a tool; its arguments are checked against its schema first."""
        request = self._request(event)
        if request is None:
            return
        event = request.event
        if isinstance(self._state.entry(event.server), Entry) and event.timeout is not None:
            act = partial(self._time_out, request, event, event.timeout)
            request.timer = self._state.ctx.after(event.timeout, act)
        self._call(request)

    def _call(self, request: ClientRequest) -> None:
        event: CallTool = request.event
        entry = self._entry(request, event.server)
        if entry is None:
            return
        upstream = self._slots.control_upstream(entry, request.session.workspace)
        if upstream.catalog.tool(event.tool) is not None:
            self._call_known(request, entry)
        else:
            Waiting(self._state, request, upstream, self._refresh, self._call).for_start()

    def _refresh(self, request: ClientRequest, upstream: Upstream) -> None:
        """Have the tools read again if they may have changed: the one that is called is not one."""
        waiting = Waiting(self._state, request, upstream, self._decide, self._call)
        waiting.for_fresh(Kind.TOOLS, upstream.lists)

    def _decide(self, request: ClientRequest, upstream: Upstream) -> None:
        event: CallTool = request.event
        if self._state.has_left(upstream) or not upstream.is_ready:
            self._call(request)
            return
        entry = self._entry(request, event.server)
        if entry is None:
            return
        if upstream.catalog.tool(event.tool) is not None:
            self._call_known(request, entry)
        else:
            held = None
            if entry.filter.may_show(event.tool):
                held = held_name(self._state, entry.name, Kind.TOOLS, event.tool)
            missing = self._admission.tool_not_found(entry.name, event.tool, entry.filter)
            request.refuse(held or missing)

    def _call_known(self, request: ClientRequest, entry: Entry) -> None:
        event: CallTool = request.event
        arguments = event.arguments or _NO_ARGUMENTS
        params = b'{"name":%b,"arguments":%b}' % (envelope.quote(event.tool), arguments)
        self._send(request, entry, "tools/call", params, event.tool)

    def _time_out(self, request: ClientRequest, event: CallTool, timeout: float) -> None:
        """Give a call up whose whole time is over."""
        leg = request.leg
        holder = None if leg is None else leg.holder
        meanwhile = "" if leg is None or holder is None else holder.meanwhile(leg)
        what = f"{event.server}.{event.tool} did not answer within"
        failure = Failure(
            kind="call_timeout",
            message=f"{what} {timeout:g} s (timeout){meanwhile}",
            server=event.server,
            hint="--timeout S gives it more time",
            details={
                "limit": "timeout",
                "seconds": timeout,
                "outcome_unknown": leg is not None and leg.is_written,
            },
        )
        if leg is None or holder is None:
            request.refuse(failure)
        else:
            reason = envelope.quote(f"timeout of {timeout:g} s")
            holder.end(leg, Outcome(End.TIMED_OUT, failure=failure, reason=reason))

    # -- lists -----------------------------------------------------------------------------------

    def lists(self, event: ListItems) -> None:
        """Answer with everything of some kinds, of one server or of all."""
        request = self._request(event)
        if request is None:
            return
        event = request.event
        session, kinds = request.session, [_KINDS[name] for name in event.kinds]
        gather = self._list_requests.gather
        if event.server is None:
            gather(session, request, kinds, self._answer_lists, is_fresh=True)
            return
        usable = self._state.entry(event.server)
        entry = self._state.entries.get(event.server)
        if entry is None or (isinstance(usable, Failure) and usable.kind != "server_stopped"):
            failure = usable if isinstance(usable, Failure) else None
            request.refuse(failure or self._state.not_found(event.server))
            return
        if isinstance(usable, Failure):  # it is held: what it listed before is known
            self._answer_lists(request)
            return
        name, failed = entry.name, list[Failure]()

        def listed(request: ClientRequest) -> None:
            now = self._state.entry(name)
            failure = now if isinstance(now, Failure) else next(iter(failed), None)
            if failure is not None:
                request.refuse(failure)
            else:
                self._answer_lists(request)

        gather(session, request, kinds, listed, (name,), failed, is_fresh=True)

    def _answer_lists(self, request: ClientRequest) -> None:
        event: ListItems = request.event
        server, kinds = event.server, [_KINDS[name] for name in event.kinds]
        session = request.session
        names = self._state.servers_of(session) if server is None else [server]
        members = []
        for kind in kinds:
            items = (raw for name in names for raw in self._described(session, name, kind))
            members.append(b'"%b":[%b]' % (kind.key.encode(), b",".join(items)))
        missing = self._missing(session, kinds, server)
        if missing:
            members.append(b'"missing":[%b]' % b",".join(map(envelope.quote, missing)))
        request.reply(b"{" + b",".join(members) + b"}")

    def _missing(self, session: Session, kinds: list[Kind], server: str | None) -> list[str]:
        """Return the servers of which a list is not known, that may have one: none disabled."""
        known = self._state.views.of(session.workspace)
        asked = (
            [e for e in known.values() if e.is_listed]
            if server is None
            else [self._state.entries[server]]
        )
        return [
            entry.shown_name
            for entry in asked
            if (entry.unavailable is None or entry.unavailable.kind != "server_disabled")
            and any(self._is_unknown(entry.name, kind) for kind in kinds)
        ]

    def _is_unknown(self, server: str, kind: Kind) -> bool:
        is_known = self._state.catalog_of(server).get(kind) is not None
        return not is_known and self._list_requests.has(server, kind.capability)

    def _described(self, session: Session, server: str, kind: Kind) -> list[bytes]:
        listing = self._state.catalog_of(server).get(kind)
        entry = self._state.entries[server]
        if listing is None:
            return []
        if kind is Kind.TOOLS:
            listing = entry.filter.apply(listing)
        names = self._state.shown.ours(session.workspace).qualified(server, kind)
        where = b'"server":' + envelope.quote(entry.shown_name)
        described = []
        for item in listing.items:
            own = where
            if item.identity in names:
                own += b',"qualified_name":' + envelope.quote(names[item.identity])
            body = item.raw.strip()[1:-1].strip()  # first: of two equal members the last one counts
            described.append(b"{" + body + (b"," if body else b"") + own + b"}")
        return described

    # -- reads and prompts -------------------------------------------------------------------------

    def read(self, event: ReadResource) -> None:
        """Read a resource of a server, or of whichever has it."""
        request = self._request(event)
        if request is None:
            return
        event = request.event
        if event.server is None:
            self._resource_owners.by_uri(request, event.uri, self._read_at)
            return
        entry = self._entry(request, event.server)
        if entry is not None:
            self._read_at(request, entry)

    def _read_at(self, request: ClientRequest, entry: Entry) -> None:
        event: ReadResource = request.event
        self._send(request, entry, "resources/read", b'{"uri":%b}' % envelope.quote(event.uri))

    def prompt(self, event: GetPrompt) -> None:
        """Get a prompt of a server."""
        request = self._request(event)
        entry = None if request is None else self._entry(request, request.event.server)
        if request is None or entry is None:
            return
        params = b'{"name":%b' % envelope.quote(event.name)
        params += b',"arguments":%b}' % event.arguments if event.arguments is not None else b"}"
        self._send(request, entry, "prompts/get", params)

    # -- inside ------------------------------------------------------------------------------------

    def _request(
        self, event: CallTool | ListItems | ReadResource | GetPrompt
    ) -> ClientRequest | None:
        """Return the request of an event, with the event for the server that is meant there.

        Where there is none of that name the request is refused, and ``None`` returned.
        """
        session = self._state.sessions.get(event.session)
        request = None if session is None else session.requests.get(event.key)
        if session is None or request is None:
            return None
        request.event = event
        if event.server is not None:
            meant = self._state.views.named(event.server, session.workspace)
            if meant is None:
                request.refuse(self._state.not_found(event.server, workspace=session.workspace))
                return None
            request.event = msgspec.structs.replace(event, server=meant.name)
        return request

    def _entry(self, request: ClientRequest, name: str) -> Entry | None:
        entry = self._state.entry(name)
        if isinstance(entry, Failure):
            request.refuse(entry)
            return None
        return entry

    def _send(
        self,
        request: ClientRequest,
        entry: Entry,
        method: str,
        params: bytes,
        tool: str | None = None,
    ) -> None:
        session, rule = request.session, CLIENT_REQUESTS[method]
        leg = UpstreamRequest(session.id, rule, params, request, entry, None, tool)
        leg.timeout = entry.call_timeout or self._state.ctx.settings.control_timeout
        leg.kept, leg.key = request, request.key
        leg.wants_progress = isinstance(request.event, CallTool) and request.event.wants_progress
        request.leg = leg
        self._admission.send_to(leg, session, entry)

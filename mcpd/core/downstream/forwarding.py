"""Requests that a server answers: found by name, by URI or by endpoint, and sent on."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.resource_owners import ResourceOwners
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.failures import not_found
from mcpd.core.mcp import codes, modern, modern_meta
from mcpd.core.mcp.input_required import without_input_responses
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.held_names import held_in_aggregate
from mcpd.core.state.session import ClientRequest
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.upstream import own_info
from mcpd.core.wire import envelope, progress

_PROMPT_REF: Final = "ref/prompt"
_TEXTS: Final = ("name", "uri")


class Forwarding:
    """Sends requests of sessions to servers, so that each gets its one answer."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        admission: Admission,
        *,
        served: ListRequests,
        owners: ResourceOwners,
        parked: ParkedCalls,
    ) -> None:
        self._state = state
        self._slots = slots
        self._admission = admission
        self._list_requests = served
        self._resource_owners = owners
        self._parked_calls = parked

    # -- tools and prompts -----------------------------------------------------------------------

    def call(self, request: ClientRequest) -> None:
        """Send a ``tools/call`` to the session's server, or to the one whose tool it names."""
        name = envelope.text(request.found.name)
        if name is None:
            request.reject(codes.INVALID_PARAMS, "name must be a string")
            return
        server = request.session.server
        if server is None:
            self._by_name(request, Kind.TOOLS, name)
            return
        entry = self._state.entry(server)
        if isinstance(entry, Failure):
            self._refuse(request, server, entry)
        else:
            self._forward(request, entry, request.params, name)

    def prompt(self, request: ClientRequest) -> None:
        """Send a ``prompts/get`` to the session's server, or to the one whose prompt it names."""
        if request.session.server is not None:
            self.forward_own(request)
            return
        name = envelope.text(request.found.name)
        if name is None:
            request.reject(codes.INVALID_PARAMS, "name must be a string")
        else:
            self._by_name(request, Kind.PROMPTS, name)

    def _by_name(self, request: ClientRequest, kind: Kind, qualified: str) -> None:
        """Send a request of the aggregate to the server whose tool or prompt it names.

        Where none is known to have it, those that may are asked first.
        """
        if self._send_by_name(request, kind, qualified):
            return
        aggregate = self._state.aggregate_of(request)
        failed: list[Failure] = []

        def gathered(request: ClientRequest) -> None:
            if self._send_by_name(request, kind, qualified):
                return
            if failed:
                request.refuse(failed[0])
                return
            names = self._state.aggregate_of(request).names(kind)
            near = self._state.ctx.suggest(qualified, names)
            held = held_in_aggregate(self._state, kind, qualified, request.session)
            request.refuse(held or not_found(None, qualified, near, kind))

        candidates = aggregate.candidates(qualified)
        self._list_requests.gather(
            request.session, request, (kind,), gathered, candidates, failed, is_fresh=True
        )

    def _send_by_name(self, request: ClientRequest, kind: Kind, qualified: str) -> bool:
        """Send a request on if a server is known for its name; tell whether one is."""
        route = self._state.aggregate_of(request).route(kind, qualified)
        if route is None or request.params is None:
            return False
        server, name = route
        entry = self._state.entry(server)
        params = Raw(progress.with_member(request.params, "name", envelope.quote(name)))
        if isinstance(entry, Failure):
            self._refuse(request, server, entry, params)
        else:
            self._forward(request, entry, params, name if kind is Kind.TOOLS else None)
        return True

    # -- resources, completions and tasks ----------------------------------------------------------

    def read(self, request: ClientRequest) -> None:
        """Send a ``resources/read`` to the owner of its URI."""
        if request.session.server is not None:
            self.forward_own(request)
        else:
            uri = envelope.text(request.found.uri)
            self._resource_owners.by_uri(request, uri, self._read_at, self._refuse)

    def _read_at(self, request: ClientRequest, entry: Entry) -> None:
        self._forward(request, entry, request.params)

    def complete(self, request: ClientRequest) -> None:
        """Send a ``completion/complete`` where its reference leads."""
        if request.session.server is not None or request.params is None:
            self.forward_own(request)
            return
        ref, kind = self._reference(request), Kind.PROMPTS
        if envelope.text(ref.get("type", UNSET)) != _PROMPT_REF:
            uri = envelope.text(ref.get("uri", UNSET))
            self._resource_owners.by_uri(request, uri, self._read_at, template=True)
            return
        name = envelope.text(ref.get("name", UNSET)) or ""
        is_unknown = self._state.aggregate_of(request).route(kind, name) is None
        gather = self._list_requests.gather
        gather(request.session, request, (kind,), self._complete_prompt, is_fresh=is_unknown)

    def _reference(self, request: ClientRequest) -> dict[str, Raw]:
        raw = request.found.ref
        return (envelope.object_of(raw) if raw is not UNSET else None) or {}

    def _complete_prompt(self, request: ClientRequest) -> None:
        aggregate, params, raw = (
            self._state.aggregate_of(request),
            request.params,
            request.found.ref,
        )
        qualified = envelope.text(self._reference(request).get("name", UNSET)) or ""
        route = aggregate.route(Kind.PROMPTS, qualified)
        if route is None or params is None or raw is UNSET:
            near = self._state.ctx.suggest(qualified, aggregate.names(Kind.PROMPTS))
            request.refuse(not_found(None, qualified, near, Kind.PROMPTS))
            return
        entry = self._state.entry(route[0])
        if isinstance(entry, Failure):
            request.refuse(entry)
            return
        own = progress.with_member(raw, "name", envelope.quote(route[1]))
        self._forward(request, entry, Raw(progress.with_member(params, "ref", own)))

    def task(self, request: ClientRequest) -> None:
        """Pass on what belongs to the tasks extension, where the server has it."""
        server = request.session.server
        known = None if server is None else self._state.introduction_of(server)
        if known is not None and modern.has_tasks(known):
            self.forward_own(request)
            return
        name = server or "the aggregate"
        failure = Failure(
            kind="unsupported",
            message=f"{name} has no tasks: they are passed on between modern peers alone",
            server=server,
            hint="attach to the server's own endpoint" if server is None else None,
        )
        request.refuse(failure, codes.METHOD_NOT_FOUND)

    # -- sending ---------------------------------------------------------------------------------

    def forward_own(self, request: ClientRequest) -> None:
        """Send a request to the session's own server."""
        server = request.session.server or ""
        entry = self._state.entry(server)
        if isinstance(entry, Failure):
            self._refuse(request, server, entry)
            return
        method = request.method
        if method.capability is not None and not self._list_requests.has(
            entry.name, method.capability
        ):
            request.reject(codes.METHOD_NOT_FOUND, f"{entry.name} has no {method.capability}")
            return
        for name in method.required:
            if name in _TEXTS and envelope.text(getattr(request.found, name)) is None:
                request.reject(codes.INVALID_PARAMS, f"{name} must be a string")
                return
        self._forward(request, entry, request.params)

    def _forward(
        self, request: ClientRequest, entry: Entry, params: Raw | None, tool: str | None = None
    ) -> None:
        """Make the request to the server, and have it sent unless it continues a parked call."""
        session = request.session
        client_info, token = request.client_info, request.token
        if client_info is None:
            client_info = own_info.allowed(entry, session.client_info)
            if request.found.meta is not UNSET:
                token = token_of(request.found.meta)
        else:
            able = client_info if session.server is not None else modern.without_tasks(client_info)
            able = own_info.allowed(entry, able)
            if able is not client_info:
                client_info = able
                params = Raw(modern_meta.with_envelope(params, client_info))
        if token is not None and len(token) > envelope.ID_BYTES:
            why = f"progressToken has more than {envelope.ID_BYTES} bytes"
            request.reject(codes.INVALID_PARAMS, why)
            return
        method = request.method
        leg = UpstreamRequest(session.id, method, params, request, entry, token, tool)
        leg.client_info = client_info
        leg.kept, leg.key = request, request.key
        if token is not None:
            leg.wants_progress = True
        if client_info.answers and method.is_input_capable:
            leg.is_asking = True
        if request.client_info is not None:
            leg.is_modern = True
            if self._is_retry(request, entry, leg):
                return
        request.leg = leg
        self._admission.send_to(leg, session, entry)

    def _is_retry(self, request: ClientRequest, entry: Entry, leg: UpstreamRequest) -> bool:
        """Have a parked call take its retry; tell whether it was one, or is not admitted."""
        if leg.params is None or not _may_be_retry(request):
            return False
        denied = self._admission.admit(leg, request.session, entry)
        if isinstance(denied, Failure):
            request.refuse(denied)
            return True
        upstream = self._slots.upstream_for(request.session, entry)
        params, parked = Raw(leg.params), self._parked_calls
        if parked.retry(request, entry.name, upstream, params, leg.token, leg):
            return True
        if parked.is_handle(request.found):  # what was asked was ours, and no server knows of it
            leg.params = Raw(without_input_responses(params) or b"{}")
        return False

    def _refuse(
        self, request: ClientRequest, server: str, failure: Failure, params: Raw | None = None
    ) -> None:
        """Say why a server cannot be used, unless the outcome of a parked call is fetched."""
        params = params or request.params
        if (
            request.client_info is None
            or params is None
            or not _may_be_retry(request)
            or not self._parked_calls.retry(request, server, None, params, None)
        ):
            request.refuse(failure)


def _may_be_retry(request: ClientRequest) -> bool:
    return request.found.state is not UNSET or request.found.answers is not UNSET


def token_of(meta: Raw) -> bytes | None:
    """Return the progress token in a ``_meta``, as it came."""
    raw = (envelope.object_of(meta) or {}).get("progressToken")
    if raw is None or bytes(raw) == b"null":
        return None
    return bytes(raw)  # whatever it is: upstream it could be taken for one of ours

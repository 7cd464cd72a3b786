"""What sessions ask in MCP, in either era, and which rule each request follows."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.downstream.client_subscriptions import ClientSubscriptions
from mcpd.core.downstream.forwarding import Forwarding, token_of
from mcpd.core.downstream.initialize import Initialize
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.mcp import codes, modern_meta, shapes
from mcpd.core.mcp.client_info import CLIENT_INFO_BYTES, ClientInfo
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method, Route
from mcpd.core.mcp.versions import NEWEST_MODERN
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.wire import envelope, progress
from mcpd.core.wire.envelope import Params
from mcpd.core.wire.scan import MOST_PARTS

_TOOLS_CALL: Final = CLIENT_REQUESTS["tools/call"]


class RequestRouter:
    """Routes the requests of sessions; each rule is a few lines that end in an answer."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        *,
        served: ListRequests,
        settings: SessionSettings,
        forward: Forwarding,
        listens: ClientSubscriptions,
    ) -> None:
        self._state = state
        self._list_requests = served
        self._settings = settings
        self._forward = forward
        self._client_subscriptions = listens
        self._initialize = Initialize(state, slots, self.request)

    def request(self, request: ClientRequest, name: str, raw: envelope.Bytes) -> None:
        """Answer an MCP request, now or later, exactly once."""
        method = CLIENT_REQUESTS.get(name)
        if raw is not UNSET and not (len(raw) == 4 and bytes(raw) == b"null"):
            found = envelope.params_of(raw)
            if found is None:
                why = "params must be an object"
                if len(raw) > envelope.LARGE_BYTES:  # it may be one
                    why += f" of at most {MOST_PARTS} members"
                request.reject(codes.INVALID_PARAMS, why)
                return
            request.params, request.found = raw, found
            session = request.session
            if (
                method is _TOOLS_CALL
                and found.meta is UNSET
                and found.task is UNSET
                and found.name is not UNSET
                and shapes.is_object(found.arguments)
                and session.version is not None
                and not session.is_opening
            ):  # the usual call, past the rest
                request.method = method
                self._forward.call(request)
                return
            if found.meta is not UNSET and not self._read_envelope(request, found.meta):
                return
        if request.client_info is not None:
            self._request_modern(request, name, method)
        else:
            self._request_legacy(request, name, method)

    def _read_envelope(self, request: ClientRequest, meta: Raw) -> bool:
        """Read who asks from a modern request; tell whether it can be answered."""
        session = request.session
        if len(meta) > CLIENT_INFO_BYTES:
            request.reject(codes.INVALID_PARAMS, f"_meta has more than {CLIENT_INFO_BYTES} bytes")
            return False
        try:
            client_info = _client_info(session, meta)
        except modern_meta.EnvelopeRefused as refusal:
            if refusal.data is None:
                request.reject(refusal.code, refusal.message)
            else:  # what the specification says is in it
                error = codes.plain_error(refusal.code, refusal.message, refusal.data)
                request.pass_error(error)
            return False
        if client_info is not None:
            session.take_client_info(request, client_info)
            if not session.is_modern:
                session.is_modern = True
                self._state.introduce(session, client_info)
            request.token = session.envelope[2]
        return True

    def _request_modern(self, request: ClientRequest, name: str, method: Method | None) -> None:
        if method is None or not method.is_modern:
            why = f"there is no method {name!r} in revision {NEWEST_MODERN}"
            request.reject(codes.METHOD_NOT_FOUND, why)
            return
        request.method = method
        if method.route is Route.DISCOVER:
            self._initialize.discover(request)
        elif self._is_whole(request, method):
            self._route(request)

    def _request_legacy(self, request: ClientRequest, name: str, method: Method | None) -> None:
        session, params = request.session, request.params
        if method is not None and not method.is_legacy and session.version is None:
            self._reject_without_version(request, name)
            return
        if method is None or not method.is_legacy:
            request.reject(codes.METHOD_NOT_FOUND, f"unknown method {name!r}")
            return
        request.method = method
        if method.route is Route.PING:
            request.reply(b"{}")
        elif method.route is Route.INITIALIZE:
            self._initialize.initialize(request)
        elif session.is_opening:
            session.backlog[request] = (name, UNSET if params is None else params)
            request.leave = partial(session.backlog.pop, request, None)
        elif session.version is None and _means_to_be_modern(session, request.found):
            self._reject_without_version(request, name)
        elif session.version is None:
            why = "the session is not initialized: send initialize first"
            request.reject(codes.INVALID_REQUEST, why)
        elif self._is_whole(request, method):
            if request.found.task is not UNSET and params is not None:
                request.params = Raw(progress.without(params, "task"))  # tasks are not relayed
            self._route(request)

    def _reject_without_version(self, request: ClientRequest, name: str) -> None:
        why = f"{name} needs {modern_meta.VERSION_KEY!r} in the _meta of its params"
        request.reject(codes.INVALID_PARAMS, why)

    def _is_whole(self, request: ClientRequest, method: Method) -> bool:
        """Tell whether a request has the parameters that it needs; else it is rejected."""
        found = request.found
        for name in method.required:
            value = getattr(found, name)
            if value is UNSET or (len(value) == 4 and bytes(value) == b"null"):
                why = f"{method.name} needs {_spelling(name)!r} in its params"
                request.reject(codes.INVALID_PARAMS, why)
                return False
        wrong = shapes.find_problem(method.name, found)
        if wrong is not None:
            request.reject(codes.INVALID_PARAMS, wrong)
        return wrong is None

    def _route(self, request: ClientRequest) -> None:
        server, capability = request.session.server, request.method.capability
        if server is not None and capability is not None:
            scope = self._state.scope_of(request.session.principal)
            if scope.lacks(capability):
                request.reject(codes.METHOD_NOT_FOUND, f"{server} has no {capability}")
                return
        match request.method.route:
            case Route.TOOL:
                self._forward.call(request)
            case Route.LIST:
                self._list_requests.answer(request)
            case Route.PROMPT:
                self._forward.prompt(request)
            case Route.READ:
                self._forward.read(request)
            case Route.REFERENCE:
                self._forward.complete(request)
            case Route.LEVEL:
                self._settings.set_level(request)
            case Route.SUBSCRIBE | Route.UNSUBSCRIBE:
                self._settings.subscribe(request)
            case Route.LISTEN:
                self._client_subscriptions.open(request)
            case Route.TASK:
                self._forward.task(request)


def _means_to_be_modern(session: Session, found: Params) -> bool:
    if session.is_modern:
        return True
    meta = envelope.object_of(found.meta) if found.meta is not UNSET else None
    return not modern_meta.ENVELOPE_KEYS.isdisjoint(meta or ())


def _client_info(session: Session, meta: Raw) -> ClientInfo | None:
    """Read the envelope of a request; ``None`` where it has none. Most are like the last one.

    Raises:
        EnvelopeRefused: the client's fault.
    """
    raw = bytes(meta)
    if raw == session.envelope[0]:
        return session.envelope[1]
    client_info = modern_meta.read_envelope(meta)
    if client_info is not None:
        session.envelope = (raw, client_info, token_of(meta))
    return client_info


def _spelling(field: str) -> str:
    return "taskId" if field == "task_id" else field

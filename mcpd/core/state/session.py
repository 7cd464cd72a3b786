"""One downstream connection, and the requests of its client that have no answer yet.

Both classes are in one module, though it is long: a session and its requests hold each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, Raw, UnsetType

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure, FrameRejected
from mcpd.core.interface.commands import KeepSession, SessionState, ToSession
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.entries import Entry, Policy
from mcpd.core.interface.events import CallTool, GetPrompt, ReadResource
from mcpd.core.interface.failures import MOST_FOLLOWED, no_room, with_details
from mcpd.core.mcp import codes
from mcpd.core.mcp.client_info import UNKNOWN_CLIENT, ClientInfo
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS, Method, Route
from mcpd.core.mcp.versions import MAY_OMIT_ID
from mcpd.core.requests import call_facts
from mcpd.core.requests.inflight import End, Outcome, Recipient, UpstreamRequest
from mcpd.core.requests.rate_limits import Limit
from mcpd.core.state.batch import Batch
from mcpd.core.state.change_throttle import ChangeThrottle
from mcpd.core.state.client_subscription import ClientSubscription
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope, progress
from mcpd.core.wire.envelope import Params
from mcpd.core.wire.memory import RequestMemory, Share
from mcpd.ids import SessionId
from mcpd.principal import Principal

_KINDS_OF_CODES = {
    codes.METHOD_NOT_FOUND: "unknown_method",
    codes.INVALID_PARAMS: "invalid_params",
}
_NO_PARAMS = Params()
_METHODS: Final[dict[type[object], str]] = {
    CallTool: "tools/call",
    GetPrompt: "prompts/get",
    ReadResource: "resources/read",
}
"""What control requests ask of servers in MCP."""


class ClientRequest(RequestMemory, Recipient):
    """One request of a client, MCP's or a control request, until it has its one answer.

    ``ident`` is its id as it came, ``key`` what makes two spellings of it equal. ``client_info``
    is what a modern request says of its client, ``token`` the progress token in that. Its answer
    is a part of ``batch``, where there is one. ``leg`` is the request to a server that was made of
    it. ``leave`` takes it out of whatever it waits for.

    ``end`` gives back the memory that is counted for it, unless a parked call, a subscription or
    a check of arguments keeps that.
    """

    __slots__ = (
        "batch",
        "client_info",
        "event",
        "found",
        "ident",
        "is_control",
        "is_over",
        "key",
        "leave",
        "leg",
        "method",
        "params",
        "session",
        "timer",
        "token",
    )

    def __init__(self, session: Session, ident: bytes, key: bytes) -> None:
        self.share: Share | None = None
        self.session = session
        self.ident = ident
        self.key = key
        self.method: Method
        """What MCP says of it, once it is known; not of control requests."""
        self.params: Raw | None = None
        self.found = _NO_PARAMS
        """What was read of its parameters."""
        self.event: Any = None
        """The event of a control request that the mux answers."""
        self.leave: Callable[[], object] | None = None
        self.is_over = False
        self.is_control = False
        self.leg: UpstreamRequest | None = None
        self.client_info: ClientInfo | None = None
        self.token: bytes | None = None
        self.batch: Batch | None = None
        self.timer: Timer | None = None

    # -- the answer ------------------------------------------------------------------------------

    def reply(self, result: Raw | bytes) -> None:
        """Answer with a result."""
        self.end()
        self._send(envelope.result(self.ident, result))

    def reply_in_parts(self, parts: tuple[bytes, ...]) -> None:
        """Answer with a result in parts, which are not copied unless it is in a batch."""
        if self.batch is not None or sum(map(len, parts)) <= envelope.LARGE_BYTES:
            self.reply(b"".join(parts))
            return
        self.end()
        line = envelope.result_of_parts(self.ident, parts)
        self.session.ctx.emit(ToSession(self.session.id, line, False, self.key, True))

    def pass_error(self, error: Raw | bytes) -> None:
        """Answer with an error as it is: a server's own, or one that the specification names."""
        self._fail(Outcome(End.REFUSED, error=error), error)

    def refuse(self, failure: Failure, code: int | None = None) -> None:
        """Answer with an error of ours."""
        outcome = Outcome(End.REFUSED, failure=failure)
        self._fail(outcome, codes.error_object(failure, code), failure.server)

    def _fail(self, outcome: Outcome, error: Raw | bytes, named: str | None = None) -> None:
        if self.session.ctx.tells_calls and not self.is_over:
            self._tell_unsent(outcome, named)
        self.end()
        self._send(envelope.error(self.ident, error))

    def reject(self, code: int, why: str) -> None:
        """Answer a request that its client should not have sent like this."""
        session = self.session
        session.ctx.tell(FrameRejected(session.id, why, session.label))
        self.refuse(Failure(_KINDS_OF_CODES.get(code, "invalid_message"), why), code)

    def drop(self) -> None:
        """End a request that gets no answer: its client gave it up."""
        if self.session.ctx.tells_calls and self.leg is None and not self.is_over:
            self._tell_unsent(Outcome(End.CANCELLED))
        self.end(End.CANCELLED)
        if self.batch is not None:
            self.batch.settle(None)

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """Answer with what came of the request to the server."""
        if not self.end():
            return
        if outcome.result is not None:
            if self.batch is None:
                session = self.session
                line = envelope.result_parts(self.ident, outcome.result)
                session.ctx.commands.append(ToSession(session.id, line, False, self.key, True))
            else:
                self._send(envelope.result(self.ident, outcome.result))
        elif outcome.error is not None:
            self._send(envelope.error(self.ident, outcome.error))
        elif outcome.failure is not None:
            self._send(envelope.error(self.ident, codes.error_object(outcome.failure)))

    def take_progress(self, leg: UpstreamRequest, params: Raw) -> None:
        """Pass on the progress of the call, with the client's own token."""
        if self.is_control:
            if leg.wants_progress and not self.is_over:
                said = progress.without(params, "progressToken")
                told = progress.with_member(said, "id", self.ident)
                self.session.notify_always("mcpd/progress", told, self.key)
        elif leg.token is not None and (leg.is_modern or self.session.is_initialized):
            told = progress.restored(params, leg.token)
            self.session.notify_always("notifications/progress", told, self.key)

    def _tell_unsent(self, outcome: Outcome, named: str | None = None) -> None:
        """Report a call that ends before a server had it, unless its server reports it.

        ``named`` is the server that it was meant for, if that is known.
        """
        leg = self.leg
        if leg is None:
            method = self._asked_for()
            if method is None or not method.is_recorded:
                return
            leg = UpstreamRequest(self.session.id, method, self.params, self)
            leg.tool = self._tool() if method.route is Route.TOOL else None
            leg.client_info = self.session.legacy_client_info(self)
            call_facts.started(self.session.ctx, leg, self.session)
            server = self.session.server if named is None else named
            call_facts.ended(self.session.ctx, leg, outcome, server)
        elif leg.holder is None and not leg.is_over and leg.caller is not None:
            leg.is_over = True
            call_facts.ended(self.session.ctx, leg, outcome)

    def _asked_for(self) -> Method | None:
        """Return the method, also that of a control request; ``None`` where it is not known."""
        method = _METHODS.get(type(self.event))
        return getattr(self, "method", None) if method is None else CLIENT_REQUESTS[method]

    def _tool(self) -> str | None:
        if isinstance(self.event, CallTool):
            return self.event.tool
        return envelope.text(self.found.name)

    def arguments(self) -> Raw | bytes | None:
        """Return what its client gave: arguments of a tool or a prompt, the URI of a resource."""
        found = self.found
        if found.arguments is not UNSET:
            return found.arguments
        match self.event:
            case CallTool(arguments=given) | GetPrompt(arguments=given):
                return given
            case ReadResource(uri=uri):
                return envelope.quote(uri)
        return None if found.uri is UNSET else found.uri

    def _send(self, line: bytes) -> None:
        session = self.session
        if self.batch is None:
            session.ctx.commands.append(ToSession(session.id, line, False, self.key, True))
            return
        if not self.batch.has_room(line):
            failure = with_details(no_room(session.share, len(line)), outcome_unknown=True)
            line = envelope.error(self.ident, codes.error_object(failure))
        self.batch.settle(line)

    # -- the end ---------------------------------------------------------------------------------

    def end(self, how: End = End.REFUSED) -> bool:
        """End the request; tell whether it was still to be answered.

        ``how`` says how a request to a server ended that was not sent.

        It leaves its session and whatever it waits for, and its memory is given back.
        """
        if self.is_over:
            return False
        self.is_over = True
        session = self.session
        is_known = session.requests.get(self.key) is self
        if is_known:
            del session.requests[self.key]
            client_info = self.client_info
            if client_info is not None and client_info.level:
                session.forget_level(client_info.level)
        if self.timer is not None:
            self.timer.cancel()
        if self.leave is not None:
            leave, self.leave = self.leave, None
            leave()
        leg = self.leg
        if leg is not None and leg.holder is None and not leg.is_over:  # it was not sent
            leg.is_over = True
            if leg.caller is not None:
                call_facts.ended(session.ctx, leg, Outcome(how))
        self.leg = None  # else a circle keeps request and frame until the collector runs
        if is_known:
            self.release()
        return is_known


class Session:
    """The state of one connection; what a client must not notice is that there is more of it."""

    def __init__(
        self,
        ctx: Context,
        ident: SessionId,
        principal: Principal,
        share: Share,
        *,
        in_reserve: bool = False,
    ) -> None:
        """Make a session that has said nothing yet.

        This is long because it lists every attribute with its meaning, and no logic. Grouping them
        in objects would cost each message one more look-up.
        """
        self.ctx = ctx
        self.id = ident
        self.principal = principal
        """Whose requests these are; ``mcpd/attach`` can give up rights."""
        self.limits: tuple[Policy, Principal, Entry, tuple[Limit, ...]] | None = None
        """The rates of its last call, with what they are made of: most calls are like the last."""
        self.share = share
        """What is kept for it, in bytes, and how many of its requests something is kept for."""
        self.in_reserve = in_reserve
        """Whether it is there for control requests alone: all places for sessions are taken."""
        self.server: str | None = None
        """The server whose endpoint it is on; ``None`` is the aggregate."""
        self.is_session = False
        """Whether it has attached or spoken MCP; until then it is a control connection."""
        self.has_ended = False
        """Whether its client sends nothing more, and so answers nothing; it may still read."""
        self.is_kept = False
        """Whether the next daemon takes it up again."""
        self.is_brief = False
        """Whether it is for one request, so that nobody is told of it."""
        self.wants_farewell = False
        """Whether its client has asked to be told that all that was read is answered."""
        self.client: str | None = None
        """Name and version of its client: as it introduced itself, until then as it attached."""
        self.client_pid: int | None = None
        """The process that attached: the bridge, or the client itself."""
        self.attached: str | None = None
        """What the connection called itself when it attached."""
        self.has_introduced_itself = False
        self.workspace: str | None = None
        self.roots: tuple[str, ...] = ()
        self.version: str | None = None
        """The negotiated revision, once ``initialize`` was answered."""
        self.client_info = UNKNOWN_CLIENT
        """What its client said of itself in ``initialize``."""
        self.is_modern = False
        """Whether it has sent a request with an envelope."""
        self.envelope: tuple[bytes, ClientInfo, bytes | None] = (b"", UNKNOWN_CLIENT, None)
        """The last envelope that was read, its asker and progress token: most are like the last."""
        self.listens: dict[bytes, ClientSubscription] = {}
        """Its open ``subscriptions/listen``, by the key of their ids."""
        self.is_initialized = False
        self.is_opening = False
        """Whether ``initialize`` waits for a server that has never run."""
        self.said_initialized = False
        """Whether its client did not wait for the answer to that."""
        self.backlog: dict[ClientRequest, tuple[str, Raw | UnsetType]] = {}
        """What its client sent meanwhile: requests with their method and params."""
        self.level: str | None = None
        self._levels: dict[str, int] = {}
        """Log levels that its modern requests want, and how many of them each."""
        self.requests: dict[bytes, ClientRequest] = {}
        """Its requests that have no answer yet, by the key of their ids."""
        self.batch: Batch | None = None
        """The array that is being read: each frame that comes is one of its elements."""
        self.streams: set[bytes] = set()
        """Keys of control requests that go on as notifications."""
        self.upstreams: dict[str, Upstream] = {}
        """What it uses, by the name of the server."""
        self.subscribed: dict[str, str] = {}
        """Resource URIs it is subscribed to, each with its server."""
        self.followed = 0
        """Resources and tasks that its listens name."""
        self.incomplete: set[Kind] = set()
        """Lists of the aggregate that it got while a server had not listed yet."""
        self.changes = ChangeThrottle()
        """When it was told last, as a legacy session, that a list is another one."""

    def may_follow(self, count: int) -> bool:
        """Tell whether it may be subscribed to so many resources and tasks more."""
        return len(self.subscribed) + self.followed + count <= MOST_FOLLOWED

    @property
    def label(self) -> str | None:
        """Return its client's name for people, with its pid or the name of its token."""
        if self.principal.kind == "token":
            token = f"token {self.principal.name}"
            return token if self.client is None else f"{self.client} ({token})"
        if self.client is None:
            return None
        return self.client if self.client_pid is None else f"{self.client} (pid {self.client_pid})"

    def speaker(self) -> ClientInfo:
        """Return what its client said of itself last: as a modern one, or in ``initialize``."""
        return self.envelope[1] if self.is_modern else self.client_info

    def legacy_client_info(self, request: ClientRequest) -> ClientInfo | None:
        """Return who makes a request; ``None`` for a control call, which is nobody's."""
        return None if request.is_control else request.client_info or self.client_info

    @property
    def may_omit_id(self) -> bool:
        """Whether an error for an unreadable request goes without an id, and not with a null."""
        return self.is_modern or (self.version is not None and self.version >= MAY_OMIT_ID)

    def wants_log(self, level: str) -> bool:
        """Tell whether a log message of this level is for it; ``info`` and above by default."""
        if level not in LEVELS:
            return True
        return LEVELS.index(level) >= LEVELS.index(self.level or "info")

    def levels(self) -> list[str]:
        """Return the log levels that it wants: its own, and those of its modern requests."""
        own = [self.level] if self.level is not None else []
        return [*own, *self._levels]

    def take_client_info(self, request: ClientRequest, client_info: ClientInfo) -> None:
        """Take who asks from a request of it, and the log level that it wants."""
        request.client_info = client_info
        if client_info.level:
            self._levels[client_info.level] = self._levels.get(client_info.level, 0) + 1

    def forget_level(self, level: str) -> None:
        """Forget a log level that a request wanted which has ended."""
        self._levels[level] -= 1
        if not self._levels[level]:
            del self._levels[level]

    def send(self, line: bytes) -> None:
        """Send its client a line."""
        self.ctx.commands.append(ToSession(self.id, line))

    def notify(self, method: str, params: Raw | bytes | None) -> None:
        """Send its client a notification, unless it has not said yet that it is initialized."""
        if self.is_initialized:
            self.notify_always(method, params)

    def notify_always(self, method: str, params: Raw | bytes | None, request: bytes = b"") -> None:
        """Send its client a notification that one of its requests has asked for.

        ``request`` is the key of that request, empty where it may be one of several.
        """
        line = envelope.notification(envelope.quote(method), params)
        self.ctx.emit(ToSession(self.id, line, is_notification=True, request=request))

    def keep(self) -> None:
        """Have what makes it up kept for the next daemon; call it before that is answered."""
        if self.is_kept and self.version is not None:
            said = self.client_info
            state = SessionState(
                version=self.version,
                capabilities=said.capabilities,
                info=said.info,
                level=self.level,
                subscribed=tuple(self.subscribed.items()),
                is_initialized=self.is_initialized,
            )
            self.ctx.emit(KeepSession(self.id, state))

    def send_answers(self, line: bytes, key: bytes) -> None:
        """Send its client the answers to an array of requests; ``key`` is that of one of them."""
        self.ctx.emit(ToSession(self.id, line, request=key, is_response=True))

    def uses(self, upstream: Upstream) -> str | None:
        """Return the name under which it uses this process, ``None`` where it does not."""
        return next((name for name, used in self.upstreams.items() if used is upstream), None)

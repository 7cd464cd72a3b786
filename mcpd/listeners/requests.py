"""Control requests without their transport: a table of methods, checked parameters, streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from mcpd.api.requests import PARAMS_BYTES, CallParams, Params, PromptParams, ReadParams
from mcpd.core.facts import Failure
from mcpd.core.interface.events import (
    AcceptPins,
    Approve,
    CallTool,
    Forget,
    GetPrompt,
    ListItems,
    ReadResource,
)
from mcpd.core.wire.envelope import object_of
from mcpd.ids import SessionId
from mcpd.principal import Principal, Right

Json = Mapping[str, Any]
Send = Callable[[Json], None]
Unsubscribe = Callable[[], None]

_Result = TypeVar("_Result")

ForMux = AcceptPins | Approve | CallTool | Forget | GetPrompt | ListItems | ReadResource
"""Events for the mux, which answers the request itself."""


class Encoded(NamedTuple, Generic[_Result]):
    """A result that is JSON already, in parts: joining a large one would copy it."""

    parts: tuple[bytes, ...]


Answer = Json | Encoded[Any] | Failure | ForMux

PASSED_ON: Final = (CallParams, PromptParams, ReadParams)
"""Parameters that go to a server, which may be longer than ``PARAMS_BYTES``."""


_Params = TypeVar("_Params", bound=Params)


class Request:
    """One control request and the stream that may follow its answer."""

    def __init__(
        self,
        method: str,
        params: bytes | None,
        *,
        principal: Principal,
        session: SessionId,
        key: bytes,
        notify: Callable[[str, Json], None],
        refuse_stream: Callable[[], Failure | None],
    ) -> None:
        """Describe a request as its transport received it.

        ``session`` and ``key`` are the session in the mux and the key of the request's id there.
        ``notify`` sends a notification, by method and params, to where the answer goes;
        ``refuse_stream`` returns why no stream may be opened, or ``None``.
        """
        self.method = method
        self.params = params
        self.principal = principal
        self.session = session
        self.key = key
        self._notify = notify
        self._refuse_stream = refuse_stream
        self._unsubscribe: Unsubscribe | None = None
        self._held: list[tuple[str, Json]] | None = []
        """Notifications that wait for the answer; ``None`` once it was sent."""

    @property
    def is_stream(self) -> bool:
        """Whether notifications follow the answer."""
        return self._unsubscribe is not None

    def follow(self, notification: str, subscribe: Callable[[Send], Unsubscribe]) -> Failure | None:
        """Open a stream of one kind of notification; return why that is refused, or ``None``.

        Notifications that come before ``start_stream`` are held back until then.
        """
        refusal = self._refuse_stream()
        if refusal is None:
            self._unsubscribe = subscribe(lambda params: self._send(notification, params))
        return refusal

    def start_stream(self) -> None:
        """Send what was held back, and from now on each notification at once."""
        held, self._held = self._held or [], None
        for notification, params in held:
            self._notify(notification, params)

    def close_stream(self) -> None:
        """Unsubscribe from what the stream brings."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()

    def _send(self, notification: str, params: Json) -> None:
        if self._held is None:
            self._notify(notification, params)
        else:
            self._held.append((notification, params))


class Method(NamedTuple):
    """One control method."""

    name: str
    params: type[Params]
    result: Any
    """The type of the result, one of ``mcpd.api``."""
    handler: Callable[[Any, Request, Any], Answer | Awaitable[Answer]]
    """A method of the object that has the handlers; takes the request and its parameters."""


class ControlRequests:
    """Serves control requests for every transport."""

    def __init__(self, methods: Iterable[Method], handlers: object) -> None:
        """``handlers`` is the object whose methods the table names."""
        self._methods = {method.name: method for method in methods}
        self._handlers = handlers

    def serve(self, request: Request) -> Answer | Awaitable[Answer]:
        """Return the answer, or an awaitable of it where that takes time.

        An event is an answer too: dispatch it to the mux, which then answers the request. A
        mistake of the client is returned as a ``Failure``.
        """
        if not request.principal.may(Right.CONTROL):
            return Failure("unknown_method", f"unknown method {request.method!r}")
        method = self._methods.get(request.method)
        if method is None:
            message = f"unknown method {request.method!r}"
            return Failure("unknown_method", message, hint="see docs/protocol.md")
        params = read(request.method, method.params, request.params)
        if isinstance(params, Failure):
            return params
        return method.handler(self._handlers, request, params)


def read(method: str, kind: type[_Params], params: bytes | None) -> _Params | Failure:
    """Decode the parameters of a method; return a ``Failure`` that names what is wrong."""
    raw = b"{}" if params is None or params == b"null" else params
    if len(raw) > PARAMS_BYTES and kind not in PASSED_ON:
        return _wrong(method, f"Expected at most {PARAMS_BYTES} bytes")
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as problem:
        return _wrong(method, str(problem))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_tolerantly(method, kind, raw)


def _read_tolerantly(method: str, kind: type[_Params], raw: bytes) -> _Params | Failure:
    """Decode member by member, so that ``Raw`` ones may have what only msgspec refuses."""
    members = object_of(raw)
    if members is None:
        return _wrong(method, "Expected `object`")
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name not in members:
            continue
        member = members[field.name]
        try:
            is_raw = field.type is Raw
            values[field.name] = member if is_raw else _decode_as(member, field.type)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            return _wrong(method, f"{problem} - at `$.{field.name}`")
    try:
        return kind(**values)
    except TypeError as problem:
        return _wrong(method, str(problem))


def _decode_as(member: Raw, kind: Any) -> Any:
    return msgspec.json.decode(member, type=kind)


def _wrong(method: str, problem: str) -> Failure:
    """Reword a complaint of msgspec: ``Expected `str`, got `int` - at `$.server` ``."""
    what, _, where = problem.partition(" - at ")
    where = where.strip("`").removeprefix("$").removeprefix(".")
    place = f"params.{where}" if where else "params"
    return Failure("invalid_params", f"{method}: {place}: {what[:1].lower()}{what[1:]}")

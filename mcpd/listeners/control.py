"""The ``mcpd/`` methods: parameters checked, each handed to who can answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Annotated, Any, Final, Protocol, assert_never

import msgspec
from msgspec import Raw

from mcpd import tasks
from mcpd.core.facts import Failure
from mcpd.core.mux.commands import Control
from mcpd.core.mux.events import (
    Attach,
    CallTool,
    ControlDone,
    GetPrompt,
    ListItems,
    Locate,
    ReadResource,
)
from mcpd.core.wire.envelope import object_of
from mcpd.ids import SessionId

Json = dict[str, Any]
Send = Callable[[Json], None]
Unsubscribe = Callable[[], None]
Timeout = Annotated[float, msgspec.Meta(gt=0)]
"""Seconds. None at all would be over before it began, whatever it is meant to say."""

PARAMS_BYTES: Final = 1024 * 1024
"""The longest parameters of a control request, but for those that are passed on to a server."""

MOST_NAMES: Final = 1000
"""Servers in one request, and roots of one session."""

PATH_CHARACTERS: Final = 4096
"""Of a directory: the kernel takes no longer path."""

CLIENT_CHARACTERS: Final = 200
"""What is kept of a client's name."""

MOST_STREAMS: Final = 16
"""Streams of events and log lines that one connection may have open."""

Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)]
Directory = Annotated[str, msgspec.Meta(max_length=PATH_CHARACTERS)]


class _Params(msgspec.Struct):
    """Members that are not known are left alone: newer clients may send them."""


class Hello(_Params):
    """``mcpd/hello``; ``cwd`` is where the connection's control calls are made from."""

    cwd: Directory | None = None


class Client(_Params):
    """Who attaches, for logs and events."""

    name: str | None = None
    version: str | None = None
    pid: int | None = None


class AttachParams(_Params):
    """``mcpd/attach``."""

    server: str | None = None
    command: dict[str, Any] | None = None
    client: Client | None = None
    cwd: Directory | None = None
    roots: Names = ()
    control: bool = True
    farewell: bool = False


class CallParams(_Params):
    """``mcpd/call``."""

    server: str
    tool: str
    arguments: Raw = Raw(b"null")
    timeout: Timeout | None = None
    progress: bool = False


class Tools(_Params):
    """``mcpd/tools``."""

    server: str | None = None


class Prompts(Tools):
    """``mcpd/prompts``."""


class Resources(Tools):
    """``mcpd/resources``."""


class Read(_Params):
    """``mcpd/read``."""

    uri: str
    server: str | None = None


class Prompt(_Params):
    """``mcpd/prompt``."""

    server: str
    name: str
    arguments: Raw = Raw(b"null")


class Status(_Params):
    """``mcpd/status``."""

    servers: Names | None = None


class Entries(_Params):
    """``mcpd/list``."""


class Start(_Params):
    """``mcpd/start``."""

    servers: Names


class Stop(Start):
    """``mcpd/stop``."""


class Restart(Start):
    """``mcpd/restart``."""


class Reload(_Params):
    """``mcpd/reload``."""


class Logs(_Params):
    """``mcpd/logs``."""

    server: str | None = None
    lines: int = 100
    follow: bool = False


class Events(_Params):
    """``mcpd/events``."""

    servers: Names | None = None
    since: int | None = None


class Shutdown(_Params):
    """``mcpd/shutdown``."""

    drain: float | None = None


Request = (
    Hello
    | AttachParams
    | CallParams
    | Tools
    | Read
    | Prompt
    | Status
    | Entries
    | Start
    | Reload
    | Logs
    | Events
    | Shutdown
)

METHODS: Final[Mapping[str, type[_Params]]] = {
    "mcpd/hello": Hello,
    "mcpd/attach": AttachParams,
    "mcpd/call": CallParams,
    "mcpd/tools": Tools,
    "mcpd/prompts": Prompts,
    "mcpd/resources": Resources,
    "mcpd/read": Read,
    "mcpd/prompt": Prompt,
    "mcpd/status": Status,
    "mcpd/list": Entries,
    "mcpd/start": Start,
    "mcpd/stop": Stop,
    "mcpd/restart": Restart,
    "mcpd/reload": Reload,
    "mcpd/logs": Logs,
    "mcpd/events": Events,
    "mcpd/shutdown": Shutdown,
}

_PASSED_ON: Final = ("mcpd/call", "mcpd/prompt", "mcpd/read")

_DECODERS: Final = {kind: msgspec.json.Decoder(kind) for kind in METHODS.values()}


class Backend(Protocol):
    """Who knows the answers. A failure is returned, not raised."""

    def hello(self) -> Json: ...
    def workspace(self, cwd: str) -> str | None:
        """Return the workspace that a directory belongs to."""

    def attach(self, params: AttachParams) -> tuple[str | None, str | None] | Failure:
        """Return the server to attach to (``None``: the aggregate) and the workspace."""

    async def status(self, servers: tuple[str, ...] | None) -> Json | Failure: ...
    def entries(self) -> Json: ...
    async def start(self, servers: tuple[str, ...]) -> Json | Failure: ...
    async def stop(self, servers: tuple[str, ...]) -> Json | Failure: ...
    async def restart(self, servers: tuple[str, ...]) -> Json | Failure: ...
    async def reload(self) -> Json | Failure: ...
    def logs(self, server: str | None, lines: int) -> Iterator[list[Any]] | Failure:
        """Return the newest lines as of now, in pieces that are small to work on."""

    def follow_log(self, server: str | None, send: Send) -> Unsubscribe: ...
    def events(self, servers: tuple[str, ...] | None) -> Json | Failure: ...
    def follow_events(
        self, servers: tuple[str, ...] | None, since: int | None, send: Send
    ) -> Unsubscribe: ...
    def shutdown(self, drain: float | None) -> None: ...


class Desk:
    """Serves control requests; holds what is still being answered.

    Invariant: each request is answered exactly once, or over for its client.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        dispatch: Callable[[Any], None],
        notify: Callable[[SessionId, bytes], None],
    ) -> None:
        """``dispatch`` takes events for the mux; ``notify`` writes what a stream brings."""
        self._backend = backend
        self._dispatch = dispatch
        self._notify = notify
        self._tasks: dict[tuple[SessionId, bytes], asyncio.Task[None]] = {}
        self._streams: dict[SessionId, dict[bytes, Unsubscribe]] = {}

    def __len__(self) -> int:
        return len(self._tasks) + sum(map(len, self._streams.values()))

    def serve(self, request: Control) -> None:
        """Answer a request, now or later."""
        params = read(request.method, request.params)
        if isinstance(params, Failure):
            self._dispatch(ControlDone(request.session, request.key, failure=params))
            return
        session, key = request.session, request.key
        match params:
            case CallParams():
                given = bytes(
                    params.arguments
                )  # whether it is what the tool takes, its schema says
                self._dispatch(
                    CallTool(
                        session=session,
                        key=key,
                        server=params.server,
                        tool=params.tool,
                        arguments=None if given == b"null" else given,
                        timeout=params.timeout,
                        wants_progress=params.progress,
                    )
                )
            case Prompt():
                arguments = _object(params.arguments, "arguments")
                if isinstance(arguments, Failure):
                    self._answer(request, arguments)
                    return
                self._dispatch(GetPrompt(session, key, params.server, params.name, arguments))
            case Resources():
                self._dispatch(ListItems(session, key, ("resources", "templates"), params.server))
            case Prompts():
                self._dispatch(ListItems(session, key, ("prompts",), params.server))
            case Tools():
                self._dispatch(ListItems(session, key, ("tools",), params.server))
            case Read():
                self._dispatch(ReadResource(session, key, params.server, params.uri))
            case AttachParams():
                self._attach(request, params)
            case Hello():
                if params.cwd is not None and params.cwd.startswith("/"):
                    self._dispatch(Locate(session, self._backend.workspace(params.cwd)))
                self._answer(request, self._backend.hello())
            case Entries():
                self._answer(request, self._backend.entries())
            case Status():
                self._later(request, self._backend.status(params.servers))
            case Stop():
                self._later(request, self._backend.stop(params.servers))
            case Restart():
                self._later(request, self._backend.restart(params.servers))
            case Start():
                self._later(request, self._backend.start(params.servers))
            case Reload():
                self._later(request, self._backend.reload())
            case Logs():
                self._later(request, self._logs(request, params))
            case Events():
                self._later(request, self._events(request, params))
            case Shutdown():
                self._answer(request, {})
                self._backend.shutdown(params.drain)
            case _:
                assert_never(params)

    def cancel(self, session: SessionId, key: bytes) -> None:
        """A request or a stream is over for its client; what it has begun goes on."""
        streams = self._streams.get(session, {})
        unsubscribe = streams.pop(key, None)
        if unsubscribe is not None:
            unsubscribe()
            if not streams:
                del self._streams[session]
        task = self._tasks.pop((session, key), None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Answer nothing more."""
        streams = [(session, key) for session, keys in self._streams.items() for key in keys]
        for session, key in [*self._tasks, *streams]:
            self.cancel(session, key)

    # -- inside ------------------------------------------------------------------------------------

    def _attach(self, request: Control, params: AttachParams) -> None:
        found = self._backend.attach(params)
        if isinstance(found, Failure):
            self._answer(request, found)
            return
        server, workspace = found
        self._dispatch(
            Attach(
                session=request.session,
                key=request.key,
                server=server,
                client=_client(params.client),
                pid=None if params.client is None else params.client.pid,
                workspace=workspace,
                roots=params.roots,
                may_control=params.control,
                wants_farewell=params.farewell,
            )
        )

    def _answer(self, request: Control, answer: Json | Failure, *, is_stream: bool = False) -> None:
        failure = answer if isinstance(answer, Failure) else None
        result = None if isinstance(answer, Failure) else msgspec.json.encode(answer)
        self._dispatch(
            ControlDone(request.session, request.key, result, failure, is_stream=is_stream)
        )

    def _later(self, request: Control, work: Coroutine[Any, Any, Json | Failure | None]) -> None:
        """Answer when ``work`` is done, unless it has answered itself."""
        at = (request.session, request.key)

        async def answer() -> None:
            result = await work
            if result is not None:
                self._answer(request, result)

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(at) is task:
                del self._tasks[at]
            if not task.cancelled() and task.exception() is not None:
                why = f"{request.method} failed: this is a bug in mcpd, see its log"
                self._answer(request, Failure("internal", why))

        task = tasks.spawn(answer(), name=f"control {request.method}")
        self._tasks[at] = task
        task.add_done_callback(ended)

    async def _logs(self, request: Control, params: Logs) -> Json | Failure | None:
        """Give what there is, then what comes; nothing is missed in between.

        There may be a million lines: others have their turn after some of them.
        """
        if params.follow and (failure := self._one_too_many(request)):
            return failure
        pieces = self._backend.logs(params.server, params.lines)
        if isinstance(pieces, Failure):
            return pieces
        meanwhile = _Gate()
        if params.follow:
            self._stream(
                request,
                lambda send: self._backend.follow_log(params.server, meanwhile.before(send)),
                "mcpd/log",
            )
        found: list[bytes] = []
        for piece in pieces:
            if piece:
                found.append(msgspec.json.encode(piece)[1:-1])
                await asyncio.sleep(0)
        answer: Json = {"lines": Raw(b"[%b]" % b",".join(found))}
        if not params.follow:
            return answer
        self._answer(request, answer, is_stream=True)
        meanwhile.open()
        return None

    async def _events(self, request: Control, params: Events) -> Json | Failure | None:
        if failure := self._one_too_many(request):
            return failure
        found = self._backend.events(params.servers)
        if isinstance(found, Failure):
            return found
        self._answer(request, found, is_stream=True)
        self._stream(
            request,
            lambda send: self._backend.follow_events(params.servers, params.since, send),
            "mcpd/event",
        )
        return None

    def _one_too_many(self, request: Control) -> Failure | None:
        """Return why a connection that follows a lot already may follow nothing more."""
        if len(self._streams.get(request.session, ())) < MOST_STREAMS:
            return None
        return Failure(
            "rate_limited", f"{MOST_STREAMS} streams of this connection are open", None, True
        )

    def _stream(self, request: Control, follow: Callable[[Send], Unsubscribe], method: str) -> None:
        head = b'{"jsonrpc":"2.0","method":"%b","params":' % method.encode()
        session = request.session

        def send(params: Json) -> None:
            self._notify(session, b"".join((head, msgspec.json.encode(params), b"}\n")))

        self._streams.setdefault(session, {})[request.key] = follow(send)


class _Gate:
    """Holds back what a stream brings until its request is answered."""

    def __init__(self) -> None:
        self._held: list[Json] | None = []
        self._send: Send

    def before(self, send: Send) -> Send:
        """Return what takes the place of ``send``."""
        self._send = send

        def take(params: Json) -> None:
            if self._held is None:
                send(params)
            else:
                self._held.append(params)

        return take

    def open(self) -> None:
        """Send what was held back, and from now on everything at once."""
        held, self._held = self._held or [], None
        for params in held:
            self._send(params)


def read(method: str, params: bytes | None) -> Request | Failure:
    """Read the parameters of a control method; what is wrong is the client's fault."""
    kind = METHODS.get(method)
    if kind is None:
        return Failure("unknown_method", f"unknown method {method!r}", hint="see docs/protocol.md")
    raw = b"{}" if params is None or params == b"null" else params
    if len(raw) > PARAMS_BYTES and method not in _PASSED_ON:
        return _wrong(method, f"Expected at most {PARAMS_BYTES} bytes")
    try:
        return _DECODERS[kind].decode(raw)  # type: ignore[return-value]
    except msgspec.ValidationError as problem:
        return _wrong(method, str(problem))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_tolerantly(method, kind, raw)


def _read_tolerantly(method: str, kind: type[_Params], raw: bytes) -> Request | Failure:
    """Take what msgspec refuses and JSON allows, where it is in what is passed on as it came."""
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
        return kind(**values)  # type: ignore[return-value]
    except TypeError as problem:
        return _wrong(method, str(problem))


def _decode_as(member: Raw, kind: Any) -> Any:
    return msgspec.json.decode(member, type=kind)


def _wrong(method: str, problem: str) -> Failure:
    """Say what was expected: ``Expected `str`, got `int` - at `$.server` `` in our words."""
    what, _, where = problem.partition(" - at ")
    where = where.strip("`").removeprefix("$").removeprefix(".")
    place = f"params.{where}" if where else "params"
    return Failure("invalid_params", f"{method}: {place}: {what[:1].lower()}{what[1:]}")


def _object(raw: Raw, name: str) -> bytes | Failure | None:
    """Return a member that is a JSON object as it came, ``None`` for a null."""
    data = bytes(raw)
    if data == b"null":
        return None
    if not data.startswith(b"{"):
        return Failure("invalid_params", f"params.{name}: expected `object`")
    return data


def _client(client: Client | None) -> str | None:
    if client is None or client.name is None:
        return None
    said = client.name if client.version is None else f"{client.name} {client.version}"
    return said[:CLIENT_CHARACTERS]

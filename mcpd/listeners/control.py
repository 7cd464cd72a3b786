"""Control requests of the socket: answers, streams and cancellation by session and request id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcpd import statefile, tasks
from mcpd.api.requests import AttachParams, Client
from mcpd.core.facts import Failure
from mcpd.core.interface.commands import Control
from mcpd.core.interface.events import Attach, ControlDone
from mcpd.ids import SessionId
from mcpd.listeners.requests import Answer, ControlRequests, Encoded, ForMux, Json, Request, read
from mcpd.projects.workspace import workspace_of

ATTACH: Final = "mcpd/attach"
"""Makes the connection a session on a server, so only a transport with connections has it."""

MOST_STREAMS: Final = 16
"""Streams of events and log lines that one connection may have open."""

CLIENT_CHARACTERS: Final = 200
"""How much of a client's name is kept."""

_Key = tuple[SessionId, bytes]


class ControlServer:
    """Answers the control requests that reach the mux over a socket.

    Invariant: each request is answered exactly once, or cancelled by its client.
    """

    def __init__(
        self,
        requests: ControlRequests,
        *,
        server_of_command: Callable[[Mapping[str, Any], str | None], str | Failure],
        attaching: Callable[[SessionId, AttachParams, str | None], None],
        dispatch: Callable[[Any], None],
        notify: Callable[[SessionId, bytes], None],
    ) -> None:
        """``server_of_command`` registers the server that a client brings, and names it.

        It takes the entry and the client's directory. ``attaching`` is called with the workspace
        before a connection becomes a session. ``dispatch`` takes events for the mux,
        ``notify`` writes a line that may be dropped for a client that does not read.
        """
        self._requests = requests
        self._server_of_command = server_of_command
        self._attaching = attaching
        self._dispatch = dispatch
        self._notify = notify
        self._open: dict[SessionId, dict[bytes, Request]] = {}
        """Requests without an answer, and streams."""
        self._tasks: dict[_Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def serve(self, command: Control) -> None:
        """Answer a request, at once or when its handler is done."""
        request = self._request(command)
        if request.method == ATTACH:
            self._answer(request, self._attachment(request))
            return
        answer = self._requests.serve(request)
        if isinstance(answer, Awaitable):
            self._wait(request, answer)
        else:
            self._answer(request, answer)

    def cancel(self, session: SessionId, key: bytes) -> None:
        """End a request or a stream whose client wants nothing more; what it began goes on."""
        request = self._open.get(session, {}).get(key)
        if request is not None:
            self._forget(request)
        task = self._tasks.pop((session, key), None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Cancel all requests and streams."""
        for session, requests in list(self._open.items()):
            for key in list(requests):
                self.cancel(session, key)

    def _request(self, command: Control) -> Request:
        session = command.session

        def notify(method: str, params: Json) -> None:
            body = (method.encode(), statefile.encode(params))
            self._notify(session, b'{"jsonrpc":"2.0","method":"%b","params":%b}\n' % body)

        request = Request(
            command.method,
            command.params,
            principal=command.principal,
            session=session,
            key=command.key,
            notify=notify,
            refuse_stream=lambda: self._refuse_stream(session),
        )
        self._open.setdefault(session, {})[command.key] = request
        return request

    def _refuse_stream(self, session: SessionId) -> Failure | None:
        streams = sum(request.is_stream for request in self._open.get(session, {}).values())
        if streams < MOST_STREAMS:
            return None
        why = f"{MOST_STREAMS} streams of this connection are open"
        return Failure("rate_limited", why, None, True)

    def _attachment(self, request: Request) -> Attach | Failure:
        """Find the server and the workspace of a new session."""
        params = read(ATTACH, AttachParams, request.params)
        if isinstance(params, Failure):
            return params
        if params.server is not None and params.command is not None:
            return Failure("invalid_params", "mcpd/attach: params: `server` or `command`, not both")
        if params.cwd is not None and not params.cwd.startswith("/"):
            return Failure("invalid_params", "mcpd/attach: params.cwd: expected an absolute path")
        server = params.server
        if params.command is not None:
            brought = self._server_of_command(params.command, params.cwd)
            if isinstance(brought, Failure):
                return brought
            server = brought
        workspace = workspace_of(params.roots, params.cwd)
        self._attaching(request.session, params, workspace)
        return Attach(
            session=request.session,
            key=request.key,
            server=server,
            client=_name_of(params.client),
            client_pid=None if params.client is None else params.client.pid,
            workspace=workspace,
            roots=params.roots,
            may_control=params.control,
            profile=params.profile,
            wants_farewell=params.farewell,
        )

    def _answer(self, request: Request, answer: Answer | Attach) -> None:
        if isinstance(answer, ForMux | Attach):
            self._forget(request)
            self._dispatch(answer)
            return
        if isinstance(answer, Failure) or not request.is_stream:
            self._forget(request)
        failure = answer if isinstance(answer, Failure) else None
        result: bytes | tuple[bytes, ...] | None = None
        if isinstance(answer, Encoded):
            result = answer.parts
        elif not isinstance(answer, Failure):
            result = statefile.encode(answer)
        done = ControlDone(request.session, request.key, result, failure, request.is_stream)
        self._dispatch(done)
        if request.is_stream:
            request.start_stream()

    def _wait(self, request: Request, work: Awaitable[Answer]) -> None:
        """Answer when ``work`` is done; the failure of a handler is an answer as well."""
        key = (request.session, request.key)

        async def answer() -> None:
            self._answer(request, await work)

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(key) is task:
                del self._tasks[key]
            if not task.cancelled() and task.exception() is not None:
                why = f"{request.method} failed: this is a bug in mcpd, see its log"
                self._answer(request, Failure("internal", why))

        task = tasks.spawn(answer(), name=f"control {request.method}")
        self._tasks[key] = task
        task.add_done_callback(ended)

    def _forget(self, request: Request) -> None:
        request.close_stream()
        requests = self._open.get(request.session, {})
        if requests.get(request.key) is request:
            del requests[request.key]
            if not requests:
                del self._open[request.session]


def _name_of(client: Client | None) -> str | None:
    if client is None or client.name is None:
        return None
    name = client.name if client.version is None else f"{client.name} {client.version}"
    return name[:CLIENT_CHARACTERS]

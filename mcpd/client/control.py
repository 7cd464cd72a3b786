"""A blocking client of the control socket, with one request at a time."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from mcpd import daemon_process
from mcpd.api import version
from mcpd.client import messages
from mcpd.daemon_start import unavailable
from mcpd.daemon_start.deadline import ResponseDeadline
from mcpd.daemon_start.reach import reach
from mcpd.errors import DaemonUnavailable, RequestFailed

if TYPE_CHECKING:
    from mcpd.api.results import Hello

WRITE_TIMEOUT_S = 30.0
TICK_S = 0.2
CHECK_S = 0.8
"""The longest time between two checks whether a signal has stopped the daemon."""

CHUNK_BYTES = 1 << 18

Notify = Callable[[str, Any], None]
"""Called for each notification with method and params."""


class Answer(NamedTuple):
    """A result, as a value and as the text that was received."""

    value: Any
    text: str


def _cwd_params() -> dict[str, Any]:
    """Return params with the working directory, for servers with a process for each workspace."""
    try:
        return {"cwd": os.getcwd()}
    except OSError:  # the directory was removed
        return {}


class Control:
    """One connection to the daemon. Not thread-safe."""

    def __init__(self, connection: socket.socket, path: str) -> None:
        self.path = path
        self.hello: Hello
        self._deadline = ResponseDeadline(connection)
        self._stopped_at: float | None = None  # monotonic; when the daemon was found stopped
        self._checked_at = time.monotonic()
        self._connection = connection
        self._buffer = bytearray()
        self._searched = 0  # the buffer has no newline before this position
        self._last_id = 0
        self._beside: dict[int, Callable[[RequestFailed], None]] = {}

    @classmethod
    def open(
        cls,
        path: str,
        *,
        start: bool = False,
        config: str | None = None,
        variables: Mapping[str, str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Connect and send ``mcpd/hello``; with ``start``, start a daemon if none runs.

        Raises ``DaemonUnavailable``; ``details["why"]`` is as ``daemon_start.reach`` says, or
        ``unresponsive`` (with ``pid``), ``incompatible`` or ``gone``.
        """
        return reach(
            path,
            lambda connection: cls.over(connection, path),
            may_start=start,
            config=config,
            variables=variables,
            progress=progress,
        )

    @classmethod
    def over(cls, connection: socket.socket, path: str) -> Self:
        """Send ``mcpd/hello`` on ``connection``; raise as ``open`` does."""
        control = cls(connection, path)
        try:
            control.check()
        except BaseException:
            control.close()
            raise
        return control

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Return the pid of the daemon, or of the process that listens in its place."""
        return self._deadline.pid

    def check(self) -> None:
        """Send ``mcpd/hello`` and set ``hello``; raise ``DaemonUnavailable`` as ``open`` does."""
        self._deadline = ResponseDeadline(self._connection)
        self._last_id += 1
        self._send_request(self._last_id, "mcpd/hello", _cwd_params())
        hello = self._first_answer(self._last_id)
        complaint = version.complaint(hello.get("api") if isinstance(hello, dict) else None)
        if complaint is not None:
            raise DaemonUnavailable(complaint, why="incompatible", path=self.path, pid=self.pid)
        self.hello = hello

    def close(self) -> None:
        """Close the connection; the daemon cancels what is in flight."""
        self._connection.close()

    def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_notification: Notify | None = None,
        on_wait: Callable[[float], None] | None = None,
    ) -> Any:
        """Send a request and return its result as a value; see ``exchange``."""
        return self.exchange(
            method, params, timeout=timeout, on_notification=on_notification, on_wait=on_wait
        ).value

    def exchange(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_notification: Notify | None = None,
        on_wait: Callable[[float], None] | None = None,
    ) -> Answer:
        """Send a request and return its result, after at most ``timeout`` seconds.

        ``on_notification`` is called for each notification that comes before the result, and
        ``on_wait`` a few times a second with the seconds waited. Raises ``RequestFailed`` for an
        error response, and ``DaemonUnavailable`` for a daemon that hangs up or takes too long.
        An interrupt cancels the request and is raised again.
        """
        self._last_id += 1
        ident = self._last_id
        try:
            self._send_request(ident, method, params)
            return self._wait(ident, timeout, on_notification, on_wait)
        except (KeyboardInterrupt, SystemExit, TimeoutError) as reason:
            self._cancel(ident)
            if isinstance(reason, TimeoutError):
                raise self._unresponsive(timeout or 0) from None
            raise

    def stream(
        self, method: str, params: dict[str, Any] | None = None, *, notification: str
    ) -> Stream:
        """Send a request that ``notification``s follow until the connection is closed."""
        return Stream(self, method, params, notification)

    def send(
        self, method: str, params: dict[str, Any], failed: Callable[[RequestFailed], None]
    ) -> None:
        """Send a request while the response of another one is waited for.

        ``failed`` gets the error if it is one; a result is dropped.
        """
        self._last_id += 1
        self._beside[self._last_id] = failed
        self._send_request(self._last_id, method, params)

    def fileno(self) -> int:
        """Return the descriptor of the connection, to wait until something comes."""
        return self._connection.fileno()

    def next_notification(self) -> tuple[str, Any]:
        """Wait for a notification and return its method and params."""
        while True:
            members, _ = self._read_message(None, None)
            if "method" in members:
                return members["method"], members.get("params")

    def _first_answer(self, ident: int) -> Any:
        left = self._deadline.remaining()
        while left:
            try:
                return self._wait(ident, left, None, None).value
            except TimeoutError:
                left = self._deadline.remaining()
        raise self._deadline.error()

    def _send_request(self, ident: int, method: str, params: dict[str, Any] | None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self._write(message)

    def _cancel(self, ident: int) -> None:
        message = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": ident, "reason": "no longer wanted"},
        }
        try:
            self._write(message)
        except DaemonUnavailable:
            return  # closing the connection cancels as well

    def _write(self, message: dict[str, Any]) -> None:
        began = time.monotonic()
        left = memoryview(messages.encode(message))
        self._connection.settimeout(CHECK_S)
        while left:
            try:
                left = left[self._connection.send(left) :]
            except TimeoutError:
                self._check_stopped()
                if time.monotonic() - began >= WRITE_TIMEOUT_S:
                    raise self._unresponsive(WRITE_TIMEOUT_S) from None
            except OSError:
                self._raise_reason()
                raise self._gone() from None

    def _raise_reason(self) -> None:
        """Raise the error that the daemon sent before it hung up, if it sent one."""
        try:
            members, _ = self._read_message(time.monotonic() + TICK_S, None)
        except (DaemonUnavailable, TimeoutError):
            return
        if "error" in members and members.get("id") is None:
            raise RequestFailed.of(members["error"])

    def _wait(
        self,
        ident: int,
        timeout: float | None,
        on_notification: Notify | None,
        on_wait: Callable[[float], None] | None,
    ) -> Answer:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            members, texts = self._read_message(deadline, on_wait)
            if "method" in members:
                if on_notification is not None:
                    on_notification(members["method"], members.get("params"))
            elif (failed := self._beside.pop(members.get("id", 0), None)) is not None:
                if "error" in members:
                    failed(RequestFailed.of(members["error"]))
            elif "error" in members and members.get("id") in (ident, None):
                raise RequestFailed.of(members["error"])
            elif members.get("id") == ident and "result" in members:
                return Answer(members["result"], texts["result"])

    def _read_message(
        self, deadline: float | None, on_wait: Callable[[float], None] | None
    ) -> messages.Message:
        line = self._read_line(deadline, on_wait)
        try:
            return messages.decode(line)
        except ValueError as error:
            message = f"the daemon on {self.path} wrote something else than a message: {error}"
            raise DaemonUnavailable(message, why="incompatible", path=self.path) from None

    def _read_line(self, deadline: float | None, on_wait: Callable[[float], None] | None) -> bytes:
        """Return the next line; raise ``TimeoutError`` at ``deadline`` (monotonic)."""
        began = time.monotonic()
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            pause = CHECK_S if on_wait is None else TICK_S
            self._connection.settimeout(pause if left is None else min(pause, left))
            try:
                chunk = self._connection.recv(CHUNK_BYTES)
            except TimeoutError:
                self._check_stopped()
                if on_wait is not None:
                    on_wait(time.monotonic() - began)
                continue
            except OSError:
                raise self._gone() from None
            if not chunk:
                raise self._gone()
            self._buffer += chunk

    def _gone(self) -> DaemonUnavailable:
        return DaemonUnavailable("the daemon has hung up", why="gone", path=self.path)

    def _check_stopped(self) -> None:
        """Raise ``DaemonUnavailable`` if the daemon has been stopped by a signal for a while."""
        now = time.monotonic()
        if self.pid is None or now - self._checked_at < CHECK_S / 2:
            return
        self._checked_at = now
        if not daemon_process.is_stopped(self.pid):
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = now
        elif now - self._stopped_at >= CHECK_S / 2:
            raise self._unresponsive(now - self._stopped_at)

    def _unresponsive(self, waited_s: float) -> DaemonUnavailable:
        return unavailable.unresponsive(self.path, self.pid, waited_s)


class Stream:
    """The notifications of one method that follow the result of a request, as their params."""

    def __init__(
        self, control: Control, method: str, params: dict[str, Any] | None, notification: str
    ) -> None:
        self._control = control
        self._notification = notification
        self._waiting: deque[Any] = deque()
        self.result = control.request(method, params, on_notification=self._keep)

    def so_far(self) -> list[Any]:
        """Return the notifications that the daemon has sent so far, without waiting for more.

        The daemon writes them before it reads another request, so they precede its response.
        """
        self._control.request("mcpd/hello", on_notification=self._keep)
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def __iter__(self) -> Iterator[Any]:
        """Yield params as they come; raise ``DaemonUnavailable`` when the daemon hangs up."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            self._keep(*self._control.next_notification())

    def _keep(self, method: str, params: Any) -> None:
        if method == self._notification:
            self._waiting.append(params)

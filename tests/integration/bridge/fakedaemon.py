"""The daemon's side of a bridge, as a test wants it; and the client's side, as a process."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Self

from mcpd import paths
from mcpd.bridge import attachment, streams
from mcpd.bridge.arguments import parse
from mcpd.bridge.linger import Linger
from mcpd.bridge.link import Link
from mcpd.bridge.pump import Pump
from mcpd.daemon_start.connection import connect
from tests.support.waiting import can_read, scaled, wait_until

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


class Connection:
    """One connection to the fake daemon; ``lines`` is what came after it had attached."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.attached: Json | None = None
        self.lines: list[bytes] = []
        self.is_closed = False
        self.remainder = b""
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, data: bytes) -> None:
        """Write, and wait until it is taken."""
        self.sock.sendall(data)

    def answer(self, data: bytes) -> None:
        """Have it written; a daemon never waits for one client."""
        self.outbox.put(data)

    def write_answers(self) -> None:
        with contextlib.suppress(OSError):
            while (data := self.outbox.get()) is not None:
                self.sock.sendall(data)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def methods(self) -> list[str | None]:
        return [json.loads(one).get("method") for one in self.lines]


Handler = Callable[[Json, Connection], None]


def echo(message: Json, connection: Connection) -> None:
    """Answer each request but ``hang`` with its params, ``blob`` with as many bytes as told."""
    if "id" not in message or "method" not in message or message["method"] == "hang":
        return
    result = message.get("params", {})
    if message["method"] == "blob":
        result = {"text": "x" * result["bytes"]}
    connection.answer(line(id=message["id"], result=result))


class FakeDaemon:
    """Listens, lets everybody attach or answers with ``refusal``, and gives each line to ``handler``."""

    def __init__(self, handler: Handler = echo) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp"))
        self.path = str(self.directory / "mcpd.sock")
        self.handler = handler
        self.refusal: Json | None = None
        self.refused = 0
        self.server: str | None = "fake"
        self.hello: Json = {"version": "0", "pid": os.getpid(), "api": 1, "uptime_s": 0}
        self.states = ["ready"]
        """What ``mcpd/status`` says of the server, one after the other, the last for ever."""
        self.asked: list[Json] = []
        """Params of each ``mcpd/status``."""
        self.sessions: list[Connection] = []
        self.reads = threading.Event()
        """Cleared: nothing is read from sessions."""
        self.reads.set()
        self._open: list[Connection] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket
        self.revive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reads.set()
        self.die()
        for connection in self._open:
            connection.outbox.put(None)
        for thread in self._threads:
            thread.join(5)
        for connection in self._open:
            connection.sock.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def die(self) -> None:
        """End as after SIGKILL: nobody listens, and the socket file stays."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.hang_up()

    def revive(self) -> None:
        """Listen, as the next daemon would."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(256)
        self._start(self._accept)

    @contextlib.contextmanager
    def nobody_starts(self) -> Iterator[None]:
        """Hold the lock without which no bridge starts a real one."""
        with open(paths.start_lock_path(self.path), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def session(self, number: int = 0) -> Connection:
        """Return the session that attached as the ``number``th, as soon as it has."""
        wait_until(lambda: len(self.sessions) > number, what="a session")
        return self.sessions[number]

    @property
    def env(self) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("MCPD", "XDG_"))}
        return plain | {
            "HOME": str(self.directory),
            "MCPD_SOCKET": self.path,
            "MCPD_STATE_DIR": str(self.directory / "state"),
            "PYTHONPATH": str(ROOT),
        }

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        listener = self._listener
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            connection = Connection(sock)
            self._open.append(connection)
            self._start(self._serve, connection)
            self._start(connection.write_answers)

    def _serve(self, connection: Connection) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.reads.wait(30)
                data = connection.sock.recv(1 << 18)
                if not data:
                    break
                *lines, connection.remainder = (connection.remainder + data).split(b"\n")
                for one in lines:
                    self._take(one + b"\n", connection)
        connection.is_closed = True

    def _take(self, raw: bytes, connection: Connection) -> None:
        if connection.attached is not None:
            connection.lines.append(raw)
            with contextlib.suppress(ValueError):
                self.handler(json.loads(raw), connection)
            return
        message = json.loads(raw)
        params = message.get("params", {})
        if message["method"] == "mcpd/hello":
            connection.send(line(id=message["id"], result=self.hello))
        elif message["method"] == "mcpd/status":
            self.asked.append(params)
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            result: Json = {"daemon": {}, "servers": [{"name": "fake", "state": state}]}
            connection.send(line(id=message["id"], result=result))
        elif self.refusal is not None:
            self.refused += 1
            connection.send(line(id=message["id"], error=self.refusal))
        else:
            connection.attached = params
            connection.send(line(id=message["id"], result={"session": 1, "server": self.server}))
            self.sessions.append(connection)


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "mcpctl", "connect", *args]


class Bridge:
    """A bridge on three pipes."""

    def __init__(self, daemon: FakeDaemon, *args: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            command(*args),
            env=daemon.env | options.pop("env", {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **options,
        )
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._close_ends()

    def _close_ends(self) -> None:
        for end in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                end.close()

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        assert self.process.stderr
        return self.process.stderr

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.stdin.write(view) or 0 :]

    def request(self, ident: Any, method: str, **params: Any) -> None:
        self.send(line(id=ident, method=method, params=params))

    def read_line(self, timeout: float = 10.0) -> bytes:
        """Return the next line, or what there is of it at the end of the output."""
        deadline = time.monotonic() + scaled(timeout)
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0, f"no line within {timeout} s: {self._buffer[:200]!r}"
            if can_read(self.stdout.fileno(), left):
                chunk = os.read(self.stdout.fileno(), 1 << 18)
                if not chunk:
                    break
                self._buffer += chunk
        first, newline, self._buffer = self._buffer.partition(b"\n")
        return first + newline

    def rest(self) -> bytes:
        """Return what is there already beyond the lines that were read."""
        if can_read(self.stdout.fileno()):
            self._buffer += os.read(self.stdout.fileno(), 1 << 18)
        return self._buffer

    def read(self, timeout: float = 10.0) -> Any:
        return json.loads(self.read_line(timeout))

    def wait(self, timeout: float = 10.0) -> int:
        return self.process.wait(scaled(timeout))

    def complaint(self) -> str:
        """Return what it has said on stderr until its end."""
        return self.stderr.read().decode()


class ThreadedBridge(Bridge):
    """The same loop on two pipes, in a thread: many of them cost next to nothing."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self._buffer = b""
        source, into = os.pipe()
        out, client = os.pipe()
        self._stdin, self._stdout = io.FileIO(into, "w"), io.FileIO(out)
        self._thread = threading.Thread(target=self._run, args=[daemon.path, source, client])
        self._thread.start()

    @property
    def stdin(self) -> Any:
        return self._stdin

    @property
    def stdout(self) -> Any:
        return self._stdout

    def __exit__(self, *_: object) -> None:
        self._stdin.close()
        self._stdout.close()
        self._thread.join(10)

    def _run(self, path: str, source: int, client: int) -> None:
        asked = parse(["fake", "--no-start"])
        connection = connect(path)
        attached = attachment.attach(connection, asked, lambda text: None)
        link = Link(path, asked, connection, attached)
        reader = streams.Source(source)
        writer = streams.to_client(client)
        Pump(link, reader, writer, Linger(0, lambda _: False)).run()
        link.close()
        for fd in (source, client, reader.fd, writer.fd):
            os.close(fd)

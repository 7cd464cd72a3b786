"""Something that listens on a Unix socket and answers control requests as a test tells it to."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]
HELLO = {"version": "0.1.0", "pid": 4242, "api": 1, "uptime_s": 3.5}


class Failed(Exception):
    """Raised by a handler: the error it is to be answered with."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data else {})}


class Silence(Exception):
    """Raised by a handler: no answer."""


class Caller:
    """What a handler may do to the connection beside answering."""

    def __init__(self, connection: socket.socket, ident: Any) -> None:
        self._connection, self.ident = connection, ident

    def notify(self, method: str, params: Json) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Json) -> None:
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def hang_up(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)


Handler = Callable[[Any, Caller], Any]


class FakeDaemon:
    """Answers ``method`` with ``handlers[method](params, caller)``; remembers what it was sent."""

    def __init__(self, **handlers: Handler) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp"))
        self.path = str(self.directory / "mcpd.sock")
        self.handlers: dict[str, Handler] = {"mcpd/hello": lambda *_: HELLO}
        self.handlers |= {f"mcpd/{name}": handler for name, handler in handlers.items()}
        self.seen: list[Json] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(5)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a client of this daemon, and of nobody's configuration."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("MCPD", "XDG_"))}
        return {
            **plain,
            "HOME": str(self.directory),
            "MCPD_SOCKET": self.path,
            "MCPD_STATE_DIR": str(self.directory / "state"),
            "NO_COLOR": "1",
            "COLUMNS": "160",
        }

    def requests(self, method: str) -> list[Json]:
        """Return the params of what was sent under that method so far."""
        return [one.get("params", {}) for one in self.seen if one.get("method") == method]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    self._answer(json.loads(line), connection)
            except OSError:
                return

    def _answer(self, message: Json, connection: socket.socket) -> None:
        self.seen.append(message)
        if "id" not in message:
            return
        caller = Caller(connection, message["id"])
        handler = self.handlers.get(message["method"])
        answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            if handler is None:
                raise Failed(-32601, f"no {message['method']}")
            answer["result"] = handler(message.get("params", {}), caller)
        except Failed as failed:
            answer["error"] = failed.error
        except Silence:
            return
        caller.send(answer)

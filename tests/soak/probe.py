"""Asks the daemon for a sign of life, again and again, and says how long each took: a number a line.

In a process of its own, so that nothing but the daemon and the machine delays it. The time is that
of the event loop to come round, and of the kernel to wake both sides. With the name of a server it
calls that server's ``echo`` instead, as a session of it.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time

EVERY_S = 0.05
ECHO_EVERY_S = 0.01

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"mcpd/hello"}\n'
ATTACH = b'{"jsonrpc":"2.0","id":1,"method":"mcpd/attach","params":{"server":"%b"}}\n'
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
ECHO = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",'
    b'"arguments":{"text":"the probe is here"}}}\n'
)


class Ended(Exception):
    """The daemon hung up."""


def ask(connection: socket.socket, request: bytes) -> bytes:
    """Return the answer to a request; notifications are skipped."""
    connection.sendall(request)
    line = b""
    while not (line.endswith(b"\n") and b'"id":1' in line):
        if line.endswith(b"\n"):
            line = b""
        chunk = connection.recv(4096)
        if not chunk:
            raise Ended
        line += chunk
    return line


def main(path: str, server: str | None = None) -> None:
    """Probe until the daemon hangs up."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        if server is not None:
            ask(connection, ATTACH % server.encode())
            ask(connection, INITIALIZE)
            connection.sendall(INITIALIZED)
        while True:
            began = time.perf_counter()
            answer = ask(connection, HELLO if server is None else ECHO)
            took = time.perf_counter() - began
            if server is not None and b"the probe is here" not in answer:
                raise SystemExit(f"a wrong answer: {answer!r}")
            print(f"{took:.6f}", flush=True)
            time.sleep(EVERY_S if server is None else ECHO_EVERY_S)


if __name__ == "__main__":
    with contextlib.suppress(Ended):
        main(*sys.argv[1:])

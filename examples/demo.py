#!/usr/bin/env python3
"""Twenty sessions on two servers, two processes: the whole of mcpd in a few seconds.

Starts a daemon in a temporary private directory with the two servers of this folder, attaches ten
sessions to each through the real socket, shows who shares which process and what `mcpctl status`
says, stops everything and looks whether anything is left. `make demo` runs it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parent
BIN = Path(sys.executable).absolute().parent  # of the virtual environment, whose links are kept
SERVERS = ("notes", "clock")
SESSIONS_EACH = 10
START_TIMEOUT_S = 20.0


class Session:
    """One MCP client: a connection to the socket, attached to one server."""

    def __init__(self, path: Path, server: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(START_TIMEOUT_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")
        self._last_id = 0
        self.request("mcpd/attach", server=server)  # from here on the connection is plain MCP
        self.request(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "demo", "version": "1"},
        )
        self._send(method="notifications/initialized")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def request(self, method: str, **params: Any) -> Json:
        """Return the result of a request; an error of the other side ends the demo."""
        self._last_id += 1
        self._send(id=self._last_id, method=method, params=params)
        for line in self._lines:
            answer: Json = json.loads(line)
            if answer.get("id") == self._last_id and "method" not in answer:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                result: Json = answer["result"]
                return result
        raise SystemExit(f"{method}: the daemon closed the connection")

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        text: str = result["content"][0]["text"]
        return text

    def _send(self, **message: Any) -> None:
        self._socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def private_environment(root: Path) -> dict[str, str]:
    """Return an environment in which nothing of the user's own mcpd is seen or touched."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("MCPD_", "XDG_"))}
    return mine | {
        "HOME": str(root),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "MCPD_CONFIG": str(EXAMPLES / "mcp.json"),
        "MCPD_EXAMPLES": str(EXAMPLES),
        "MCPD_SOCKET": str(root / "mcpd.sock"),
        "MCPD_STATE_DIR": str(root / "state"),
    }


@contextmanager
def daemon(env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `mcpd`, from the moment its socket answers until it has ended by SIGTERM."""
    with log.open("wb") as out:
        process = subprocess.Popen([BIN / "mcpd"], env=env, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not listens(env["MCPD_SOCKET"]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"mcpd did not come up:\n{log.read_text()}")
            time.sleep(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def listens(path: str) -> bool:
    """Say whether a daemon accepts connections."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def is_alive(pid: int) -> bool:
    """Say whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def still_here(root: Path) -> set[int]:
    """Return the processes that were started with `root` in their environment.

    Where there is no /proc nothing is found, and the pids that were seen must do.
    """
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if bytes(root) in environ.read_bytes():
                found.add(int(environ.parent.name))
    return found


def run(root: Path) -> set[int]:
    """Show it all; return every pid that was seen."""
    env = private_environment(root)
    with daemon(env, root / "mcpd.log") as mcpd, ExitStack() as stack:
        print(f"mcpd runs as pid {mcpd.pid}; its socket is {env['MCPD_SOCKET']}\n")
        began = time.monotonic()
        sessions = {
            name: [
                stack.enter_context(Session(Path(env["MCPD_SOCKET"]), name))
                for _ in range(SESSIONS_EACH)
            ]
            for name in SERVERS
        }
        pids = {name: {int(s.call("pid")) for s in some} for name, some in sessions.items()}
        took = time.monotonic() - began
        count = sum(map(len, sessions.values()))
        print(f"{count} sessions attached, and each asked its server who it is, in {took:.2f} s:")
        for name, some in sessions.items():
            print(f"  {len(some)} sessions of {name:<6} are served by pid {sorted(pids[name])}")

        for number, session in enumerate(sessions["notes"], 1):
            session.call("add", text=f"written by session {number}")
        seen = sessions["notes"][0].call("list").splitlines()
        print(f"\nThe first session reads what all ten wrote: {len(seen)} notes, such as")
        print(f"  {seen[-1]}")

        print("\n$ mcpctl status", flush=True)
        subprocess.run([BIN / "mcpctl", "status"], env=env, check=True)
        print("\n$ mcpctl call clock now", flush=True)
        subprocess.run([BIN / "mcpctl", "call", "clock", "now"], env=env, check=True)

        servers = set().union(*pids.values())
        if len(servers) != len(SERVERS):
            raise SystemExit(f"{len(SERVERS)} servers were to be {len(SERVERS)} processes: {pids}")
    return {mcpd.pid} | servers


def main() -> None:
    """Run the demo in a directory that is gone afterwards; exit status 1 if anything is left."""
    root = Path(tempfile.mkdtemp(prefix="mcpd-demo-", dir="/tmp"))
    try:
        pids = run(root)
        left = sorted(still_here(root).union(filter(is_alive, pids)))
        socket_left = (root / "mcpd.sock").exists()
    finally:
        shutil.rmtree(root)
    if left or socket_left:
        raise SystemExit(f"left behind: processes {left}, socket: {socket_left}")
    print(f"\nStopped: {sorted(pids)} are gone, nothing that they started runs,")
    print("and neither the socket nor the directory is there any more.")


if __name__ == "__main__":
    main()

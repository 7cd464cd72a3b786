"""The ways from a client to a server that are compared, all up at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.client import Address, Client, environment

HERE = Path(__file__).parent
ECHO = (os.path.realpath(sys.executable), "-I", "-S", str(HERE / "echo_server.py"))
"""The server's command: the bare interpreter, no site packages."""

UP_WITHIN_S = 20.0
ROUTES = ("direct", "relay", "socket", "bridge")
OPENED_AT_ONCE = 8


def binary(name: str) -> str:
    """Return the installed program: in ``MCPD_BIN``, else beside this Python."""
    return str(Path(os.environ.get("MCPD_BIN") or Path(sys.executable).parent) / name)


@contextlib.contextmanager
def directory() -> Iterator[str]:
    """Make a place for one daemon: home, socket, state, configuration."""
    made = tempfile.mkdtemp(prefix="mcpd-bench-", dir="/tmp")  # short: a socket's path is bounded
    try:
        os.mkdir(f"{made}/run", 0o700)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def running(
    argv: tuple[str, ...], env: dict[str, str], log: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, what it says in a file, until the block ends; then ask it to end, too."""
    with open(log, "wb") as file:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(UP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def configure(place: str, servers: int) -> None:
    """Write the configuration of a daemon with so many echo servers: ``echo0`` and so on."""
    # Each has an argument of its own: entries that launch the same are one process.
    names = [f"echo{number}" for number in range(servers)]
    entries = {name: {"command": ECHO[0], "args": [*ECHO[1:], name]} for name in names}
    text = json.dumps({"mcpServers": entries})
    path = Path(place, "mcp.json")
    path.write_text(text)
    path.chmod(0o600)


async def open_when_up(
    address: Address, process: subprocess.Popen[bytes], log: str, pause_s: float = 0.001
) -> Client:
    """Connect as soon as somebody listens; raise with the log of a process that ended instead."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + UP_WITHIN_S
    while True:
        try:
            return await Client.open(address)
        except OSError:
            if process.poll() is not None or loop.time() > deadline:
                raise RuntimeError(
                    f"{process.args!r} does not listen; its log:\n{Path(log).read_text()[-2000:]}"
                ) from None
        await asyncio.sleep(pause_s)


@dataclass
class Route:
    """One way: how to reach the servers by it, and who stands in between."""

    name: str
    addresses: tuple[Address, Address]
    """Of two servers that have nothing to do with each other."""
    middle: list[int] = field(default_factory=list)
    """The pids of what stands in between, bridges aside."""
    clients: list[Client] = field(default_factory=list)
    """Open sessions on the first server."""

    async def opened(self, count: int, env: dict[str, str]) -> list[Client]:
        """Return so many sessions on the first server; they stay open for the next time."""
        while len(self.clients) < count:
            missing = min(OPENED_AT_ONCE, count - len(self.clients))
            self.clients += await asyncio.gather(
                *(Client.open(self.addresses[0], env) for _ in range(missing))
            )
        return self.clients[:count]

    def middle_pids(self, count: int) -> list[int]:
        """Return who stands between the first so many clients and their server."""
        if self.name != "bridge":
            return self.middle
        return self.middle + [c.process.pid for c in self.clients[:count] if c.process]


@contextlib.asynccontextmanager
async def all_up(place: str) -> AsyncIterator[dict[str, Route]]:
    """Start the relays and a daemon, and close every session at the end."""
    env = environment(place)
    configure(place, 2)
    async with contextlib.AsyncExitStack() as stack:
        relays, sockets = [], []
        for i in range(2):
            sockets.append(f"{place}/run/relay{i}.sock")
            argv = (sys.executable, str(HERE / "relay.py"), sockets[i], *ECHO)
            relays.append(stack.enter_context(running(argv, env, f"{place}/relay{i}.log")))
        daemon = stack.enter_context(running((binary("mcpd"),), env, f"{place}/mcpd.log"))
        socket = env["MCPD_SOCKET"]
        for i in range(2):
            address = Address(sockets[i])
            await (await open_when_up(address, relays[i], f"{place}/relay{i}.log")).close()
        await (await open_when_up(Address(socket, "echo0"), daemon, f"{place}/mcpd.log")).close()
        connect = (binary("mcpctl"), "connect")
        routes = [
            Route("direct", (Address(command=ECHO), Address(command=ECHO))),
            Route(
                "relay",
                (Address(sockets[0]), Address(sockets[1])),
                [relay.pid for relay in relays],
            ),
            Route("socket", (Address(socket, "echo0"), Address(socket, "echo1")), [daemon.pid]),
            Route(
                "bridge",
                (
                    Address(command=(*connect, "echo0")),
                    Address(command=(*connect, "echo1")),
                ),
                [daemon.pid],
            ),
        ]
        try:
            yield {route.name: route for route in routes}
        finally:
            for route in routes:
                await asyncio.gather(*(client.close() for client in route.clients))

"""``python -m benchmarks.http``: the front beside the socket, uvicorn alone, the SDK's server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import machine
from benchmarks.client import Address, Client, WrongAnswer, echo, environment
from benchmarks.http_client import HttpClient
from benchmarks.report import Target, table
from benchmarks.rounds import no_collector, percentile
from benchmarks.routes import ECHO, binary, configure, directory, open_when_up, running

ROUTES = ("direct", "socket", "front", "bare", "sdk")
COUNTS = (1, 10, 100)
STREAMS = 1000
IDLE_S = 60.0
SETTLE_S = 3.0

TARGETS = (
    Target("p50_1", "echo p50, front / (uvicorn alone + socket - direct)", "", 1.5),
    Target("p50_10", "the same with 10 clients", "", 1.5),
    Target("p50_100", "the same with 100 clients", "", 1.5),
    Target("calls_10_sdk", "calls/s of 10 clients, front / SDK", "", 4, None, True),
    Target("calls_100_sdk", "calls/s of 100 clients, front / SDK", "", 4, None, True),
    Target("stream_kb", "PSS of an open GET stream", " KB", 25),
    Target("front_mb", "PSS that the front adds to a daemon", " MB", 15),
    Target("idle_switches", f"context switches, {STREAMS} streams, 60 idle seconds", "", 30),
)


@dataclass
class Route:
    """A way to an echo, and who answers."""

    name: str
    open: Callable[[], Any]
    pids: list[int]
    clients: list[Any] = field(default_factory=list)

    async def opened(self, count: int) -> list[Any]:
        """Return so many clients; they stay open for the next time."""
        while len(self.clients) < count:
            self.clients.append(await self.open())
        return self.clients[:count]


@contextlib.contextmanager
def listening(argv: tuple[str, ...], env: dict[str, str], log: str, port: int) -> Iterator[int]:
    """Run a process until it listens at a port; yield its pid."""
    with running(argv, env, log) as process:
        deadline = time.monotonic() + 20
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{argv} does not listen:\n{Path(log).read_text()[-2000:]}")
            time.sleep(0.01)
        yield process.pid


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configure_http(place: str, port: int) -> None:
    """Write the configuration of a daemon that listens at a port."""
    configure(place, 2)
    path = Path(place, "mcp.json")
    text = json.loads(path.read_text()) | {"http": {"listen": f"127.0.0.1:{port}"}}
    path.write_text(json.dumps(text))


def token(env: dict[str, str]) -> str:
    """Create a token."""
    argv = (binary("mcpctl"), "token", "create", "benchmark")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextlib.asynccontextmanager
async def all_up(place: str) -> AsyncIterator[dict[str, Route]]:
    """Start a daemon and the servers that it is measured against."""
    env = environment(place)
    ports = {name: free_port() for name in ("front", "bare", "sdk")}
    configure_http(place, ports["front"])
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(
            listening((binary("mcpd"),), env, f"{place}/mcpd.log", ports["front"])
        )
        text = token(env)
        peers = {
            name: stack.enter_context(
                listening(
                    (sys.executable, "-m", "benchmarks.http_peers", name, str(ports[name])),
                    {**env, "PYTHONPATH": sys.path[0]},
                    f"{place}/{name}.log",
                    ports[name],
                )
            )
            for name in ("bare", "sdk")
        }
        attached = Address(env["MCPD_SOCKET"], "echo0")
        routes = [
            Route("direct", lambda: Client.open(Address(command=ECHO), env), []),
            Route("socket", lambda: Client.open(attached), [daemon]),
            Route("front", lambda: HttpClient.open(ports["front"], "/mcp/echo0", text), [daemon]),
            Route(
                "bare",
                lambda: HttpClient.open(ports["bare"], "/", handshake=False),
                [peers["bare"]],
            ),
            Route("sdk", lambda: HttpClient.open(ports["sdk"], "/mcp"), [peers["sdk"]]),
        ]
        yield {route.name: route for route in routes}
        for client in routes[0].clients:
            await client.close()


async def measure(route: Route, count: int, seconds: float) -> dict[str, float]:
    """Return p50, calls a second and CPU time of a call, with so many clients."""
    clients = await route.opened(count)
    options = {"is_checked": False} if route.name == "bare" else {}
    await asyncio.gather(*(client.calls(echo, most=10, **options) for client in clients))
    with no_collector():
        cpu, began = machine.cpu_s(route.pids), time.perf_counter()
        answered = await asyncio.gather(
            *(client.calls(echo, seconds=seconds, **options) for client in clients)
        )
        took = time.perf_counter() - began
        cpu = machine.cpu_s(route.pids) - cpu
    every = [each for one in answered for each in one]
    return {
        "p50_us": percentile(every, 0.5) * 1e6,
        "p99_us": percentile(every, 0.99) * 1e6,
        "calls_s": len(every) / took,
        "cpu_us": cpu / len(every) * 1e6,
    }


async def rounds(options: argparse.Namespace, patience: machine.Patience) -> list[Any]:
    """Measure every route with each number of clients, in rounds, in random order."""
    found = []
    with directory() as place:
        async with all_up(place) as routes:
            for number in range(options.rounds):
                this: dict[int, dict[str, dict[str, float]]] = {}
                for count in COUNTS:
                    this[count] = {}
                    for name in random.sample(ROUTES, len(ROUTES)):
                        await patience.wait_quiet()
                        noise = machine.Noise()
                        figures = await measure(routes[name], count, options.seconds)
                        this[count][name] = figures | {"noise": noise.share()}
                    told = (f"{name} {this[count][name]['p50_us']:.0f}" for name in ROUTES)
                    say(
                        f"round {number + 1}/{options.rounds}  {count:3} clients  {'  '.join(told)}"
                    )
                found.append(this)
    return found


async def streams(idle_s: float) -> dict[str, float]:
    """Return what open streams cost, in memory and while nothing happens."""
    with directory() as place:
        env, port = environment(place), free_port()
        configure(place, 2)
        with running((binary("mcpd"),), env, f"{place}/off.log") as process:
            address = Address(env["MCPD_SOCKET"], "echo0")
            client = await open_when_up(address, process, f"{place}/off.log")
            await client.calls(echo, most=5)
            await asyncio.sleep(SETTLE_S)
            off = machine.pss_mb(process.pid)
            await client.close()
        configure_http(place, port)
        with listening((binary("mcpd"),), env, f"{place}/on.log", port) as daemon:
            text = token(env)
            client = await Client.open(address)
            await client.calls(echo, most=5)
            one = await HttpClient.open(port, "/mcp/echo0", text)
            await one.calls(echo, most=5)
            await asyncio.sleep(SETTLE_S)
            before = machine.pss_mb(daemon)
            opened = []
            for _ in range(STREAMS - 1):  # one session is there
                opened.append(await HttpClient.open(port, "/mcp/echo0", text))
            for each in opened:
                each.close()
            await asyncio.sleep(SETTLE_S)
            sessions = machine.pss_mb(daemon)
            listening_clients = [await each.reopened() for each in (*opened, one)]
            for each in listening_clients:
                await each.listen()
            await asyncio.sleep(SETTLE_S)
            after = machine.pss_mb(daemon)
            switches, cpu = machine.voluntary_switches(daemon), machine.cpu_s([daemon])
            await asyncio.sleep(idle_s)
            figures = {
                "off_mb": off,
                "on_mb": before,
                "front_mb": before - off,
                "session_kb": (sessions - before) * 1000 / STREAMS,
                "stream_kb": (after - sessions) * 1000 / STREAMS,
                "idle_switches": (machine.voluntary_switches(daemon) - switches) * 60 / idle_s,
                "idle_cpu_ms": (machine.cpu_s([daemon]) - cpu) * 1e3 * 60 / idle_s,
            }
            for each in listening_clients:
                each.close()
            await client.close()
    return figures


def summary(found: list[Any]) -> dict[str, float]:
    """Return the figures of the targets: medians of what each round had."""

    def median(of: Callable[[Any], float]) -> float:
        return statistics.median(map(of, found))

    def p50(count: int) -> Callable[[Any], float]:
        def of(this: Any) -> float:
            us = {name: this[count][name]["p50_us"] for name in ROUTES}
            return float(us["front"] / (us["bare"] + us["socket"] - us["direct"]))

        return of

    def calls(count: int) -> Callable[[Any], float]:
        return lambda this: this[count]["front"]["calls_s"] / this[count]["sdk"]["calls_s"]

    figures = {f"p50_{count}": median(p50(count)) for count in COUNTS}
    return figures | {f"calls_{count}_sdk": median(calls(count)) for count in (10, 100)}


def by_route(found: list[Any]) -> str:
    """Return the table of the routes beside each other."""
    texts = {
        "p50_us": "p50, µs",
        "p99_us": "p99, µs",
        "calls_s": "calls/s",
        "cpu_us": "CPU of who answers, µs a call",
    }

    def rows() -> Iterator[tuple[str, ...]]:
        for count in COUNTS:
            for figure, text in texts.items():
                medians = (
                    statistics.median(r[count][name][figure] for r in found) for name in ROUTES
                )
                yield f"{count} clients: {text}", *(f"{value:,.0f}" for value in medians)

    return table(("medians", *ROUTES), rows())


def against_targets(figures: dict[str, float]) -> str:
    """Return the table of what was promised."""

    def rows() -> Iterator[tuple[str, ...]]:
        for target in TARGETS:
            if target.figure in figures:
                value = figures[target.figure]
                least = "at least" if target.least else "at most"
                wanted = f"{least} {target.limit:g}{target.unit}"
                yield target.text, f"{value:.3g}{target.unit}", wanted, target.verdict(value)

    return table(("figure", "measured", "target", ""), rows())


def say(line: str) -> None:
    """Show progress, away from the tables."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Run it; the exit status is 1 when an answer was wrong."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    ap.add_argument("--quick", action="store_true", help="3 short rounds, 20 idle seconds")
    ap.add_argument("--only", choices=("rounds", "streams"))
    options = ap.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.4
    figures: dict[str, float] = {}
    found: list[Any] = []

    async def run() -> None:
        if options.only != "rounds":
            figures.update(await streams(20.0 if options.quick else IDLE_S))
        if options.only != "streams":
            patience = machine.Patience(10.0 if options.quick else 120.0)
            found.extend(await rounds(options, patience))

    try:
        uvloop.run(run())
    except WrongAnswer as error:
        say(f"benchmarks: {error}")
        return 1
    if found:
        figures |= summary(found)
        noise = [route["noise"] for r in found for c in r.values() for route in c.values()]
        print(f"others used {statistics.median(noise):.0%} of a core in the median measurement")
        print(f"\n{by_route(found)}")
    print(f"\n{against_targets(figures)}\n")
    print(", ".join(f"{name} {value:.3g}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

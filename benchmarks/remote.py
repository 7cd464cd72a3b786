"""``python -m benchmarks.remote``: a call to a remote server by mcpd, and by aiohttp alone."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks import machine
from benchmarks.client import Address, Call, WrongAnswer, decode, echo, environment
from benchmarks.http import Route, free_port, listening, say
from benchmarks.report import Target, table
from benchmarks.rounds import no_collector, percentile
from benchmarks.routes import binary, directory, open_when_up, running

ROUTES = ("mcpd", "aiohttp")
COUNTS = (1, 10)
TARGETS = (
    Target("p50_1", "p50 of a remote call, mcpd / aiohttp alone", "", 2),
    Target("p50_10", "the same with 10 clients", "", 2),
)


class Poster:
    """One client that posts calls itself, with a connection of its own."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/mcp"
        self._session = aiohttp.ClientSession(
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-11-25",
            }
        )
        self._ids = iter(range(1, 1 << 62))

    async def calls(
        self, make: Callable[[int], Call], *, seconds: float = 3600.0, most: int = 1 << 62
    ) -> list[float]:
        """Call back to back; return what each took, in seconds. At least one is made."""
        took: list[float] = []
        end = time.perf_counter() + seconds
        while True:
            call = make(next(self._ids))
            started = time.perf_counter()
            async with self._session.post(self._url, data=call.line) as answer:
                message = decode(await answer.read())
            if message["id"] != call.id or message["result"]["content"][0]["text"] != call.text:
                raise WrongAnswer(f"call {call.id} was answered with {message!r:.300}")
            now = time.perf_counter()
            took.append(now - started)
            if now >= end or len(took) >= most:
                return took

    async def close(self) -> None:
        """Hang up."""
        await self._session.close()


@contextlib.asynccontextmanager
async def all_up(place: str) -> AsyncIterator[dict[str, Route]]:
    """Start the server, and a daemon that has it as an entry."""
    env, port = environment(place), free_port()
    path = Path(place, "mcp.json")
    entry = {"url": f"http://127.0.0.1:{port}/mcp", "era": "legacy"}
    path.write_text(json.dumps({"mcpServers": {"far": entry}}))
    path.chmod(0o600)
    peer = (sys.executable, "-m", "benchmarks.http_peers", "remote", str(port))
    with (
        listening(peer, {**env, "PYTHONPATH": sys.path[0]}, f"{place}/peer.log", port),
        running((binary("mcpd"),), env, f"{place}/mcpd.log") as daemon,
    ):
        address = Address(env["MCPD_SOCKET"], "far")
        first = await open_when_up(address, daemon, f"{place}/mcpd.log")

        async def attached() -> Any:
            return await type(first).open(address)

        async def poster() -> Any:
            return Poster(port)

        routes = (
            Route("mcpd", attached, [daemon.pid], [first]),
            Route("aiohttp", poster, []),
        )
        yield {route.name: route for route in routes}
        for route in routes:
            for client in route.clients:
                await client.close()


async def measure(route: Route, count: int, seconds: float) -> dict[str, float]:
    """Return p50, p99 and calls a second with so many clients."""
    clients = await route.opened(count)
    await asyncio.gather(*(client.calls(echo, most=10) for client in clients))
    with no_collector():
        began = time.perf_counter()
        answered = await asyncio.gather(
            *(client.calls(echo, seconds=seconds) for client in clients)
        )
        took = time.perf_counter() - began
    every = [each for one in answered for each in one]
    return {
        "p50_us": percentile(every, 0.5) * 1e6,
        "p99_us": percentile(every, 0.99) * 1e6,
        "calls_s": len(every) / took,
    }


async def rounds(options: argparse.Namespace) -> list[Any]:
    """Measure both with each number of clients, in rounds, in random order."""
    patience = machine.Patience(options.patience)
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


def report(found: list[Any]) -> None:
    """Print both beside each other, and the ratios against what was promised."""
    noise = [route["noise"] for r in found for c in r.values() for route in c.values()]
    print(f"others used {statistics.median(noise):.0%} of a core in the median measurement\n")
    texts = {"p50_us": "p50, µs", "p99_us": "p99, µs", "calls_s": "calls/s"}

    def rows() -> Iterator[tuple[str, ...]]:
        for count in COUNTS:
            for figure, text in texts.items():
                medians = (statistics.median(r[count][n][figure] for r in found) for n in ROUTES)
                yield f"{count} clients: {text}", *(f"{value:,.0f}" for value in medians)

    print(table(("medians", *ROUTES), rows()))
    judged: list[tuple[str, ...]] = []
    for target, count in zip(TARGETS, COUNTS, strict=True):
        ratios = sorted(r[count]["mcpd"]["p50_us"] / r[count]["aiohttp"]["p50_us"] for r in found)
        middle = statistics.median(ratios)
        quarter = len(ratios) // 4
        spread = f"{middle:.3g} ({ratios[quarter]:.3g} to {ratios[-1 - quarter]:.3g})"
        judged.append((target.text, spread, f"at most {target.limit:g}", target.verdict(middle)))
    print("\n" + table(("figure", "measured", "target", ""), iter(judged)))


def main() -> int:
    """Run it; the exit status is 1 when an answer was wrong."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.remote", description=__doc__)
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    ap.add_argument("--patience", type=float, default=60.0, help="to wait for a quiet machine")
    try:
        report(uvloop.run(rounds(ap.parse_args())))
    except WrongAnswer as error:
        say(f"benchmarks: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

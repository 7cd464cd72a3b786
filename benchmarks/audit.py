"""``python -m benchmarks.audit``: what recording a call costs, beside recording none."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks import machine
from benchmarks.client import Address, Call, Client, WrongAnswer, blob, environment
from benchmarks.report import table
from benchmarks.rounds import no_collector, percentile
from benchmarks.routes import binary, configure, directory, open_when_up, running

BYTES = 4096
"""Of a call's answer."""

CLIENTS = 10
MOST_US = 3.0
"""What recording a call may cost on the loop."""


@dataclass
class Daemon:
    """A daemon, its clients, and what was measured of it."""

    name: str
    pid: int
    clients: list[Client]
    loop_us: list[float] = field(default_factory=list)
    """CPU of the loop's thread for a call, of each round."""
    all_us: list[float] = field(default_factory=list)
    """CPU of all threads for a call."""
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)


@contextlib.asynccontextmanager
async def up(name: str, audit: bool) -> AsyncIterator[Daemon]:
    """Start a daemon with one echo server and ``CLIENTS`` sessions."""
    with directory() as place:
        configure(place, 1)
        path = Path(place, "mcp.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "trust": {"audit": audit}}))
        env, log = environment(place), f"{place}/mcpd.log"
        address = Address(env["MCPD_SOCKET"], "echo0")
        with running((binary("mcpd"),), env, log) as process:
            first = await open_when_up(address, process, log)
            others = [await Client.open(address) for _ in range(CLIENTS - 1)]
            daemon = Daemon(name, process.pid, [first, *others])
            await calls(daemon, blob(BYTES), 0.5)
            yield daemon
            await asyncio.gather(*(client.close() for client in daemon.clients))


async def calls(daemon: Daemon, make: Callable[[int], Call], seconds: float) -> list[float]:
    """Have every client call back to back; return what each call took, in seconds."""
    each = await asyncio.gather(*(c.calls(make, seconds=seconds) for c in daemon.clients))
    return [took for one in each for took in one]


def loop_cpu_s(pid: int) -> float:
    """Return the CPU time of a process's first thread, which runs the loop."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


async def measure(daemon: Daemon, seconds: float) -> None:
    """Measure one round."""
    with no_collector():
        loop, whole = loop_cpu_s(daemon.pid), machine.cpu_s([daemon.pid])
        took = await calls(daemon, blob(BYTES), seconds)
        count = len(took)
        daemon.loop_us.append((loop_cpu_s(daemon.pid) - loop) / count * 1e6)
        daemon.all_us.append((machine.cpu_s([daemon.pid]) - whole) / count * 1e6)
        daemon.p50_us.append(percentile(took, 0.5) * 1e6)
        daemon.p99_us.append(percentile(took, 0.99) * 1e6)


async def run(rounds: int, seconds: float, patience_s: float) -> list[Daemon]:
    """Measure both daemons in each round, one after the other in random order."""
    patience = machine.Patience(patience_s)
    async with up("off", False) as off, up("on", True) as on:
        for number in range(rounds):
            await patience.wait_quiet()
            for daemon in random.sample([off, on], 2):
                await measure(daemon, seconds)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        return [off, on]


def report(off: Daemon, on: Daemon) -> str:
    """Return the table: the best round, the median, and the median of the differences."""
    rows = []
    for what, figures in (
        ("CPU of the loop for a call, µs", "loop_us"),
        ("CPU of all threads for a call, µs", "all_us"),
        ("p50, µs", "p50_us"),
        ("p99, µs", "p99_us"),
    ):
        without, with_ = getattr(off, figures), getattr(on, figures)
        more = [b - a for a, b in zip(without, with_, strict=True)]
        best = min(with_) - min(without)
        rows.append(
            [
                what,
                f"{statistics.median(without):.1f}",
                f"{statistics.median(with_):.1f}",
                f"{statistics.median(more):+.1f}",
                f"{best:+.1f}",
            ]
        )
    header = ["medians of the rounds", "off", "on", "difference", "of the best rounds"]
    return table(header, rows)


def main() -> int:
    """Run it; the exit status is 1 when an answer was wrong."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    ap.add_argument("--rounds", type=int, default=40)
    ap.add_argument("--seconds", type=float, default=0.5, help="of a measurement")
    ap.add_argument("--patience", type=float, default=60.0, help="to wait for a quiet machine")
    options = ap.parse_args()
    try:
        off, on = uvloop.run(run(options.rounds, options.seconds, options.patience))
    except WrongAnswer as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    about = f"{CLIENTS} clients, answers of {BYTES} bytes, {options.rounds} rounds"
    print(f"{about}, Linux {os.uname().release}")
    print(report(off, on))
    return 0


if __name__ == "__main__":
    sys.exit(main())

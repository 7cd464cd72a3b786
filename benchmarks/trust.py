"""``python -m benchmarks.trust``: what asking and recording cost a call.

Daemons are up at once and measured in turn: one where all of it is off, one as it is by default,
and one where all of it is on and nobody is asked. ``--before`` adds an older installation.
"""

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
from typing import Any

import uvloop

from benchmarks import machine
from benchmarks.client import Address, Call, Client, WrongAnswer, blob, environment
from benchmarks.report import table
from benchmarks.rounds import no_collector, percentile
from benchmarks.routes import binary, configure, directory, open_when_up, running

Json = dict[str, Any]

BYTES = 4096
"""Of a call's answer."""

CLIENTS = 10
OFTEN = "100000/s"
"""A rate that is counted and never reached."""

PROFILE = "bench"


@dataclass(frozen=True)
class Settings:
    """How a daemon is configured."""

    name: str
    top: Json = field(default_factory=dict)
    entry: Json = field(default_factory=dict)
    """What its server has besides its command."""
    profile: str | None = None
    """What its sessions attach with."""
    programs: str | None = None
    """Where its programs are, if they are another installation's."""


OFF = Settings("off", {"trust": {"audit": False, "pin": "off", "sanitise": "off"}})
PLAIN = Settings("by default")
ALL = Settings(
    "all on",
    {
        "trust": {"audit": True, "pin": "hold", "client_rate": OFTEN, "approval": "trusted"},
        "profiles": {PROFILE: {"servers": ["echo0"], "tools": ["*"]}},
    },
    {"trusted": ["blob", "echo"], "ask": ["delete_*"], "pin": "hold", "rate": OFTEN},
    PROFILE,
)
"""Each call is in a scope, looked up among pins, counted twice, not asked about, and recorded."""


@dataclass
class Daemon:
    """A daemon, its clients, and what was measured of it, a figure for each round."""

    name: str
    pid: int
    clients: list[Client]
    place: Path
    loop_us: list[float] = field(default_factory=list)
    """CPU of the loop's thread for a call."""
    all_us: list[float] = field(default_factory=list)
    """CPU of all threads for a call."""
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)


@contextlib.asynccontextmanager
async def up(
    settings: Settings, prepare: Callable[[Path], None] = lambda place: None
) -> AsyncIterator[Daemon]:
    """Start a daemon with one echo server and ``CLIENTS`` sessions, after ``prepare``."""
    with directory() as place:
        configure(place, 1)
        path = Path(place, "mcp.json")
        written: Json = json.loads(path.read_text())
        written["mcpServers"]["echo0"] |= settings.entry
        path.write_text(json.dumps(written | settings.top))
        env, log = environment(place), f"{place}/mcpd.log"
        os.mkdir(f"{place}/state", 0o700)
        prepare(Path(place, "state"))
        address = Address(env["MCPD_SOCKET"], "echo0", profile=settings.profile)
        program = f"{settings.programs}/mcpd" if settings.programs else binary("mcpd")
        with running((program,), env, log) as process:
            first = await open_when_up(address, process, log)
            others = [await Client.open(address) for _ in range(CLIENTS - 1)]
            daemon = Daemon(settings.name, process.pid, [first, *others], Path(place))
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


async def run(
    settings: list[Settings], rounds: int, seconds: float, patience_s: float
) -> tuple[list[Daemon], list[float]]:
    """Measure all daemons in each round, in random order; return them, and how busy others were."""
    patience = machine.Patience(patience_s)
    shares = []
    async with contextlib.AsyncExitStack() as stack:
        daemons = [await stack.enter_async_context(up(each)) for each in settings]
        for number in range(rounds):
            for daemon in random.sample(daemons, len(daemons)):
                await patience.wait_quiet()
                noise = machine.Noise()
                await measure(daemon, seconds)
                shares.append(noise.share())
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        return daemons, shares


FIGURES = (
    ("CPU of the loop for a call, µs", "loop_us"),
    ("CPU of all threads for a call, µs", "all_us"),
    ("p50, µs", "p50_us"),
    ("p99, µs", "p99_us"),
)


def report(daemons: list[Daemon]) -> str:
    """Return the medians of the rounds, and those of the ratios to the first daemon."""
    first, *others = daemons
    header = ["medians of the rounds", *(each.name for each in daemons)]
    header += [f"{each.name} / {first.name}" for each in others]
    header += [f"{each.name}, best rounds" for each in others]
    rows = []
    for what, figures in FIGURES:
        without: list[float] = getattr(first, figures)
        row = [what, *(f"{statistics.median(getattr(each, figures)):.1f}" for each in daemons)]
        for each in others:
            ratios = [b / a for a, b in zip(without, getattr(each, figures), strict=True)]
            low, middle, high = statistics.quantiles(ratios * (2 if len(ratios) < 2 else 1), n=4)
            row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        row += [f"{min(getattr(each, figures)) - min(without):+.1f}" for each in others]
        rows.append(row)
    return table(header, rows)


def main() -> int:
    """Run it; the exit status is 1 when an answer was wrong."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    ap.add_argument("--rounds", type=int, default=40)
    ap.add_argument("--seconds", type=float, default=0.5, help="of a measurement")
    ap.add_argument("--patience", type=float, default=60.0, help="to wait for a quiet machine")
    ap.add_argument("--before", metavar="DIR", help="where the mcpd of an older installation is")
    options = ap.parse_args()
    settings = [OFF, PLAIN, ALL]
    if options.before:
        settings.insert(0, Settings("before", programs=options.before))
    try:
        daemons, shares = uvloop.run(
            run(settings, options.rounds, options.seconds, options.patience)
        )
    except WrongAnswer as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    about = f"{CLIENTS} clients, answers of {BYTES} bytes, {options.rounds} rounds"
    busy = f"others used {statistics.median(shares):.0%} of a core in the median measurement"
    print(f"{about}, Linux {os.uname().release}; {busy}, {max(shares):.0%} at most")
    print(report(daemons))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks.audit``: a large audit is brought below its limit while calls go on.

The file begins with ``--rows`` calls and is to be at most ``LIMIT``. Its daemon is measured, while
it removes rows, in turn with one that has nothing to remove; the one that is not measured is
stopped. The exit status is 1 when the file is not below the limit in ten minutes, or not whole.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sqlite3
import statistics
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import machine
from benchmarks.client import Client, WrongAnswer, blob
from benchmarks.rounds import no_collector, percentile
from benchmarks.trust import BYTES, CLIENTS, Daemon, Settings, loop_cpu_s, up
from mcpd.audit.store import CallRow, Store

LIMIT = 64 << 20
LOG = 16 << 20
"""What the write-ahead log may have beside it."""

RATE = 2000
"""Calls a second, of all clients."""

WITHIN_S = 600.0
ROUNDS_BELOW = 60
"""Rounds of calls when the file is below its limit, which is not measured: it must stay there."""
SERVERS = ("files", "git", "browser", "search", "mail")


class Figures(NamedTuple):
    """What was measured of one daemon, in µs."""

    p50: float
    p99: float
    loop: float
    """CPU of the loop's thread for a call."""


@dataclass
class Outcome:
    """What was measured, a figure for each round."""

    without: list[Figures] = field(default_factory=list)
    with_: list[Figures] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    before_bytes: int = 0
    after_bytes: int = 0
    log_bytes: int = 0
    """The largest that the write-ahead log was."""
    took_s: float = 0.0
    """Seconds in which the daemon ran."""
    below_s: float = 0.0
    """How many of them until the file was below the limit."""
    calls: int = 0
    """How many were made of that daemon."""


def fill(state: Path, rows: int) -> None:
    """Write a file with so many calls, as the daemon would have, one a millisecond until now."""
    store = Store(str(state / "audit.db"))
    begin = time.time_ns() // 1_000_000 - rows
    tools = [f"tool_{number}" for number in range(40)]
    for first in range(0, rows, 10_000):
        store.write(
            CallRow(
                (
                    "local",
                    "bench 1",
                    SERVERS[number % len(SERVERS)],
                    tools[number % len(tools)],
                    "tools/call",
                    None,
                ),
                begin + number,
                number // 500,
                0,
                12,
                0,
                120,
                4200,
                os.urandom(16),
                os.urandom(16),
                None,
                None,
                0,
            )
            for number in range(first, min(rows, first + 10_000))
        )
    store.close()


async def paced(daemon: Daemon, seconds: float) -> list[float]:
    """Have the clients call ``RATE`` times a second in all; return what each took from when due."""
    make = blob(BYTES)

    async def one(client: Client, number: int) -> list[float]:
        took = []
        start = time.perf_counter() + number / RATE
        for call in range(int(seconds * RATE / CLIENTS)):
            due = start + call * CLIENTS / RATE
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
                due = time.perf_counter()  # that our own timer is late is nobody's fault
            await client.call(make)
            took.append(time.perf_counter() - due)
        return took

    each = await asyncio.gather(*(one(c, number) for number, c in enumerate(daemon.clients)))
    return [took for one_ in each for took in one_]


def size(path: Path) -> int:
    """Return the size of a file; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


async def run(rows: int, seconds: float, patience_s: float) -> Outcome:
    """Measure until the file is below its limit, and a few rounds more."""
    found, patience = Outcome(), machine.Patience(patience_s)

    def prepare(state: Path) -> None:
        fill(state, rows)
        found.before_bytes = size(state / "audit.db")

    limited = Settings("removing", {"trust": {"audit_max": "64MiB"}})
    async with up(Settings("recording")) as idle:
        os.kill(idle.pid, signal.SIGSTOP)
        async with up(limited, prepare) as busy:
            file = busy.place / "state/audit.db"
            log = file.with_name("audit.db-wal")
            rounds_below = 0
            while rounds_below < ROUNDS_BELOW and found.took_s < WITHIN_S:
                await patience.wait_quiet()
                is_removing = not rounds_below
                for daemon in random.sample([idle, busy], 2) if is_removing else [busy]:
                    os.kill(idle.pid, signal.SIGCONT if daemon is idle else signal.SIGSTOP)
                    os.kill(busy.pid, signal.SIGCONT if daemon is busy else signal.SIGSTOP)
                    noise = machine.Noise()
                    with no_collector():
                        loop = loop_cpu_s(daemon.pid)
                        took = await paced(daemon, seconds)
                        loop = loop_cpu_s(daemon.pid) - loop
                    if is_removing:
                        found.noise.append(noise.share())
                        p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
                        figures = Figures(p50 * 1e6, p99 * 1e6, loop / len(took) * 1e6)
                        (found.without if daemon is idle else found.with_).append(figures)
                    if daemon is busy:
                        found.calls += len(took)
                        found.took_s += seconds
                        found.log_bytes = max(found.log_bytes, size(log))
                print(
                    f"{found.took_s:.0f} s: {size(file) / 1e6:.0f} MB", file=sys.stderr, flush=True
                )
                if size(file) <= LIMIT:
                    found.below_s = found.below_s or found.took_s
                    rounds_below += 1
            os.kill(busy.pid, signal.SIGCONT)
            await asyncio.sleep(1)  # what was called last is written
            found.after_bytes = size(file)
            found.log_bytes = max(found.log_bytes, size(log))
            os.kill(idle.pid, signal.SIGCONT)
            check(file, found.calls)
    return found


def check(file: Path, calls: int) -> None:
    """Raise ``WrongAnswer`` unless the file is whole, and has all calls of this run."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        ids = "SELECT count(*), max(id) - min(id) + 1 FROM call"
        count, span = database.execute(ids).fetchone()
        ours = "SELECT count(*) FROM call WHERE tool = (SELECT id FROM name WHERE text = 'blob')"
        (kept,) = database.execute(ours).fetchone()
    if whole != "ok" or count != span or kept < calls:
        raise WrongAnswer(f"{whole}; {count} rows of {span} numbers; {kept} of {calls} calls")
    print(f"the file is whole: {count} rows, the newest; of this run each of {calls} calls")


def report(found: Outcome) -> str:
    """Return what was found, in sentences."""
    lines = [
        f"{found.before_bytes / 1e6:.0f} MB became {found.after_bytes / 1e6:.1f} MB, of at most "
        f"{LIMIT / 1e6:.1f}: below that after {found.below_s:.0f} of {found.took_s:.0f} s with "
        f"{RATE} calls a second; the log had {found.log_bytes / 1e6:.1f} MB at most, "
        f"of {LOG / 1e6:.1f}",
        f"others used {statistics.median(found.noise):.0%} of a core in the median measurement",
    ]
    for number, what in enumerate(("p50", "p99", "CPU of the loop for a call")):
        without, with_ = ([each[number] for each in all_] for all_ in (found.without, found.with_))
        ratios = [b / a for a, b in zip(without, with_, strict=True)]
        low, middle, high = statistics.quantiles(ratios * (2 if len(ratios) < 2 else 1), n=4)
        lines.append(
            f"{what}: {statistics.median(without):.0f} µs without rows to remove, "
            f"{statistics.median(with_):.0f} with; ratio {middle:.2f} ({low:.2f} to {high:.2f})"
        )
    return "\n".join(lines)


def main() -> int:
    """Run it."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    ap.add_argument("--rows", type=int, default=3_000_000, help="that the file begins with")
    ap.add_argument("--seconds", type=float, default=0.5, help="of a measurement")
    ap.add_argument("--patience", type=float, default=60.0, help="to wait for a quiet machine")
    options = ap.parse_args()
    try:
        found = uvloop.run(run(options.rows, options.seconds, options.patience))
    except WrongAnswer as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    print(report(found))
    return 0 if found.after_bytes <= LIMIT and found.log_bytes <= LOG else 1


if __name__ == "__main__":
    sys.exit(main())

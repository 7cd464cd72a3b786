"""``make hostile``: a million messages of hostile peers, on the core alone and on a daemon.

``make hostile-http`` sends as many hostile requests to a daemon that listens for HTTP.

A run is told by its seed. What a chunk of it found is shown again by ``--only CHUNK``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final

from mcpd.core.catalog.model import Kind, parse_page
from mcpd.core.wire.envelope import LARGE_BYTES
from tests.faults.ground import memory_kib
from tests.property.hostile import http
from tests.property.hostile.core import Run
from tests.property.hostile.daemon import storm

EXAMPLES: Final = 20
"""In a chunk."""

P99_S: Final = 0.05
GROWTH: Final = 1.2
"""Of a job's memory from its fifth chunk on to its last ones, at most."""

HELD_GROWTH: Final = 1.02
"""The same of the blocks that Python's objects take: what is held grows there alone."""


def chunk(number: int) -> tuple[int, list[float], tuple[float, str], int, tuple[int, int]]:
    """Try a chunk; return what it took, and who did it with how much memory.

    Free memory that the allocator keeps is given back before: it is not held by anything.
    """
    run = Run()
    run.chunk(number, EXAMPLES)
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    memory = memory_kib(os.getpid()), sys.getallocatedblocks()
    return run.messages, run.times, run.slowest, os.getpid(), memory


def read_long_lists() -> None:
    """Have the decoders of long lists made, which are made once, with the first of each kind."""
    entries = b"[" + b",".join([b'{"name":"a"}'] * (LARGE_BYTES // 12)) + b"]"
    for kind in Kind:
        parse_page(kind, b'{"%b":%b}' % (kind.key.encode(), entries))


def growth(sizes: list[int]) -> float:
    """Return how the last tenth of some sizes compares to the first; each by its median."""
    tenth = max(1, len(sizes) // 10)
    return statistics.median(sizes[-tenth:]) / statistics.median(sizes[:tenth])


def core(messages: int, seed: int, jobs: int) -> int:
    """Have the core alone react to so many messages; print the figures."""
    began, total = time.monotonic(), Run()
    memory: dict[int, list[tuple[int, int]]] = {}
    number = seed * 1_000_000
    with ProcessPoolExecutor(jobs, initializer=read_long_lists) as pool:
        waiting = {pool.submit(chunk, number + n) for n in range(2 * jobs)}
        number += 2 * jobs
        while total.messages < messages:
            done = next(as_completed(waiting))
            waiting.discard(done)
            count, times, slowest, pid, size = done.result()
            total.messages += count
            total.times += times
            total.slowest = max(total.slowest, slowest)
            memory.setdefault(pid, []).append(size)
            waiting.add(pool.submit(chunk, number))
            number += 1
        for left in waiting:
            left.cancel()
    later = [each[4:] or each for each in memory.values()]
    resident = max(growth([kib for kib, _ in each]) for each in later)
    held = max(growth([blocks for _, blocks in each]) for each in later)
    p99 = total.percentile(0.99)
    print(
        f"hostile: seed {seed}, the core: {total.messages:,} messages in "
        f"{time.monotonic() - began:.0f} s, {len(total.times):,} reactions: p99 {p99 * 1000:.2f} ms, "
        f"the slowest {total.slowest[0] * 1000:.0f} ms ({total.slowest[1][:100]}); "
        f"memory of a job x{resident:.2f}, of its objects x{held:.3f}",
        flush=True,
    )
    return int(p99 > P99_S or resident > GROWTH or held > HELD_GROWTH)


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.hostile", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--on", choices=("core", "daemon", "http", "both"), default="both")
    parser.add_argument("--only", type=int, metavar="CHUNK", help="one chunk on the core")
    asked = parser.parse_args()
    seed = int.from_bytes(os.urandom(3), "big") if asked.seed is None else asked.seed
    if asked.only is not None:
        Run().chunk(asked.only, EXAMPLES)
        return 0
    status = 0
    if asked.on == "http":
        print(f"hostile: seed {seed}, over HTTP: {http.storm(asked.messages, seed)}", flush=True)
        return 0
    if asked.on != "daemon":
        status = core(asked.messages, seed, asked.jobs)
    if asked.on != "core":
        os.environ.setdefault("MCPD_SIZE_SECONDS", "1")  # the latency is judged strictly
        storm(asked.messages, seed)
        print(f"hostile: seed {seed}, a daemon: {asked.messages:,} messages", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())

"""What is measured on every route, in interleaved rounds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from benchmarks import machine
from benchmarks.client import Address, WrongAnswer, blob, echo
from benchmarks.routes import Route

MIB = 1 << 20
LARGE = 16 * MIB
RATE = 100
"""Calls a second of the client that is disturbed."""

Figures = dict[str, float]
Measure = Callable[[Route, dict[str, str], float], Coroutine[Any, Any, Figures]]


def percentile(values: list[float], share: float) -> float:
    """Return the value that ``share`` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Keep our own garbage collector out of what is measured."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


async def latency(route: Route, env: dict[str, str], seconds: float) -> Figures:
    """Time one client's echo calls, back to back, in µs."""
    (client,) = await route.opened(1, env)
    await client.calls(echo, most=50)
    with no_collector():
        took = await client.calls(echo, seconds=seconds)
    return {"p50_us": percentile(took, 0.5) * 1e6, "p99_us": percentile(took, 0.99) * 1e6}


def throughput(count: int) -> Measure:
    """Return what counts the calls a second of so many clients, each with one in flight."""

    async def measure(route: Route, env: dict[str, str], seconds: float) -> Figures:
        clients = await route.opened(count, env)
        await asyncio.gather(*(client.calls(echo, most=10) for client in clients))
        middle = route.middle_pids(count)
        with no_collector():
            cpu, started = machine.cpu_s(middle), time.perf_counter()
            answered = await asyncio.gather(*(c.calls(echo, seconds=seconds) for c in clients))
            took = time.perf_counter() - started
            cpu = machine.cpu_s(middle) - cpu
        calls = sum(map(len, answered))
        every = [each for one in answered for each in one]
        return {
            "calls_s": calls / took,
            "p99_us": percentile(every, 0.99) * 1e6,
            "middle_cpu_us": cpu / calls * 1e6,
        }

    return measure


def transfer(size_bytes: int) -> Measure:
    """Return what measures the flow of results of that size to one client, in MB (10^6)/s."""

    async def measure(route: Route, env: dict[str, str], seconds: float) -> Figures:
        (client,) = await route.opened(1, env)
        await client.call(blob(size_bytes))
        with no_collector():
            took = await client.calls(blob(size_bytes), seconds=seconds)
        return {"mb_s": size_bytes / 1e6 / percentile(took, 0.5)}

    return measure


async def beside(route: Route, env: dict[str, str], seconds: float) -> Figures:
    """Time an echo, 100 times a second, while another server's large results flow; in ms.

    From when each call was due: a stall counts in every call that it holds up.
    """
    (client,) = await route.opened(1, env)
    await client.calls(echo, most=10)
    took: list[float] = []
    async with disturbed(route.addresses[1], env) as count:
        with no_collector():
            start = time.perf_counter()
            for i in range(int(seconds * RATE)):
                due = start + i / RATE
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                    due = time.perf_counter()  # that our own timer is late is nobody's fault
                await client.call(echo)
                took.append((time.perf_counter() - due) * 1e3)
    return {
        "p50_ms": percentile(took, 0.5),
        "p99_ms": percentile(took, 0.99),
        "max_ms": max(took),
        "results": float(count[0]),
    }


@contextlib.asynccontextmanager
async def disturbed(address: Address, env: dict[str, str]) -> AsyncIterator[list[int]]:
    """Have another process fetch large results; how many is in the list at the end."""
    pipe = asyncio.subprocess.PIPE
    argv = ("-m", "benchmarks.disturb", str(LARGE), json.dumps(address))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        stdin=pipe,
        stdout=pipe,
        env={**env, "PYTHONPATH": sys.path[0]},
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    count = [0]
    try:
        said = await asyncio.wait_for(process.stdout.readline(), 60)
        if said.strip() != b"ready":
            raise WrongAnswer(f"the disturbing client of {address} said {said!r}")
        yield count
    finally:
        process.stdin.close()
        said = await asyncio.wait_for(process.stdout.read(), 60)
        await process.wait()
    if not said.strip():
        raise WrongAnswer(f"the disturbing client of {address} failed")
    count[0] = int(said)


MEASURES: dict[str, tuple[Measure, float]] = {
    "echo": (latency, 1.0),
    "calls_1": (throughput(1), 0.5),
    "calls_10": (throughput(10), 1.0),
    "calls_100": (throughput(100), 1.0),
    "blob_1": (transfer(MIB), 0.5),
    "blob_16": (transfer(LARGE), 2.0),
    "beside": (beside, 3.0),
}
"""By name: what it is and how many seconds it takes."""


async def run(
    routes: dict[str, Route],
    env: dict[str, str],
    *,
    rounds: int,
    scale: float,
    only: tuple[str, ...],
    patience: machine.Patience,
    say: Callable[[str], None],
) -> list[dict[str, dict[str, Figures]]]:
    """Measure everything on every route, round by round; return metric, route, figures of each.

    In a round a metric is measured on all routes, one after the other in random order, so that
    what the machine does meanwhile is much the same for all of them.
    """
    done: list[dict[str, dict[str, Figures]]] = []
    names = tuple(routes)
    for number in range(rounds):
        this: dict[str, dict[str, Figures]] = {}
        for metric in only:
            measure, seconds = MEASURES[metric]
            figures: dict[str, Figures] = {}
            for name in random.sample(names, len(names)):
                await patience.wait_quiet()
                noise = machine.Noise()
                found = await measure(routes[name], env, seconds * scale)
                figures[name] = {**found, "noise": noise.share()}
            this[metric] = {name: figures[name] for name in names}
            told = (f"{name} {next(iter(this[metric][name].values())):.4g}" for name in names)
            say(f"round {number + 1}/{rounds}  {metric:9}  {'  '.join(told)}")
        done.append(this)
    return done

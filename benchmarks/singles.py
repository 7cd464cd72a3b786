"""What is measured on the daemon alone: starts, memory, wake-ups, a call from a shell."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable

from benchmarks import machine
from benchmarks.client import Address, Client, WrongAnswer, echo, environment
from benchmarks.routes import binary, configure, directory, open_when_up, running

SERVERS = 8
SESSIONS = 20
SETTLE_S = 3.0
"""What a daemon still has to do after the last call is done by then."""

Figures = dict[str, float]


async def measure(
    *, tries: int, idle_s: float, patience: machine.Patience, say: Callable[[str], None]
) -> Figures:
    """Return all of them; those of a few milliseconds are medians of so many tries."""
    figures: Figures = {}
    first = []
    for _ in range(tries):
        await patience.wait_quiet()
        first.append(await first_answer_ms())
    figures["first_answer_ms"] = statistics.median(first)
    say(f"first answer after {figures['first_answer_ms']:.0f} ms")
    async with _at_home() as (env, daemon, clients):
        await asyncio.sleep(SETTLE_S)
        guardian = machine.guardian_of(daemon)
        figures["daemon_pss_mb"] = machine.pss_mb(daemon)
        if guardian is not None:
            figures["guardian_pss_mb"] = machine.pss_mb(guardian)
        pids = [daemon] if guardian is None else [daemon, guardian]
        say(f"{SERVERS} servers, {len(clients)} sessions: {figures['daemon_pss_mb']:.1f} MB")
        if idle_s:
            before = sum(map(machine.voluntary_switches, pids))
            await asyncio.sleep(idle_s)
            woken = sum(map(machine.voluntary_switches, pids)) - before
            figures["idle_switches"] = float(woken)
            say(f"{woken} voluntary context switches in {idle_s:.0f} idle seconds")
        figures |= await _from_a_shell(env, tries, patience)
        say(f"mcpctl call {figures['mcpctl_call_ms']:.0f} ms")
    return figures


async def first_answer_ms() -> float:
    """Start a daemon in an empty place; return when an echo server's first answer was there."""
    with directory() as place:
        configure(place, 1)
        env, log = environment(place), f"{place}/mcpd.log"
        started = time.perf_counter()
        with running((binary("mcpd"),), env, log) as daemon:
            client = await open_when_up(Address(env["MCPD_SOCKET"], "echo0"), daemon, log)
            await client.call(echo)
            took = time.perf_counter() - started
            await client.close()
    return took * 1e3


@contextlib.asynccontextmanager
async def _at_home() -> AsyncIterator[tuple[dict[str, str], int, list[Client]]]:
    """A daemon whose servers all run and whose sessions have all called; its environment, pid."""
    with directory() as place:
        configure(place, SERVERS)
        env, log = environment(place), f"{place}/mcpd.log"
        socket = env["MCPD_SOCKET"]
        with running((binary("mcpd"),), env, log) as daemon:
            clients = [
                await open_when_up(Address(socket, f"echo{i % SERVERS}"), daemon, log)
                for i in range(SESSIONS)
            ]
            await asyncio.gather(*(client.calls(echo, most=5) for client in clients))
            yield env, daemon.pid, clients
            await asyncio.gather(*(client.close() for client in clients))


async def _from_a_shell(env: dict[str, str], tries: int, patience: machine.Patience) -> Figures:
    """Time whole processes: a call, a bridge up to its first byte, and the interpreter alone."""
    took: dict[str, list[float]] = {"python_ms": [], "mcpctl_call_ms": [], "bridge_start_ms": []}
    pss = 0.0
    for _ in range(tries):
        await patience.wait_quiet()
        for what in random.sample(list(took), len(took)):
            started = time.perf_counter()
            match what:
                case "python_ms":
                    subprocess.run((sys.executable, "-c", "pass"), env=env, check=True)
                case "mcpctl_call_ms":
                    _call(env)
                case _:
                    client = await Client.open(
                        Address(command=(binary("mcpctl"), "connect", "echo0")), env
                    )
                    took[what].append((time.perf_counter() - started) * 1e3)
                    await client.call(echo)
                    assert client.process
                    pss = machine.pss_mb(client.process.pid)
                    await client.close()
                    continue
            took[what].append((time.perf_counter() - started) * 1e3)
    medians = {what: statistics.median(values) for what, values in took.items()}
    return medians | {"bridge_pss_mb": pss}


def _call(env: dict[str, str]) -> None:
    argv = (binary("mcpctl"), "call", "echo0", "echo", "text=hello")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode or done.stdout != "hello\n":
        raise WrongAnswer(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr!r}")

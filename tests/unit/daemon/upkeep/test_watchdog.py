"""The watchdog of a real loop, in a process of its own that may be killed by it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.daemon.upkeep import watchdog as module
from tests.support.waiting import scaled

SETUP = """
import asyncio, re, sys, threading, time
from mcpd.daemon.upkeep.watchdog import Watchdog

def hang_here():
    {hang}

class Seen(Watchdog):
    def _sign(self):
        super()._sign()
        signs.release()

async def main():
    global signs
    loop = asyncio.get_running_loop()
    signs = asyncio.Semaphore(0)
    dog = Seen(loop, {times})
    dog.start()
    await signs.acquire()
    print("up", flush=True)
    {then}
    dog.close()

try:
    import uvloop
except ImportError:
    asyncio.run(main())
else:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
print("well", flush=True)
"""
QUICK = "every=0.05, patience=0.2, misses=3"
LIVE_ON = "await asyncio.sleep(1.5)\n    for _ in range(3): await signs.acquire()"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts such a process, and waits for the first sign of life of its loop."""
    started: list[subprocess.Popen[str]] = []

    def begin(hang: str = "pass", then: str = "hang_here()", times: str = QUICK, **how: Any) -> Any:
        code = SETUP.format(hang=hang, then=then, times=times)
        pipe = subprocess.PIPE
        how = {"stderr": pipe, **how}
        started.append(
            subprocess.Popen([sys.executable, "-c", code], stdout=pipe, text=True, **how)
        )
        assert started[-1].stdout
        assert started[-1].stdout.readline() == "up\n"
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, complained = process.communicate(timeout=scaled(30))
    return process.returncode, said, complained or ""


@pytest.mark.parametrize(
    "hang", ["time.sleep(600)", "while True: pass", "threading.Lock().__enter__() or True"]
)
def test_a_hung_loop_is_ended_and_its_stacks_are_logged(start: Start, hang: str) -> None:
    """
    B114: alive, its socket silent, its lock held, and everybody waits.
    """
    if "Lock" in hang:
        hang = "lock = threading.Lock(); lock.acquire(); lock.acquire()"
    status, said, stacks = end_of(start(hang))
    assert (status, said) == (-signal.SIGKILL, "")
    first = stacks.splitlines()[0]
    assert " error   loop.hung reason=" in first
    assert "in hang_here" in stacks
    assert "in _watch" in stacks


def test_code_that_keeps_the_interpreter_to_itself_is_ended_too(start: Start) -> None:
    """
    No thread of Python's runs then, so the kernel counts.
    """
    hang = "re.match(r'(a|a)*$', 'a' * 60 + 'b')"
    status, said, stacks = end_of(start(hang, times=f"{QUICK}, spin=0.5"))
    assert (status, said) == (-signal.SIGPROF, "")
    assert "in hang_here" in stacks


def test_a_slow_loop_is_left_alone(start: Start) -> None:
    """
    Each turn takes longer than an answer may, and yet it turns.
    """
    slow = "for _ in range(5): time.sleep(0.7); await asyncio.sleep(0.01)"
    times = "every=0.05, patience=0.5, misses=4"
    assert end_of(start(then=slow, times=times)) == (0, "well\n", "")


def test_a_busy_loop_that_turns_is_left_alone(start: Start) -> None:
    """
    It uses more processor time than one without a sign of life may.
    """
    busy = (
        "until = time.process_time() + 3\n"
        "    while time.process_time() < until:\n"
        "        sum(range(500_000)); await asyncio.sleep(0.001)"
    )
    assert end_of(start(then=busy, times="every=0.05, spin=1")) == (0, "well\n", "")


def test_a_process_that_was_stopped_is_left_alone(start: Start) -> None:
    """
    B154: it was stopped for longer than it may hang, several times.
    """
    process = start(then=LIVE_ON, times="every=0.05, patience=0.1, misses=3, overslept=0.2")
    for _ in range(3):
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)  # far more than three times 0.1 s
        process.send_signal(signal.SIGCONT)
    assert end_of(process) == (0, "well\n", "")


def test_a_stderr_that_is_not_read_does_not_keep_it_alive(start: Start) -> None:
    """
    Its last words go to a pipe that is full.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    try:
        process = start("time.sleep(600)", stderr=writing)
        assert process.wait(scaled(30)) == -signal.SIGKILL
        assert os.get_blocking(writing)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_closed_watchdog_watches_nothing(start: Start) -> None:
    then = "dog.close()\n    time.sleep(1.5); sum(range(30_000_000))"
    assert end_of(start(then=then, times=f"{QUICK}, spin=0.3")) == (0, "well\n", "")


class Waits:
    """An answer that does not come while time passes: so many seconds at each wait for it."""

    def __init__(self, *takes: float) -> None:
        self._takes = list(takes)
        self.clock = 0.0

    def wait(self, _timeout: float) -> bool:
        self.clock += self._takes.pop(0) if self._takes else 0
        return not self._takes

    def is_set(self) -> bool:
        return not self._takes


@pytest.mark.parametrize(
    ("takes", "is_answered"),
    [
        ((0, 0.2), True),
        ((0.2, 0.2, 0.2, 0.2), False),
        ((0.2, 0.2, 9, 0.2, 0.2, 0), True),
        ((9, 9, 9, 9, 9, 0), True),
        ((9, 0.2, 0.2, 0.2, 0.2), False),
    ],
)
async def test_a_wait_that_was_interrupted_by_sleep_does_not_count(
    monkeypatch: pytest.MonkeyPatch, takes: tuple[float, ...], is_answered: bool
) -> None:
    """
    B154: what counts is so many whole waits in a row, with nothing in between that took too long.
    """
    waits = Waits(*takes)
    dog = module.Watchdog(asyncio.get_running_loop(), patience=0.2, misses=3)
    monkeypatch.setattr(dog, "_answered", waits)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: waits.clock))
    assert dog._is_answered() is is_answered

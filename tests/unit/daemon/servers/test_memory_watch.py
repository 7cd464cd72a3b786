from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.core.facts import Failure, ServerOverMemory
from mcpd.core.lifecycle.states import State
from mcpd.daemon.servers import memory_watch
from mcpd.daemon.servers.memory_watch import MemoryWatch
from mcpd.upstreams.stdio.run import ProcessRun
from tests.support.waiting import wait_until_async


class Running(ProcessRun):
    """A run with a process that is nothing but itself."""

    def __init__(self) -> None:
        self.child: Any = object()


class Farm:
    """One place whose process takes as much memory as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limit = 100
        self.takes = 0
        self.looks = 0
        self.is_unused = True
        self.asked = 0
        self.slept = 0.0
        self.told: list[ServerOverMemory] = []
        self.restarts: list[str] = []
        machine = SimpleNamespace(state=State.READY, ready_at=0.0, last_error=None)
        self.slot: Any = SimpleNamespace(id="slot", server="fake", machine=machine, run=None)
        self.slots = [self.slot]
        self.start()
        monkeypatch.setattr(memory_watch, "MEASURE_EVERY_S", 0.01)
        monkeypatch.setattr(memory_watch, "MEASURE_SHARE", 1.0)
        monkeypatch.setattr(memory_watch, "IDLE_CHECK_EVERY_S", 0.002)
        monkeypatch.setattr(memory_watch.memory, "excess", self._excess)
        supervisor: Any = SimpleNamespace(
            slots=lambda: self.slots,
            get=lambda ident: self.slot if self.slots else None,
            note_problem=self._note_problem,
            replace=self._replace,
            now=self.now,
        )
        reaper: Any = SimpleNamespace(scan_trees=self._look)
        mux: Any = SimpleNamespace(is_unused=lambda ident: self.is_unused)
        self.watch = MemoryWatch(
            lambda ident: self.limit,
            supervisor=supervisor,
            reaper=reaper,
            mux=mux,
            tell=self.told.append,
        )

    def start(self) -> None:
        """Put another process there."""
        self.slot.run = Running()
        self.slot.machine.ready_at = self.now()

    def now(self) -> float:
        """Return the daemon's time, which is behind the loop's by what it did not live through."""
        self.asked += 1
        return asyncio.get_running_loop().time() - self.slept

    async def _look(self) -> dict[object, tuple[()]]:
        self.looks += 1
        return {}

    def _excess(self, pids: list[int], limit: int) -> int | None:
        return self.takes if self.takes > limit else None

    def _note_problem(self, ident: str, failure: Failure) -> None:
        self.slot.machine.last_error = failure.message

    def _replace(self, ident: str, failure: Failure) -> None:
        self.restarts.append(failure.message)
        self.start()


@pytest.fixture
async def farm(monkeypatch: pytest.MonkeyPatch) -> Farm:
    return Farm(monkeypatch)


async def test_nothing_is_measured_where_no_server_has_a_limit(farm: Farm):
    """
    An idle daemon sleeps.
    """
    farm.limit = 0
    farm.watch.wake()
    assert farm.watch._task is None
    farm.limit = 100
    farm.slots.clear()
    farm.watch.wake()
    assert farm.watch._task is None


async def test_measuring_ends_with_the_last_process_that_has_a_limit(farm: Farm):
    farm.watch.wake()
    task = farm.watch._task
    assert task is not None
    await wait_until_async(lambda: farm.looks > 2)
    farm.slots.clear()
    await wait_until_async(task.done)
    assert farm.watch._task is None
    assert not farm.told


async def test_a_server_over_its_limit_is_reported_once_and_restarted_when_idle(farm: Farm):
    farm.takes, farm.is_unused = 300 << 20, False
    farm.watch.wake()
    await wait_until_async(lambda: farm.looks > 3)
    (told,) = farm.told
    assert (told.memory_bytes, told.limit_bytes, told.is_busy) == (300 << 20, 100, True)
    assert not farm.restarts
    farm.is_unused = True
    await wait_until_async(lambda: farm.restarts)
    farm.watch.close()
    assert "300 MiB" in farm.restarts[0]


async def test_a_server_that_shrank_is_not_restarted(farm: Farm):
    farm.takes, farm.is_unused = 200, False
    farm.watch.wake()
    await wait_until_async(lambda: farm.told)
    farm.takes = 0
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 1)
    farm.is_unused = True
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 2)
    farm.watch.close()
    assert not farm.restarts


async def test_a_server_that_always_needs_too_much_is_restarted_ever_more_rarely(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
):
    """
    It would never be there for anybody.
    """
    farm.takes = 200
    farm.watch.wake()
    await wait_until_async(lambda: farm.restarts)
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 5)
    assert len(farm.restarts) == 1
    assert len(farm.told) == 2, "its successor was told of, too"
    farm.slot.machine.ready_at -= memory_watch.PAUSE_S
    await wait_until_async(lambda: len(farm.restarts) == 2)
    farm.slot.machine.ready_at -= memory_watch.PAUSE_S
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 5)
    assert len(farm.restarts) == 2, "the next one has twice as long"
    farm.slot.machine.ready_at -= memory_watch.PAUSE_S
    await wait_until_async(lambda: len(farm.restarts) == 3)
    farm.watch.close()


async def test_time_in_which_the_daemon_did_not_run_does_not_count_as_a_servers(farm: Farm):
    """
    After an hour's stop each process seemed to be an hour old, and was restarted at every look.
    """
    farm.slept = memory_watch.PAUSE_MOST_S
    farm.start()
    farm.takes = 200
    farm.watch.wake()
    await wait_until_async(lambda: farm.restarts)
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 5)
    farm.watch.close()
    assert len(farm.restarts) == 1


async def test_idleness_is_not_checked_before_a_restart_is_allowed(farm: Farm):
    """
    That was ten looks a second, for up to an hour, of a daemon that had nothing to do.
    """
    farm.takes = 200
    farm.watch.wake()
    await wait_until_async(lambda: farm.restarts)
    looks, asked = farm.looks, farm.asked
    await wait_until_async(lambda: farm.looks > looks + 10)
    farm.watch.close()
    assert farm.asked - asked <= 2 * (farm.looks - looks)


async def test_a_server_whose_limit_was_raised_is_not_restarted(farm: Farm):
    farm.takes, farm.is_unused = 200, False
    other: Any = SimpleNamespace(
        id="other", server="other", machine=farm.slot.machine, run=Running()
    )
    farm.slots.append(other)
    farm.watch.wake()
    await wait_until_async(lambda: farm.told)
    farm.watch._limit_of = lambda ident: 0 if ident == "slot" else 300
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 2)
    farm.is_unused = True
    looks = farm.looks
    await wait_until_async(lambda: farm.looks > looks + 2)
    farm.watch.close()
    assert not farm.restarts

"""FairReader: order, sharing of the loop, pausing and dropping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from mcpd import tasks
from mcpd.tasks import TURN_S, FairReader, Shared, Turnstile
from tests.support.waiting import wait_until_async


class Peer:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.done: list[int] = []
        self.turns = FairReader(
            lambda: self.said.append("pause"), lambda: self.said.append("resume")
        )

    def work(self, first: int, count: int, seconds: float = 0.0) -> Iterator[None]:
        for number in range(first, first + count):
            if seconds:
                time.sleep(seconds)  # work that takes so long
            self.done.append(number)
            yield


@pytest.fixture
def _long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TURN_S", 10.0)


@pytest.mark.usefixtures("_long_turns")
async def test_a_little_work_is_done_at_once() -> None:
    peer = Peer()
    peer.turns.take(peer.work(0, 3))
    assert peer.done == [0, 1, 2]
    assert not peer.turns.is_behind
    assert peer.said == []


async def test_long_work_lets_others_have_their_turn_and_keeps_its_order() -> None:
    peer, others = Peer(), 0

    def other() -> None:
        nonlocal others
        others += 1
        if peer.turns.is_behind:
            asyncio.get_running_loop().call_soon(other)

    peer.turns.take(peer.work(0, 20, TURN_S))
    peer.turns.take(peer.work(20, 5, TURN_S))
    assert len(peer.done) == 1
    asyncio.get_running_loop().call_soon(other)
    await wait_until_async(lambda: not peer.turns.is_behind, what="the work")
    assert peer.done == list(range(25))
    assert others >= 20
    assert peer.said == ["pause", "resume"]


async def test_what_is_dropped_is_not_done_and_new_work_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Peer()
    peer.turns.take(peer.work(0, 10, TURN_S))
    peer.turns.drop()
    assert peer.said == ["pause", "resume"]
    monkeypatch.setattr(tasks, "TURN_S", 10.0)
    peer.turns.take(peer.work(100, 2))
    assert peer.done == [0, 100, 101]


async def test_a_step_may_drop_the_rest() -> None:
    peer = Peer()

    def work() -> Iterator[None]:
        peer.turns.drop()
        yield
        peer.done.append(1)

    peer.turns.take(work())
    assert peer.done == []
    assert not peer.turns.is_behind


async def test_work_that_is_put_in_front_waits_for_a_turn() -> None:
    """
    The elements of an array come before the frames that follow it.
    """
    peer = Peer()
    peer.turns.first(peer.work(10, 3))
    assert peer.done == [] and peer.said == ["pause"]
    peer.turns.take(peer.work(30, 2))
    await wait_until_async(lambda: not peer.turns.is_behind, what="the work")
    assert peer.done == [10, 11, 12, 30, 31]
    assert peer.said == ["pause", "resume"]


async def test_a_step_may_put_work_before_the_next_steps() -> None:
    peer = Peer()

    def array() -> Iterator[None]:
        peer.turns.first(peer.work(10, 3, TURN_S))
        yield
        peer.done.append(20)
        yield

    peer.turns.take(array())
    peer.turns.take(peer.work(30, 2))
    await wait_until_async(lambda: not peer.turns.is_behind, what="the work")
    assert peer.done == [10, 11, 12, 20, 30, 31]
    assert peer.said == ["pause", "resume"]


async def test_work_that_is_put_in_front_in_a_last_step_is_not_lost() -> None:
    peer = Peer()

    def array() -> Iterator[None]:
        yield
        peer.turns.first(peer.work(1, 2))

    peer.turns.take(array())
    await wait_until_async(lambda: not peer.turns.is_behind, what="the work")
    assert peer.done == [1, 2]


def busy(peer: Peer, number: int, *, then: str = "") -> Iterator[None]:
    until = time.thread_time() + 0.025
    while time.thread_time() < until:
        continue
    peer.done.append(number)
    if then == "drop":
        peer.turns.drop()
    elif then == "raise":
        raise ValueError("broken")
    yield from ()


@pytest.fixture
def _short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LONG_S", 0.02)
    monkeypatch.setattr(tasks, "REST_MOST_S", 0.3)


@pytest.mark.usefixtures("_short_rest")
async def test_a_peer_rests_after_a_second_step_that_held_the_loop() -> None:
    peer = Peer()
    peer.turns.take(busy(peer, 1))
    assert peer.said == []
    began = time.monotonic()
    peer.turns.take(busy(peer, 2))
    assert peer.done == [1, 2]
    assert peer.said == ["pause"]
    peer.turns.take(peer.work(3, 1))
    await wait_until_async(lambda: peer.said == ["pause", "resume"], what="the end of the rest")
    assert peer.done == [1, 2, 3]
    assert time.monotonic() - began >= 0.3
    peer.turns.take(busy(peer, 4))
    assert peer.said[2:] == ["pause"], "it goes on as it was"
    peer.turns.drop()


@pytest.mark.usefixtures("_short_rest")
async def test_a_peer_does_not_rest_for_two_such_steps_that_are_far_apart() -> None:
    peer = Peer()
    peer.turns.take(busy(peer, 1))
    await asyncio.sleep(0.35)
    peer.turns.take(busy(peer, 2))
    assert peer.said == []


@pytest.mark.usefixtures("_short_rest")
async def test_what_drops_its_own_work_does_not_rest() -> None:
    peer = Peer()
    peer.turns.take(busy(peer, 1))
    peer.turns.take(busy(peer, 2, then="drop"))
    assert peer.said == []


async def test_a_step_that_fails_does_not_stop_those_after_it() -> None:
    peer = Peer()
    with pytest.raises(ValueError, match="broken"):
        peer.turns.take(busy(peer, 1, then="raise"))
    peer.turns.take(peer.work(2, 1))
    assert peer.done == [1, 2]
    assert not peer.turns.is_behind


@pytest.mark.usefixtures("_long_turns")
async def test_a_step_that_waits_for_the_processor_costs_its_peer_no_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "LONG_S", 0.01)
    peer = Peer()
    peer.turns.take(peer.work(0, 1, 0.05))
    assert peer.said == []


async def test_one_task_passes_a_turnstile_in_each_iteration() -> None:
    turnstile, passed, iterations = Turnstile(), list[tuple[int, int]](), 0

    async def work(number: int) -> None:
        await turnstile.passed()
        passed.append((number, iterations))

    await work(0)
    assert passed == [(0, 0)]
    several = [asyncio.create_task(work(number)) for number in range(1, 6)]
    await asyncio.sleep(0)
    several[2].cancel()
    while len(passed) < 5 and iterations < 50:
        iterations += 1
        await asyncio.sleep(0)
    assert [number for number, _ in passed] == [0, 1, 2, 4, 5]
    assert len({at for _, at in passed[1:]}) == 4
    await work(6)
    assert passed[-1][0] == 6


async def test_shared_work_is_done_once_for_all_who_ask_before_it_begins() -> None:
    begun, gate = 0, asyncio.Event()

    async def work() -> int:
        nonlocal begun
        begun += 1
        number = begun
        await gate.wait()
        return number

    shared = Shared(work, name="work")
    first = [asyncio.create_task(shared.result()) for _ in range(3)]
    await wait_until_async(lambda: begun == 1, what="the first")
    later = [asyncio.create_task(shared.result()) for _ in range(3)]
    await asyncio.sleep(0)
    later[0].cancel()
    gate.set()
    assert await asyncio.gather(*first) == [1, 1, 1]
    assert await asyncio.gather(*later[1:]) == [2, 2]
    assert await shared.result() == 3


async def test_shared_work_that_fails_fails_for_those_who_share_it() -> None:
    outcomes = iter((ValueError("broken"), None))

    async def work() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "done"

    shared = Shared(work, name="work")
    with pytest.raises(ValueError, match="broken"):
        await shared.result()
    assert await shared.result() == "done"

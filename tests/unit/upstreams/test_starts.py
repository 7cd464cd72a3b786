"""Starts take turns, and what a start waits for holds up no other."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.start_timeout import StartTimeout
from mcpd.core.policy.runners import Package
from mcpd.ids import SlotId
from mcpd.upstreams.slot import Slot, Slots
from mcpd.upstreams.starts import Starts
from tests.support.memoryupstream import RULES, MemoryBackend, MemoryRun


class Reports:
    """Reports that are not read."""

    def frames(self, ident: SlotId) -> Any:
        return lambda frame: None


class Queue:
    """A queue of starts whose runs do nothing."""

    def __init__(self, at_once: int) -> None:
        self.slots = Slots()
        self.started: list[str] = []
        self.missing: set[str] = set()
        self.starts = Starts(
            self.slots,
            at_once=at_once,
            start=self._start,
            must_wait=lambda slot: slot.server in self.missing,
        )

    def _start(self, slot: Slot, generation: int) -> None:
        self.started.append(slot.server)
        reports: Any = Reports()
        slot.run = MemoryRun(slot, reports, grace=1.0)
        slot.machine.spawned(0.0)

    def want(
        self, name: str, *, package: Package | None = None, before: frozenset[Slot] = frozenset()
    ) -> Slot:
        """Make a slot and queue a start in it."""
        backend = MemoryBackend(server=name, rules=RULES, grace=1.0, package=package)
        slot = Slot(SlotId(name), name, None, before, backend, StartTimeout())
        self.slots.open[slot.id] = slot
        slot.machine.start_on_demand(0.0)
        self.starts.add(slot, slot.machine.generation)
        self.starts.pump()
        return slot

    def ready(self, slot: Slot) -> None:
        """Have a server become ready."""
        assert slot.run is not None
        slot.run.was_ready = True
        slot.machine.ready(1.0)
        self.starts.pump()


@pytest.fixture
def queue() -> Queue:
    made = Queue(at_once=2)
    made.starts.allow()
    return made


def test_nothing_is_started_before_it_is_allowed():
    queue = Queue(at_once=2)
    queue.want("a")
    assert queue.started == []
    queue.starts.allow()
    assert queue.started == ["a"]


def test_only_so_many_start_at_a_time_in_the_order_in_which_they_came(queue: Queue):
    first = queue.want("a")
    queue.want("b")
    queue.want("c")
    queue.want("d")
    assert queue.started == ["a", "b"]
    queue.ready(first)
    assert queue.started == ["a", "b", "c"]


def test_a_start_that_waits_for_its_host_lets_others_pass(queue: Queue):
    queue.missing.add("a")
    queue.want("a")
    queue.want("b")
    assert queue.started == ["b"]
    queue.missing.clear()
    queue.starts.pump()
    assert queue.started == ["b", "a"]


def test_a_start_waits_until_its_predecessors_are_empty(queue: Queue):
    first = queue.want("a")
    queue.want("b", before=frozenset({first}))
    assert queue.started == ["a"]
    queue.slots.close(first.id)
    queue.starts.pump()
    assert queue.started == ["a"], "something of it is left"
    queue.slots.closed.discard(first)
    queue.starts.pump()
    assert queue.started == ["a", "b"]


def test_two_starts_of_one_package_run_one_after_the_other(queue: Queue):
    package = Package("npx", "pkg@1")
    first = queue.want("a", package=package)
    queue.want("b", package=package)
    queue.want("c", package=Package("npx", "other@1"))
    assert queue.started == ["a", "c"]
    queue.ready(first)
    assert queue.started == ["a", "c", "b"]


def test_a_start_that_is_not_wanted_any_more_takes_no_turn(queue: Queue):
    queue.want("a")
    queue.want("b")
    third = queue.want("c")
    queue.want("d")
    third.machine.stop(0.0, Failure("server_stopped", "stopped", "c"))
    queue.starts.at_once = 3
    queue.starts.pump()
    assert queue.started == ["a", "b", "d"]

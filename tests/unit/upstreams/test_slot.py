"""Which slots a new one has to wait for."""

from __future__ import annotations

from mcpd.core.lifecycle.start_timeout import StartTimeout
from mcpd.ids import SlotId
from mcpd.upstreams.slot import Slot, Slots, launch_of
from tests.support.memoryupstream import RULES, MemoryBackend


def add(slots: Slots, ident: str, server: str, *before: Slot) -> Slot:
    backend = MemoryBackend(server=server, rules=RULES, grace=1.0)
    slot = Slot(SlotId(ident), server, None, frozenset(before), backend, StartTimeout())
    slots.open[slot.id] = slot
    return slot


def test_a_closed_slot_with_the_same_id_is_a_predecessor():
    slots = Slots()
    old = add(slots, "launch", "a")
    slots.close(old.id)
    assert slots.predecessors(SlotId("launch"), "b", None) == {old}


def test_so_is_a_closed_one_of_the_same_server_and_session():
    slots = Slots()
    same, other = add(slots, "old@s1", "a"), add(slots, "old@s2", "a")
    for slot in (same, other):
        slots.close(slot.id)
    assert slots.predecessors(SlotId("new@s1"), "a", None) == {same}
    assert slots.predecessors(SlotId("new@s1"), "b", None) == frozenset()


def test_one_that_is_named_brings_those_that_it_waits_for_itself():
    slots = Slots()
    first = add(slots, "one", "a")
    second = add(slots, "two", "a", first)
    assert slots.predecessors(SlotId("three"), "a", second.id) == {first, second}
    slots.close(first.id)
    slots.closed.discard(first)
    assert slots.predecessors(SlotId("three"), "a", second.id) == {second}


def test_slots_of_all_sessions_share_their_launch():
    assert launch_of(SlotId("abc@session:7")) == launch_of(SlotId("abc")) == "abc"

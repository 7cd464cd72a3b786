"""Memory kept for peers is counted, and no peer can use all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.wire.memory import REQUEST_BYTES, Memory, RequestMemory, Share

MIB = 1 << 20


def filled(memory: Memory, size: int = MIB) -> Share:
    """Return the share of a peer that has taken what it could."""
    share = Share(memory)
    while share.take(size):
        pass
    return share


def test_one_peer_gets_half_and_two_get_a_third_each():
    memory = Memory(60 * MIB)
    first = filled(memory)
    assert first.kept_bytes == 30 * MIB
    first.set(0)
    one, other = Share(memory), Share(memory)
    while one.take(MIB) | other.take(MIB):
        pass
    assert {one.kept_bytes, other.kept_bytes} == {20 * MIB}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40 * MIB)), max_size=200))
def test_the_limit_holds_for_any_sequence_of_peers(steps: list[tuple[int, int]]):
    memory = Memory(64 * MIB)
    shares = [Share(memory) for _ in range(10)]
    for number, size in steps:
        shares[number].take(size)
        assert memory.kept_bytes == sum(each.kept_bytes for each in shares)
        assert memory.kept_bytes <= memory.most_bytes + len(shares) * memory.free_bytes


def test_a_peer_that_comes_when_all_is_taken_has_a_little_room():
    """
    Who looks what is the matter, and ends it, must be let in.
    """
    memory = Memory(64 * MIB)
    Share(memory).add(64 * MIB)
    late = Share(memory)
    assert late.take(memory.free_bytes)
    assert not late.take(1)


def test_a_request_counts_until_its_last_release():
    share = Share(Memory(MIB))
    request = RequestMemory()
    assert request.enter(share, 1000)
    assert (share.kept_bytes, share.count) == (1000 + REQUEST_BYTES, 1)
    request.keep()
    assert request.grow(500)
    request.release()
    assert (share.kept_bytes, share.count) == (1500 + REQUEST_BYTES, 1)
    request.release()
    assert (share.kept_bytes, share.count) == (0, 0)
    assert share.memory.kept_bytes == 0


def test_a_request_that_finds_no_room_counts_nothing():
    share = Share(Memory(MIB))
    request = RequestMemory()
    assert not request.enter(share, MIB)
    assert (share.kept_bytes, share.count) == (0, 0)


def test_small_requests_have_room_beside_large_ones():
    memory = Memory(64 * MIB)
    share = filled(memory)
    requests = [RequestMemory() for _ in range(1000)]
    taken = [each for each in requests if each.enter(share, 1000)]
    assert len(taken) == memory.free_bytes // (1000 + REQUEST_BYTES)
    assert share.extra_bytes <= memory.free_bytes
    for each in taken:
        each.grow(100)
        each.release()
    assert (share.kept_bytes, share.extra_bytes) == (32 * MIB, 0)

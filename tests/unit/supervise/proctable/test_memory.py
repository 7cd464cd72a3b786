from __future__ import annotations

import os

from mcpd.supervise.proctable import memory


def test_the_memory_of_a_tree_is_that_of_its_processes():
    mine = memory.tree_usage([os.getpid()])
    assert 1 << 20 < mine < 1 << 34
    assert memory.tree_usage([os.getpid(), os.getpid()]) > mine


def test_processes_that_are_gone_take_nothing():
    assert memory.tree_usage([1 << 30]) == 0
    assert memory.tree_usage([]) == 0


def test_what_is_within_its_limit_has_no_excess():
    mine = memory.tree_usage([os.getpid()])
    assert memory.excess([os.getpid()], 2 * mine) is None


def test_pages_that_processes_share_count_once():
    """
    Ten workers that were forked from one are not ten times as large.
    """
    fat = b"x" * (64 << 20)
    reading, writing = os.pipe()
    children = []
    for _ in range(3):
        pid = os.fork()
        if not pid:
            os.close(writing)
            os.read(reading, 1)
            os._exit(len(fat) % 2)
        children.append(pid)
    os.close(reading)
    tree = [os.getpid(), *children]
    usage = memory.tree_usage(tree)
    try:
        assert usage > 4 * len(fat)
        takes = memory.excess(tree, 64 << 20)
        assert takes is not None
        assert 64 << 20 < takes < usage / 2
        assert memory.excess(tree, usage - (1 << 20)) is None
    finally:
        os.close(writing)
        for pid in children:
            os.waitpid(pid, 0)


def test_a_process_that_is_gone_has_no_share():
    assert memory._share_bytes(1 << 30) == 0

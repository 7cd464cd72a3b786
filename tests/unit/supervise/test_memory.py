from __future__ import annotations

import os

from mcpd.supervise import memory


def test_the_memory_of_a_tree_is_that_of_its_processes():
    mine = memory.tree_usage([os.getpid()])
    assert 1 << 20 < mine < 1 << 34
    assert memory.tree_usage([os.getpid(), os.getpid()]) > mine


def test_processes_that_are_gone_take_nothing():
    assert memory.tree_usage([1 << 30]) == 0
    assert memory.tree_usage([]) == 0

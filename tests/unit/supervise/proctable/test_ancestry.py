"""Whose descendant a process is."""

from __future__ import annotations

import os
import subprocess
import sys

from mcpd.supervise.proctable import ancestry, procfs


def test_a_process_is_below_itself_and_its_parents() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        me, its = procfs.identify(os.getpid()), procfs.identify(child.pid)
        assert me is not None and its is not None
        assert ancestry.chain(child.pid)[:2] == [its, me]
        assert ancestry.parent(child.pid) == os.getpid()
        assert ancestry.is_below(child.pid, {me}) and ancestry.is_below(child.pid, {its})
        assert not ancestry.is_below(os.getpid(), {its})
        assert not ancestry.is_below(child.pid, {me._replace(started=me.started + 1)})
    finally:
        child.communicate()


def test_nobody_is_below_nothing() -> None:
    assert not ancestry.is_below(os.getpid(), ()) and ancestry.chain(2**31 - 1) == []


def test_the_first_process_says_nothing() -> None:
    assert (
        ancestry.is_manager(1) and ancestry.is_manager(0) and not ancestry.is_manager(os.getpid())
    )
    assert ancestry.program(2**31 - 1) is None

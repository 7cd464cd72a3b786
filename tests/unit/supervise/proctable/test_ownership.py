from __future__ import annotations

import os
from typing import cast

import pytest

from mcpd.supervise.cleanup import guardian
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import ownership, procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

ME = os.getpid()
OURS = os.getsid(0)
LOCKED = (40, 50)
"""Pids of processes that hold a lock."""


class FakeChild:
    """What the sorting looks at of a child."""

    def __init__(self, pid: int, started: int, *, pipes: set[int] | None = None) -> None:
        self.pid, self.started, self.tag = pid, started, f"d:server{pid}:1"
        self.id = ProcId(pid, started)
        self.died: int | None = None
        self.known: set[ProcId] = set()
        self.pipe_inodes = frozenset(pipes or ())


def process(pid: int, parent: int, sid: int, started: int, tag: str | None = None) -> Stat:
    return Stat(pid, parent, sid, sid, "S", started, tag)


def assign(
    table: list[Stat],
    *children: FakeChild,
    spared: ownership.Spared | None = None,
    are_ours: bool = True,
) -> tuple[list[list[int]], list[int]]:
    """Return the pids of each child's tree, and those of strays."""
    cast_children = cast("list[Child]", list(children))
    forest = ownership.assign(
        table,
        cast_children,
        daemon_id="d",
        spared=spared or ownership.Spared(),
        are_ours=are_ours,
    )
    members = [[each.pid for each in forest.members[child]] for child in cast_children]
    return members, [each.pid for each in forest.unowned]


@pytest.fixture(autouse=True)
def nobody_real(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """The pids of these tables may exist; what they really are is of no interest."""
    arguments: dict[int, list[str]] = {}
    monkeypatch.setattr(procfs, "arguments", lambda pid: arguments.get(pid, []))
    monkeypatch.setattr(procfs, "pipes", lambda pid: {500} if pid == 50 else set())
    monkeypatch.setattr(procfs, "holds_own_lock", lambda pid: pid in LOCKED)
    return arguments


def test_a_tree_is_session_and_descendants_the_leader_first():
    table = [
        process(13, 12, 12, 13),  # below one with a session of its own
        process(12, 11, 12, 12),
        process(11, 10, 10, 11),
        process(10, ME, 10, 10),
        process(20, ME, OURS, 10),
        process(30, 1, 30, 10),
    ]
    assert assign(table, FakeChild(10, 10)) == ([[10, 11, 12, 13]], [])


def test_a_tag_is_found_wherever_it_went():
    table = [process(10, ME, 10, 10), process(40, 1, 40, 12, "d:server10:1")]
    assert assign(table, FakeChild(10, 10)) == ([[10, 40]], [])


def test_zombies_are_nobodys():
    table = [process(10, ME, 10, 10), process(11, 10, 10, 11)._replace(state="Z")]
    assert assign(table, FakeChild(10, 10)) == ([[10]], [])


def test_trees_are_kept_apart():
    table = [
        process(10, ME, 10, 10, "d:server10:1"),
        process(11, 10, 10, 11, "d:server10:1"),
        process(20, ME, 20, 10, "d:server20:1"),
        process(21, 20, 20, 11, "d:server20:1"),
    ]
    assert assign(table, FakeChild(10, 10), FakeChild(20, 10)) == ([[10, 11], [20, 21]], [])


def test_the_session_of_a_dead_leader_is_its_as_long_as_one_of_then_is_in_it():
    child = FakeChild(10, 10)
    child.died = 50
    assert assign([process(11, 1, 10, 11), process(12, 11, 10, 90)], child)[0] == [[11, 12]]


def test_a_session_number_that_was_given_away_is_not_its_any_more():
    """B014: after the last of its session the number may be anybody's."""
    child = FakeChild(10, 10)
    child.died = 50
    assert assign([process(10, 1, 10, 60), process(11, 10, 10, 61)], child)[0] == [[]]
    assert assign([process(11, 1, 10, 61)], child)[0] == [[]]
    child.known = {ProcId(11, 61)}
    assert assign([process(11, 1, 10, 61)], child)[0] == [[11]]


def test_a_recycled_pid_is_not_what_was_seen():
    """B115."""
    child = FakeChild(10, 10)
    child.known = {ProcId(40, 20)}
    assert assign([process(10, ME, 10, 10), process(40, 1, 40, 90)], child)[0] == [[10]]
    assert assign([process(10, ME, 10, 10), process(40, 1, 40, 20)], child)[0] == [[10, 40]]


def test_an_orphan_of_ours_goes_to_the_only_one_it_can_be_of():
    orphan = process(40, ME, 40, 20)
    early, late = FakeChild(10, 10), FakeChild(30, 30)
    assert assign([orphan], early, late) == ([[40], []], [])


def test_a_child_of_ours_is_no_orphan_of_a_dead_daemons():
    """
    A new daemon that clears up after a dead one has children of its own.
    """
    assert assign([process(40, ME, 40, 20)], FakeChild(10, 10), are_ours=False) == ([[]], [])


def test_an_orphan_goes_to_the_one_whose_pipes_it_holds():
    orphan = process(50, ME, 50, 20)
    one, two = FakeChild(10, 10), FakeChild(11, 10, pipes={500})
    assert assign([orphan], one, two) == ([[], [50]], [])


def test_an_orphan_that_may_be_of_two_is_nobodys_yet():
    assert assign([process(40, ME, 40, 20)], FakeChild(10, 10), FakeChild(11, 10)) == (
        [[], []],
        [],
    )


def test_an_orphan_that_can_be_of_none_is_a_stray():
    assert assign([process(40, ME, 40, 20)], FakeChild(30, 30))[1] == [40]
    gone = process(41, ME, 41, 50, "d:server7:3")
    assert assign([gone], FakeChild(30, 30))[1] == [41]


def test_what_a_narrow_scope_left_behind_is_no_stray():
    spared = ownership.Spared(frozenset({ProcId(40, 20)}), frozenset({"d:server7"}))
    table = [process(40, ME, 40, 20), process(41, ME, 41, 50, "d:server7:3")]
    assert assign(table, spared=spared)[1] == []


def test_what_we_start_ourselves_in_our_session_is_no_stray():
    assert assign([process(40, ME, OURS, 20)], FakeChild(10, 10)) == ([[]], [])


def test_another_daemon_and_its_servers_belong_to_nobody_here(
    nobody_real: dict[int, list[str]],
):
    """
    The tag leaks into daemons started from inside a server unless they strip it; and when such a
    daemon dies, its guardian and its servers come to us.
    """
    nobody_real[40] = ["/usr/bin/python3", "-P", "/home/u/.local/bin/mcpd", "--log-level=debug"]
    nobody_real[50] = ["/usr/bin/python3", "-I", "-S", "/x/mcpd/supervise/guardian.py", "l.json"]
    table = [
        process(10, ME, 10, 10, "d:server10:1"),
        process(40, 10, 40, 20),
        process(41, 40, 41, 21, "e:server:1"),
        process(50, ME, 50, 21),
        process(51, ME, 51, 21, "e:server:1"),
    ]
    assert assign(table, FakeChild(10, 10)) == ([[10]], [])


def test_whoever_only_calls_itself_a_daemon_is_its_servers(nobody_real: dict[int, list[str]]):
    """
    The name is the process's own choice; a daemon is known by the lock that it holds.
    """
    nobody_real[41] = ["mcpd"]
    nobody_real[42] = ["/usr/bin/python3", "-I", "-S", "/x/mcpd/supervise/guardian.py", "l.json"]
    known = FakeChild(10, 10)
    known.known = {ProcId(42, 21)}
    table = [process(10, ME, 10, 10), process(41, 10, 41, 20), process(42, 1, 42, 21)]
    assert assign(table, known) == ([[10, 41, 42]], [])
    orphan = process(41, ME, 41, 20)
    assert assign([process(10, ME, 10, 10), orphan], FakeChild(10, 10)) == ([[10, 41]], [])
    assert assign([orphan]) == ([], [41])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mcpd"], True),
        (["/x/bin/python3", "/x/bin/mcpd"], True),
        (["python3", "-P", "-m", "mcpd", "--socket", "s"], True),
        (["python3", "-I", "-S", "/x/mcpd/supervise/guardian.py", "l.json"], True),
        (["python3", "-I", "-S", guardian.__file__, "l.json"], True),
        (["node", "server.js", "--name", "mcpd"], False),
        (["git", "commit", "--all", "--no-verify", "--quiet", "-m", "mcpd"], False),
        (["sleep", "60"], False),
        ([], False),
    ],
)
def test_a_daemon_has_its_own_command_line(arguments: list[str], expected: bool):
    assert ownership.calls_itself_daemon(arguments) is expected

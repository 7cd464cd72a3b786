"""Who may decide for a person: no client, nothing below one, nothing below the daemon."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.api.requests import AttachParams, Client
from mcpd.bridge.attachment import CLIENT
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.ids import SessionId
from mcpd.supervise.proctable import ancestry, procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

SHELL, AGENT, BRIDGE, TOOL, TERMINAL, PERSON = 10, 20, 30, 40, 50, 60
PARENTS = {SHELL: 1, AGENT: SHELL, BRIDGE: AGENT, TOOL: AGENT, TERMINAL: 1, PERSON: TERMINAL}
SESSION, ASKER = SessionId(1), SessionId(2)


class World:
    """Processes by pid, and the sessions there are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parents = dict(PARENTS)
        self.started = dict.fromkeys(PARENTS, 1)
        self.programs: dict[int, list[str]] = {}
        self.sessions = [SimpleNamespace(session=SESSION)]
        mux: Any = SimpleNamespace(sessions=lambda: self.sessions)
        self.clients = ClientProcesses(mux)
        monkeypatch.setattr(procfs, "stat", self.stat)
        monkeypatch.setattr(procfs, "identify", self.identify)
        monkeypatch.setattr(procfs, "arguments", lambda pid: self.programs.get(pid, []))

    def stat(self, pid: int) -> Stat | None:
        if pid not in self.parents:
            return None
        return Stat(pid, self.parents[pid], pid, pid, "S", self.started.get(pid, 1))

    def identify(self, pid: int) -> ProcId | None:
        found = self.stat(pid)
        return None if found is None else found.id

    def attach(self, pid: int, name: str = "agent", declared: int | None = None) -> None:
        self.clients.connected(SESSION, pid)
        client = Client(name=name, pid=declared)
        self.clients.attached(SESSION, AttachParams(client=client))

    def may(self, pid: int | None) -> bool:
        self.clients.connected(ASKER, pid)
        refusal = self.clients.refusal(ASKER)
        if refusal is not None:
            assert (refusal.kind, refusal.details) == ("denied", {"reason": "asker"})
        return refusal is None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """An agent with a bridge and a tool, and a person in a terminal."""
    return World(monkeypatch)


def test_behind_a_bridge_the_client_is_who_started_it(world: World):
    world.attach(BRIDGE, CLIENT)
    assert not world.may(TOOL)
    assert not world.may(AGENT)
    assert not world.may(BRIDGE)
    assert world.may(PERSON)
    assert world.may(SHELL)


def test_a_client_without_a_bridge_is_the_peer(world: World):
    world.attach(AGENT)
    assert not world.may(TOOL)
    assert world.may(SHELL)


def test_a_pid_that_a_client_gives_adds_and_replaces_nothing(world: World):
    world.attach(AGENT, CLIENT, declared=PERSON)
    assert not world.may(TOOL)
    assert not world.may(PERSON)
    assert world.may(TERMINAL)


def test_a_client_that_did_not_attach_is_the_peer(world: World):
    world.clients.connected(SESSION, AGENT)
    assert not world.may(TOOL)
    assert world.may(PERSON)


def test_a_pid_that_another_process_has_now_is_no_clients(world: World):
    world.attach(AGENT)
    world.started[AGENT] = 2
    assert world.may(TOOL)


def test_a_client_that_attaches_again_as_another_is_still_the_first(world: World):
    world.attach(BRIDGE, CLIENT)
    world.attach(BRIDGE)
    assert not world.may(TOOL)


def test_a_client_that_has_left_counts_no_more(world: World):
    world.attach(AGENT)
    world.clients.closed(SESSION)
    assert world.may(TOOL)


def test_a_client_that_has_left_without_an_attachment_counts_no_more(world: World):
    world.clients.connected(SESSION, AGENT)
    world.clients.closed(SESSION)
    assert world.may(TOOL)


def test_a_session_over_http_has_no_process_here(world: World):
    assert world.may(TOOL)


def test_what_runs_below_the_daemon_is_refused(world: World):
    world.parents |= {os.getpid(): 1, TOOL: os.getpid()}
    world.sessions = []
    assert not world.may(TOOL)


def test_where_the_daemon_is_the_first_process_not_all_is_below_it(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    world.parents[1] = 0
    assert world.may(PERSON)


def test_the_manager_that_started_a_bridge_is_no_client(world: World):
    """Everything of the user runs below it, the terminal of the person as well."""
    manager = 70
    world.parents |= {manager: 1, BRIDGE: manager, TERMINAL: manager}
    world.programs[manager] = ["/usr/lib/systemd/systemd", "--user"]
    world.attach(BRIDGE, CLIENT)
    assert world.may(PERSON)
    assert not world.may(BRIDGE)


def test_what_runs_too_far_below_is_refused(world: World):
    world.attach(AGENT)
    first = 1000
    world.parents |= {first + n: first + n - 1 for n in range(1, ancestry.MOST + 1)}
    world.parents[first] = AGENT
    assert not world.may(first + ancestry.MOST)
    world.parents[first] = TERMINAL
    assert world.may(first + ancestry.MOST - 10)


def test_what_cannot_be_seen_is_refused(world: World):
    world.sessions = []
    assert not world.may(None)
    assert not world.may(99)

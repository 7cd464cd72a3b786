"""What the HTTP front asks of the daemon, on a mux that is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.core.interface import commands as cmd
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.interface.events import EntriesChanged
from mcpd.core.mux.mux import Mux
from mcpd.daemon.downstream import Outbox, Sessions
from mcpd.daemon.http.core import TURN, HttpCore
from mcpd.ids import SessionId
from mcpd.listeners.http.core import Life
from mcpd.tokens import Token

STATE = SessionState(version="2025-06-18")
LAPTOP = Token(name="laptop", sha256="", created=0.0)


class Carried:
    """A carrier that keeps what it is given."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, bytes | None, bool]] = []
        self.states: list[SessionState] = []
        self.reasons: list[str] = []

    def deliver(self, line: Any, request: bytes | None, *, is_response: bool) -> None:
        data = line if isinstance(line, bytes) else b"".join(map(bytes, line))
        self.said.append((json.loads(data), request, is_response))

    def changed(self, state: SessionState) -> None:
        self.states.append(state)

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)


class Entries:
    """A registry that has entries and nothing else."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = entries

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries)


class Daemon:
    """A mux with two servers that do not run, and the sessions on it."""

    def __init__(self) -> None:
        self.outboxes: dict[SessionId, Outbox] = {}
        self.mux = Mux(Settings(version="0"), suggest=lambda _, names: [*names])
        self.ended: list[SessionId] = []
        entries = (Entry(name="one", launch="1"), Entry(name="two", launch="2"))
        sessions = Sessions(self)
        self.core = HttpCore(self.mux, sessions, Entries(*entries), self.ended.append)  # type: ignore[arg-type]
        self.dispatch(EntriesChanged(entries))

    def dispatch(self, event: Any) -> None:
        for command in self.mux.handle(event, 0.0):
            match command:
                case cmd.ToSession():
                    self.outboxes[command.session].write(
                        command.data, request=command.request, is_response=command.is_response
                    )
                case cmd.SessionElements():
                    self.outboxes[command.session].bring(command.elements)
                case cmd.KeepSession():
                    self.core.keep(command)
                case cmd.CloseSession():
                    self.outboxes[command.session].close(command.reason)


def ping(ident: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % ident


def test_a_message_is_carried_with_the_request_that_it_belongs_to() -> None:
    daemon, carrier = Daemon(), Carried()
    session = daemon.core.open(LAPTOP, "one", carrier, STATE)
    daemon.core.take(session, ping(7))
    assert carrier.said == [({"jsonrpc": "2.0", "id": 7, "result": {}}, b"7", True)]


def test_a_session_that_is_kept_is_told_what_makes_it_up() -> None:
    daemon, carrier = Daemon(), Carried()
    session = daemon.core.open(LAPTOP, None, carrier, STATE, life=Life.KEPT)
    daemon.core.take(session, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert carrier.states == [STATE]


def test_a_session_for_one_request_ends_when_that_is_over() -> None:
    daemon, carrier = Daemon(), Carried()
    session = daemon.core.open(LAPTOP, "one", carrier, STATE, life=Life.REQUEST)
    daemon.core.take(session, ping(1))
    daemon.core.release(session)
    assert daemon.ended == [session]
    assert carrier.reasons
    assert not daemon.outboxes


def test_a_token_that_has_ended_takes_its_sessions_with_it() -> None:
    daemon, mine, other = Daemon(), Carried(), Carried()
    session = daemon.core.open(LAPTOP, "one", mine, STATE)
    daemon.core.open(None, "one", other, STATE)
    daemon.core.end_of_token("laptop")
    assert daemon.ended == [session]
    assert mine.reasons and not other.reasons
    daemon.core.take(session, ping(1))
    assert not mine.said


async def test_the_messages_of_an_array_come_before_what_is_sent_after_it() -> None:
    """
    They are handled some at a time, so that others have their turn.
    """
    daemon, carrier = Daemon(), Carried()
    session = daemon.core.open(LAPTOP, "one", carrier, SessionState(version="2025-03-26"))
    count = 2 * TURN + 1
    daemon.core.take(session, b"[%b]" % b",".join(map(ping, range(count))))
    daemon.core.take(session, ping(-1))
    assert not carrier.said
    for _ in range(10):
        await asyncio.sleep(0)
    answers, request, is_response = carrier.said[0]
    assert [answer["id"] for answer in answers] == [*range(count)]
    assert (request, is_response) == (b"0", True)
    assert [said[0]["id"] for said in carrier.said[1:]] == [-1]


def test_an_endpoint_is_refused_with_near_names_that_may_be_used() -> None:
    daemon = Daemon()
    scoped = Token(name="ci", sha256="", created=0.0, servers=("one",))
    assert daemon.core.refusal(scoped, "one") is None
    error = json.loads(daemon.core.refusal(scoped, "two") or b"")
    assert (error["code"], error["data"]["kind"]) == (-32602, "server_not_found")
    assert error["data"]["near"] == ["one"]


def test_a_handle_that_is_not_known_is_of_no_session() -> None:
    assert Daemon().core.parked(LAPTOP, "one", "mcpd1.1.x") is None


def test_a_parked_call_is_found_with_its_token_on_its_endpoint_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Who has seen its handle could else answer for somebody else.
    """
    daemon = Daemon()
    session = daemon.core.open(LAPTOP, "one", Carried(), STATE, life=Life.REQUEST)
    monkeypatch.setattr(daemon.mux, "parked_session", lambda _state: session)
    assert daemon.core.parked(LAPTOP, "one", "handle") == session
    other = Token(name="other", sha256="", created=0.0)
    for token, server in ((other, "one"), (None, "one"), (LAPTOP, "two"), (LAPTOP, None)):
        assert daemon.core.parked(token, server, "handle") is None


def test_the_lists_of_an_endpoint_change_with_its_entry_alone() -> None:
    core = Daemon().core
    assert core.lists_of("one") != core.lists_of("two") != core.lists_of(None)
    assert core.lists_of("one") == Daemon().core.lists_of("one")


async def test_the_answer_to_an_array_of_which_all_was_refused_names_one_of_its_requests() -> None:
    """
    Else the front could not tell whose it is, and the POST would wait for ever.
    """
    daemon, carrier = Daemon(), Carried()
    session = daemon.core.open(LAPTOP, "one", carrier, SessionState(version="2025-03-26"))
    again = b'{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}'
    daemon.core.take(session, b'[%b,{"jsonrpc":"1.0","id":6,"method":"ping"}]' % again)
    for _ in range(10):
        await asyncio.sleep(0)
    ((answers, request, is_response),) = carrier.said
    assert [answer["id"] for answer in answers] == [5, 6]
    assert (request, is_response) == (b"5", True)

"""Requests of ours to legacy sessions: one answer, from whoever was asked, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.interface.commands import ToSession
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Settings
from mcpd.core.questions.requests_to_clients import RequestsToClients, RequestToClient
from mcpd.core.state.session import Session
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId
from tests.support.transcript import USER


class Desk:
    """Two sessions, and what was heard of them."""

    def __init__(self) -> None:
        self.ctx = Context(Settings(version="1"), lambda name, known: [])
        self.to_clients = RequestsToClients(self.ctx)
        self.one, self.two = (
            Session(self.ctx, SessionId(1), USER, Share(Memory(10**9))),
            Session(self.ctx, SessionId(2), USER, Share(Memory(10**9))),
        )
        self.heard: list[tuple[bytes | None, bytes | None]] = []
        self.progress: list[bytes] = []

    def ask(
        self, session: Session, params: bytes | None = b"{}", timeout: float = 10
    ) -> RequestToClient:
        def then(result: Raw | None, error: Raw | None) -> None:
            said = [None if each is None else bytes(each) for each in (result, error)]
            self.heard.append((said[0], said[1]))

        return self.to_clients.ask(
            session,
            "sampling/createMessage",
            params,
            then,
            timeout=timeout,
            on_progress=self.progress.append,
        )

    def hear(self, session: Session, line: str) -> None:
        self.to_clients.hear_answer(session, envelope.decode(line.encode()))

    def sent(self) -> list[Any]:
        done = [c for c in self.ctx.commands if isinstance(c, ToSession)]
        self.ctx.commands.clear()
        return [(c.session, json.loads(c.data)) for c in done if isinstance(c.data, bytes)]


def test_each_request_has_an_id_of_its_own() -> None:
    desk = Desk()
    desk.ask(desk.one)
    desk.ask(desk.two, None)
    one, two = desk.sent()
    assert one[0] == 1 and one[1]["params"] == {}
    assert two[0] == 2 and "params" not in two[1]
    assert one[1]["id"] != two[1]["id"]


def test_an_answer_counts_once_and_only_from_who_was_asked() -> None:
    """
    B081: whatever others send, it is not the answer.
    """
    desk = Desk()
    desk.ask(desk.one)
    for session, ident in ((desk.two, "1"), (desk.one, '"1"'), (desk.one, "0"), (desk.one, "-1")):
        desk.hear(session, f'{{"jsonrpc":"2.0","id":{ident},"result":{{}}}}')
    desk.hear(desk.one, '{"jsonrpc":"2.0","id":1}')
    desk.hear(desk.one, '{"jsonrpc":"2.0","result":{}}')
    assert desk.heard == []
    desk.hear(desk.one, '{"jsonrpc":"2.0","id":1,"result":{"n":1e400}}')
    desk.hear(desk.one, '{"jsonrpc":"2.0","id":1,"result":{}}')
    assert desk.heard == [(b'{"n":1e400}', None)]
    assert len(desk.to_clients) == 0


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ('"error":{"code":-1,"message":""}', (None, b'{"code":-1,"message":""}')),
        ('"error":null,"result":{}', (b"{}", None)),
        ('"error":{"code":1,"message":"no"},"result":null', (None, b'{"code":1,"message":"no"}')),
    ],
)
def test_an_answer_whose_other_half_is_null_is_an_answer(
    said: str, heard: tuple[bytes | None, bytes | None]
) -> None:
    desk = Desk()
    desk.ask(desk.one)
    desk.hear(desk.one, f'{{"jsonrpc":"2.0","id":1,{said}}}')
    assert desk.heard == [heard]


@pytest.mark.parametrize(
    "said",
    [
        '"result":{},"error":{"code":1,"message":"both"}',
        '"result":5',
        '"result":null',
        '"result":[]',
        '"error":"no"',
        '"error":{"code":-1}',
        '"error":{"code":"-1","message":"no"}',
        '"error":{"code":1.5,"message":"no"}',
    ],
)
def test_what_a_server_would_not_take_for_an_answer_is_an_error(said: str) -> None:
    """Real servers drop such a line, and their tool waits for ever, with everybody's turn."""
    desk = Desk()
    desk.ask(desk.one)
    desk.hear(desk.one, f'{{"jsonrpc":"2.0","id":1,{said}}}')
    ((result, error),) = desk.heard
    assert result is None and b"could not be read" in (error or b"")
    assert len(desk.to_clients) == 0


def test_what_could_not_be_kept_is_an_error_likewise() -> None:
    desk = Desk()
    desk.ask(desk.one)
    for session, ident in ((desk.two, b"1"), (desk.one, b'"1"'), (desk.one, b"2")):
        desk.to_clients.spoil(session, ident)
    assert desk.heard == []
    desk.to_clients.spoil(desk.one, b"1")
    desk.to_clients.spoil(desk.one, b"1")
    assert len(desk.heard) == 1 and desk.heard[0][0] is None


def test_silence_is_told_of_in_time_and_the_client_that_nobody_waits() -> None:
    desk = Desk()
    desk.ask(desk.one)
    desk.ask(desk.two, timeout=0)
    desk.sent()
    desk.ctx.now += 10
    desk.ctx.run_due()
    assert desk.heard == [(None, None)]
    ((session, told),) = desk.sent()
    assert session == 1 and told["method"] == "notifications/cancelled"
    assert told["params"] == {"requestId": 1}
    desk.hear(desk.one, '{"jsonrpc":"2.0","id":1,"result":{}}')
    assert len(desk.heard) == 1 and len(desk.to_clients) == 1


def test_what_is_withdrawn_is_not_heard_of_again() -> None:
    desk = Desk()
    asked = desk.ask(desk.one)
    desk.sent()
    desk.to_clients.withdraw(asked)
    desk.to_clients.withdraw(asked)
    assert len(desk.sent()) == 1
    desk.hear(desk.one, '{"jsonrpc":"2.0","id":1,"result":{}}')
    desk.ctx.now += 100
    desk.ctx.run_due()
    assert desk.heard == []


def test_a_session_that_is_gone_is_forgotten_without_a_word() -> None:
    desk = Desk()
    desk.ask(desk.one)
    desk.ask(desk.two)
    desk.sent()
    desk.to_clients.session_gone(desk.one)
    assert desk.sent() == [] and desk.heard == [] and len(desk.to_clients) == 1


def test_a_progress_token_is_ours_on_the_way_and_the_askers_on_the_way_back() -> None:
    desk = Desk()
    desk.ask(desk.one, b'{"n":1e400,"_meta":{"x":1,"progressToken":"t"}}')
    ((_, sent),) = desk.sent()
    assert sent["params"]["_meta"] == {"x": 1, "progressToken": 1}
    desk.to_clients.hear_progress(desk.two, Raw(b'{"progressToken":1,"progress":1}'))
    desk.to_clients.hear_progress(desk.one, Raw(b'{"progressToken":"1","progress":1}'))
    desk.to_clients.hear_progress(desk.one, Raw(b'{"progress":1}'))
    assert desk.progress == []
    desk.to_clients.hear_progress(desk.one, Raw(b'{"progressToken":1,"progress":1.50}'))
    assert desk.progress == [b'{"progressToken":"t","progress":1.50}']


def test_without_a_token_there_is_no_progress() -> None:
    desk = Desk()
    desk.ask(desk.one, b'{"text":"\\"progressToken\\"","_meta":{}}')
    desk.to_clients.hear_progress(desk.one, Raw(b'{"progressToken":1,"progress":1}'))
    assert desk.progress == []

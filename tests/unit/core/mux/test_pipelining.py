"""Clients that do not wait for the answer to ``initialize`` of a server that has never run."""

from __future__ import annotations

import json
from typing import Any

from mcpd.core.facts import Failure
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import Command, ToServer, ToSession
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.mcp.versions import Era
from mcpd.core.mux.mux import Mux
from mcpd.ids import SessionId, SlotId
from tests.support.transcript import USER

ONE = SessionId(1)
SLOT = SlotId("launch")
INTRODUCTION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "x", "version": "1"},
}


class Talk:
    """One session on the endpoint of one server, and that server's process."""

    def __init__(self) -> None:
        self.mux = Mux(Settings(version="1"), suggest=lambda name, names: [])
        self.to_client: list[dict[str, Any]] = []
        self.to_server: list[dict[str, Any]] = []
        self.now = 0.0
        self.tell(ev.EntriesChanged((Entry(name="s", launch=SLOT, era=Era.LEGACY),)))
        self.tell(ev.SessionOpened(ONE, USER))
        self.say(0, "mcpd/attach")
        self.tell(ev.Attach(ONE, b"0", "s", None, None, (), True))

    def tell(self, event: ev.Event) -> None:
        for command in self.mux.handle(event, self.now):
            self._take(command)

    def _take(self, command: Command) -> None:
        match command:
            case ToSession():
                self.to_client.append(json.loads(command.data))
            case ToServer():
                self.to_server.append(json.loads(command.data))

    def say(self, ident: int | None, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if ident is not None:
            message["id"] = ident
        self.tell(ev.FrameFromSession(ONE, json.dumps(message).encode()))

    def pipeline(self) -> None:
        self.say(1, "initialize", protocolVersion="2025-11-25", capabilities={})
        self.say(None, "notifications/initialized")
        self.say(2, "tools/call", name="echo", arguments={})

    def answer(self, method: str, result: Any, slot: SlotId = SLOT) -> None:
        asked = next(m for m in reversed(self.to_server) if m.get("method") == method)
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        self.tell(ev.FrameFromServer(slot, json.dumps(answer).encode()))

    def start(self, slot: SlotId = SLOT) -> None:
        self.tell(ev.ServerUp(slot))
        self.answer("initialize", INTRODUCTION, slot)
        self.answer("tools/list", {"tools": []}, slot)

    def answers(self) -> dict[int, dict[str, Any]]:
        return {m["id"]: m for m in self.to_client if "id" in m}


def test_what_follows_initialize_waits_for_its_answer_and_is_served():
    """``printf … | mcpctl connect`` in front of a server that has never run."""
    talk = Talk()
    talk.pipeline()
    assert 2 not in talk.answers()
    talk.start()
    talk.answer("tools/call", {"content": []})
    answers = talk.answers()
    assert answers[1]["result"]["serverInfo"]["name"] == "x"
    assert answers[2]["result"] == {"content": []}


def test_an_early_initialized_counts():
    talk = Talk()
    talk.pipeline()
    talk.start()
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    talk.tell(ev.FrameFromServer(SLOT, json.dumps(changed).encode()))
    talk.now = 5.0
    talk.tell(ev.Tick())
    talk.answer("tools/list", {"tools": [{"name": "new"}]})
    assert [m["method"] for m in talk.to_client if "method" in m] == [
        "notifications/tools/list_changed"
    ]


def test_what_follows_fails_as_initialize_does():
    talk = Talk()
    talk.pipeline()
    why = Failure("spawn_failed", "s cannot be started", "s")
    talk.tell(ev.ServerDown(SLOT, why, False, True))
    kinds = {ident: a["error"]["data"]["kind"] for ident, a in talk.answers().items() if ident}
    assert kinds == {1: "spawn_failed", 2: "spawn_failed"}
    assert talk.mux.table_sizes()["owed"] == 0


def test_a_cancelled_one_is_not_sent():
    talk = Talk()
    talk.pipeline()
    talk.say(None, "notifications/cancelled", requestId=2)
    talk.start()
    assert [m for m in talk.to_server if m.get("method") == "tools/call"] == []
    assert 2 not in talk.answers()


def test_an_entry_that_changes_meanwhile_costs_nobody_the_session():
    """The start that ``initialize`` waits for is another one then."""
    talk = Talk()
    talk.pipeline()
    talk.tell(ev.EntriesChanged((Entry(name="s", launch="other", era=Era.LEGACY),)))
    assert 1 not in talk.answers()
    talk.start(SlotId("other"))
    talk.answer("tools/call", {"content": []}, SlotId("other"))
    answers = talk.answers()
    assert answers[1]["result"]["serverInfo"]["name"] == "x"
    assert answers[2]["result"] == {"content": []}

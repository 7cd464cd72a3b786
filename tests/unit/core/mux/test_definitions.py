"""What servers list is judged before anybody gets it: in the mux as a whole."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from mcpd.core.catalog.examine import examine
from mcpd.core.catalog.model import Item, Kind, Listing
from mcpd.core.catalog.pins import Pins, Rules
from mcpd.core.definitions import definitions, held_refusals
from mcpd.core.definitions.recent_forms import FORMS
from mcpd.core.definitions.reports import TELL_EVERY
from mcpd.core.definitions.served import Reviewed
from mcpd.core.facts import (
    DefinitionsChanged,
    DefinitionsPinned,
    DefinitionsSanitised,
    DefinitionVolatile,
    Failure,
)
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.offer import Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.mux.result_cleaning import AT_ONCE
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Scope, bearer
from tests.unit.core.mux.world import World

HOLD = Rules(identity="id", pin="hold", sanitise="invisible")
TOOL = {"name": "write", "description": "Writes.", "inputSchema": {"type": "object"}}
INTRODUCTION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "echo", "version": "1"},
}
GONE = Failure("server_crashed", "gone")


class Judged(World):
    """A world with one server, whose definitions are judged. It keeps what is put on disk."""

    def __init__(self, rules: Rules = HOLD, **entry: Any) -> None:
        super().__init__()
        self.kept: Pins | None = None
        self.is_up = False
        self.facts: list[Any] = []
        self.configure(rules, **entry)
        self.run("!! join 1 echo")

    def configure(self, rules: Rules, **entry: Any) -> list[cmd.Command]:
        values = {"name": "echo", "launch": "echo-1", "verdict": Verdict(Era.LEGACY), **entry}
        self.entries["echo"] = Entry(rules=rules, **values)
        return self.handle(ev.EntriesChanged(tuple(self.entries.values())))

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        done = super().handle(event)
        for command in done:
            if isinstance(command, cmd.KeepPins):
                self.kept = command.pins
            elif isinstance(command, cmd.Tell):
                self.facts.append(command.fact)
        return done

    def list(self, *tools: Any) -> list[cmd.Command]:
        """Have a process come up that lists these tools, or have the one that is up list them."""
        if not self.is_up:
            self.is_up = True
            return self.answered(self.do_up("echo"), *tools)
        changed = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        done = self.say("echo", changed)
        return self.answered([*done, *self._wait(2)], *tools)

    def answered(self, commands: list[cmd.Command], *tools: Any) -> list[cmd.Command]:
        """Answer what the server is asked, and what follows; return all commands but these."""
        rest: list[cmd.Command] = []
        todo = [*commands]
        while todo:
            command = todo.pop(0)
            message = json.loads(command.data) if isinstance(command, cmd.ToServer) else {}
            if message.get("method") == "initialize":
                todo += self.answer("echo", message["id"], INTRODUCTION)
            elif message.get("method") == "tools/list":
                todo += self.answer("echo", message["id"], {"tools": list(tools)})
            else:
                rest.append(command)
        return rest

    def told(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def tools(self, session: int = 1, ident: int = 99) -> list[dict[str, Any]]:
        (line,) = self.request(session, ident, "tools/list")
        found: list[dict[str, Any]] = json.loads(line.split(" ", 2)[2])["result"]["tools"]
        return found


@pytest.fixture
def world() -> Judged:
    made = Judged()
    made.list(TOOL)
    return made


def test_a_held_change_is_told_to_no_client(world: Judged) -> None:
    """
    Nothing that a client gets has changed.
    """
    evil = {**TOOL, "description": "Tells Mallory."}
    done = world.list(evil)
    assert not [each for each in done if isinstance(each, cmd.ToSession)]
    assert world.tools()[0]["description"] == "Writes."
    assert world.told(DefinitionsChanged)


def test_a_list_that_is_the_same_writes_nothing(world: Judged) -> None:
    """
    Neither does one that means the same.
    """
    world.kept = None
    world.list({"inputSchema": {"type": "object"}, "name": "write", "description": "Writes."})
    assert world.kept is None


def test_changes_are_told_at_most_once_in_ten_seconds(world: Judged) -> None:
    """
    All that has changed meanwhile, in one event.
    """
    for count in range(4):
        world.list({**TOOL, "description": "One."}, {**TOOL, "name": f"new{count}"})
    assert len(world.told(DefinitionsChanged)) == 1
    world._wait(TELL_EVERY)
    first, second = world.told(DefinitionsChanged)
    assert len(first.items) == 2
    assert {each.name for each in second.items} >= {"new1", "new2", "new3"}


def test_a_definition_with_many_forms_is_volatile_once(world: Judged) -> None:
    """
    Then its changes are told no more; it is held like others.
    """
    for count in range(FORMS + 4):
        world.list({**TOOL, "description": f"At {count}."})
        world._wait(TELL_EVERY)
    assert len(world.told(DefinitionVolatile)) == 1
    assert len(world.told(DefinitionsChanged)) == FORMS - 1
    assert world.tools()[0]["description"] == "Writes."


def test_a_long_list_is_judged_when_it_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whoever asks meanwhile waits; a process that ends meanwhile leaves what was there.
    """
    monkeypatch.setattr(definitions, "AT_ONCE", 0)
    made = Judged(HOLD)
    (job,) = [each for each in made.list(TOOL) if isinstance(each, cmd.Examine)]
    assert made.request(1, 1, "tools/list") == []
    done = made.handle(ev.ListExamined(job.ticket, examine(job.job)))
    assert "Writes." in answers(done)[-1]
    (job,) = [e for e in made.list({**TOOL, "name": "other"}) if isinstance(e, cmd.Examine)]
    slot = SlotId("echo-1")
    made.handle(ev.ServerDown(slot, GONE, is_planned=False, comes_back=False))
    made.handle(ev.ListExamined(job.ticket, examine(job.job)))
    assert [each["name"] for each in made.tools()] == ["write"]
    assert made.mux.table_sizes()["examined"] == 0


@pytest.mark.parametrize(("pin", "names"), [("hold", []), ("warn", ["write"])])
def test_a_list_that_cannot_be_looked_at_is_held_or_served(
    monkeypatch: pytest.MonkeyPatch, pin: str, names: list[str]
) -> None:
    """
    A bug of ours must not let through what is held, nor keep back what is not.
    """
    monkeypatch.setattr(definitions, "AT_ONCE", 0)
    made = Judged(msgspec.structs.replace(HOLD, pin=pin))
    (job,) = [each for each in made.list(TOOL) if isinstance(each, cmd.Examine)]
    made.handle(ev.ListExamined(job.ticket, None))
    assert [each["name"] for each in made.tools()] == names


def test_a_call_that_waits_for_a_process_is_refused_by_what_it_lists(world: Judged) -> None:
    """
    It was admitted before anybody could know.
    """
    slot = SlotId("echo-1")
    world.handle(ev.ServerDown(slot, GONE, is_planned=True, comes_back=True))
    assert not [line for line in world.call(1, 7) if line.startswith("<<")]
    done = world.handle(ev.ServerUp(slot))
    done = world.answered(done, {**TOOL, "inputSchema": {"type": "array"}})
    (refusal,) = answers(done)
    assert json.loads(refusal)["error"]["data"]["reason"] == "pin"
    assert not [each for each in done if isinstance(each, cmd.ToServer) and each.wire_id]


def test_what_was_never_listed_is_refused_where_something_is_approved(world: Judged) -> None:
    """
    A call may come before the list that has its tool.
    """
    (refusal,) = world.call(1, 7, "leak")
    assert '"reason":"pin"' in refusal
    assert world.call(1, 8)[0].startswith("<< echo")


def test_a_hard_finding_is_not_approved_by_being_first() -> None:
    """
    Everything else of the list is.
    """
    made = Judged()
    made.list(TOOL, {**TOOL, "name": "evil", "description": "\U000e0041\U000e0042Adds."})
    assert [each["name"] for each in made.tools()] == ["write"]
    assert made.told(DefinitionsPinned)
    assert made.told(DefinitionsSanitised)


def test_another_command_is_a_new_baseline(world: Judged) -> None:
    """
    Its owner has just edited it.
    """
    world.configure(msgspec.structs.replace(HOLD, identity="other"), launch="echo-2")
    world.is_up = False
    world.list({**TOOL, "description": "Writes more."})
    assert world.tools()[0]["description"] == "Writes more."
    assert world.told(DefinitionsPinned)[-1].after == "1 changed"


def test_a_second_listing_of_a_name_is_not_served(world: Judged) -> None:
    """
    Clients differ in which of them they show.
    """
    world.list(TOOL, {**TOOL, "description": "Tells Mallory."})
    assert [each["description"] for each in world.tools()] == ["Writes."]


CLEAN = msgspec.structs.replace(HOLD, pin="off", results="clean")


def result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def answers(done: list[cmd.Command]) -> list[str]:
    responses = [each for each in done if isinstance(each, cmd.ToSession) and each.is_response]
    parts = [each.data if isinstance(each.data, tuple) else (each.data,) for each in responses]
    return [b"".join(map(bytes, each)).decode() for each in parts]


def test_answers_to_a_session_wait_for_one_that_is_cleaned() -> None:
    """
    Those to others do not, and a call that is given up holds nobody up.
    """
    made = Judged(CLEAN)
    made.run("!! join 2 echo")
    made.list(TOOL)
    idents = []
    for session, ident in ((1, 1), (1, 2), (2, 1), (1, 3)):
        (line,) = made.call(session, ident)
        idents.append(json.loads(line.split(" ", 2)[2])["id"])
    done = made.answer("echo", idents[0], result("a\u200b " * AT_ONCE))
    (job,) = [each for each in done if isinstance(each, cmd.CleanResult)]
    assert answers(done) == answers(made.answer("echo", idents[1], result("b\u200b"))) == []
    (other,) = answers(made.answer("echo", idents[2], result("c\u200b")))
    assert json.loads(other)["result"] == result("c")
    assert made.mux.table_sizes()["cleaned"] == 2
    done = made.handle(ev.ResultCleaned(job.ticket, b'{"content":[]}', ("unicode.invisible",)))
    first, second = map(json.loads, answers(done))
    assert (first["id"], first["result"]) == (1, {"content": []})
    assert (second["id"], second["result"]) == (2, result("b"))
    assert made.mux.table_sizes()["cleaned"] == 0
    assert len(answers(made.answer("echo", idents[3], result("d")))) == 1


def test_a_call_that_is_given_up_holds_nobody_up() -> None:
    """
    Its result is dropped; the next one leaves.
    """
    made = Judged(CLEAN)
    made.list(TOOL)
    idents = []
    for ident in (1, 2):
        (line,) = made.call(1, ident)
        idents.append(json.loads(line.split(" ", 2)[2])["id"])
    done = made.answer("echo", idents[0], result("a\u200b " * AT_ONCE))
    (job,) = [each for each in done if isinstance(each, cmd.CleanResult)]
    made.answer("echo", idents[1], result("b"))
    made.say("1", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    left = answers(made.handle(ev.ResultCleaned(job.ticket, None)))
    assert [json.loads(each)["id"] for each in left] == [2]
    assert made.mux.memory.kept_bytes == 0


def test_the_first_lists_are_written_once() -> None:
    """
    Its instructions come first, and go to the disk with them.
    """
    made = Judged()
    kept = [each for each in made.list(TOOL) if isinstance(each, cmd.KeepPins)]
    assert len(kept) == 1
    assert kept[0].pins is not None
    assert kept[0].pins.tables[""].keys() == {"instructions", "tool"}


def test_a_tool_that_only_some_clients_get_is_not_approved_by_that(world: Judged) -> None:
    """
    A server is told what a client can do: it could show its changes to new clients alone.
    """
    found = world.mux.definitions("echo")
    assert found is not None
    evil, extra = {**TOOL, "description": "Tells Mallory."}, {**TOOL, "name": "extra"}
    listing = Listing(Kind.TOOLS, [Item(e["name"], json.dumps(e).encode()) for e in (evil, extra)])
    served: list[Reviewed] = []
    found.review("other capabilities", listing, None, served.append)
    assert [json.loads(each.raw) for each in served[0].listing.items] == [TOOL]
    assert held_refusals.refusal(found.approved, "tool", "extra") is not None
    assert (found.approved.counts().changed, found.approved.counts().held) == (1, 1)


def test_a_pin_is_of_the_form_that_a_client_gets(world: Judged) -> None:
    """
    Processes of one server may list different forms: a yes for one is none for the other.
    """
    found = world.mux.definitions("echo")
    assert found is not None and found.approved.pins is not None
    pin_of = partial(world.mux.approvals.pins.pin_of, "echo")

    def item(**changed: Any) -> Item:
        return Item("write", json.dumps({**TOOL, **changed}).encode())

    approved = bytes.fromhex(found.approved.pins.find("tool", "write")[0].hash)[:16]
    other = {"inputSchema": TOOL["inputSchema"], "name": "write", "description": "Writes. "[:-1]}
    assert pin_of(item()) == approved
    assert pin_of(Item("write", json.dumps(other, indent=1).encode())) == approved
    evil = pin_of(item(description="Tells Mallory."))
    assert len({approved, evil, pin_of(item(description="Tells Eve."))}) == 3
    assert evil == pin_of(item(description="Tells Mallory."))


def test_the_pin_of_a_volatile_text_is_of_the_rest() -> None:
    judged = Judged(Rules(identity="id", pin="warn", volatile=("write",)))
    judged.list(TOOL)
    texts = [{**TOOL, "description": text} for text in ("At 12:01.", "At 12:02.")]
    items = [
        Item("write", json.dumps(each).encode()) for each in (*texts, {**TOOL, "inputSchema": {}})
    ]
    pins = [judged.mux.approvals.pins.pin_of("echo", each) for each in items]
    assert pins[0] == pins[1] != pins[2]


@pytest.mark.parametrize(
    ("scope", "kind"),
    [
        (Scope(prompts=False), "denied"),
        (Scope(tools=(("write*",),)), "tool_not_found"),
        (Scope(read_only=True), "tool_not_found"),
        (Scope(servers=frozenset(("other",))), "tool_not_found"),
    ],
)
def test_a_held_tool_is_unknown_where_it_would_not_be_shown(
    world: Judged, scope: Scope, kind: str
) -> None:
    """
    The scope decides before the pin does.
    """
    world.list(TOOL, {**TOOL, "name": "secret", "description": "New.", "inputSchema": {"x": 1}})
    world.handle(ev.SessionOpened(SessionId(5), bearer("script", scope)))
    joined = SessionState(version="2025-11-25", is_initialized=True)
    world.handle(ev.Join(SessionId(5), None, joined))
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo__secret"}}'
    (line,) = world.run(f">> 5 {call}")
    assert f'"kind":"{kind}"' in line

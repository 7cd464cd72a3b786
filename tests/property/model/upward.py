"""What reaches processes: in their era, in their clients' name, once, and never under a used id."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import UNSET

from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Interactive
from mcpd.core.mcp.versions import Era
from mcpd.core.wire import envelope
from mcpd.ids import SlotId
from tests.property.model.ground import TALLY, Ground, nonce_of
from tests.property.model.peers import TOOLS, Call, Process, Question, Work
from tests.property.model.wire import (
    CAPABILITIES,
    CLIENT,
    ENVELOPE,
    LEVEL,
    LEVELS,
    META,
    REVISION,
    VERSION,
    Json,
    as_modern,
    members,
    rest,
    without_tasks,
)

OWN: Final = {
    "legacy": {
        "ping",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    },
    "modern": {
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "subscriptions/listen",
    },
}
"""What the mux asks on its own account, once a process was introduced."""

OURS: Final = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
ROUNDING: Final = 1e-6
"""Seconds: a deadline is a sum of floats, and so is what has passed until it."""
ANSWERS: Final = ("inputResponses", "requestState")


def without_questions(capabilities: Json) -> Json:
    """Return capabilities without those by which a server asks something."""
    return {name: value for name, value in capabilities.items() if name not in OURS}


class Upward(Ground):
    """The checks of what processes are sent."""

    def to_server(self, slot: SlotId, data: bytes, wire_id: int) -> None:
        assert slot in self.processes, "written to no process"
        process = self.processes[slot]
        assert data.endswith(b"\n") and data.count(b"\n") == 1
        assert not process.is_mute, "written to a process that does not get over the probe"
        message = envelope.decode(data[:-1])
        params = b"" if message.params is UNSET else bytes(message.params)
        if message.method is UNSET:
            self.take_answer(process, message)
        elif message.id is UNSET:
            self.take_notification(slot, process, str(message.method), params)
        else:
            assert bytes(message.id) == b"%d" % wire_id
            assert wire_id > process.last_id, "a wire id was used twice"
            process.last_id = wire_id
            self.take_request(slot, process, wire_id, str(message.method), params)

    # -- requests ---------------------------------------------------------------------------------

    def take_request(
        self, slot: SlotId, process: Process, wire_id: int, method: str, params: bytes
    ) -> None:
        if slot in self.clogged:
            process.over.add(wire_id)
            process.refused.add(wire_id)
            process.is_level_refused |= method == "logging/setLevel"
            self.handle(ev.WriteRefused(slot, wire_id))
            return
        meta = members(members(params).get("_meta"))
        token = int(meta["progressToken"]) if "progressToken" in meta else None
        assert token in (None, wire_id), "a token that is not its request's id"
        work = Work(wire_id, method, params, None, token)
        if method in ("initialize", "server/discover"):
            self.greet(process, wire_id, method, params)
        else:
            assert process.is_introduced, f"{method} before the handshake"
            nonce = nonce_of(method, json.loads(params) if params else {})
            if nonce is not None:
                work.call = self.calls[nonce]
                self.take_call(slot, process, work)
            else:
                assert method in OWN[process.lock or ""], method
                if process.lock == "modern" and method == "subscriptions/listen":
                    self.is_enveloped(meta, process.told, None)
                elif process.lock == "modern":
                    self.is_enveloped(meta, self.told_for_lists(process, meta), None)
        if process.lock != "modern" and method != "server/discover":
            assert not [name for name in meta if name.startswith(META)], "an envelope"
        if method == "subscriptions/listen":
            process.unheard[wire_id] = json.loads(params)["notifications"]
        else:
            process.open[wire_id] = work

    def greet(self, process: Process, wire_id: int, method: str, params: bytes) -> None:
        """The handshake of either era: once, and of one alone but for a probe that was refused."""
        assert process.lock is None, f"{method} after {process.lock} was begun"
        entry = self.entries.get(process.server)
        said = json.loads(params)
        if method == "server/discover":
            assert wire_id == 1
            assert entry is None or entry.era is not Era.LEGACY
            meta = members(members(params)["_meta"])
            self.is_enveloped(meta, process.told, None)
            if process.nature in ("modern", "dual"):
                process.lock = "modern"
            elif process.nature != "legacy":
                process.is_mute = True
            return
        assert entry is None or entry.era is not Era.MODERN
        declared = dict(said["capabilities"])
        expected = process.told
        if "roots" in expected:
            assert "roots" in declared
            declared["roots"] = {}
        assert declared == expected
        if process.nature != "modern":
            process.lock = "legacy"

    def declared_to(self, slot: SlotId) -> Json:
        """Return what a process is told that can be asked: what its only client said, or all."""
        server, key = self.places[slot]
        entry = self.entry_of(server)
        kind, _, ident = (key or "").partition(":")
        told = {**OURS}
        if kind == "session":
            told = {k: v for k, v in self.clients[int(ident)].declared.items() if k != "roots"}
        elif kind == "control":
            told = {}
        if entry is not None and entry.interactive is Interactive.OFF:
            told = {k: v for k, v in told.items() if k not in OURS}
        if entry is not None and (entry.roots or entry.asks_for_roots):
            told["roots"] = {}
        return told

    def take_call(self, slot: SlotId, process: Process, work: Work) -> None:
        """A call of a client: as it asked it, and not more often than does no harm."""
        call = work.call
        assert call is not None
        asked = call.asked
        assert not call.is_over and asked is not None, f"{call.nonce} was sent, and nobody asks"
        assert call.place is None, f"{call.nonce} is in flight twice"
        assert process.server in self.names_of(call.server)
        if not set(ANSWERS) & set(members(work.params)):
            if call.round and call.is_between and process.lock == "legacy":
                call.seen = {}  # whoever wanted input is no more, and this one cannot be told
            call.round = 0  # after a crash it begins anew
        call.is_between = False
        count = call.seen[call.round] = call.seen.get(call.round, 0) + 1
        assert count == 1 or (count == 2 and call.may_repeat), f"{call.nonce} was repeated"
        work.round = call.round
        whose = "modern" if call.is_modern else "legacy"
        TALLY[f"calls of {whose} clients sent to {process.lock} servers"] += 1
        if call.round:
            TALLY[f"further rounds of {whose} clients"] += 1
        call.place = (slot, work.wire_id)
        if work.method == "tools/call":
            assert json.loads(members(work.params)["name"]) in TOOLS
        assert work.token is not None or asked.token is None, "its progress would be lost"
        meta = members(members(work.params).get("_meta"))
        if process.lock == "modern":
            self.has_its_envelope(process, call, meta)
        else:
            self.has_its_level(process, call)
            is_prompt = process.server not in self.limited  # else it waits for room with its turn
            if is_prompt and call.is_asking and self.is_exclusive(process.server):
                self.has_its_turn(process, call)
        self.has_its_params(process, call, work, meta)

    def has_its_params(
        self, process: Process, call: Call, work: Work, meta: dict[str, bytes]
    ) -> None:
        names = ["name", "ref"] if self.clients[call.session].server is None else []
        top = [*names, *ANSWERS]
        found = members(work.params)
        if process.lock == "legacy":
            assert not set(ANSWERS) & set(found)
        elif call.is_modern:
            if work.round:
                top = names
        elif work.round:
            answers = members(found.get("inputResponses", b"{}"))
            assert set(answers) == set(call.wants), "answers that are not those that were wanted"
            for key, question in call.wants.items():
                if question.result is not None:
                    assert answers[key] == question.result
                else:
                    assert json.loads(answers[key]) == {"action": "cancel"}
                    assert question.method == "elicitation/create"
            assert found.get("requestState") == call.state
        may = [rest(call.sent, top=top)[0]]
        if process.lock == "legacy":
            may.append(rest(call.params, top=top)[0])  # a parked call that is made from the start
        assert rest(work.params, top=top)[0] in may, "other params than its client's"
        ours = ["progressToken", *ENVELOPE]
        assert [m for m in meta.items() if m[0] not in ours] == list(members(call.meta).items())

    def has_its_envelope(self, process: Process, call: Call, meta: dict[str, bytes]) -> None:
        client = self.clients[call.session]
        if client.kind == "control":
            assert json.loads(meta[CAPABILITIES]) == {}
            return
        if call.is_modern:
            told = call.capabilities if client.server else without_tasks(call.capabilities)
            level = call.level
        else:
            told, level = as_modern(call.capabilities), call.level
            given = json.loads(meta.get(LEVEL, b"null"))
            if given in (client.level, client.tried_level):
                level = given  # it changed while the call waited, or its change was cancelled
        allowed = self.allowed(process, told)
        if self.may_ask_nothing(process.server) != call.was_off:  # it changed while the call waited
            before = without_questions(told) if call.was_off else told
            allowed = before if json.loads(meta[CAPABILITIES]) == before else allowed
        self.is_enveloped(meta, allowed, level)
        assert json.loads(meta[CLIENT]) == call.info

    def is_enveloped(self, meta: dict[str, bytes], capabilities: Json, level: str | None) -> None:
        assert json.loads(meta[VERSION]) == REVISION
        told = json.loads(meta[CAPABILITIES])
        told = {k: v for k, v in told.items() if v or k != "extensions"}
        assert told == capabilities, f"said to be able to {told}, and not {capabilities}"
        assert json.loads(meta.get(LEVEL, b"null")) == level, f"level {meta}, and not {level}"

    def told_for_lists(self, process: Process, meta: dict[str, bytes]) -> Json:
        """Return the capabilities with which a list may be asked for that are nearest to these.

        They are ours, or those of somebody who is there or was.
        """
        told = json.loads(meta[CAPABILITIES])
        told = {name: value for name, value in told.items() if value or name != "extensions"}
        for declared in self.declared:
            for client in (declared, without_tasks(declared)):
                allowed = [self.allowed(process, client)]
                if process.server in self.mixed:  # the mode may have changed while the list waited
                    allowed = [client, without_questions(client)]
                if told in allowed:
                    TALLY["lists read for clients"] += told != process.told
                    return told
        return process.told

    def allowed(self, process: Process, capabilities: Json) -> Json:
        """Return what of a client's capabilities a process may know."""
        if not self.may_ask_nothing(process.server):
            return capabilities
        return without_questions(capabilities)

    def may_ask_nothing(self, server: str) -> bool:
        """Tell whether a server is configured to ask clients nothing."""
        entry = self.entries.get(server)
        return entry is not None and entry.interactive is Interactive.OFF

    def has_its_turn(self, process: Process, call: Call) -> None:
        """Where sessions take turns, a call goes while nobody else's could be what is asked about.

        But for those of a session that is asked something: its turn is lent, and its own go on.
        """
        owners = {
            work.call.session
            for work in process.open.values()
            if work.call is not None and work.call.is_asking
        }
        for owner in owners - {call.session}:
            assert self.may_be_asked(process, owner) or self.may_be_asked(process, call.session), (
                f"{call} was sent, and session {owner} has the turn"
            )

    def may_be_asked(self, process: Process, session: int) -> bool:
        """Tell whether a question of a process is open at a session, or on its way there."""
        return any(
            question.asked == session
            or (
                question.asked is None
                and session in {c.session for c in (question.call, *question.rivals) if c}
            )
            for question in process.questions.values()
        )

    def has_its_level(self, process: Process, call: Call) -> None:
        """What a modern request wants to hear, its legacy server was told to say before."""
        if call.is_modern and call.level is not None and not process.is_level_refused:
            assert process.level is not None
            assert LEVELS.index(process.level) <= LEVELS.index(call.level)

    # -- notifications ----------------------------------------------------------------------------

    def take_notification(self, slot: SlotId, process: Process, method: str, params: bytes) -> None:
        match method:
            case "notifications/cancelled":
                self.take_cancellation(process, json.loads(params)["requestId"])
            case "notifications/initialized":
                assert process.lock == "legacy" and not process.is_introduced
                process.is_introduced = True
            case "notifications/roots/list_changed":
                assert process.lock == "legacy" and process.is_introduced
            case "notifications/progress":
                assert process.lock == "legacy"
                found = members(params)
                number = json.loads(found["message"])
                question = self.questions[number]
                assert question.ident in process.questions
                assert question.token == found["progressToken"]
            case _:
                raise AssertionError(f"{method} is not for a server")

    def take_cancellation(self, process: Process, number: int) -> None:
        process.over.add(number)
        if number in process.refused:
            return
        if process.unheard.pop(number, None) or process.listens.pop(number, None):
            return
        work = process.open.pop(number)
        assert work.method not in ("initialize", "server/discover")
        if work.method == "logging/setLevel":
            process.level = "debug"  # it did not say in time what became of it
        if work.call is None:
            return
        work.call.place = None
        if work.call.is_parked:  # its client did not come back in time
            work.call.is_parked, work.call.is_over = False, True
        self.given_up.append(work.call)
        if process.lock == "legacy":
            process.unread.append((process.last_id, work))

    # -- answers to questions ---------------------------------------------------------------------

    def take_answer(self, process: Process, message: envelope.Message) -> None:
        if bytes(message.id) in process.nonsense:  # type: ignore[arg-type]
            process.nonsense.discard(bytes(message.id))  # type: ignore[arg-type]
            assert json.loads(bytes(message.error))["code"] == -32601  # type: ignore[arg-type]
            return
        assert process.lock == "legacy", "an answer for a process that cannot have asked"
        question = process.questions.pop(bytes(message.id))  # type: ignore[arg-type]
        value = message.result if message.error is UNSET else message.error
        if question.may_be_late and bytes(value) != question.result:  # type: ignore[arg-type]
            assert question.call is not None
        elif question.result is not None:
            TALLY["answers of clients passed on"] += 1
            assert bytes(value) == question.result and message.error is UNSET  # type: ignore[arg-type]
        elif question.error is not None:
            assert bytes(value) == question.error and message.result is UNSET  # type: ignore[arg-type]
        else:
            self.is_our_answer(process, question, message)
        question.ident = b"answered"

    def is_our_answer(
        self, process: Process, question: Question, message: envelope.Message
    ) -> None:
        """Nobody has answered: the mux may refuse, cancel, or tell the roots that it was given."""
        entry = self.entry_of(process.server)
        TALLY["questions that the mux answered"] += 1
        if message.error is UNSET:
            found: Any = json.loads(bytes(message.result))  # type: ignore[arg-type]
            if question.method == "elicitation/create":
                assert found == {"action": "cancel"}
            else:
                assert question.method == "roots/list" and entry is not None
                assert entry.roots or self.is_for_its_roots(question)
                assert found == {"roots": [{"uri": uri} for uri in entry.roots]}
            is_done = not question.is_strict or any(each.is_over for each in question.rivals)
            if question.call is not None and question.call.is_parked:
                is_done = True  # it came when its client had been asked, who did not come back
            assert question.asked is not None or is_done or question.method == "roots/list"
        elif self.is_exclusive(process.server) and question.is_strict:
            call = question.call
            assert call is not None
            late = self.now - question.at
            assert (
                call.is_over
                or any(rival.is_ending() for rival in question.rivals)
                or late > entry.question_wait - ROUNDING  # type: ignore[union-attr]
                or (question.method == "roots/list" and "roots" not in call.capabilities)
            ), "a question was refused whose owner could be known"

    def is_exclusive(self, server: str) -> bool:
        entry = self.entries.get(server)
        is_so = entry is not None and entry.interactive is Interactive.EXCLUSIVE
        return is_so and server not in self.mixed

"""What reaches clients: each message is one that its client has a right to."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import UNSET

from mcpd.core.wire import envelope
from tests.property.model.ground import TALLY, Ground
from tests.property.model.peers import Answer, Asked, Batch, Call, Client, Question
from tests.property.model.wire import (
    SERVER,
    STAMPS,
    SUBSCRIPTION,
    can,
    error,
    members,
    notification,
    rest,
    result,
)

KINDS: Final = {
    "call_timeout",
    "crash_loop",
    "handshake_failed",
    "invalid_arguments",
    "invalid_message",
    "invalid_params",
    "message_too_large",
    "rate_limited",
    "server_busy",
    "server_crashed",
    "server_not_found",
    "server_stopped",
    "tool_not_found",
    "unknown_method",
    "unsupported",
}
"""What the mux may give as the reason of a refusal."""

PLAIN: Final = {-32002, -32601, -32602, -32603}
CACHED: Final = ("resources/read",)

_META: Final = ("progressToken", "io.modelcontextprotocol/related-task")


class Downward(Ground):
    """The checks of what clients are sent."""

    def to_session(self, session: int, data: Any) -> None:
        assert session in self.clients, "a message for a session that is gone"
        client = self.clients[session]
        line = data if isinstance(data, bytes) else b"".join(bytes(part) for part in data)
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        if line.startswith(b"["):
            self.hear_batch(client, line)
            return
        message = envelope.decode(line[:-1])
        assert message.jsonrpc == "2.0"
        if message.method is UNSET:
            self.hear_answer(client, message, line[:-1])
        elif message.id is UNSET:
            self.hear_notification(client, str(message.method), message.params)
        else:
            self.hear_question(client, message)

    # -- answers ----------------------------------------------------------------------------------

    def hear_batch(self, client: Client, line: bytes) -> None:
        """All answers that an array is owed come in one, and there is nothing else in it."""
        elements = envelope.elements_of(line)
        assert elements
        keys = [envelope.id_key(bytes(envelope.decode(e).id)) for e in elements]  # type: ignore[arg-type]
        batch = client.owed[keys[0]].batch
        assert batch is not None and not batch.is_told
        batch.is_told = True
        for element in elements:
            self.hear_answer(client, envelope.decode(element), bytes(element), batch)
        assert not batch.keys, "an array of answers without all of them"
        client.owed = {k: a for k, a in client.owed.items() if a.batch is not batch}

    def hear_answer(
        self, client: Client, message: envelope.Message, line: bytes, batch: Batch | None = None
    ) -> None:
        ident = b"" if message.id is UNSET else bytes(message.id)
        if ident and ident == self.refusal:
            assert json.loads(bytes(message.error))["code"] == -32600  # type: ignore[arg-type]
            self.refusal = None
            return
        key = envelope.id_key(ident)
        if key in client.listens:
            self.hear_end_of_listen(client, key, message)
            return
        assert key in client.owed, f"an answer to {ident!r}, which is owed none"
        asked = client.owed.pop(key)
        assert ident == asked.ident
        assert asked.batch is batch, "an answer apart from its array"
        if batch is not None:
            batch.keys.discard(key)
        if asked.is_optional:
            assert message.error is not UNSET or asked.call is None or asked.answer is not None
        elif message.error is UNSET:
            value = bytes(message.result)  # type: ignore[arg-type]
            assert line == result(ident, value)
            self.hear_result(client, asked, value)
        else:
            value = bytes(message.error)
            assert line == error(ident, value)
            self.hear_error(client, asked, value)

    def hear_result(self, client: Client, asked: Asked, value: bytes) -> None:
        found = members(value)
        assert asked.code is None, "what is to be refused was answered"
        if asked.call is not None:
            self.hear_outcome(client, asked, asked.call, value, found)
        elif asked.is_modern:
            assert found["resultType"] == b'"complete"'
            assert SERVER in members(found["_meta"])
        elif not asked.method.startswith("mcpd/"):
            assert not set(STAMPS) & set(found)
            if asked.method == "logging/setLevel":
                client.level = client.tried_level
                client.perhaps_level = None
            if asked.method == "initialize":
                assert json.loads(found["protocolVersion"]) <= client.version
                client.version = json.loads(found["protocolVersion"])
                client.is_initialized = True
                self.send(client.session, notification("notifications/initialized"))

    def hear_outcome(
        self, client: Client, asked: Asked, call: Call, value: bytes, found: dict[str, bytes]
    ) -> None:
        assert call.session == client.session and call.asked is asked
        if asked.is_modern and found.get("resultType") == b'"input_required"':
            self.hear_wish(client, asked, call, value, found)
            return
        answer = asked.answer or call.kept
        assert answer is not None and answer.result is not None, "a result that no process gave"
        self.end(call)
        if asked.method == "mcpd/call":
            assert rest(value, top=STAMPS, meta=[SERVER]) == rest(
                answer.result, top=STAMPS, meta=[SERVER]
            )
        elif asked.is_modern is answer.is_modern:
            TALLY[f"results in their own era ({'modern' if asked.is_modern else 'legacy'})"] += 1
            assert value == answer.result
        elif asked.is_modern:
            TALLY["results of legacy servers for modern clients"] += 1
            assert found["resultType"] == b'"complete"'
            assert SERVER in members(found["_meta"])
            assert ("ttlMs" in found) is ("cacheScope" in found) is (asked.method in CACHED)
            assert rest(value, top=STAMPS, meta=[SERVER]) == rest(answer.result, meta=[SERVER])
        else:
            TALLY["results of modern servers for legacy clients"] += 1
            assert not set(STAMPS) & set(found)
            assert rest(value) == rest(answer.result, top=STAMPS)

    def hear_wish(
        self, client: Client, asked: Asked, call: Call, value: bytes, found: dict[str, bytes]
    ) -> None:
        """The call needs input: questions of its own, or of its session, that it can be asked."""
        call.asked = None
        call.handle = found.get("requestState")
        if asked.answer is not None and asked.answer.is_modern:
            TALLY["wishes of modern servers passed on"] += 1
            assert value == asked.answer.result
            for question in call.wants.values():
                self.may_reach(question, client)
                assert call.can_be_asked(question.need)
            return
        assert not {"ttlMs", "cacheScope"} & set(found)
        assert call.handle is not None and call.place is not None
        wishes = members(found["inputRequests"])
        assert wishes
        call.wants = {}
        for key, raw in wishes.items():
            wish = members(raw)
            assert not {"id", "jsonrpc"} & set(wish)
            question = self.questions[json.loads(wish["params"])["number"]]
            assert json.loads(wish["method"]) == question.method
            assert rest(wish["params"]) == rest(question.params, top=["elicitationId"], meta=_META)
            self.may_reach(question, client)
            assert call.can_be_asked(question.need), "a wish that the request did not allow for"
            call.wants[key] = question
        call.is_parked = True
        TALLY["calls parked"] += 1
        self.handles.append((call, call.handle))

    def hear_error(self, client: Client, asked: Asked, value: bytes) -> None:
        said = json.loads(value)
        code = said["code"]
        if asked.code is not None:
            TALLY["wrong retries refused"] += 1
            assert code == asked.code, f"{asked.method} was to be refused with {asked.code}"
            return
        if asked.method == "mcpd/attach":
            client.server = None  # what it says is for the aggregate
        call = asked.call
        answer = asked.answer or (call.kept if call is not None else None)
        if call is not None:
            assert call.asked is asked
            is_held = call.is_parked and self.is_current(call)
            for question in call.wants.values():
                if question.ident != b"answered":
                    question.result = None  # what was refused has brought no answer
            self.end(call)
            is_told = answer is not None and answer.error is not None
            if is_told and not (asked.is_modern and code == -32021 and not answer.is_modern):
                assert said == self.as_told(json.loads(answer.error), answer, asked)
                if asked.is_modern is answer.is_modern or said == json.loads(answer.error):
                    assert value == answer.error
                return
            assert not (is_held and code == -32602), "a parked call was not found again"
        if code == -32021:
            assert asked.is_modern and call is not None
            assert not any(
                call.can_be_asked(name + ("." + member if member else ""))
                for name, inner in said["data"]["requiredCapabilities"].items()
                for member in (inner or {"": None})
            ), "capabilities that were declared are said to be missing"
            return
        data = said.get("data")
        kind = data.get("kind") if isinstance(data, dict) else None
        assert kind in KINDS if kind is not None else code in PLAIN, said
        assert not asked.is_modern or code != -32002

    def as_told(self, said: dict[str, Any], answer: Answer, asked: Asked) -> dict[str, Any]:
        """Return a process's error as a client of the other era is told it."""
        code = said["code"]
        if asked.is_modern and not answer.is_modern:
            if code == -32002:
                return {**said, "code": -32602}
            if -32099 <= code <= -32020:
                return self.as_internal(said)
        if not asked.is_modern and answer.is_modern:
            if code == -32021:
                return {**said, "code": -32603}
            if code in (-32020, -32022):
                return self.as_internal(said)
        return said

    def as_internal(self, said: dict[str, Any]) -> Any:
        """Return what equals any error of ours that has the original in its data."""

        class Wrapped:
            def __eq__(self, other: object) -> bool:
                assert isinstance(other, dict)
                return other["code"] == -32603 and json.dumps(said)[1:-1] in json.dumps(other)

            __hash__ = None  # type: ignore[assignment]

        return Wrapped()

    def end(self, call: Call) -> None:
        call.asked = None
        call.is_over = True
        call.is_parked = False

    # -- questions --------------------------------------------------------------------------------

    def hear_question(self, client: Client, message: envelope.Message) -> None:
        """A real request of a server's, or an input request as one: never guessed."""
        key = bytes(message.id)  # type: ignore[arg-type]
        assert key not in client.questions and key not in client.withdrawn, "an id was used twice"
        assert client.is_initialized
        params = bytes(message.params)  # type: ignore[arg-type]
        question = self.questions[json.loads(params)["number"]]
        assert message.method == question.method
        assert question.asked is None, "asked twice"
        self.may_reach(question, client)
        assert can(client.capabilities, question.need), "asked what it has not declared"
        if question.key and question.need == "elicitation.url":
            assert "elicitationId" in members(params)
        skipped = ["elicitationId"] if question.key else []
        meta = ["progressToken"] if question.token is not None else []
        assert rest(params, top=skipped, meta=meta) == rest(question.params, meta=meta)
        if question.token is not None:
            assert "progressToken" in members(members(params)["_meta"])
        TALLY[
            "input requests put to legacy clients" if question.key else "questions delivered"
        ] += 1
        client.questions[key] = question

    def may_reach(self, question: Question, client: Client) -> None:
        assert question.is_open, "an answered question was asked"
        assert question.asked in (None, client.session)
        if question.is_strict:
            assert question.call is not None
            owner = question.call.session
            assert owner == client.session, f"a question of session {owner} at {client.session}"
        elif self.is_for_its_roots(question):
            assert self.is_served_by(client, question.slot)
        else:
            assert any(
                call.is_asking and call.place is not None and call.place[0] == question.slot
                for call in client.calls
            ), "a question for somebody who has nothing in flight there"
        question.asked = client.session
        if question.key:
            assert question.call is not None and not question.call.is_over
            return
        process = self.processes[question.slot]
        assert question.ident in process.questions, "a question that is no more was asked"
        assert question.may_be_put, "a question of a server that is to ask nobody"

    # -- notifications ----------------------------------------------------------------------------

    def hear_notification(self, client: Client, method: str, raw: Any) -> None:
        params = b"{}" if raw is UNSET else bytes(raw)
        found = members(params)
        if method == "mcpd/progress":
            asked = client.owed[envelope.id_key(found["id"])]
            assert asked.ident == found["id"] and asked.call is not None
            assert json.loads(found["message"]) == asked.call.nonce
            return
        subscription = members(found.get("_meta")).get(SUBSCRIPTION)
        if subscription is not None:
            self.hear_by_listen(client, method, params, subscription)
            return
        TALLY[f"{method} heard"] += 1
        match method:
            case "notifications/progress":
                nonce = json.loads(found["message"])
                assert any(
                    a.token == found["progressToken"]
                    and a.call is not None
                    and a.call.nonce == nonce
                    for a in client.owed.values()
                ), "progress for nothing that is in flight here"
            case "notifications/message":
                self.hear_log(client, found)
            case "notifications/cancelled":
                key = found["requestId"]
                assert key in client.questions or key in client.withdrawn
                if key in client.questions:
                    client.withdrawn[key] = client.questions.pop(key)
            case "notifications/resources/updated":
                assert client.is_initialized
                self.hear_update(client, found)
                uri = json.loads(found["uri"])
                assert any(uri == own or uri.startswith(own + "/") for own in client.wants)
            case _:
                assert client.is_initialized and method.endswith("list_changed"), method

    def hear_log(self, client: Client, found: dict[str, bytes]) -> None:
        said = self.said[json.loads(found["data"])["number"]]
        assert said.owner in (None, client.session), "a log message of somebody else's call"
        assert self.is_served_by(client, said.slot)
        assert json.loads(found["level"]) == said.level
        process = self.processes[said.slot]
        if process.lock == "legacy" or not client.is_initialized:
            assert client.hears_level(said.level, process.server), "below its level"

    def hear_update(self, client: Client, found: dict[str, bytes]) -> None:
        said = self.said[json.loads(found["number"])]
        assert json.loads(found["uri"]) == said.uri
        assert self.is_served_by(client, said.slot)

    def hear_by_listen(
        self, client: Client, method: str, params: bytes, subscription: bytes
    ) -> None:
        """A notification of a listen: of an open one, in its own words, and asked for."""
        listening = client.listens.get(envelope.id_key(subscription))
        assert listening is not None, f"{method} for a listen that is over, or was never"
        assert listening.ident == subscription
        found = members(params)
        if method == "notifications/subscriptions/acknowledged":
            assert listening.granted is None, "acknowledged twice"
            TALLY["listens acknowledged"] += 1
            listening.granted = json.loads(found["notifications"])
            for name, value in listening.granted.items():
                wanted = listening.wants.get(name)
                if isinstance(value, list):
                    assert set(value) <= set(wanted or [])
                else:
                    assert value is not True or wanted is True
            return
        assert listening.granted is not None, f"{method} before the acknowledgement"
        TALLY["notices of listens"] += 1
        uri = json.loads(found["uri"]) if "uri" in found else None
        assert listening.hears(method, uri), f"{method} {uri} was not asked for"
        if method == "notifications/resources/updated":
            self.hear_update(client, found)

    def hear_end_of_listen(self, client: Client, key: bytes, message: envelope.Message) -> None:
        listening = client.listens.pop(key)
        assert bytes(message.id) == listening.ident  # type: ignore[arg-type]
        if message.error is not UNSET:
            assert listening.granted is None, "a listen that stands ended with an error"
            return
        assert listening.may_end or self.is_draining, "a listen ended that was to go on"
        found = members(bytes(message.result))  # type: ignore[arg-type]
        assert members(found["_meta"])[SUBSCRIPTION] == listening.ident

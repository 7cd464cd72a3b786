"""What clients and processes can do: the words of the machine's rules."""

from __future__ import annotations

import json
from typing import Any, Final

from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Interactive
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Oversized
from mcpd.ids import SessionId, SlotId
from tests.property.model import wire
from tests.property.model.ground import Said
from tests.property.model.peers import (
    Answer,
    Asked,
    Batch,
    Call,
    Client,
    Listening,
    Process,
    Question,
    Work,
    asked_for,
    listed,
    server_capabilities,
)
from tests.property.model.wire import (
    Json,
    as_modern,
    dumps,
    error,
    members,
    notification,
    request,
    result,
    without_tasks,
)
from tests.property.model.world import World
from tests.support.transcript import USER

REPEATABLE: Final = {"prompts/get", "resources/read", "completion/complete", "tasks/get"}
ERRORS: Final = [-32002, 5, -32000, -32021, -32022, -32050, -32603]
VENDOR: Final = b'{"vendor/x":1.50}'


class Acting(World):
    """The deeds, each followed by all that comes of it."""

    # -- clients ----------------------------------------------------------------------------------

    def come(self, server: str | None, kind: str, capabilities: Json, version: str) -> Client:
        session = next(self.numbers)
        client = Client(session, server, kind, capabilities, version)
        self.clients[session] = client
        self.handle(ev.SessionOpened(SessionId(session), USER))
        if kind == "control" or (kind == "modern" and server is None):
            return client
        client.owed[b'"attach"'] = Asked(b'"attach"', "mcpd/attach")
        self.send(session, b'{"jsonrpc":"2.0","id":"attach","method":"mcpd/attach"}')
        self.handle(
            ev.Attach(SessionId(session), b'"attach"', server, None, None, (), may_control=False)
        )
        if client.is_legacy:
            client.declared = without_tasks(as_modern(capabilities))
            self.declared.append(as_modern(capabilities))
            params = {
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": client.info,
            }
            self.ask(client, b'"init"', "initialize", dumps(params))
        return client

    def ask(
        self,
        client: Client,
        ident: bytes,
        method: str,
        params: bytes,
        *,
        call: Call | None = None,
        asker: tuple[Json, str | None] | None = None,
        token: bytes | None = None,
        vendor: bytes = b"{}",
        code: int | None = None,
        batch: Batch | None = None,
        listening: Listening | None = None,
    ) -> bytes:
        """Send a request; where its id is taken it is to be refused, and the first unharmed.

        ``asker`` are the capabilities and the level of a modern one. What is part of a batch is
        returned instead.
        """
        meta = members(vendor)
        if asker is not None:
            meta[wire.VERSION] = dumps(wire.REVISION)
            meta[wire.CAPABILITIES] = dumps(asker[0])
            meta[wire.CLIENT] = dumps(client.info)
            if asker[1] is not None:
                meta[wire.LEVEL] = dumps(asker[1])
        if token is not None:
            meta["progressToken"] = token
        if meta:
            found = members(params)
            found["_meta"] = wire.written(meta)
            params = wire.written(found)
        line = request(ident, method, params)
        key = envelope.id_key(ident)
        if key in client.owed or key in client.listens:
            self.refusal = ident
            self.send(client.session, line)
            self.is_broken = self.refusal is not None
            assert not self.is_broken, "a second request with an id in flight was not refused"
            return b""
        asked = Asked(ident, method, call, token, code=code, batch=batch)
        if asker is not None:
            asked.is_modern, asked.level = True, asker[1]
            client.declared = without_tasks(asker[0])
            self.declared.append(asker[0])
        if call is not None:
            if not call.is_modern:
                call.level = client.level
            call.asked = asked
            call.sent = params
            call.was_off = self.may_ask_nothing(call.server)
            if call not in client.calls:
                client.calls.append(call)
        if listening is not None:
            client.listens[key] = listening
        else:
            client.owed[key] = asked
        if batch is not None:
            batch.keys.add(key)
            return line
        self.send(client.session, line)
        return line

    def make_call(
        self,
        client: Client,
        method: str,
        *,
        server: str,
        tool: str = "once",
        asker: tuple[Json, str | None] | None = None,
        vendor: bytes = b"{}",
    ) -> Call:
        """Make up a call, with a nonce in it."""
        nonce = f"N{next(self.numbers)}"
        prefix = "" if client.server is not None or client.kind == "control" else f"{server}__"
        arguments = b'{"nonce":"%b", %b}' % (nonce.encode(), wire.ODD)
        match method:
            case "tools/call":
                params = b'{"name":"%b", "arguments":%b}' % ((prefix + tool).encode(), arguments)
            case "prompts/get":
                params = b'{"name":"%bwrite","arguments":%b}' % (prefix.encode(), arguments)
            case "resources/read":
                params = dumps({"uri": f"nonce://{server}/{nonce}"})
            case "tasks/get":
                params = dumps({"taskId": nonce})
            case _:
                ref = {"type": "ref/prompt", "name": prefix + "write"}
                params = dumps({"ref": ref, "argument": {"name": "a", "value": nonce}})
        call = Call(
            nonce,
            client.session,
            server,
            method,
            params,
            capabilities=client.capabilities if asker is None else asker[0],
            level=None if asker is None else asker[1],
            is_modern=asker is not None,
            may_repeat=method in REPEATABLE or (method == "tools/call" and tool == "safe"),
            info=client.info,
            meta=vendor,
        )
        self.calls[nonce] = call
        return call

    def script(
        self, client: Client, ident: bytes, server: str, tool: str, timeout: float | None
    ) -> None:
        """Make a control call, whose answer comes in two steps: it is the daemon's first."""
        call = self.make_call(client, "tools/call", server=server, tool=tool)
        arguments = {"nonce": call.nonce}
        call.params = dumps({"name": tool, "arguments": arguments})
        params = {"server": server, "tool": tool, "progress": True, "timeout": timeout}
        if envelope.id_key(ident) not in client.owed:
            self.ask(
                client, ident, "mcpd/call", dumps({**params, "arguments": arguments}), call=call
            )
            call.sent = call.params
            call.was_off = self.may_ask_nothing(call.server)

    def give_up(self, client: Client, ident: bytes) -> None:
        """Cancel a request, a listen, or nothing at all."""
        key = envelope.id_key(ident)
        client.listens.pop(key, None)
        asked = client.owed.get(key)
        if asked is not None and asked.method == "initialize":
            return
        if asked is not None:
            if asked.method == "logging/setLevel":
                client.perhaps_level = client.tried_level
            if asked.batch is not None:
                asked.batch.keys.discard(key)
                asked.is_optional = True  # it may have been answered, and wait for the others
            else:
                del client.owed[key]
            if asked.call is not None:
                self.end(asked.call)
        self.send(
            client.session, notification("notifications/cancelled", b'{"requestId":%b}' % ident)
        )

    def go(self, client: Client) -> None:
        del self.clients[client.session]
        for call in client.calls:
            self.end(call)
        self.handle(ev.SessionClosed(SessionId(client.session), "gone"))

    def reply(self, client: Client, key: bytes, *, is_error: bool = False) -> None:
        """A client answers a question; an error has no form in a modern server's eyes."""
        question = client.questions.pop(key)
        client.withdrawn[key] = question
        if not is_error:
            question.result = reply_to(question, client)
            self.send(client.session, result(key, question.result))
            return
        question.error = b'{"code":-1,"message":"no","data":{"number":%d}}' % question.number
        if question.key and question.method != "elicitation/create":
            assert question.call is not None and question.call.asked is not None
            question.call.asked.answer = Answer(is_modern=False, error=question.error)
        self.send(client.session, error(key, question.error))

    def lie(self, client: Client, key: bytes, question: Question) -> None:
        """Somebody answers what somebody else was asked, or what nobody wants to know any more."""
        if client.questions.get(key) is None:
            self.send(client.session, result(key, reply_to(question, client)))

    def tell_progress(self, client: Client, key: bytes) -> None:
        params = b'{"progressToken":%b,"progress":1,"message":%d}'
        number = client.questions[key].number
        self.send(client.session, notification("notifications/progress", params % (key, number)))

    def come_back(
        self,
        call: Call,
        ident: bytes,
        asker: tuple[Json, str | None],
        *,
        token: bytes | None = None,
        but: int | None = None,
        is_respelled: bool = False,
    ) -> None:
        """A modern client makes its call again, with its answers, ``but`` for one of them."""
        client = self.clients[call.session]
        responses: dict[str, bytes] = {}
        for number, (key, question) in enumerate(call.wants.items()):
            if number != but and question.asked == client.session:
                responses[key] = reply_to(question, client)
                if question.is_open:
                    question.result = responses[key]
                    question.may_be_late = client.server is None and not self.is_current(call)
        params = members(call.params)
        if is_respelled:
            params = dict(reversed(params.items()))
        params["inputResponses"] = wire.written(responses)
        if call.handle is not None:
            params["requestState"] = call.handle
        call.capabilities, call.level = asker
        call.seen[0] = (
            1  # this is a request of its own: after a crash it may be made from the start
        )
        body = wire.written(params)
        self.ask(
            client, ident, call.method, body, call=call, asker=asker, token=token, vendor=call.meta
        )

    def come_back_wrong(
        self, client: Client, call: Call, ident: bytes, method: str, params: bytes
    ) -> None:
        """Somebody makes a parked call again who may not, or not like this."""
        asker = (call.capabilities, call.level)
        self.ask(client, ident, method, params, asker=asker, code=-32602)

    # -- processes --------------------------------------------------------------------------------

    def answer_own(self, slot: SlotId, number: int) -> None:
        """Answer something that the mux asks on its own account."""
        process = self.processes[slot]
        if number in process.unheard:
            process.listens[number] = wants = process.unheard.pop(number)
            params = {"notifications": wants, "_meta": {wire.SUBSCRIPTION: number}}
            method = "notifications/subscriptions/acknowledged"
            self.from_server(slot, notification(method, dumps(params)))
            return
        work = process.open.pop(number)
        process.over.add(number)
        process.read_all_before(number)
        ident = b"%d" % number
        is_modern = process.lock == "modern"
        stamps = {"resultType": "complete", "ttlMs": 7000, "cacheScope": "public"}
        info = {"name": process.server, "version": "1"}
        match work.method:
            case "server/discover" if not is_modern:
                self.from_server(slot, error(ident, b'{"code":-32601,"message":"what?"}'))
                return
            case "server/discover":
                process.is_introduced = True
                said: Json = {
                    "supportedVersions": [wire.REVISION],
                    "capabilities": server_capabilities(is_modern=True),
                    "_meta": {wire.SERVER: info},
                    **stamps,
                }
            case "initialize" if process.nature == "modern":
                data = {"supported": [wire.REVISION], "requested": "2025-11-25"}
                value = {"code": -32022, "message": "modern only", "data": data}
                self.from_server(slot, error(ident, dumps(value)))
                return
            case "initialize":
                said = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": server_capabilities(is_modern=False),
                    "serverInfo": info,
                }
            case "ping":
                said = {}
            case "logging/setLevel":
                process.level = json.loads(work.params)["level"]
                process.is_level_refused = False
                said = {}
            case _:
                said = listed(work.method, process.server, number)
                if is_modern:
                    said = {**said, **stamps}
        self.from_server(slot, result(ident, dumps(said)))

    def answer(self, slot: SlotId, number: int, how: str = "result", code: int = 5) -> None:
        """Answer a request, well or badly."""
        process = self.processes[slot]
        work = process.open.get(number)
        if work is None or work.call is None:
            self.answer_own(slot, number)
            return
        del process.open[number]
        process.over.add(number)
        process.read_all_before(number)
        call = work.call
        call.place = None
        for question in process.questions.values():
            if question.call is call:
                question.is_strict = False  # it gave up waiting, and its question goes on
        is_modern = process.lock == "modern"
        answer = Answer(is_modern)
        ident = b"%d" % number
        body = b'{"content": [],"nonce":"%b",%b}' % (call.nonce.encode(), wire.ODD)
        if is_modern:
            kind = how if how in ("task", "odd") else "complete"
            tail = b',"ttlMs":5,"cacheScope":"public"}' if work.method == "resources/read" else b"}"
            body = b'{"resultType":"%b",' % kind.encode() + body[1:-1] + tail
        match how:
            case "error":
                answer.error = b'{"code":%d,"message":"no","data":{"nonce":"%b"}, %b}' % (
                    code,
                    call.nonce.encode(),
                    wire.ODD,
                )
                line: Any = error(ident, answer.error)
            case "both":
                line = b'{"jsonrpc":"2.0","id":%b,"result":{},"error":{}}' % ident
            case "large":
                line = Oversized(b'{"jsonrpc":"2.0","id":%b,"result":{' % ident, b"}}", 10**9)
            case "bad":
                line = result(ident, b'{"\xff":1}')
            case "odd" if is_modern and call.is_modern:
                answer.result = body
                line = result(ident, body)
            case "odd" if is_modern:
                line = result(ident, body)
            case "task" if is_modern and not call.is_modern:
                line = result(ident, body)
            case _:
                answer.result = body
                line = result(ident, body)
        self.say_answer(slot, call, answer, line)

    def say_answer(self, slot: SlotId, call: Call, answer: Answer, line: Any) -> None:
        asked = call.asked
        if asked is None:
            call.kept = answer
            call.is_parked = False
        else:
            asked.answer = answer
        self.handle(ev.FrameFromServer(slot, line))
        if asked is not None and asked.batch is None:
            asked.answer = None

    def wish(self, slot: SlotId, number: int, kinds: list[str], *, has_state: bool) -> None:
        """A modern server answers with what it wants to know first."""
        process = self.processes[slot]
        work = process.open.pop(number)
        process.over.add(number)
        call = work.call
        assert call is not None
        call.place = None
        call.round += 1
        call.is_between = True
        call.wants = {}
        wishes: dict[str, bytes] = {}
        for kind in kinds:
            n = next(self.numbers)
            method, need, params = asked_for(kind, call.nonce, n)
            key = f"k{n}"
            call.wants[key] = self.questions[n] = Question(
                n, method, need, params, call, slot, self.now, is_strict=True, key=key
            )
            wishes[key] = wire.written({"method": dumps(method), "params": params})
        body = {"resultType": dumps("input_required")}
        if wishes:
            body["inputRequests"] = wire.written(wishes)
        call.state = None
        if has_state or not kinds:
            call.state = body["requestState"] = b'"state \\u00e9 %d"' % next(self.numbers)
        value = wire.written(body)
        self.say_answer(
            slot, call, Answer(is_modern=True, result=value), result(b"%d" % number, value)
        )

    def enquire(self, slot: SlotId, work: Work | None, kind: str, *, token: bytes | None) -> None:
        """A legacy server asks, in the middle of a call or out of the blue."""
        process = self.processes[slot]
        call = work.call if work is not None else None
        number = next(self.numbers)
        ident = b"%d" % number if number % 2 else b'"s%d"' % number
        method, need, params = asked_for(kind, call.nonce if call is not None else "", number)
        if kind == "url":
            params = params[:-1] + b',"elicitationId":"e"}'
        if token is not None:
            params = params[:-1] + b',"_meta":{"progressToken":%b}}' % token
        is_strict = call is not None and call.is_asking and call.can_be_asked(need)
        question = Question(
            number, method, need, params, call, slot, self.now, is_strict, ident, token=token
        )
        entry = self.entry_of(process.server)
        question.may_be_put = entry is None or entry.interactive is not Interactive.OFF
        possible = [*process.open.values(), *(unread for _, unread in process.unread)]
        question.rivals = [
            other.call
            for other in possible
            if other.call is not None and other.call.is_asking and other.call.can_be_asked(need)
        ]
        self.questions[number] = process.questions[ident] = question
        self.from_server(slot, request(ident, method, params))

    def no_more(self, slot: SlotId, question: Question) -> None:
        """A legacy server does not want to know any more."""
        del self.processes[slot].questions[question.ident]
        params = b'{"requestId":%b}' % question.ident
        self.from_server(slot, notification("notifications/cancelled", params))

    def say_nonsense(self, slot: SlotId, line: bytes) -> None:
        """A process says what means nothing; a request that nobody knows is refused."""
        if b'"method"' in line and b'"id"' in line:
            number = next(self.numbers)
            self.processes[slot].nonsense.add(b'"x%d"' % number)
            line %= number
        self.from_server(slot, line)

    def report_progress(self, slot: SlotId, number: int) -> None:
        work = self.processes[slot].open.get(number)
        nonce = work.call.nonce if work is not None and work.call is not None else "nobody's"
        params = b'{"progressToken":%d,"progress":1e400,"message":"%b"}' % (number, nonce.encode())
        self.from_server(slot, notification("notifications/progress", params))

    def log(self, slot: SlotId, work: Work | None, level: str) -> None:
        number = next(self.numbers)
        owner = work.call.session if work is not None and work.call is not None else None
        self.said[number] = Said(slot, level=level, owner=owner)
        params = b'{"level":"%b","data":{"number":%d}}' % (level.encode(), number)
        self.from_server(slot, notification("notifications/message", params))

    def tell_change(self, slot: SlotId, what: str) -> None:
        """A list is another one: a modern server says so to the listens for it."""
        method = f"notifications/{what}/list_changed"
        process = self.processes[slot]
        if process.lock == "legacy":
            self.from_server(slot, notification(method))
            return
        for number, wants in [*process.listens.items()]:
            if wants.get(f"{what}ListChanged"):
                meta = dumps({"_meta": {wire.SUBSCRIPTION: number}})
                self.from_server(slot, notification(method, meta))

    def tell_update(self, slot: SlotId, uri: str) -> None:
        """Likewise for a resource."""
        process = self.processes[slot]
        method = "notifications/resources/updated"
        number = next(self.numbers)
        self.said[number] = Said(slot, uri)
        said: Json = {"uri": uri, "number": number}
        if process.lock == "legacy":
            self.from_server(slot, notification(method, dumps(said)))
            return
        for wire_id, wants in [*process.listens.items()]:
            if any(uri.startswith(own) for own in wants.get("resourceSubscriptions", [])):
                params = {**said, "_meta": {wire.SUBSCRIPTION: wire_id}}
                self.from_server(slot, notification(method, dumps(params)))

    def end_listen(self, slot: SlotId, number: int, *, gracefully: bool) -> None:
        """A modern server ends a listen of ours, though it should not."""
        process = self.processes[slot]
        process.listens.pop(number)
        process.over.add(number)
        if gracefully:
            value = {"resultType": "complete", "_meta": {wire.SUBSCRIPTION: number}}
            self.from_server(slot, result(b"%d" % number, dumps(value)))
        else:
            params = dumps({"requestId": number})
            self.from_server(slot, notification("notifications/cancelled", params))

    # -- what can be done now ---------------------------------------------------------------------

    def works(self, *, is_waiting: bool = False) -> list[tuple[SlotId, int]]:
        """Return the requests that processes can answer."""
        found = []
        for slot in self.running():
            process = self.processes[slot]
            numbers = [*process.open] if is_waiting else process.answerable()
            found += [(slot, n) for n in numbers if not process.is_mute]
            found += [(slot, n) for n in process.unheard]
        return found

    def asking_works(self) -> list[tuple[SlotId, Work]]:
        """Return the calls in the middle of which a legacy server may ask.

        One that was cancelled is among them, until its server has read that.
        """
        may = ("tools/call", "prompts/get", "resources/read")
        return [
            (slot, work)
            for slot in self.running()
            if self.processes[slot].lock == "legacy"
            for work in [
                *self.processes[slot].open.values(),
                *(work for _, work in self.processes[slot].unread),
            ]
            if work.call is not None and work.method in may
        ]

    def waiting_calls(self) -> list[Call]:
        """Return the calls that their modern clients are to make again."""
        return [
            call
            for client in self.clients.values()
            for call in client.calls
            if call.is_modern and call.wants_more
        ]

    def is_at_a_legacy_process(self, call: Call) -> bool:
        """Tell whether its server runs, and is one that speaks the older era."""
        entry = self.entries.get(call.server)
        slot = SlotId(entry.launch) if entry is not None else None
        process = self.processes.get(slot) if slot is not None else None
        return process is not None and process.lock == "legacy" and self.is_up(process)

    def is_up(self, process: Process) -> bool:
        return process.is_introduced and not process.own_open()


def reply_to(question: Question, client: Client) -> bytes:
    """Return what a client says to a question: it carries who says it, and to what."""
    said = b'"by":%d,"to":%d, %b' % (client.session, question.number, wire.ODD)
    match question.method:
        case "elicitation/create":
            return b'{"action":"accept","content":{%b}}' % said
        case "roots/list":
            return b'{"roots":[{"uri":"file:///r"}],%b}' % said
    return b'{"role":"assistant","model":"m","content":{"type":"text","text":""},%b}' % said

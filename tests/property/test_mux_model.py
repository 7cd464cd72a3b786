"""The mux against a simple model: many sessions, a few servers, and everything that goes wrong.

Here are the legacy revisions alone, and no turns; both eras are in ``test_era_model``.

The model knows who asked what and which process saw it. Every message that the mux sends is held
against it the moment it is sent:

- an answer has the id and the payload, byte for byte, of a request that its own session is owed;
- a process never sees a wire id twice, and never a request that must not be repeated twice;
- progress comes for live requests only, under the requester's own token;
- a question reaches a session with a call in flight there, and its answer comes from nobody else.

At the end every request has been answered once, unless it was cancelled or its session is gone,
and all tables are empty. ``MCPD_MODEL_STEPS`` and ``MCPD_MODEL_EXAMPLES`` make it look longer.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mcpd.core.facts import Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Interactive, Settings, Sharing
from mcpd.core.mux.mux import Mux
from mcpd.core.wire import envelope
from mcpd.ids import SessionId, SlotId
from tests.property.model import memory
from tests.support.transcript import USER

STEPS = int(os.environ.get("MCPD_MODEL_STEPS", "50"))
EXAMPLES = int(os.environ.get("MCPD_MODEL_EXAMPLES", "200"))

ALPHA = Entry(name="alpha", launch="alpha-1", max_concurrency=2, queue_timeout=20.0)
BETA = Entry(name="beta", launch="beta-1", call_timeout=15.0, call_timeout_max=40.0)
GAMMA = Entry(name="gamma", launch="gamma-1", sharing=Sharing.SESSION, validates=True)
ENTRIES = {
    entry.name: msgspec.structs.replace(entry, interactive=Interactive.SHARED)  # nobody takes turns
    for entry in (ALPHA, BETA, GAMMA)
}

IDS = [b"0", b"1", b"-1", b"9007199254740993", b'"1"', b'""', b'"a"', b'"\\u00e9\\ud800"']
TOKENS = [None, b"0", b"1", b"3", b"1.5", b'"1"', b'"\\ud83d"', b"-0"]
LEVELS = ["debug", "info", "warning", "error"]
URIS = ["file:///a", "file:///b"]
TOOLS = {"safe": True, "once": False}
CAPABILITIES = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
}


SAYINGS = [
    b"{}",
    b"[]",
    b"npm notice",
    b'{"id":0,"result":{}}',
    b'{"id":null,"error":{"code":1,"message":""}}',
    b'{"method":"notifications/unheard-of"}',
    b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
    b'{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}',
]


class Asked:
    """A request of a session that it is owed an answer to."""

    def __init__(self, ident: bytes, method: str, nonce: str, token: bytes | None) -> None:
        self.ident = ident
        self.method = method
        self.nonce = nonce
        self.token = token
        self.answer: bytes | None = None  # what a process has just answered
        self.may_repeat = True
        self.seen = 0  # by how many processes


class Process:
    """What runs in a slot: the requests that it has seen and not answered."""

    def __init__(self) -> None:
        self.last_id = 0
        self.open: dict[int, dict[str, Any]] = {}
        self.over: set[int] = set()
        self.questions: dict[int, int | None] = {}  # ours to clients: id to the session asked


class Client:
    """One connection."""

    def __init__(self, server: str | None, *, is_control: bool) -> None:
        self.server = server
        self.is_control = is_control
        self.owed: dict[bytes, Asked] = {}
        self.is_initialized = False
        self.can_sample = False
        self.questions: dict[bytes, tuple[SlotId, int]] = {}
        self.wants: set[str] = set()


class World(RuleBasedStateMachine):
    """Sessions, processes, and what each has a right to."""

    def __init__(self) -> None:
        super().__init__()
        self.mux = Mux(Settings(version="1", list_wait=5.0), suggest=lambda name, known: [])
        self.now = 1000.0
        self.clients: dict[int, Client] = {}
        self.processes: dict[SlotId, Process] = {}
        self.places: dict[SlotId, str] = {}
        self.wanted: set[SlotId] = set()
        self.clogged: set[SlotId] = set()
        self.asked: dict[str, tuple[int, Asked]] = {}
        self.tickets: list[int] = []
        self.numbers = itertools.count(1)
        self.events: deque[ev.Event] = deque()
        self.is_ending = False
        self.refusal: bytes | None = None  # the id that is to be refused just now, and only refused
        self.versions = dict(ENTRIES)

    # -- the world around the mux ------------------------------------------------------------------

    def handle(self, event: ev.Event) -> None:
        """Have the mux react; what its commands bring about waits for its turn, as in the daemon."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        while self.events:
            for command in self.mux.handle(self.events[0], self.now):
                self.perform(command)
            self.events.popleft()
            memory.check(self.mux)
        for name, entry in self.versions.items():
            if not entry.max_concurrency:
                assert self.mux.report(name).queued == 0, "waits for a place, and has no need to"

    def perform(self, command: cmd.Command) -> None:
        match command:
            case cmd.ToSession():
                self.to_session(command.session, command.data)
            case cmd.ToServer():
                self.to_server(command.slot, command.data, command.wire_id)
            case cmd.OpenSlot():
                self.places[command.slot] = command.server
            case cmd.CloseSlot():
                del self.places[command.slot]
                self.processes.pop(command.slot, None)
                self.wanted.discard(command.slot)
                self.handle(ev.ServerDown(command.slot, failure("server_stopped"), True, False))
            case cmd.Want():
                if self.is_ending:
                    down = ev.ServerDown(command.slot, failure("crash_loop"), False, False)
                    self.handle(down)
                else:
                    self.wanted.add(command.slot)
            case cmd.Validate():
                self.tickets.append(command.ticket)
            case cmd.Control():
                self.control(command)
            case _:
                pass

    def control(self, command: cmd.Control) -> None:
        params = json.loads(command.params or b"{}")
        if command.method == "mcpd/call":
            arguments = json.dumps(params["arguments"]).encode()
            self.handle(
                ev.CallTool(
                    command.session,
                    command.key,
                    params["server"],
                    params["tool"],
                    arguments,
                    params.get("timeout"),
                    params["progress"],
                )
            )

    def to_session(self, session: int, data: bytes) -> None:
        assert session in self.clients, "a message for a session that is gone"
        client = self.clients[session]
        assert data.endswith(b"\n") and data.count(b"\n") == 1
        message = envelope.decode(data[:-1])
        if message.method is not msgspec.UNSET:
            if message.id is msgspec.UNSET:
                self.notified(client, str(message.method), message.params)
            else:
                self.questioned(session, client, message)
            return
        ident = bytes(message.id)
        if ident == self.refusal:
            assert error_of(message)["code"] == -32600
            self.refusal = None
            return
        key = envelope.id_key(ident)
        assert key in client.owed, f"an answer to {ident!r}, which is owed none"
        asked = client.owed.pop(key)
        assert ident == asked.ident
        if message.error is msgspec.UNSET:
            if asked.method in ("tools/call", "resources/read", "prompts/get", "mcpd/call"):
                assert asked.answer is not None and bytes(message.result) == asked.answer
                expected = b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (ident, asked.answer)
                assert data == expected
            if asked.method == "initialize":
                client.is_initialized = True
                self.send(session, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        elif asked.answer is not None:
            assert bytes(message.error) == asked.answer
        elif error_of(message)["code"] != -32002:  # what no server of the aggregate has
            kind = error_of(message)["data"]["kind"]
            assert kind in KINDS, kind

    def notified(self, client: Client, method: str, raw: Any) -> None:
        params = b"{}" if raw is msgspec.UNSET else bytes(raw)
        members = envelope.object_of(params)
        assert members is not None
        if method == "mcpd/progress":
            ident = bytes(members["id"])
            asked = client.owed[envelope.id_key(ident)]
            assert asked.ident == ident and members["message"] == json_string(asked.nonce)
            return
        assert client.is_initialized
        if method == "notifications/progress":
            token, nonce = bytes(members["progressToken"]), members["message"]
            assert any(
                a.token == token and json_string(a.nonce) == nonce for a in client.owed.values()
            ), "progress for nothing that is in flight here"
        elif method == "notifications/resources/updated":
            assert envelope.text(members["uri"]) in client.wants
        elif method == "notifications/cancelled":
            client.questions.pop(bytes(members["requestId"]), None)
        else:
            assert method == "notifications/message" or method.endswith("list_changed")

    def questioned(self, session: int, client: Client, message: envelope.Message) -> None:
        assert client.can_sample
        slot_name, number = json.loads(bytes(message.params))["from"]
        slot = SlotId(slot_name)
        process = self.processes[slot]
        nonces = {nonce_of(m) for m in process.open.values()} - {None}
        assert session in {self.asked[str(nonce)][0] for nonce in nonces}
        process.questions[number] = session
        client.questions[bytes(message.id)] = (slot, number)

    def to_server(self, slot: SlotId, data: bytes, wire_id: int) -> None:
        assert slot in self.processes, "written to no process"
        process = self.processes[slot]
        assert data.endswith(b"\n") and data.count(b"\n") == 1
        message = json.loads(data)
        method = message.get("method")
        if method is None:
            asked_session = process.questions.pop(message["id"])
            if "result" in message:
                assert message["result"] == {"by": asked_session}
            return
        if "id" not in message:
            if method == "notifications/cancelled":
                number = message["params"]["requestId"]
                assert process.open.pop(number)["method"] != "initialize"
                process.over.add(number)
            return
        assert message["id"] == wire_id > process.last_id, "a wire id was used twice"
        process.last_id = wire_id
        if slot in self.clogged:
            process.over.add(wire_id)
            self.handle(ev.WriteRefused(slot, wire_id))
            return
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        assert token is None or token == wire_id
        process.open[wire_id] = message
        nonce = nonce_of(message)
        if nonce is not None:
            asked = self.asked[nonce][1]
            asked.seen += 1
            assert asked.seen == 1 or (asked.seen == 2 and asked.may_repeat), "repeated"
            if method == "tools/call":
                assert message["params"]["name"] in TOOLS

    def send(self, session: int, line: bytes) -> None:
        self.handle(ev.FrameFromSession(SessionId(session), line))

    def from_server(self, slot: SlotId, line: bytes) -> None:
        self.handle(ev.FrameFromServer(slot, line))

    def running(self) -> list[SlotId]:
        return sorted(self.processes)

    def ask(
        self,
        session: int,
        ident: bytes,
        method: str,
        params: dict[str, Any],
        *,
        token: bytes | None = None,
        may_repeat: bool = True,
    ) -> None:
        """Send a request; where its id is taken it is to be refused, and the first unharmed."""
        client = self.clients[session]
        body = json.dumps(params).encode()
        if token is not None:
            body = body[:-1] + b',"_meta":{"progressToken":' + token + b"}}"
        line = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}'
        line %= (ident, method.encode(), body)
        key = envelope.id_key(ident)
        if key in client.owed:
            self.refusal = ident
            self.send(session, line)
            assert self.refusal is None, "a second request with an id in flight was not refused"
            return
        asked = Asked(ident, method, str(params.get("nonce", "")), token)
        asked.nonce = nonce_of({"method": method, "params": params}) or ""
        asked.may_repeat = may_repeat
        self.asked[asked.nonce] = (session, asked)
        client.owed[key] = asked
        self.send(session, line)

    # -- what may happen ---------------------------------------------------------------------------

    @initialize(is_warm=st.booleans())
    def begin(self, is_warm: bool) -> None:
        self.handle(ev.EntriesChanged(tuple(self.versions.values())))
        if is_warm:
            for server in ("alpha", "alpha", "beta", None, "control"):
                self.a_client_comes(server, True, b"0")
                self.start_all()

    @precondition(lambda self: len(self.clients) < 8)
    @rule(
        server=st.sampled_from(["alpha", "alpha", "beta", "gamma", None, "control"]),
        can_sample=st.booleans(),
        ident=st.sampled_from(IDS),
    )
    def a_client_comes(self, server: str | None, can_sample: bool, ident: bytes) -> None:
        session = next(self.numbers)
        client = self.clients[session] = Client(server, is_control=server == "control")
        self.handle(ev.SessionOpened(SessionId(session), USER))
        if client.is_control:
            return
        client.can_sample = can_sample
        asked = Asked(b'"attach"', "mcpd/attach", "", None)
        client.owed[b'"attach"'] = asked
        self.send(session, b'{"jsonrpc":"2.0","id":"attach","method":"mcpd/attach"}')
        self.handle(
            ev.Attach(SessionId(session), b'"attach"', server, None, None, (), may_control=False)
        )
        capabilities = {"sampling": {}} if can_sample else {}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        self.ask(session, ident, "initialize", params)

    def sessions(self, *, control: bool = False) -> list[int]:
        return [
            number
            for number, client in self.clients.items()
            if client.is_control is control and (control or client.is_initialized)
        ]

    def pick(self, data: st.DataObject, values: list[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    @precondition(lambda self: self.sessions())
    @rule(
        data=st.data(),
        idents=st.lists(st.sampled_from(IDS), min_size=1, max_size=4),
        token=st.sampled_from(TOKENS),
        tool=st.sampled_from([*TOOLS]),
        server=st.sampled_from([*ENTRIES]),
    )
    def clients_call(
        self,
        data: st.DataObject,
        idents: list[bytes],
        token: bytes | None,
        tool: str,
        server: str,
    ) -> None:
        for ident in idents:
            busy = [s for s in self.sessions() if self.clients[s].server == "alpha"]
            session = self.pick(data, busy + self.sessions())
            name = tool if self.clients[session].server else f"{server}__{tool}"
            params = {"name": name, "arguments": {"nonce": f"N{next(self.numbers)}"}}
            self.ask(session, ident, "tools/call", params, token=token, may_repeat=TOOLS[tool])

    @precondition(lambda self: self.sessions(control=True))
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        tool=st.sampled_from([*TOOLS]),
        server=st.sampled_from([*ENTRIES]),
        timeout=st.sampled_from([None, 3.0]),
        progress=st.booleans(),
    )
    def a_script_calls(
        self,
        data: st.DataObject,
        ident: bytes,
        tool: str,
        server: str,
        timeout: float | None,
        progress: bool,
    ) -> None:
        session = self.pick(data, self.sessions(control=True))
        nonce = f"N{next(self.numbers)}"
        params = {"server": server, "tool": tool, "progress": progress, "timeout": timeout}
        params["arguments"] = {"nonce": nonce}
        self.ask(session, ident, "mcpd/call", params, may_repeat=TOOLS[tool])

    @precondition(lambda self: self.sessions())
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        what=st.sampled_from(["read", "read", "list", "subscribe", "unsubscribe", "level"]),
    )
    def a_client_asks_something_else(self, data: st.DataObject, ident: bytes, what: str) -> None:
        session = self.pick(data, self.sessions())
        client = self.clients[session]
        match what:
            case "read":
                uri = f"nonce://{client.server or 'alpha'}/N{next(self.numbers)}"
                token = data.draw(st.sampled_from(TOKENS))
                self.ask(session, ident, "resources/read", {"uri": uri}, token=token)
            case "list":
                method = data.draw(
                    st.sampled_from(["tools/list", "prompts/list", "resources/list"])
                )
                self.ask(session, ident, method, {})
            case "level":
                level = data.draw(st.sampled_from(LEVELS))
                self.ask(session, ident, "logging/setLevel", {"level": level})
            case _ if envelope.id_key(ident) not in client.owed:
                uri = data.draw(st.sampled_from(URIS))
                if what == "subscribe":
                    client.wants.add(uri)
                self.ask(session, ident, f"resources/{what}", {"uri": uri})
                if what == "unsubscribe":
                    client.wants.discard(uri)

    @precondition(lambda self: any(client.owed for client in self.clients.values()))
    @rule(data=st.data(), is_wrong=st.booleans())
    def a_client_cancels(self, data: st.DataObject, is_wrong: bool) -> None:
        """Cancel something that is in flight, or that is not, or was another's."""
        owed = [(s, asked) for s, c in self.clients.items() for asked in c.owed.values()]
        session, asked = self.pick(data, owed)
        ident = asked.ident
        if is_wrong:
            session = self.pick(data, [*self.clients])
        found = self.clients[session].owed.get(envelope.id_key(ident))
        if found is not None and found.method == "initialize":
            return
        self.clients[session].owed.pop(envelope.id_key(ident), None)
        line = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
        self.send(session, line % ident)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_goes(self, data: st.DataObject) -> None:
        session = self.pick(data, [*self.clients])
        del self.clients[session]
        self.handle(ev.SessionClosed(SessionId(session), "gone"))

    @precondition(lambda self: any(c.questions for c in self.clients.values()))
    @rule(data=st.data(), liar=st.booleans())
    def a_client_answers_a_question(self, data: st.DataObject, liar: bool) -> None:
        session = self.pick(data, [s for s, c in self.clients.items() if c.questions])
        ident, _ = self.clients[session].questions.popitem()
        if liar:
            for other in self.clients:
                if other != session and ident not in self.clients[other].questions:
                    answer = b'{"jsonrpc":"2.0","id":%b,"result":{"by":%d}}' % (ident, other)
                    self.send(other, answer)
        answer = b'{"jsonrpc":"2.0","id":%b,"result":{"by":%d}}' % (ident, session)
        self.send(session, answer)

    @precondition(lambda self: self.startable())
    @rule(data=st.data())
    def a_process_starts(self, data: st.DataObject) -> None:
        slot = self.pick(data, self.startable())
        self.wanted.discard(slot)
        self.processes[slot] = Process()
        self.handle(ev.ServerUp(slot))

    @precondition(lambda self: self.startable() or any(map(self.own_open, self.processes)))
    @rule()
    def start_all(self) -> None:
        """Whatever is wanted comes up, and is ready."""
        for slot in self.startable():
            self.wanted.discard(slot)
            self.processes[slot] = Process()
            self.handle(ev.ServerUp(slot))
        for slot in self.running():
            while slot in self.processes and self.own_open(slot):
                self.answer(slot, self.own_open(slot)[0])

    def startable(self) -> list[SlotId]:
        return sorted(slot for slot in self.wanted if slot not in self.processes)

    def own_open(self, slot: SlotId) -> list[int]:
        """Return what the mux itself has asked and was not answered."""
        process = self.processes[slot]
        return [n for n, message in process.open.items() if nonce_of(message) is None]

    @precondition(lambda self: self.answerable())
    @rule(
        data=st.data(),
        how=st.sampled_from(["result"] * 6 + ["error", "both", "large", "bad"]),
        times=st.integers(1, 4),
    )
    def processes_answer(self, data: st.DataObject, how: str, times: int) -> None:
        for _ in range(times):
            if self.answerable():
                slot, number = self.pick(data, self.answerable())
                self.answer(slot, number, how)

    @precondition(lambda self: self.answerable())
    @rule(dice=st.randoms(use_true_random=False))
    def all_is_answered(self, dice: Random) -> None:
        """Every process does what it was asked, in any order, with some progress on the way."""
        todo = self.answerable()
        dice.shuffle(todo)
        for slot, number in todo:
            if slot in self.processes and number in self.processes[slot].open:
                self.report_progress(slot, number)
                self.answer(slot, number)

    def answerable(self) -> list[tuple[SlotId, int]]:
        return [(slot, n) for slot in self.running() for n in self.processes[slot].open]

    def answer(self, slot: SlotId, number: int, how: str = "result") -> None:
        process = self.processes[slot]
        message = process.open.pop(number)
        process.over.add(number)
        nonce = nonce_of(message)
        own = nonce is None
        asked = None if nonce is None else self.asked[nonce][1]
        result = (
            own_result(message, self.places[slot], number)
            if own
            else b'{"content": [],"nonce":"%b","n": 1.0e400,"s":"\\ud800"}' % str(nonce).encode()
        )
        if own and how in ("both", "large", "bad", "error") and message["method"] == "initialize":
            how = "result"
        head = b'{"jsonrpc":"2.0","id":%d,' % number
        match how:
            case "result":
                if asked is not None:
                    asked.answer = result
                self.from_server(slot, head + b'"result":' + result + b"}")
            case "error":
                error = b'{"code":-32002,"message":"no","data":{"nonce":"%b"}}'
                error %= str(nonce).encode()
                if asked is not None:
                    asked.answer = error
                self.from_server(slot, head + b'"error":' + error + b"}")
            case "both":
                self.from_server(slot, head + b'"result":{},"error":{}}')
            case "large":
                oversized = ev.Oversized(head + b'"result":{', b"}}", 10**9)
                self.handle(ev.FrameFromServer(slot, oversized))
            case "bad":
                self.from_server(slot, head + b'"result":{"\xff":1}}')
        if asked is not None:
            asked.answer = None

    def report_progress(self, slot: SlotId, number: int) -> None:
        asked = self.processes[slot].open.get(number)
        nonce = "late" if asked is None else nonce_of(asked) or "own"
        line = b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
        line += b'{"progressToken":%d,"progress":1e400,"message":"%b"}}' % (number, nonce.encode())
        self.from_server(slot, line)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), what=st.sampled_from(["progress", "late", "again", "asks", "speaks"]))
    def a_process_says_something(self, data: st.DataObject, what: str) -> None:
        slot = self.pick(data, self.running())
        process = self.processes[slot]
        over = [*process.over, process.last_id + 7]
        match what:
            case "progress":
                self.report_progress(slot, self.pick(data, [*process.open] or over))
            case "late":
                self.report_progress(slot, self.pick(data, over))
            case "again":
                number = self.pick(data, over)
                answer = b'{"jsonrpc":"2.0","id":%d,"result":{"late":true}}' % number
                self.from_server(slot, answer)
            case "asks":
                number = next(self.numbers)
                process.questions[number] = None
                line = {"jsonrpc": "2.0", "id": number, "method": "sampling/createMessage"}
                line["params"] = {"from": [slot, number]}
                self.from_server(slot, json.dumps(line).encode())
            case _:
                self.from_server(slot, self.pick(data, SAYINGS))

    @rule(
        data=st.data(),
        what=st.sampled_from(["dies"] * 4 + ["does not start", "restarts", "stops", "clogs"]),
        comes_back=st.booleans(),
    )
    def something_goes_wrong(self, data: st.DataObject, what: str, comes_back: bool) -> None:
        slots = self.startable() if what == "does not start" else self.running()
        if not slots:
            return
        slot = self.pick(data, slots)
        match what:
            case "dies" | "does not start":
                self.lose(slot, is_planned=False, comes_back=comes_back)
            case "restarts" | "stops":
                self.lose(slot, is_planned=True, comes_back=what == "restarts")
            case "clogs" if slot in self.clogged:
                self.clogged.discard(slot)
            case "clogs" if not self.own_open(slot):
                self.clogged.add(slot)

    def lose(self, slot: SlotId, *, is_planned: bool, comes_back: bool) -> None:
        self.processes.pop(slot, None)
        self.clogged.discard(slot)
        self.wanted.discard(slot)
        for client in self.clients.values():
            client.questions = {k: q for k, q in client.questions.items() if q[0] != slot}
        if comes_back:
            self.wanted.add(slot)
        kind = "server_stopped" if is_planned else "server_crashed"
        self.handle(ev.ServerDown(slot, failure(kind), is_planned, comes_back))

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), fits=st.booleans())
    def arguments_are_checked(self, data: st.DataObject, fits: bool) -> None:
        ticket = self.tickets.pop(data.draw(st.integers(0, len(self.tickets) - 1)))
        violations = () if fits else (ev.Violation("nonce", "is odd"),)
        self.handle(ev.Validated(ticket, violations))

    @rule(
        name=st.sampled_from([*ENTRIES]),
        what=st.sampled_from(["room", "room", "launch", "hold", "release"]),
        limit=st.sampled_from([0, 1, 2]),
    )
    def a_person_does_something(self, name: str, what: str, limit: int) -> None:
        if what in ("hold", "release"):
            self.handle(ev.UserStop(name, failure("server_stopped") if what == "hold" else None))
            return
        entry = self.versions[name]
        launch = f"{name}-{next(self.numbers)}" if what == "launch" else entry.launch
        self.versions[name] = msgspec.structs.replace(entry, launch=launch, max_concurrency=limit)
        self.handle(ev.EntriesChanged(tuple(self.versions.values())))

    @rule(seconds=st.sampled_from([0.01, 0.3, 2.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until

    # -- what must hold ----------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything ends: what is owed is answered, and nothing is kept."""
        self.is_ending = True
        for _ in range(4):
            for slot in [*self.places]:
                if slot in self.places:
                    self.lose(slot, is_planned=False, comes_back=False)
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            self.time_passes(100.0)
        for session, client in self.clients.items():
            left = {key: asked.method for key, asked in client.owed.items()}
            assert not left, f"session {session} is still owed {left}"
        for session in [*self.clients]:
            del self.clients[session]
            self.handle(ev.SessionClosed(SessionId(session), "gone"))
        assert {k: v for k, v in self.mux.table_sizes().items() if v} == {}
        self.time_passes(1000.0)
        assert self.mux.next_deadline() is None
        assert self.mux.in_flight_count() == 0


KINDS = {
    "call_timeout",
    "crash_loop",
    "invalid_arguments",
    "invalid_message",
    "message_too_large",
    "server_busy",
    "server_crashed",
    "server_stopped",
    "tool_not_found",
}


def failure(kind: str) -> Failure:
    return Failure(kind, kind, None, True)


def json_string(text: str) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(text).encode())


def error_of(message: envelope.Message) -> Any:
    return json.loads(bytes(message.error))


def nonce_of(message: dict[str, Any]) -> str | None:
    """Return what tells one request of a client from all others."""
    params = message.get("params") or {}
    if message["method"] in ("tools/call", "mcpd/call"):
        return str(params["arguments"]["nonce"])
    if message["method"] == "resources/read":
        return str(params["uri"].rpartition("/")[2])
    return None


def own_result(message: dict[str, Any], server: str, number: int) -> bytes:
    """Return what a server answers to a request that the mux makes on its own account."""
    schema = {"type": "object"}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": server, "version": "1"},
        },
        "tools/list": {
            "tools": [
                {"name": n, "inputSchema": schema, "annotations": {"readOnlyHint": hint}}
                for n, hint in TOOLS.items()
            ]
        },
        "prompts/list": {"prompts": [{"name": f"p{number}"}]},
        "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in URIS]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": f"nonce://{server}/{{id}}", "name": "n"}]
        },
    }
    return json.dumps(results.get(message["method"], {})).encode()


TestMuxModel = World.TestCase
TestMuxModel.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.reuse, Phase.generate, Phase.shrink],  # explaining would trace every line
)

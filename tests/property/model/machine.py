"""The machine that hypothesis drives: what may happen, in any order, and what must be at the end."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mcpd.core.mcp.versions import Era
from mcpd.core.mux import events as ev
from mcpd.core.mux.entries import Entry, Interactive, Sharing
from mcpd.core.wire import envelope
from mcpd.ids import SlotId
from tests.property.model.acting import ERRORS, VENDOR, Acting
from tests.property.model.ground import failure
from tests.property.model.peers import QUESTIONS, TOOLS, URIS, Batch, Client, Listening
from tests.property.model.wire import (
    LEVELS,
    TASKS,
    Json,
    dumps,
    members,
    notification,
    written,
)

IDS: Final = [b"0", b"1", b"-1", b"9007199254740993", b'"1"', b'""', b'"a"', b'"\\u00e9\\ud800"']
TOKENS: Final = [None, b"0", b"1", b"3", b"1.5", b'"1"', b'"\\ud83d"', b"-0"]
KINDS: Final = ["legacy", "legacy", "legacy", "modern", "modern", "modern", "both"]
VERSIONS: Final = ["2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26"]
CAN: Final[list[Json]] = [
    {},
    {"elicitation": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
    {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}, "tasks": {}},
    {"elicitation": {"url": {}}, "experimental": {"x": 1}},
    {"roots": {}},
    {"sampling": {}},
]
"""What clients declare; the modern ones have no tasks and no listChanged."""

MODERN_CAN: Final[list[Json]] = [
    *CAN[:3],
    {**CAN[2], "extensions": {TASKS: {}, "x/y": {}}},
    {"elicitation": {}, "extensions": {TASKS: {}}},
    *CAN[4:],
]
NATURES: Final = ["legacy", "silent", "dying", "modern", "dual"]
SPOKEN: Final = {"legacy", "dual", "silent", "dying"}
SERVERS: Final = ["alpha", "beta", "gamma"]
METHODS: Final = [
    "tools/call",
    "tools/call",
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "tasks/get",
]
WAIT: Final = 8.0
"""Seconds that a question is held."""

SAYINGS: Final = [
    b"{}",
    b"[]",
    b"npm notice",
    b'{"id":0,"result":{}}',
    b'{"id":null,"error":{"code":1,"message":""}}',
    b'{"method":"notifications/unheard-of"}',
    b'{"jsonrpc":"2.0","id":"x%d","method":"no/such/request"}',
]


class Machine(Acting, RuleBasedStateMachine):
    """Sessions of both eras on servers of both, and everything that can happen to them."""

    # -- the setting ------------------------------------------------------------------------------

    @initialize(
        natures=st.tuples(*[st.sampled_from(NATURES)] * 3),
        known=st.tuples(*[st.sampled_from(["given", "right", "wrong", "none"])] * 3),
        modes=st.tuples(
            st.sampled_from(["exclusive", "auto", "shared", "off"]),
            st.sampled_from(["auto", "exclusive"]),
            st.sampled_from(["auto", "exclusive"]),
        ),
        limit=st.sampled_from([0, 0, 2]),
        roots=st.sampled_from(["", "", "given", "session"]),
        is_warm=st.booleans(),
        crowd=st.lists(st.sampled_from(KINDS), min_size=2, max_size=4),
    )
    def begin(
        self,
        natures: tuple[str, ...],
        known: tuple[str, ...],
        modes: tuple[str, ...],
        limit: int,
        roots: str,
        is_warm: bool,
        crowd: list[str],
    ) -> None:
        self.natures = dict(zip(SERVERS, natures, strict=True))
        for name, how, mode in zip(SERVERS, known, modes, strict=True):
            speaks = {Era.LEGACY} if self.natures[name] in SPOKEN else {Era.MODERN}
            right = Era.LEGACY if speaks == {Era.LEGACY} else Era.MODERN
            wrong = Era.MODERN if right is Era.LEGACY else Era.LEGACY
            self.entries[name] = Entry(
                name=name,
                launch=f"{name}-1",
                era=right if how == "given" else None,
                verdict={"right": right, "wrong": wrong}.get(how),
                interactive=Interactive(mode),
                question_wait=WAIT,
                question_timeout=100.0,
                parked_timeout=200.0,
                max_concurrency=limit if name == "alpha" else 0,
                call_timeout=15.0 if name == "beta" else 0.0,
                call_timeout_max=40.0,
                sharing=Sharing.SESSION if name == "gamma" else Sharing.SHARED,
                validates=name == "gamma",
                roots=("file:///given",) if name == "alpha" and roots == "given" else (),
                asks_for_roots=name == "gamma" and roots == "session",
            )
        self.handle(ev.EntriesChanged(tuple(self.entries.values())))
        if is_warm:
            for number, kind in enumerate(crowd):
                self.come("alpha", kind, CAN[2 + number % 2], VERSIONS[number % 4])
                if not number:
                    self.come("beta", kind, CAN[2], VERSIONS[0])
                    self.come(None, kind, CAN[2], VERSIONS[0])
                self.start_all()
            for client in [*self.clients.values()]:
                if client.server is not None and client.is_modern:
                    self.ask(client, b'"d"', "server/discover", b"{}", asker=(CAN[2], None))
            self.start_all()

    def pick(self, data: st.DataObject, values: list[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    def talking(self) -> list[Client]:
        """Return the clients that can ask for something, those of busy servers more than once."""
        able = [c for c in self.clients.values() if c.is_initialized or c.is_modern]
        return [c for c in able if c.server == "alpha"] + able

    def asker(self, data: st.DataObject, client: Client) -> tuple[Json, str | None] | None:
        """Return what a modern client says of itself in a request; a legacy one said it before."""
        if not client.is_modern or (client.is_initialized and data.draw(st.booleans())):
            return None
        capabilities = self.pick(data, MODERN_CAN)
        return capabilities, data.draw(st.sampled_from([None, None, "debug", "warning"]))

    # -- clients ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 9)
    @rule(
        server=st.sampled_from(["alpha", "alpha", "beta", "gamma", None, "control"]),
        kind=st.sampled_from(KINDS),
        capabilities=st.sampled_from(CAN),
        version=st.sampled_from(VERSIONS),
    )
    def a_client_comes(
        self, server: str | None, kind: str, capabilities: Json, version: str
    ) -> None:
        if server == "control":
            self.come(None, "control", {}, version)
        else:
            self.come(server, kind, {} if kind == "modern" else capabilities, version)

    @precondition(lambda self: self.talking())
    @rule(
        data=st.data(),
        idents=st.lists(st.sampled_from(IDS), min_size=1, max_size=3),
        token=st.sampled_from(TOKENS),
        tool=st.sampled_from([*TOOLS]),
        method=st.sampled_from(METHODS),
        server=st.sampled_from(SERVERS),
        vendor=st.sampled_from([b"{}", VENDOR]),
    )
    def clients_call(
        self,
        data: st.DataObject,
        idents: list[bytes],
        token: bytes | None,
        tool: str,
        method: str,
        server: str,
        vendor: bytes,
    ) -> None:
        for ident in idents:
            client = self.pick(data, self.talking())
            asker = self.asker(data, client)
            call = self.make_call(
                client,
                method,
                server=client.server or server,
                tool=tool,
                asker=asker,
                vendor=vendor,
            )
            self.ask(
                client,
                ident,
                method,
                call.params,
                call=call,
                asker=asker,
                token=token,
                vendor=vendor,
            )

    @precondition(lambda self: any(c.kind == "control" for c in self.clients.values()))
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        tool=st.sampled_from([*TOOLS]),
        server=st.sampled_from(SERVERS),
        timeout=st.sampled_from([None, 3.0]),
    )
    def a_script_calls(
        self, data: st.DataObject, ident: bytes, tool: str, server: str, timeout: float | None
    ) -> None:
        client = self.pick(data, [c for c in self.clients.values() if c.kind == "control"])
        self.script(client, ident, server, tool, timeout)

    @precondition(lambda self: self.talking())
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        what=st.sampled_from(["list", "subscribe", "unsubscribe", "level", "discover"]),
        method=st.sampled_from(["tools/list", "prompts/list", "resources/list"]),
        uri=st.sampled_from(URIS),
        level=st.sampled_from(["debug", "info", "warning", "error"]),
    )
    def a_client_asks_something_else(
        self, data: st.DataObject, ident: bytes, what: str, method: str, uri: str, level: str
    ) -> None:
        client = self.pick(data, self.talking())
        asker = self.asker(data, client)
        if what == "discover" and client.is_modern:
            asker = asker or ({}, None)
            self.ask(client, ident, "server/discover", b"{}", asker=asker)
        elif what == "list" or asker is not None:
            self.ask(client, ident, method, b"{}", asker=asker)
        elif what == "level":
            if envelope.id_key(ident) not in client.owed:
                client.tried_level = level
            self.ask(client, ident, "logging/setLevel", dumps({"level": level}))
        elif envelope.id_key(ident) not in client.owed:
            if what == "subscribe":
                client.wants.add(uri)
            self.ask(client, ident, f"resources/{what}", dumps({"uri": uri}))
            if what == "unsubscribe":
                client.wants.discard(uri)

    @precondition(lambda self: any(c.is_modern for c in self.clients.values()))
    @rule(
        data=st.data(),
        ident=st.sampled_from([*IDS, b'"listen"', b"7", b'"7"']),
        flags=st.sets(st.sampled_from(["tools", "prompts", "resources"])),
        uris=st.lists(st.sampled_from(URIS), unique=True, max_size=2),
    )
    def a_client_listens(
        self, data: st.DataObject, ident: bytes, flags: set[str], uris: list[str]
    ) -> None:
        client = self.pick(data, [c for c in self.clients.values() if c.is_modern])
        wants: Json = {f"{flag}ListChanged": True for flag in sorted(flags)}
        if uris:
            wants["resourceSubscriptions"] = uris
        self.ask(
            client,
            ident,
            "subscriptions/listen",
            dumps({"notifications": wants}),
            asker=({}, None),
            listening=Listening(ident, wants),
        )

    @precondition(lambda self: any(c.version == "2025-03-26" for c in self.clients.values()))
    @rule(
        data=st.data(),
        what=st.lists(st.sampled_from(["ping", "call", "list", "notice"]), min_size=1, max_size=3),
    )
    def a_client_sends_a_batch(self, data: st.DataObject, what: list[str]) -> None:
        able = [
            c
            for c in self.clients.values()
            if c.is_initialized and c.version == "2025-03-26" and c.is_legacy
        ]
        if not able:
            return
        client, batch = self.pick(data, able), Batch()
        lines = []
        for element in what:
            ident = b'"b%d"' % next(self.numbers)
            if element == "notice":
                lines.append(notification("notifications/of/no/account"))
            elif element == "call":
                call = self.make_call(client, "tools/call", server=client.server or "alpha")
                lines.append(
                    self.ask(client, ident, "tools/call", call.params, call=call, batch=batch)
                )
            else:
                method = "ping" if element == "ping" else "tools/list"
                lines.append(self.ask(client, ident, method, b"{}", batch=batch))
        self.send(client.session, b"[" + b",".join(lines) + b"]")

    @precondition(lambda self: any(c.owed or c.listens for c in self.clients.values()))
    @rule(data=st.data(), is_wrong=st.sampled_from([False, False, True]))
    def a_client_cancels(self, data: st.DataObject, is_wrong: bool) -> None:
        """Cancel something that is in flight, or that is not, or was another's."""
        owed = [
            (client, asked.ident)
            for client in self.clients.values()
            for asked in [*client.owed.values(), *client.listens.values()]
        ]
        client, ident = self.pick(data, owed)
        if is_wrong:
            client = self.pick(data, [*self.clients.values()])
        self.give_up(client, ident)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_goes(self, data: st.DataObject) -> None:
        self.go(self.pick(data, [*self.clients.values()]))

    @precondition(lambda self: any(c.questions for c in self.clients.values()))
    @rule(
        data=st.data(),
        how=st.sampled_from(["well", "well", "well", "error", "liar", "progress"]),
        times=st.integers(1, 3),
    )
    def clients_answer(self, data: st.DataObject, how: str, times: int) -> None:
        for _ in range(times):
            asked = [(c, key) for c in self.clients.values() for key in c.questions]
            if not asked:
                return
            client, key = self.pick(data, asked)
            question = client.questions[key]
            if how == "liar":
                for other in [*self.clients.values()]:
                    self.lie(other, key, question)
            elif how == "progress" and question.token is not None:
                self.tell_progress(client, key)
            else:
                self.reply(client, key, is_error=how == "error")

    @precondition(lambda self: any(c.withdrawn for c in self.clients.values()))
    @rule(data=st.data())
    def a_client_answers_too_late(self, data: st.DataObject) -> None:
        late = [(c, key) for c in self.clients.values() for key in c.withdrawn]
        client, key = self.pick(data, late)
        self.lie(client, key, client.withdrawn[key])

    @precondition(lambda self: self.waiting_calls())
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        how=st.sampled_from(["right", "right", "right", "respelled", "partly"]),
        token=st.sampled_from(TOKENS),
        level=st.sampled_from([None, "info"]),
    )
    def a_client_comes_back(
        self, data: st.DataObject, ident: bytes, how: str, token: bytes | None, level: str | None
    ) -> None:
        call = self.pick(data, self.waiting_calls())
        client = self.clients[call.session]
        if envelope.id_key(ident) in client.owed or envelope.id_key(ident) in client.listens:
            return
        but = data.draw(st.integers(0, 1)) if how == "partly" else None
        asker = (call.capabilities, level)
        self.come_back(call, ident, asker, token=token, but=but, is_respelled=how == "respelled")

    @precondition(lambda self: self.handles)
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        how=st.sampled_from(["stranger", "arguments", "method", "forged", "used"]),
    )
    def a_client_comes_back_wrong(self, data: st.DataObject, ident: bytes, how: str) -> None:
        """A handle that is somebody else's, or of another call, or used, or was never given."""
        call, handle = self.pick(data, self.handles)
        usable = call.handle == handle and call.is_parked
        if how != "used" and not usable:
            return
        if how == "used" and (call.handle == handle or call.session not in self.clients):
            return
        client = self.clients[call.session]
        if how == "stranger":
            others = [
                c
                for c in self.clients.values()
                if c is not client and c.is_modern and c.server == client.server
            ]
            if not others:
                return
            client = self.pick(data, others)
        slot = SlotId(self.entries[call.server].launch) if call.server in self.entries else None
        process = self.processes.get(slot) if slot is not None else None
        if process is None or process.lock != "legacy" or not self.is_up(process):
            return
        key = envelope.id_key(ident)
        if key in client.owed or key in client.listens:
            return
        params = members(call.params)
        params["inputResponses"] = b"{}"
        params["requestState"] = handle
        method = call.method
        if how == "forged":
            params["requestState"] = b'"mcpd1.%d.AAAA"' % data.draw(st.integers(1, 20))
        elif how == "arguments":
            name = "uri" if method == "resources/read" else "arguments"
            other = dumps("nonce://x/N0") if name == "uri" else b'{"nonce":"N0"}'
            params[name] = other
        elif how == "method":
            method = "prompts/get" if method == "tools/call" else "tools/call"
            if client.server is None or "name" not in params:
                return
        self.come_back_wrong(client, call, ident, method, written(params))

    # -- processes --------------------------------------------------------------------------------

    @precondition(lambda self: self.startable())
    @rule(data=st.data())
    def a_process_starts(self, data: st.DataObject) -> None:
        self.start(self.pick(data, self.startable()))

    @precondition(lambda self: self.startable() or any(map(self.is_starting, self.running())))
    @rule()
    def start_all(self) -> None:
        """Whatever is wanted comes up, and is ready, unless it is silent or dies first."""
        for _ in range(4):
            for slot in self.startable():
                self.start(slot)
            for slot in self.running():
                while slot in self.processes and self.processes[slot].own_open():
                    self.answer_own(slot, self.processes[slot].own_open()[0])
                if slot in self.processes and self.processes[slot].is_mute:
                    self.get_over_the_probe(slot)

    def is_starting(self, slot: SlotId) -> bool:
        process = self.processes[slot]
        return process.is_mute or bool(process.own_open())

    def get_over_the_probe(self, slot: SlotId) -> None:
        if self.processes[slot].nature == "dying":
            self.lose(slot, is_planned=False, comes_back=True)
        elif self.probing.get(slot) is False:
            self.probing[slot] = True
            self.handle(ev.ProbeRead(slot))

    @precondition(lambda self: self.probing)
    @rule(data=st.data())
    def a_process_reads_the_probe(self, data: st.DataObject) -> None:
        slot = self.pick(data, sorted(self.probing))
        if slot in self.processes:
            if self.processes[slot].is_mute:
                self.get_over_the_probe(slot)
            elif not self.probing[slot]:
                self.probing[slot] = True
                self.handle(ev.ProbeRead(slot))

    @precondition(lambda self: self.works())
    @rule(
        data=st.data(),
        how=st.sampled_from(
            ["result"] * 8 + ["error", "error", "both", "large", "bad", "odd", "task"]
        ),
        code=st.sampled_from(ERRORS),
        times=st.integers(1, 4),
    )
    def processes_answer(self, data: st.DataObject, how: str, code: int, times: int) -> None:
        for _ in range(times):
            if self.works():
                slot, number = self.pick(data, self.works())
                self.answer(slot, number, how, code)

    @precondition(lambda self: self.works())
    @rule(dice=st.randoms(use_true_random=False))
    def all_is_answered(self, dice: Random) -> None:
        """Every process does what it was asked, in any order, with some progress on the way."""
        todo = self.works()
        dice.shuffle(todo)
        for slot, number in todo:
            if slot in self.processes and (slot, number) in self.works():
                self.report_progress(slot, number)
                self.answer(slot, number)

    @precondition(lambda self: self.wishing())
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from([*QUESTIONS]), max_size=2),
        has_state=st.booleans(),
    )
    def a_modern_process_wants_input(
        self, data: st.DataObject, kinds: list[str], has_state: bool
    ) -> None:
        slot, number = self.pick(data, self.wishing())
        self.wish(slot, number, kinds, has_state=has_state)

    def wishing(self) -> list[tuple[SlotId, int]]:
        may = ("tools/call", "prompts/get", "resources/read")
        return [
            (slot, n)
            for slot in self.running()
            if self.processes[slot].lock == "modern"
            for n, work in self.processes[slot].open.items()
            if work.call is not None and work.method in may
        ]

    @precondition(lambda self: self.asking_works())
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from([*QUESTIONS]), min_size=1, max_size=3),
        token=st.sampled_from([None, None, b"0", b'"t"']),
    )
    def a_legacy_process_asks(
        self, data: st.DataObject, kinds: list[str], token: bytes | None
    ) -> None:
        slot, work = self.pick(data, self.asking_works())
        for kind in kinds:
            if (slot, work) in self.asking_works():
                self.enquire(slot, work, kind, token=token)

    @precondition(lambda self: any(p.questions for p in self.processes.values()))
    @rule(data=st.data(), how=st.sampled_from(["withdraws", "gives up waiting"]))
    def a_process_gives_up_asking(self, data: st.DataObject, how: str) -> None:
        asked = [(s, q) for s in self.running() for q in self.processes[s].questions.values()]
        slot, question = self.pick(data, asked)
        if how == "withdraws":
            self.no_more(slot, question)
        elif question.call is not None and question.call.place is not None:
            self.answer(*question.call.place)

    @precondition(lambda self: any(p.is_introduced for p in self.processes.values()))
    @rule(
        data=st.data(),
        what=st.sampled_from(
            ["progress", "late", "again", "asks", "log", "log", "change", "update", "ends", "noise"]
        ),
        level=st.sampled_from(LEVELS[::2]),
        change=st.sampled_from(["tools", "prompts", "resources"]),
        uri=st.sampled_from([*URIS, "file:///c/d"]),
        noise=st.sampled_from(SAYINGS),
        kind=st.sampled_from([*QUESTIONS]),
    )
    def a_process_says_something(
        self,
        data: st.DataObject,
        what: str,
        level: str,
        change: str,
        uri: str,
        noise: bytes,
        kind: str,
    ) -> None:
        slot = self.pick(data, [s for s in self.running() if self.processes[s].is_introduced])
        process = self.processes[slot]
        over = [*process.over, process.last_id + 7]
        calls = [None, *(work for work in process.open.values() if work.call is not None)]
        match what:
            case "progress":
                self.report_progress(slot, self.pick(data, [*process.open] or over))
            case "late":
                self.report_progress(slot, self.pick(data, over))
            case "again":
                number = self.pick(data, over)
                answer = b'{"jsonrpc":"2.0","id":%d,"result":{"late":true}}' % number
                self.from_server(slot, answer)
            case "asks" if process.lock == "legacy":
                self.enquire(slot, None, kind, token=None)
            case "log":
                self.log(slot, self.pick(data, calls), level)
            case "change":
                self.tell_change(slot, change)
            case "update":
                self.tell_update(slot, uri)
            case "ends" if process.listens:
                number = self.pick(data, [*process.listens])
                self.end_listen(slot, number, gracefully=data.draw(st.booleans()))
            case _:
                self.say_nonsense(slot, noise)

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
            case "clogs" if self.is_up(self.processes[slot]):
                self.clogged.add(slot)

    # -- people and time --------------------------------------------------------------------------

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), fits=st.booleans())
    def arguments_are_checked(self, data: st.DataObject, fits: bool) -> None:
        ticket = self.tickets.pop(data.draw(st.integers(0, len(self.tickets) - 1)))
        violations = () if fits else (ev.Violation("nonce", "is odd"),)
        self.handle(ev.Validated(ticket, violations))

    @rule(
        name=st.sampled_from(SERVERS),
        what=st.sampled_from(["room", "mode", "launch", "upgrade", "hold", "release", "remove"]),
        limit=st.sampled_from([0, 1, 2]),
        mode=st.sampled_from([*Interactive]),
        nature=st.sampled_from(NATURES),
    )
    def a_person_does_something(
        self, name: str, what: str, limit: int, mode: Interactive, nature: str
    ) -> None:
        entry = self.entries.get(name)
        match what:
            case "hold":
                self.handle(ev.Hold(name, failure("server_stopped")))
                for slot in [*self.places]:
                    if slot in self.places and self.places[slot][0] == name:
                        self.lose(slot, is_planned=True, comes_back=False)
            case "release":
                self.handle(ev.Hold(name, None))
            case "upgrade":  # in place: nothing tells that it is another program
                self.upgrade(name, nature)
            case "remove" if entry is not None:
                self.removed[name] = self.entries.pop(name)
                self.reconfigure(removed=name)
            case _ if entry is None:
                self.entries[name] = self.removed.pop(name)
                self.entries = {n: self.entries[n] for n in SERVERS if n in self.entries}
                self.reconfigure()
            case "launch":
                launch = f"{name}-{next(self.numbers)}"
                self.entries[name] = msgspec.structs.replace(entry, launch=launch)
                self.reconfigure()
            case "mode":
                self.entries[name] = msgspec.structs.replace(entry, interactive=mode)
                self.mixed.add(name)
                self.reconfigure()
            case _:
                self.entries[name] = msgspec.structs.replace(entry, max_concurrency=limit)
                self.reconfigure()

    def upgrade(self, name: str, nature: str) -> None:
        entry = self.entries.get(name)
        if entry is not None and entry.era is None:
            self.natures[name] = nature

    def reconfigure(self, removed: str | None = None) -> None:
        for client in self.clients.values():
            if removed is not None and client.server == removed:
                for listening in client.listens.values():
                    listening.may_end = True
        self.handle(ev.EntriesChanged(tuple(self.entries.values())))

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.05, 0.3, 2.0, 2.0, 9.0, 30.0, 120.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until

    # -- what must hold at the end ------------------------------------------------------------------

    def teardown(self) -> None:
        """Whoever waits is answered; then everything ends, and nothing is kept."""
        if not self.entries or self.is_broken:
            return
        self.come_to_rest()
        self.end_it_all()

    def come_to_rest(self) -> None:
        """Everybody does what is to be done: no request stays unanswered, nor any question."""
        self.clogged.clear()
        quiet = 0.0
        for _ in range(400):
            before = self.handled
            self.start_all()
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            for slot, number in self.works():
                if slot in self.processes and (slot, number) in self.works():
                    self.answer(slot, number)
            for client in [*self.clients.values()]:
                for key in [*client.questions]:
                    if key in client.questions:
                        self.reply(client, key)
            for call in self.waiting_calls():
                ident = b'"back %d"' % next(self.numbers)
                if call.wants_more:
                    self.come_back(call, ident, (call.capabilities, call.level))
            if self.handled != before:
                quiet = 0.0
                continue
            if not self.left() or quiet > 4 * WAIT:
                break
            quiet += 0.5
            self.time_passes(0.5)
        assert not self.left(), f"nothing goes on, and there is left {self.left()}"

    def left(self) -> list[object]:
        """Return what is owed to anybody."""
        return [
            *(
                (c.session, a.ident, a.method)
                for c in self.clients.values()
                for a in c.owed.values()
                if not a.is_optional
            ),
            *(
                (c.session, x)
                for c in self.clients.values()
                for x in c.listens.values()
                if x.granted is None
            ),
            *(
                ("question", q.number, q.method)
                for p in self.processes.values()
                for q in p.questions.values()
            ),
            *(("work", n) for p in self.processes.values() for n in p.open),
        ]

    def end_it_all(self) -> None:
        listening = [c for c in self.clients.values() if c.listens]
        self.is_draining = True
        self.handle(ev.Draining())
        assert not [c.listens for c in listening if c.listens], "a listen outlived the daemon"
        self.is_ending = True
        for _ in range(4):
            for slot in [*self.places]:
                if slot in self.places:
                    self.lose(slot, is_planned=False, comes_back=False)
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            self.time_passes(100.0)
        for client in [*self.clients.values()]:
            left = {k: a.method for k, a in client.owed.items() if not a.is_optional}
            assert not left, f"session {client.session} is still owed {left}"
            self.go(client)
        assert {k: v for k, v in self.mux.table_sizes().items() if v} == {}
        self.time_passes(1000.0)
        assert self.mux.next_deadline() is None
        assert self.mux.in_flight_count() == 0

"""A mux with servers, clients and people around it, and what each of them has a right to.

The model knows each call by the white space in its arguments, which no reader of JSON sees. So it
can tell which bytes reach a server, while two calls can still be the same for a person.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import structs

from mcpd.core.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    AskedCall,
    Failure,
    Rule,
    RuleLapsed,
)
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Policy, Settings, Sharing
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.versions import NEWEST_MODERN
from mcpd.core.mux.mux import Mux
from mcpd.core.wire import envelope
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal, local
from tests.property.gate.rules import (
    CYRILLIC,
    SERVERS,
    TOOLS,
    Form,
    is_asked,
    number_in,
    value_of,
    why_hidden,
    why_no_other,
)
from tests.property.model import memory

USER = local(1000)
TALLY: Counter[str] = Counter()
"""How often what was seen: that a rule never applies is a fault of the model."""

TOLERANCE = 1e-6
MOST_OF_SESSION = 8
FORGED = "mcpd asks: a server"


@dataclass(eq=False)
class Call:
    """Something that a client asks of a server, however many requests it takes."""

    number: int
    session: int
    principal: Principal
    client: str | None
    server: str
    method: str
    tool: str
    args: bytes
    born: float
    value: str | None
    state: str = "new"
    """``new``, ``sent``, ``lost`` with its process, ``wanting`` what a modern server asked for."""
    made: int = 0
    """How many requests were made for it."""
    over: int = 0
    """How many of them have ended, but for those that were answered with a question."""
    recorded: int = 0
    parked: int = 0
    """How many of its requests were answered with a question of its server."""
    same_as: int = 0
    """The number of the call that it brings answers for, spelled otherwise."""
    slot: str = ""
    handles: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    """What its client was asked in results: the state, the requests, and whose they are."""

    @property
    def label(self) -> str:
        return self.principal.label


@dataclass(eq=False)
class Grant:
    """What somebody has allowed."""

    kind: str
    """``call``: one call that waits; ``late``: the next of its kind; ``session``, ``1h``,
    ``always``: all of a tool."""
    session: int
    label: str
    client: str | None
    server: str
    identity: str
    tool: str
    form: Form | None
    value: str | None
    until: float
    given: float
    ticket: int | None = None
    """The write to the disk that it waits for."""
    lapsed: int | None = None
    """The number that the next call had when it lapsed."""
    number: int = 0
    """Of the question."""
    is_sure: bool = True
    """Whether it must count: of all tools of a server those do that it is known to list, and a late
    yes that no call can have used."""

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.session if self.kind == "session" else 0, self.label, self.server, self.tool)

    def is_for(self, call: Call, entry: Entry, form: Form | None) -> bool:
        if (self.server, self.identity, self.tool, self.form) != (
            entry.name,
            entry.identity,
            call.tool,
            form,
        ):
            return False
        if self.lapsed is not None and call.number > self.lapsed:
            return False  # what was let through before may be sent later to a process that has
            # the definition which was allowed
        if self.ticket is not None or call.born > self.until + TOLERANCE:
            return False  # what was let through in time may be sent later
        match self.kind:
            case "session":
                return self.session == call.session
            case "1h" | "always":
                return self.label == call.label
            case "call" if call.born > self.given:
                return False
            case "call" if self.session != call.session:
                return False
            case _:
                same = (self.label, self.client, self.value)
                return call.value is not None and same == (call.label, call.client, call.value)


@dataclass(eq=False)
class Denial:
    """What somebody has refused for a session."""

    session: int
    server: str
    tool: str
    value: str | None
    """Of which arguments; ``None``: of any."""
    until: float
    after: int
    """A number that later calls are above."""

    def is_for(self, call: Call, now: float) -> bool:
        mine = (call.session, call.server, call.tool)
        return (
            mine == (self.session, self.server, self.tool)
            and (self.value is None or self.value == call.value)
            and call.number > self.after
            and now < self.until - TOLERANCE
        )


@dataclass(eq=False)
class Client:
    """One connection."""

    session: int
    kind: str
    """``legacy``, ``modern``, ``brief`` or ``control``."""
    server: str | None
    principal: Principal
    name: str | None
    can_ask: bool
    owed: dict[str, Call | str] = field(default_factory=dict)
    forms: dict[int, int] = field(default_factory=dict)
    """Our open questions to it: the id of the request, and the number of the question."""
    old_forms: list[tuple[int, int]] = field(default_factory=list)
    their_forms: list[int] = field(default_factory=list)
    """Questions of servers."""


@dataclass(eq=False)
class Question:
    """One that the mux has told of."""

    asked: AskedCall
    form: Form | None
    said: tuple[str, bool] | None = None
    """The answer that somebody with a right to it gave, and whether it is for all tools."""
    shown_at: float = 0.0
    no_to_session: bool = False
    by_client: bool = False
    ticket: int | None = None
    before: list[Grant] = field(default_factory=list)
    is_cut: bool = False
    """Whether its yes could not be written, and so is for once."""


class Process:
    """What runs in a slot."""

    def __init__(self, server: str, forms: dict[str, Form]) -> None:
        self.server = server
        self.forms = forms
        self.listed: dict[str, Form] | None = None
        self.open: dict[int, Call] = {}
        self.lists: list[bytes] = []
        """Requests of the mux that wait, where it is slow."""
        self.is_slow = False
        self.is_modern = False
        self.questions: list[int] = []


def nothing() -> None:
    """Nothing more is known once an event is handled."""


class World:
    """The tables of the model, what the mux does with them, and what it may not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.numbers = itertools.count(1)
        self.policy = Policy()
        self.entries: dict[str, Entry] = {}
        self.forms: dict[str, dict[str, Form]] = {}
        self.approved: dict[str, tuple[str, dict[str, Form]]] = {}
        self.current: dict[str, dict[str, Form]] = {}
        self.pins: dict[str, Any] = {}
        self.catalogs: dict[str, Any] = {}
        self.disk: tuple[Rule, ...] = ()
        self.writes: deque[cmd.KeepRules] = deque()
        self.disk_is = "fast"
        self.grants: list[Grant] = []
        self.denials: list[Denial] = []
        self.calls: dict[int, Call] = {}
        self.stale: dict[int, Any] = {}
        self.rated: dict[Any, tuple[float, int, Any]] = {}
        """Since when rates are what they are: the time, and a number that later calls are above."""
        self.counted: Counter[Any] = Counter()
        self.is_ending = False
        self.is_endless = False
        """Whether a call may ever have waited for an answer for any time."""
        self.begin_life()

    def begin_life(self) -> None:
        """Begin with a mux that knows nothing yet."""
        settings = Settings(version="1", secret=b"secret", list_wait=5.0, first_approval=self.first)
        self.mux = Mux(settings, suggest=lambda name, known: [])
        self.mux.context.tells_calls = True
        self.clients: dict[int, Client] = {}
        self.processes: dict[SlotId, Process] = {}
        self.places: dict[SlotId, str] = {}
        self.wanted: set[SlotId] = set()
        self.tickets: list[int] = []
        self.questions: dict[int, Question] = {}
        self.over: dict[int, Question] = {}
        self.asked_by: dict[int, int] = {}
        """The questions that calls have caused."""
        self.prepared: dict[tuple[int, bytes], Any] = {}
        self.events: deque[tuple[ev.Event, Callable[[], None]]] = deque()
        self.last_asked: int | None = None
        self.last_form: tuple[int, int] | None = None
        self.person = self.connect("control", None, USER, None, can_ask=False)

    @property
    def first(self) -> int:
        """The number of the first question, as the daemon chooses it."""
        return 1 + max(self.stale, default=0)

    # -- events and commands -----------------------------------------------------------------------

    def handle(self, event: ev.Event, know: Callable[[], None] = nothing) -> None:
        """Have the mux handle an event, after those before it; ``know`` is called when it does."""
        self.events.append((event, know))
        if len(self.events) > 1:
            return
        while self.events:
            event, know = self.events[0]
            know()
            for command in self.mux.handle(event, self.now):
                self.perform(command)
            self.events.popleft()
            self.check()

    def check(self) -> None:
        """Hold what there is after each event against what there may be."""
        memory.check(self.mux)
        opened = self.mux.approvals.questions
        own = Counter(each.asked.session for each in self.questions.values())
        assert len(opened) == len(self.questions), "questions that nobody was told of"
        assert max(own.values(), default=0) <= MOST_OF_SESSION
        keys = {each.key for each in opened if each.leg is not None}
        assert len(keys) == sum(each.leg is not None for each in opened)

    def perform(self, command: cmd.Command) -> None:
        match command:
            case cmd.ToSession():
                data = command.data
                line = data if isinstance(data, bytes) else b"".join(map(bytes, data))
                self.to_session(command.session, line)
            case cmd.ToServer():
                self.to_server(command.slot, command.data, command.wire_id)
            case cmd.CloseSession():
                self.leave(command.session)
            case cmd.OpenSlot():
                self.places[command.slot] = command.server
            case cmd.CloseSlot():
                self.lose(command.slot)
                del self.places[command.slot]
                self.handle(ev.ServerDown(command.slot, failure("server_stopped"), True, False))
            case cmd.Want() if self.is_ending:
                self.handle(ev.ServerDown(command.slot, failure("crash_loop"), False, False))
            case cmd.Want() if command.slot not in self.processes:
                self.wanted.add(command.slot)
            case cmd.StartOver():
                self.go_down(command.slot, is_planned=True, comes_back=True)
            case cmd.StartRefused():
                raise AssertionError(command.failure)
            case cmd.Validate():
                self.tickets.append(command.ticket)
            case cmd.Control():
                self.handle(self.prepared.pop((command.session, command.key)))
            case cmd.KeepRules():
                self.keep(command)
            case cmd.KeepPins():
                self.pins[command.server] = command.pins
            case cmd.KeepCatalog():
                self.catalogs[command.launch] = command
            case cmd.CallEnded():
                self.recorded(command)
            case cmd.Tell(fact=ApprovalAsked(question=asked)):
                self.asked(asked)
            case cmd.Tell(fact=ApprovalAnswered() as answered):
                self.answered(answered)
            case cmd.Tell(fact=ApprovalOver(question=asked)):
                self.close_question(asked.number)
            case cmd.Tell(fact=RuleLapsed(rule=rule)):
                self.lapsed(rule)
            case _:
                pass

    def send(self, client: Client, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.handle(ev.FrameFromSession(SessionId(client.session), line))

    def control(self, client: Client, method: str, event: Any, owed: Call | str) -> None:
        """Send a control request, which the daemon turns into an event."""
        ident = f"c{next(self.numbers)}"
        client.owed[ident] = owed
        key = f'"{ident}"'.encode()
        self.prepared[client.session, key] = event(SessionId(client.session), key)
        self.send(client, {"jsonrpc": "2.0", "id": ident, "method": method})

    # -- clients -----------------------------------------------------------------------------------

    def connect(
        self,
        kind: str,
        server: str | None,
        principal: Principal,
        name: str | None,
        *,
        can_ask: bool,
    ) -> Client:
        """Have a client come; the profile of a local one is what it attaches with."""
        session = next(self.numbers)
        client = Client(session, kind, server, principal, name, can_ask)
        self.clients[session] = client
        ident = SessionId(session)
        is_local = principal.kind == "local"
        self.handle(ev.SessionOpened(ident, USER if is_local else principal))
        if kind == "control":
            return client
        if is_local:
            profile = principal.profile
            self.control(
                client,
                "mcpd/attach",
                lambda ident, key: ev.Attach(
                    ident, key, server, name, None, (), may_control=False, profile=profile
                ),
                "attach",
            )
            if session not in self.clients:
                return client
        else:
            self.handle(ev.Join(ident, server, is_brief=kind == "brief"))
        if kind == "legacy":
            client.owed["init"] = "initialize"
            params = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}} if can_ask else {},
                "clientInfo": {"name": name, "version": "1"},
            }
            self.send(
                client, {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}
            )
        return client

    def leave(self, session: int) -> None:
        """A connection ends."""
        client = self.clients.pop(session)
        for owed in client.owed.values():
            if isinstance(owed, Call):
                owed.over += 1
        self.handle(ev.SessionClosed(SessionId(session), "gone"))
        self.grants = [g for g in self.grants if g.kind != "session" or g.session != session]

    def cancel(self, client: Client, ident: str) -> None:
        owed = client.owed.pop(ident)
        if isinstance(owed, Call):
            owed.over += 1
        params = {"requestId": ident}
        self.send(client, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def to_session(self, session: int, line: bytes) -> None:
        assert session in self.clients, "a message for a session that is gone"
        client = self.clients[session]
        message = json.loads(line)
        if "method" not in message:
            self.response(client, message)
        elif "id" in message:
            self.questioned(client, message)
        elif message["method"] == "notifications/cancelled":
            number = message["params"]["requestId"]
            if number in client.forms:
                client.old_forms.append((number, client.forms.pop(number)))
            elif number in client.their_forms:
                client.their_forms.remove(number)

    def questioned(self, client: Client, message: dict[str, Any]) -> None:
        assert client.can_ask and client.kind == "legacy", "asks who cannot be asked"
        if FORGED in message["params"]["message"]:
            client.their_forms.append(message["id"])
        else:
            assert message["params"]["message"].startswith("mcpd asks:")
            client.forms[message["id"]] = 0
            self.last_form = client.session, message["id"]

    def response(self, client: Client, message: dict[str, Any]) -> None:
        owed = client.owed.pop(message["id"], None)
        assert owed is not None, f"an answer that nobody is owed: {message}"
        if "error" in message:
            error = message["error"]
            kind = str(error.get("data", {}).get("kind", error["code"]))
            TALLY[f"error {kind}"] += 1
            if isinstance(owed, Call):
                owed.over += 1
                self.justify(owed, kind, error)
            elif owed == "attach":
                self.leave(client.session)
            return
        result = message["result"]
        if owed == "initialize":
            self.send(client, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        if not isinstance(owed, Call):
            return
        if result.get("resultType") == "input_required":
            self.wants_input(client, owed, result)
            return
        owed.over += 1
        TALLY["answers"] += 1
        assert result["nonce"] in (owed.number, owed.same_as), "another call's answer"

    def wants_input(self, client: Client, call: Call, result: dict[str, Any]) -> None:
        assert client.kind in ("modern", "brief")
        asks = result.get("inputRequests", {})
        state = result.get("requestState", "")
        is_ours = "approval" in asks
        if is_ours:
            assert client.can_ask and set(asks) == {"approval"} and self.last_asked is not None
            call.handles.append((state, asks, str(self.last_asked)))
            self.questions[self.last_asked].shown_at = self.now
            TALLY["asked in a result"] += 1
        else:
            assert all(FORGED in each["params"]["message"] for each in asks.values())
            call.handles.append((state, asks, ""))
            call.parked += 1

    def justify(self, call: Call, kind: str, error: dict[str, Any]) -> None:
        """See that a refusal has a reason in the configuration."""
        entry = self.entries.get(call.server)
        if entry is None or call.method != "tools/call":
            return
        if kind == "denied":
            reason = error["data"]["reason"]
            assert reason != "pin" or entry.rules.pin == "hold", "held, and nothing is held"
            TALLY[f"denied {reason}"] += 1

    # -- servers -----------------------------------------------------------------------------------

    def to_server(self, slot: SlotId, line: bytes, wire_id: int) -> None:
        process = self.processes.get(slot)
        assert process is not None, "written to no process"
        message = json.loads(line)
        method = message.get("method")
        if method is None:
            process.questions.remove(message["id"])
            return
        if "id" not in message:
            if method == "notifications/cancelled":
                given_up = message["params"]["requestId"]
                process.open.pop(given_up, None)
                kept = [each for each in process.lists if json.loads(each)["id"] != given_up]
                process.lists[:] = kept
            return
        assert message["id"] == wire_id
        if method in ("tools/call", "resources/read", "prompts/get"):
            params = envelope.params_of(envelope.decode(line[:-1]).params)
            assert params is not None
            is_read = method == "resources/read"
            raw = bytes(params.uri if is_read else params.arguments)
            number = int(raw.strip(b'"').rpartition(b"/")[2]) if is_read else number_in(raw)
            assert number is not None
            call = self.calls[number]
            name = "" if is_read else message["params"]["name"]
            assert method == call.method and raw == call.args, "other bytes than the client's"
            self.reaches(slot, process, call, name)
            process.open[wire_id] = call
        elif process.is_slow:
            process.lists.append(line)
        else:
            self.serve(slot, line)

    def serve(self, slot: SlotId, line: bytes) -> None:
        """Answer a request of the mux itself."""
        process, message = self.processes[slot], json.loads(line)
        result: dict[str, Any] = {}
        know: Callable[[], None] = nothing
        capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
        info = {"name": process.server, "version": "1"}
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
            case "server/discover":
                process.is_modern = True
                result = {
                    "supportedVersions": [NEWEST_MODERN],
                    "capabilities": capabilities,
                    "_meta": {modern_meta.SERVER_INFO_KEY: info},
                }
            case "subscriptions/listen":
                about = {modern_meta.SUBSCRIPTION_KEY: message["id"]}
                heard = {"notifications": message["params"]["notifications"], "_meta": about}
                method = "notifications/subscriptions/acknowledged"
                self.from_server(slot, {"jsonrpc": "2.0", "method": method, "params": heard})
                return
            case "tools/list":
                forms = dict(process.forms)
                result = {"tools": [form.raw(name) for name, form in forms.items()]}
                know = partial(self.listed, process, forms)
            case "prompts/list":
                result = {"prompts": [{"name": "greet"}]}
            case "resources/list":
                result = {"resources": []}
            case "resources/templates/list":
                template = {"uriTemplate": f"{process.server}://{{n}}", "name": "n"}
                result = {"resourceTemplates": [template]}
        self.from_server(slot, {"jsonrpc": "2.0", "id": message["id"], "result": result}, know)

    def from_server(
        self, slot: SlotId, message: dict[str, Any], know: Callable[[], None] = nothing
    ) -> None:
        self.handle(ev.FrameFromServer(slot, json.dumps(message).encode()), know)

    def listed(self, process: Process, forms: dict[str, Form]) -> None:
        """A whole list comes: the first is approved."""
        process.listed = forms
        entry = self.entries.get(process.server)
        self.current[process.server] = forms
        if entry is None or entry.rules.pin == "off":
            return
        known = self.approved.get(entry.name)
        if known is None or known[0] != entry.identity:
            first = {n: f for n, f in forms.items() if n != CYRILLIC}
            is_held = entry.rules.pin == "hold"
            self.approved[entry.name] = entry.identity, first if is_held else dict(forms)

    def start(self, slot: SlotId, *, is_slow: bool = False) -> None:
        self.wanted.discard(slot)
        server = self.places[slot]
        process = self.processes[slot] = Process(server, dict(self.forms[server]))
        process.is_slow = is_slow
        self.handle(ev.ServerUp(slot))

    def lose(self, slot: SlotId) -> None:
        """A process is gone, and with it what it was asked."""
        process = self.processes.pop(slot, None)
        self.wanted.discard(slot)
        if process is not None:
            for call in process.open.values():
                call.state = "lost" if call.state == "sent" else call.state

    def go_down(self, slot: SlotId, *, is_planned: bool, comes_back: bool) -> None:
        self.lose(slot)
        if comes_back:
            self.wanted.add(slot)
        kind = "server_stopped" if is_planned else "server_crashed"
        self.handle(ev.ServerDown(slot, failure(kind), is_planned, comes_back))

    # -- the gate ----------------------------------------------------------------------------------

    def shown(self, server: str, process: Process, tool: str) -> Form | None:
        """Return the definition of a tool as clients get it."""
        entry = self.entries[server]
        form = (process.listed or {}).get(tool)
        known = self.approved.get(server)
        if entry.rules.pin != "hold" or known is None or known[0] != entry.identity:
            return form
        return None if form is None else known[1].get(tool)

    def why_held(self, entry: Entry, tool: str) -> str | None:
        """Return why nobody may call a tool, before its definition is approved."""
        known = self.approved.get(entry.name)
        if entry.rules.pin != "hold" or known is None or known[0] != entry.identity:
            return None
        approved, now = known[1].get(tool), self.current.get(entry.name, {}).get(tool)
        if approved is None:
            return "nobody has approved it"
        if now is not None and now.schema != approved.schema:
            return "its schema is not what was approved"
        return None

    def reaches(self, slot: SlotId, process: Process, call: Call, name: str) -> None:
        """A request of a client is written to a server: the moment of truth."""
        assert process.server == call.server and name == call.tool
        assert call.over < call.made, "sent although it was answered"
        call.same_as = 0  # its answer is its own
        client = self.clients.get(call.session)
        assert client is not None, "of a client that is gone"
        entry = self.entries.get(call.server)
        assert entry is not None and entry.unavailable is None, "its server is gone"
        if call.state == "sent":  # its client has made it twice: with a state that it had used
            assert len(call.handles) > 0 and call.made > 1, "sent twice"
            call.state = "new"
        where = f"{call.method} {call.server}.{call.tool} of {call.label} ({client.kind})"
        if call.method != "tools/call":
            why = why_no_other(call.principal, self.policy, entry, call.method)
            assert why is None, f"{where}: {why}"
            if call.state == "new":
                self.count_rate(call, entry)
            call.state, call.slot = "sent", slot
            return
        form = self.shown(call.server, process, call.tool)
        why = why_hidden(call.principal, self.policy, entry, call.tool, form)
        assert why is None, f"{where}: {why}"
        why = self.why_held(entry, call.tool)
        assert why is None, f"{where}: {why}"
        if call.state == "new":
            self.count_rate(call, entry)
            if is_asked(call.principal, self.policy, entry, call.tool, form):
                self.use_grant(call, entry, form, where)
        TALLY[f"reached {call.state}"] += 1
        call.state, call.slot = "sent", slot

    def use_grant(self, call: Call, entry: Entry, form: Form | None, where: str) -> None:
        refused = [each for each in self.denials if each.is_for(call, self.now)]
        found = [g for g in self.grants if g.is_for(call, entry, form)]
        waits = [g for g in found if g.kind == "call"]
        mine = [g for g in waits if g.number == self.asked_by.get(call.number)]
        assert waits or not refused, f"{where}: was refused"
        assert found, f"{where}: nobody has allowed it"
        lasting = [g for g in found if g.kind in ("session", "1h", "always")]
        used = (mine or lasting or waits or found)[0]
        TALLY[f"allowed {used.kind}"] += 1
        for other in found:  # the call may have used it up before there was another
            other.is_sure = other.is_sure and (other is used or other.kind != "late")
        if used.kind in ("call", "late"):
            self.grants.remove(used)

    def count_rate(self, call: Call, entry: Entry) -> None:
        """Count what reaches a server, of what was called since its rate is what it is."""
        for name, whose in ((("server", entry.name), 0), ("client", call.session)):
            since, number, rate = self.rated[name]
            if rate is None or call.number < number:
                continue
            self.counted[number, whose] += 1
            count, seconds = self.counted[number, whose], self.now - since
            most = rate.burst + seconds / rate.interval + 1
            assert count <= most, f"{count} calls of {name} in {seconds} s"

    # -- questions ---------------------------------------------------------------------------------

    def asked(self, asked: AskedCall) -> None:
        """A question is told of: there must be a reason for it."""
        TALLY["questions"] += 1
        known = self.questions.get(asked.number)
        if known is None:
            assert asked.number not in self.over, "a number is used twice"
            call = self.calls[number_in(asked.arguments) or 0]
            assert asked.arguments == call.args and asked.tool == call.tool
            process = self.process_of(call)
            form = None if process is None else self.shown(call.server, process, call.tool)
            known = self.questions[asked.number] = Question(asked, form)
            self.asked_by[call.number] = asked.number
            self.needed(call, form)
        known.asked = asked
        self.last_asked = asked.number
        if self.last_form is not None and "client" in asked.asked_in:
            session, ident = self.last_form
            self.last_form = None
            assert session == asked.session
            self.clients[session].forms[ident] = asked.number
            known.shown_at = self.now

    def needed(self, call: Call, form: Form | None) -> None:
        """See that nothing that is remembered answers it."""
        entry = self.entries[call.server]
        where = f"{call.server}.{call.tool} of {call.label}"
        assert is_asked(call.principal, self.policy, entry, call.tool, form), f"{where}: why?"
        assert call.value is not None
        assert not [each for each in self.denials if each.is_for(call, self.now)], f"{where}: no"
        found = [
            g for g in self.grants if g.is_for(call, entry, form) and self.now < g.until - TOLERANCE
        ]
        takers = [
            each
            for client in self.clients.values()
            for each in client.owed.values()
            if isinstance(each, Call) and each is not call and each.value == call.value
        ]  # one that waits for something else may have used a late yes already
        lasting = [
            g
            for g in found
            if g.is_sure and g.lapsed is None and g.kind != "call"
            if not (g.kind == "late" and takers)
        ]
        assert not lasting, f"{where}: asked although {lasting[0]}"

    def process_of(self, call: Call) -> Process | None:
        entry = self.entries[call.server]
        client = self.clients.get(call.session)
        key = ""
        if entry.sharing is Sharing.SESSION and client is not None:
            whose = f"{client.principal.kind} {client.principal.name}"
            key = {"control": "@control", "brief": f"@control:{whose}"}.get(
                client.kind, f"@session:{call.session}"
            )
        return self.processes.get(SlotId(entry.launch + key))

    def close_question(self, number: int) -> Question:
        question = self.questions.pop(number)
        self.over[number] = question
        return question

    def answered(self, fact: ApprovalAnswered) -> None:
        """An answer counts: somebody who may must have given it."""
        asked = fact.question
        question = self.close_question(asked.number)
        assert question.said is not None, f"a{asked.number} counts as answered by nobody"
        said, all_tools = question.said
        answer = fact.answer
        assert answer == ("once" if question.is_cut else said), "another answer"
        TALLY[f"answer {answer} {fact.applies}"] += 1
        value = value_of(asked.arguments)
        if answer == "no":
            is_all = question.no_to_session
            until = self.now + (1e9 if is_all else 600.0)
            kept = None if is_all else value
            denial = Denial(
                asked.session, asked.server, asked.tool, kept, until, next(self.numbers)
            )
            self.denials.append(denial)
            if is_all:
                self.forget_older("session", asked)
            return
        keep = self.policy.approval_keep
        is_here = asked.session in self.clients
        if fact.applies == "now":
            self.grant("call", asked, question.form, value, 1e9)
        elif (answer == "once" or (answer == "session" and not is_here)) and keep > 0:
            self.grant("late", asked, question.form, value, self.now + keep)
        if answer == "session" and is_here:
            self.remember(answer, question, all_tools)

    def remember(self, answer: str, question: Question, all_tools: bool) -> None:
        """Remember an answer for a tool, or for all tools of its server."""
        asked, until = question.asked, self.now + (3600.0 if answer == "1h" else 1e9)
        tools = {asked.tool: question.form}
        if all_tools:
            listed = self.current.get(asked.server, {})
            process = Process(asked.server, listed)
            process.listed = listed
            shown = {name: self.shown(asked.server, process, name) for name in listed}
            everything = {name: form for name, form in shown.items() if form is not None}
            tools = everything if asked.tool in everything else tools
        for tool, form in tools.items():
            new = self.grant(answer, structs.replace(asked, tool=tool), form, None, until)
            new.is_sure = tool == asked.tool
            if answer == "session":
                self.drop_older(new)
                self.denials = [
                    d
                    for d in self.denials
                    if d.value is not None
                    or (d.session, d.server, d.tool) != (asked.session, asked.server, tool)
                ]

    def drop_older(self, new: Grant) -> None:
        """An answer that is remembered takes the place of older ones for the same."""
        older = self.grants[: self.grants.index(new)]
        same = [g for g in older if g.key == new.key and g.kind not in ("call", "late")]
        self.grants = [g for g in self.grants if not any(g is each for each in same)]

    def forget_older(self, kind: str, asked: AskedCall) -> None:
        mine = (asked.session, asked.server, asked.tool)
        self.grants = [
            g for g in self.grants if g.kind != kind or (g.session, g.server, g.tool) != mine
        ]

    def grant(
        self, kind: str, asked: AskedCall, form: Form | None, value: str | None, until: float
    ) -> Grant:
        new = Grant(
            kind, asked.session, asked.principal, asked.client, asked.server, asked.identity,
            asked.tool, form, value, until, self.now, number=asked.number,
        )  # fmt: skip
        self.grants.append(new)
        return new

    def lapsed(self, rule: Rule) -> None:
        for grant in self.grants:
            mine = (grant.label, grant.server, grant.tool)
            is_its = mine == (rule.principal, rule.server, rule.tool) and grant.kind == rule.answer
            if is_its and (not rule.session or rule.session == grant.session):
                grant.lapsed = next(self.numbers) if grant.lapsed is None else grant.lapsed

    # -- the disk ----------------------------------------------------------------------------------

    def keep(self, command: cmd.KeepRules) -> None:
        """Write the rules: at once, later, or not at all."""
        for grant in self.grants:
            if grant.kind in ("1h", "always") and grant.ticket == 0:
                grant.ticket = command.ticket
        for question in self.questions.values():
            if question.ticket == 0:
                question.ticket = command.ticket
        self.writes.append(command)
        if self.disk_is != "slow":
            self.write()

    def write(self) -> None:
        command = self.writes.popleft()
        is_full = self.disk_is == "full"
        if not is_full:
            self.disk = command.rules
        kept = ev.RulesKept(command.ticket, "it is full" if is_full else None)
        self.handle(kept, partial(self.written, command, is_full=is_full))

    def written(self, command: cmd.KeepRules, *, is_full: bool) -> None:
        mine = [g for g in self.grants if g.ticket == command.ticket]
        if is_full:
            self.grants = [g for g in self.grants if g not in mine]
            for question in self.questions.values():
                if question.ticket == command.ticket:
                    question.said = question.said if question.by_client else None
                    question.is_cut = question.by_client
                    question.ticket = None
        else:
            for grant in mine:
                grant.ticket = None
                self.drop_older(grant)

    # -- records -----------------------------------------------------------------------------------

    def recorded(self, ended: cmd.CallEnded) -> None:
        TALLY[f"ended {ended.outcome}"] += 1
        raw = b"" if ended.arguments is None else bytes(ended.arguments)
        is_read = ended.method == "resources/read"
        number = int(raw.strip(b'"').rpartition(b"/")[2]) if is_read else number_in(raw)
        call = self.calls[number or 0]
        call.recorded += 1
        if call.state == "new" and ended.approval:  # it was let through, and has not been sent
            used = [g for g in self.grants if g.kind == "late" and g.number == ended.approval]
            self.grants = [g for g in self.grants if g not in used[:1]]
        assert ended.server in ("", call.server) and ended.principal.label == call.label

    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until


def failure(kind: str) -> Failure:
    return Failure(kind, kind, None, True)


__all__ = ["SERVERS", "TOOLS", "World"]

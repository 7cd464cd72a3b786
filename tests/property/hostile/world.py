"""The mux between hostile peers and good ones, each of its reactions timed."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mcpd.api.requests import AttachParams
from mcpd.core.facts import Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.daemon.control.handlers import METHODS
from mcpd.ids import SessionId, SlotId
from mcpd.listeners.control import ATTACH
from mcpd.listeners.requests import ControlRequests, ForMux, Request, read
from tests.property.hostile.messages import CLIENT, SERVER, Seen
from tests.property.hostile.strategies import Burst
from tests.support.transcript import Conversation

BAD: Final = ("bad", "worse")
"""The hostile servers, a legacy one and a modern one."""

SESSIONS: Final = {"1": "bad", "2": "worse", "3": "", "4": "bad", "5": "worse", "6": ""}
"""The hostile sessions, with their endpoints."""

GOOD: Final = "9"

MOST: Final = {
    "owed": 1000,
    "streams": 1000,
    "listens": 1000,
    "parked": 1000,
    "questions": 256,
    "subscriptions": 1000,
}
"""Of one session, or for ``questions`` of one process: what the tables may hold."""


def _without_daemon() -> ControlRequests:
    """Return the control methods, with handlers only for those that the mux answers."""

    def nothing(_handlers: object, _request: Request, _params: object) -> dict[str, object]:
        return {}

    ours = ("call", "tools", "prompts", "resources", "read", "prompt")
    methods = [
        each if each.name.removeprefix("mcpd/") in ours else each._replace(handler=nothing)
        for each in METHODS
    ]
    return ControlRequests(methods, None)


class Hostile(Conversation):
    """A good session on a good server; all others are hostile."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        """Seconds of each reaction."""
        self.slowest: tuple[float, str] = (0.0, "")
        self.messages = 0
        self.seen = {name: Seen() for name in (*BAD, *SESSIONS)}
        self.running: set[SlotId] = set()
        """Places with a process: none is started there until it has ended."""
        self.places: dict[SlotId, str] = {}
        self.wanted: deque[SlotId] = deque()
        self._good: list[Any] = []
        self._events: deque[tuple[Callable[[], ev.Event], str]] = deque()
        self._echoes = 0
        self._requests = _without_daemon()
        self.do_server("good")
        self.do_server("bad", "queue_timeout=1", "question_wait=1")
        self.do_server("worse", "era=modern", "max_concurrency=5", "queue_timeout=1")
        for name in ("good", *BAD):
            self.do_start(name)
        for name, server in SESSIONS.items():
            version = ("2025-03-26", "2025-11-25")[int(name) % 2]
            self.do_join(name, server, "elicitation", "sampling", version)
        self.do_join(GOOD, "good")

    # -- one event -------------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        """Have the mux react, and time it; then do what it asks, as the daemon does."""
        done: list[cmd.Command] = []
        waiting: deque[ev.Event] = deque([event])
        while waiting:
            event = waiting.popleft()
            if isinstance(event, ev.ServerDown):
                self.running.discard(event.slot)
            elif isinstance(event, ev.ServerUp):
                self.running.add(event.slot)
            began = time.perf_counter()
            commands = self.mux.handle(event, self.now)
            self.mux.next_deadline()
            took = time.perf_counter() - began
            self.times.append(took)
            if took > self.slowest[0]:
                self.slowest = took, repr(event)[:300]
            for command in commands:
                waiting.extend(self._perform(command))
            done += commands
        return done

    def _perform(self, command: cmd.Command) -> list[ev.Event]:
        match command:
            case cmd.OpenSlot():
                self.places[command.slot] = command.server
                self.slots[command.server if command.key is None else command.slot] = command.slot
            case cmd.CloseSlot():
                self.places.pop(command.slot, None)
                failure = Failure("server_stopped", "stopped", None, True)
                return [ev.ServerDown(command.slot, failure, True, False)]
            case cmd.Want():
                self.wanted.append(command.slot)
            case cmd.StartOver():
                self.wanted.append(command.slot)
                failure = Failure("server_stopped", "stopped", None, True)
                return [ev.ServerDown(command.slot, failure, True, True)]
            case cmd.StartRefused():
                return [ev.ServerDown(command.slot, command.failure, False, False)]
            case cmd.Validate():
                return [ev.Validated(command.ticket, ())]
            case cmd.ToServer():
                return self._at_server(command)
            case cmd.ToSession():
                self._at_session(str(command.session), command.data)
            case cmd.Control():
                return self._control(command)
            case _:
                pass
        return []

    def _at_server(self, command: cmd.ToServer) -> list[ev.Event]:
        name = self.places.get(command.slot, "")
        if name != "good":
            if name in self.seen:
                self.seen[name].hear(command.data)
            return []
        message = json.loads(command.data)
        if message.get("method") != "tools/call":
            return []
        result = {"echoed": message["params"]["arguments"]}
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return [ev.FrameFromServer(command.slot, answer.encode())]

    def _at_session(self, name: str, data: Any) -> None:
        line = b"".join(map(bytes, data)) if isinstance(data, tuple) else bytes(data)
        if name == GOOD:
            self._good.append(json.loads(line))
        elif name in self.seen:
            self.seen[name].hear(line)

    def _control(self, command: cmd.Control) -> list[ev.Event]:
        """Serve a request as the daemon does; what the mux does not answer gets an empty result."""
        session, key = command.session, command.key
        if command.method == ATTACH:
            params = read(ATTACH, AttachParams, command.params)
            if isinstance(params, Failure):
                return [ev.ControlDone(session, key, failure=params)]
            server, roots = params.server, params.roots
            return [ev.Attach(session, key, server, None, None, roots, params.control)]
        answer = self._requests.serve(
            Request(
                command.method,
                command.params,
                principal=command.principal,
                session=session,
                key=key,
                notify=lambda _method, _params: None,
                refuse_stream=lambda: None,
            )
        )
        if isinstance(answer, ForMux):
            return [answer]
        if isinstance(answer, Failure):
            return [ev.ControlDone(session, key, failure=answer)]
        is_stream = command.method == "mcpd/events"
        return [ev.ControlDone(session, key, b"{}", None, is_stream=is_stream)]

    # -- what happens ----------------------------------------------------------------------------

    def burst(self, burst: Burst) -> None:
        """Have a hostile peer do what it does; the good session does not notice."""
        who = burst.who
        kinds = CLIENT if who in SESSIONS else SERVER
        for line in burst.lines(kinds, self.seen[who]):
            self.messages += 1
            if not line.strip() or b"\n" in line:
                continue  # the framer takes it apart, or drops it
            if who in SESSIONS:
                self.handle(ev.FrameFromSession(SessionId(int(who)), line))
            else:
                self.handle(ev.FrameFromServer(self.slot(who), line))
        self.echo()
        self.look()

    def crash(self, who: str) -> None:
        """A hostile process dies, and is to come back."""
        failure = Failure("server_crashed", "crashed", who, True)
        self.handle(ev.ServerDown(self.slot(who), failure, False, True))
        self.wanted.append(self.slot(who))

    def leave(self, who: str) -> None:
        """A hostile client hangs up, and is back at once."""
        self.do_close(who)
        self.seen[who] = Seen()
        self.do_join(who, SESSIONS[who], "elicitation", "2025-03-26")

    def go_on(self, seconds: float) -> None:
        """Let time pass; processes that are wanted come up and shake hands."""
        while self.wanted:
            slot = self.wanted.popleft()
            if slot in self.places and slot not in self.running:
                self.handle(ev.ServerUp(slot))
                self._greet(slot)
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until

    def _greet(self, slot: SlotId) -> None:
        """Answer what a process is asked first, as a good one would: else nothing would follow."""
        name = self.places.get(slot, "")
        seen = self.seen.get(name)
        for _ in range(8):
            if seen is None or not seen.asked:
                return
            which = seen.asked.pop()
            result: dict[str, Any] = {
                "resultType": "complete",
                "protocolVersion": "2025-11-25",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                "serverInfo": {"name": name, "version": "1"},
                "tools": [{"name": each} for each in ("echo", "write", "run", "hang")],
                "resources": [],
                "prompts": [],
                "resourceTemplates": [],
            }
            answer = {"jsonrpc": "2.0", "id": which, "result": result}
            self.handle(ev.FrameFromServer(slot, json.dumps(answer).encode()))

    # -- what must hold --------------------------------------------------------------------------

    def echo(self) -> None:
        """The good session gets its own answer, and nothing else."""
        self._echoes += 1
        text = f"echo {self._echoes}"
        params = {"name": "echo", "arguments": {"text": text}}
        request = {"jsonrpc": "2.0", "id": self._echoes, "method": "tools/call", "params": params}
        self._good.clear()
        self.handle(ev.FrameFromSession(SessionId(int(GOOD)), json.dumps(request).encode()))
        result = {"echoed": {"text": text}}
        assert self._good == [{"jsonrpc": "2.0", "id": self._echoes, "result": result}], self._good

    def look(self) -> None:
        """No table holds more than its bound."""
        sizes = self.mux.table_sizes()
        for name, most in MOST.items():
            times = len(BAD) if name == "questions" else len(SESSIONS) + 1
            assert sizes[name] <= most * times, (name, sizes)

    def end(self) -> None:
        """Everybody leaves, and nothing is kept."""
        for name in (*SESSIONS, GOOD):
            self.do_close(name)
        for name in ("good", *BAD):
            failure = Failure("server_stopped", "stopped", name, True)
            self.handle(ev.ServerDown(self.slot(name), failure, True, False))
        self.wanted.clear()
        for _ in range(4):
            self.now += 1000.0
            self.handle(ev.Tick())
        assert {k: v for k, v in self.mux.table_sizes().items() if v} == {}

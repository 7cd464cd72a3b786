"""The front on a real core, in memory: servers that answer when they are told to, and their clients."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry
from mcpd.daemon.downstream import Outbox, Sessions
from mcpd.daemon.http.core import HttpCore
from mcpd.ids import SessionId, SlotId
from tests.support.asgi import Front
from tests.support.transcript import Conversation, stock_answer
from tests.support.virtualtime import VirtualLoop, settle

Json = dict[str, Any]

SERVERS: Final = {"plain": (), "asking": ("interactive=exclusive",), "modern": ("era=modern",)}
SOCKETS: Final = {"1001": "plain", "1002": "asking", "1003": "modern", "1004": ""}
"""Sessions on the socket, with their endpoints."""


class Call:
    """A call that a server has read and not answered."""

    def __init__(self, server: str, slot: SlotId, message: Json) -> None:
        self.server = server
        self.slot = slot
        self.wire_id: int = message["id"]
        params = message["params"]
        self.tag: int = params["arguments"]["tag"]
        self.token = params.get("_meta", {}).get("progressToken")
        self.progress = 0
        self.questions: list[str] = []
        self.is_cancelled = False


class _Registry:
    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries.values())


class World(Conversation):
    """One daemon without processes and sockets."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.calls: list[Call] = []
        self.answered: list[int] = []
        """Tags of the calls that a server has answered."""
        self.questions: dict[str, str] = {}
        """What came of each question: ``open``, or the answer."""
        self.written: dict[str, list[tuple[str, Json | list[Json], bool]]] = {}
        """What the core has said to each session: the request's key, and whether it answers it."""
        self.outboxes: dict[SessionId, Outbox] = {}
        self._events: deque[ev.Event] = deque()
        self._is_busy = self._is_live = False
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0
        for name, fields in SERVERS.items():
            self.do_server(name, *fields)
            self.do_start(name)
        for session, server in SOCKETS.items():
            self.do_join(session, server)
        self._is_live = True
        registry = _Registry(self.entries)
        self.core = HttpCore(self.mux, Sessions(self), registry, self._ended)  # type: ignore[arg-type]
        self.front = Front(self.core, memory=self.mux.memory, **settings)

    def _ended(self, session: SessionId) -> None:
        self.front.stateless.closed(session)

    # -- time --------------------------------------------------------------------------------------

    def go(self, what: Coroutine[Any, Any, Any]) -> Any:
        """Have something happen, and everything that follows at once."""

        async def all_of_it() -> Any:
            found = await what
            await settle()
            return found

        return self.loop.run_until_complete(all_of_it())

    def end(self) -> None:
        """Stop everything."""
        self.front.close()
        if self._timer is not None:
            self._timer.cancel()
        self.go(settle())
        left = asyncio.all_tasks(self.loop)
        self.loop.close()
        assert not left, left

    # -- the daemon --------------------------------------------------------------------------------

    def dispatch(self, event: ev.Event) -> None:
        """Have the core react, as the daemon does."""
        self.handle(event)

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        """Have the core react, and do what it asks."""
        if not self._is_live:
            return super().handle(event)
        self._events.append(event)
        if self._is_busy:
            return []
        self._is_busy = True
        try:
            while self._events:
                self.now = 100.0 + self.loop.time()
                for command in self.mux.handle(self._events.popleft(), self.now):
                    self._perform(command)
        finally:
            self._is_busy = False
        self._arm()
        return []

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self.mux.next_deadline()
        if due is not None:
            self._timer = self.loop.call_at(due - 100.0, self.handle, ev.Tick())

    def _perform(self, command: cmd.Command) -> None:
        match command:
            case cmd.ToSession():
                self._to_session(command)
            case cmd.SessionElements():
                self.outboxes[command.session].bring(command.elements)
            case cmd.CloseSession():
                self.outboxes[command.session].close(command.reason)
            case cmd.KeepSession():
                self.core.keep(command)
            case cmd.Validate():
                self._events.append(ev.Validated(command.ticket, ()))
            case cmd.ToServer():
                self._to_server(command)
            case _:
                pass

    def _to_session(self, command: cmd.ToSession) -> None:
        data = command.data
        line = data if isinstance(data, bytes) else b"".join(map(bytes, data))
        said = (command.request.decode(), json.loads(line), command.is_response)
        self.written.setdefault(str(command.session), []).append(said)
        outbox = self.outboxes.get(command.session)
        if outbox is not None:
            outbox.write(data, request=command.request, is_response=command.is_response)

    # -- the servers -------------------------------------------------------------------------------

    def _to_server(self, command: cmd.ToServer) -> None:
        server = self._name(command.slot)
        message = json.loads(command.data)
        match message:
            case {"method": "tools/call", "id": _}:
                self.calls.append(Call(server, command.slot, message))
            case {"method": "notifications/cancelled", "params": {"requestId": wire_id}}:
                for call in self.calls:
                    if (call.slot, call.wire_id) == (command.slot, wire_id):
                        call.is_cancelled = True
            case {"method": str(), "id": ident}:
                answer = stock_answer(server, message, ())
                self.loop.call_soon(self._from, command.slot, answer or _result(ident))
            case {"id": str(question)}:
                assert self.questions.get(question) == "open", "a question is answered twice"
                self.questions[question] = json.dumps(message.get("result", "refused"))
            case _:
                pass

    def _from(self, slot: SlotId, message: Json | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.handle(ev.FrameFromServer(slot, data))

    def answer(self, call: Call) -> None:
        """Have a server answer a call; after its cancellation that is too late."""
        self.calls.remove(call)
        for question in call.questions:
            if self.questions[question] == "open":
                cancelled = {"requestId": question, "reason": "it is answered"}
                self._from(call.slot, _notification("notifications/cancelled", cancelled))
                self.questions[question] = "withdrawn"
        result = {"content": [], "structuredContent": {"tag": call.tag}}
        if call.server == "modern":
            result["resultType"] = "complete"
        self.answered.append(call.tag)
        self._from(call.slot, {"jsonrpc": "2.0", "id": call.wire_id, "result": result})

    def report(self, call: Call) -> None:
        """Have a server report progress."""
        call.progress += 1
        text = f"progress {call.tag} {call.progress}"
        params = {"progressToken": call.token, "progress": call.progress, "message": text}
        self._from(call.slot, _notification("notifications/progress", params))

    def ask(self, call: Call) -> None:
        """Have a server ask something for a call."""
        question = f"question {call.tag} {len(call.questions) + 1}"
        call.questions.append(question)
        self.questions[question] = "open"
        params = {"message": question, "requestedSchema": {"type": "object", "properties": {}}}
        self._from(call.slot, {"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params})  # fmt: skip

    def tell(self, server: str) -> None:
        """Have a server say something that belongs to no call."""
        self._told += 1
        params = {"level": "error", "data": f"told {self._told}"}
        self._from(self.slot(server), _notification("notifications/message", params))


def _result(ident: Any) -> Json:
    return {"jsonrpc": "2.0", "id": ident, "result": {}}


def _notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}

"""The world around the mux: what its commands do, and how processes come and go."""

from __future__ import annotations

import json

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.ids import SlotId
from tests.property.model.downward import Downward
from tests.property.model.ground import failure
from tests.property.model.peers import Process
from tests.property.model.upward import Upward


class World(Downward, Upward):
    """Clients, processes, and the mux between them."""

    def perform(self, command: cmd.Command) -> None:
        match command:
            case cmd.ToSession():
                self.to_session(command.session, command.data)
            case cmd.ToServer():
                self.to_server(command.slot, command.data, command.wire_id)
            case cmd.SessionElements():
                for element in command.elements:
                    self.send(command.session, element)
            case cmd.ServerElements():
                for element in command.elements:
                    self.from_server(command.slot, element)
            case cmd.CloseSession():
                raise AssertionError(f"a session was closed: {command.reason}")
            case cmd.OpenSlot():
                self.places[command.slot] = (command.server, command.key)
            case cmd.CloseSlot():
                self.forget_process(command.slot)
                self.closed[command.slot] = self.places.pop(command.slot)
                self.handle(ev.ServerDown(command.slot, failure("server_stopped"), True, False))
            case cmd.Want() if self.is_ending:
                self.handle(ev.ServerDown(command.slot, failure("crash_loop"), False, False))
            case cmd.Want():
                self.wanted.add(command.slot)
            case cmd.Probing() if command.is_on:
                self.probing[command.slot] = False
            case cmd.Probing():
                self.probing.pop(command.slot, None)
            case cmd.StartOver():
                self.start_afresh(command.slot)
            case cmd.StartRefused():
                self.forget_process(command.slot)
                self.handle(ev.ServerDown(command.slot, command.failure, False, False))
            case cmd.Ready():
                self.again.pop(command.slot, None)
            case cmd.Validate():
                self.tickets.append(command.ticket)
            case cmd.Control():
                self.control(command)
            case _:
                pass

    def control(self, command: cmd.Control) -> None:
        params = json.loads(command.params or b"{}")
        if command.method == "mcpd/call":
            self.handle(
                ev.CallTool(
                    command.session,
                    command.key,
                    params["server"],
                    params["tool"],
                    json.dumps(params["arguments"]).encode(),
                    params.get("timeout"),
                    params["progress"],
                )
            )

    def start(self, slot: SlotId) -> None:
        self.wanted.discard(slot)
        server = self.places[slot][0]
        process = self.processes[slot] = Process(server, self.natures[server])
        process.told = self.declared_to(slot)
        self.handle(ev.ServerUp(slot))

    def start_afresh(self, slot: SlotId) -> None:
        """The mux wants another process in the same attempt to start."""
        self.count_again(slot)
        self.forget_process(slot)
        self.wanted.add(slot)
        self.handle(ev.ServerDown(slot, failure("server_stopped"), True, True))

    def count_again(self, slot: SlotId) -> None:
        self.again[slot] = self.again.get(slot, 0) + 1
        assert self.again[slot] <= 3, "an attempt to start took more than four processes"

    def forget_process(self, slot: SlotId) -> None:
        """It is gone, and with it all that it was asked and has asked."""
        process = self.processes.pop(slot, None)
        self.clogged.discard(slot)
        self.wanted.discard(slot)
        self.probing.pop(slot, None)
        if process is None:
            return
        for work in process.open.values():
            if work.call is not None:
                work.call.place = None
                work.call.is_parked = False
        for client in self.clients.values():
            gone = [k for k, q in client.questions.items() if q in process.questions.values()]
            for key in gone:
                client.withdrawn[key] = client.questions.pop(key)

    def lose(self, slot: SlotId, *, is_planned: bool, comes_back: bool) -> None:
        """A process ends, or does not begin."""
        kind = "server_stopped" if is_planned else "server_crashed"
        if slot in self.probing and slot in self.processes and not is_planned:
            self.count_again(slot)  # it may have died of what it was asked: that is no crash
            is_planned = comes_back = True
        else:
            self.again.pop(slot, None)
        self.forget_process(slot)
        if comes_back:
            self.wanted.add(slot)
        self.handle(ev.ServerDown(slot, failure(kind), is_planned, comes_back))

    def time_passes(self, seconds: float) -> None:
        """Wait, and have everything happen that is due."""
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until

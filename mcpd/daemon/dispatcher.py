"""Events into the mux, its commands into effects, synchronously and in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from mcpd import tasks
from mcpd.core.mux import commands as cmd
from mcpd.core.mux.commands import Command
from mcpd.core.mux.events import Event, FrameFromServer, Tick, WriteRefused
from mcpd.core.mux.mux import Mux
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.daemon.clock import Clock
from mcpd.ids import SessionId, SlotId
from mcpd.listeners.connection import Connection
from mcpd.upstreams.stdio.pipes import Pipes
from mcpd.upstreams.supervisor import Supervisor


class Dispatcher:
    """The one place where events enter the mux.

    Invariant: no ``await`` between an event and its commands, and none of them is performed
    before those of an earlier event: what performing one brings about waits for its turn.
    """

    def __init__(self, mux: Mux, clock: Clock) -> None:
        self.mux = mux
        self.supervisor: Supervisor
        self.connections: dict[SessionId, Connection] = {}
        self.pipes: dict[SlotId, Pipes] = {}
        self.on_quiet: Callable[[], None] | None = None
        """Called after each event and its effects, while somebody waits for the end of calls."""
        self._clock = clock
        self._events: deque[Event] = deque()
        self._is_busy = False
        self._timer_at = math.inf
        self._mux_effects = mux.effects
        self._effects: dict[type[Any], Callable[[Any], None]] = {
            cmd.ToSession: self._to_session,
            cmd.ToServer: self._to_server,
            cmd.SessionElements: self._session_elements,
            cmd.ServerElements: self._server_elements,
            cmd.CloseSession: self._close_session,
            cmd.OpenSlot: self._open_slot,
            cmd.CloseSlot: self._close_slot,
            cmd.Want: lambda c: self.supervisor.want(c.slot),
            cmd.Busy: lambda c: self.supervisor.busy(c.slot),
            cmd.Idle: lambda c: self.supervisor.idle(c.slot),
            cmd.Ready: lambda c: self.supervisor.ready(c.slot, c.version),
            cmd.Probing: lambda c: self.supervisor.probing(c.slot, is_on=c.is_on),
            cmd.Afresh: lambda c: self.supervisor.afresh(c.slot, c.reason),
            cmd.StartRefused: lambda c: self.supervisor.refuse_start(c.slot, c.failure),
            cmd.Answered: lambda c: self.supervisor.answered(c.slot),
        }

    def route(self, kind: type[Command], effect: Callable[[Any], None]) -> None:
        """Have ``effect`` do what commands of this kind ask for."""
        self._effects[kind] = effect

    def dispatch(self, event: Event) -> None:
        """Let the mux react, then do what it asks, in order and without awaiting."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        effects, now = self._effects, self._clock.now()
        handle = self.mux.handle
        while self._events:
            commands = tasks.attempt(handle, self._events.popleft(), now)
            if commands:
                tasks.attempt_each(effects, commands)
        self._is_busy = False
        if self._mux_effects.soonest < self._timer_at or self.supervisor.is_stale:
            self.arm()
        if self.on_quiet is not None:
            self.on_quiet()

    def arm(self) -> None:
        """Have the one timer go off when the mux or a server is due.

        One that goes off too early, since what it was for is over, costs less than moving it
        with each call.
        """
        due, other = self.mux.next_deadline(), self.supervisor.next_deadline()
        if due is None or (other is not None and other < due):
            due = other
        if due is None or self._timer_at <= due:
            return
        self._timer_at = due
        self._clock.call_at(due, self._tick)

    def frame_from(self, slot: SlotId) -> Callable[[Frame | Oversized], None]:
        """Return what takes the lines of the process in a slot."""
        dispatch = self.dispatch

        def take(frame: Frame | Oversized) -> None:
            dispatch(FrameFromServer(slot, frame))

        return take

    def unfinished(self, slot: SlotId) -> tuple[bytes, int]:
        """Return how a line of a process begins that has no end yet, and its bytes so far."""
        pipes = self.pipes.get(slot)
        return (b"", 0) if pipes is None else pipes.unfinished()

    def close(self) -> None:
        """Let no timer go off any more."""
        self._clock.cancel()

    def _tick(self) -> None:
        self._timer_at = math.inf
        self.supervisor.tick(self._clock.now())
        self.dispatch(Tick())
        self.arm()  # what is due later than this has not moved, so nobody said so

    def _open_slot(self, command: cmd.OpenSlot) -> None:
        self.supervisor.open(command)

    def _close_slot(self, command: cmd.CloseSlot) -> None:
        self.pipes.pop(command.slot, None)
        self.supervisor.close(command.slot, command.reason)

    def _to_session(self, command: cmd.ToSession) -> None:
        connection = self.connections.get(command.session)
        if connection is not None:
            connection.write(command.data, is_notification=command.is_notification)

    def _to_server(self, command: cmd.ToServer) -> None:
        pipes = self.pipes.get(command.slot)
        wire_id = command.wire_id
        if pipes is not None and not pipes.write(command.data, wire_id, cancels=command.cancels):
            self.dispatch(WriteRefused(command.slot, wire_id, not pipes.is_open))

    def _session_elements(self, command: cmd.SessionElements) -> None:
        connection = self.connections.get(command.session)
        if connection is not None:
            connection.bring(command.elements)

    def _server_elements(self, command: cmd.ServerElements) -> None:
        pipes = self.pipes.get(command.slot)
        if pipes is not None:
            pipes.bring(command.elements)

    def _close_session(self, command: cmd.CloseSession) -> None:
        connection = self.connections.get(command.session)
        if connection is not None:
            connection.close(command.reason)

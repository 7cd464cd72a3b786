"""Events into the mux and its commands carried out, synchronously and in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from mcpd import tasks
from mcpd.core.interface import commands as cmd
from mcpd.core.interface.commands import Command
from mcpd.core.interface.events import Event, FrameFromServer, Tick, WriteRefused
from mcpd.core.mux.mux import Mux
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.daemon.clock import Clock
from mcpd.daemon.downstream import Outbox
from mcpd.ids import SessionId, SlotId
from mcpd.upstreams.run import Channel, Frames
from mcpd.upstreams.supervisor import Supervisor


class Dispatcher:
    """The one place where events enter the mux.

    Invariant: no ``await`` between an event and its commands. The commands of an event are
    carried out before the next event is handled: an event that a command causes is queued.
    """

    def __init__(self, mux: Mux, clock: Clock) -> None:
        self.mux = mux
        self.outboxes: dict[SessionId, Outbox] = {}
        """Where the messages for each session go."""
        self.channels: dict[SlotId, Channel] = {}
        """What carries messages to the server of each slot."""
        self.on_quiet: Callable[[], None] | None = None
        """Called after each event and its commands, while the daemon waits for calls to end."""
        self._clock = clock
        self._supervisor: Supervisor
        self._events: deque[Event] = deque()
        self._is_busy = False
        self._timer_at = math.inf
        self._timers = mux.context
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            cmd.ToSession: self._to_session,
            cmd.ToServer: self._to_server,
            cmd.Introduced: self._introduced,
            cmd.SessionElements: self._session_elements,
            cmd.ServerElements: self._server_elements,
            cmd.CloseSession: self._close_session,
        }

    def route(self, handlers: Mapping[type[Command], Callable[[Any], None]]) -> None:
        """Have commands of these kinds carried out by ``handlers``."""
        self._handlers |= handlers

    def connect(self, supervisor: Supervisor) -> None:
        """Have the supervisor start and stop servers.

        Called once, after both exist: the supervisor causes events, and events cause commands.
        """
        self._supervisor = supervisor
        self.route(
            {
                cmd.OpenSlot: supervisor.open,
                cmd.CloseSlot: lambda c: supervisor.close(c.slot, c.reason),
                cmd.Want: lambda c: supervisor.want(c.slot),
                cmd.Busy: lambda c: supervisor.busy(c.slot),
                cmd.Idle: lambda c: supervisor.idle(c.slot),
                cmd.Ready: lambda c: supervisor.ready(c.slot, c.version),
                cmd.Probing: lambda c: supervisor.probing(c.slot, is_on=c.is_on),
                cmd.StartOver: lambda c: supervisor.start_over(c.slot, c.reason),
                cmd.StartRefused: lambda c: supervisor.refuse_start(c.slot, c.failure),
                cmd.Answered: lambda c: supervisor.answered(c.slot),
            }
        )

    def dispatch(self, event: Event) -> None:
        """Let the mux react, then carry out its commands, in order and without awaiting."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        handlers, now = self._handlers, self._clock.now()
        handle = self.mux.handle
        while self._events:
            commands = tasks.attempt(handle, self._events.popleft(), now)
            if commands:
                tasks.attempt_each(handlers, commands)
        self._is_busy = False
        if self._timers.soonest < self._timer_at or self._supervisor.is_stale:
            self.arm()
        if self.on_quiet is not None:
            self.on_quiet()

    def arm(self) -> None:
        """Set the one timer for the next deadline of the mux or the supervisor.

        A timer that goes off too early, because its deadline was removed, costs less than moving
        it with each call.
        """
        due, other = self.mux.next_deadline(), self._supervisor.next_deadline()
        if due is None or (other is not None and other < due):
            due = other
        if due is None or self._timer_at <= due:
            return
        self._timer_at = due
        self._clock.call_at(due, self._tick)

    def frames_from(self, slot: SlotId) -> Frames:
        """Return what takes the frames of the server in a slot."""
        dispatch = self.dispatch

        def take(frame: Frame | Oversized) -> None:
            dispatch(FrameFromServer(slot, frame))

        return take

    def unfinished(self, slot: SlotId) -> tuple[bytes, int]:
        """Return the beginning of a server's frame that has not ended, and its bytes so far."""
        channel = self.channels.get(slot)
        return (b"", 0) if channel is None else channel.unfinished()

    def close(self) -> None:
        """Cancel the timer."""
        self._clock.cancel()

    def _tick(self) -> None:
        self._timer_at = math.inf
        self._supervisor.tick(self._clock.now())
        self.dispatch(Tick())
        self.arm()  # a deadline later than this one has not moved, so nothing has set the timer

    def _to_session(self, command: cmd.ToSession) -> None:
        outbox = self.outboxes.get(command.session)
        if outbox is not None:
            outbox.write(
                command.data,
                is_notification=command.is_notification,
                request=command.request,
                is_response=command.is_response,
            )

    def _to_server(self, command: cmd.ToServer) -> None:
        channel = self.channels.get(command.slot)
        wire_id = command.wire_id
        if channel is not None and not channel.write(
            command.data, wire_id, cancels=command.cancels, routing=command.routing
        ):
            self.dispatch(WriteRefused(command.slot, wire_id, not channel.is_open))

    def _introduced(self, command: cmd.Introduced) -> None:
        self._supervisor.introduced(command.slot)
        channel = self.channels.get(command.slot)
        if channel is not None:
            channel.introduced(command.version)

    def _session_elements(self, command: cmd.SessionElements) -> None:
        outbox = self.outboxes.get(command.session)
        if outbox is not None:
            outbox.bring(command.elements)

    def _server_elements(self, command: cmd.ServerElements) -> None:
        channel = self.channels.get(command.slot)
        if channel is not None:
            channel.bring(command.elements)

    def _close_session(self, command: cmd.CloseSession) -> None:
        outbox = self.outboxes.get(command.session)
        if outbox is not None:
            outbox.close(command.reason)

"""Feeds the lifecycle machines and carries out their actions, whatever carries their servers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, assert_never

from mcpd import tasks
from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.core.interface.events import (
    ProbeRead,
    RequestFailed,
    ServerDown,
    ServerUp,
    WriteRefused,
)
from mcpd.core.interface.failures import with_details
from mcpd.core.lifecycle.actions import Action, Down, End, Spawn, StateChanged
from mcpd.core.lifecycle.machine import AfterStop
from mcpd.core.lifecycle.states import State
from mcpd.core.mcp.versions import era_of
from mcpd.ids import SlotId
from mcpd.redact import Redactor
from mcpd.upstreams.failures import is_clean_exit, masked
from mcpd.upstreams.host import NotStarted, UpstreamHost
from mcpd.upstreams.run import Backend, Channel, Frames, Run
from mcpd.upstreams.slot import Slot, Slots
from mcpd.upstreams.starts import Starts
from mcpd.upstreams.steps import Steps

HURRIED_GRACE_S: Final = 0.2
"""Seconds to end when the daemon hurries, or when the next process of a start waits for it."""


class Log(Protocol):
    """The log of one server."""

    @property
    def redactor(self) -> Redactor:
        """What masks the server's secrets."""

    def add(self, source: str, text: str) -> None:
        """Write a line."""


class Servers(Protocol):
    """What the supervisor asks of the registry."""

    def backend(self, slot: SlotId) -> Backend | None:
        """Return how to reach the server of a slot, ``None`` where its entry is gone."""

    def log(self, name: str) -> Log:
        """Return a server's log."""


class Events(Protocol):
    """What the supervisor asks of the dispatcher."""

    @property
    def channels(self) -> MutableMapping[SlotId, Channel]:
        """What carries frames to the server of each slot."""

    def dispatch(
        self, event: ServerUp | ServerDown | ProbeRead | WriteRefused | RequestFailed
    ) -> None:
        """Let the mux react, before anything else happens to the slot."""

    def arm(self) -> None:
        """Set the timer for the next deadline, which may be another one now."""

    def frames_from(self, slot: SlotId) -> Frames:
        """Return what takes the frames of the server in a slot."""


class Driver:
    """The machines of all slots, and the runs that they start and end.

    Invariant: a machine gets each input when it happens and not later, and nothing else starts or
    ends a run.
    """

    def __init__(
        self,
        hosts: Mapping[type[Backend], UpstreamHost[Any]],
        *,
        servers: Servers,
        events: Events,
        now: Callable[[], float],
        tell: Callable[[Fact], None],
        moved: Callable[[], None],
        starts_at_once: int,
    ) -> None:
        """``now`` returns the time in seconds, on the clock of all deadlines.

        ``moved`` is called when a machine may have another deadline than before.
        """
        self.slots = Slots()
        self.starts = Starts(
            self.slots, at_once=starts_at_once, start=self._start, must_wait=self._must_wait
        )
        self._hosts = hosts
        self._servers = servers
        self._events = events
        self._now = now
        self._tell = tell
        self._moved = moved
        self._is_hurried = False
        self._group = tasks.Group()

    def input(self, slot: Slot, happened: Callable[[float], list[Action]]) -> None:
        """Give a machine an input, with the time and dice, and do what it asks for."""
        slot.machine.roll = random.random()
        self._do(slot, happened(self._now()))

    def stop(self, slot: Slot, failure: Failure, then: AfterStop = AfterStop.NOTHING) -> None:
        """Stop what runs in a slot; its requests fail with ``failure``."""
        self.input(slot, lambda now: slot.machine.stop(now, failure, then=then))

    def refuse_start(self, slot: Slot, failure: Failure) -> None:
        """End a start whose server cannot be used, though it runs."""
        failure = masked(_explained(slot, failure), self._servers.log(slot.server).redactor)
        self.input(slot, lambda now: slot.machine.start_refused(now, failure))

    def hurry(self) -> None:
        """Shorten the grace of what is being stopped, and of what will be."""
        self._is_hurried = True
        for slot in self.slots.all():
            run = slot.run
            if run is not None and run.ending is not None and not run.ending.done():
                run.ending.cancel()
                run.ending = self._group.spawn(
                    self._end(slot, run), name=f"supervisor.hurry {slot.server}"
                )

    # -- reports of runs --------------------------------------------------------------------------

    def frames(self, ident: SlotId) -> Frames:
        """Return what takes the frames of the server in a slot."""
        return self._events.frames_from(ident)

    def connected(self, slot: Slot, run: Run) -> None:
        """Have the mux begin the handshake."""
        if not run.is_down:
            self._step_done(slot, "start")
            self._events.dispatch(ServerUp(slot.id))

    def introduced(self, slot: Slot) -> None:
        """Note that the handshake of a start is done."""
        self._step_done(slot, "handshake")

    def probe_read(self, slot: Slot) -> None:
        """Let the mux know that the request was read that may end the server."""
        self._events.dispatch(ProbeRead(slot.id))

    def ended(self, slot: Slot, run: Run, failure: Failure, *, is_clean: bool) -> None:
        """Note that a run ended by itself, and clean up after it."""
        if not run.is_down:
            self.input(slot, lambda now: slot.machine.exited(now, failure, is_clean=is_clean))

    def forgotten(self, slot: Slot, run: Run, failure: Failure) -> None:
        """Replace a run that its server does not know any more."""
        if not run.is_down:
            failure = masked(failure, self._servers.log(slot.server).redactor)
            self._servers.log(slot.server).add("mcpd", f"{failure.message}; connected again")
            self.input(slot, lambda now: slot.machine.renew(now, failure))

    def unsent(self, slot: Slot, wire_id: int) -> None:
        """Have a request that was not read go to the next run."""
        self._events.dispatch(WriteRefused(slot.id, wire_id, is_gone=True))

    def failed(self, slot: Slot, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """End a request that will not be answered, or have it sent once more."""
        failure = masked(failure, self._servers.log(slot.server).redactor)
        self._events.dispatch(RequestFailed(slot.id, wire_id, failure, may_repeat))

    # -- the machines -----------------------------------------------------------------------------

    def _do(self, slot: Slot, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case StateChanged():
                    self._state_changed(slot, action, actions)
                case Spawn():
                    self.starts.add(slot, action.generation)
                case Down():
                    self._down(slot, action)
                case End():
                    self._begin_end(slot)
                case _:
                    assert_never(action)
        slot.wake_waiters()
        if slot.is_empty:
            self.slots.closed.discard(slot)
        self.starts.pump()
        self._moved()

    def _state_changed(self, slot: Slot, change: StateChanged, actions: list[Action]) -> None:
        """Publish a change of state."""
        tell, server, run = self._tell, slot.server, slot.run
        generation = slot.machine.generation
        failure = None if change.failure is None else _explained(slot, change.failure)
        if failure is not None:
            slot.failed_at = datetime.now(UTC)
        is_clean = change.state is State.STOPPED and is_clean_exit(failure)
        is_crash = not (is_clean or change.is_held_back or change.state is State.LOGIN)
        if failure is not None and is_crash:
            tell(facts.ServerCrashed(server, slot.id, generation, failure))
        match change.state:
            case State.READY if run is not None:
                self._step_done(slot, "list")
                took = self._now() - (slot.machine.spawned_at or self._now())
                era = era_of(slot.version).value
                tell(
                    facts.ServerReady(server, slot.id, generation, run.pid, took, era, slot.version)
                )
            case State.BACKOFF:
                wait = change.delay_s or 0.0
                tell(facts.ServerBackoff(server, slot.id, wait, change.failures))
            case State.FAILED if failure is not None:
                tell(facts.ServerFailed(server, slot.id, failure))
            case State.LOGIN if failure is not None:
                tell(facts.LoginRequired(server, slot.id, failure))
            case State.STOPPING:
                slot.step = None
                slot.reason = next((a.failure.message for a in actions if isinstance(a, Down)), "")
                if run is not None:
                    tell(facts.ServerStopping(server, slot.id, slot.reason))
            case State.STOPPED:
                reason = slot.reason if failure is None else failure.message
                tell(facts.ServerStopped(server, slot.id, reason, slot.step))

    def _down(self, slot: Slot, down: Down) -> None:
        """Deliver nothing more of a run, and let the mux know that it is not usable."""
        if slot.run is not None:
            slot.run.is_down = True
            slot.run.mute()
        if slot.machine.is_between_processes:
            log = self._servers.log(slot.server)
            log.add("mcpd", f"{down.failure.message}; started again within the same start")
        failure = _explained(slot, down.failure)
        if slot not in self.slots.closed:  # its id may be that of another slot by now
            event = ServerDown(slot.id, failure, down.is_planned, down.comes_back)
            self._events.dispatch(event)
        if not (down.is_planned and down.comes_back):
            slot.wake_waiters(self._with_steps(slot, failure))

    # -- starting and ending ----------------------------------------------------------------------

    def _must_wait(self, slot: Slot) -> bool:
        backend = self._servers.backend(slot.id)
        if backend is None:
            return False
        return self._hosts[type(backend)].must_wait(backend, self.starts.pump)

    def _start(self, slot: Slot, generation: int) -> None:
        backend = self._servers.backend(slot.id)
        if backend is None:
            return
        slot.before = frozenset()
        if slot.steps is None or not slot.machine.is_between_processes:
            slot.steps = Steps(self._now())
        run = self._hosts[type(backend)].start(slot, backend, generation, self)
        if isinstance(run, NotStarted) and run.is_outside:
            held_back = masked(run.failure, self._servers.log(slot.server).redactor)
            self.input(slot, lambda _: slot.machine.held_back(held_back))
            return
        self._tell(facts.ServerStarting(slot.server, slot.id, generation))
        if isinstance(run, NotStarted):
            failure = masked(run.failure, self._servers.log(slot.server).redactor)
            is_ours = run.is_ours
            self.input(slot, lambda now: slot.machine.spawn_failed(now, failure, is_ours=is_ours))
            return
        slot.run = run
        if run.pid is not None:
            self._step_done(slot, "start")
        self._events.channels[slot.id] = run.channel
        self.input(slot, slot.machine.spawned)
        run.begin()

    def _with_steps(self, slot: Slot, failure: Failure) -> Failure:
        """Return the failure of a start, with the steps that it took."""
        if slot.steps is None or slot.steps.is_whole:
            return failure
        slot.steps.failed(self._now())
        return with_details(failure, steps=slot.steps.report())

    def _step_done(self, slot: Slot, step: str) -> None:
        if slot.steps is not None:
            slot.steps.done(step, self._now())

    def _begin_end(self, slot: Slot) -> None:
        run = slot.run
        if run is not None and run.ending is None:
            run.ending = self._group.spawn(self._end(slot, run), name=f"supervisor.end {slot.id}")

    async def _end(self, slot: Slot, run: Run) -> None:
        """End a run, or clean up after one that ended by itself."""
        backend = self._servers.backend(slot.id)
        grace = backend.grace if backend is not None else run.grace
        if self._is_hurried or slot.machine.is_between_processes:
            grace = min(grace, HURRIED_GRACE_S)
        step = await run.end(grace)
        slot.run = None
        slot.step = step
        self.input(slot, slot.machine.gone)


def _explained(slot: Slot, failure: Failure) -> Failure:
    return failure if slot.run is None else slot.run.explain(failure)

"""Drives the lifecycle machines with real time, dice and processes."""

from __future__ import annotations

import asyncio
import errno
import random
import signal
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol, assert_never

import msgspec

from mcpd import paths, tasks
from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.core.lifecycle.machine import Action, Down, End, Note, Spawn, Wish, crash_loop
from mcpd.core.lifecycle.patience import Patiences
from mcpd.core.lifecycle.states import State
from mcpd.core.mcp.versions import era_of
from mcpd.core.mux.commands import OpenSlot
from mcpd.core.mux.events import ProbeRead, ServerDown, ServerUp
from mcpd.core.policy.runners import broken_cache, mend_cache
from mcpd.errors import SpawnFailed
from mcpd.ids import SlotId
from mcpd.redact import Redactor
from mcpd.supervise import ladder, spawn, tree
from mcpd.supervise.containers import Containers
from mcpd.supervise.loginenv.loginshell import LoginPath
from mcpd.supervise.logs import ServerLog
from mcpd.supervise.process import Child
from mcpd.supervise.proctable.procfs import ProcId
from mcpd.supervise.reaper import Reaper
from mcpd.supervise.slot import Pipes, ProcessSpec, Run, Slot, no_workspace, placed

DRAIN_S: Final = 0.2
"""For the last words of the descendants of a process that has ended; all of its own are read."""

CLOSED_S: Final = 0.5
"""For a process that closed its stdin or stdout to end as well."""

HURRIED_GRACE_S: Final = 0.2
"""For a process when the daemon is to end at once, and for one whose successor is waited for."""

WATCH_S: Final = 0.05
"""Between two looks at whether a process has read what may kill it."""

STRAY_GRACE_S: Final = 1.0
"""From SIGTERM to SIGKILL for an orphan that is nobody's."""

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
"""Why a spawn fails that is no fault of the server's."""

TROUBLE_LENGTH: Final = 300
"""Characters of what an engine of containers says that are told."""

_UNREADY: Final = ("startup_timeout", "handshake_failed")


class Host(Protocol):
    """What the supervisor needs of the daemon around it."""

    def spec(self, slot: SlotId) -> ProcessSpec | None:
        """Return how to run what belongs there, ``None`` where that is not configured any more."""

    def log(self, server: str) -> ServerLog:
        """Return a server's log."""

    def pipes(
        self, slot: SlotId, on_stderr: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> Pipes:
        """Make what reads and writes a child's pipes; frames go to the mux."""

    def said_instead(self, slot: SlotId) -> str:
        """Return the end of an error: what a process that is not ready wrote that is no message."""

    def now(self) -> float:
        """Return the time in seconds, on the clock of all deadlines."""

    def dispatch(self, event: ServerUp | ServerDown | ProbeRead) -> None:
        """Have the mux react, before anything else happens to the slot."""

    def arm(self) -> None:
        """See to it that ``tick`` is called at the next deadline, which may be another one."""

    def tell(self, fact: Fact) -> None:
        """Say what happened."""

    def record(self, child: Child, server: str, generation: int) -> None:
        """Write a new child down, for whoever has to clear up after us."""

    def record_members(self) -> None:
        """Write down what has become known of trees."""

    def forget(self, child: Child) -> None:
        """Strike one out whose tree is gone."""


class Supervisor:
    """All places for processes.

    Invariant: a machine gets each input when it happens and not later, and nothing else starts,
    signals or gives up a process.
    """

    def __init__(
        self,
        host: Host,
        *,
        daemon_id: str,
        state_dir: str,
        most_starts: int,
        umask: int,
        nofile_soft: int | None,
    ) -> None:
        """``umask`` and ``nofile_soft`` are what servers get."""
        self.reaper = Reaper(daemon_id, on_orphan=self._end_stray, on_escape=host.record_members)
        self.most_starts = most_starts
        self.login: LoginPath | None = None
        """Whose PATH servers get, where that is not what they may inherit."""
        self._host = host
        self._daemon_id = daemon_id
        self._containers = Containers(state_dir, daemon_id)
        self._umask = umask
        self._nofile_soft = nofile_soft
        self._slots: dict[SlotId, Slot] = {}
        self._leaving: set[Slot] = set()
        """Places that the mux has closed, until nothing of their trees is alive."""
        self._patiences = Patiences()
        self._queue: deque[tuple[Slot, int]] = deque()
        """Starts that wait for their turn, with their generation."""
        self._may_spawn = False
        self._is_pumping = False
        self._draining: Failure | None = None
        self._is_hurried = False
        self._deadline: float | None = None
        self.is_stale = False  # the deadline above
        self._group = tasks.Group()

    # -- what the mux asks ------------------------------------------------------------------------

    def open(self, command: OpenSlot) -> None:
        """There is a new place, or one that was about to be left stays; nothing is started yet.

        Nor will it be before the trees of those whose place it takes are gone: the one named, those
        that this one still waits for itself, and all of the same server and sessions.
        """
        kept = self._slots.get(command.slot)
        if kept is not None:  # nobody need wait any more for it to end
            for slot in self._slots.values():
                slot.before -= {kept}
            self._pump()
            return
        spec = self._host.spec(command.slot)
        if spec is None:
            return
        kin = command.slot.partition("@")[2]
        before = {
            slot
            for slot in self._leaving
            if slot.id == command.slot
            or (slot.server == command.server and slot.id.partition("@")[2] == kin)
        }
        named = None if command.after is None else self._slots.get(command.after)
        if named is not None:
            before |= {named, *filter(self._is_there, named.before)}
        self._slots[command.slot] = Slot(
            command.slot,
            command.server,
            command.cwd,
            frozenset(before),
            spec.rules,
            self._patiences.of(_launch_of(command.slot)),
            spec.package,
        )

    def close(self, ident: SlotId, reason: str) -> None:
        """Stop what runs there and forget the place."""
        slot = self._slots.pop(ident, None)
        if slot is not None:
            self._leaving.add(slot)
            self._stop(slot, Failure("server_stopped", reason, slot.server, True))

    def want(self, ident: SlotId) -> None:
        """Somebody waits for the server."""
        slot = self._slots.get(ident)
        if slot is None:
            return
        if (refusal := self._refusal(slot)) is not None:
            self._host.dispatch(ServerDown(ident, refusal, True, False))
            return
        self._input(slot, slot.machine.want)
        if slot.machine.state is State.FAILED:
            failure = crash_loop(slot.server, slot.machine.last_failure)
            self._host.dispatch(ServerDown(ident, failure, False, False))

    def busy(self, ident: SlotId) -> None:
        """The server has users."""
        if slot := self._slots.get(ident):
            slot.machine.busy()
            self.is_stale = True

    def idle(self, ident: SlotId) -> None:
        """It has none any more."""
        if slot := self._slots.get(ident):
            slot.machine.idle(self._host.now())
            self.is_stale = True

    def ready(self, ident: SlotId, version: str) -> None:
        """The handshake is done, in this revision, and the lists are read."""
        if slot := self._slots.get(ident):
            slot.version = version
            if slot.run is not None:
                slot.run.was_ready = True
            self._input(slot, slot.machine.ready)

    def probing(self, ident: SlotId, *, is_on: bool) -> None:
        """The process is being asked what it may die of; see when it has read it."""
        slot = self._slots.get(ident)
        if slot is None:
            return
        slot.machine.probing(is_on)
        if slot.run is not None:
            self._watch(slot, slot.run, is_on=is_on)

    def afresh(self, ident: SlotId, reason: str) -> None:
        """The process is of no use: another is to take its place in the same start."""
        if slot := self._slots.get(ident):
            failure = Failure("server_stopped", reason, slot.server, True)
            self._input(slot, lambda now: slot.machine.afresh(now, failure))

    def answered(self, ident: SlotId) -> None:
        """The process has answered a call."""
        if slot := self._slots.get(ident):
            slot.machine.answered()

    def refuse_start(self, ident: SlotId, failure: Failure) -> None:
        """The process lives and cannot be used."""
        if slot := self._slots.get(ident):
            failure = self._with_tail(slot, failure)
            failure = _masked(failure, self._host.log(slot.server).redactor)
            self._input(slot, lambda now: slot.machine.start_refused(now, failure))

    # -- what people ask ---------------------------------------------------------------------------

    def start(self, ident: SlotId) -> asyncio.Future[Failure | None]:
        """A person says start; returns what is done with the outcome of this one attempt."""
        slot = self._slots[ident]
        outcome = slot.expect(lambda: slot.machine.state is State.READY)
        if (refusal := self._refusal(slot)) is not None:
            slot.tell_waiters(refusal)
            return outcome
        self._input(slot, slot.machine.start)
        return outcome

    def restart(self, ident: SlotId, failure: Failure) -> asyncio.Future[Failure | None]:
        """A person says restart; likewise. ``failure`` is what requests in flight get."""
        slot = self._slots[ident]
        outcome = slot.expect(lambda: slot.machine.state is State.READY)
        if self._draining is not None:
            slot.tell_waiters(self._draining)
            return outcome
        self._stop(slot, failure, then=Wish.START)
        return outcome

    def stop(self, ident: SlotId, failure: Failure) -> None:
        """A person says stop; ``failure`` is what requests under way get."""
        slot = self._slots[ident]
        if slot.run is None:
            slot.step = None  # that of an earlier stop
        self._stop(slot, failure)

    def forget_times(self, launch: str) -> None:
        """The next start of this launch begins with its entry's time: that is another one now."""
        self._patiences.of(launch).reset()

    def forgive(self, ident: SlotId, reason: str) -> None:
        """Take a server out of ``failed``: its entry is another one now."""
        slot = self._slots.get(ident)
        if slot is not None and slot.machine.state is State.FAILED:
            self._stop(slot, Failure("server_stopped", reason, slot.server, True))

    def complain(self, ident: SlotId, failure: Failure) -> None:
        """Have ``status`` tell of something that is wrong with a process that runs."""
        if slot := self._slots.get(ident):
            slot.machine.last_error, slot.machine.last_failure = failure.message, failure
            slot.failed_at = datetime.now(UTC)

    def replace(self, ident: SlotId, failure: Failure) -> None:
        """Restart a server that nobody waits for; nobody asked for it, and it is no crash."""
        if slot := self._slots.get(ident):
            self._stop(slot, failure, then=Wish.START)

    async def wait_empty(self, ident: SlotId) -> None:
        """Wait until nothing is left of what runs in a place now; another may have taken over."""
        slot = self._slots.get(ident)
        if slot is not None:
            for each in (*slot.before, slot):
                await self._wait_empty(each)

    async def _wait_empty(self, slot: Slot) -> None:
        run = slot.run
        while slot.run is run and not slot.is_empty:
            await slot.expect(lambda: slot.run is not run or slot.is_empty)

    # -- what the daemon asks ---------------------------------------------------------------------

    def now(self) -> float:
        """Return the time that ``spawned_at`` and ``ready_at`` of a machine are measured on."""
        return self._host.now()

    def get(self, ident: SlotId) -> Slot | None:
        """Return a place, for ``status``."""
        return self._slots.get(ident)

    def slots(self) -> list[Slot]:
        """Return all places, those that are being left included."""
        return [*self._slots.values(), *self._leaving]

    def allow_starts(self) -> None:
        """What a dead daemon left is gone: from now on processes are started."""
        self._may_spawn = True
        self._pump()

    def apply_rules(self) -> None:
        """Take over what the configuration says now about starting and stopping."""
        for slot in self._slots.values():
            spec = self._host.spec(slot.id)
            if spec is not None:
                slot.server, slot.machine.rules = spec.server, spec.rules
        self.is_stale = True

    def next_deadline(self) -> float | None:
        """Return when ``tick`` has something to do, in seconds as the host counts them."""
        if self.is_stale:
            self.is_stale = False
            times = (slot.machine.next_deadline() for slot in self._slots.values())
            self._deadline = min((at for at in times if at is not None), default=None)
        return self._deadline

    def tick(self, now: float) -> None:
        """Do what is due."""
        for slot in list(self._slots.values()):
            due = slot.machine.next_deadline()
            if due is not None and due <= now:
                self._input(slot, slot.machine.tick)

    async def drain(self, failure: Failure) -> int:
        """Stop everything, in parallel, and start nothing more; return how many were stopped."""
        self._draining = failure
        running = [slot for slot in self.slots() if slot.run is not None]
        for slot in list(self._slots.values()):
            self._stop(slot, failure)
        for slot in running:
            await self._wait_empty(slot)
        return len(running)

    def hurry(self) -> None:
        """Give nothing that is being stopped any more time."""
        self._is_hurried = True
        for slot in self.slots():
            run = slot.run
            if run is not None and run.ending is not None and not run.ending.done():
                run.ending.cancel()
                run.ending = self._group.spawn(
                    self._end(slot, run), name=f"supervisor.hurry {slot.server}"
                )

    # -- actions ---------------------------------------------------------------------------------

    def _input(self, slot: Slot, happened: Callable[[float], list[Action]]) -> None:
        slot.machine.roll = random.random()
        self._do(slot, happened(self._host.now()))

    def _stop(self, slot: Slot, failure: Failure, then: Wish = Wish.NOTHING) -> None:
        self._input(slot, lambda now: slot.machine.stop(now, failure, then=then))

    def _do(self, slot: Slot, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Note():
                    self._note(slot, action, actions)
                case Spawn() if slot.machine.is_between:  # it has its turn already
                    self._queue.appendleft((slot, action.generation))
                case Spawn():
                    self._queue.append((slot, action.generation))
                case Down():
                    self._down(slot, action)
                case End():
                    self._begin_end(slot)
                case _:
                    assert_never(action)
        self._settle(slot)
        self._pump()
        self.is_stale = True
        self._host.arm()

    def _note(self, slot: Slot, note: Note, actions: list[Action]) -> None:
        tell, server = self._host.tell, slot.server
        generation = slot.machine.generation
        failure = None if note.failure is None else self._with_tail(slot, note.failure)
        if failure is not None:
            slot.failed_at = datetime.now(UTC)
        is_clean = note.state is State.STOPPED and _is_clean(failure)
        if failure is not None and not is_clean:
            tell(facts.ServerCrashed(server, slot.id, generation, failure))
        match note.state:
            case State.READY if slot.run is not None:
                took = self._host.now() - (slot.machine.spawned_at or self._host.now())
                era = era_of(slot.version).value
                pid = slot.run.child.pid
                tell(facts.ServerReady(server, slot.id, generation, pid, took, era, slot.version))
            case State.BACKOFF:
                wait = note.delay_s or 0.0
                tell(facts.ServerBackoff(server, slot.id, wait, note.failures))
            case State.FAILED if failure is not None:
                tell(facts.ServerFailed(server, slot.id, failure))
            case State.STOPPING:
                slot.step = None
                slot.reason = next((a.failure.message for a in actions if isinstance(a, Down)), "")
                if slot.run is not None:
                    tell(facts.ServerStopping(server, slot.id, slot.reason))
            case State.STOPPED:
                reason = slot.reason if failure is None else failure.message
                tell(facts.ServerStopped(server, slot.id, reason, slot.step))

    def _down(self, slot: Slot, down: Down) -> None:
        if slot.run is not None:
            slot.run.is_down = True
            slot.run.pipes.mute()
            self._watch(slot, slot.run, is_on=False)
        if slot.machine.is_between:
            self._host.log(slot.server).add("mcpd", f"{down.failure.message}; started afresh")
        failure = self._with_tail(slot, down.failure)
        if slot not in self._leaving:  # its name may be that of another place by now
            self._host.dispatch(ServerDown(slot.id, failure, down.is_planned, down.comes_back))
        if not (down.is_planned and down.comes_back):
            slot.tell_waiters(failure)

    def _with_tail(self, slot: Slot, failure: Failure) -> Failure:
        """Return a failure of a start with what the process wrote, on stderr and on stdout."""
        if failure.kind not in _UNREADY or slot.run is None or "stderr" in failure.details:
            return failure
        details = {**failure.details, "stderr": slot.run.tail}
        message = failure.message + self._host.said_instead(slot.id)
        return msgspec.structs.replace(failure, message=message, details=details)

    def _settle(self, slot: Slot) -> None:
        """Let those who wait for this place go on, and forget it if it is to go."""
        slot.tell_waiters()
        if slot.is_empty:
            self._leaving.discard(slot)

    # -- starting ----------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start what waits for its turn, as far as there are places."""
        if self._is_pumping or not self._may_spawn:
            return
        self._is_pumping = True
        try:
            starting = sum(slot.is_starting for slot in self._slots.values())
            held: list[tuple[Slot, int]] = []
            while self._queue and (
                starting < self.most_starts or self._queue[0][0].machine.is_between
            ):
                slot, generation = self._queue.popleft()
                if slot in self._leaving or not slot.machine.may_spawn(generation):
                    continue
                if self._must_wait(slot):
                    held.append((slot, generation))
                    continue
                self._spawn(slot, generation)
                starting = sum(slot.is_starting for slot in self._slots.values())
            self._queue.extendleft(reversed(held))
        finally:
            self._is_pumping = False

    def _refusal(self, slot: Slot) -> Failure | None:
        """Return why nothing is to be started in a place, ``None`` where something may be."""
        if self._draining is not None:
            return self._draining
        spec = self._host.spec(slot.id)
        if spec is not None and spec.of_workspace and slot.cwd is None:
            return no_workspace(slot.server)
        return None

    def _must_wait(self, slot: Slot) -> bool:
        """Tell whether a start has to wait for something else than a place."""
        return (
            any(self._is_there(other) for other in slot.before)
            or self._waits_for_path(slot)
            or self._waits_for_package(slot)
        )

    def _waits_for_path(self, slot: Slot) -> bool:
        """Tell whether it is not known yet what PATH there is."""
        spec = self._host.spec(slot.id)
        return (
            self.login is not None and spec is not None and self.login.must_wait(spec, self._pump)
        )

    def _waits_for_package(self, slot: Slot) -> bool:
        """Tell whether another one fetches the same: their cache is not safe for two."""
        package = slot.package
        return (
            package is not None
            and package.is_exclusive
            and any(
                other is not slot and other.package == package and other.is_fetching
                for other in self.slots()
            )
        )

    def _is_there(self, slot: Slot) -> bool:
        return slot in self._leaving or self._slots.get(slot.id) is slot

    def _spawn(self, slot: Slot, generation: int) -> None:
        spec = self._host.spec(slot.id)
        if spec is None:
            return
        spec = placed(spec, slot.cwd)
        slot.before = frozenset()
        self._host.tell(facts.ServerStarting(slot.server, slot.id, generation))
        tag = f"{self._daemon_id}:{paths.file_name(slot.id)}:{generation}"
        try:
            launch = spawn.prepare(
                spec.command,
                spec.args,
                env=spec.env,
                cwd=spec.cwd,
                tag=tag,
                inherit=spec.inherit,
                base_env=spec.base_env if self.login is None else self.login.base_of(spec),
                is_typed=spec.is_typed,
            )
            launch, container = self._containers.fit(launch, tag=tag)
            child = spawn.spawn(
                launch,
                tag=tag,
                umask=self._umask,
                nofile_soft=self._nofile_soft,
                scope=spec.scope,
            )
        except SpawnFailed as error:
            if self.login is not None:
                error = self.login.explain(spec, error)
            failure = _masked(
                _spawn_failure(slot.server, error), self._host.log(slot.server).redactor
            )
            is_ours = error.details.get("errno") in SHORTAGES
            self._input(slot, lambda now: slot.machine.spawn_failed(now, failure, is_ours=is_ours))
            return
        child.container = container
        self.reaper.register(child)
        run = Run(child, self._host.log(slot.server), grace=spec.grace)
        run.pipes = self._host.pipes(slot.id, run.hear, lambda: self._pipe_ended(slot, run))
        slot.run = run
        self._host.record(child, slot.server, generation)
        self._input(slot, slot.machine.spawned)
        child.on_exit(lambda _: self._on_exit(slot, run))
        run.connected = self._group.spawn(
            self._connect(slot, run), name=f"supervisor.connect {slot.server}"
        )

    def _watch(self, slot: Slot, run: Run, *, is_on: bool) -> None:
        if run.watch is not None:
            run.watch.cancel()
            run.watch = None
        if is_on:
            loop = asyncio.get_running_loop()
            run.watch = loop.call_later(WATCH_S, self._look_whether_read, slot, run)

    def _look_whether_read(self, slot: Slot, run: Run) -> None:
        run.watch = None
        # What a package runner says on stderr is not yet the server's.
        pipes = run.pipes
        has_spoken = pipes.has_spoken if slot.package is None else pipes.has_output
        if has_spoken or not pipes.unread_bytes():
            self._host.dispatch(ProbeRead(slot.id))
        else:
            self._watch(slot, run, is_on=True)

    async def _connect(self, slot: Slot, run: Run) -> None:
        child = run.child
        await run.pipes.connect(child.stdin, child.stdout, child.stderr)
        if not run.is_down:
            self._host.dispatch(ServerUp(slot.id))

    # -- ending ------------------------------------------------------------------------------------

    def _on_exit(self, slot: Slot, run: Run) -> None:
        if not run.is_down:
            self._group.spawn(self._exited(slot, run), name=f"supervisor.exited {slot.server}")

    async def _exited(self, slot: Slot, run: Run) -> None:
        """Report a death, after what it still had to say."""
        if run.connected is not None:
            await asyncio.wait((run.connected,))
        await run.pipes.drain(DRAIN_S)
        self._report_end(slot, run)

    def _pipe_ended(self, slot: Slot, run: Run) -> None:
        """A server that closes its stdin or stdout cannot serve any more; most end with it."""
        if run.child.returncode is None and not run.is_down:
            self._group.spawn(self._closed(slot, run), name=f"supervisor.closed {slot.server}")

    async def _closed(self, slot: Slot, run: Run) -> None:
        if not await run.child.wait_exit(CLOSED_S):
            self._report_end(slot, run)

    def _report_end(self, slot: Slot, run: Run) -> None:
        if run.is_down:
            return
        is_ready = slot.machine.state is State.READY
        failure = _crash(slot.server, run, is_ready=is_ready)
        if not is_ready and (said := self._host.said_instead(slot.id)):
            failure = msgspec.structs.replace(failure, message=failure.message + said)
        is_clean = run.child.returncode == 0
        self._input(slot, lambda now: slot.machine.exited(now, failure, is_clean=is_clean))

    def _begin_end(self, slot: Slot) -> None:
        run = slot.run
        if run is not None and run.ending is None:
            run.ending = self._group.spawn(self._end(slot, run), name=f"supervisor.end {slot.id}")

    async def _end(self, slot: Slot, run: Run) -> None:
        """End a process and its tree; a dead one's tree alone."""
        spec = self._host.spec(slot.id)
        grace = spec.grace if spec is not None else run.grace
        if self._is_hurried or slot.machine.is_between:
            grace = min(grace, HURRIED_GRACE_S)
        until = self._host.now() + 2 * grace
        if run.connected is not None:
            await asyncio.wait((run.connected,))
        if run.child.returncode is not None:
            report = await ladder.reap_rest(run.child, grace=grace)
        else:
            report = await ladder.stop(run.child, close_stdin=run.pipes.close_stdin, grace=grace)
        await run.pipes.drain(0)
        run.pipes.close()
        if await self._end_container(
            slot.server, run.child, grace=min(grace, until - self._host.now())
        ):
            self._host.forget(run.child)
        slot.run = None
        slot.step = None if report.step == "none" else report.step
        if report.left:
            text = f"{report.left} of its processes cannot be ended"
            self._host.tell(facts.ServerWarning(slot.server, text))
        self._input(slot, slot.machine.gone)

    async def _end_container(self, server: str, child: Child, *, grace: float) -> bool:
        """End what a process had run outside of its tree; return whether nothing is left."""
        if child.container is None:
            return True
        left = await self._containers.end(child.container, grace=grace)
        if left is not None:
            said = self._host.log(server).redactor.excerpt(left.encode(), TROUBLE_LENGTH)
            self._host.tell(facts.ServerWarning(server, said))
        return left is None

    def _end_stray(self, stray: ProcId) -> None:
        """End an orphan that came to us and belongs to no server that lives."""
        tree.signal_all([stray], signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(STRAY_GRACE_S, tree.signal_all, [stray], signal.SIGKILL)
        self._host.tell(facts.StrayEnded(stray.pid))


def _launch_of(slot: SlotId) -> str:
    """Return what a place has in common with those of other sessions and workspaces."""
    return slot.partition("@")[0]


def _spawn_failure(server: str, error: SpawnFailed) -> Failure:
    details = dict(error.details)
    number = details.get("errno")
    if isinstance(number, int):
        details["errno"] = errno.errorcode.get(number, str(number))
    message = f"{server} cannot be started: {error.message}"
    return Failure("spawn_failed", message, server, number in SHORTAGES, error.hint, details)


def _crash(server: str, run: Run, *, is_ready: bool) -> Failure:
    how = run.child.describe_exit()
    if "signal" in how:
        what = f"was killed by {how['signal']}"
    elif "exit_code" in how:
        what = f"exited with status {how['exit_code']}"
    else:
        what = "closed its stdin or stdout, so it can serve nobody any more"
    when = "" if is_ready else " before it was ready"
    message, hint = f"{server} {what}{when}", f"mcpctl logs {server}"
    details = {**how, "stderr": run.tail}
    cache = None if is_ready else broken_cache(run.recent)
    if cache is not None:
        message += f": something is missing in {cache}"
        hint = f"{hint}; {mend_cache(cache, server)}"
        details["cache"] = cache
    return Failure("server_crashed", message, server, True, hint, details)


def _masked(failure: Failure, redactor: Redactor) -> Failure:
    """Return a failure without the secrets that what a server said, or a path, may hold."""

    def mask(value: object) -> object:
        if isinstance(value, str):
            return redactor.mask(value)
        return [mask(each) for each in value] if isinstance(value, list) else value

    return msgspec.structs.replace(
        failure,
        message=redactor.mask(failure.message),
        hint=None if failure.hint is None else redactor.mask(failure.hint),
        details={name: mask(value) for name, value in failure.details.items()},
    )


def _is_clean(failure: Failure | None) -> bool:
    return failure is not None and failure.details.get("exit_code") == 0

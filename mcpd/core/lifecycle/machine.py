"""The lifecycle of one server: decides when its process is started, restarted and stopped.

Inputs are method calls with the time in monotonic seconds. Each returns the actions to carry out,
in order; the driver reports their outcome with further inputs.

The module is long because all transitions of one state machine are in it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.actions import Action, Down, End, Spawn, StateChanged
from mcpd.core.lifecycle.backoff import delay
from mcpd.core.lifecycle.crash_counter import CrashCounter
from mcpd.core.lifecycle.failures import start_timed_out
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.lifecycle.start_timeout import StartTimeout
from mcpd.core.lifecycle.states import State, Trigger, step

SPAWN_EVERY_S: Final = 0.05
"""Least seconds between two attempts to spawn a command that fails at once."""

LOGIN_REQUIRED: Final = "login_required"
"""The kind of a failure that a person mends by signing in; nothing is tried before."""


class AfterStop(Enum):
    """What follows a stop."""

    NOTHING = "nothing"
    START = "start"


class Machine:
    """A server's process and its successors. At most one process tree is alive at a time.

    For a server that is reached by URL a connection is what a process is here.
    """

    def __init__(
        self, server: str, rules: Rules, start_timeout: StartTimeout | None = None
    ) -> None:
        """``start_timeout`` is shared by the machines of one launch."""
        self._server = server
        self.rules = rules
        self.start_timeout = start_timeout or StartTimeout()
        self.state = State.STOPPED
        self.generation = 0
        self.restarts = 0
        self.last_error: str | None = None
        self.last_failure: Failure | None = None
        self.ready_at: float | None = None
        self.spawned_at: float | None = None
        self.began_at: float | None = None
        """When the first process of the current start was spawned; ``None`` before."""
        self.start_limit = 0.0
        """Seconds that the current start may take from ``began_at``; 0 is no limit."""
        self.roll = 1.0
        """A random number in [0, 1) for the next backoff; the driver sets it before each input."""
        self._crashes = CrashCounter(most=rules.max_failures, window=rules.window)
        self._failures = 0  # in a row, for the backoff
        self._has_answered = False
        self._has_process = False
        self._has_tree = False  # some of the last process tree may be alive
        self._is_probing = False  # the pending request may end the process
        self.is_between_processes = False
        """Whether the start goes on, one process has been given up and the next not yet spawned."""
        self._then = AfterStop.NOTHING  # what follows STOPPING
        self._is_last_try = False  # the one attempt per failed_retry of a failed server
        self._is_idle_since: float | None = 0.0
        self._start_by: float | None = None  # deadline of the start-up
        self._retry_at: float | None = None  # end of the backoff
        self._failed_at = 0.0
        self._clean_ends = 0
        self._not_before = 0.0  # after a clean exit soon after the start

    # -- requests to start and stop -------------------------------------------------------------

    def start_on_demand(self, now: float) -> list[Action]:
        """Start the server for a request, unless it is in a backoff or was given up."""
        self._restart_idle_time(now)
        match self.state:
            case State.STOPPED:
                if now < self._not_before:
                    self._retry_at = self._not_before
                    return self._change_state(Trigger.DELAY, delay_s=self._not_before - now)
                return self._start()
            case State.FAILED:
                wait = self.rules.failed_retry
                if _is_final(self.last_failure):
                    return []
                if wait > 0 and now >= self._failed_at + wait:
                    self._is_last_try = True
                    return self._start()
                return []
            case State.STOPPING:
                self._then = AfterStop.START
                return []
            case _:
                return []

    def start(self, now: float) -> list[Action]:
        """Start at once at a user's request; forget earlier failures."""
        self._restart_idle_time(now)
        self._forget_failures()
        match self.state:
            case State.STOPPED | State.FAILED | State.BACKOFF | State.LOGIN:
                return self._start()
            case State.STOPPING:
                self._then = AfterStop.START
        return []

    def stop(
        self, now: float, failure: Failure, *, then: AfterStop = AfterStop.NOTHING
    ) -> list[Action]:
        """End the process; pending requests fail with ``failure``."""
        self._then = then
        self._is_last_try = False
        match self.state:
            case State.STOPPED:
                self._forget_failures()
                return self._start() if then is AfterStop.START else []
            case State.STOPPING if then is AfterStop.START:
                return []
            case State.STOPPING:  # requests may have come since, to wait for the next start
                return [Down(failure, is_planned=True, comes_back=False)]
            case State.BACKOFF | State.FAILED | State.LOGIN:
                self._retry_at = None
                self._forget_failures()
                actions = self._change_state(Trigger.STOP)
                actions.append(Down(failure, is_planned=True, comes_back=then is AfterStop.START))
                return actions if self._has_tree else actions + self._after_stop(now)
        self._start_by = None
        actions = self._change_state(Trigger.STOP)
        actions.append(Down(failure, is_planned=True, comes_back=then is AfterStop.START))
        if not self._has_process:
            return actions + ([] if self._has_tree else self._after_stop(now))
        actions.append(End())
        return actions

    # -- reports of the driver ------------------------------------------------------------------

    def may_spawn(self, generation: int) -> bool:
        """Tell whether a ``Spawn`` that waited for its turn is still valid."""
        return self.state is State.STARTING and generation == self.generation

    def spawned(self, now: float) -> list[Action]:
        """The process was spawned: its start-up time begins."""
        self._has_process = self._has_tree = True
        self.is_between_processes = False
        self.spawned_at = now
        if self.began_at is None:  # else an earlier process of this start began
            self.began_at = now
            self.start_limit = self.next_start_limit()
            self._start_by = now + self.start_limit if self.start_limit > 0 else None
        return []

    def spawn_failed(self, now: float, failure: Failure, *, is_ours: bool = False) -> list[Action]:
        """The process could not be spawned.

        ``is_ours`` is true if the daemon lacked a resource (descriptors, memory); that does not
        count towards giving up.
        """
        return self._died(now, failure, counts=not is_ours, least=SPAWN_EVERY_S)

    def held_back(self, failure: Failure) -> list[Action]:
        """Nothing was spawned, for a reason outside the server, such as a keyring that is locked.

        The next request tries again. It counts neither as a crash nor for the backoff.
        """
        self._start_by = None
        self._is_last_try = False
        self._record_failure(failure)
        self.state = step(self.state, Trigger.ENDED)
        self._is_probing = self.is_between_processes = False
        changed = StateChanged(self.state, failure, failures=self._failures, is_held_back=True)
        return [changed, Down(failure, is_planned=False, comes_back=False)]

    def start_refused(self, now: float, failure: Failure) -> list[Action]:
        """The process lives but cannot be used: its handshake failed, or it took too long."""
        if self.state is not State.STARTING:
            return []
        actions = self._died(now, failure)
        if self._has_tree:  # between two processes of a start there is none
            actions.append(End())
        return actions

    def set_probing(self, is_on: bool) -> None:
        """Record whether a request is pending that may end the process (an era probe)."""
        self._is_probing = is_on and self.state is State.STARTING and not self.is_between_processes

    def replace_process(self, now: float, failure: Failure) -> list[Action]:
        """End the process that is starting, and start another within the same start."""
        if self.state is not State.STARTING or not self._has_process or self.is_between_processes:
            return []
        return [*self._next_process(failure), End()]

    def renew(self, now: float, failure: Failure) -> list[Action]:
        """The server has forgotten a connection that was ready: make another. Not a crash."""
        if self.state is not State.READY:
            return self.start_refused(now, failure)
        actions = self._start(Trigger.RENEW)
        return [*actions, Down(failure, is_planned=False, comes_back=True), End()]

    def ready(self, now: float) -> list[Action]:
        """The handshake is done and the tools are listed."""
        if self.state is not State.STARTING or self.is_between_processes:
            return []
        self._start_by = None
        self.ready_at = now
        self._is_last_try = False
        self.start_timeout.reset()
        return self._change_state(Trigger.READY)

    def answered(self) -> None:
        """The process has answered a call: its crash no longer counts towards giving up."""
        self._has_answered = True

    def exited(self, now: float, failure: Failure, *, is_clean: bool) -> list[Action]:
        """The process has ended by itself; end what is left of its tree."""
        self._has_process = False
        if self.state not in (State.STARTING, State.READY) or self.is_between_processes:
            return []  # the stop under way reports it
        end = End()
        if self._is_probing and failure.kind == "server_crashed":
            return [*self._next_process(failure), end]
        was_ready = self.state is State.READY
        if was_ready and self.ready_at is not None and now - self.ready_at >= self.rules.window:
            self._failures = self._clean_ends = 0
        if was_ready and (is_clean or not self.rules.restarts):
            self._start_by = None
            self._record_failure(failure)
            if is_clean:
                self._clean_ends += 1
                self._not_before = now + self._backoff(self._clean_ends - 1, roll=1.0)
            actions = self._change_state(Trigger.ENDED, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False), end]
        return [*self._died(now, failure), end]

    def gone(self, now: float) -> list[Action]:
        """Nothing of the last process tree is alive."""
        self._has_process = self._has_tree = False
        if self.state is State.STOPPING:
            return self._after_stop(now)
        if self.state is State.STARTING:
            return [Spawn(self.generation)]  # it waited for this
        return []

    # -- idleness and time ----------------------------------------------------------------------

    def busy(self) -> None:
        """The server is in use."""
        self._is_idle_since = None

    def idle(self, now: float) -> None:
        """The server is no longer in use: its idle time begins."""
        self._is_idle_since = now

    def next_deadline(self) -> float | None:
        """Return the monotonic time of the next timer, or ``None``."""
        times = [at for at in (self._start_by, self._retry_at, self._idle_at()) if at is not None]
        return min(times, default=None)

    def next_start_limit(self) -> float:
        """Return the seconds that the next start may take; 0 is no limit."""
        rules = self.rules
        return self.start_timeout.next_limit(
            first=rules.startup_timeout, most=rules.startup_timeout_max
        )

    def tick(self, now: float) -> list[Action]:
        """Act on the timers that are due."""
        if self._start_by is not None and now >= self._start_by:
            return self.start_refused(now, self._start_timed_out())
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            return self._start()
        idle_at = self._idle_at()
        if idle_at is not None and now >= idle_at:
            message = f"{self._server} was idle"
            return self.stop(now, Failure("server_stopped", message, self._server, True))
        return []

    # -- inside ---------------------------------------------------------------------------------

    def _restart_idle_time(self, now: float) -> None:
        if self._is_idle_since is not None:
            self._is_idle_since = now

    def _idle_at(self) -> float | None:
        if self._is_idle_since is None or self.rules.idle_timeout <= 0:
            return None
        if self.state is State.READY:
            return max(self._is_idle_since, self.ready_at or 0.0) + self.rules.idle_timeout
        if self.state is State.BACKOFF:
            return self._is_idle_since + self.rules.idle_timeout
        return None

    def _start_timed_out(self) -> Failure:
        """Give the next start more time; return the failure of this one."""
        took, rules = self.start_limit, self.rules
        self.start_timeout.record(took)
        is_most = rules.startup_timeout < rules.startup_timeout_max <= took
        setting = "startup_timeout_max" if is_most else "startup_timeout"
        return start_timed_out(self._server, took, self.next_start_limit(), setting)

    def _next_process(self, failure: Failure) -> list[Action]:
        """Continue the start with another process, once this one is gone."""
        self._is_probing = False
        self.is_between_processes = True
        self.generation += 1
        return [Down(failure, is_planned=True, comes_back=True)]

    def _start(self, trigger: Trigger = Trigger.START) -> list[Action]:
        self._retry_at = self._start_by = self.began_at = None
        self.generation += 1
        self._has_answered = False
        self.spawned_at = None
        actions = self._change_state(trigger)
        if not self._has_tree:  # a new process never starts while the old tree is alive
            actions.append(Spawn(self.generation))
        return actions

    def _died(
        self, now: float, failure: Failure, *, counts: bool = True, least: float = 0.0
    ) -> list[Action]:
        self._start_by = None
        self._record_failure(failure)
        was_ready = self.state is State.READY
        if failure.kind == LOGIN_REQUIRED:
            actions = self._change_state(Trigger.LOCKED_OUT, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False)]
        self._crashes.set_limits(most=self.rules.max_failures, window=self.rules.window)
        is_counted = counts and not self._has_answered
        if self._is_last_try or _is_final(failure) or (is_counted and self._crashes.add(now)):
            self._is_last_try = False
            self._failed_at = now
            actions = self._change_state(Trigger.GAVE_UP, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False)]
        if not self.rules.restarts:
            actions = self._change_state(Trigger.ENDED, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False)]
        self._failures += 1
        if was_ready:
            self.restarts += 1
        wait = max(self._backoff(self._failures, roll=self.roll), least)
        self._retry_at = now + wait
        actions = self._change_state(Trigger.DIED, failure, delay_s=wait)
        return [*actions, Down(failure, is_planned=False, comes_back=True)]

    def _after_stop(self, now: float) -> list[Action]:
        actions = self._change_state(Trigger.GONE)
        if self._then is AfterStop.START:
            self._then = AfterStop.NOTHING
            actions += self._start()
        return actions

    def _backoff(self, failures: int, *, roll: float) -> float:
        rules = self.rules
        return delay(failures, first=rules.backoff, most=rules.backoff_max, roll=roll)

    def _forget_failures(self) -> None:
        self._crashes.clear()
        self._failures = self._clean_ends = 0
        self._not_before = 0.0
        self._is_last_try = False

    def _record_failure(self, failure: Failure) -> None:
        self.last_failure = failure
        self.last_error = failure.message

    def _change_state(
        self, trigger: Trigger, failure: Failure | None = None, delay_s: float | None = None
    ) -> list[Action]:
        self.state = step(self.state, trigger)
        self._is_probing = self.is_between_processes = False
        if self.state is not State.READY:
            self.ready_at = None
        return [StateChanged(self.state, failure, delay_s, self._failures)]


def _is_final(failure: Failure | None) -> bool:
    """Tell whether nothing but a change of the entry, or a person, can help."""
    return failure is not None and failure.kind == "unauthorized"

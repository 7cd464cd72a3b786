"""When a process is started and stopped: wish, state, backoff and tally to actions.

Inputs are method calls with the time; each returns the actions to take, in order. The shell
reports back what came of them. Nothing here knows a pid.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.actions import Action, Down, End, Note, Spawn
from mcpd.core.lifecycle.backoff import delay
from mcpd.core.lifecycle.failures import start_timed_out
from mcpd.core.lifecycle.patience import Patience
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.lifecycle.states import State, Trigger, step
from mcpd.core.lifecycle.tally import Tally

SPAWN_EVERY_S: Final = 0.05
"""Between two tries of what cannot be spawned: such a try takes no time of its own."""


class Wish(Enum):
    """What is to come after a stop."""

    NOTHING = "nothing"
    START = "start"


class Machine:
    """One server process and its successors. At most one tree is alive at a time."""

    def __init__(self, server: str, rules: Rules, patience: Patience | None = None) -> None:
        """``patience`` is that of the launch, where others share it."""
        self._server = server
        self.rules = rules
        self.patience = patience or Patience()
        self.state = State.STOPPED
        self.generation = 0
        self.restarts = 0
        self.last_error: str | None = None
        self.last_failure: Failure | None = None
        self.ready_at: float | None = None
        self.spawned_at: float | None = None
        self.began_at: float | None = None
        """When the first process of this attempt to start was spawned."""
        self.limit = 0.0
        """Seconds that this attempt has, from then on; 0: no limit."""
        self.roll = 1.0
        """A random number in [0, 1) for the next backoff; the shell throws it before each input."""
        self._tally = Tally(most=rules.max_failures, window=rules.window)
        self._failures = 0  # in a row, for the backoff
        self._has_answered = False
        self._has_process = False
        self._has_tree = False  # something of the last process may be alive
        self._is_probing = False  # the process may die of what it is being asked
        self.is_between = False
        """Whether one process of a start is over, and the next is to come in the same attempt."""
        self._then = Wish.NOTHING  # what follows STOPPING
        self._is_last_try = False  # a failed server's one try per failed_retry
        self._is_idle_since: float | None = 0.0
        self._start_by: float | None = None  # deadline of the start-up
        self._retry_at: float | None = None  # end of the backoff
        self._failed_at = 0.0
        self._clean_ends = 0
        self._not_before = 0.0  # after a clean exit soon after the start

    # -- what users and people want -------------------------------------------------------------

    def want(self, now: float) -> list[Action]:
        """Somebody uses the server: start it if nothing speaks against it."""
        self._touch(now)
        match self.state:
            case State.STOPPED:
                if now < self._not_before:
                    self._retry_at = self._not_before
                    return self._go(Trigger.DELAY, delay_s=self._not_before - now)
                return self._start()
            case State.FAILED:
                wait = self.rules.failed_retry
                if wait > 0 and now >= self._failed_at + wait:
                    self._is_last_try = True
                    return self._start()
                return []
            case State.STOPPING:
                self._then = Wish.START
                return []
            case _:
                return []

    def start(self, now: float) -> list[Action]:
        """A person says start: at once, with a clean slate."""
        self._touch(now)
        self._forgive()
        match self.state:
            case State.STOPPED | State.FAILED | State.BACKOFF:
                return self._start()
            case State.STOPPING:
                self._then = Wish.START
        return []

    def stop(self, now: float, failure: Failure, *, then: Wish = Wish.NOTHING) -> list[Action]:
        """End the process; what is in flight or waits fails with ``failure``."""
        self._then = then
        self._is_last_try = False
        match self.state:
            case State.STOPPED:
                self._forgive()
                return self._start() if then is Wish.START else []
            case State.STOPPING if then is Wish.START:
                return []
            case State.STOPPING:  # some may have come since, to wait for the next start
                return [Down(failure, is_planned=True, comes_back=False)]
            case State.BACKOFF | State.FAILED:
                self._retry_at = None
                self._forgive()
                actions = self._go(Trigger.STOP)
                actions.append(Down(failure, is_planned=True, comes_back=then is Wish.START))
                return actions if self._has_tree else actions + self._after_stop(now)
        self._start_by = None
        actions = self._go(Trigger.STOP)
        actions.append(Down(failure, is_planned=True, comes_back=then is Wish.START))
        if not self._has_process:
            return actions + ([] if self._has_tree else self._after_stop(now))
        actions.append(End())
        return actions

    # -- what the shell reports -----------------------------------------------------------------

    def may_spawn(self, generation: int) -> bool:
        """Tell whether a ``Spawn`` that waited for its turn is still wanted."""
        return self.state is State.STARTING and generation == self.generation

    def spawned(self, now: float) -> list[Action]:
        """The process exists: its time to get ready begins."""
        self._has_process = self._has_tree = True
        self.is_between = False
        self.spawned_at = now
        if self.began_at is None:  # else another process of this attempt had begun
            self.began_at = now
            self.limit = self.next_limit()
            self._start_by = now + self.limit if self.limit > 0 else None
        return []

    def spawn_failed(self, now: float, failure: Failure, *, is_ours: bool = False) -> list[Action]:
        """There is no process, and there will be none of this try.

        ``is_ours``: for lack of something of ours (descriptors, memory), which no server is given
        up for.
        """
        return self._died(now, failure, counts=not is_ours, least=SPAWN_EVERY_S)

    def start_refused(self, now: float, failure: Failure) -> list[Action]:
        """The process lives and cannot be used: its handshake failed, or it took too long."""
        if self.state is not State.STARTING:
            return []
        actions = self._died(now, failure)
        if self._has_tree:  # it may be gone, and the next of this attempt not yet there
            actions.append(End())
        return actions

    def probing(self, is_on: bool) -> None:
        """The process is being asked something that it may die of, or is not any more."""
        self._is_probing = is_on and self.state is State.STARTING and not self.is_between

    def afresh(self, now: float, failure: Failure) -> list[Action]:
        """The process is of no use, and says nothing about the next: another, in this attempt."""
        if self.state is not State.STARTING or not self._has_process or self.is_between:
            return []
        return [*self._step_over(failure), End()]

    def ready(self, now: float) -> list[Action]:
        """The handshake is done and the tools are listed."""
        if self.state is not State.STARTING or self.is_between:
            return []
        self._start_by = None
        self.ready_at = now
        self._is_last_try = False
        self.patience.reset()
        return self._go(Trigger.READY)

    def answered(self) -> None:
        """The process has answered a call: from now on its death lengthens the backoff only."""
        self._has_answered = True

    def exited(self, now: float, failure: Failure, *, is_clean: bool) -> list[Action]:
        """The process has ended by itself; what it left behind is to go."""
        self._has_process = False
        if self.state not in (State.STARTING, State.READY) or self.is_between:
            return []  # the stop that is under way will report
        end = End()
        if self._is_probing:
            return [*self._step_over(failure), end]
        was_ready = self.state is State.READY
        if was_ready and self.ready_at is not None and now - self.ready_at >= self.rules.window:
            self._failures = self._clean_ends = 0
        if was_ready and (is_clean or not self.rules.restarts):
            self._start_by = None
            self._remember(failure)
            if is_clean:
                self._clean_ends += 1
                self._not_before = now + delay(
                    self._clean_ends - 1,
                    first=self.rules.backoff,
                    most=self.rules.backoff_max,
                    roll=1.0,
                )
            actions = self._go(Trigger.ENDED, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False), end]
        return [*self._died(now, failure), end]

    def gone(self, now: float) -> list[Action]:
        """Nothing of the last tree is alive."""
        self._has_process = self._has_tree = False
        if self.state is State.STOPPING:
            return self._after_stop(now)
        if self.state is State.STARTING:
            return [Spawn(self.generation)]  # it waited for this
        return []

    # -- idleness and time ----------------------------------------------------------------------

    def busy(self) -> None:
        """Somebody uses the server."""
        self._is_idle_since = None

    def idle(self, now: float) -> None:
        """Nobody uses the server any more."""
        self._is_idle_since = now

    def next_deadline(self) -> float | None:
        """Return when ``tick`` has something to do, in monotonic seconds."""
        times = [at for at in (self._start_by, self._retry_at, self._idle_at()) if at is not None]
        return min(times, default=None)

    def next_limit(self) -> float:
        """Return how many seconds the next attempt to start gets; 0: no limit."""
        rules = self.rules
        return self.patience.limit(first=rules.startup_timeout, most=rules.startup_timeout_max)

    def tick(self, now: float) -> list[Action]:
        """Do what is due."""
        if self._start_by is not None and now >= self._start_by:
            return self.start_refused(now, self._ran_out())
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            return self._start()
        idle_at = self._idle_at()
        if idle_at is not None and now >= idle_at:
            message = f"{self._server} was idle"
            return self.stop(now, Failure("server_stopped", message, self._server, True))
        return []

    # -- inside ---------------------------------------------------------------------------------

    def _touch(self, now: float) -> None:
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

    def _ran_out(self) -> Failure:
        """Give the next start more time, and return why this one failed."""
        took, rules = self.limit, self.rules
        self.patience.ran_out(took)
        is_most = rules.startup_timeout < rules.startup_timeout_max <= took
        setting = "startup_timeout_max" if is_most else "startup_timeout"
        return start_timed_out(self._server, took, self.next_limit(), setting)

    def _step_over(self, failure: Failure) -> list[Action]:
        """Go on to the next process of the attempt, once nothing of this one is left."""
        self._is_probing = False
        self.is_between = True
        self.generation += 1
        return [Down(failure, is_planned=True, comes_back=True)]

    def _start(self) -> list[Action]:
        self._retry_at = self._start_by = self.began_at = None
        self.generation += 1
        self._has_answered = False
        self.spawned_at = None
        actions = self._go(Trigger.START)
        if not self._has_tree:  # a new process never starts while the old tree is alive
            actions.append(Spawn(self.generation))
        return actions

    def _died(
        self, now: float, failure: Failure, *, counts: bool = True, least: float = 0.0
    ) -> list[Action]:
        self._start_by = None
        self._remember(failure)
        was_ready = self.state is State.READY
        self._tally.limit(most=self.rules.max_failures, window=self.rules.window)
        is_counted = counts and not self._has_answered
        if self._is_last_try or (is_counted and self._tally.add(now)):
            self._is_last_try = False
            self._failed_at = now
            actions = self._go(Trigger.GAVE_UP, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False)]
        if not self.rules.restarts:
            actions = self._go(Trigger.ENDED, failure)
            return [*actions, Down(failure, is_planned=False, comes_back=False)]
        self._failures += 1
        if was_ready:
            self.restarts += 1
        wait = delay(
            self._failures,
            first=self.rules.backoff,
            most=self.rules.backoff_max,
            roll=self.roll,
        )
        wait = max(wait, least)
        self._retry_at = now + wait
        actions = self._go(Trigger.DIED, failure, delay_s=wait)
        return [*actions, Down(failure, is_planned=False, comes_back=True)]

    def _after_stop(self, now: float) -> list[Action]:
        actions = self._go(Trigger.GONE)
        if self._then is Wish.START:
            self._then = Wish.NOTHING
            actions += self._start()
        return actions

    def _forgive(self) -> None:
        self._tally.clear()
        self._failures = self._clean_ends = 0
        self._not_before = 0.0
        self._is_last_try = False

    def _remember(self, failure: Failure) -> None:
        self.last_failure = failure
        self.last_error = failure.message

    def _go(
        self, trigger: Trigger, failure: Failure | None = None, delay_s: float | None = None
    ) -> list[Action]:
        self.state = step(self.state, trigger)
        self._is_probing = self.is_between = False
        if self.state is not State.READY:
            self.ready_at = None
        return [Note(self.state, failure, delay_s, self._failures)]

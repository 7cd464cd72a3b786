"""The machine of one server under anything that may happen, in any order.

The world around it does what it may do: it takes turns or lets them wait, processes become ready
or die, trees take their time to go, people and users want this and that.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.actions import Action, Down, End, Spawn, StateChanged
from mcpd.core.lifecycle.machine import AfterStop, Machine
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.lifecycle.states import State

DEATH = Failure("server_crashed", "died", "echo")
LOCKED_OUT = Failure("login_required", "sign in", "echo")
UNAUTHORIZED = Failure("unauthorized", "wrong key", "echo")
FORGOTTEN = Failure("connect_failed", "the session is gone", "echo")
PROBED = Failure("server_stopped", "said nothing", "echo")
STOP = Failure("server_stopped", "stopped", "echo")
ROLLS = st.floats(0, 1, exclude_max=True)


class Lifecycle(RuleBasedStateMachine):
    """Invariant: nothing raises, one tree at a time, and whoever waits is told in the end.

    Each start has twice the time of the one before where that was too short for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.machine = Machine(
            "echo",
            Rules(
                startup_timeout=5,
                startup_timeout_max=12,
                idle_timeout=20,
                restarts=True,
                backoff=1,
                backoff_max=4,
                max_failures=3,
                window=10,
                failed_retry=15,
            ),
        )
        self.turns: list[int] = []
        self.has_process = False
        self.has_tree = False
        self.is_ending = False  # an end was asked for, and is not done
        self.is_heard = False  # the process was not reported as down
        self.waits = False  # somebody wants the server and was told nothing
        self.probes = False  # the process was said to be asked what it may die of
        self.start_by: float | None = None  # when the attempt to start is over
        self.given = 0.0  # how long it had
        self.in_vain = 0.0  # what a start had that took too long, until one succeeds

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Spawn():
                    assert not self.has_tree, "a new process while the old tree is alive"
                    assert action.generation == self.machine.generation
                    assert action.generation not in self.turns
                    self.turns.append(action.generation)
                case End():
                    assert self.has_tree
                    self.is_ending = True
                case Down():
                    self.is_heard = False
                    if action.failure.kind == "startup_timeout":
                        assert action.failure.details["seconds"] == self.given
                        self.in_vain = self.given
                        assert action.failure.details["next_seconds"] == self.limit
                    # who waits for a start learns of its failure; only what was held back for
                    # a restart goes on waiting
                    self.waits = self.waits and action.is_planned and action.comes_back
                case StateChanged():
                    assert action.state is self.machine.state or action is not actions[-1]

    @property
    def limit(self) -> float:
        """Seconds that a start has."""
        rules = self.machine.rules
        return float(min(2 * self.in_vain or rules.startup_timeout, rules.startup_timeout_max))

    def input(self, actions: list[Action]) -> None:
        self.do(actions)
        if self.machine.state in (State.FAILED, State.LOGIN):
            self.waits = False  # the shell answers at once

    @rule(roll=ROLLS)
    def dice(self, roll: float) -> None:
        self.machine.roll = roll

    @rule()
    def want(self) -> None:
        self.machine.busy()
        self.waits = self.machine.state is not State.READY
        self.input(self.machine.start_on_demand(self.now))

    @rule()
    def nobody_wants_it(self) -> None:
        if not self.waits:
            self.machine.idle(self.now)

    @rule()
    def a_person_starts(self) -> None:
        self.input(self.machine.start(self.now))

    @rule(then=st.sampled_from(AfterStop))
    def a_person_stops(self, then: AfterStop) -> None:
        self.input(self.machine.stop(self.now, STOP, then=then))

    @precondition(lambda self: self.turns)
    @rule(works=st.booleans())
    def a_turn_comes(self, works: bool) -> None:
        generation = self.turns.pop(0)
        if not self.machine.may_spawn(generation):
            return
        assert not self.has_tree
        if works:
            self.has_process = self.has_tree = self.is_heard = True
            self.probes = False
            if not self.machine.is_between_processes:
                self.given = self.limit
                self.start_by = self.now + self.given
            self.input(self.machine.spawned(self.now))
            assert self.machine.next_deadline() == self.start_by
        else:
            self.input(self.machine.spawn_failed(self.now, DEATH))

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule()
    def it_is_ready(self) -> None:
        self.input(self.machine.ready(self.now))
        if self.machine.state is State.READY:
            self.waits = False
            self.in_vain = 0.0

    @rule()
    def its_entry_changes(self) -> None:
        self.machine.start_timeout.reset()
        self.in_vain = 0.0

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule(why=st.sampled_from([DEATH, LOCKED_OUT, UNAUTHORIZED]))
    def it_is_refused(self, why: Failure) -> None:
        was_starting = self.machine.state is State.STARTING
        self.input(self.machine.start_refused(self.now, why))
        if was_starting and why is not DEATH:
            assert self.machine.state is (State.LOGIN if why is LOCKED_OUT else State.FAILED)

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule()
    def it_has_forgotten_us(self) -> None:
        was_ready, restarts = self.machine.state is State.READY, self.machine.restarts
        failure = self.machine.last_failure
        self.input(self.machine.renew(self.now, FORGOTTEN))
        if was_ready:
            assert self.machine.state is State.STARTING and self.machine.restarts == restarts
            assert self.machine.last_failure is failure

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule(is_on=st.booleans())
    def it_is_probed(self, is_on: bool) -> None:
        self.probes = is_on and self.machine.state is State.STARTING
        self.machine.set_probing(is_on)

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule()
    def another_is_wanted(self) -> None:
        generation, was_starting = self.machine.generation, self.machine.state is State.STARTING
        self.input(self.machine.replace_process(self.now, PROBED))
        assert self.machine.is_between_processes == was_starting
        assert self.machine.generation == generation + was_starting

    @precondition(lambda self: self.has_process and self.is_heard)
    @rule()
    def it_answers(self) -> None:
        if self.machine.state is State.READY:
            self.machine.answered()

    @precondition(lambda self: self.has_process)
    @rule(clean=st.booleans())
    def it_exits(self, clean: bool) -> None:
        self.has_process = False
        if not self.is_heard:
            return
        machine = self.machine
        by_probe = self.probes and machine.state is State.STARTING
        before = (machine.restarts, machine.last_error)
        self.input(machine.exited(self.now, DEATH, is_clean=clean))
        if by_probe:
            assert machine.state is State.STARTING and machine.is_between_processes
            assert (machine.restarts, machine.last_error) == before

    @precondition(lambda self: self.is_ending)
    @rule()
    def its_tree_is_gone(self) -> None:
        self.has_process = self.has_tree = self.is_ending = self.is_heard = False
        self.input(self.machine.gone(self.now))

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        until, looks = self.now + seconds, 0
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.input(self.machine.tick(self.now))
            looks += 1
            assert looks < 100, "a deadline that is always due"
        self.now = until

    @invariant()
    def what_it_waits_for_will_come(self) -> None:
        """In each state something is to happen, or nobody waits."""
        match self.machine.state:
            case State.STOPPED | State.FAILED | State.LOGIN:
                assert not self.waits, "somebody waits, and nothing is going to happen"
            case State.STARTING:
                is_queued = self.machine.generation in self.turns
                assert is_queued or self.is_ending or self.machine.next_deadline() is not None
            case State.BACKOFF:
                assert self.machine.next_deadline() is not None
            case State.STOPPING:
                assert self.is_ending
            case State.READY:
                assert self.has_process and not self.waits

    def teardown(self) -> None:
        """When it is stopped and its tree is gone, it is stopped."""
        self.input(self.machine.stop(self.now, STOP))
        if self.is_ending:
            self.its_tree_is_gone()
        assert self.machine.state is State.STOPPED
        assert not self.has_tree
        assert not any(map(self.machine.may_spawn, self.turns))
        assert self.machine.next_deadline() is None


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)

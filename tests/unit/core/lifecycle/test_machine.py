"""When a process is started and stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.actions import Action, Down, End, Spawn, StateChanged
from mcpd.core.lifecycle.machine import AfterStop, Machine
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.lifecycle.states import State

RULES = Rules(
    startup_timeout=30,
    startup_timeout_max=300,
    idle_timeout=900,
    restarts=True,
    backoff=0.5,
    backoff_max=30,
    max_failures=5,
    window=60,
    failed_retry=300,
)
DIED = Failure("server_crashed", "died", "echo")
NO_COMMAND = Failure("spawn_failed", "no such command", "echo")
STOP = Failure("server_stopped", "stopped by a person", "echo")


class Shell:
    """Carries out the actions of a machine, with processes that are numbers.

    ``tree`` is the generation whose tree is alive. A process that is told to end is ``ending``
    until ``end`` says that it is gone.
    """

    def __init__(self, **changes: Any) -> None:
        self.machine = Machine("echo", msgspec.structs.replace(RULES, **changes))
        self.now = 1000.0
        self.tree: int | None = None
        self.is_ending = False
        self.turns: list[int] = []
        self.spawned: list[int] = []
        self.log: list[Action] = []

    def __call__(self, happened: Callable[[float], list[Action]]) -> list[Action]:
        actions = happened(self.now)
        self.log += actions
        for action in actions:
            match action:
                case Spawn():
                    assert self.tree is None, "a new process while the old tree is alive"
                    self.turns.append(action.generation)
                case End():
                    assert self.tree is not None
                    self.is_ending = True
        return actions

    @property
    def state(self) -> State:
        return self.machine.state

    def want(self) -> list[Action]:
        return self(self.machine.start_on_demand)

    def take_turn(self, *, works: bool = True) -> list[Action]:
        """Spawn the processes that wait for their turn and are still valid."""
        actions: list[Action] = []
        for generation in self.turns:
            if not self.machine.may_spawn(generation):
                continue
            self.spawned.append(generation)
            if works:
                self.tree = generation
                actions += self(self.machine.spawned)
            else:
                actions += self(lambda now: self.machine.spawn_failed(now, NO_COMMAND))
        self.turns.clear()
        return actions

    def ready(self) -> list[Action]:
        return self(self.machine.ready)

    def up(self) -> None:
        """Bring it to ready."""
        self.want()
        self.take_turn()
        self.ready()
        assert self.state is State.READY

    def die(self, *, clean: bool = False, message: str = "died") -> list[Action]:
        """Let the process end by itself, and its tree with it."""
        failure = Failure("server_crashed", message, "echo", True, None, {"exit_code": 1})
        actions = self(lambda now: self.machine.exited(now, failure, is_clean=clean))
        return actions + self.end()

    def end(self) -> list[Action]:
        """The tree is gone."""
        assert self.is_ending
        self.tree, self.is_ending = None, False
        return self(self.machine.gone)

    def stop(self, then: AfterStop = AfterStop.NOTHING) -> list[Action]:
        return self(lambda now: self.machine.stop(now, STOP, then=then))

    def wait(self, seconds: float) -> list[Action]:
        """Let time pass, and the timers that are due with it."""
        until, actions = self.now + seconds, list[Action]()
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            actions += self(self.machine.tick)
        self.now = until
        return actions


def downs(actions: list[Action]) -> list[tuple[str, bool, bool]]:
    found = [a for a in actions if isinstance(a, Down)]
    return [(a.failure.kind, a.is_planned, a.comes_back) for a in found]


def states(actions: list[Action]) -> list[State]:
    return [a.state for a in actions if isinstance(a, StateChanged)]


# -- starting -------------------------------------------------------------------------------------


def test_a_start_that_is_held_back_is_tried_at_the_next_use_and_counts_nowhere() -> None:
    """A keyring that is locked says nothing about the server that needs it."""
    shell = Shell(max_failures=1)
    locked = Failure("spawn_failed", "the keyring is locked", "echo", True)
    for _ in range(3):
        shell.want()
        assert shell.state is State.STARTING
        actions = shell(lambda now: shell.machine.held_back(locked))
        assert states(actions) == [State.STOPPED] and downs(actions) == [
            ("spawn_failed", False, False)
        ]
        assert [a.is_held_back for a in actions if isinstance(a, StateChanged)] == [True]
        shell.turns.clear()
        assert shell.machine.next_deadline() is None and shell.machine.restarts == 0
    shell.up()


def test_a_server_without_requests_is_not_started():
    shell = Shell()
    assert shell.state is State.STOPPED
    assert shell.machine.next_deadline() is None


def test_concurrent_requests_start_it_once():
    """
    B047: twenty calls to a dead server are one start.
    """
    shell = Shell()
    for _ in range(20):
        shell.want()
    assert shell.turns == [1]
    shell.take_turn()
    for _ in range(20):
        shell.want()
    shell.ready()
    shell.want()
    assert shell.spawned == [1] and shell.turns == []


def test_the_time_of_becoming_ready_is_kept():
    shell = Shell()
    shell.up()
    assert (shell.machine.ready_at, shell.machine.generation) == (shell.now, 1)


def test_waiting_for_its_turn_is_not_start_up_time():
    """
    B026: a queue of cold starts must not fail those at its end.
    """
    shell = Shell()
    shell.machine.busy()
    shell.want()
    shell.wait(1000)
    assert shell.state is State.STARTING
    shell.take_turn()
    shell.wait(29.9)
    assert shell.state is State.STARTING
    assert downs(shell.wait(0.1)) == [("startup_timeout", False, True)]


def test_a_start_that_takes_too_long_is_ended():
    shell = Shell()
    shell.want()
    shell.take_turn()
    actions = shell.wait(30)
    assert [type(a) for a in actions] == [StateChanged, Down, End]
    assert shell.state is State.BACKOFF
    assert "not ready within 30 s" in str(shell.machine.last_error)


def run_out(shell: Shell) -> Failure:
    """Let a start time out; return its failure."""
    if shell.state is not State.STARTING:
        shell.wait(60)
        shell.want()
    shell.take_turn()
    shell.wait(shell.machine.start_limit)
    shell.end()
    assert shell.machine.last_failure is not None
    return shell.machine.last_failure


def test_each_further_try_gets_twice_the_time_and_is_not_given_up_for_that():
    """
    B023: an installation that is killed begins from nothing, and must get to its end some day.
    """
    shell = Shell()
    shell.machine.busy()
    shell.want()
    given = [run_out(shell).details["seconds"] for _ in range(8)]
    assert given == [30, 60, 120, 240, 300, 300, 300, 300]
    assert shell.state is State.BACKOFF


def test_a_start_that_timed_out_names_the_limit_of_the_next():
    shell = Shell(startup_timeout_max=50)
    shell.machine.busy()
    shell.want()
    first, second = run_out(shell), run_out(shell)
    assert first.message == "echo was not ready within 30 s; the next try gets 50 s"
    assert first.hint == "see `mcpctl logs echo`; startup_timeout gives it more time"
    assert first.details == {"limit": "startup_timeout", "seconds": 30, "next_seconds": 50}
    assert second.message == "echo was not ready within 50 s"
    assert second.hint == "see `mcpctl logs echo`; startup_timeout_max gives it more time"
    assert second.details == {"limit": "startup_timeout_max", "seconds": 50, "next_seconds": 50}


def test_a_crash_gives_the_next_start_no_more_time():
    shell = Shell()
    shell.want()
    shell.take_turn()
    shell.die()
    assert shell.machine.next_start_limit() == 30


def test_a_success_ends_the_longer_times():
    shell = Shell()
    shell.want()
    run_out(shell)
    shell.wait(60)
    shell.up()
    assert shell.machine.next_start_limit() == 30


def test_a_start_by_a_user_keeps_the_longer_limit():
    """
    Otherwise repeated `mcpctl start` would never let it become ready.
    """
    shell = Shell()
    shell.want()
    run_out(shell)
    shell(shell.machine.start)
    run_out(shell)
    shell.stop(AfterStop.START)
    shell.take_turn()
    assert shell.machine.start_limit == 120


def test_a_server_that_waits_for_a_person_may_be_given_all_the_time_there_is():
    """
    B138: its start opens a browser, and a kill opens another.
    """
    shell = Shell(startup_timeout=0)
    shell.want()
    shell.take_turn()
    shell.wait(1_000_000)
    assert shell.state is State.STARTING
    shell.ready()
    assert shell.spawned == [1]


def test_a_process_that_cannot_be_used_is_ended():
    shell = Shell()
    shell.want()
    shell.take_turn()
    failure = Failure("handshake_failed", "it speaks nonsense", "echo")
    actions = shell(lambda now: shell.machine.start_refused(now, failure))
    assert downs(actions) == [("handshake_failed", False, True)]
    assert End() in actions


def test_an_early_exit_is_known_at_once():
    """
    B035: not when the start-up time is over.
    """
    shell = Shell()
    shell.want()
    shell.take_turn()
    assert downs(shell.die(message="usage: …")) == [("server_crashed", False, True)]
    assert shell.machine.last_error == "usage: …"


def test_a_command_that_cannot_be_started_fails_its_callers():
    shell = Shell()
    shell.want()
    assert downs(shell.take_turn(works=False)) == [("spawn_failed", False, True)]
    assert shell.state is State.BACKOFF


def test_reports_of_an_earlier_start_are_ignored():
    shell = Shell()
    shell.up()
    assert shell.ready() == []
    assert shell(lambda now: shell.machine.start_refused(now, STOP)) == []
    shell.die()
    assert shell.ready() == []
    assert shell.state is State.BACKOFF


# -- failing --------------------------------------------------------------------------------------


def test_after_a_death_it_comes_back_by_itself():
    """
    B024, B039: without a request.
    """
    shell = Shell()
    shell.up()
    actions = shell.die()
    assert downs(actions) == [("server_crashed", False, True)]
    assert states(actions) == [State.BACKOFF]
    shell.wait(0.5)
    assert shell.state is State.STARTING
    shell.take_turn()
    shell.ready()
    assert (shell.machine.generation, shell.machine.restarts) == (2, 1)


def test_a_start_that_fails_is_no_restart():
    shell = Shell()
    shell.want()
    shell.take_turn()
    shell.die()
    assert shell.machine.restarts == 0


def test_a_call_during_the_backoff_waits_for_it():
    shell = Shell()
    shell.up()
    shell.die()
    assert shell.want() == []
    assert shell.turns == []


def test_the_backoff_grows_with_each_failure_and_has_jitter():
    """
    B045: exponential, with jitter, up to a cap.
    """
    shell = Shell(max_failures=0)
    waits = []
    for roll in (1.0, 0.5, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0):
        shell.machine.roll = roll
        shell.want()
        shell.take_turn()
        shell.die()
        due = shell.machine.next_deadline()
        assert due is not None
        waits.append(due - shell.now)
        shell.wait(waits[-1])
    assert waits == [0.5, 0.5, 2.0, 0.0, 8.0, 16.0, 30.0, 30.0]


def test_the_backoff_says_how_long_and_why():
    shell = Shell()
    shell.up()
    (change,) = [a for a in shell.die() if isinstance(a, StateChanged)]
    assert (change.delay_s, change.failures) == (0.5, 1)
    assert change.failure is not None and change.failure.message == "died"


def test_being_ready_for_long_makes_the_backoff_short_again():
    shell = Shell()
    for _ in range(4):
        shell.up()
        shell.machine.answered()
        shell.die()
        shell.wait(30)
    assert shell.machine._failures == 4
    shell.take_turn()
    shell.ready()
    shell.wait(60)
    shell.die()
    assert shell.machine._failures == 1


def test_too_many_deaths_before_any_answer_and_it_has_failed():
    """
    B045: then no request starts it.
    """
    shell = Shell()
    for _ in range(5):
        shell.want()
        shell.take_turn()
        actions = shell.die()
        shell.wait(8)
    assert downs(actions) == [("server_crashed", False, False)]
    assert shell.state is State.FAILED
    assert len(shell.spawned) == 5
    for _ in range(20):
        assert shell.want() == []
    shell.wait(250)
    assert shell.want() == []
    assert len(shell.spawned) == 5


def test_deaths_far_apart_are_not_too_many():
    shell = Shell()
    for _ in range(20):
        shell.want()
        shell.take_turn()
        shell.die()
        shell.wait(31)
    assert shell.state is not State.FAILED


def test_a_process_that_has_answered_never_makes_it_fail():
    """
    One client that knows how to crash a server must not take it from all.
    """
    shell = Shell(backoff=0)
    for _ in range(50):
        shell.want()
        shell.take_turn()
        shell.ready()
        shell.machine.answered()
        shell.die()
        shell.wait(0)
    assert shell.state is State.STARTING
    assert shell.machine.restarts == 50


def test_the_next_process_has_to_answer_for_itself():
    shell = Shell(backoff=0, max_failures=2)
    shell.up()
    shell.machine.answered()
    shell.die()
    for _ in range(2):
        shell.wait(0)
        shell.take_turn()
        shell.die()
    assert shell.state is State.FAILED


def test_without_max_failures_it_is_never_given_up():
    shell = Shell(max_failures=0, backoff=0)
    for _ in range(50):
        shell.want()
        shell.take_turn()
        shell.die()
        shell.wait(0)
    assert shell.state is not State.FAILED


def failed(**changes: Any) -> Shell:
    shell = Shell(max_failures=1, **changes)
    shell.want()
    shell.take_turn()
    shell.die()
    assert shell.state is State.FAILED
    return shell


def test_a_failed_server_is_started_again_after_failed_retry():
    shell = failed()
    shell.wait(300)
    shell.want()
    assert shell.state is State.STARTING
    shell.take_turn()
    assert downs(shell.die()) == [("server_crashed", False, False)]
    assert shell.state is State.FAILED
    shell.wait(299)
    assert shell.want() == []
    shell.wait(1)
    shell.want()
    shell.take_turn()
    shell.ready()
    assert shell.state is State.READY


def test_a_failed_server_has_one_attempt_per_failed_retry():
    """
    Though its death is the only one within the window by then.
    """
    shell = Shell(max_failures=2)
    for _ in range(2):
        shell.want()
        shell.take_turn()
        shell.die()
        shell.wait(0.5)
    assert shell.state is State.FAILED
    shell.wait(300)
    shell.want()
    shell.take_turn()
    assert downs(shell.wait(30)) == [("startup_timeout", False, False)]
    assert shell.state is State.FAILED


def test_an_attempt_that_succeeded_is_forgotten():
    shell = failed(backoff=0)
    shell.wait(300)
    shell.want()
    shell.take_turn()
    shell.ready()
    shell.machine.answered()
    assert downs(shell.die()) == [("server_crashed", False, True)]


def test_an_attempt_that_was_stopped_is_forgotten():
    shell = Shell(max_failures=2, backoff=0)
    for _ in range(2):
        shell.want()
        shell.take_turn()
        shell.die()
        shell.wait(0)
    shell.wait(300)
    shell.want()
    shell.take_turn()
    shell.stop(AfterStop.START)
    shell.end()
    shell.take_turn()
    assert downs(shell.die()) == [("server_crashed", False, True)]


def test_without_failed_retry_only_a_user_starts_a_failed_server():
    shell = failed(failed_retry=0)
    shell.wait(100_000)
    assert shell.want() == []
    shell(shell.machine.start)
    assert shell.state is State.STARTING


def test_a_start_by_a_user_forgets_failures():
    shell = Shell(max_failures=2, backoff=8)
    for _ in range(2):
        shell.want()
        shell.take_turn()
        shell.die()
        shell.wait(8)
    assert shell.state is State.FAILED
    shell(shell.machine.start)
    shell.take_turn()
    assert downs(shell.die()) == [("server_crashed", False, True)]
    assert shell.machine.next_deadline() == shell.now + 8


def test_a_start_by_a_user_ends_a_backoff():
    shell = Shell()
    shell.up()
    shell.die()
    shell(shell.machine.start)
    assert shell.state is State.STARTING and len(shell.turns) == 1
    shell.take_turn()
    assert shell.wait(29) == []


# -- ends that are no crashes ------------------------------------------------------------------------


def test_a_clean_exit_is_no_crash():
    """
    It is started again at its next use, and not before.
    """
    shell = Shell()
    shell.up()
    actions = shell.die(clean=True)
    assert downs(actions) == [("server_crashed", False, False)]
    assert states(actions) == [State.STOPPED]
    assert shell.wait(1000) == []
    assert shell.machine.restarts == 0 and shell.machine.last_error == "died"
    shell.want()
    assert shell.state is State.STARTING


def test_clean_exits_in_a_row_have_a_backoff_of_their_own():
    shell = Shell()
    shell.up()
    shell.die(clean=True)
    shell.up()
    shell.die(clean=True)
    shell.want()
    assert shell.state is State.BACKOFF
    shell.wait(0.5)
    shell.take_turn()
    shell.ready()
    shell.die(clean=True)
    assert downs(shell.want()) == []
    assert shell.machine.next_deadline() == shell.now + 1.0
    shell.wait(1.0)
    assert shell.state is State.STARTING
    shell.take_turn()
    shell.ready()
    shell.wait(60)
    shell.die(clean=True)
    shell.want()
    assert shell.state is State.STARTING


def test_a_start_by_a_user_ends_the_backoff_of_clean_exits():
    shell = Shell()
    for _ in range(4):
        shell.up()
        shell.die(clean=True)
        shell.want()
        shell.wait(10)
        shell.stop()
        if shell.is_ending:
            shell.end()
    shell.up()
    shell.die(clean=True)
    shell.stop()
    shell.want()
    assert shell.state is State.STARTING


def test_a_clean_exit_before_it_is_ready_is_a_failed_start():
    shell = Shell()
    shell.want()
    shell.take_turn()
    assert downs(shell.die(clean=True)) == [("server_crashed", False, True)]
    assert shell.state is State.BACKOFF


@pytest.mark.parametrize("is_ready", [True, False])
def test_without_restarts_a_crash_stops_it(is_ready: bool):
    shell = Shell(restarts=False)
    shell.want()
    shell.take_turn()
    if is_ready:
        shell.ready()
    assert downs(shell.die()) == [("server_crashed", False, False)]
    assert shell.state is State.STOPPED and shell.machine.last_error == "died"
    assert shell.wait(1000) == []
    shell.want()
    assert shell.state is State.STARTING


# -- stopping -------------------------------------------------------------------------------------


def test_a_stop_ends_the_process_and_is_done_when_its_tree_is_gone():
    shell = Shell()
    shell.up()
    actions = shell.stop()
    assert downs(actions) == [("server_stopped", True, False)]
    assert actions[-1] == End()
    assert shell.state is State.STOPPING
    assert states(shell.end()) == [State.STOPPED]


def test_a_stop_before_the_process_exists_stops_the_start():
    shell = Shell()
    shell.want()
    assert downs(shell.stop()) == [("server_stopped", True, False)]
    assert shell.state is State.STOPPED
    shell.take_turn()
    assert shell.spawned == []


def test_a_stop_while_it_starts_ends_it():
    shell = Shell()
    shell.want()
    shell.take_turn()
    shell.stop()
    assert shell.state is State.STOPPING and shell.is_ending
    assert shell.wait(1000) == []
    shell.end()
    assert shell.state is State.STOPPED


def test_a_stop_during_the_backoff_ends_the_waiting():
    shell = Shell()
    shell.up()
    shell.die()
    actions = shell.stop()
    assert downs(actions) == [("server_stopped", True, False)]
    assert shell.state is State.STOPPED
    assert shell.wait(1000) == []


def test_a_stop_of_a_failed_server_forgets_its_failures():
    shell = failed()
    shell.stop()
    assert shell.state is State.STOPPED
    shell.want()
    assert shell.state is State.STARTING


def test_a_stop_of_what_is_stopped_does_nothing():
    shell = Shell()
    assert shell.stop() == []


def test_a_second_stop_fails_requests_since_the_first():
    """
    They wait for a start that will not come.
    """
    shell = Shell()
    shell.up()
    shell.stop()
    shell.want()
    assert downs(shell.stop()) == [("server_stopped", True, False)]
    shell.end()
    assert shell.state is State.STOPPED


def test_a_request_during_a_stop_starts_the_next_process():
    shell = Shell()
    shell.up()
    shell.stop()
    assert shell.want() == []
    assert shell.turns == []
    shell.end()
    assert shell.state is State.STARTING and shell.turns == [2]


def test_a_restart_is_a_stop_and_a_start():
    shell = Shell()
    shell.up()
    assert downs(shell.stop(AfterStop.START)) == [("server_stopped", True, True)]
    shell.end()
    shell.take_turn()
    shell.ready()
    assert shell.machine.generation == 2
    assert shell.machine.restarts == 0, "only restarts after a crash count"


@pytest.mark.parametrize("prepare", [Shell, failed])
def test_a_restart_of_what_does_not_run_is_a_start(prepare: Callable[[], Shell]):
    shell = prepare()
    shell.stop(AfterStop.START)
    assert shell.state is State.STARTING and len(shell.turns) == 1


def test_the_exit_of_a_process_that_is_being_stopped_is_no_crash():
    shell = Shell()
    shell.up()
    shell.stop()
    failure = Failure("server_crashed", "died", "echo")
    assert shell(lambda now: shell.machine.exited(now, failure, is_clean=False)) == []
    assert shell.machine.last_error is None
    shell.end()
    assert shell.state is State.STOPPED


# -- one tree at a time ---------------------------------------------------------------------------


def test_the_tree_of_a_dead_process_is_ended_before_the_next_start():
    shell = Shell()
    shell.up()
    failure = Failure("server_crashed", "died", "echo")
    actions = shell(lambda now: shell.machine.exited(now, failure, is_clean=False))
    assert End() in actions
    shell.wait(0.5)
    assert shell.state is State.STARTING and shell.turns == []
    shell.end()
    assert shell.turns == [2]


def test_an_unusable_process_is_ended_before_the_next_start():
    shell = Shell()
    shell.want()
    shell.take_turn()
    shell.wait(30)
    shell.wait(5)
    assert shell.state is State.STARTING and shell.turns == []
    shell.end()
    assert shell.turns == [2]


def test_a_start_by_a_person_waits_for_the_tree_as_well():
    shell = Shell()
    shell.up()
    failure = Failure("server_crashed", "died", "echo")
    shell(lambda now: shell.machine.exited(now, failure, is_clean=True))
    shell(shell.machine.start)
    assert shell.state is State.STARTING and shell.turns == []
    shell.end()
    assert shell.turns == [2]


def test_a_stop_waits_for_the_tree_of_a_process_that_died():
    shell = Shell()
    shell.up()
    failure = Failure("server_crashed", "died", "echo")
    shell(lambda now: shell.machine.exited(now, failure, is_clean=False))
    shell.stop()
    assert shell.state is State.STOPPING
    shell.end()
    assert shell.state is State.STOPPED


# -- idleness -------------------------------------------------------------------------------------


def test_an_idle_server_is_stopped():
    shell = Shell()
    shell.machine.busy()
    shell.up()
    assert shell.wait(5000) == []
    shell.machine.idle(shell.now)
    assert shell.wait(899) == []
    assert downs(shell.wait(1)) == [("server_stopped", True, False)]
    shell.end()
    assert shell.state is State.STOPPED


def test_a_request_in_time_restarts_the_idle_time():
    shell = Shell()
    shell.up()
    shell.wait(800)
    shell.machine.busy()
    shell.wait(800)
    shell.machine.idle(shell.now)
    assert shell.wait(800) == []


def test_idleness_counts_from_when_it_was_ready():
    shell = Shell()
    shell.want()
    shell.wait(5000)
    shell.take_turn()
    shell.ready()
    assert shell.wait(899) == []
    assert shell.wait(1) != []


def test_without_idle_timeout_it_is_not_stopped():
    shell = Shell(idle_timeout=0)
    shell.up()
    assert shell.wait(10**6) == []


def test_a_server_without_users_is_restarted_after_a_crash():
    """
    B024: one that starts with the daemon has had no user yet.
    """
    shell = Shell()
    shell.up()
    shell.die()
    shell.wait(0.5)
    assert shell.state is State.STARTING


def test_a_server_without_users_that_crashes_is_stopped_at_the_idle_timeout():
    shell = Shell(backoff=800, backoff_max=800)
    shell.up()
    shell.machine.busy()
    shell.machine.idle(shell.now)
    shell.wait(500)
    shell.die()
    assert downs(shell.wait(400)) == [("server_stopped", True, False)]
    assert shell.state is State.STOPPED


def test_a_lack_of_resources_of_the_daemon_is_no_crash():
    """
    Descriptors or memory that run out, in a daemon with many servers, would make all of them
    `failed` within seconds.
    """
    machine = Machine("echo", RULES)
    lack = Failure("spawn_failed", "too many open files", "echo")
    now = 0.0
    machine.start_on_demand(now)
    for _ in range(RULES.max_failures * 3):
        machine.spawn_failed(now, lack, is_ours=True)
        assert machine.state is State.BACKOFF
        now = machine.next_deadline() or now
        machine.tick(now)
    for _ in range(RULES.max_failures):
        machine.spawn_failed(now, NO_COMMAND)
        if machine.state is State.BACKOFF:
            machine.tick(machine.next_deadline() or now)
    assert machine.state is State.FAILED


# -- one start, several processes -----------------------------------------------------------------


def probed(**changes: Any) -> Shell:
    """Return one that is being asked what it may die of."""
    shell = Shell(**changes)
    shell.machine.busy()
    shell.want()
    shell.take_turn()
    shell.machine.set_probing(True)
    return shell


def test_an_exit_during_a_probe_is_no_crash():
    """
    No backoff, no restart that counts, nothing to be told; and the tree goes first, as always.
    """
    shell = probed()
    actions = shell(lambda now: shell.machine.exited(now, DIED, is_clean=False))
    assert downs(actions) == [("server_crashed", True, True)]
    assert [type(a) for a in actions] == [Down, End]
    assert shell.state is State.STARTING and shell.machine.is_between_processes
    assert shell.turns == []
    assert shell.end() == [Spawn(2)]
    shell.take_turn()
    shell.ready()
    assert shell.spawned == [1, 2]
    assert (shell.machine.restarts, shell.machine.last_error) == (0, None)


def test_the_time_of_a_start_goes_on_from_one_process_to_the_next():
    shell = probed()
    shell.wait(20)
    shell.die()
    shell.take_turn()
    assert shell.machine.next_deadline() == 1030
    assert downs(shell.wait(10)) == [("startup_timeout", False, True)]
    assert shell.state is State.BACKOFF


def test_a_start_whose_time_is_over_between_two_processes_has_failed():
    shell = probed()
    shell.wait(29)
    shell(lambda now: shell.machine.exited(now, DIED, is_clean=False))
    assert downs(shell.wait(1)) == [("startup_timeout", False, True)]
    shell.end()
    assert shell.take_turn() == []
    assert shell.spawned == [1]


def test_a_start_whose_time_is_over_before_its_next_turn_has_failed():
    shell = probed()
    shell.die()
    actions = shell.wait(30)
    assert [type(a) for a in actions] == [StateChanged, Down], (
        "there is no tree that could be ended"
    )
    assert shell.take_turn() == []


def test_the_next_of_a_start_is_not_asked_yet():
    """
    Its death is a crash until it is.
    """
    shell = probed()
    shell.die()
    shell.take_turn()
    assert downs(shell.die()) == [("server_crashed", False, True)]
    assert shell.state is State.BACKOFF
    assert shell.machine.last_error == "died"


def test_an_exit_after_the_probe_is_a_crash():
    shell = probed()
    shell.machine.set_probing(False)
    assert downs(shell.die()) == [("server_crashed", False, True)]


def test_a_process_is_replaced_within_its_start():
    shell = probed()
    actions = shell(lambda now: shell.machine.replace_process(now, STOP))
    assert downs(actions) == [("server_stopped", True, True)]
    assert actions[-1] == End()
    late = shell(lambda now: shell.machine.exited(now, NO_COMMAND, is_clean=False))
    assert late == [], "it was told to"
    assert shell(lambda now: shell.machine.replace_process(now, STOP)) == []
    assert shell.ready() == []
    shell.end()
    shell.take_turn()
    shell.ready()
    assert (shell.state, shell.machine.generation) == (State.READY, 2)
    assert (shell.machine.restarts, shell.machine.last_error) == (0, None)


def test_only_a_process_that_is_starting_is_replaced():
    shell = Shell()
    shell.up()
    shell.machine.set_probing(True)
    assert shell(lambda now: shell.machine.replace_process(now, STOP)) == []
    assert downs(shell.die()) == [("server_crashed", False, True)]
    assert shell.machine.restarts == 1


def test_a_stop_between_two_processes_is_a_stop():
    shell = probed()
    shell(lambda now: shell.machine.exited(now, NO_COMMAND, is_clean=False))
    assert downs(shell.stop()) == [("server_stopped", True, False)]
    assert shell.state is State.STOPPING
    shell.end()
    assert shell.state is State.STOPPED
    assert shell.take_turn() == []


def test_a_restart_between_two_processes_is_another_start():
    shell = probed()
    shell(lambda now: shell.machine.exited(now, NO_COMMAND, is_clean=False))
    shell.wait(10)
    shell.stop(then=AfterStop.START)
    shell.end()
    shell.take_turn()
    assert shell.spawned == [1, 3]
    assert shell.machine.next_deadline() == shell.now + RULES.startup_timeout


def test_attempts_to_spawn_a_missing_command_are_apart():
    """
    With no backoff and no end of it, that would be all that the daemon does.
    """
    shell = Shell(backoff=0, max_failures=0)
    shell.machine.busy()
    shell.want()
    for _ in range(100):
        shell.take_turn(works=False)
        shell.wait(shell.machine.next_deadline() - shell.now)  # type: ignore[operator]
    assert shell.now >= 1000 + 100 * 0.05 - 0.001


LOGIN = Failure("login_required", "mcpctl login echo", "echo")
REFUSED = Failure("unauthorized", "the token was refused", "echo")
FORGOTTEN = Failure("connect_failed", "the session is gone", "echo")


def _started(**changes):
    shell = Shell(**changes)
    shell(shell.machine.start_on_demand)
    shell.turns.clear()
    shell(shell.machine.spawned)
    shell.tree = shell.machine.generation
    return shell


def test_nothing_is_tried_until_somebody_signs_in():
    shell = _started()
    shell(lambda now: shell.machine.start_refused(now, LOGIN))
    assert shell.machine.state is State.LOGIN and shell.machine.next_deadline() is None
    assert shell(shell.machine.start_on_demand) == []
    shell.tree = None
    shell(shell.machine.gone)
    shell(shell.machine.start)
    assert shell.machine.state is State.STARTING and shell.machine.restarts == 0


def test_a_credential_that_is_refused_is_not_tried_again():
    shell = _started(failed_retry=1)
    shell(lambda now: shell.machine.start_refused(now, REFUSED))
    assert shell.machine.state is State.FAILED
    shell.now += 1000
    assert shell(shell.machine.start_on_demand) == []


def test_a_server_that_forgot_us_is_connected_again_at_once_and_it_is_no_crash():
    shell = _started()
    shell(shell.machine.ready)
    generation = shell.machine.generation
    actions = shell(lambda now: shell.machine.renew(now, FORGOTTEN))
    assert [type(action) for action in actions] == [StateChanged, Down, End]
    assert actions[1] == Down(FORGOTTEN, is_planned=False, comes_back=True)
    assert shell.machine.state is State.STARTING and shell.machine.generation == generation + 1
    shell.tree = None
    shell(shell.machine.gone)
    assert shell.turns == [generation + 1]
    assert shell.machine.restarts == 0 and shell.machine.last_error is None


def test_a_server_that_forgets_us_before_it_is_ready_has_failed_to_start():
    shell = _started()
    shell(lambda now: shell.machine.renew(now, FORGOTTEN))
    assert shell.machine.state is State.BACKOFF and shell.machine.last_failure == FORGOTTEN


def test_a_connection_that_fails_while_the_era_is_asked_is_no_answer():
    shell = _started()
    shell.machine.set_probing(True)
    shell(lambda now: shell.machine.exited(now, FORGOTTEN, is_clean=False))
    assert shell.machine.state is State.BACKOFF

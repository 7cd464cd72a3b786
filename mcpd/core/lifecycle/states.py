"""The states of a server's process, and the table of transitions between them.

The state is what is true of the process; whether anyone uses the server is kept apart. Each event
is a trigger, and ``step`` is the only way to a new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from mcpd.errors import IllegalTransition


class State(Enum):
    """What is true of the process."""

    STOPPED = "stopped"  # there is no process, and no start is planned
    STARTING = "starting"  # a process waits for its turn, is being spawned, or is not ready yet
    READY = "ready"  # it has done its handshake and listed its tools
    BACKOFF = "backoff"  # it died; the next start has a time
    FAILED = "failed"  # it died too often; no start is planned
    LOGIN = "login"  # somebody must sign in before another start
    STOPPING = "stopping"  # it is being ended, and some of its process tree may be alive


class Trigger(Enum):
    """What can happen to the process."""

    START = "start"
    READY = "ready"
    RENEW = "renew"
    DIED = "died"
    ENDED = "ended"
    GAVE_UP = "gave-up"
    LOCKED_OUT = "locked-out"
    STOP = "stop"
    GONE = "gone"
    DELAY = "delay"


TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    State.STOPPED: {
        Trigger.START: State.STARTING,
        Trigger.DELAY: State.BACKOFF,
        Trigger.STOP: State.STOPPED,
    },
    State.STARTING: {
        Trigger.READY: State.READY,
        Trigger.DIED: State.BACKOFF,
        Trigger.ENDED: State.STOPPED,
        Trigger.GAVE_UP: State.FAILED,
        Trigger.LOCKED_OUT: State.LOGIN,
        Trigger.STOP: State.STOPPING,
    },
    State.READY: {
        Trigger.RENEW: State.STARTING,
        Trigger.DIED: State.BACKOFF,
        Trigger.ENDED: State.STOPPED,
        Trigger.GAVE_UP: State.FAILED,
        Trigger.LOCKED_OUT: State.LOGIN,
        Trigger.STOP: State.STOPPING,
    },
    State.BACKOFF: {
        Trigger.START: State.STARTING,
        Trigger.STOP: State.STOPPING,
    },
    State.FAILED: {
        Trigger.START: State.STARTING,
        Trigger.STOP: State.STOPPING,
    },
    State.LOGIN: {
        Trigger.START: State.STARTING,
        Trigger.STOP: State.STOPPING,
    },
    State.STOPPING: {
        Trigger.GONE: State.STOPPED,
        Trigger.STOP: State.STOPPING,
    },
}


def step(state: State, trigger: Trigger) -> State:
    """Return the state after ``trigger``; raise ``IllegalTransition`` if there is none."""
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        raise IllegalTransition(f"{trigger.value} while {state.value}") from None

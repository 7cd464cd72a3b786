"""What a lifecycle machine asks its driver to do."""

from __future__ import annotations

import msgspec

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.states import State


class Spawn(msgspec.Struct, frozen=True):
    """Start a process as this generation, as soon as fewer servers start than may at a time."""

    generation: int


class End(msgspec.Struct, frozen=True):
    """End the process and its process tree, and call ``gone`` once nothing of it is alive."""


class Down(msgspec.Struct, frozen=True):
    """The process takes no more messages: fail the pending requests, or hold them.

    ``is_planned`` is true for a stop and false for a crash; ``comes_back`` is true if another
    process will be started without a request for it.
    """

    failure: Failure
    is_planned: bool
    comes_back: bool


class StateChanged(msgspec.Struct, frozen=True):
    """The machine is in another state; ``delay_s`` is the length of a backoff in seconds.

    ``is_held_back``: nothing was started, and nothing has crashed.
    """

    state: State
    failure: Failure | None = None
    delay_s: float | None = None
    failures: int = 0
    is_held_back: bool = False


Action = Spawn | End | Down | StateChanged

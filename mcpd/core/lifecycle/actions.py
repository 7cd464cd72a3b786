"""What a machine asks of the shell, in order."""

from __future__ import annotations

import msgspec

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.states import State


class Spawn(msgspec.Struct, frozen=True):
    """Start a process, when its turn has come, as this generation."""

    generation: int


class End(msgspec.Struct, frozen=True):
    """End the process, if it has not ended itself, and its tree; report ``gone`` when proven."""


class Down(msgspec.Struct, frozen=True):
    """There is no process to send to any more: fail what waits, or hold it for the next start.

    ``is_planned`` tells a stop from a death; ``comes_back`` that a next start has a time.
    """

    failure: Failure
    is_planned: bool
    comes_back: bool


class Note(msgspec.Struct, frozen=True):
    """The state is another one; ``delay_s`` is that of a backoff."""

    state: State
    failure: Failure | None = None
    delay_s: float | None = None
    failures: int = 0


Action = Spawn | End | Down | Note

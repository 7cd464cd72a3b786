"""What a kind of upstream does for the supervisor, and what it reports back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from mcpd.core.facts import Failure
from mcpd.ids import SlotId
from mcpd.upstreams.run import Backend, Frames, Run
from mcpd.upstreams.slot import Slot

Backend_contra = TypeVar("Backend_contra", bound=Backend, contravariant=True)


class NotStarted(msgspec.Struct, frozen=True):
    """A start that failed at once.

    ``is_ours``: for lack of a resource of the daemon's, which is not held against the server.
    ``is_outside``: for a reason outside of both; the next use tries again, and nothing does before.
    """

    failure: Failure
    is_ours: bool = False
    is_outside: bool = False


class Reports(Protocol):
    """What a run reports to the supervisor, when it happens and not later."""

    def frames(self, ident: SlotId) -> Frames:
        """Return what takes the frames of the server in a slot."""

    def connected(self, slot: Slot, run: Run) -> None:
        """The server can be written to."""

    def probe_read(self, slot: Slot) -> None:
        """The server has read the request that may end it."""

    def ended(self, slot: Slot, run: Run, failure: Failure, *, is_clean: bool) -> None:
        """The run ended by itself. ``is_clean``: as a server does that has nothing to do."""

    def forgotten(self, slot: Slot, run: Run, failure: Failure) -> None:
        """The server does not know this run any more, and takes another at once."""

    def unsent(self, slot: Slot, wire_id: int) -> None:
        """The server has not read this request; ``ended`` or ``forgotten`` follows."""

    def failed(self, slot: Slot, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """The server will not answer this request. ``may_repeat``: where that does no harm."""


class UpstreamHost(Protocol[Backend_contra]):
    """Starts one kind of upstream. The supervisor decides when, and when a run ends."""

    def must_wait(self, backend: Backend_contra, then: Callable[[], None]) -> bool:
        """Return whether a start must wait; ``then`` is called when it need not any more."""

    def start(
        self, slot: Slot, backend: Backend_contra, generation: int, reports: Reports
    ) -> Run | NotStarted:
        """Start a server. Nothing is reported before ``Run.begin``."""

"""Requests of clients that wait for a process, a list or a log level, and go on in one place.

Calls wait elsewhere, in ``core.requests``: for the process, for their turn, and for room.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.upstream import Upstream


class Waitable(Protocol):
    """A client's request, or a subscription that is being opened."""

    is_over: bool
    leave: Callable[[], object] | None
    """Takes it out of where it waits; called when it ends."""

    def refuse(self, failure: Failure) -> None:
        """Answer it with a failure."""


R = TypeVar("R", bound=Waitable)


class Waiting(Generic[R]):
    """A request that waits for a process.

    Calling it resumes the request, with the failure where there is one. This is the one place that
    looks at what became of the request, the process and its slot: a request that has ended is left
    alone, one whose process has left its slot begins ``again``, one that cannot be served is
    refused, and any other takes its next ``step``.
    """

    __slots__ = ("_again", "_refuse", "_request", "_state", "_step", "_upstream")

    def __init__(
        self,
        state: MuxState,
        request: R,
        upstream: Upstream,
        step: Callable[[R, Upstream], None],
        again: Callable[[R], None],
        refuse: Callable[[R, Failure], None] | None = None,
    ) -> None:
        """``refuse`` answers a request that cannot be served, if not with the failure."""
        self._state = state
        self._request = request
        self._upstream = upstream
        self._step = step
        self._again = again
        self._refuse = refuse

    def __call__(self, *came: object) -> None:
        """Resume the request. The last argument may be a failure."""
        request = self._request
        request.leave = None
        if request.is_over:
            return
        failure = came[-1] if came else None
        if not isinstance(failure, Failure):
            self._step(request, self._upstream)
        elif self._state.has_left(self._upstream):
            self._again(request)
        elif self._refuse is not None:
            self._refuse(request, failure)
        else:
            request.refuse(failure)

    def for_start(self) -> None:
        """Wait until the process is ready, or will not be."""
        start = self._upstream.calls.start_wait
        self._request.leave = partial(start.wait_no_more, self)
        start.when_ready(self)

    def for_list(self, kind: Kind, lists: Lists) -> None:
        """Wait until the process has listed."""
        self._request.leave = partial(lists.wait_no_more, kind, self)
        lists.listing(kind, self)

    def for_level(self, wait: Callable[[Waiting[R]], None]) -> None:
        """Wait until the process has a log level, which ``wait`` sets."""
        self._request.leave = partial(self._upstream.log_level.wait_no_more, self)
        wait(self)

    def for_fresh(self, kind: Kind, lists: Lists) -> None:
        """Wait until our copy of a list is what may be given out now."""
        lists.fresh(kind, self)

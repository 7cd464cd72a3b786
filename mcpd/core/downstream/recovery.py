"""Servers that have failed, and whose lists sessions still wait for: they are tried once more."""

from __future__ import annotations

from functools import partial
from typing import Final

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.facts import Failure
from mcpd.core.interface.context import Timer
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream

_LATER: Final = 0.1
"""Seconds added to the wait, so that requests which wait as long are answered before."""


class Recovery:
    """A session that was answered without a server's tools cannot call them, and so never uses it.

    So it is used for them, once per ``failed_retry``, while there is such a session.
    """

    def __init__(self, state: MuxState, served: ListRequests) -> None:
        self._state = state
        self._list_requests = served
        self._timers: dict[str, Timer] = {}
        """The next try of a launch."""

    def lost(self, upstream: Upstream) -> None:
        """There is no process, and none will come by itself."""
        entry, launch = upstream.entry, upstream.entry.launch
        if entry.failed_retry > 0 and launch not in self._timers:
            self._timers[launch] = self._state.ctx.after(
                entry.failed_retry + _LATER, partial(self._try_again, launch)
            )

    def _try_again(self, launch: str) -> None:
        del self._timers[launch]
        state = self._state
        missing = {kind for session in state.sessions.values() for kind in session.incomplete}
        for each in state.entries.values():
            if each.launch != launch or not each.is_listed:
                continue
            for kind in Kind:
                entry = self._list_requests.unlisted(each.name, kind) if kind in missing else None
                if entry is not None:
                    self._list_requests.slots.control_upstream(entry).lists.listing(kind, _nobody)
                    return


def _nobody(_listing: Listing | None, _failure: Failure | None) -> None:
    """Notify the sessions that wait for it once the process is ready."""

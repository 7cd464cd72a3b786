"""Whose time stands still, and for how many reasons."""

from __future__ import annotations

from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.requests import Requests


class Pauses:
    """Counts what keeps the time-outs of each call: one question, two of them, being parked."""

    def __init__(self) -> None:
        self._reasons: dict[Pending, int] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def reasons(self, pending: Pending) -> int:
        """Return for how many reasons the time of a call stands still."""
        return self._reasons.get(pending, 0)

    def stop(self, requests: Requests, pending: Pending) -> None:
        """Have the time of a call stand still, for one reason more."""
        reasons = self._reasons.get(pending, 0)
        self._reasons[pending] = reasons + 1
        if not reasons and not pending.is_over:
            requests.pause(pending)

    def go_on(self, requests: Requests, pending: Pending) -> None:
        """One reason is gone; with the last one time goes on, unless the call is over."""
        reasons = self._reasons.pop(pending) - 1
        if reasons:
            self._reasons[pending] = reasons
        elif not pending.is_over:
            requests.resume(pending)

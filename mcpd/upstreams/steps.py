"""How far a start has come, and how long each step of it took."""

from __future__ import annotations

from typing import Final

from mcpd.api.results import Step

STEPS: Final = ("start", "handshake", "list")
"""Launched or connected, introduced, its tools listed."""


class Steps:
    """The steps of one start, which may take several processes until one can be used.

    Times are monotonic seconds, on the clock of the supervisor.
    """

    def __init__(self, now: float) -> None:
        self._times = [now]
        """When it began, and when each step was done."""
        self._failed_at: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all steps are done: the server is, or was, ready."""
        return len(self._times) > len(STEPS)

    def done(self, step: str, now: float) -> None:
        """Note that a step is done; a step that was done before keeps its time."""
        if len(self._times) == STEPS.index(step) + 1:
            self._times.append(now)

    def failed(self, now: float) -> None:
        """Note that the step in progress has failed, and the start with it."""
        self._failed_at = now

    def report(self) -> list[Step]:
        """Return the steps that are done, and the one that failed."""
        found: list[Step] = [
            {"step": step, "ok": True, "ms": _ms(end - begin)}
            for step, begin, end in zip(STEPS, self._times, self._times[1:], strict=False)
        ]
        if self._failed_at is not None:
            took = self._failed_at - self._times[-1]
            found.append({"step": STEPS[len(found)], "ok": False, "ms": _ms(took)})
        return found


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)

"""Failures of the lifecycle itself: a start that took too long, and too many deaths."""

from __future__ import annotations

from typing import Any

from mcpd.core.facts import Failure


def start_timed_out(server: str, seconds: float, next_seconds: float, setting: str) -> Failure:
    """Return the failure of a start that was not ready within ``seconds``.

    The next start has ``next_seconds``; ``setting`` is the key of the configuration with the limit.
    """
    message = f"{server} was not ready within {seconds:g} s"
    if next_seconds > seconds:
        message += f"; the next try gets {next_seconds:g} s"
    return Failure(
        kind="startup_timeout",
        message=message,
        server=server,
        is_retryable=True,
        hint=f"see `mcpctl logs {server}`; {setting} gives it more time",
        details={"limit": setting, "seconds": seconds, "next_seconds": next_seconds},
    )


def unstartable(server: str, last: Failure | None) -> Failure:
    """Return why a server in state ``failed`` or ``login`` is not started for a request."""
    if last is not None and last.kind in ("login_required", "unauthorized"):
        return last
    return crash_loop(server, last)


def crash_loop(server: str, last: Failure | None) -> Failure:
    """Return what a failed server answers, with the reason of its last death."""
    details: dict[str, Any] = dict(last.details) if last is not None else {}
    why = f": {last.message}" if last is not None else ""
    hint = f"when the cause is mended: mcpctl restart {server}"
    if last is not None and "cache" in details:
        hint = last.hint or hint  # it says how
    elif last is not None and last.kind == "connect_failed" and last.hint is not None:
        hint = f"{last.hint}; then: mcpctl restart {server}"
    return Failure(
        kind="crash_loop",
        message=f"{server} has failed too often and is not started any more{why}",
        server=server,
        hint=hint,
        details=details,
    )

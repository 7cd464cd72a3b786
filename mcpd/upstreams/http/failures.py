"""Why a remote server could not be used, as clients are told."""

from __future__ import annotations

from typing import Any, Final, Literal

from mcpd.core.facts import Failure
from mcpd.upstreams.http import challenges

Reason = Literal["refused", "dns", "tls", "proxy", "http", "redirect"]

EXCERPT_CHARACTERS: Final = 500
"""How much of a body is quoted in an error."""

_RETRYABLE: Final = ("refused", "dns", "proxy", "http")
_LEAST_ERROR: Final = 500
_TOO_MANY: Final = 429


class Unreachable(Exception):
    """A request got no HTTP response.

    ``is_sent``: the server may have read it. ``may_pass``: the same may work in a moment.
    """

    def __init__(
        self, reason: Reason, message: str, *, is_sent: bool = False, may_pass: bool = True
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.is_sent = is_sent
        self.may_pass = may_pass


def connect_failed(
    server: str,
    reason: Reason,
    message: str,
    *,
    status: int | None = None,
    outcome_unknown: bool = False,
    hint: str | None = None,
) -> Failure:
    """Return the failure of a request, or of a start, that got no answer of the protocol."""
    details: dict[str, Any] = {"reason": reason}
    if status is not None:
        details["status"] = status
    if outcome_unknown:
        details["outcome_unknown"] = True
    is_retryable = reason in _RETRYABLE and not outcome_unknown
    if status is not None and status < _LEAST_ERROR and status != _TOO_MANY:
        is_retryable = False
    return Failure("connect_failed", f"{server}: {message}", server, is_retryable, hint, details)


def unreachable(server: str, problem: Unreachable) -> Failure:
    """Return the failure of a request that got no HTTP response."""
    hint = None
    if problem.reason == "tls":
        hint = f"certificates of a private authority belong in ca_file in the entry of {server}"
    elif problem.reason == "redirect":
        hint = f"change url in the entry of {server}, if the other address is the right one"
    return connect_failed(
        server,
        problem.reason,
        problem.message,
        outcome_unknown=problem.is_sent,
        hint=hint,
    )


def answered_with(server: str, status: int, said: str) -> Failure:
    """Return the failure of a request that got an HTTP status instead of an answer.

    ``said`` is the beginning of a text body, empty for any other.
    """
    end = f": {said}" if said else ""
    return connect_failed(server, "http", f"answered with HTTP {status}{end}", status=status)


def no_answer(server: str, why: str) -> Failure:
    """Return the failure of a request whose response holds no answer."""
    details = {"outcome_unknown": True}
    return Failure("invalid_message", f"{server} {why}", server, False, None, details)


def refused(server: str, status: int, what: str, challenge: str = "") -> Failure:
    """Return the failure where a server refuses ``what`` we authorise requests with."""
    if status == 401:
        hint = f"change auth in the entry of {server}"
        message = f"{server} refused {what} (HTTP 401)"
        return Failure("unauthorized", message, server, False, hint, {"status": status})
    details: dict[str, Any] = {"status": status}
    if scopes := challenges.scopes(challenge):
        details["scopes"] = list(scopes)
    wanted = f"; it wants the scopes {' '.join(scopes)}" if scopes else ""
    return Failure(
        "forbidden", f"{server} forbids this (HTTP 403){wanted}", server, False, None, details
    )

"""Failures of ours that several parts of the mux have to tell."""

from __future__ import annotations

from mcpd.core.facts import Failure


def too_large(server: str, size_bytes: int, *, is_answer: bool = False) -> Failure:
    """Say that a message is over its limit; ``size_bytes`` is the answer's size, or the limit."""
    if is_answer:
        message = f"the answer of {server} has {size_bytes} bytes, more than max_message_bytes"
        hint = "max_message_bytes in the table `daemon` sets another limit"
    else:
        message = f"the request is larger than {size_bytes} bytes (max_request_bytes)"
        hint = "many servers end at larger lines; max_request_bytes sets another limit"
    details = {"limit": "max_message_bytes" if is_answer else "max_request_bytes"}
    return Failure("message_too_large", message, server, False, hint, details)


def invalid_answer(server: str, what: str) -> Failure:
    """Say that a server's answer cannot be passed on."""
    return Failure(
        "invalid_message", f"{server}: {what}", server, False, None, {"outcome_unknown": True}
    )


def with_details(failure: Failure, more: str = "", **details: object) -> Failure:
    """Return a failure with more to act on; ``more`` is the end of its message."""
    return Failure(
        failure.kind,
        failure.message + more,
        failure.server,
        failure.is_retryable,
        failure.hint,
        {**failure.details, **details},
    )

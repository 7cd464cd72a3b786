"""Failures of ours that several parts of the mux have to tell."""

from __future__ import annotations

from typing import Final

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure
from mcpd.core.wire.memory import Share

MOST_FOLLOWED: Final = 1000
"""Resources and tasks that a session may be subscribed to, those of its listens among them."""


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


def no_room(share: Share, size_bytes: int, *, server: str | None = None) -> Failure:
    """Say that nothing more can be kept; ``size_bytes`` is the size of what came."""
    memory = share.memory
    message = (
        f"there is no room for {size_bytes} bytes more: {memory.kept_bytes} bytes are kept in "
        f"memory for all clients and servers (max_buffered_bytes is {memory.most_bytes}), "
        f"{share.kept_bytes} of them for this session"
    )
    hint = "wait for answers before you send more; `mcpctl status` shows which server has a queue"
    return Failure("server_busy", message, server, True, hint, {"limit": "max_buffered_bytes"})


def too_many(what: str, most: int, limit: str) -> Failure:
    """Say that a session has as many of something as it may have."""
    return Failure("rate_limited", f"{most} {what}", None, True, None, {"limit": limit})


def too_many_followed() -> Failure:
    """Say that a session is subscribed to as much as it may be."""
    what = "resources and tasks are all that a session may be subscribed to"
    return too_many(what, MOST_FOLLOWED, "subscriptions")


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


def not_found(server: str | None, name: str, near: list[str], kind: Kind) -> Failure:
    """Say that a server, or the aggregate, has no such tool or prompt, and what is like it."""
    what = "tool" if kind is Kind.TOOLS else "prompt"
    where = f"{server} has no {what}" if server is not None else f"there is no {what}"
    hint = f"did you mean {' or '.join(near)}?" if near else None
    if hint is None and server is not None:
        hint = f"mcpctl {what}s {server}"
    return Failure("tool_not_found", f"{where} {name!r}", server, False, hint, {"near": near})


def no_place(title: str, server: str, wait: float, most: int) -> Failure:
    """Say that a call waited for room for too long; ``wait`` is in seconds, ``most`` the limit."""
    message = f"{title} had no place for this call within {wait:g} s"
    return Failure("server_busy", message, server, True, f"max_concurrency of {server} is {most}")


def timed_out(title: str, server: str, limit: str, seconds: float, meanwhile: str) -> Failure:
    """Say that a server did not answer a call within ``limit``, ``seconds`` long."""
    what = "no answer and no progress" if limit == "call_timeout" else "no answer"
    message = f"{title}: {what} within {seconds:g} s ({limit}){meanwhile}"
    hint = f"{limit} in the entry of {server} sets another limit"
    details = {"limit": limit, "seconds": seconds, "outcome_unknown": True}
    return Failure("call_timeout", message, server, False, hint, details)


def does_not_read(server: str) -> Failure:
    """Say that a server's process leaves its input unread."""
    why = f"{server} does not read its input"
    return Failure("server_busy", why, server, True, f"mcpctl restart {server}")

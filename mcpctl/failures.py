"""Errors as text and as JSON: what happened, then details and what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcpctl import render
from mcpd.client import hints
from mcpd.daemon_start.hints import with_socket
from mcpd.errors import NO_MESSAGE, DaemonUnavailable, McpdError, RequestFailed

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
URL_NEEDED = -32042
"""The server requires the user to visit a URL first (2025-11-25, client/elicitation)."""


def lines(error: McpdError, socket: str | None = None) -> list[str]:
    """Return the lines of the message for people, the first without an indent.

    ``socket`` is the value of ``--socket``, which the commands in hints repeat.
    """
    told = [error.message]
    data = None
    if isinstance(error, RequestFailed):
        data = error.data
        if error.reporter is not None:
            said = error.message if error.message == NO_MESSAGE else f"an error: {error.message}"
            told = [f"{error.reporter} reported {said}"]
    if isinstance(data, dict):
        hint = data.get("hint")
        if isinstance(hint, str):  # some say it in their message
            told[0] = told[0].replace(hint, with_socket(hint, socket))
        told += [*_links(error), *_details(data, error.message, socket)]
    advice = [line for line in hints.advice(error) if line not in error.message]
    told += [f"  {with_socket(line, socket)}" for line in advice]
    return told


@contextmanager
def reported_by(name: str | None) -> Iterator[None]:
    """Make ``lines`` name the server or tool whose own error the block raises."""
    try:
        yield
    except RequestFailed as error:
        if error.kind is None:
            error.reporter = name
        raise


def document(error: McpdError, socket: str | None = None) -> dict[str, Any]:
    """Return an error as JSON: the daemon's unchanged, or mcpctl's own in the same form."""
    if isinstance(error, RequestFailed):
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        return {"error": body if error.data is None else {**body, "data": error.data}}
    is_retryable = isinstance(error, DaemonUnavailable) and error.is_retryable
    data: dict[str, Any] = {"kind": error.slug, "retryable": is_retryable}
    advice = hints.advice(error)
    if advice:
        data["hint"] = with_socket(advice[0], socket)
    body = {"message": error.message, "data": {**data, **error.details}}
    return {"error": {"code": INTERNAL_ERROR, **body}}


def usage(message: str, kind: str = "invalid_arguments", **data: Any) -> RequestFailed:
    """Return the error for a wrong command line, in the form of the daemon's errors."""
    return RequestFailed(INVALID_PARAMS, message, {"kind": kind, "retryable": False, **data})


def _links(error: McpdError) -> list[str]:
    """Return a line for each URL that the server asks to visit, with its message."""
    if not (isinstance(error, RequestFailed) and error.code == URL_NEEDED):
        return []
    wanted = error.data.get("elicitations") if isinstance(error.data, dict) else None
    if not isinstance(wanted, list):
        return []
    told = []
    for one in wanted:
        url, why = (one.get("url"), one.get("message")) if isinstance(one, dict) else (None, None)
        if isinstance(url, str) and url:
            why = why if isinstance(why, str) and why.strip() else "to be visited first"
            told.append(f"  {render.one_line(why)}: {render.one_line(url)}")
    return [*told, "  then repeat the command"] if told else []


def _details(data: dict[str, Any], message: str, socket: str | None) -> list[str]:
    told = []
    violations = data.get("violations")
    if isinstance(violations, list):
        found = [v for v in violations if isinstance(v, dict)]
        others = [v for v in found if str(v.get("message") or "") not in message]
        told += [f"  {v.get('path') or '(root)'}: {v.get('message')}" for v in others]
    elif isinstance(data.get("path"), str) and data["path"] not in message:
        told.append(f"  at {data['path'] or '(root)'} in the arguments")
    near = data.get("near")
    said = f"{message} {data.get('hint')}"
    if isinstance(near, list) and near and not all(str(name) in said for name in near):
        told.append(f"  did you mean {' or '.join(map(str, near))}?")
    searched = data.get("searched")
    if isinstance(searched, list) and searched:
        told.append(f"  looked for it in {':'.join(map(str, searched))}")
    stderr = data.get("stderr")
    tail = stderr.splitlines() if isinstance(stderr, str) else stderr
    if isinstance(tail, list) and tail and not all(str(line) in message for line in tail):
        told.append("  the last lines of its stderr:")
        told += [f"    {line}" for line in tail]
    if data.get("outcome_unknown"):
        told.append("  it is unknown whether the call took effect: check before you repeat it")
    hint = data.get("hint")
    if isinstance(hint, str) and hint not in message:
        told.append(f"  {with_socket(hint, socket)}")
    return told

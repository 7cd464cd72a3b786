"""Failures of requests that cannot be authorised: who must do what."""

from __future__ import annotations

from mcpd.core.facts import Failure


def login_required(server: str, why: str = "") -> Failure:
    """Return that a person must sign in; ``why`` says what became of an earlier sign-in."""
    command = f"mcpctl login {server}"
    reason = f" ({why})" if why else ""
    message = f"somebody must sign in to {server}{reason}: {command}"
    return Failure("login_required", message, server, hint=command)


def unauthorized(server: str, why: str) -> Failure:
    """Return that what the entry has for signing in cannot be used."""
    return Failure("unauthorized", f"{server}: {why}", server)


def client_refused(server: str, error: str) -> Failure:
    """Return that the authorization server refuses the client of the entry."""
    message = f"{server}: the authorization server refuses its client ({error})"
    return Failure("unauthorized", message, server, hint="mcpctl list", details={"status": 401})


def forbidden(server: str) -> Failure:
    """Return that the server refuses a request, and names no scope that would help."""
    return Failure("forbidden", f"{server} forbids this", server, details={"status": 403})


def scopes_refused(server: str, scopes: tuple[str, ...], *, is_machine: bool) -> Failure:
    """Return that a request needs more scopes than were granted; a person can sign in for them."""
    named = " ".join(scopes) or "others than were granted"
    return Failure(
        kind="forbidden",
        message=f"{server} forbids this without further scopes: {named}",
        server=server,
        hint=None if is_machine else f"mcpctl login {server}",
        details={"status": 403, "scopes": list(scopes)},
    )


def unanswered(server: str, why: str) -> Failure:
    """Return that the authorization server gave no answer that decides anything."""
    return Failure(
        kind="connect_failed",
        message=f"{server}: {why}",
        server=server,
        is_retryable=True,
        details={"reason": "http"},
    )

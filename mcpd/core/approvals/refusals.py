"""Failures of calls that did not run, because of a person, or because no person has answered."""

from __future__ import annotations

from msgspec import structs

from mcpd.core.facts import AskedCall, Failure, Rule
from mcpd.core.interface.failures import too_many


def denied(server: str, reason: str, ident: str | None = None) -> Failure:
    """Return that a person refused a call; ``ident`` names the question, where there was one."""
    message = "A person refused this. Do not repeat it; say so to your user."
    details = {"reason": reason} | ({} if ident is None else {"approval": ident})
    return Failure("denied", message, server, False, None, details)


def denied_by_rule(rule: Rule, server: str) -> Failure:
    """Return that a no is remembered for a call."""
    return denied(server, "rule" if rule.digest is None else "person")


def approval_required(asked: AskedCall) -> Failure:
    """Return that nobody has answered the question about a call yet, and how a person can."""
    message = (
        f"{asked.server}.{asked.tool} was not run: a person has to approve this call first. "
        f"Tell your user to type `mcpctl approve {asked.id}` in a terminal (`mcpctl approvals` "
        "shows what the call would do), then make the same call again."
    )
    details = {"approval": asked.id}
    hint = "mcpctl approvals"
    return Failure("approval_required", message, asked.server, True, hint, details)


def too_many_questions(server: str, most: int) -> Failure:
    """Return that a session has as many open questions as it may."""
    failure = too_many("calls of this session wait for an answer of a person", most, "approvals")
    return structs.replace(failure, server=server, hint="tell your user: mcpctl approvals")


def unreadable_arguments(server: str, tool: str, problem: object) -> Failure:
    """Return that the arguments of a call cannot be shown to a person."""
    why = f"the arguments of {server}.{tool} cannot be used: {problem}"
    return Failure("invalid_arguments", why, server)

"""Results and notifications about approvals: open questions, and answers that are remembered."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class ApprovalClient(TypedDict):
    """Whose call somebody is asked about."""

    name: str | None
    version: str | None
    pid: int | None
    """The program that asks: the parent of a bridge, else the process at the socket."""


class Approval(TypedDict):
    """One question whether a call may run."""

    id: str
    session: int
    principal: str
    client: ApprovalClient
    server: str
    tool: str
    reason: str
    arguments: Any
    """``None`` where they are long, unless the question was asked for by its id."""
    arguments_bytes: int
    shown_all: bool
    """Whether the client's form has all of the arguments."""
    asked_in: list[str]
    waits: bool
    """Whether a call waits for the answer; else a yes is for the next one."""
    age_s: float
    expires_s: float | None
    """Seconds until nobody can answer it any more; ``None`` where a call waits without limit."""
    definition: NotRequired[Any]
    """The tool as its server lists it; only for a question that was asked for by its id."""
    before: NotRequired[Any]
    """The definition for which somebody said yes for good, where that was another one."""


class Approvals(TypedDict):
    """The result of ``mcpd/approvals``."""

    seq: int
    """The number of the newest event."""
    open: list[Any]
    """A list of ``Approval``."""


class ApprovalNotice(TypedDict):
    """The parameters of an ``mcpd/approval`` notification."""

    what: Literal["asked", "answered", "over"]
    question: Approval
    answer: NotRequired[str]
    how: NotRequired[str]


class RuleEntry(TypedDict):
    """One answer that is remembered."""

    id: int
    answer: str
    server: str
    tool: str
    principal: str
    session: int | None
    """The session that it is for; ``None``: all of the principal's."""
    since: str
    by: str
    uses: int
    last: str | None
    ends_s: NotRequired[float]
    lapsed: NotRequired[str]
    """Why it does not hold any more."""


class RuleList(TypedDict):
    """The result of ``mcpd/rules``."""

    rules: list[Any]
    """A list of ``RuleEntry``."""


class Approved(TypedDict):
    """The result of ``mcpd/approve``."""

    id: str
    answer: str
    applies: Literal["now", "next_call"]


class Forgotten(TypedDict):
    """The result of ``mcpd/forget``."""

    forgotten: int

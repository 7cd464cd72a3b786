"""One question of a legacy server's, and what those who see to it ask of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from mcpd.core.mcp import codes
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.session import Session
from mcpd.core.mux.upstream import Upstream


class Question:
    """One question of a legacy server's, from when it came until it is answered or withdrawn.

    ``callers`` are the calls that can have caused it, and whose time stands still; it ends with
    them if it ``is_of_call``. ``given_up`` are calls that can have caused it although nobody waits
    for them any more. ``owner`` is the session that was asked, 0 while it is held.
    """

    def __init__(
        self, upstream: Upstream, ident: bytes, method: str, params: Raw, callers: list[Pending]
    ) -> None:
        self.upstream = upstream
        self.ident = ident
        self.method = method
        self.params = params
        self.callers = callers
        self.given_up: list[Pending] = []
        self.owner = 0
        self.is_of_call = bool(callers)
        self.is_open = True
        self.timer: Timer | None = None
        self.retract: Callable[[], None] | None = None
        """Takes it back from whoever was asked."""

    def take_back(self) -> None:
        """Nobody wants to know any more."""
        if self.retract is not None:
            self.retract()


class Parking(Protocol):
    """How a modern client is asked: its call is parked."""

    def put(self, question: Question, pending: Pending) -> None:
        """Ask the client whose call this is."""

    def is_parked(self, pending: Pending) -> bool:
        """Tell whether a call's client has been told to retry it."""

    def restart(
        self, upstream: Upstream, pending: Pending, asks: dict[str, tuple[str, bytes | None]]
    ) -> bytes:
        """Return the result that asks a client something and then has it call anew."""


class Register(Protocol):
    """Keeps questions while they are open, and puts them to sessions."""

    def keep(self, question: Question) -> None:
        """A question is open; its callers' time stands still."""

    def put(self, question: Question) -> None:
        """Ask the only session whose calls can have caused it."""

    def put_to(self, question: Question, session: Session) -> None:
        """Ask a legacy session."""

    def answer(
        self, question: Question, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None:
        """Give a server its answer; with neither result nor error the client said nothing."""


def able(causes: list[Pending], need: str) -> list[Pending]:
    """Return the calls whose client can be asked this."""
    return [p for p in causes if p.is_asking and p.asker is not None and need in p.asker.answers]


def refuse(upstream: Upstream, ident: bytes, code: int, why: str) -> None:
    """Answer a question with an error, which says what its server did not know of the client."""
    upstream.answer(ident, result=None, error=codes.plain_error(code, why))


def refuse_undeclared(upstream: Upstream, ident: bytes, need: str, causes: list[Pending]) -> None:
    """Answer a question that none of the clients can be asked that can have caused it.

    MCP has -32601 for a capability that was not declared, and -32602 for a kind of it.
    """
    if len(causes) == 1:
        causes[0].lacked = need  # a modern client is told so, if the call fails of it
    base = need.partition(".")[0]
    declared = {a for p in causes if p.asker is not None for a in p.asker.answers}
    is_known = any(each.partition(".")[0] == base for each in declared)
    code = codes.INVALID_PARAMS if is_known else codes.METHOD_NOT_FOUND
    kind = " of this kind" if is_known else ""
    refuse(upstream, ident, code, f"the client has not declared {base}{kind}")

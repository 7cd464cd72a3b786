"""One call of a modern client that is asked something: parked until the client retries it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Raw

from mcpd.core.interface.context import Timer
from mcpd.core.interface.failures import no_room, with_details
from mcpd.core.questions.question import Question
from mcpd.core.requests.inflight import Outcome, Recipient, UpstreamRequest, failed
from mcpd.core.state.session import Session
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire.memory import RequestMemory
from mcpd.ids import SessionId


class OwnQuestion(NamedTuple):
    """A question of ours in a result; ``take`` gets what the client answers."""

    method: str
    params: bytes | None
    take: Callable[[Raw], None]


class ParkedCall(Recipient):
    """A call whose client is asked something, or will be once its siblings are there.

    While it is parked it takes the outcome itself, and keeps it for the retry. ``shown`` are the
    questions of the last result, by key; ``state`` is its handle while it is parked. A call that
    its client is to make again is over already, and no server waits for its ``asks``.
    """

    def __init__(self, session: SessionId, upstream: Upstream, leg: UpstreamRequest) -> None:
        self.session = session
        self.upstream = upstream
        self.leg = leg
        self.params = leg.params
        self.asks: dict[str, Question | OwnQuestion | tuple[str, bytes | None]] = {}
        self.shown: dict[str, str] = {}
        self.state: str | None = None
        self.kept: RequestMemory | None = None
        """What is kept of the request that it was called with, while that has its answer."""
        self.outcome: Outcome | None = None
        """What came of it while it was parked."""
        self.is_repeated = False
        """Whether its client is to call again, since this call is over."""
        self.timer: Timer | None = None
        self.keys = itertools.count(1)

    def is_of(self, session: Session, server: str) -> bool:
        """Tell whether it is a call of that session to that server."""
        entry = self.leg.entry
        return self.session == session.id and entry is not None and entry.name == server

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """Keep the outcome for the retry, if there is memory for it."""
        said = outcome.result if outcome.error is None else outcome.error
        if said is not None and self.kept is not None and not self.kept.grow(len(said)):
            share = self.kept.share
            if share is not None:
                wrong = no_room(share, len(said), server=self.upstream.entry.name)
                outcome = failed(with_details(wrong, outcome_unknown=True))
        self.outcome = outcome

    def drop_timer(self) -> None:
        """Cancel its timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

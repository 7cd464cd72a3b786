"""Questions whether a call may run: those that are open, and how others ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import structs

from mcpd.core.approvals.call_identity import Call
from mcpd.core.facts import AskedCall, Failure
from mcpd.core.interface.context import Context, Timer
from mcpd.core.interface.failures import no_room
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire.memory import REQUEST_BYTES, Share
from mcpd.ids import SessionId

MOST_OF_SESSION: Final = 8
"""Questions of one session that may be open, and those that earlier ones of a client left."""

MOST: Final = 1000
"""Questions that may be open. The oldest that no call waits for gives way."""

MOST_OVER: Final = 500
"""Questions that are over and of which it is known how they ended."""

QuestionKey = tuple[SessionId, str, str]
"""A session, a server and a tool: one question of these is asked at a time."""


class QuestionEnd(NamedTuple):
    """How a question ended; ``answer`` is ``None`` where there was none."""

    how: str
    answer: str | None = None
    applies: str = "now"


class ApprovalQuestion:
    """One question, from when it is asked until nobody can answer it any more."""

    def __init__(self, asked: AskedCall, call: Call, asked_at: float, size: int) -> None:
        self.asked = asked
        self.call = call
        self.asked_at = asked_at
        self.size = size
        self.is_over = False
        self.leg: UpstreamRequest | None = None
        """The call that waits for the answer."""
        self.upstream: Upstream | None = None
        """The process that is kept in use for it."""
        self.behind: dict[UpstreamRequest, Upstream] = {}
        """Calls of the same tool and session, which wait for their question."""
        self.withdraw_form: Callable[[], None] | None = None
        """Takes back the form that the client was sent, while it has not answered it."""
        self.form_sent_at = 0.0
        self.is_form_refused = False
        self.has_always = True
        self.answer: str | None = None
        """The answer that counts, while it is being written to the disk."""
        self.ends_at = 0.0
        self.timer: Timer | None = None
        self.progress: Timer | None = None

    @property
    def key(self) -> QuestionKey:
        """Return what only one question at a time is asked of."""
        return self.asked.session, self.asked.server, self.asked.tool

    def seen_at(self, now: float) -> AskedCall:
        """Return the question as it is shown now."""
        return structs.replace(
            self.asked,
            age_s=now - self.asked_at,
            expires_s=max(0.0, self.ends_at - now),
            waits=self.leg is not None,
        )

    def take_form_back(self) -> None:
        """Take back what the client is asked, if it has not answered."""
        if self.withdraw_form is not None:
            self.withdraw_form()
            self.withdraw_form = None

    def drop_timers(self) -> None:
        """Cancel its timers."""
        for timer in (self.timer, self.progress):
            if timer is not None:
                timer.cancel()
        self.timer = self.progress = None


class ApprovalQuestions:
    """The open questions by number, the memory that they take, and how the last others ended."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._share = Share(ctx.memory)
        self._numbers = itertools.count(ctx.settings.first_approval)
        self._open: dict[int, ApprovalQuestion] = {}
        self._over: dict[int, QuestionEnd] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ApprovalQuestion]:
        """Iterate over what is open now, the oldest first; questions may end meanwhile."""
        return iter(list(self._open.values()))

    @property
    def kept_bytes(self) -> int:
        """How much memory is counted for the open questions."""
        return self._share.kept_bytes

    def find(self, number: int) -> ApprovalQuestion | None:
        """Return an open question by its number."""
        return self._open.get(number)

    def end_of(self, number: int) -> QuestionEnd | None:
        """Return how a question ended, while that is known."""
        return self._over.get(number)

    def idle_about(self, call: Call) -> ApprovalQuestion | None:
        """Return an open question about the same call, which none waits for."""
        for question in self._open.values():
            if question.call == call and question.leg is None:
                return question
        return None

    def oldest_idle(self) -> ApprovalQuestion | None:
        """Return the oldest question that no call waits for."""
        return next((each for each in self._open.values() if each.leg is None), None)

    def is_full_of(self, session: SessionId) -> bool:
        """Tell whether a session has as many open questions as it may."""
        own = sum(each.asked.session == session for each in self._open.values())
        return own >= MOST_OF_SESSION

    def take_room(self, asked: AskedCall) -> Failure | None:
        """Count the memory of a question that is about to be added, or say that there is none."""
        size = _size_of(asked)
        if self._share.take(size):
            return None
        return no_room(self._share, size, server=asked.server)

    def add(self, asked: AskedCall, call: Call) -> ApprovalQuestion:
        """Open a question for which ``take_room`` has found room, and give it its number."""
        asked = structs.replace(asked, number=next(self._numbers))
        question = ApprovalQuestion(asked, call, self._ctx.now, _size_of(asked))
        self._open[asked.number] = question
        return question

    def remove(self, question: ApprovalQuestion, end: QuestionEnd) -> None:
        """Close a question, and remember for a while how it ended."""
        number = question.asked.number
        del self._open[number]
        question.is_over = True
        self._over[number] = end
        if len(self._over) > MOST_OVER:
            del self._over[next(iter(self._over))]
        self._share.add(-question.size)
        question.drop_timers()


def _size_of(asked: AskedCall) -> int:
    return len(asked.arguments) + REQUEST_BYTES

"""Sessions that end once nothing of theirs is under way; ``look`` is called after each event.

Those whose clients have ended their input wait for their answers, and not for ever. Those that are
released wait for their parked calls too, which have a time limit of their own.
"""

from __future__ import annotations

import math
from typing import Final

from mcpd.core.interface.commands import CloseSession
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState

LINGER_S: Final = 2.0
"""How long an answer is waited for, from when the server is ready; as ``connect --linger``."""

START_WAIT_S: Final = 300.0
"""How long at most because a server is starting, or mcpd itself is at work."""

_LOOKS_EVERY: Final = 0.2

HUNG_UP: Final = "its client hung up"
DONE: Final = "its request was answered"


class Lingering:
    """When the sessions end whose clients send nothing more."""

    def __init__(self, state: MuxState, parked: ParkedCalls) -> None:
        self.sessions: dict[Session, None] = {}
        self.released: dict[Session, None] = {}
        self._state = state
        self._parked_calls = parked

    def begin(self, session: Session) -> None:
        """End a session once all its requests have an answer, or it has waited long enough."""
        self.sessions[session] = None
        until = self._state.ctx.now + START_WAIT_S
        self._wait(session, until, math.inf)

    def forget(self, session: Session) -> None:
        """Wait no more for one that has ended."""
        self.sessions.pop(session, None)
        self.released.pop(session, None)

    def release(self, session: Session) -> None:
        """End a session once it has no request, no subscription and no parked call."""
        self.released[session] = None

    def look(self) -> None:
        """End the sessions whose requests all have an answer; a stream of events does not count."""
        for session in [each for each in self.sessions if not each.requests]:
            self._end(session, HUNG_UP)
        for session in list(self.released):
            if not (session.requests or session.listens or self._parked_calls.has_of(session)):
                self._end(session, DONE)

    def _wait(self, session: Session, until: float, deadline: float) -> None:
        """Look again until ``deadline``, which is set once nothing is starting any more."""
        now = self._state.ctx.now
        if session not in self.sessions:
            return
        if self._is_starting(session) and now < until:
            deadline = math.inf
        elif deadline == math.inf:
            deadline = now + LINGER_S
        elif now >= deadline:
            left = len(session.requests)
            self._end(session, f"{HUNG_UP}, and {left} of its requests took longer")
            return
        self._state.ctx.after(_LOOKS_EVERY, lambda: self._wait(session, until, deadline))

    def _is_starting(self, session: Session) -> bool:
        """Tell whether something that it waits for ends by itself, or has not begun."""
        upstreams = self._state.all_upstreams()
        if any(upstream.calls.start_wait.is_waiting(session.id) for upstream in upstreams):
            return True
        is_ready = all(used.is_ready for used in session.upstreams.values())
        return any(
            request.leg is None and (request.is_control or not is_ready)
            for request in session.requests.values()
        )

    def _end(self, session: Session, reason: str) -> None:
        self.forget(session)
        self._state.ctx.emit(CloseSession(session.id, reason))

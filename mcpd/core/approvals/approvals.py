"""Questions whether calls may run, as the rest of the core and the daemon see them."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.approvals.answers import Answers
from mcpd.core.approvals.approval_questions import ApprovalQuestion, ApprovalQuestions
from mcpd.core.approvals.asking import Asking
from mcpd.core.approvals.client_forms import ClientForms
from mcpd.core.approvals.gate import ApprovalGate
from mcpd.core.approvals.remembered import Remembered
from mcpd.core.approvals.tool_pins import ToolPins
from mcpd.core.approvals.waiting_calls import WaitingCalls
from mcpd.core.catalog.model import Item
from mcpd.core.facts import AskedCall, Rule
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.requests_to_clients import RequestsToClients
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.state import MuxState
from mcpd.ids import SessionId


class Approvals:
    """The parts of asking, and what happens to questions when something else changes."""

    def __init__(
        self,
        state: MuxState,
        to_clients: RequestsToClients,
        parked: ParkedCalls,
        send: Callable[[UpstreamRequest], None],
    ) -> None:
        """``send`` decides about a call again, and sends it on if it may run."""
        self._state = state
        self.questions = ApprovalQuestions(state.ctx)
        self.pins = ToolPins(state)
        self.remembered = Remembered(state.ctx)
        self._waiting = waiting = WaitingCalls(state, self.questions, send)
        self.answers = Answers(state, self.questions, waiting, self.remembered, self.pins, send)
        self._forms = ClientForms(state.ctx, to_clients, parked, waiting, self.answers)
        asking = Asking(state, self.questions, waiting, self._forms)
        self.gate = ApprovalGate(state, parked, self.remembered, self.pins, asking, send)

    def open(self) -> list[AskedCall]:
        """Return the questions that can be answered, the oldest first."""
        now = self._state.ctx.now
        return [each.seen_at(now) for each in self.questions if each.answer is None]

    def rules(self) -> list[Rule]:
        """Return what is remembered, the oldest first."""
        return self.remembered.all()

    def behind(self, session: SessionId) -> list[bytes]:
        """Return the keys of the requests of a session that wait behind a question of another."""
        return self._waiting.behind(session)

    def session_gone(self, session: SessionId) -> None:
        """Forget what was said for a session that has ended; its questions stay."""
        self._forms.session_gone(session)
        self.remembered.session_gone(session)

    def drain(self) -> None:
        """Have no call wait any more: the daemon is about to end."""
        self._waiting.drain()

    def configured(self) -> None:
        """Ask no more about calls of which the configuration says something else now."""
        for question in self.questions:
            if question.is_over or question.answer is not None:
                continue  # it has ended with another one, or goes on once the disk has its answer
            entry = self._state.entries.get(question.asked.server)
            if entry is None or entry.identity != question.asked.identity:
                self._waiting.end(question, "its server was changed or removed")
            elif self._is_asked_no_more(question):
                self._waiting.end(question, "the configuration was changed")

    def _is_asked_no_more(self, question: ApprovalQuestion) -> bool:
        """Tell whether nobody has to be asked about a call that waits, or not at its process."""
        state, asked, upstream = self._state, question.asked, question.upstream
        entry, session = state.entries.get(asked.server), state.sessions.get(asked.session)
        if entry is None or upstream is None or session is None:
            return False
        asks = state.asks_of(session.principal, entry)
        is_read_only = Item(asked.tool, asked.definition or b"{}").read_only
        return (
            asks is None
            or asks.reason(asked.tool, is_read_only=is_read_only) is None
            or state.has_left(upstream)
        )

"""What an answer to a question does, and what takes back one that is remembered."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.approvals import refusals
from mcpd.core.approvals.approval_questions import (
    ApprovalQuestion,
    ApprovalQuestions,
    QuestionEnd,
)
from mcpd.core.approvals.call_identity import approval_of
from mcpd.core.approvals.remembered import Remembered
from mcpd.core.approvals.tool_pins import ToolPins
from mcpd.core.approvals.waiting_calls import WaitingCalls
from mcpd.core.facts import ApprovalAnswered, AskedCall, Failure
from mcpd.core.interface.events import Answerer, Approve, Forget
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import ClientRequest
from mcpd.core.state.state import MuxState


class Answers:
    """Makes answers count: the first one of each question, once what is remembered is on disk."""

    def __init__(
        self,
        state: MuxState,
        questions: ApprovalQuestions,
        waiting: WaitingCalls,
        remembered: Remembered,
        pins: ToolPins,
        send: Callable[[UpstreamRequest], None],
    ) -> None:
        """``send`` sends a call on that somebody has approved."""
        self._state = state
        self._ctx = state.ctx
        self._questions = questions
        self._waiting = waiting
        self._remembered = remembered
        self._pins = pins
        self._send = send

    def approve(self, event: Approve, request: ClientRequest) -> None:
        """Take the answer that somebody gives with ``mcpd/approve``."""
        question = self._questions.find(event.number)
        if question is None or question.answer is not None:
            self._reply_that_it_is_over(question, event, request)
            return
        request.keep()  # it is answered once the answer is on the disk

        def done(applies: str | None, problem: str | None) -> None:
            if not request.is_over:
                if applies is None:
                    message = f"nothing was approved: {problem}"
                    hint = "mcpctl approve lets this one call through"
                    request.refuse(Failure("internal", message, None, True, hint))
                else:
                    request.reply(_answered(event.number, event.answer, applies))
            request.release()

        self.give(
            question,
            event.answer,
            event.by,
            all_tools=event.all_tools,
            of_session=event.of_session,
            done=done,
        )

    def _reply_that_it_is_over(
        self, question: ApprovalQuestion | None, event: Approve, request: ClientRequest
    ) -> None:
        """Refuse an answer that comes too late, unless it is the one that counted."""
        known = self._questions.end_of(event.number)
        if question is not None:
            known = QuestionEnd(f"it was answered with {question.answer}", question.answer)
        if known is not None and known.answer == event.answer:
            request.reply(_answered(event.number, event.answer, known.applies))
            return
        how = "there is no such question" if known is None else known.how
        message = f"a{event.number} is over: {how}"
        hint = "mcpctl approvals shows what is open"
        request.refuse(Failure("approval_over", message, None, False, hint))

    def give(
        self,
        question: ApprovalQuestion,
        answer: str,
        by: Answerer,
        *,
        all_tools: bool = False,
        of_session: bool = False,
        done: Callable[[str | None, str | None], None] | None = None,
    ) -> None:
        """Make an answer count; ``done`` gets when it applies, or why it does not."""
        asked = question.asked
        question.answer = answer

        def finish(problem: str | None) -> None:
            question.answer = None
            if problem is not None and done is not None:
                done(None, problem)  # it stays open
                return
            kept = answer if problem is None else "once"
            applies = "next_call" if question.leg is None else "now"
            if done is not None:
                done(applies, None)
            told = question.seen_at(self._ctx.now)
            self._ctx.tell(
                ApprovalAnswered(told, kept, by.surface, applies, by.process, by.program)
            )
            self._settle(question, kept, applies)

        is_gone = asked.session not in self._state.sessions
        if answer == "once" or (is_gone and answer in ("session", "no")):
            finish(None)  # there is nothing to remember it for
        elif answer == "no":
            digest = None if of_session else question.call.digest
            tool = (asked.tool, asked.pin, None)
            self._remembered.add(asked, "no", str(by), [tool], digest=digest, then=finish)
            self._take_yes_back(
                lambda leg: (
                    (leg.owner, leg.tool) == (asked.session, asked.tool)
                    and leg.entry is not None
                    and leg.entry.name == asked.server
                )
            )
        else:
            tools = self._tools(asked) if all_tools else [(asked.tool, asked.pin, asked.definition)]
            self._remembered.add(asked, answer, str(by), tools, then=finish)

    def _tools(self, asked: AskedCall) -> list[tuple[str, bytes, bytes | None]]:
        """Return the tools that a yes to all of them is for: those that the server lists now.

        That is the one that was asked about alone where the server does not list it any more.
        """
        tools = self._pins.all_of(asked.server)
        if asked.tool not in tools:
            return [(asked.tool, asked.pin, asked.definition)]
        return [(name, pin, raw) for name, (pin, raw) in tools.items()]

    def _settle(self, question: ApprovalQuestion, answer: str, applies: str) -> None:
        """Let the calls of a question go on, or refuse them."""
        leg = question.leg
        request = None if leg is None else leg.recipient
        end = QuestionEnd(f"it was answered with {answer}", answer, applies)
        behind = self._waiting.close(question, end)
        asked = question.asked
        if leg is None:
            is_gone = asked.session not in self._state.sessions
            if answer == "once" or (answer == "session" and is_gone):
                keep = self._state.policy.approval_keep
                self._remembered.add_late(question.call, asked.number, keep)
        elif isinstance(request, ClientRequest):
            if answer == "no":
                request.refuse(refusals.denied(asked.server, "person", asked.id))
            else:
                leg.approved = approval_of(asked.identity, asked.pin)
                leg.approval = asked.number
                leg.approved_call = question.call
                self._send(leg)
        self._waiting.go_on(behind)

    def forget(self, event: Forget, request: ClientRequest) -> None:
        """Forget answers, for ``mcpd/forget``."""
        request.keep()

        def done(problem: str | None, count: int) -> None:
            if not request.is_over:
                if problem is None:
                    request.reply(b'{"forgotten":%d}' % count)
                else:
                    message = f"forgotten until the daemon ends, and not on the disk: {problem}"
                    request.refuse(Failure("internal", message))
            request.release()

        gone = self._remembered.forget(event.ids, event.server, event.tool, done)
        if gone:  # a newer one may have taken the place of the answer that let a call through
            self._take_yes_back(lambda leg: not self._remembered.has(leg.rule))

    def _take_yes_back(self, is_its: Callable[[UpstreamRequest], bool]) -> None:
        """Decide again about calls that a remembered yes has let through, and no server has yet."""
        asked = [
            leg
            for session in self._state.sessions.values()
            for request in session.requests.values()
            if (leg := request.leg) is not None and leg.rule and not leg.sent_at and is_its(leg)
        ]
        for leg in asked:  # one that waits for a check, or a log level, is decided about after it
            leg.approved, leg.rule = None, 0
        for upstream in self._state.all_upstreams():
            for leg in upstream.calls.waiting():
                if leg in asked:
                    upstream.calls.take_back(leg)
                    self._send(leg)


def _answered(number: int, answer: str, applies: str) -> bytes:
    return b'{"id":"a%d","answer":"%b","applies":"%b"}' % (
        number,
        answer.encode(),
        applies.encode(),
    )

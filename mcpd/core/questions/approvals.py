"""Calls that somebody is asked about before they run.

The call's frame is kept as it came, and is what the server gets. While a call waits it is in no
queue and takes no turn; its server and its session are in use. A question outlives its call for a
while, and a yes that comes then lets the same call through when it is made again.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw, structs

from mcpd.core.catalog.canonical import digest_of, form_of
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.facts import (
    LATE_YES,
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    AskedCall,
    ClientDeclines,
    Failure,
    Rule,
)
from mcpd.core.interface.context import Timer
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.events import Answerer, Approve, CallTool, Forget
from mcpd.core.interface.failures import no_room, too_many
from mcpd.core.mcp import questions
from mcpd.core.policy.approvals import Asks
from mcpd.core.questions import approval_form
from mcpd.core.questions.approval_form import Refusal
from mcpd.core.questions.parked_call import OwnQuestion
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.remembered import Call, Remembered
from mcpd.core.questions.requests_to_clients import RequestsToClients, RequestToClient
from mcpd.core.requests.inflight import CONTROL_CLIENT, UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import arguments, envelope
from mcpd.core.wire.memory import REQUEST_BYTES, Share
from mcpd.ids import SessionId

MOST_OF_SESSION: Final = 8
"""Questions of one session that may be open, and those that earlier ones of a client left."""

MOST: Final = 1000
"""Questions that may be open. The oldest that no call waits for gives way."""

MOST_OVER: Final = 500
"""Questions that are over and of which it is known how they ended."""

BY_ITSELF_S: Final = 0.3
"""A client that refuses sooner than this does so by itself."""

PROGRESS_S: Final = 10.0

DISK_S: Final = 1.0
"""Between two looks whether an answer is on the disk that came in time."""

ROUND_S: Final = 600.0
"""For how long a server's own question can be answered where its entry says: for ever."""

_NO_ARGUMENTS: Final = b"{}"
_DIGEST_BYTES: Final = 16
_Key = tuple[SessionId, str, str]
"""A session, a server and a tool: one question of these is asked at a time."""


class _End(NamedTuple):
    """How a question ended; ``answer`` is ``None`` where there was none."""

    how: str
    answer: str | None = None
    applies: str = "now"


class _Question:
    """One question, from when it is asked until nobody can answer it any more."""

    def __init__(self, asked: AskedCall, call: Call, asked_at: float, size: int) -> None:
        self.asked = asked
        self.call = call
        self.asked_at = asked_at
        self.size = size
        self.leg: UpstreamRequest | None = None
        """The call that waits for the answer."""
        self.upstream: Upstream | None = None
        """The process that is kept in use for it."""
        self.behind: dict[UpstreamRequest, Upstream] = {}
        """Calls of the same tool and session, which wait for their question."""
        self.form: RequestToClient | None = None
        self.retract: Callable[[], None] | None = None
        """Takes the question out of the result that a modern client was sent."""
        self.form_sent_at = 0.0
        self.is_form_refused = False
        self.has_always = True
        self.answer: str | None = None
        """The answer that counts, while it is being written to the disk."""
        self.ends_at = 0.0
        self.timer: Timer | None = None
        self.progress: Timer | None = None

    @property
    def key(self) -> _Key:
        """Return what only one question at a time is asked of."""
        return self.asked.session, self.asked.server, self.asked.tool


class Approvals:
    """The open questions, who waits for them, and what is remembered of their answers."""

    def __init__(self, state: MuxState, to_clients: RequestsToClients, parked: ParkedCalls) -> None:
        self.send: Callable[[UpstreamRequest], None] = _unsent
        """Sends a call on that somebody has approved."""
        self._state = state
        self._ctx = state.ctx
        self._to_clients = to_clients
        self._parked_calls = parked
        self._share = Share(state.ctx.memory)
        self._remembered = Remembered(state.ctx)
        self._numbers = itertools.count(state.ctx.settings.first_approval)
        self._open: dict[int, _Question] = {}
        self._waiting: dict[_Key, _Question] = {}
        """Those that a call waits for."""
        self._over: dict[int, _End] = {}
        """How questions ended."""
        self._declining: set[SessionId] = set()
        """Sessions whose clients refuse by themselves."""
        self._pins: dict[tuple[bytes, bool], bytes] = {}
        """The pins of definitions, each also by whether its text may change."""

    def __len__(self) -> int:
        return len(self._open)

    # -- the gate --------------------------------------------------------------------------------

    def holds(
        self,
        leg: UpstreamRequest,
        session: Session,
        entry: Entry,
        upstream: Upstream,
        asks: Asks,
    ) -> bool:
        """Tell whether a call does not go on: it waits for an answer, or has been refused.

        One that was sent to a server before is not asked about again.
        """
        request, tool = leg.recipient, leg.tool
        if tool is None or leg.sent_at or not isinstance(request, ClientRequest):
            return False
        if not asks.needs_hints and asks.reason(tool, is_read_only=False) is None:
            return False
        item = self._item(tool, leg, upstream)
        reason = asks.reason(tool, is_read_only=item is not None and item.read_only)
        if reason is None and upstream.is_ready:
            return False
        leg.holder = None  # it may have waited for another process
        if not upstream.is_ready:  # what it says of the tool counts, not what it said before
            Waiting(self._state, request, upstream, self._started, self._again).for_start()
            return True
        if reason is None:
            return False
        leg.pin = pin = self.pin_of(entry.name, item)
        approval = _approval_of(entry.identity, pin)
        if self._is_approved(leg, approval):
            return False
        principal = session.principal.label
        found = self._remembered.look(session.id, principal, entry.name, entry.identity, tool, pin)
        rule = found.rule
        if rule is not None and rule.answer == "no":
            request.refuse(self._denied(rule, entry.name))
            return True
        if rule is not None and not self._remembered.has_refused(session.id, entry.name, tool):
            leg.approved, leg.rule = approval, rule.id
            return False
        raw = _arguments_of(leg)
        try:
            value = arguments.read(raw)
        except arguments.Unfit as problem:
            if rule is not None:  # nobody is asked, and nobody has refused it
                leg.approved, leg.rule = approval, rule.id
                return False
            why = f"the arguments of {entry.name}.{tool} cannot be used: {problem}"
            request.refuse(Failure("invalid_arguments", why, entry.name))
            return True
        name, version = _client_of(session, request)
        call = Call(principal, name, entry.name, entry.identity, tool, pin, arguments.digest(value))
        if (no := self._remembered.is_refused(session.id, call)) is not None:
            request.refuse(self._denied(no, entry.name))
            return True
        if rule is not None:
            leg.approved, leg.rule = approval, rule.id
            return False
        if leg.approved_call == call:
            leg.approved = approval
            return False
        state = request.found.state
        if leg.is_modern and state is not UNSET and not self._parked_calls.is_handle(request.found):
            again = _with_state(call, bytes(state))
            if (number := self._remembered.take_late(again)) is not None:
                leg.approved, leg.approval, leg.approved_call = approval, number, call
                return False
        if (number := self._remembered.take_late(call)) is not None:
            leg.approved, leg.approval, leg.approved_call = approval, number, call
            leg.flags |= LATE_YES
            return False
        key = session.id, entry.name, tool
        if (first := self._waiting.get(key)) is not None:
            self._wait_behind(first, leg, request, upstream)
            return True
        question = self._same(call)
        is_new = question is None
        if (question is None or question.asked.session != session.id) and self._is_full_of(session):
            request.refuse(_too_many(entry.name))
            return True
        if question is None:
            if found.lapsed is not None:
                since = f"{found.lapsed.lapsed} since somebody said {found.lapsed.answer}"
                reason = f"{reason}; {since}"
            asked = AskedCall(
                number=0,
                session=session.id,
                principal=principal,
                client=name,
                version=version,
                server=entry.name,
                identity=entry.identity,
                tool=tool,
                pin=pin,
                reason=reason,
                arguments=raw,
                definition=None if item is None else item.raw,
                before=None if found.lapsed is None else found.lapsed.definition,
                attached=session.attached,
                client_pid=session.client_pid,
            )
            question = self._new(asked, call, request)
            if question is None:
                return True
        self._put(question, leg, request, session, upstream, value, is_new=is_new)
        return True

    def would_ask(
        self, leg: UpstreamRequest, session: Session, entry: Entry, upstream: Upstream
    ) -> bool:
        """Tell whether a call that waits to be sent has to be decided about again.

        It was not asked about when it came, or somebody approved it for another definition.
        """
        asks = self._state.asks_of(session.principal, entry)
        if asks is None or leg.tool is None or leg.sent_at:
            return False
        item = self._item(leg.tool, leg, upstream)
        if asks.reason(leg.tool, is_read_only=item is not None and item.read_only) is None:
            return False
        approval = _approval_of(entry.identity, self.pin_of(entry.name, item))
        return not self._is_approved(leg, approval)

    def _is_approved(self, leg: UpstreamRequest, approval: bytes) -> bool:
        """Tell whether somebody has let a call through, and has not taken that back."""
        return leg.approved == approval and (not leg.rule or self._remembered.has(leg.rule))

    def _item(self, tool: str, leg: UpstreamRequest, upstream: Upstream) -> Item | None:
        """Return the definition of a tool as the client of a call gets it."""
        item = upstream.client_lists.catalog_for(leg.client_info).tool(tool)
        return item or upstream.catalog.tool(tool)

    def _started(self, request: ClientRequest, upstream: Upstream) -> None:
        self._again(request)

    def _again(self, request: ClientRequest) -> None:
        if request.leg is not None:
            self.send(request.leg)

    def _same(self, call: Call) -> _Question | None:
        """Return an open question about the same call, which none waits for."""
        for question in self._open.values():
            if question.call == call and question.leg is None:
                return question
        return None

    def _is_full_of(self, session: Session) -> bool:
        """Tell whether a session has as many open questions as it may."""
        own = sum(each.asked.session == session.id for each in self._open.values())
        return own >= MOST_OF_SESSION

    def _new(self, asked: AskedCall, call: Call, request: ClientRequest) -> _Question | None:
        """Open a question, or refuse the call that there is no room for."""
        left = [each for each in self._open.values() if self._is_left(each, call)]
        if len(left) >= MOST_OF_SESSION:
            self._end(left[0], "others took its place")
        size = len(asked.arguments) + REQUEST_BYTES
        if not self._share.take(size):
            request.refuse(no_room(self._share, size, server=asked.server))
            return None
        if len(self._open) >= MOST:
            idle = next((each for each in self._open.values() if each.leg is None), None)
            if idle is not None:
                self._end(idle, "others took its place")
        asked = structs.replace(asked, number=next(self._numbers))
        question = _Question(asked, call, self._ctx.now, size)
        self._open[asked.number] = question
        return question

    def _is_left(self, question: _Question, call: Call) -> bool:
        """Tell whether a question is of an earlier session of a call's client.

        A request without a session has one of its own, and a client can come again and again.
        """
        if question.leg is not None or question.answer is not None:
            return False
        session = self._state.sessions.get(question.asked.session)
        is_over = session is None or session.is_brief
        return is_over and question.call[:2] == call[:2]

    def pin_of(self, server: str, item: Item | None) -> bytes:
        """Return what changes with a tool's definition as a client gets it, however it is spelled.

        The text of a volatile one may change.
        """
        if item is None:
            return b""
        definitions = self._state.definitions_of(server)
        raw = hashlib.blake2b(item.raw, digest_size=_DIGEST_BYTES).digest()
        key = raw, definitions is not None and definitions.is_volatile(item.identity)
        pin = self._pins.get(key)
        if pin is None:
            if len(self._pins) >= MOST:
                self._pins.clear()
            form = form_of(Kind.TOOLS, item.raw)
            digest = digest_of(f"{form.schema}{form.hints}{form.output}".encode())
            pin = bytes.fromhex(digest if key[1] else form.hash)[:_DIGEST_BYTES]
            self._pins[key] = pin
        return pin

    # -- asking ----------------------------------------------------------------------------------

    def _put(
        self,
        question: _Question,
        leg: UpstreamRequest,
        request: ClientRequest,
        session: Session,
        upstream: Upstream,
        value: Any,
        *,
        is_new: bool,
    ) -> None:
        """Ask everywhere at once; the call waits if somebody may be looking."""
        event = request.event
        of_call = isinstance(event, CallTool) and event.approvals
        client = request.client_info or session.client_info
        can_ask = (
            not request.is_control
            and questions.needed_capability(questions.ELICITATION, b"{}") in client.answers
            and not question.is_form_refused
            and session.id not in self._declining
            and not session.has_ended
        )
        who = session.client or question.asked.client
        title = approval_form.title(who, question.asked.server, question.asked.tool)
        said, is_whole = approval_form.message(
            question.asked.id, title, question.asked.reason, value
        )
        surfaces = {
            "client": can_ask,
            "listener": self._ctx.approval_listeners > 0,
            "call": of_call,
        }
        question.has_always = is_whole
        is_told = is_new or any(surfaces.values()) or question.asked.session != session.id
        question.asked = structs.replace(
            question.asked,
            session=session.id,
            attached=session.attached,
            client_pid=session.client_pid,
            shown_all=is_whole,
            asked_in=tuple(name for name, is_asked in surfaces.items() if is_asked),
            of_call=of_call,
        )
        if question.answer is None and not any(surfaces.values()):
            self._keep(question)
            if is_told:
                self._tell_asked(question)
            request.refuse(self._required(question))
            return
        if can_ask and question.answer is None and leg.is_modern:
            self._keep(question)
            self._tell_asked(question)
            self._ask_modern(question, leg, request, upstream, said)
            return
        self._wait(question, leg, request, upstream)
        if question.answer is not None:
            return  # it goes on once that is on the disk
        if can_ask:
            self._ask_legacy(question, leg, session, said)
        self._tell_asked(question)

    def _wait(
        self, question: _Question, leg: UpstreamRequest, request: ClientRequest, upstream: Upstream
    ) -> None:
        question.leg, question.upstream = leg, upstream
        self._waiting[question.key] = question
        upstream.calls.hold(leg)
        request.leave = partial(self._left, question, leg)
        self._drop_timers(question)
        timeout, keep = self._state.policy.approval_timeout, self._state.policy.approval_keep
        question.ends_at = self._ctx.now + timeout + keep if timeout > 0 else math.inf
        if timeout > 0:
            question.timer = self._ctx.after(timeout, partial(self._time_out, question))
        if leg.wants_progress:
            self._tell_progress(question, leg, 1)

    def _wait_behind(
        self, first: _Question, leg: UpstreamRequest, request: ClientRequest, upstream: Upstream
    ) -> None:
        first.behind[leg] = upstream
        upstream.calls.hold(leg)
        request.leave = partial(self._left, first, leg)

    def _ask_legacy(
        self, question: _Question, leg: UpstreamRequest, session: Session, said: str
    ) -> None:
        question.form_sent_at = self._ctx.now
        question.form = self._to_clients.ask(
            session,
            questions.ELICITATION,
            approval_form.params(said, has_always=question.has_always),
            partial(self._heard, question),
            timeout=0,
            request=leg.key,
        )

    def _ask_modern(
        self,
        question: _Question,
        leg: UpstreamRequest,
        request: ClientRequest,
        upstream: Upstream,
        said: str,
    ) -> None:
        """Answer a modern client's call with the question; it calls again with the answer."""
        question.form_sent_at = self._ctx.now
        form = approval_form.params(said, has_always=question.has_always)
        ask = OwnQuestion(questions.ELICITATION, form, partial(self._heard, question))
        leg.is_over = True  # the call that is reported is the one that brings the answer
        result = self._parked_calls.restart(upstream, leg, {"approval": ask})
        question.retract = partial(self._parked_calls.forget, leg, "approval")
        request.reply(result)

    def _tell_progress(self, question: _Question, leg: UpstreamRequest, count: int) -> None:
        """Keep a client from giving up that restarts its timer when it is told of progress.

        The values are below whatever the server will say.
        """

        def tell() -> None:
            said = f"waiting for approval {question.asked.id}"
            told = b'{"progressToken":0,"progress":%b,"message":%b}' % (
                f"{count / 1_000_000:.6f}".encode(),
                envelope.quote(said),
            )
            leg.recipient.take_progress(leg, Raw(told))
            self._tell_progress(question, leg, count + 1)

        question.progress = self._ctx.after(PROGRESS_S, tell)

    # -- what clients answer -----------------------------------------------------------------------

    def _heard(self, question: _Question, result: Raw | None, error: Raw | None = None) -> None:
        """Take what a client's form brings; the first answer counts."""
        question.form = question.retract = None
        if question.asked.number not in self._open or question.answer is not None:
            return
        choice = approval_form.read(result, has_always=question.has_always)
        asked, session = question.asked, question.asked.session
        if isinstance(choice, str):
            by = Answerer("client", None, asked.client)
            self._answer(question, choice, by)
            return
        is_soon = self._ctx.now - question.form_sent_at < BY_ITSELF_S
        if choice is Refusal.DECLINED and not is_soon:
            self._answer(question, "no", Answerer("client", None, asked.client))
            return
        question.is_form_refused = True
        is_refusal = result is None or choice is not Refusal.NO_CHOICE
        if is_refusal and (is_soon or result is None):
            self._declining.add(session)
            if result is not None:
                who = asked.client or "a client without a name"
                self._ctx.tell(ClientDeclines(session, who))
        is_asked_elsewhere = any(surface != "client" for surface in asked.asked_in)
        if is_refusal and not is_asked_elsewhere and question.leg is not None:
            self._give_up(question)

    # -- answers -----------------------------------------------------------------------------------

    def approve(self, event: Approve, request: ClientRequest) -> None:
        """Take the answer that somebody gives with ``mcpd/approve``."""
        question = self._open.get(event.number)
        if question is None or question.answer is not None:
            known = self._over.get(event.number)
            if question is not None:
                known = _End(f"it was answered with {question.answer}", question.answer)
            if known is not None and known.answer == event.answer:
                request.reply(_answered(event.number, event.answer, known.applies))
                return
            how = "there is no such question" if known is None else known.how
            message = f"a{event.number} is over: {how}"
            hint = "mcpctl approvals shows what is open"
            request.refuse(Failure("approval_over", message, None, False, hint))
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

        self._answer(
            question,
            event.answer,
            event.by,
            all_tools=event.all_tools,
            of_session=event.of_session,
            done=done,
        )

    def _answer(
        self,
        question: _Question,
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
            told = self._seen(question)
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
        """Return all tools of a server as they are now, with their pins and definitions."""
        listing = self._state.catalog_of(asked.server).get(Kind.TOOLS)
        found = {} if listing is None else {item.identity: item for item in listing.items}
        tools = {name: (self.pin_of(asked.server, item), item.raw) for name, item in found.items()}
        if asked.tool not in tools:
            return [(asked.tool, asked.pin, asked.definition)]
        return [(name, pin, raw) for name, (pin, raw) in tools.items()]

    def _settle(self, question: _Question, answer: str, applies: str) -> None:
        """Let the calls of a question go on, or refuse them."""
        leg = question.leg
        request = None if leg is None else leg.recipient
        behind = self._close(question, _End(f"it was answered with {answer}", answer, applies))
        asked = question.asked
        if leg is None:
            is_gone = asked.session not in self._state.sessions
            if answer == "once" or (answer == "session" and is_gone):
                keep = self._state.policy.approval_keep
                self._remembered.add_late(question.call, asked.number, keep)
        elif isinstance(request, ClientRequest):
            if answer == "no":
                request.refuse(_refusal(asked.server, "person", asked.id))
            else:
                leg.approved = _approval_of(asked.identity, asked.pin)
                leg.approval = asked.number
                leg.approved_call = question.call
                self.send(leg)
        self._go_on(behind)

    def _denied(self, rule: Rule, server: str) -> Failure:
        """Return the refusal of a call for which a no is remembered."""
        return _refusal(server, "rule" if rule.digest is None else "person", None)

    # -- how it ends -----------------------------------------------------------------------------

    def _close(self, question: _Question, end: _End) -> dict[UpstreamRequest, Upstream]:
        """Forget a question; return the calls behind it, which are nowhere then."""
        number = question.asked.number
        del self._open[number]
        self._over[number] = end
        if len(self._over) > MOST_OVER:
            del self._over[next(iter(self._over))]
        self._share.add(-question.size)
        self._drop_timers(question)
        return self._release(question)

    def _end(self, question: _Question, how: str) -> None:
        """End a question that was not answered."""
        told = self._seen(question)
        leg = question.leg
        behind = self._close(question, _End(how))
        self._ctx.tell(ApprovalOver(told, how))
        if leg is not None:
            self.send(leg)
        self._go_on(behind)

    def _release(self, question: _Question) -> dict[UpstreamRequest, Upstream]:
        """Take the calls of a question out, and take back what its client is asked."""
        leg, upstream = question.leg, question.upstream
        behind, question.behind = question.behind, {}
        if self._waiting.get(question.key) is question:
            del self._waiting[question.key]
        question.leg = question.upstream = None
        for each, its in (*behind.items(), *([(leg, upstream)] if leg and upstream else [])):
            if isinstance(each.recipient, ClientRequest):
                each.recipient.leave = None
            its.calls.let_go(each)
        self._withdraw(question)
        return behind

    def _withdraw(self, question: _Question) -> None:
        if question.form is not None:
            self._to_clients.withdraw(question.form)
            question.form = None
        if question.retract is not None:
            question.retract()
            question.retract = None

    def _go_on(self, behind: dict[UpstreamRequest, Upstream]) -> None:
        """Have the calls behind a question decided about; the first that is asked holds the rest.

        Those that an answer lets through, or refuses, are over with that.
        """
        left = dict(behind)
        while left:
            leg = next(iter(left))
            del left[leg]
            request = leg.recipient
            if leg.is_over or not isinstance(request, ClientRequest) or request.is_over:
                continue
            self.send(leg)
            entry = leg.entry
            key = request.session.id, "" if entry is None else entry.name, leg.tool or ""
            first = self._waiting.get(key)
            if first is None:
                continue
            for other, upstream in left.items():
                recipient = other.recipient
                if isinstance(recipient, ClientRequest) and not recipient.is_over:
                    self._wait_behind(first, other, recipient, upstream)
            return

    def _left(self, question: _Question, leg: UpstreamRequest) -> None:
        """A call does not wait any more: its client gave it up, or it has been answered."""
        upstream = question.behind.pop(leg, None)
        if upstream is not None:
            upstream.calls.let_go(leg)
        elif question.leg is leg:
            self._stop_waiting(question)

    def _stop_waiting(self, question: _Question) -> None:
        """Keep a question whose call does not wait any more."""
        behind = self._release(question)
        self._keep(question)
        self._go_on(behind)

    def _keep(self, question: _Question) -> None:
        """Keep a question that no call waits for, for a late yes."""
        self._drop_timers(question)
        keep = self._state.policy.approval_keep
        question.ends_at = self._ctx.now + keep
        question.timer = self._ctx.after(keep, partial(self._expire, question))

    def _expire(self, question: _Question) -> None:
        if question.answer is None:
            self._end(question, "nobody answered in time")
        else:  # the disk may refuse it
            question.timer = self._ctx.after(DISK_S, partial(self._expire, question))

    def _time_out(self, question: _Question) -> None:
        if question.answer is None:
            self._give_up(question)
        else:
            question.timer = self._ctx.after(DISK_S, partial(self._time_out, question))

    def _give_up(self, question: _Question) -> None:
        """Tell a call that nobody has answered; the question stays for a late yes."""
        leg = question.leg
        self._stop_waiting(question)
        if leg is not None and isinstance(leg.recipient, ClientRequest):
            leg.recipient.refuse(self._required(question))

    def _drop_timers(self, question: _Question) -> None:
        for timer in (question.timer, question.progress):
            if timer is not None:
                timer.cancel()
        question.timer = question.progress = None

    def _required(self, question: _Question) -> Failure:
        asked = question.asked
        message = (
            f"{asked.server}.{asked.tool} was not run: a person has to approve this call first. "
            f"Tell your user to type `mcpctl approve {asked.id}` in a terminal (`mcpctl approvals` "
            "shows what the call would do), then make the same call again."
        )
        details = {"approval": asked.id}
        hint = "mcpctl approvals"
        return Failure("approval_required", message, asked.server, True, hint, details)

    # -- what happens otherwise --------------------------------------------------------------------

    def session_gone(self, session: SessionId) -> None:
        """Forget what was said for a session that has ended; its questions stay."""
        self._declining.discard(session)
        self._remembered.session_gone(session)

    def configured(self) -> None:
        """Ask no more about calls of which the configuration says something else now."""
        state = self._state
        for question in list(self._open.values()):
            if question.asked.number not in self._open or question.answer is not None:
                continue  # it has ended with another one, or goes on once the disk has its answer
            asked, upstream = question.asked, question.upstream
            entry = state.entries.get(asked.server)
            if entry is None or entry.identity != asked.identity:
                self._end(question, "its server was changed or removed")
                continue
            session = state.sessions.get(asked.session)
            if upstream is None or session is None:
                continue
            asks = state.asks_of(session.principal, entry)
            is_read_only = Item(asked.tool, asked.definition or b"{}").read_only
            if (
                asks is None
                or asks.reason(asked.tool, is_read_only=is_read_only) is None
                or state.has_left(upstream)
            ):
                self._end(question, "the configuration was changed")

    def drain(self) -> None:
        """Have no call wait any more: the daemon is about to end."""
        for question in list(self._open.values()):
            if question.leg is not None and question.answer is None:
                behind, question.behind = question.behind, {}
                for leg, upstream in behind.items():
                    upstream.calls.let_go(leg)
                    if isinstance(leg.recipient, ClientRequest):
                        leg.recipient.leave = None
                        leg.recipient.refuse(self._required(question))
                self._give_up(question)

    def note_round(self, leg: UpstreamRequest, state: bytes | None) -> None:
        """Let the call pass once more that brings a server the answers which it wants.

        ``state`` is what the server wants back with them, as JSON.
        """
        call = leg.approved_call
        if isinstance(call, Call) and leg.entry is not None:
            again = _with_state(call, state or b"null")
            self._remembered.add_late(again, leg.approval, leg.entry.parked_timeout or ROUND_S)

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
        if gone:
            self._take_yes_back(lambda leg: leg.rule in gone)

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
                    self.send(leg)

    def take_up(self, rules: tuple[Rule, ...]) -> None:
        """Take what an earlier daemon remembered."""
        self._remembered.take_up(rules)

    def kept(self, ticket: int, problem: str | None) -> None:
        """Go on with what waited for the disk."""
        self._remembered.kept(ticket, problem)

    # -- what is shown -----------------------------------------------------------------------------

    def open(self) -> list[AskedCall]:
        """Return the questions that can be answered, the oldest first."""
        return [self._seen(each) for each in self._open.values() if each.answer is None]

    def rules(self) -> list[Rule]:
        """Return what is remembered, the oldest first."""
        return self._remembered.all()

    def _seen(self, question: _Question) -> AskedCall:
        now = self._ctx.now
        return structs.replace(
            question.asked,
            age_s=now - question.asked_at,
            expires_s=max(0.0, question.ends_at - now),
            waits=question.leg is not None,
        )

    def _tell_asked(self, question: _Question) -> None:
        self._ctx.tell(ApprovalAsked(self._seen(question)))


def _approval_of(identity: str, pin: bytes) -> bytes:
    """Return what a call is approved for: what is started, and the definition of its tool."""
    return identity.encode() + pin


def _with_state(call: Call, state: bytes) -> Call:
    """Return what a call is when it is made again with a server's state."""
    both = hashlib.blake2b(call.digest + state, digest_size=_DIGEST_BYTES)
    return call._replace(digest=both.digest())


def _too_many(server: str) -> Failure:
    what = "calls of this session wait for an answer of a person"
    failure = too_many(what, MOST_OF_SESSION, "approvals")
    return structs.replace(failure, server=server, hint="tell your user: mcpctl approvals")


def _answered(number: int, answer: str, applies: str) -> bytes:
    return b'{"id":"a%d","answer":"%b","applies":"%b"}' % (
        number,
        answer.encode(),
        applies.encode(),
    )


def _refusal(server: str, reason: str, ident: str | None) -> Failure:
    message = "A person refused this. Do not repeat it; say so to your user."
    details = {"reason": reason} | ({} if ident is None else {"approval": ident})
    return Failure("denied", message, server, False, None, details)


def _arguments_of(leg: UpstreamRequest) -> bytes:
    found = None if leg.params is None else envelope.params_of(leg.params)
    if found is None or found.arguments is UNSET or bytes(found.arguments) == b"null":
        return _NO_ARGUMENTS
    return bytes(found.arguments)


def _client_of(session: Session, request: ClientRequest) -> tuple[str | None, str | None]:
    """Return the name and the version of the client whose request this is."""
    if request.is_control:
        return CONTROL_CLIENT, None
    info = (request.client_info or session.client_info).info
    members = (envelope.object_of(info) if info is not None else None) or {}
    name, version = (envelope.text(members.get(each, UNSET)) for each in ("name", "version"))
    return name or session.client, version


def _unsent(leg: UpstreamRequest) -> None:
    raise AssertionError(f"nothing sends {leg.tool} yet")

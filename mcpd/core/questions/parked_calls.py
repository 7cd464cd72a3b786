"""Parked calls: a modern client's call waits in a legacy server while its client is asked.

A legacy server asks in the middle of a call; a modern client is asked by the result of its request
and calls again with the answers. Between the two the call is in flight upstream alone, found by a
handle that only its own session can use, once, with the same request.
"""

from __future__ import annotations

import base64
import hmac
import itertools
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.mcp import codes, translation
from mcpd.core.mcp.input_required import input_required_result
from mcpd.core.mcp.versions import Era
from mcpd.core.questions.input_answers import is_same_request, present, what_is_wrong
from mcpd.core.questions.parked_call import OwnQuestion, ParkedCall
from mcpd.core.questions.question import OpenQuestions, Question
from mcpd.core.requests.inflight import LOST, End, Outcome, UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.ids import SessionId

SIBLINGS: Final = 0.03
"""Seconds in which further questions of a call become part of the same result."""

_PREFIX: Final = "mcpd1."
_DIGEST_BYTES: Final = 18
_UNKNOWN: Final = "requestState is unknown, was used, or has expired"


class ParkedCalls:
    """Which calls are parked, and the only retry that each waits for."""

    def __init__(self, state: MuxState, opened: OpenQuestions) -> None:
        self._state = state
        self._open = opened
        self._calls: dict[int, dict[UpstreamRequest, ParkedCall]] = {}
        """By the session, and the call."""
        self._handles: dict[str, ParkedCall] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return sum(map(len, self._calls.values()))

    def has_of(self, session: Session) -> bool:
        """Tell whether a session has a call that is parked, or about to be."""
        return bool(self._calls.get(session.id))

    def session_of(self, state: str) -> SessionId | None:
        """Return whose call is parked under a handle."""
        call = self._handles.get(state)
        return None if call is None else call.session

    def _call_of(self, leg: UpstreamRequest) -> ParkedCall | None:
        return self._calls.get(leg.owner, {}).get(leg)

    def _begin(self, upstream: Upstream, leg: UpstreamRequest) -> ParkedCall:
        call = ParkedCall(SessionId(leg.owner), upstream, leg)
        self._calls.setdefault(leg.owner, {})[leg] = call
        return call

    # -- asking ----------------------------------------------------------------------------------

    def put(self, question: Question, leg: UpstreamRequest) -> None:
        """Ask the client whose call this is, in a moment: its siblings may be on their way."""
        call = self._call_of(leg)
        if call is None:
            call = self._begin(question.upstream, leg)
            question.upstream.calls.gate.watch(leg, self, partial(self._over, leg))
        key = f"q{next(call.keys)}"
        call.asks[key] = question
        question.retract = partial(self._forget, leg, key, question)
        if call.state is None and call.timer is None:
            self._wait_for_siblings(call)

    def is_parked(self, leg: UpstreamRequest) -> bool:
        """Tell whether a call's client has been told to retry it."""
        call = self._call_of(leg)
        return call is not None and call.state is not None

    def restart(
        self,
        upstream: Upstream,
        leg: UpstreamRequest,
        asks: Mapping[str, OwnQuestion | tuple[str, bytes | None]],
    ) -> bytes:
        """Return the result that asks a client something and has it call again."""
        self._drop(leg)
        call = self._begin(upstream, leg)
        call.asks.update(asks)
        call.is_repeated = True
        return self._show(call)

    def _wait_for_siblings(self, call: ParkedCall) -> None:
        call.timer = self._state.ctx.after(SIBLINGS, partial(self._park, call))

    def _park(self, call: ParkedCall) -> None:
        call.timer = None
        session = self._state.sessions.get(call.session)
        if not call.asks or session is None:
            return
        leg = call.leg
        request = session.requests.get(leg.key)
        if request is not None and request.leg is leg:
            self._ask(call, request)

    def _ask(self, call: ParkedCall, request: ClientRequest) -> None:
        """Answer a client's request with the questions; its call is parked from now on."""

        call.leg.recipient = call
        call.upstream.calls.timeouts.suspend(call.leg)
        request.reply(self._show(call))

    def _show(self, call: ParkedCall) -> bytes:
        asks = {
            key: (
                (ask.method, translation.question_for_modern(ask.method, ask.params))
                if isinstance(ask, Question)
                else (ask[0], ask[1])
            )
            for key, ask in call.asks.items()
        }
        call.shown = {key: method for key, (method, _) in asks.items()}
        call.state = self._handle()
        self._handles[call.state] = call
        wait = call.upstream.entry.parked_timeout
        if wait > 0:
            call.timer = self._state.ctx.after(wait, partial(self._expire, call, wait))
        if call.kept is None and call.leg.kept is not None:
            call.kept = call.leg.kept.keep()
        known = call.upstream.introduction
        return input_required_result(asks, call.state, b"{}" if known is None else known.info)

    def _handle(self) -> str:
        return self._signed(str(next(self._numbers)))

    def _signed(self, number: str) -> str:
        digest = hmac.digest(self._state.ctx.settings.secret, number.encode(), "sha256")
        return f"{_PREFIX}{number}.{base64.urlsafe_b64encode(digest[:_DIGEST_BYTES]).decode()}"

    def _is_handle(self, state: str | None) -> bool:
        """Tell our own handles from what a server gave that is a daemon like us."""
        if state is None or not state.isascii() or not state.startswith(_PREFIX):
            return False
        number = state.removeprefix(_PREFIX).partition(".")[0]
        return hmac.compare_digest(state.encode(), self._signed(number).encode())

    # -- the retry -------------------------------------------------------------------------------

    def retry(
        self,
        request: ClientRequest,
        server: str,
        upstream: Upstream | None,
        params: Raw,
        token: bytes | None,
        leg: UpstreamRequest | None = None,
    ) -> bool:
        """Take a request that brings answers; tell whether it was one for us.

        ``leg`` is what is sent if it was not: it is approved if it is the call that was.

        It is not where a modern server asked, and where the client has to make the call again.
        ``upstream`` is where it would go now, ``None`` where ``server`` cannot be used: a call
        that has its outcome gets that nevertheless.
        """
        found, session = request.found, request.session
        state = envelope.text(found.state)
        call = self._handles.get(state or "")
        is_own = call is not None and call.is_of(session, server)
        is_over = is_own and call is not None and call.outcome is not None
        if not is_over and (upstream is None or not self._is_for_us(upstream, found, state)):
            return False
        if call is None or not is_own or not (is_over or self._is_there(call)):
            # made again, the call could be carried out twice
            request.reject(codes.INVALID_PARAMS, _UNKNOWN)
            return True
        why = None
        if request.method is not call.leg.method or not is_same_request(call.params, params):
            why = "requestState belongs to another request"
        why = why or what_is_wrong(call.shown, found.answers)
        if why is not None:
            request.reject(codes.INVALID_PARAMS, why)
            return True
        if call.is_repeated and leg is not None:
            leg.approval, leg.approved_call = call.leg.approval, call.leg.approved_call
        return self._take_answers(call, request, token)

    def forget(self, leg: UpstreamRequest, key: str) -> None:
        """Forget a question of ours that was answered elsewhere: its client calls again anyway."""
        call = self._call_of(leg)
        if call is not None:
            call.asks.pop(key, None)

    def is_handle(self, found: Params) -> bool:
        """Tell whether the state that a request brings is one of ours, used or not."""
        return self._is_handle(envelope.text(found.state))

    def is_retry(self, session: Session, params: Raw) -> bool:
        """Tell whether a request is to bring answers to a call of this session that is parked."""
        found = envelope.params_of(params) or Params()
        call = self._handles.get(envelope.text(found.state) or "")
        return call is not None and call.session == session.id

    def _is_there(self, call: ParkedCall) -> bool:
        """Tell whether its process is still its server's, or has time to end what it has begun."""
        return self._state.at(call.upstream.slot) is call.upstream

    def _is_for_us(self, upstream: Upstream, found: Params, state: str | None) -> bool:
        """Tell whether a retry is of a call that was parked, now or ever."""
        known = upstream.introduction
        if known is None:  # it will be known when the process is there
            return state is not None and state.startswith(_PREFIX)
        if known.era is Era.MODERN:
            return self._is_handle(state)  # its server was legacy then
        return present(found.state) is not None or present(found.answers) is not None

    def _take_answers(self, call: ParkedCall, request: ClientRequest, token: bytes | None) -> bool:
        answers = present(request.found.answers)
        given = (envelope.object_of(answers) if answers is not None else None) or {}
        shown = call.shown
        self._use_handle(call)
        is_missing = False
        for key in shown:
            ask = call.asks.get(key)
            if ask is None:
                continue  # the server does not want to know any more
            if key not in given:
                is_missing = True
                continue
            del call.asks[key]
            if isinstance(ask, Question):
                self._open.answer(ask, result=given[key], error=None)
            elif isinstance(ask, OwnQuestion):
                ask.take(given[key])
        if call.is_repeated:
            if is_missing:
                request.reply(self._show(call))
                return True
            self._drop(call.leg)
            return False
        self._go_on(call, request, token, is_missing=is_missing)
        return True

    def _use_handle(self, call: ParkedCall) -> None:
        if call.state is not None:
            del self._handles[call.state]
            call.state = None
            call.drop_timer()
            if not call.is_repeated:
                call.upstream.calls.timeouts.resume(call.leg)

    def _go_on(
        self, call: ParkedCall, request: ClientRequest, token: bytes | None, *, is_missing: bool
    ) -> None:
        """Have a retry wait for its call's outcome, or for the next question of it."""
        leg = call.leg
        if call.outcome is not None:
            outcome = call.outcome
            self._drop(leg)
            request.take_outcome(leg, outcome)
            return
        if is_missing:
            self._ask(call, request)
            return
        leg.recipient = request
        if call.kept is not None:
            request.absorb(call.kept)
            call.kept = None
        leg.kept, leg.key = request, request.key
        request.leg = leg
        if request.client_info is not None:  # the retry declares what its client can do now
            leg.client_info = request.client_info
            if request.client_info.level is not None:
                call.upstream.log_level.set_at_least(request.client_info.level)
        leg.token = token
        if call.asks:
            self._wait_for_siblings(call)

    # -- how it ends -----------------------------------------------------------------------------

    def session_gone(self, session: Session) -> None:
        """A session's parked calls end with it."""
        for call in [c for c in self._calls.get(session.id, {}).values() if c.state]:
            self._give_up(call, b'"its client is gone"')

    def _expire(self, call: ParkedCall, wait: float) -> None:
        for ask in list(call.asks.values()):
            if isinstance(ask, Question):
                self._open.answer(ask, result=None, error=None)
        self._give_up(call, envelope.quote(f"parked_timeout of {wait:g} s"))

    def _give_up(self, call: ParkedCall, reason: bytes) -> None:
        self._drop(call.leg)
        if not call.is_repeated:
            call.upstream.calls.end(call.leg, Outcome(End.CANCELLED, reason=reason))

    def server_gone(self, upstream: Upstream) -> None:
        """End the calls that were parked in a process which has ended: no client waits for them."""
        calls = [c for own in self._calls.values() for c in own.values() if c.upstream is upstream]
        for call in calls:
            leg = call.leg
            if call.state is not None and call.outcome is None and not call.is_repeated:
                self._drop(leg)
                upstream.calls.end(leg, LOST)
            elif call.state is None:
                self._drop(leg)

    def _over(self, leg: UpstreamRequest) -> None:
        """A call has ended; where it is parked its outcome is kept for the retry."""
        call = self._call_of(leg)
        if (
            call is not None
            and not call.is_repeated
            and (call.state is None or call.outcome is None)
        ):
            self._drop(leg)

    def _forget(self, leg: UpstreamRequest, key: str, question: Question) -> None:
        call = self._call_of(leg)
        if call is not None and call.asks.get(key) is question:
            del call.asks[key]

    def _drop(self, leg: UpstreamRequest) -> None:
        own = self._calls.get(leg.owner, {})
        call = own.pop(leg, None)
        if call is not None:
            if not own:
                del self._calls[leg.owner]
            self._use_handle(call)
            call.drop_timer()
            if call.kept is not None:
                call.kept.release()

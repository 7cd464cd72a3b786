"""Parked calls: a modern client's call waits in a legacy server while its client is asked.

A legacy server asks in the middle of a call; a modern client is asked by the result of its request
and calls again with the answers. Between the two the call is in flight upstream alone, found by a
handle that only its own session can use, once, with the same request.

``Parked(tables, questions)`` makes itself known to ``questions``, which hands it what a modern
client is to be asked.
"""

from __future__ import annotations

import base64
import hmac
import itertools
from typing import Final

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.methods import Method
from mcpd.core.mcp.versions import Era
from mcpd.core.mux import bridge, progress
from mcpd.core.mux.answers import is_same_request, present, what_is_wrong
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.failures import no_room, with_details
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.question import Question
from mcpd.core.mux.questions import Questions
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.core.wire.memory import Kept
from mcpd.ids import SessionId

SIBLINGS: Final = 0.03
"""Seconds in which further questions of a call become part of the same result."""

_PREFIX: Final = "mcpd1."
_DIGEST_BYTES: Final = 18
_UNKNOWN: Final = "requestState is unknown, was used, or has expired"


class _Call:
    """A call whose client is asked something, or will be once its siblings are there.

    ``shown`` are the questions of the last result, by key; ``state`` is its handle while the
    call is parked. ``outcome`` came while it was. A call that is to be made anew has no question
    of a server's behind its ``asks``, and is over already.
    """

    def __init__(self, session: SessionId, upstream: Upstream, pending: Pending) -> None:
        self.session = session
        self.upstream = upstream
        self.pending = pending
        self.params = pending.params
        self.asks: dict[str, Question | tuple[str, bytes | None]] = {}
        self.shown: dict[str, str] = {}
        self.state: str | None = None
        self.kept: Kept | None = None
        """What is kept of the request that it was called with, while that is not owed an answer."""
        self.outcome: tuple[Raw | bytes | None, Raw | bytes | None, Failure | None] | None = None
        self.is_anew = False
        self.timer: Timer | None = None
        self.keys = itertools.count(1)

    def is_of(self, session: Session, server: str) -> bool:
        """Tell whether it is a call of that session to that server."""
        entry = self.pending.entry
        return self.session == session.id and entry is not None and entry.name == server

    def drop_timer(self) -> None:
        """Call off what is due next."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Parked:
    """Which calls are parked, and the only retry that each waits for."""

    def __init__(self, tables: Tables, asked: Questions) -> None:
        self._tables = tables
        self._questions = asked
        self._calls: dict[int, dict[Pending, _Call]] = {}
        """By the session, and the call."""
        self._handles: dict[str, _Call] = {}
        self._numbers = itertools.count(1)
        asked.parking = self
        asked.when_gone.append(self._server_gone)

    def __len__(self) -> int:
        return sum(map(len, self._calls.values()))

    def _call_of(self, pending: Pending) -> _Call | None:
        return self._calls.get(pending.owner, {}).get(pending)

    def _begin(self, upstream: Upstream, pending: Pending) -> _Call:
        call = _Call(SessionId(pending.owner), upstream, pending)
        self._calls.setdefault(pending.owner, {})[pending] = call
        return call

    # -- asking ----------------------------------------------------------------------------------

    def put(self, question: Question, pending: Pending) -> None:
        """Ask the client whose call this is, in a moment: its siblings may be on their way."""
        call = self._call_of(pending)
        if call is None:
            call = self._begin(question.upstream, pending)
            question.upstream.turns.watch(pending, lambda: self._over(pending))
        key = f"q{next(call.keys)}"
        call.asks[key] = question
        question.retract = lambda: self._forget(pending, key, question)
        if call.state is None and call.timer is None:
            self._wait_for_siblings(call)

    def is_parked(self, pending: Pending) -> bool:
        """Tell whether a call's client has been told to retry it."""
        call = self._call_of(pending)
        return call is not None and call.state is not None

    def restart(
        self, upstream: Upstream, pending: Pending, asks: dict[str, tuple[str, bytes | None]]
    ) -> bytes:
        """Return the result that asks a client something and then has it call anew."""
        self._drop(pending)
        call = self._begin(upstream, pending)
        call.asks.update(asks)
        call.is_anew = True
        return self._show(call)

    def _wait_for_siblings(self, call: _Call) -> None:
        call.timer = self._tables.fx.after(SIBLINGS, lambda: self._park(call))

    def _park(self, call: _Call) -> None:
        call.timer = None
        session = self._tables.sessions.get(call.session)
        if not call.asks or session is None:
            return
        pending = call.pending
        owed = session.owed.get(pending.key)
        if owed is not None and owed.pending is pending:
            self._ask(call, session, owed)

    def _ask(self, call: _Call, session: Session, owed: Owed) -> None:
        """Answer a client's request with what is to be asked; its call is parked from now on."""

        def keep(
            _: Pending,
            result: Raw | bytes | None,
            error: Raw | bytes | None,
            failure: Failure | None,
        ) -> None:
            said = result if error is None else error
            if said is not None and call.kept is not None and not call.kept.grow(len(said)):
                wrong = no_room(session.share, len(said), server=call.upstream.entry.name)
                result = error = None
                failure = with_details(wrong, outcome_unknown=True)
            call.outcome = (result, error, failure)

        call.pending.done = keep
        call.pending.on_progress = None  # nobody is there to be told
        self._questions.pauses.stop(call.upstream.requests, call.pending)
        self._tables.reply(session, owed, self._show(call))

    def _show(self, call: _Call) -> bytes:
        asks = {
            key: (
                (ask.method, bridge.question_for_modern(ask.method, ask.params))
                if isinstance(ask, Question)
                else ask
            )
            for key, ask in call.asks.items()
        }
        call.shown = {key: method for key, (method, _) in asks.items()}
        call.state = self._handle()
        self._handles[call.state] = call
        wait = call.upstream.entry.parked_timeout
        if wait > 0:
            call.timer = self._tables.fx.after(wait, lambda: self._expire(call, wait))
        if call.kept is None and call.pending.kept is not None:
            call.kept = call.pending.kept.keep()
        known = call.upstream.introduction
        return modern.input_required(asks, call.state, b"{}" if known is None else known.info)

    def _handle(self) -> str:
        return self._signed(str(next(self._numbers)))

    def _signed(self, number: str) -> str:
        digest = hmac.digest(self._tables.fx.settings.secret, number.encode(), "sha256")
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
        session: Session,
        owed: Owed,
        server: str,
        upstream: Upstream | None,
        rule: Method,
        params: Raw,
        token: bytes | None,
    ) -> bool:
        """Take a request that brings answers; tell whether it was one for us.

        It is none of ours where a modern server asked, and where the call is to be made anew.
        ``upstream`` is where it would go now, ``None`` where ``server`` is not to be used: a call
        that has its outcome gets that nevertheless.
        """
        found = envelope.params_of(params) or Params()
        state = envelope.text(found.state)
        call = self._handles.get(state or "")
        is_own = call is not None and call.is_of(session, server)
        is_over = is_own and call is not None and call.outcome is not None
        if not is_over and (upstream is None or not self._is_for_us(upstream, found, state)):
            return False
        if call is None or not is_own or not (is_over or self._is_there(call)):
            # made anew, the call could be carried out twice
            self._tables.reject(session, owed, codes.INVALID_PARAMS, _UNKNOWN)
            return True
        why = None
        if rule is not call.pending.method or not is_same_request(call.params, params):
            why = "requestState belongs to another request"
        why = why or what_is_wrong(call.shown, found.answers)
        if why is not None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
            return True
        return self._take_answers(call, session, owed, found, token)

    def is_retry(self, session: Session, params: Raw) -> bool:
        """Tell whether a request is to bring answers to a call of this session that is parked."""
        found = envelope.params_of(params) or Params()
        call = self._handles.get(envelope.text(found.state) or "")
        return call is not None and call.session == session.id

    def _is_there(self, call: _Call) -> bool:
        """Tell whether its process is still its server's, or has time to end what it has begun."""
        return self._tables.at(call.upstream.slot) is call.upstream

    def _is_for_us(self, upstream: Upstream, found: Params, state: str | None) -> bool:
        """Tell whether a retry is of a call that was parked, now or ever."""
        known = upstream.introduction
        if known is None:  # it will be known when the process is there
            return state is not None and state.startswith(_PREFIX)
        if known.era is Era.MODERN:
            return self._is_handle(state)  # its server was legacy then
        return present(found.state) is not None or present(found.answers) is not None

    def _take_answers(
        self, call: _Call, session: Session, owed: Owed, found: Params, token: bytes | None
    ) -> bool:
        answers = present(found.answers)
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
                self._questions.answer(ask, result=given[key], error=None)
        if call.is_anew:
            if is_missing:
                self._tables.reply(session, owed, self._show(call))
                return True
            self._drop(call.pending)
            return False
        self._go_on(call, session, owed, token, is_missing=is_missing)
        return True

    def _use_handle(self, call: _Call) -> None:
        if call.state is not None:
            del self._handles[call.state]
            call.state = None
            call.drop_timer()
            if not call.is_anew:
                self._questions.pauses.go_on(call.upstream.requests, call.pending)

    def _go_on(
        self, call: _Call, session: Session, owed: Owed, token: bytes | None, *, is_missing: bool
    ) -> None:
        """Have a retry wait for its call's outcome, or for the next question of it."""
        pending = call.pending
        if call.outcome is not None:
            outcome = call.outcome
            self._drop(pending)
            self._tables.outcome(session, owed)(pending, *outcome)
            return
        if is_missing:
            self._ask(call, session, owed)
            return
        pending.done = self._tables.outcome(session, owed)
        if call.kept is not None:
            owed.take_over(call.kept)
            call.kept = None
        pending.kept, pending.key = owed, owed.key
        owed.pending = pending
        if owed.asker is not None:  # the retry says anew what its client can, and wants to hear
            pending.asker = owed.asker
            if owed.asker.level is not None:
                call.upstream.log_at_least(owed.asker.level)
        if token is not None:
            pending.on_progress = lambda said: self._tables.notify_modern(
                session, "notifications/progress", progress.restored(said, token)
            )
        if call.asks:
            self._wait_for_siblings(call)

    # -- how it ends -----------------------------------------------------------------------------

    def session_gone(self, session: Session) -> None:
        """A session's parked calls end with it."""
        for call in [c for c in self._calls.get(session.id, {}).values() if c.state]:
            self._give_up(call, b'"its client is gone"')

    def _expire(self, call: _Call, wait: float) -> None:
        for ask in list(call.asks.values()):
            if isinstance(ask, Question):
                self._questions.answer(ask, result=None, error=None)
        self._give_up(call, envelope.quote(f"parked_timeout of {wait:g} s"))

    def _give_up(self, call: _Call, reason: bytes) -> None:
        self._drop(call.pending)
        if not call.is_anew:
            call.upstream.requests.cancel(call.pending, reason)

    def _server_gone(self, upstream: Upstream) -> None:
        """Calls that were parked in a process are over: nobody is owed an answer yet."""
        calls = [c for own in self._calls.values() for c in own.values() if c.upstream is upstream]
        for call in calls:
            pending = call.pending
            if call.state is not None and call.outcome is None and not call.is_anew:
                self._drop(pending)
                pending.is_over = True
                pending.drop_timers()
                upstream.turns.over(pending)
            elif call.state is None:
                self._drop(pending)

    def _over(self, pending: Pending) -> None:
        """A call has ended; where it is parked its outcome is kept for the retry."""
        call = self._call_of(pending)
        if call is not None and not call.is_anew and (call.state is None or call.outcome is None):
            self._drop(pending)

    def _forget(self, pending: Pending, key: str, question: Question) -> None:
        call = self._call_of(pending)
        if call is not None and call.asks.get(key) is question:
            del call.asks[key]

    def _drop(self, pending: Pending) -> None:
        own = self._calls.get(pending.owner, {})
        call = own.pop(pending, None)
        if call is not None:
            if not own:
                del self._calls[pending.owner]
            self._use_handle(call)
            call.drop_timer()
            if call.kept is not None:
                call.kept.release()

"""What an answer means where eras differ, and the rounds of questions that a modern server asks.

A modern server asks in the result of a call and is called again with the answers. A legacy client
sees one call, and requests of ours; a modern one takes the result as it is, if it has declared
that it can answer.

The module is long because all steps of a round change the same record of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Raw

from mcpd.core.facts import Failure, QuestionAnswered, QuestionAsked
from mcpd.core.interface.entries import Interactive
from mcpd.core.interface.failures import no_room
from mcpd.core.mcp import codes, modern, questions, translation
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.input_required import (
    InputRequired,
    read_input_required,
    retry_params,
    without_input_responses,
)
from mcpd.core.mcp.versions import Era
from mcpd.core.questions.input_loop import InputLoop
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.questions import MOST_OF_A_PROCESS, Questions
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest, failed
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

MOST_ROUNDS: Final = 10
"""Of one call; the SDKs of clients stop there as well (mcp 2.3, measured)."""

_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 0.25
"""Seconds before a call is made again that was answered with nothing but a state."""

_URL_NEEDED: Final = -32042
"""2025-11-25: the call needs URL elicitations first. It has no meaning in the modern era."""

_INPUT_REQUIRED: Final = "input_required"


class InputRounds:
    """Tells what answers mean, and which calls of legacy clients wait for their clients."""

    def __init__(
        self,
        state: MuxState,
        asked: Questions,
        parked: ParkedCalls,
        send: Callable[[UpstreamRequest], None],
        note_round: Callable[[UpstreamRequest, bytes | None], None],
    ) -> None:
        """``send`` sends a call again, with the answers of its client.

        ``note_round`` gets a call that a person has approved and whose server asks for input, with
        the state that the server wants back.
        """
        self._state = state
        self._questions = asked
        self._parked_calls = parked
        self._send = send
        self._note_round = note_round
        self._loops: dict[UpstreamRequest, InputLoop] = {}
        self._asked: dict[Upstream, int] = {}
        """How many questions of a process clients have not answered."""
        asked.when_gone.append(self._server_gone)

    def __len__(self) -> int:
        return len(self._loops)

    def answered(
        self, upstream: Upstream, leg: UpstreamRequest, result: Raw | None, error: Raw | None
    ) -> Outcome | None:
        """Say what an answer means to its client; ``None`` when that is asked something first."""
        client_info, is_modern = leg.client_info, leg.is_modern
        if upstream.calls.era is Era.LEGACY:
            if client_info is None or not is_modern:
                if error is not None:
                    self._note_visits(upstream, leg, error)
                return Outcome(End.ANSWERED, result, error)
            if error is not None:
                return self._of_legacy_error(upstream, leg, client_info, error)
            known = upstream.introduction
            info = b"{}" if known is None else known.info
            said = translation.result_for_modern(leg.method.name, result or Raw(b"{}"), info)
            return Outcome(End.ANSWERED, said)
        if result is None:
            meant = self._as_it_is(result, error, is_modern=is_modern)
        else:
            meant = self._of_modern_server(upstream, leg, result, is_modern=is_modern)
        if meant is not None and self._loops:
            self._forget(leg)
        return meant

    def _forget(self, leg: UpstreamRequest) -> InputLoop | None:
        loop = self._loops.pop(leg, None)
        if loop is not None:
            self._count(loop.upstream, -loop.open)
        return loop

    def _count(self, upstream: Upstream, more: int) -> None:
        count = self._asked.pop(upstream, 0) + more
        if count:
            self._asked[upstream] = count

    def _note_visits(self, upstream: Upstream, leg: UpstreamRequest, error: Raw) -> None:
        """Remember who is sent to a page by an error."""
        session = self._state.sessions.get(SessionId(leg.owner))
        if session is not None:
            for elicitation in _sends_to(error):
                self._questions.url_elicitations.note(upstream, Raw(elicitation), session)

    # -- a legacy server and a modern client -------------------------------------------------------

    def _of_legacy_error(
        self, upstream: Upstream, leg: UpstreamRequest, client_info: ClientInfo, error: Raw
    ) -> Outcome:
        is_parked = self._parked_calls.is_parked(leg)
        asks = _elicitations(error) if leg.method.is_input_capable and not is_parked else {}
        if len(asks) > questions.MOST_PER_CALL:
            return _invalid(upstream.entry.name, f"it wants {len(asks)} pages to be visited first")
        kept = leg.kept
        if asks and kept is not None and kept.share is not None and not kept.grow(len(error)):
            return failed(no_room(kept.share, len(error), server=upstream.entry.name))
        if asks and "elicitation.url" in client_info.answers:
            return Outcome(End.ANSWERED, self._parked_calls.restart(upstream, leg, asks))
        lacked = "elicitation.url" if asks else leg.lacked
        if lacked is not None:
            said = envelope.text((envelope.object_of(error) or {}).get("message", Raw(b"null")))
            return Outcome(End.ANSWERED, error=_undeclared({lacked}, said or "it failed"))
        return Outcome(End.ANSWERED, error=translation.error_for_modern(error))

    # -- a modern server -------------------------------------------------------------------------

    def _as_it_is(
        self, result: Raw | None, error: Raw | None, *, is_modern: bool
    ) -> Outcome | None:
        if is_modern:
            return Outcome(End.ANSWERED, result, error)
        if error is not None:
            return Outcome(End.ANSWERED, error=translation.error_for_legacy(error))
        said = None if result is None else translation.result_for_legacy(result)
        return Outcome(End.ANSWERED, said)

    def _of_modern_server(
        self, upstream: Upstream, leg: UpstreamRequest, result: Raw, *, is_modern: bool
    ) -> Outcome | None:
        kind = modern.result_type(result)
        if kind == "complete" or (is_modern and kind != _INPUT_REQUIRED):
            return self._as_it_is(result, None, is_modern=is_modern)
        name = upstream.entry.name
        if kind != _INPUT_REQUIRED:
            what = "no resultType that is a string" if kind is None else f"resultType {kind!r}"
            return _invalid(name, f"its result has {what}, which cannot be passed on")
        if not leg.method.is_input_capable:
            return _invalid(name, f"it asks for input in answer to {leg.method.name}")
        try:
            wanted = read_input_required(result)
        except ValueError as problem:
            return _invalid(name, f"what it asks cannot be read: {problem}")
        if wanted.requests and upstream.entry.interactive is Interactive.OFF:
            return _invalid(name, 'it asks, and is to ask nobody (interactive = "off")')
        answers = frozenset[str]() if leg.client_info is None else leg.client_info.answers
        needed = {questions.needed_capability(m, p) for m, p in wanted.requests.values()}
        lacking = {need for need in needed if need is not None and need not in answers}
        if lacking:
            what = " and ".join(sorted({need.partition(".")[0] for need in lacking}))
            why = f"{name} asks for {what}, which this client has not said it can give"
            if is_modern:
                return Outcome(End.ANSWERED, error=_undeclared(lacking, why))
            hint = None
            if leg.client_info is None:
                why = f"{name} asks for {what} before it answers, and nobody can be asked here"
                hint = "call it from an MCP client that can be asked"
            details = {"requiredCapabilities": _capabilities(lacking)}
            return failed(Failure("unsupported", why, name, False, hint, details))
        for method, params in wanted.requests.values():
            if method == questions.SAMPLING:
                # it is not settled: what the client answers is a call of its own
                refused = self._questions.budgets.reserve(upstream.entry, params)
                if isinstance(refused, str):
                    why = f"{name} wants to sample: {refused}"
                    limit = {"limit": "sampling"}
                    return failed(Failure("rate_limited", why, name, False, None, limit))
        if is_modern:
            if self._state.ctx.tells_calls:  # the answers come with another call
                for method, _ in wanted.requests.values():
                    self._state.ctx.tell(QuestionAsked(name, SessionId(leg.owner), method))
            if leg.approved_call is not None:
                self._note_round(leg, wanted.state)
            return Outcome(End.ANSWERED, result)
        return self._begin_round(upstream, leg, wanted)

    # -- a round ---------------------------------------------------------------------------------

    def _begin_round(
        self, upstream: Upstream, leg: UpstreamRequest, wanted: InputRequired
    ) -> Outcome | None:
        session = self._state.sessions.get(SessionId(leg.owner))
        loop = self._loops.get(leg)
        if loop is None:
            loop = self._loops[leg] = InputLoop(upstream, leg)
            leg.is_asking = True  # where it is asked nothing its end matters all the same
            upstream.calls.gate.watch(leg, self, partial(self._over, leg))
        loop.rounds += 1
        if loop.rounds > MOST_ROUNDS:
            why = f"it has asked {MOST_ROUNDS} times and still asks"
            return _invalid(upstream.entry.name, why)
        open_now = self._asked.get(upstream, 0)
        if open_now + len(wanted.requests) > MOST_OF_A_PROCESS:
            name = upstream.entry.name
            why = f"{name}: {open_now} of its questions are open, and this call asks one more"
            details = {"limit": "questions", "outcome_unknown": True}
            return failed(Failure("server_busy", why, name, True, None, details))
        loop.begin(wanted)
        self._count(upstream, loop.open)
        leg.params = loop.params
        size = len(wanted.state or b"") + sum(map(len, wanted.requests))
        loop.keep_instead(0)
        if (full := loop.keep(size)) is not None:
            return failed(full)
        upstream.calls.await_client(leg)
        if not wanted.requests:
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**loop.waits)
            loop.waits += 1
            loop.timer = self._state.ctx.after(wait, partial(self._end_round, loop))
        elif session is not None:
            loop.waits = 0
            for key, (method, params) in wanted.requests.items():
                self._ask(loop, session, key, method, params)
        return None

    def _ask(
        self, loop: InputLoop, session: Session, key: str, method: str, params: bytes | None
    ) -> None:
        ctx, server = self._state.ctx, loop.upstream.entry.name
        if ctx.tells_calls:
            ctx.tell(QuestionAsked(server, session.id, method))

        def heard(result: Raw | None, error: Raw | None) -> None:
            if ctx.tells_calls:
                how = "answered" if result is not None else "none" if error is None else "error"
                ctx.tell(QuestionAnswered(server, session.id, method, how))
            self._heard(loop, key, method, result, error)

        asked = self._questions.to_clients.ask(
            session,
            method,
            translation.question_for_legacy(method, params, key),
            heard,
            timeout=loop.upstream.entry.question_timeout,
            request=loop.leg.key,
        )
        loop.asked.append(asked)

    def _heard(
        self, loop: InputLoop, key: str, method: str, result: Raw | None, error: Raw | None
    ) -> None:
        is_object = result is not None and envelope.object_of(result) is not None
        said: Raw | bytes | None = result if is_object else translation.response_for_error(method)
        if said is None:  # a client's error has no form among the answers
            silence = codes.plain_error(codes.INTERNAL_ERROR, "the client did not answer")
            loop.end(Outcome(End.FAILED, error=error if error is not None else silence))
            return
        if (full := loop.keep(len(said))) is not None:
            loop.end(failed(full))
            return
        loop.responses[key] = bytes(said)
        if len(loop.responses) == len(loop.methods):
            self._end_round(loop)

    def _end_round(self, loop: InputLoop) -> None:
        """Call again, with all the answers."""
        leg, upstream = loop.leg, loop.upstream
        responses = {key: loop.responses[key] for key in loop.methods}
        leg.unanswered_params = loop.params
        leg.params = Raw(retry_params(loop.params, responses, loop.state))
        loop.keep_instead(len(leg.params))
        self._count(upstream, -loop.open)
        loop.begin()
        upstream.calls.between.pop(leg, None)
        if self._state.has_left(upstream):
            self._forget(leg)  # the rounds of the process that answers it are counted from 0
        self._send(leg)

    # -- how it ends -----------------------------------------------------------------------------

    def _over(self, leg: UpstreamRequest) -> None:
        """A call has ended, in whatever way: nobody wants to know any more."""
        loop = self._forget(leg)
        if loop is None:
            return
        if loop.timer is not None:
            loop.timer.cancel()
        for asked in loop.asked:
            self._questions.to_clients.withdraw(asked)
        loop.asked.clear()  # they refer back to it: what it keeps is freed now

    def _server_gone(self, upstream: Upstream) -> None:
        """Forget the answers for a call that is repeated: the next process asks again."""
        if upstream.calls.era is not Era.MODERN:
            return
        for leg in upstream.calls.inflight.all():
            loop = self._forget(leg)
            if loop is not None:
                leg.params = loop.params
            elif leg.method.is_input_capable and leg.params is not None:
                leg.params = Raw(without_input_responses(leg.params) or b"{}")


def _elicitations(error: Raw) -> dict[str, tuple[str, bytes | None]]:
    """Return what an error wants a client to visit first, as its input requests."""
    method = questions.ELICITATION
    return {
        f"q{number}": (method, translation.question_for_modern(method, each))
        for number, each in enumerate(_sends_to(error), 1)
    }


def _sends_to(error: Raw) -> list[bytes]:
    """Read what an error wants a client to visit first; nothing where it is another error."""
    members = envelope.object_of(error) or {}
    if bytes(members.get("code", b"")) != b"%d" % _URL_NEEDED:
        return []
    data = envelope.object_of(members.get("data", Raw(b"null"))) or {}
    listed = envelope.elements_of(bytes(data.get("elicitations", b"[]"))) or []
    needed = questions.needed_capability
    return [each for each in listed if needed(questions.ELICITATION, each) == "elicitation.url"]


def _capabilities(needs: set[str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for need in sorted(needs):
        for name, members in questions.required_capabilities(need).items():
            merged.setdefault(name, {}).update(members)
    return merged


def _undeclared(needs: set[str], why: str) -> bytes:
    data = {"requiredCapabilities": _capabilities(needs)}
    return codes.plain_error(codes.MISSING_CAPABILITY, why, data)


def _invalid(server: str, why: str) -> Outcome:
    details = {"outcome_unknown": True}
    return failed(Failure("unsupported", f"{server}: {why}", server, False, None, details))

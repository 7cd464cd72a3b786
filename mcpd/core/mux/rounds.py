"""What an answer means where eras differ, and the rounds of questions that a modern server asks.

A modern server asks in the result of a call and is called again with the answers. A legacy client
sees one call, and requests of ours; a modern one takes the result as it is, if it has declared
that it can answer. ``Rounds(tables, questions)``; ``answered`` is ``Requests.interpret``.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, modern, questions
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.versions import Era
from mcpd.core.mux import bridge
from mcpd.core.mux.asking import Asked
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.entries import Interactive
from mcpd.core.mux.failures import no_room, with_details
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.questions import MOST_OF_A_PROCESS, Questions
from mcpd.core.mux.requests import Interpreted
from mcpd.core.mux.session import Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
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


class _Loop:
    """One call of a legacy client's whose server asks. ``params`` are those of the first round."""

    def __init__(self, upstream: Upstream, pending: Pending) -> None:
        self.upstream = upstream
        self.pending = pending
        self.params = pending.params
        self.rounds = 0
        self.waits = 0
        """Rounds in a row in which nobody was asked anything."""
        self._kept_bytes = 0
        self.begin()

    @property
    def open(self) -> int:
        """Questions of the round, until it ends."""
        return len(self.methods)

    def begin(self, wanted: modern.Input | None = None) -> None:
        """A round begins: nothing has been answered."""
        self.methods = {} if wanted is None else {k: m for k, (m, _) in wanted.requests.items()}
        self.state = None if wanted is None else wanted.state
        self.asked: list[Asked] = []
        self.responses: dict[str, bytes] = {}
        self.timer: Timer | None = None

    def keep(self, size: int) -> Failure | None:
        """Count what is kept of a round, or say why there is no room for it."""
        kept = self.pending.kept
        if kept is not None and kept.share is not None and not kept.grow(size):
            failure = no_room(kept.share, size, server=self.upstream.entry.name)
            return with_details(failure, outcome_unknown=True)
        self._kept_bytes += size
        return None

    def keep_instead(self, size: int) -> None:
        """Count so much instead of what is kept of the round."""
        if self.pending.kept is not None:
            self.pending.kept.add(size - self._kept_bytes)
        self._kept_bytes = size


class Rounds:
    """Tells what answers mean, and which calls of legacy clients wait for their clients."""

    def __init__(self, tables: Tables, asked: Questions) -> None:
        self._tables = tables
        self._questions = asked
        self._loops: dict[Pending, _Loop] = {}
        self._asked: dict[Upstream, int] = {}
        """How many questions of a process clients have not answered."""
        asked.when_gone.append(self._server_gone)

    def __len__(self) -> int:
        return len(self._loops)

    def answered(
        self, upstream: Upstream, pending: Pending, result: Raw | None, error: Raw | None
    ) -> Interpreted | None:
        """Say what an answer means to its client; ``None`` when that is asked something first."""
        asker, is_modern = pending.asker, pending.is_modern
        if upstream.requests.era is Era.LEGACY:
            if asker is None or not is_modern:
                if error is not None:
                    self._note_visits(upstream, pending, error)
                return result, error, None
            if error is not None:
                return self._of_legacy_error(upstream, pending, asker, error)
            known = upstream.introduction
            info = b"{}" if known is None else known.info
            said = bridge.result_for_modern(pending.method.name, result or Raw(b"{}"), info)
            return said, None, None
        if result is None:
            meant = self._as_it_is(result, error, is_modern=is_modern)
        else:
            meant = self._of_modern_server(upstream, pending, result, is_modern=is_modern)
        if meant is not None and self._loops:
            self._forget(pending)
        return meant

    def _forget(self, pending: Pending) -> _Loop | None:
        loop = self._loops.pop(pending, None)
        if loop is not None:
            self._count(loop.upstream, -loop.open)
        return loop

    def _count(self, upstream: Upstream, more: int) -> None:
        count = self._asked.pop(upstream, 0) + more
        if count:
            self._asked[upstream] = count

    def _note_visits(self, upstream: Upstream, pending: Pending, error: Raw) -> None:
        """Remember who is sent to a page by an error."""
        session = self._tables.sessions.get(SessionId(pending.owner))
        if session is not None:
            for elicitation in _sends_to(error):
                self._questions.visits.note(upstream, Raw(elicitation), session)

    # -- a legacy server and a modern client -------------------------------------------------------

    def _of_legacy_error(
        self, upstream: Upstream, pending: Pending, asker: Asker, error: Raw
    ) -> Interpreted:
        is_parked = self._questions.parking.is_parked(pending)
        asks = _elicitations(error) if pending.method.is_input_capable and not is_parked else {}
        if len(asks) > questions.MOST_OF_A_CALL:
            return _invalid(upstream.entry.name, f"it wants {len(asks)} pages to be visited first")
        kept = pending.kept
        if asks and kept is not None and kept.share is not None and not kept.grow(len(error)):
            return None, None, no_room(kept.share, len(error), server=upstream.entry.name)
        if asks and "elicitation.url" in asker.answers:
            return self._questions.parking.restart(upstream, pending, asks), None, None
        lacked = "elicitation.url" if asks else pending.lacked
        if lacked is not None:
            said = envelope.text((envelope.object_of(error) or {}).get("message", Raw(b"null")))
            return None, _undeclared({lacked}, said or "it failed"), None
        return None, bridge.error_for_modern(error), None

    # -- a modern server -------------------------------------------------------------------------

    def _as_it_is(
        self, result: Raw | None, error: Raw | None, *, is_modern: bool
    ) -> Interpreted | None:
        if is_modern:
            return result, error, None
        if error is not None:
            return None, bridge.error_for_legacy(error), None
        return None if result is None else bridge.result_for_legacy(result), None, None

    def _of_modern_server(
        self, upstream: Upstream, pending: Pending, result: Raw, *, is_modern: bool
    ) -> Interpreted | None:
        kind = modern.result_type(result)
        if kind == "complete" or (is_modern and kind != _INPUT_REQUIRED):
            return self._as_it_is(result, None, is_modern=is_modern)
        name = upstream.entry.name
        if kind != _INPUT_REQUIRED:
            what = "no resultType that is a string" if kind is None else f"resultType {kind!r}"
            return _invalid(name, f"its result has {what}, which cannot be passed on")
        if not pending.method.is_input_capable:
            return _invalid(name, f"it asks for input in answer to {pending.method.name}")
        try:
            wanted = modern.read_input(result)
        except ValueError as problem:
            return _invalid(name, f"what it asks cannot be read: {problem}")
        if wanted.requests and upstream.entry.interactive is Interactive.OFF:
            return _invalid(name, 'it asks, and is to ask nobody (interactive = "off")')
        answers = frozenset[str]() if pending.asker is None else pending.asker.answers
        needed = {questions.needed_for(m, p) for m, p in wanted.requests.values()}
        lacking = {need for need in needed if need is not None and need not in answers}
        if lacking:
            what = " and ".join(sorted({need.partition(".")[0] for need in lacking}))
            why = f"{name} asks for {what}, which this client has not said it can give"
            if is_modern:
                return None, _undeclared(lacking, why), None
            hint = None
            if pending.asker is None:
                why = f"{name} asks for {what} before it answers, and nobody can be asked here"
                hint = "call it from an MCP client that can be asked"
            details = {"requiredCapabilities": _capabilities(lacking)}
            return None, None, Failure("unsupported", why, name, False, hint, details)
        if is_modern:
            return result, None, None
        return self._begin_round(upstream, pending, wanted)

    # -- a round ---------------------------------------------------------------------------------

    def _begin_round(
        self, upstream: Upstream, pending: Pending, wanted: modern.Input
    ) -> Interpreted | None:
        session = self._tables.sessions.get(SessionId(pending.owner))
        loop = self._loops.get(pending)
        if loop is None:
            loop = self._loops[pending] = _Loop(upstream, pending)
            pending.is_asking = True  # where it is asked nothing its end matters all the same
            upstream.turns.watch(pending, lambda: self._over(pending))
        loop.rounds += 1
        if loop.rounds > MOST_ROUNDS:
            why = f"it has asked {MOST_ROUNDS} times and still asks"
            return _invalid(upstream.entry.name, why)
        open_now = self._asked.get(upstream, 0)
        if open_now + len(wanted.requests) > MOST_OF_A_PROCESS:
            name = upstream.entry.name
            why = f"{name}: {open_now} of its questions are open, and this call asks one more"
            details = {"limit": "questions", "outcome_unknown": True}
            return None, None, Failure("server_busy", why, name, True, None, details)
        loop.begin(wanted)
        self._count(upstream, loop.open)
        pending.params = loop.params
        size = len(wanted.state or b"") + sum(map(len, wanted.requests))
        loop.keep_instead(0)
        if (full := loop.keep(size)) is not None:
            return None, None, full
        upstream.requests.ask_between(pending)
        if not wanted.requests:
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**loop.waits)
            loop.waits += 1
            loop.timer = self._tables.fx.after(wait, lambda: self._end_round(loop))
        elif session is not None:
            loop.waits = 0
            for key, (method, params) in wanted.requests.items():
                self._ask(loop, session, key, method, params)
        return None

    def _ask(
        self, loop: _Loop, session: Session, key: str, method: str, params: bytes | None
    ) -> None:
        def heard(result: Raw | None, error: Raw | None) -> None:
            self._heard(loop, key, method, result, error)

        asked = self._questions.asking.ask(
            session,
            method,
            bridge.question_for_legacy(method, params, key),
            heard,
            timeout=loop.upstream.entry.question_timeout,
        )
        loop.asked.append(asked)

    def _heard(
        self, loop: _Loop, key: str, method: str, result: Raw | None, error: Raw | None
    ) -> None:
        is_object = result is not None and envelope.object_of(result) is not None
        said: Raw | bytes | None = result if is_object else bridge.refusal(method)
        if said is None:  # a client's error has no form among the answers
            silence = codes.plain_error(codes.INTERNAL_ERROR, "the client did not answer")
            loop.upstream.requests.end_between(
                loop.pending, error if error is not None else silence
            )
            return
        if (full := loop.keep(len(said))) is not None:
            loop.upstream.requests.end_between(loop.pending, codes.error_object(full))
            return
        loop.responses[key] = bytes(said)
        if len(loop.responses) == len(loop.methods):
            self._end_round(loop)

    def _end_round(self, loop: _Loop) -> None:
        """Call again, with all the answers."""
        pending, upstream = loop.pending, loop.upstream
        entry = None if pending.entry is None else self._tables.entry(pending.entry.name)
        if isinstance(entry, Failure):  # a person has stopped it, or there is none any more
            upstream.requests.end_between(pending, codes.error_object(entry))
            return
        responses = {key: loop.responses[key] for key in loop.methods}
        pending.anew = loop.params
        pending.params = Raw(modern.retry_params(loop.params, responses, loop.state))
        loop.keep_instead(len(pending.params))
        self._count(upstream, -loop.open)
        loop.begin()
        upstream.requests.between.pop(pending, None)
        if self._tables.has_left(upstream):
            self._forget(pending)  # whoever answers it there begins to count anew
            self._tables.resubmit(pending)
        else:
            upstream.requests.submit(pending)

    # -- how it ends -----------------------------------------------------------------------------

    def _over(self, pending: Pending) -> None:
        """A call has ended, in whatever way: nobody wants to know any more."""
        loop = self._forget(pending)
        if loop is None:
            return
        if loop.timer is not None:
            loop.timer.cancel()
        for asked in loop.asked:
            self._questions.asking.withdraw(asked)

    def _server_gone(self, upstream: Upstream) -> None:
        """What is repeated after a crash begins anew: no other process knows these answers."""
        if upstream.requests.era is not Era.MODERN:
            return
        for pending in upstream.requests.flying():
            loop = self._forget(pending)
            if loop is not None:
                pending.params = loop.params
            elif pending.method.is_input_capable and pending.params is not None:
                pending.params = Raw(modern.without_answers(pending.params) or b"{}")


def _elicitations(error: Raw) -> dict[str, tuple[str, bytes | None]]:
    """Return what an error wants a client to visit first, as its input requests."""
    method = questions.ELICITATION
    return {
        f"q{number}": (method, bridge.question_for_modern(method, each))
        for number, each in enumerate(_sends_to(error), 1)
    }


def _sends_to(error: Raw) -> list[bytes]:
    """Read what an error wants a client to visit first; nothing where it is another error."""
    members = envelope.object_of(error) or {}
    if bytes(members.get("code", b"")) != b"%d" % _URL_NEEDED:
        return []
    data = envelope.object_of(members.get("data", Raw(b"null"))) or {}
    listed = envelope.elements_of(bytes(data.get("elicitations", b"[]"))) or []
    needed = questions.needed_for
    return [each for each in listed if needed(questions.ELICITATION, each) == "elicitation.url"]


def _capabilities(needs: set[str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for need in sorted(needs):
        for name, members in questions.as_capabilities(need).items():
            merged.setdefault(name, {}).update(members)
    return merged


def _undeclared(needs: set[str], why: str) -> bytes:
    data = {"requiredCapabilities": _capabilities(needs)}
    return codes.plain_error(codes.MISSING_CAPABILITY, why, data)


def _invalid(server: str, why: str) -> Interpreted:
    details = {"outcome_unknown": True}
    return None, None, Failure("unsupported", f"{server}: {why}", server, False, None, details)

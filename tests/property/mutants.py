"""Mistakes, put into the mux on purpose: each must be found by the model.

A mutant is a context in which one method of the mux is another. ``make model-mutants`` tries all,
with enough examples to be sure; ``test_era_model`` tries those that are found at once.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from mcpd.core.mcp import translation
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.questions import Questions
from mcpd.core.questions.requests_to_clients import RequestsToClients
from mcpd.core.requests.call_gate import CallGate
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import End, Inflight, Outcome, UpstreamRequest
from mcpd.core.state.session import ClientRequest
from tests.property.model.machine import Machine

EXAMPLES: Final = 1500
"""Within so many examples each is to be found."""


@contextlib.contextmanager
def replaced(owner: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """Have ``by`` called instead; its first argument is the method that it replaces."""
    original = getattr(owner, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        return by(original, *args, **kwargs)

    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, original)


# -- the three that the issue names ----------------------------------------------------------------


def swap_two_sessions() -> Any:
    """The answer to one session's request goes to another's that is in flight as well."""

    def close(
        original: Any, self: Inflight, wire_id: int, now: float | None = None
    ) -> UpstreamRequest | None:
        mine = self.get(wire_id)
        if mine is not None and mine.owner:
            for other in self.all():
                if other.owner not in (0, mine.owner):
                    mine.recipient, other.recipient = other.recipient, mine.recipient
                    break
        return original(self, wire_id, now)  # type: ignore[no-any-return]

    return replaced(Inflight, "close", close)


def reuse_an_id() -> Any:
    """A wire id that is free again is given to the next request."""

    def open_(original: Any, self: Inflight, pending: UpstreamRequest) -> int:
        taken = {other.wire_id for other in self.all()}
        self._next = next(n for n in range(1, self._next + 1) if n not in taken)
        return original(self, pending)  # type: ignore[no-any-return]

    return replaced(Inflight, "open", open_)


def drop_a_tombstone() -> Any:
    """A request that is given up is forgotten, with its number: the next one gets it."""

    def end(original: Any, self: Calls, leg: UpstreamRequest, outcome: Outcome) -> None:
        wire_id = leg.wire_id
        original(self, leg, outcome)
        if outcome.how is End.CANCELLED and wire_id and wire_id == self.inflight._next - 1:
            self.inflight._next = wire_id

    return replaced(Calls, "end", end)


# -- more ------------------------------------------------------------------------------------------


def guess_whose_question_it_is() -> Any:
    """What could be for several sessions goes to the oldest call."""

    def hold(original: Any, self: Questions, question: Any) -> None:
        question.callers = question.callers[:1]
        self.put(question)

    return replaced(Questions, "_hold", hold)


def take_no_turns() -> Any:
    """Everybody's calls are sent at once, whoever asks."""

    def admits(original: Any, self: CallGate, pending: UpstreamRequest) -> bool:
        self._run(pending)
        return True

    return replaced(CallGate, "admits", admits)


def keep_no_turn_until_it_is_read() -> Any:
    """A call that is given up has no turn from that moment on."""
    return replaced(CallGate, "given_up", lambda original, self, pending: None)


def let_anybody_answer() -> Any:
    """An answer counts from whomever it comes."""

    def take(original: Any, self: RequestsToClients, session: Any, number: int) -> Any:
        owner = next((s for s, n in self._open if n == number), session)
        return original(self, owner, number)

    return replaced(RequestsToClients, "_take", take)


def ask_whoever_has_declared_nothing() -> Any:
    """Capabilities count for nothing."""

    def put_to(original: Any, self: ClientInfo) -> frozenset[str]:
        return frozenset(("elicitation", "elicitation.url", "sampling", "roots"))

    def legacy_client_info(original: Any, *args: Any, **kwargs: Any) -> ClientInfo:
        import msgspec

        able = frozenset(("elicitation", "elicitation.url", "sampling", "roots"))
        return msgspec.structs.replace(original(*args, **kwargs), answers=able)

    return replaced(translation, "legacy_client_info", legacy_client_info)


def take_a_handle_twice() -> Any:
    """A handle is not used up."""

    def use(original: Any, self: ParkedCalls, call: Any) -> None:
        state = call.state
        original(self, call)
        if state is not None:
            self._handles[state] = call

    return replaced(ParkedCalls, "_use_handle", use)


def take_a_handle_from_anybody() -> Any:
    """A handle is good in every session."""

    def retry(original: Any, self: ParkedCalls, request: Any, *args: Any, **kwargs: Any) -> Any:
        for call in self._handles.values():
            call.session = request.session.id
        return original(self, request, *args, **kwargs)

    return replaced(ParkedCalls, "retry", retry)


def forget_the_envelope() -> Any:
    """A modern process is asked like a legacy one."""
    return replaced(
        translation, "params_for_server", lambda original, params, client_info, era: params
    )


def leave_the_stamps() -> Any:
    """A legacy client gets what only the modern revision knows."""
    return replaced(translation, "result_for_legacy", lambda original, result: bytes(result))


def answer_twice() -> Any:
    """A request is not over when it has its answer."""

    def take_outcome(original: Any, self: ClientRequest, *args: Any) -> None:
        original(self, *args)
        self.is_over = False
        self.session.requests[self.key] = self
        original(self, *args)

    return replaced(ClientRequest, "take_outcome", take_outcome)


NAMED: Final = (swap_two_sessions, reuse_an_id, drop_a_tombstone)
MORE: Final = (
    guess_whose_question_it_is,
    take_no_turns,
    keep_no_turn_until_it_is_read,
    let_anybody_answer,
    ask_whoever_has_declared_nothing,
    take_a_handle_twice,
    take_a_handle_from_anybody,
    forget_the_envelope,
    leave_the_stamps,
    answer_twice,
)


def found(mutant: Callable[[], Any], *, examples: int = EXAMPLES, seed: int = 1) -> str | None:
    """Return what the model says of a mutant; ``None`` where it finds nothing."""
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )

    class Mutated(Machine):
        pass

    with mutant():
        try:
            run_state_machine_as_test(hypothesis.seed(seed)(Mutated), settings=settings)
        except Exception as problem:  # noqa: BLE001 - whatever it does, it is found
            return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return None


def main() -> int:
    missed = 0
    for mutant in (*NAMED, *MORE):
        began = time.monotonic()
        said = found(mutant)
        missed += said is None
        seconds = time.monotonic() - began
        print(f"{mutant.__name__:32}  {seconds:5.1f} s  {said or 'NOT FOUND'}", flush=True)
    print(f"model-mutants: {missed} of {len(NAMED) + len(MORE)} were not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

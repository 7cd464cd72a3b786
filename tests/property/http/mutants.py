"""Mistakes, put into the front on purpose: each must be found by the model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from mcpd.daemon.http.core import HttpCore
from mcpd.listeners.http import legacy
from mcpd.listeners.http.sessions import HttpSession, Sessions
from mcpd.listeners.http.stateless import StatelessFront
from mcpd.listeners.http.streams import Outbox, Stream
from tests.property.http.machine import Machine
from tests.property.mutants import replaced

EXAMPLES: Final = 600
"""Within so many examples each is to be found."""


def take_a_session_from_anybody() -> Any:
    """A session is found whatever its token."""

    def find(original: Any, self: Sessions, ident: str, token: Any, server: Any) -> Any:
        own = next(
            (each for each in self if original(self, ident, _Named(each.token), server)), None
        )
        return original(self, ident, token if own is None else _Named(own.token), server)

    return replaced(Sessions, "find", find)


class _Named:
    def __init__(self, name: str | None) -> None:
        self.name = name


def say_it_on_both_streams() -> Any:
    """What belongs to a request goes to the stream of unasked messages, too."""

    def deliver(original: Any, self: HttpSession, line: Any, request: Any, **how: Any) -> None:
        original(self, line, request, **how)
        if request is not None and not how["is_response"]:
            self.unasked.add(line)

    return replaced(HttpSession, "deliver", deliver)


def say_it_to_whoever_listens() -> Any:
    """Progress goes to the stream of unasked messages."""

    def deliver(original: Any, self: HttpSession, line: Any, request: Any, **how: Any) -> None:
        original(self, line, request if how["is_response"] else None, **how)

    return replaced(HttpSession, "deliver", deliver)


def resume_one_event_late() -> Any:
    """The event after the last one that was seen is skipped."""

    def attach(original: Any, self: Stream, outbox: Outbox, after: int | None = None) -> None:
        original(self, outbox, None if after is None else after + 1)

    return replaced(Stream, "attach", attach)


def resume_one_event_early() -> Any:
    """The last event that was seen is sent again."""

    def attach(original: Any, self: Stream, outbox: Outbox, after: int | None = None) -> None:
        original(self, outbox, None if after is None else after - 1)

    return replaced(Stream, "attach", attach)


def resume_what_is_not_held() -> Any:
    """A stream is resumed although some of it is gone."""
    return replaced(Stream, "can_resume_after", lambda original, self, number: True)


def leave_the_first_connection() -> Any:
    """A connection that is replaced still counts as the stream's."""

    def detach(original: Any, self: Stream, outbox: Outbox) -> None:
        self.outbox = None

    return replaced(Stream, "detach", detach)


def forget_what_is_lost() -> Any:
    """A lost POST stream is not kept for its client."""

    def detach(original: Any, self: Stream, outbox: Outbox) -> None:
        if self.outbox is outbox and self.number:
            self.forget()
        original(self, outbox)

    return replaced(Stream, "detach", detach)


def forget_what_has_ended() -> Any:
    """A stream cannot be resumed once its response has come."""

    def end(original: Any, self: Stream, now: float) -> None:
        original(self, now)
        self.forget()

    return replaced(Stream, "end", end)


def cancel_a_whole_batch() -> Any:
    """One cancelled request takes the others of its batch with it."""

    def give_up(original: Any, self: HttpSession, keys: Iterable[bytes]) -> None:
        for key in keys:
            if key in self._requests:
                self._end(self._requests[key])

    return replaced(HttpSession, "give_up", give_up)


def count_what_is_forgotten() -> Any:
    """What comes for a stream that nobody can resume is held."""

    def forget(original: Any, self: Stream) -> None:
        original(self)
        self._is_held = True

    return replaced(Stream, "forget", forget)


def answer_the_last_who_asked() -> Any:
    """Requests without a session share one."""

    def session_for(
        original: Any, self: StatelessFront, token: Any, server: Any, *more: Any
    ) -> Any:
        for session, carrier in self._carriers.items():
            if carrier.outboxes and self._core._outboxes[session].server == server:  # type: ignore[attr-defined]
                return session, carrier
        return original(self, token, server, *more)

    return replaced(StatelessFront, "_session_for", session_for)


def keep_what_was_given_up() -> Any:
    """A client without a session that leaves cancels nothing, and its session stays."""
    return replaced(HttpCore, "release", lambda original, self, session: None)


def let_the_old_connection_be() -> Any:
    """A connection whose client has gone is not noticed."""

    def drop(original: Any, self: Outbox) -> None:
        self._queue.clear()
        self.close()

    return replaced(Outbox, "drop", drop)


def end_nothing_on_delete() -> Any:
    """The core goes on with a session that its client has ended."""
    return replaced(legacy.LegacyFront, "end", _forget_only)


def _forget_only(
    _original: Any, self: legacy.LegacyFront, session: HttpSession, reason: str
) -> None:
    self.sessions.remove(session)
    session.closed(reason)


ALL: Final = (
    take_a_session_from_anybody,
    say_it_on_both_streams,
    say_it_to_whoever_listens,
    resume_one_event_late,
    resume_one_event_early,
    resume_what_is_not_held,
    leave_the_first_connection,
    forget_what_is_lost,
    forget_what_has_ended,
    cancel_a_whole_batch,
    count_what_is_forgotten,
    answer_the_last_who_asked,
    keep_what_was_given_up,
    let_the_old_connection_be,
    end_nothing_on_delete,
)
QUICK: Final = (take_a_session_from_anybody, say_it_on_both_streams, end_nothing_on_delete)
"""Those that are found at once."""


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
    asked = [each for each in ALL if each.__name__ in sys.argv] or ALL
    for mutant in asked:
        began = time.monotonic()
        said = found(mutant)
        missed += said is None
        seconds = time.monotonic() - began
        print(f"{mutant.__name__:32}  {seconds:5.1f} s  {said or 'NOT FOUND'}"[:160], flush=True)
    print(f"http mutants: {missed} of {len(asked)} were not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Rules of the gate, taken out one at a time: the model must find each.

``make model-mutants`` tries all; ``test_gate_model`` tries those that are found at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from mcpd.core.approvals import approval_form, client_forms, remembered
from mcpd.core.approvals.answers import Answers
from mcpd.core.approvals.approval_form import Refusal
from mcpd.core.approvals.approval_questions import ApprovalQuestions
from mcpd.core.approvals.approvals import Approvals
from mcpd.core.approvals.client_forms import ClientForms
from mcpd.core.approvals.gate import ApprovalGate
from mcpd.core.approvals.remembered import Found, Remembered
from mcpd.core.approvals.tool_pins import ToolPins
from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.patterns import Patterns
from mcpd.core.downstream.admission import Admission
from mcpd.core.policy.approvals import Asks
from mcpd.core.questions import input_answers
from mcpd.core.requests.rate_limits import RateLimits
from mcpd.core.state.session import ClientRequest
from mcpd.core.state.state import MuxState
from mcpd.core.wire import arguments
from tests.property.gate.machine import found
from tests.property.mutants import replaced, take_a_handle_from_anybody

STORIES: Final = 600
"""Within so many stories each is to be found."""


def ask_no_scope() -> Any:
    """A profile hides tools, and nothing else."""
    return replaced(Admission, "_outside", lambda original, self, *args: None)


def deny_nothing() -> Any:
    """Patterns of ``deny`` count for nothing."""

    def admits(original: Any, self: Filter, name: str) -> bool:
        kept, self._deny = self._deny, Patterns(())
        is_admitted: bool = original(self, name)
        self._deny = kept
        return is_admitted

    return replaced(Filter, "admits", admits)


def deny_exactly() -> Any:
    """A name that looks like a denied one is another one."""

    def matches(original: Any, self: Patterns, name: str) -> bool:
        return any(pattern.match(name) for pattern in self._patterns)

    return replaced(Patterns, "matches", matches)


def hold_nothing() -> Any:
    """What nobody approved is not listed, and can be called."""
    return replaced(MuxState, "pin_refusal", lambda original, self, *args: None)


def count_no_calls() -> Any:
    """Rates are not kept."""
    return replaced(RateLimits, "admit", lambda original, self, *args: None)


def ask_nobody() -> Any:
    """No call waits for an answer."""
    return replaced(ApprovalGate, "holds", lambda original, self, *args: False)


def ask_by_mode_alone() -> Any:
    """Patterns of ``ask`` count for nothing."""

    def reason(original: Any, self: Asks, tool: str, *, is_read_only: bool) -> str | None:
        kept, self._ask = self._ask, Patterns(())
        why: str | None = original(self, tool, is_read_only=is_read_only)
        self._ask = kept
        return why

    return replaced(Asks, "reason", reason)


def compare_no_arguments() -> Any:
    """A late yes is for any arguments."""
    return replaced(arguments, "digest", lambda original, value: b"digest")


def compare_no_pins() -> Any:
    """A remembered yes holds for every definition."""
    return replaced(ToolPins, "pin_of", lambda original, self, server, item: b"pin")


def compare_no_commands() -> Any:
    """What somebody approved holds for every command that is started."""

    def look(original: Any, self: Remembered, *args: Any) -> Found:
        *rest, _, tool, pin = args
        mine = (rest[2], tool)
        known = {self._rules[each].identity for each in self._of_tool.get(mine, ())}
        return original(self, *rest, next(iter(known), ""), tool, pin)  # type: ignore[no-any-return]

    return replaced(Remembered, "look", look)


def compare_no_principals() -> Any:
    """A yes for one principal is a yes for all."""
    return replaced(remembered, "_is_of", lambda original, rule, session, principal: True)


def use_a_late_yes_twice() -> Any:
    """A late yes is not used up."""

    def take_late(original: Any, self: Remembered, call: Any) -> int | None:
        before = list(self._late.get(call, ()))
        number: int | None = original(self, call)
        if number is not None:
            self._late[call] = before
        return number

    return replaced(Remembered, "take_late", take_late)


def forget_a_no() -> Any:
    """A no ends one call, and the same call is asked about again."""
    return replaced(Remembered, "is_refused", lambda original, self, *args: None)


def a_yes_is_stronger_than_a_no() -> Any:
    """What somebody has refused is let through by a yes for the tool."""
    return replaced(Remembered, "has_refused", lambda original, self, *args: False)


def keep_asking_after_a_reload() -> Any:
    """A reload changes nothing for calls that wait for an answer."""
    return replaced(Approvals, "configured", lambda original, self: None)


def decide_once() -> Any:
    """What waits to be sent is not decided about again."""
    return replaced(Admission, "reconsider", lambda original, self, upstream: None)


def leave_what_a_forgotten_yes_let_through() -> Any:
    """A yes that is taken back still holds for calls that wait."""
    return replaced(Answers, "_take_yes_back", lambda original, self, is_its: None)


def read_members_that_are_there_twice() -> Any:
    """The last one of a member counts, for the person who is asked."""
    return replaced(arguments, "_object", lambda original, pairs: dict(pairs))


def take_a_retry_with_a_member_twice() -> Any:
    """A retry is the same call for a reader who takes the last one of a member."""
    return replaced(input_answers, "_object", lambda original, pairs: dict(pairs))


def take_an_empty_form_for_a_yes() -> Any:
    """A form that is accepted is a yes."""

    def read(original: Any, result: Any, *, has_always: bool) -> str | Refusal:
        said: str | Refusal = original(result, has_always=has_always)
        return "once" if said is Refusal.NO_CHOICE and result is not None else said

    return replaced(approval_form, "read", read)


def take_a_programs_refusal_for_a_persons() -> Any:
    """However soon a client declines, a person has."""

    def heard(original: Any, self: ClientForms, question: Any, *args: Any) -> None:
        question.form_sent_at -= client_forms.BY_ITSELF_S
        original(self, question, *args)

    return replaced(ClientForms, "_heard", heard)


def go_on_before_the_disk_has_it() -> Any:
    """A call goes on while its yes is being written."""

    def keep(original: Any, self: Remembered, then: Any) -> None:
        original(self, lambda problem: None)
        then(None)

    return replaced(Remembered, "_keep", keep)


def ask_any_number() -> Any:
    """A session may have any number of questions open."""
    return replaced(ApprovalQuestions, "is_full_of", lambda original, self, session: False)


def keep_what_was_said_for_a_session() -> Any:
    """What was said for a session outlives it."""
    return replaced(Remembered, "session_gone", lambda original, self, session: None)


def record_nothing_that_was_not_sent() -> Any:
    """Calls that were given up before they were sent are not recorded."""
    return replaced(ClientRequest, "_tell_unsent", lambda original, self, *args: None)


NAMED: Final = (ask_nobody, hold_nothing, deny_exactly)
MORE: Final = (
    ask_no_scope,
    deny_nothing,
    compare_no_principals,
    count_no_calls,
    ask_by_mode_alone,
    compare_no_arguments,
    compare_no_pins,
    compare_no_commands,
    use_a_late_yes_twice,
    forget_a_no,
    a_yes_is_stronger_than_a_no,
    keep_asking_after_a_reload,
    decide_once,
    leave_what_a_forgotten_yes_let_through,
    read_members_that_are_there_twice,
    take_a_retry_with_a_member_twice,
    take_a_handle_from_anybody,
    take_an_empty_form_for_a_yes,
    take_a_programs_refusal_for_a_persons,
    go_on_before_the_disk_has_it,
    ask_any_number,
    keep_what_was_said_for_a_session,
    record_nothing_that_was_not_sent,
)


def finds(mutant: Callable[[], Any], stories: int = STORIES) -> str | None:
    """Return what the model says of a mutant; ``None`` where it finds nothing."""
    with mutant():
        said = found("mutants", stories)
    return None if said is None else said[1]


def main() -> int:
    missed = 0
    for mutant in (*NAMED, *MORE):
        began = time.monotonic()
        said = finds(mutant)
        missed += said is None
        seconds = time.monotonic() - began
        print(f"{mutant.__name__:40}  {seconds:5.1f} s  {(said or 'NOT FOUND')[:150]}", flush=True)
    print(f"gate mutants: {missed} of {len(NAMED) + len(MORE)} were not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

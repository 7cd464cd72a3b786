"""Failures that several parts tell."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.interface.failures import invalid_answer, too_large, with_details


def test_what_is_too_large_says_which_limit_it_was():
    assert too_large("echo", 5).details == {"limit": "max_request_bytes"}
    assert too_large("echo", 5, is_answer=True).details == {"limit": "max_message_bytes"}
    assert "5 bytes" in too_large("echo", 5, is_answer=True).message


def test_an_answer_that_cannot_be_passed_on_leaves_the_outcome_unknown():
    failure = invalid_answer("echo", "it is odd")
    assert (failure.kind, failure.message) == ("invalid_message", "echo: it is odd")
    assert failure.details == {"outcome_unknown": True}


def test_details_are_added_to_what_is_known():
    failure = Failure("server_crashed", "m", "echo", True, "h", {"exit_code": 1})
    more = with_details(failure, outcome_unknown=True)
    assert more.details == {"exit_code": 1, "outcome_unknown": True}
    assert (more.kind, more.hint, more.is_retryable) == ("server_crashed", "h", True)
    assert failure.details == {"exit_code": 1}

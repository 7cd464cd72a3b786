"""Failures of the lifecycle itself."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.failures import crash_loop, start_timed_out


def test_a_start_that_took_too_long_names_the_time_and_the_setting():
    failure = start_timed_out("echo", 30.0, 60.0, "startup_timeout")
    assert failure.kind == "startup_timeout" and failure.is_retryable
    assert failure.message == "echo was not ready within 30 s; the next try gets 60 s"
    assert failure.hint == "see `mcpctl logs echo`; startup_timeout gives it more time"
    assert failure.details == {"limit": "startup_timeout", "seconds": 30, "next_seconds": 60}


def test_a_next_start_with_no_more_time_is_not_mentioned():
    failure = start_timed_out("echo", 30.0, 30.0, "startup_timeout_max")
    assert failure.message == "echo was not ready within 30 s"


def test_a_failed_server_says_why():
    last = Failure("server_crashed", "exited with 3", "echo", True, None, {"exit_code": 3})
    failure = crash_loop("echo", last)
    assert failure.kind == "crash_loop" and not failure.is_retryable
    assert "exited with 3" in failure.message and failure.details == {"exit_code": 3}
    assert "mcpctl restart echo" in str(failure.hint)
    assert crash_loop("echo", None).details == {}

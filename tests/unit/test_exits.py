"""From errors to exit statuses."""

from __future__ import annotations

import pytest

from mcpd import exits
from mcpd.errors import DaemonUnavailable, PathRefused, RequestFailed


def failed(kind: str | None, **data: object) -> RequestFailed:
    return RequestFailed(-32603, "x", None if kind is None else {"kind": kind, **data})


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (None, 1),
        ("a kind of a later daemon", 1),
        ("invalid_arguments", 2),
        ("tool_not_found", 2),
        ("draining", 3),
        ("server_crashed", 4),
        ("config_invalid", 4),
        ("call_timeout", 5),
        ("startup_timeout", 5),
        ("rate_limited", 6),
        ("internal", 70),
    ],
)
def test_the_kind_of_an_error_decides(kind: str | None, status: int) -> None:
    assert exits.of_error(failed(kind)) == status


def test_a_request_too_large_is_the_callers_and_an_answer_the_servers() -> None:
    assert exits.of_error(failed("message_too_large", limit="max_request_bytes")) == 2
    assert exits.of_error(failed("message_too_large", limit="max_message_bytes")) == 4


def test_what_a_server_writes_is_no_bug_of_ours() -> None:
    assert exits.of_error(failed("invalid_message", server="echo")) == 4
    assert exits.of_error(failed("invalid_message")) == 70


def test_silence_is_three_whatever_its_kind() -> None:
    assert exits.of_error(DaemonUnavailable("x", why="absent")) == 3
    assert exits.of_error(DaemonUnavailable("x", why="stopping")) == 3


def test_what_is_refused_here_ends_as_if_the_daemon_had_refused_it() -> None:
    assert exits.of_error(PathRefused("x")) == 6

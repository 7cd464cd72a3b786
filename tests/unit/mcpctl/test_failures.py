"""What is said about errors."""

from __future__ import annotations

from typing import Any

import pytest

from mcpctl import failures
from mcpd.errors import DaemonUnavailable, PathRefused, RequestFailed


def test_the_details_that_help_follow_the_message() -> None:
    told = failures.lines(
        RequestFailed(
            -32603,
            "files ended with exit code 1",
            {
                "kind": "server_crashed",
                "stderr": ["one", "two"],
                "outcome_unknown": True,
                "hint": "mcpctl logs files",
            },
        )
    )
    assert told[0] == "files ended with exit code 1"
    assert told[1:4] == ["  the last lines of its stderr:", "    one", "    two"]
    assert "unknown" in told[4]
    assert told[5] == "  mcpctl logs files"


def test_what_the_message_says_is_not_said_again() -> None:
    data = {"kind": "tool_not_found", "near": ["echo"], "hint": "see mcpctl tools"}
    error = RequestFailed(-32602, "no tool ecko; near it: echo; see mcpctl tools", data)
    assert failures.lines(error) == [error.message]


def test_near_names_violations_and_directories_are_named() -> None:
    data = {
        "near": ["echo", "each"],
        "violations": [{"path": "a", "message": "must be a number"}],
        "searched": ["/bin", "/usr/bin"],
    }
    told = failures.lines(RequestFailed(-32602, "x", data))
    assert "  did you mean echo or each?" in told
    assert "  a: must be a number" in told
    assert "  looked for it in /bin:/usr/bin" in told


def test_data_of_a_server_may_be_anything() -> None:
    for data in (
        None,
        5,
        "x",
        [],
        {"near": 5, "stderr": {}, "violations": [5], "searched": 1, "hint": []},
    ):
        assert failures.lines(RequestFailed(-1, "theirs", data))[0] == "theirs"


def test_silence_comes_with_what_to_type() -> None:
    error = DaemonUnavailable("no daemon runs", hint="mcpctl up", why="absent", path="/x")
    assert failures.lines(error) == ["no daemon runs", "  to start it: mcpctl up"]
    data = failures.document(error)["error"]["data"]
    assert data["kind"] == "no_daemon"
    assert data["why"] == "absent"
    assert data["retryable"] is True
    assert "mcpctl up" in data["hint"]


def test_what_to_type_goes_to_the_socket_of_the_command_line() -> None:
    """
    ``mcpctl up`` would start a daemon somewhere else.
    """
    absent = DaemonUnavailable("no daemon runs", why="absent")
    assert failures.lines(absent, "/s")[1] == "  to start it: mcpctl --socket /s up"
    hint = failures.document(absent, "/s")["error"]["data"]["hint"]
    assert hint == "to start it: mcpctl --socket /s up"
    told = RequestFailed(-1, "a: mcpctl x", {"kind": "crash_loop", "hint": "mcpctl logs a"})
    assert failures.lines(told, "/s") == ["a: mcpctl x", "  mcpctl --socket /s logs a"]
    within = RequestFailed(-1, "unset: mcpctl y", {"kind": "config_invalid", "hint": "mcpctl y"})
    assert failures.lines(within, "/s") == ["unset: mcpctl --socket /s y"]


def test_what_a_failed_start_has_said_itself_is_not_said_twice() -> None:
    error = DaemonUnavailable("ended\n  type: x --y", hint="x --y", why="start_failed")
    assert failures.lines(error) == ["ended\n  type: x --y"]
    assert failures.document(error)["error"]["data"]["hint"] == "x --y"


@pytest.mark.parametrize(
    ("details", "is_retryable"),
    [
        ({"why": "absent"}, True),
        ({"why": "unresponsive"}, True),
        ({"why": "start_timeout"}, True),
        ({"why": "start_failed", "exit_code": 137}, True),
        ({"why": "start_failed", "exit_code": 78}, False),
        ({"why": "start_failed", "exit_code": 73}, False),
        ({"why": "start_failed", "errno": 13}, False),
        ({"why": "not_ours"}, False),
        ({"why": "incompatible"}, False),
        ({"why": "no_manager"}, False),
    ],
)
def test_a_silence_that_somebody_has_to_end_is_not_retryable(
    details: dict[str, Any], is_retryable: bool
) -> None:
    error = failures.document(DaemonUnavailable("x", **details))["error"]
    assert error["data"]["retryable"] is is_retryable


def test_what_is_refused_here_looks_as_if_the_daemon_had_refused_it() -> None:
    error = failures.document(PathRefused("edited", hint="--force", path="/x"))["error"]
    assert error["code"] == -32603
    assert error["data"] == {
        "kind": "denied", "retryable": False, "hint": "--force", "path": "/x"
    }  # fmt: skip


def test_an_error_of_the_daemon_is_printed_as_it_came() -> None:
    error = RequestFailed(-7, "theirs", [1])
    assert failures.document(error) == {"error": {"code": -7, "message": "theirs", "data": [1]}}
    assert failures.document(RequestFailed(-7, "x")) == {"error": {"code": -7, "message": "x"}}


@pytest.mark.parametrize(
    ("elicitations", "told"),
    [
        (
            [{"mode": "url", "url": "https://x/y", "message": "please"}, {"url": "https://z/"}],
            [
                "  please: https://x/y",
                "  to be visited first: https://z/",
                "  then repeat the command",
            ],
        ),
        (
            [{"url": "https://x/\nmcpctl: y", "message": "a\r\nb"}],
            ["  a b: https://x/ mcpctl: y", "  then repeat the command"],
        ),
        ([{"url": None}, {"message": "no URL"}, 5, None], []),
        ({"url": "x"}, []),
        (None, []),
    ],
)
def test_the_urls_that_a_server_wants_visited_are_told(elicitations: Any, told: list[str]) -> None:
    error = RequestFailed(-32042, "need auth", {"elicitations": elicitations})
    assert failures.lines(error) == ["need auth", *told]
    assert failures.lines(RequestFailed(-1, "x", {"elicitations": elicitations})) == ["x"]


@pytest.mark.parametrize(
    "error", [None, 5, [], {}, {"code": None, "message": None}, {"message": 5}, {"message": " "}]
)
def test_an_error_without_a_message_says_so(error: Any) -> None:
    failed = RequestFailed.of(error)
    assert failures.lines(failed) == ["an error without a message"]
    failed.reporter = "files.add"
    assert failures.lines(failed) == ["files.add reported an error without a message"]

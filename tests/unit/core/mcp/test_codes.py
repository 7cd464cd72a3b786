"""Our kinds of errors as JSON-RPC errors."""

from __future__ import annotations

import json

import pytest

from mcpd.core.facts import Failure
from mcpd.core.mcp import codes


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("invalid_arguments", -32602),
        ("tool_not_found", -32602),
        ("server_not_found", -32602),
        ("invalid_params", -32602),
        ("invalid_message", -32600),
        ("unknown_method", -32601),
        ("server_crashed", -32603),
        ("call_timeout", -32603),
        ("message_too_large", -32603),
        ("anything", -32603),
    ],
)
def test_each_kind_has_its_code(kind: str, code: int):
    assert codes.code_of(kind) == code


def test_an_error_says_what_a_program_can_act_on():
    failure = Failure(
        "server_crashed", "echo died", "echo", True, "mcpctl logs echo", {"exit_code": 3}
    )
    assert json.loads(codes.error_object(failure)) == {
        "code": -32603,
        "message": "echo died",
        "data": {
            "kind": "server_crashed",
            "retryable": True,
            "server": "echo",
            "hint": "mcpctl logs echo",
            "exit_code": 3,
        },
    }


def test_what_is_not_known_is_left_out():
    data = json.loads(codes.error_object(Failure("denied", "no")))["data"]
    assert data == {"kind": "denied", "retryable": False}


def test_a_code_of_json_rpc_itself_can_be_given():
    error = json.loads(codes.error_object(Failure("invalid_message", "no"), codes.PARSE_ERROR))
    assert (error["code"], error["data"]["kind"]) == (-32700, "invalid_message")


def test_names_that_have_no_utf8_do_not_raise():
    """
    B069: a tool may be called so, and errors quote names.
    """
    failure = Failure(
        "tool_not_found", "no \ud800", "\ud800", False, "\ud800", {"near": ["\ud800"]}
    )
    assert json.loads(codes.error_object(failure))["data"]["near"] == ["?"]
    assert json.loads(codes.plain_error(-1, "\ud800", {"\ud800": ("\ud800", 1)})) == {
        "code": -1,
        "message": "?",
        "data": {"?": ["?", 1]},
    }


def test_an_error_of_mcp_itself_may_have_no_data():
    assert codes.plain_error(-32601, "no") == b'{"code":-32601,"message":"no"}'


def test_a_long_message_is_cut() -> None:
    name = "x" * 5_000_000
    failure = Failure("server_not_found", f"there is no server {name!r}", name)
    assert len(codes.error_object(failure)) < 3 * codes.MOST_CHARACTERS
    assert len(codes.plain_error(-32601, f"unknown method {name!r}")) < 2 * codes.MOST_CHARACTERS

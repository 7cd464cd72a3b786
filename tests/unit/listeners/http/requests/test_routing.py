"""Headers that repeat parts of the body."""

from __future__ import annotations

import json

import pytest

from mcpd.core.mcp.routing import parameters
from mcpd.core.wire import envelope
from mcpd.listeners.http.exchange import Headers
from mcpd.listeners.http.requests import routing
from tests.support.schemas import WITH_HEADERS

VERSION = "2026-07-28"


def headers(*pairs):
    return Headers([(name.encode(), value.encode("latin-1")) for name, value in pairs])


def params(**members):
    return envelope.params_of(json.dumps(members).encode())


RIGHT = (("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"))


def test_headers_that_agree():
    assert routing.disagreement(headers(*RIGHT), VERSION, "tools/call", params(name="echo")) is None
    assert (
        routing.disagreement(
            headers(*RIGHT[:2], ("mcp-name", "  echo\t")),
            VERSION,
            "tools/call",
            params(name="echo"),
        )
        is None
    )
    assert (
        routing.disagreement(
            headers(RIGHT[0], ("Mcp-Method", "tools/list")), VERSION, "tools/list", params()
        )
        is None
    )


@pytest.mark.parametrize(
    "sent",
    [
        RIGHT[1:],
        RIGHT[:1] + RIGHT[2:],
        RIGHT[:2],
        (*RIGHT, RIGHT[0]),
        (*RIGHT, RIGHT[1]),
        (*RIGHT, RIGHT[2]),
        (RIGHT[0], ("Mcp-Method", "Tools/Call"), RIGHT[2]),
        (*RIGHT[:2], ("Mcp-Name", "add")),
        (*RIGHT[:2], ("Mcp-Name", "=?base64?####?=")),
    ],
)
def test_headers_that_do_not(sent):
    assert routing.disagreement(headers(*sent), VERSION, "tools/call", params(name="echo"))


def test_a_uri_and_a_task():
    sent = headers(
        RIGHT[0], ("Mcp-Method", "resources/read"), ("Mcp-Name", "=?base64?ZmFrZTovL8O8?=")
    )
    assert routing.disagreement(sent, VERSION, "resources/read", params(uri="fake://ü")) is None
    sent = headers(RIGHT[0], ("Mcp-Method", "tasks/get"), ("Mcp-Name", "t1"))
    assert routing.disagreement(sent, VERSION, "tasks/get", params(taskId="t1")) is None


@pytest.mark.parametrize(
    ("arguments", "sent", "agrees"),
    [
        (
            {"region": "eu", "limit": 42, "dry": True},
            {"region": "eu", "limit": "42", "dry": "true"},
            True,
        ),
        ({"sql": "x"}, {}, True),
        ({"region": None}, {}, True),
        ({"limit": 42}, {"limit": "042"}, True),
        ({"deep": {"a": "x"}}, {"a": "x"}, True),
        ({"region": "eu"}, {"region": "us"}, False),
        ({"region": "eu"}, {}, False),
        ({}, {"region": "eu"}, False),
        ({"limit": 42}, {"limit": "43"}, False),
        ({"limit": 42}, {"limit": "42.0"}, False),
        ({"dry": True}, {"dry": "True"}, False),
    ],
)
def test_parameters(arguments, sent, agrees):
    given = headers(*((f"Mcp-Param-{name}", value) for name, value in sent.items()))
    raw = params(arguments=arguments).arguments
    found = routing.parameter_disagreement(given, parameters(WITH_HEADERS) or {}, raw)
    assert (found is None) is agrees

"""What the bridge itself answers requests with."""

from __future__ import annotations

import json

from mcpd.bridge import error_responses
from mcpd.errors import DaemonUnavailable


def test_each_is_one_line_with_the_id_as_it_came():
    for error in (
        error_responses.OUTCOME_UNKNOWN,
        error_responses.NOT_READ,
        error_responses.TOO_LARGE,
    ):
        frame = error_responses.failure(b'"\\u00e9"', error)
        assert json.loads(frame) == {"jsonrpc": "2.0", "id": "é", "error": error}
        assert frame.endswith(b"\n")
        assert frame.count(b"\n") == 1


def test_kinds_are_those_that_mcpctl_knows():
    data = error_responses.no_daemon("mcpctl up")["data"]
    assert isinstance(data, dict)
    assert data["kind"] == DaemonUnavailable.slug

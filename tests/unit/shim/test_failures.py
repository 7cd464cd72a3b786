"""What the bridge itself answers requests with."""

from __future__ import annotations

import json

from mcpd.errors import DaemonUnavailable
from mcpd.shim import failures


def test_each_is_one_line_with_the_id_as_it_came():
    for error in (failures.OUTCOME_UNKNOWN, failures.NOT_READ, failures.TOO_LARGE):
        frame = failures.failure(b'"\\u00e9"', error)
        assert json.loads(frame) == {"jsonrpc": "2.0", "id": "é", "error": error}
        assert frame.endswith(b"\n")
        assert frame.count(b"\n") == 1


def test_kinds_are_those_that_mcpctl_knows():
    data = failures.no_daemon("mcpctl up")["data"]
    assert isinstance(data, dict)
    assert data["kind"] == DaemonUnavailable.slug

"""What an entry says about starting counts from when it is changed."""

from __future__ import annotations

import pytest

from tests.support.daemon import Box, RpcError


def test_another_number_of_failures_counts_at_once(box: Box) -> None:
    """The place of the process is the same, and kept the number that it was made with."""
    box.settings = {"watch": False}
    restart = {"backoff": 0.01, "max_failures": 2}
    box.fake("fake", "--crash-at-start", 3, restart=restart).up()
    control = box.peer()

    def kind_of_failure() -> str | None:
        with pytest.raises(RpcError) as failed:
            control.request("mcpd/call", {"server": "fake", "tool": "pid"})
        return failed.value.kind

    while kind_of_failure() != "crash_loop":
        pass
    box.servers["fake"]["restart"] = {**restart, "max_failures": 50}
    box.write()
    control.request("mcpd/reload")
    assert {kind_of_failure() for _ in range(5)} == {"server_crashed"}

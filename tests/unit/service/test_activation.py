"""Descriptors that are meant for somebody else are left alone; the rest is in ``faults``."""

from __future__ import annotations

import os

import pytest

from mcpd.service.activation import take


@pytest.mark.parametrize(
    ("pid", "count"),
    [
        ("", ""),
        ("1", "1"),
        ("ours", "0"),
        ("ours", "-1"),
        ("ours", "many"),
        ("ours", "99999999"),
        (" ours", "1"),
    ],
)
def test_without_descriptors_for_us_nothing_is_taken(pid: str, count: str):
    pid = pid.replace("ours", str(os.getpid()))
    env = {"LISTEN_PID": pid, "LISTEN_FDS": count, "LISTEN_FDNAMES": "x", "HOME": "/"}
    before = os.get_inheritable(2)
    assert take(env) is None
    assert env == {"HOME": "/"}
    assert os.get_inheritable(2) == before

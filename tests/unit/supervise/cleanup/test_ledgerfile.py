from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.supervise.cleanup.ledgerfile import DaemonRecord, ProcessRecord, decode, encode
from mcpd.supervise.proctable.procfs import ProcId

ENTRY = ProcessRecord(40, 400, "files", 3, "d:files:3", "tree", "0a1b", (ProcId(50, 500),))
RECORDED = DaemonRecord("d", ProcId(30, 300), "boot", "pid:[1]", (ENTRY,), ("d:other",))


def test_what_is_written_is_what_is_read():
    assert decode(encode(RECORDED)) == RECORDED


def test_the_file_names_the_daemon_and_each_process():
    document = json.loads(encode(RECORDED))
    assert document["daemon"] == {
        "id": "d",
        "pid": 30,
        "started": 300,
        "boot_id": "boot",
        "pid_namespace": "pid:[1]",
    }
    (process,) = document["processes"]
    assert process["pid"] == process["pgid"] == 40
    assert (process["started"], process["server"], process["generation"]) == (400, "files", 3)


def changed(*path: Any, value: Any) -> bytes:
    document = json.loads(encode(RECORDED))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize("pid", [1, 0, -1, -40, True, 40.0, "40", None])
def test_a_pid_that_cannot_be_a_servers_makes_the_file_no_ledger(pid: Any):
    """B115: pid 1, everybody (-1) and garbage are never signalled."""
    for path in (("processes", 0, "pid"), ("daemon", "pid"), ("processes", 0, "seen", 0, 0)):
        with pytest.raises(ValueError):
            decode(changed(*path, value=pid))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"format": 1}', b"[" * 100_000, encode(RECORDED)[:-20]],
)
def test_garbage_is_no_ledger(content: bytes):
    with pytest.raises(ValueError):
        decode(content)


def test_a_ledger_of_another_format_is_no_ledger():
    with pytest.raises(ValueError, match="version"):
        decode(changed("format", value=2))


@given(st.binary(max_size=60), st.integers(0, len(encode(RECORDED))))
def test_no_content_raises_anything_else(garbage: bytes, at: int):
    content = encode(RECORDED)
    for damaged in (garbage, content[:at] + garbage, content[:at] + garbage + content[at:]):
        with contextlib.suppress(ValueError):
            decode(damaged)

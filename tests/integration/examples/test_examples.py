"""The bundled example servers do what their descriptions say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Peer, RpcError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def start() -> Iterator[Callable[[str], Peer]]:
    peers: list[Peer] = []

    def start(name: str) -> Peer:
        pipe = subprocess.PIPE
        argv = [sys.executable, str(EXAMPLES / name)]
        peers.append(Peer.over(subprocess.Popen(argv, stdin=pipe, stdout=pipe, bufsize=0)))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


def test_notes_are_kept_searched_and_read(start):
    notes = start("notes_server.py")
    assert notes.initialize()["serverInfo"]["name"] == "notes"
    assert notes.text("list") == "no notes"
    assert notes.text("add", text="Buy milk") == "note 1"
    assert notes.text("add", text="Call Ada") == "note 2"
    assert notes.text("search", text="MILK") == "1. Buy milk"
    listed = notes.request("resources/list")["resources"]
    assert [r["uri"] for r in listed] == ["note://1", "note://2"]
    read = notes.request("resources/read", {"uri": "note://2"})
    assert read["contents"][0]["text"] == "Call Ada"


@pytest.mark.parametrize("uri", ["note://0", "note://x", "file:///etc/passwd"])
def test_an_unknown_note_is_an_error(start, uri):
    with pytest.raises(RpcError, match="no such note"):
        start("notes_server.py").request("resources/read", {"uri": uri})


def test_a_note_without_a_text_is_an_error(start):
    with pytest.raises(RpcError, match="'text' is missing"):
        start("notes_server.py").call("add")


def test_the_clock_tells_the_time_of_a_zone(start):
    clock = start("clock_server.py")
    clock.initialize()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", clock.text("now"))
    assert clock.call("now", zone="Nowhere/Land")["isError"]


def test_the_clock_waits_with_progress_and_answers_others_meanwhile(start):
    clock = start("clock_server.py")
    asked = {"name": "wait", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": 7}}
    wait = clock.start("tools/call", asked)
    assert clock.request("ping") == {}
    first = clock.take_notification("notifications/progress")
    assert first == {"progressToken": 7, "progress": 1, "total": 2}
    assert clock.finish(wait)["content"][0]["text"] == "waited 0.5 s"


def test_a_cancelled_wait_is_never_answered(start):
    clock = start("clock_server.py")
    wait = clock.start("tools/call", {"name": "wait", "arguments": {"seconds": 0.2}})
    clock.notify("notifications/cancelled", {"requestId": wait})
    with pytest.raises(TimeoutError):
        clock.finish(wait, 0.4)

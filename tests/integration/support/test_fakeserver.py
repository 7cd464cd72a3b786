"""The fake server does what its flags say: other tests rest on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import FAKE_SERVER, Peer, RpcError, is_alive
from tests.support.waiting import wait_until

Start = Callable[..., tuple[Peer, "subprocess.Popen[bytes]"]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[tuple[Peer, subprocess.Popen[bytes]]] = []

    def start(*flags: object) -> tuple[Peer, subprocess.Popen[bytes]]:
        argv = [sys.executable, str(FAKE_SERVER), *map(str, flags)]
        pipe = subprocess.PIPE
        child = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        started.append((Peer.over(child), child))
        return started[-1]

    yield start
    for peer, child in started:
        if child.poll() is None:
            child.kill()
        peer.close()


def test_it_shakes_hands_and_calls_tools(start: Start) -> None:
    fake, child = start("--instructions", "Be kind.")
    hello = fake.initialize("2025-06-18")
    assert hello["protocolVersion"] == "2025-06-18"
    assert hello["instructions"] == "Be kind."
    assert fake.text("echo", text="hi") == "hi"
    assert fake.text("add", a=1, b=2.5) == "3.5"
    assert fake.text("pid") == str(child.pid)
    assert [fake.text("count"), fake.text("count")] == ["1", "2"]
    assert len(fake.text("blob", bytes=70_000)) == 70_000
    with pytest.raises(RpcError, match="Unknown tool"):
        fake.call("nothing")


def test_a_slow_call_delays_no_other_and_can_be_cancelled(start: Start) -> None:
    fake, _ = start()
    slow = fake.start("tools/call", {"name": "hang"})
    assert fake.text("echo", text="meanwhile") == "meanwhile"
    fake.notify("notifications/cancelled", {"requestId": slow})
    wait_until(lambda: fake.text("cancelled") == f"[{slow}]")


def test_it_reports_progress_under_the_callers_token(start: Start) -> None:
    fake, _ = start()
    asked = {"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "tok"}}
    call = fake.start("tools/call", asked)
    steps = [fake.take_notification("notifications/progress") for _ in range(2)]
    assert [(s["progressToken"], s["progress"], s["total"]) for s in steps] == [
        ("tok", 1, 2),
        ("tok", 2, 2),
    ]
    assert fake.finish(call)["content"][0]["text"] == "done"


def test_it_notifies_of_logs_updates_and_new_tools(start: Start) -> None:
    fake, _ = start()
    fake.request("logging/setLevel", {"level": "error"})
    fake.call("log", level="info", text="unheard")
    fake.call("log", level="error", text="heard")
    assert fake.take_notification("notifications/message")["data"] == "heard"
    fake.request("resources/subscribe", {"uri": "fake://a"})
    fake.call("touch", uri="fake://b")
    fake.call("touch", uri="fake://a")
    assert fake.take_notification("notifications/resources/updated") == {"uri": "fake://a"}
    fake.call("grow", name="new")
    fake.take_notification("notifications/tools/list_changed")
    assert "new" in [t["name"] for t in fake.request("tools/list")["tools"]]
    assert not fake.inbox


def test_it_pages_and_a_stuck_cursor_never_advances(start: Start) -> None:
    fake, _ = start("--tools", "7", "--page-size", "20", "--stuck-cursor")
    first = fake.request("tools/list")
    second = fake.request("tools/list", {"cursor": first["nextCursor"]})
    assert len(first["tools"]) == 20
    assert second["nextCursor"] == first["nextCursor"]


def test_it_asks_in_the_middle_of_a_call(start: Start) -> None:
    fake, _ = start()
    call = fake.start("tools/call", {"name": "ask", "arguments": {"question": "why?"}})
    question = fake.take(lambda m: m.get("method") == "elicitation/create")
    fake.send(id=question["id"], result={"action": "accept", "content": {"answer": "so"}})
    assert '"accept"' in fake.finish(call)["content"][0]["text"]


def test_its_noise_is_no_json_rpc(start: Start) -> None:
    fake, _ = start("--noise")
    assert fake.read_line() == b"Fake server is starting..."
    call = fake.start("ping")
    lines = iter(fake.read_line, None)
    assert any(line and line.startswith(b'{"jsonrpc"') and b"%d" % call in line for line in lines)


def test_it_floods_stderr_and_crashes_with_last_words(start: Start) -> None:
    fake, child = start("--stderr", "3000")
    fake.start("tools/call", {"name": "crash", "arguments": {"code": 3}})
    assert child.wait(10) == 3
    assert child.stderr
    said = child.stderr.read()
    assert len(said) >= 3000
    assert said.endswith(b"the last words on stderr\n")


@pytest.mark.parametrize(
    ("flags", "status"), [(["--crash-at-start", "4"], 4), (["--crash-if", "/dev/null"], 9)]
)
def test_it_crashes_at_start(start: Start, flags: list[str], status: int) -> None:
    _, child = start(*flags)
    assert child.wait(10) == status


def test_it_dies_at_its_kth_call_without_an_answer(start: Start) -> None:
    fake, child = start("--die-after-calls", "2")
    assert fake.text("echo", text="1") == "1"
    fake.start("tools/call", {"name": "echo", "arguments": {"text": "2"}})
    assert fake.read_line() is None
    assert child.wait(10) == 11


def test_it_stops_reading_and_lives(start: Start) -> None:
    fake, child = start("--stop-reading", "1")
    assert fake.text("echo", text="1") == "1"
    fake.start("tools/call", {"name": "echo", "arguments": {"text": "2"}})
    with pytest.raises(TimeoutError):
        fake.read_line(0.1)
    assert child.poll() is None


def test_a_polite_one_ends_at_end_of_file_and_says_so(start: Start, tmp_path: Path) -> None:
    fake, child = start("--journal", tmp_path / "journal")
    fake.request("ping")
    assert child.stdin
    child.stdin.close()
    assert child.wait(10) == 0
    read, bye = (tmp_path / "journal").read_text().splitlines()
    assert '"method": "ping"' in read
    assert '"bye": "eof"' in bye


@pytest.mark.parametrize("flag", ["--ignore-eof", "--busy-on-eof"])
def test_a_deaf_one_needs_a_signal(start: Start, tmp_path: Path, flag: str) -> None:
    journal = tmp_path / "journal"
    fake, child = start(flag, "--journal", journal)
    fake.request("ping")
    assert child.stdin
    child.stdin.close()
    wait_until(lambda: '"eof"' in journal.read_text())
    assert child.poll() is None
    child.terminate()
    assert child.wait(10) == 0
    assert '"term"' in journal.read_text()


def test_a_stubborn_one_needs_sigkill(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    fake, child = start("--ignore-term", "--journal", journal)
    fake.request("ping")
    child.terminate()
    wait_until(lambda: '"term"' in journal.read_text())
    assert child.poll() is None


@pytest.mark.parametrize(("flag", "same_session"), [("--group-child", 1), ("--setsid-child", 0)])
def test_it_leaves_a_descendant(start: Start, tmp_path: Path, flag: str, same_session: int) -> None:
    pidfile = tmp_path / "pids"
    fake, child = start(flag, "--pidfile", pidfile)
    fake.request("ping")
    leader, left = map(int, pidfile.read_text().split())
    assert leader == child.pid
    try:
        assert (os.getsid(left) == os.getsid(leader)) == bool(same_session)
        child.kill()
        child.wait()
        assert is_alive(left)
    finally:
        os.kill(left, signal.SIGKILL)

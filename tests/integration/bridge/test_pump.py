"""A real bridge between a client's pipes and a daemon that does as it is told."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.integration.bridge.fakedaemon import Bridge, Connection, FakeDaemon, Json, line
from tests.support.waiting import scaled, wait_until

INITIALIZE = line(id=0, method="initialize", params={"protocolVersion": "2025-11-25"})


@pytest.fixture
def daemon():
    with FakeDaemon() as made:
        yield made


@pytest.fixture
def bridge(daemon):
    with Bridge(daemon, "fake") as made:
        yield made


def silent(message: Json, connection: Connection) -> None:
    """Answer nothing."""


def wait_until_it_takes_no_more(count: Callable[[], int]) -> None:
    """Wait until ``count()`` is over 1 MiB and the same for 0.2 s."""
    seen = (0, time.monotonic())

    def is_still() -> bool:
        nonlocal seen
        if count() != seen[0]:
            seen = (count(), time.monotonic())
        return seen[0] > 1 << 20 and time.monotonic() - seen[1] > 0.2

    wait_until(is_still, 20, what=lambda: f"a pause; {count()} bytes so far")


def cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_it_attaches_before_it_reads_anything(daemon, bridge):
    session = daemon.session()
    assert session.attached is not None
    assert session.attached["server"] == "fake"
    assert session.attached["control"] is False
    assert session.lines == []


def test_frames_pass_byte_for_byte_in_both_directions(daemon, bridge):
    """
    B069: escapes, numbers, blanks and bytes that are no UTF-8 are none of the bridge's business.
    """
    daemon.handler = silent
    sent = [
        b'  {"jsonrpc":"2.0" , "id" : "\\ud83d", "method":"m","params":{"x":1e400,"y":2.50}}\r\n',
        b"\n",
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"\xff":"\\u2028"}}\n',
        b"not json at all\n",
    ]
    bridge.send(b"".join(sent))
    session = daemon.session()
    wait_until(lambda: session.lines == sent, what=lambda: f"the frames: {session.lines}")
    back = [
        b'{"jsonrpc":"2.0","id":"\\ud83d","result":{"x":1E+400,"\\u0000":"\\ud800"}} \r\n',
        b"\xff\xfe\n",
        b'{"method":"roots/list","id":0,"jsonrpc":"2.0"}\n',
    ]
    session.send(b"".join(back))
    assert [bridge.read_line() for _ in back] == back


def test_a_byte_order_mark_before_any_message_is_left_out(daemon, bridge):
    """
    Windows runtimes write one before the first message, or before each; with it ``initialize``
    was no message, and nobody answered.
    """
    bom = b"\xef\xbb\xbf"
    large = line(id=1, method="m", params={"text": "y" * (1 << 19)})
    bridge.send(bom + INITIALIZE.replace(b"\n", b"\r\n") + bom + b"\r\n")
    assert bridge.read()["id"] == 0
    bridge.send(bom[:1])
    bridge.send(bom[1:] + large)
    assert bridge.read()["id"] == 1
    bridge.send(bom + line(id=2, method="m").rstrip())
    bridge.stdin.close()
    assert bridge.read()["id"] == 2
    wanted = [INITIALIZE.replace(b"\n", b"\r\n"), b"\r\n", large, line(id=2, method="m")]
    assert daemon.session().lines == wanted
    assert bridge.process.wait(scaled(10)) == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\r\n", ""])
def test_input_in_utf_16_is_named_and_ends_the_bridge(daemon, bridge, encoding, end):
    """
    What an old PowerShell pipes: no part of it can be read, and silence explains nothing.
    """
    bridge.send((INITIALIZE.decode().rstrip() + end).encode(encoding))
    bridge.stdin.close()
    assert bridge.process.wait(scaled(10)) == 2
    assert "the input is UTF-16, and MCP is UTF-8" in bridge.stderr.read().decode()
    assert daemon.session().lines == []


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20, 16 << 20])
def test_frames_of_any_size_pass_whatever_their_pieces(daemon, bridge, size):
    """
    B058, B072.
    """
    request = line(id=1, method="echo", params={"text": ""})
    request = request.replace(b'""', b'"' + b"y" * (size - len(request)) + b'"')
    assert len(request) == size
    writer = threading.Thread(target=bridge.send, args=[request])
    writer.start()
    answer = bridge.read_line(30)
    writer.join()
    assert len(answer) == size - len(request) + len(answer)
    assert json.loads(answer)["result"] == json.loads(request)["params"]
    session = daemon.session()
    session.send(b"")
    frame = b'{"jsonrpc":"2.0","method":"notifications/big","params":"' + b"z" * size + b'"}\n'
    sender = threading.Thread(target=session.send, args=[frame + b'{"next":1}\n'])
    sender.start()
    assert bridge.read_line(30) == frame
    assert bridge.read_line() == b'{"next":1}\n'
    sender.join()


def test_no_part_of_a_frame_is_ever_written(daemon, bridge):
    """
    What has no end yet may never get one: the other side must not see half a line.
    """
    daemon.handler = silent
    bridge.send(INITIALIZE + b'{"jsonrpc":"2.0","id":1,')
    session = daemon.session()
    wait_until(lambda: len(session.lines) == 1, what="the first frame")
    session.send(line(id=0, result={}) + b'{"jsonrpc":"2.0","method":"notifications/half"')
    assert bridge.read()["id"] == 0
    assert session.remainder == b""
    assert bridge.rest() == b""
    bridge.send(b'"method":"m"}\n')
    wait_until(lambda: len(session.lines) == 2, what="the second frame")
    assert json.loads(session.lines[1]) == {"jsonrpc": "2.0", "id": 1, "method": "m"}
    session.send(b"}\n")
    assert bridge.read()["method"] == "notifications/half"


def test_a_client_that_writes_without_reading_stops_nothing_but_itself(daemon, bridge):
    """
    Big requests up while big answers come down: the directions must not wait for each other.
    """
    count = 60
    done = threading.Event()

    def write() -> None:
        for number in range(count):
            bridge.request(number, "echo", text="x" * 200_000)
        done.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    session = daemon.session()
    wait_until(done.is_set, 20, what=lambda: f"all requests to be taken: {len(session.lines)}")
    answers = [bridge.read() for _ in range(count)]
    assert [one["id"] for one in answers] == list(range(count))
    writer.join()


def test_a_client_that_does_not_read_makes_the_daemon_wait_not_the_bridge_grow(daemon, bridge):
    """
    B089: what nobody takes stays where the daemon sees it.
    """
    daemon.handler = silent
    session = daemon.session()
    total = 0

    def flood() -> None:
        nonlocal total
        frame = line(method="notifications/x", params={"text": "x" * 100_000})
        for _ in range(500):
            session.send(frame)
            total += len(frame)

    sender = threading.Thread(target=flood, daemon=True)
    sender.start()
    wait_until_it_takes_no_more(lambda: total)
    assert total < 4 << 20
    for _ in range(500):
        assert len(bridge.read_line()) > 100_000
    sender.join()


def test_a_daemon_that_does_not_read_makes_the_client_wait_not_the_bridge_grow(daemon, bridge):
    session = daemon.session()
    daemon.reads.clear()
    session.sock.sendall(b'{"hello":1}\n')
    assert bridge.read_line() == b'{"hello":1}\n'
    written = 0

    def flood() -> None:
        nonlocal written
        frame = line(method="notifications/x", params={"text": "x" * 100_000})
        for _ in range(300):
            bridge.send(frame)
            written += len(frame)

    sender = threading.Thread(target=flood, daemon=True)
    sender.start()
    wait_until_it_takes_no_more(lambda: written)
    assert written < 4 << 20
    session.send(b'{"still":"delivered"}\n')
    assert bridge.read_line() == b'{"still":"delivered"}\n'
    daemon.reads.set()
    sender.join()
    wait_until(lambda: len(session.lines) == 300, what="the rest")


def test_a_frame_over_the_limit_costs_that_frame(daemon, bridge):
    """
    B060, B061.
    """
    bridge.send(INITIALIZE)
    bridge.read()
    blob = b"x" * (1 << 20)

    def write() -> None:
        bridge.send(b'{"jsonrpc":"2.0","id":7,"method":"echo","params":{"text":"')
        for _ in range(70):
            bridge.send(blob)
        bridge.send(b'"}}\n')
        bridge.request(8, "echo", a=1)

    writer = threading.Thread(target=write)
    writer.start()
    answer = bridge.read(60)
    assert answer["id"] == 7
    assert answer["error"]["data"]["kind"] == "message_too_large"
    assert bridge.read(60) == {"jsonrpc": "2.0", "id": 8, "result": {"a": 1}}
    writer.join()
    with open(f"/proc/{bridge.process.pid}/status") as status:
        peak = next(int(row.split()[1]) for row in status if row.startswith("VmHWM:"))
    assert peak < 100_000, "kB: it kept what it was to skip"


# -- the end of input ------------------------------------------------------------------------------


def test_the_end_of_input_with_nothing_owed_is_the_end(daemon, bridge):
    bridge.send(INITIALIZE)
    bridge.read()
    bridge.send(line(method="notifications/initialized"))
    bridge.stdin.close()
    assert bridge.wait() == 0
    session = daemon.session()
    wait_until(lambda: session.is_closed, what="the session to end")
    assert session.methods() == ["initialize", "notifications/initialized"]
    assert bridge.complaint() == ""


def test_answers_on_their_way_are_delivered_after_the_end_of_input(daemon, bridge):
    late: list[tuple[Json, Connection]] = []
    daemon.handler = lambda message, connection: late.append((message, connection))
    bridge.request(1, "a")
    bridge.request("two", "b")
    bridge.stdin.close()
    wait_until(lambda: len(late) == 2, what="the requests")
    for message, connection in reversed(late):
        connection.send(line(id=message["id"], result={}))
    assert [bridge.read()["id"], bridge.read()["id"]] == ["two", 1]
    assert bridge.wait() == 0
    assert bridge.read_line() == b""
    assert bridge.complaint() == ""


def test_what_is_missing_when_the_time_is_over_is_cancelled(daemon):
    with Bridge(daemon, "fake", "--linger", "0.3") as bridge:
        bridge.send(INITIALIZE)
        bridge.read()
        bridge.request(1, "echo")
        bridge.request("x", "hang")
        bridge.request(3, "hang")
        begun = time.monotonic()
        bridge.stdin.close()
        assert bridge.read()["id"] == 1
        assert bridge.wait() == 5
        assert time.monotonic() - begun >= 0.3
        assert "2 answers did not come within 0.3 s" in bridge.complaint()
        assert bridge.read_line() == b""
    session = daemon.session()
    wait_until(lambda: session.is_closed, what="the end of the session")
    cancelled = [json.loads(one) for one in session.lines[-2:]]
    assert [one["method"] for one in cancelled] == ["notifications/cancelled"] * 2
    assert [one["params"]["requestId"] for one in cancelled] == ["x", 3]
    assert daemon.asked == [{"servers": ["fake"]}]


def test_an_initialize_without_an_answer_is_not_cancelled(daemon):
    daemon.handler = silent
    with Bridge(daemon, "fake", "--linger", "0") as bridge:
        bridge.send(INITIALIZE)
        bridge.stdin.close()
        assert bridge.wait() == 5
    session = daemon.session()
    wait_until(lambda: session.is_closed, what="the end of the session")
    assert session.methods() == ["initialize"]


def test_the_time_does_not_run_while_the_server_is_starting(daemon):
    """
    Else a pipeline would get no answer from a server that takes its time to start.
    """
    late: list[tuple[Json, Connection]] = []
    daemon.handler = lambda message, connection: late.append((message, connection))
    daemon.states = ["starting", "backoff", "starting", "starting", "starting", "ready"]
    with Bridge(daemon, "fake", "--linger", "0.4") as bridge:
        bridge.request(1, "slow")
        bridge.stdin.close()
        wait_until(lambda: len(daemon.asked) == 6, what=lambda: f"{daemon.asked}")
        message, connection = late[0]
        connection.send(line(id=message["id"], result={}))
        assert bridge.read()["id"] == 1
        assert bridge.wait() == 0


def test_a_last_line_without_a_newline_is_sent_if_it_is_whole(daemon, bridge):
    bridge.send(line(id=1, method="echo").rstrip(b"\n"))
    bridge.stdin.close()
    assert bridge.read()["id"] == 1
    assert bridge.wait() == 0
    assert daemon.session().lines[0].endswith(b"}\n")


def test_half_a_last_line_is_left_out_and_said(daemon, bridge):
    bridge.send(line(id=1, method="echo") + b'{"jsonrpc":"2.0","id":2,"method":"ech')
    bridge.stdin.close()
    assert bridge.read()["id"] == 1
    assert bridge.wait() == 0
    assert "no whole message" in bridge.complaint()
    assert len(daemon.session().lines) == 1


# -- a client that is gone -------------------------------------------------------------------------


def test_a_client_that_is_gone_ends_it_at_once(daemon, bridge):
    """
    No linger, no cancellation of ours: the daemon cancels what a closed session had in flight.
    """
    bridge.request(1, "hang")
    session = daemon.session()
    wait_until(lambda: session.lines, what="the call")
    bridge.stdin.close()
    bridge.stdout.close()
    begun = time.monotonic()
    assert bridge.wait() == 0
    assert time.monotonic() - begun < scaled(1.5)
    wait_until(lambda: session.is_closed, what="the end of the session")
    assert session.methods() == ["hang"]


def test_a_client_that_stops_reading_for_good_ends_it(daemon, bridge):
    """
    As in ``mcpctl connect files | head -1``, its input still open.
    """
    bridge.request(1, "echo")
    bridge.read()
    bridge.stdout.close()
    assert bridge.wait() == 0


def test_a_killed_client_takes_its_bridge_along(daemon):
    """
    B017: whatever became of the parent's pid, the closed pipes tell.
    """
    out, into = os.pipe()
    client = os.fork()
    if client == 0:
        try:
            bridge = Bridge(daemon, "fake")
            os.write(into, b"%d\n" % bridge.process.pid)
            signal.pause()
        finally:
            os._exit(1)
    bridge_pid = int(os.read(out, 20))
    session = daemon.session()
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    wait_until(lambda: session.is_closed, 2, what="the end of the session")
    wait_until(lambda: not is_running(bridge_pid), 2, what="the end of the bridge")
    os.close(out)
    os.close(into)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# -- signals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_at_once(daemon, bridge, number, status):
    bridge.request(1, "hang")
    session = daemon.session()
    wait_until(lambda: session.lines, what="the call")
    bridge.process.send_signal(number)
    assert bridge.wait() == status
    wait_until(lambda: session.is_closed, what="the end of the session")
    assert bridge.complaint() == ""


def test_an_ignored_interrupt_stays_ignored(daemon):
    """
    A background job of a script is started so, and ^C is not meant for it.
    """
    with Bridge(
        daemon, "fake", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    ) as bridge:
        daemon.session()
        bridge.process.send_signal(signal.SIGINT)
        bridge.request(1, "echo")
        assert bridge.read()["id"] == 1


def test_a_stopped_bridge_goes_on_where_it_was(daemon, bridge):
    """
    ^Z: a pump takes nothing meanwhile.
    """
    session = daemon.session()
    bridge.process.send_signal(signal.SIGSTOP)
    bridge.request(1, "echo")
    session.send(line(method="notifications/meanwhile"))
    bridge.process.send_signal(signal.SIGCONT)
    came = [bridge.read(), bridge.read()]
    assert {one.get("method") for one in came} == {"notifications/meanwhile", None}
    assert {one.get("id") for one in came} == {1, None}

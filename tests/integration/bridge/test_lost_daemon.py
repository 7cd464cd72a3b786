"""A bridge whose daemon goes away, and the next one that comes."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import socket
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.bridge.fakedaemon import (
    Bridge,
    Connection,
    FakeDaemon,
    Json,
    ThreadedBridge,
    echo,
    line,
)
from tests.support.waiting import scaled, wait_until

INITIALIZE = line(id=0, method="initialize", params={"protocolVersion": "2025-11-25", "x": 2.50})
INITIALIZED = line(method="notifications/initialized")


@pytest.fixture
def daemon():
    with FakeDaemon() as made:
        yield made


@pytest.fixture
def bridge(daemon):
    with Bridge(daemon, "fake", "--no-start") as made:
        yield made


def silent(message: Json, connection: Connection) -> None:
    """Answer nothing."""


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def wait_until_read(bridge: Bridge) -> None:
    """Wait until the bridge has read all that its client has written."""
    waiting = array.array("i", [1])

    def is_taken() -> bool:
        fcntl.ioctl(bridge.stdin, termios.FIONREAD, waiting)
        return waiting[0] == 0

    wait_until(is_taken, what="the bridge to read everything")


def kind_of(message: Json) -> str:
    kind: str = message["error"]["data"]["kind"]
    return kind


# -- what becomes of requests ----------------------------------------------------------------------


def test_what_was_in_flight_gets_one_error_at_once_and_the_session_goes_on(daemon, bridge):
    """
    B053: with the same attach, as if nothing had been.
    """
    bridge.request(1, "echo")
    bridge.request("two", "hang")
    bridge.request(3, "hang")
    assert bridge.read()["id"] == 1
    session = daemon.session()
    wait_until(lambda: len(session.lines) == 3, what="the requests")
    session.send(b'{"jsonrpc":"2.0","id":3,"result":{"half":')
    daemon.die()
    errors = [bridge.read(), bridge.read()]
    assert [one["id"] for one in errors] == ["two", 3]
    for one in errors:
        assert one["jsonrpc"] == "2.0"
        assert one["error"]["code"] == -32603
        data = one["error"]["data"]
        assert (data["kind"], data["retryable"]) == ("outcome_unknown", False)
        assert data["hint"]
    bridge.request(4, "echo", text="later")
    daemon.revive()
    assert bridge.read() == {"jsonrpc": "2.0", "id": 4, "result": {"text": "later"}}
    assert daemon.session(1).attached == session.attached
    bridge.stdin.close()
    assert bridge.wait() == 0
    assert bridge.read_line() == b""
    assert bridge.complaint().count("\n") == 2


def test_what_a_draining_daemon_sends_back_is_sent_to_the_next_one(daemon, bridge):
    def draining(message: Json, connection: Connection) -> None:
        told = {"kind": "draining", "retryable": True}
        error = {"code": -32603, "message": "it ends", "data": told}
        connection.answer(line(id=message["id"], error=error))

    daemon.handler = draining
    bridge.request(1, "echo", text="a")
    bridge.request(2, "echo", text="b")
    session = daemon.session()
    wait_until(lambda: len(session.lines) == 2, what="the requests")
    session.answer(line(method="notifications/after"))
    assert bridge.read()["method"] == "notifications/after"
    bridge.send(line(method="notifications/cancelled", params={"requestId": 1}))
    daemon.handler = echo
    bridge.request(3, "echo", text="c")
    assert bridge.read()["id"] == 3
    daemon.die()
    daemon.revive()
    assert bridge.read() == {"jsonrpc": "2.0", "id": 2, "result": {"text": "b"}}
    assert [json.loads(one).get("id") for one in daemon.session(1).lines] == [2]


def test_what_was_not_sent_is_sent_to_the_next_daemon_whole_and_in_order(daemon, bridge):
    """
    B053: unsent requests are not answered with an error, and what was sent in part is not repeated.
    """
    daemon.handler = silent
    session = daemon.session()
    daemon.reads.clear()
    session.send(b'{"hello":1}\n')
    bridge.read_line()
    for number in range(10):
        bridge.request(number, "m", text="x" * 100_000)
    wait_until_read(bridge)
    daemon.die()
    daemon.handler = echo
    daemon.reads.set()
    failed = []
    while (answer := bridge.read())["id"] == len(failed) and "error" in answer:
        failed.append(answer)
        if len(failed) == 1:
            daemon.revive()
    answers = [answer, *(bridge.read() for _ in range(10 - len(failed) - 1))]
    assert 0 < len(failed) < 10, "a part of them was sent"
    assert [one["id"] for one in answers] == [*range(len(failed), 10)]
    assert all(len(one["result"]["text"]) == 100_000 for one in answers)
    assert [json.loads(one)["id"] for one in daemon.session(1).lines] == [*range(len(failed), 10)]


def test_what_a_daemon_that_ends_has_not_read_is_sent_to_the_next_one(daemon, bridge):
    """
    It says so; else nobody could know whether it was carried out.
    """
    daemon.handler = silent
    session = daemon.session()
    bridge.request(1, "echo", text="a")
    bridge.request(2, "echo", text="b")
    wait_until(lambda: len(session.lines) == 2, what="the requests")
    session.send(line(method="mcpd/farewell"))
    daemon.die()
    daemon.handler = echo
    daemon.revive()
    assert [bridge.read()["result"], bridge.read()["result"]] == [{"text": "a"}, {"text": "b"}]
    assert daemon.session(1).methods() == ["echo", "echo"]


def test_what_a_lost_daemon_had_said_is_delivered_first(daemon, bridge):
    """
    Also to a client that is slow to read: first the whole answers, then the errors.
    """
    daemon.handler = silent
    bridge.request(1, "m")
    bridge.request(2, "m")
    session = daemon.session()
    wait_until(lambda: len(session.lines) == 2, what="the requests")
    session.send(line(id=1, result={"text": "x" * (3 << 20)}))
    session.send(line(method="notifications/last", params={"text": "y" * 10_000}))
    daemon.die()
    with pytest.raises(subprocess.TimeoutExpired):
        bridge.process.wait(0.2)  # it waits for its client
    assert len(bridge.read()["result"]["text"]) == 3 << 20
    assert bridge.read()["method"] == "notifications/last"
    assert kind_of(bridge.read()) == "outcome_unknown"


def test_a_daemon_lost_with_both_directions_full_costs_no_answer_and_no_cpu(daemon, bridge):
    """
    Nothing can be written to it any more, and what it has said cannot be read yet: no reason to
    be woken by its hang-up again and again.
    """
    daemon.handler = silent
    session = daemon.session()
    daemon.reads.clear()
    session.send(b'{"hello":1}\n')
    bridge.read_line()
    for number in range(1, 6):
        bridge.request(number, "m", text="x" * 150_000)
    session.send(line(id=1, result={"text": "x" * (3 << 20)}))
    session.send(line(method="notifications/last"))
    daemon.die()
    before = cpu_ticks(bridge.process.pid)
    with pytest.raises(subprocess.TimeoutExpired):
        bridge.process.wait(0.5)
    assert cpu_ticks(bridge.process.pid) - before < 20
    assert bridge.read()["id"] == 1
    assert bridge.read()["method"] == "notifications/last"
    daemon.reads.set()
    daemon.handler = echo
    daemon.revive()
    assert [bridge.read()["id"] for _ in range(4)] == [2, 3, 4, 5]


@contextlib.contextmanager
def many(daemon: FakeDaemon, count: int) -> Iterator[list[Bridge]]:
    """Give so many bridges, which are attached."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(ThreadedBridge(daemon)) for _ in range(count)]


def test_wherever_an_answer_is_cut_the_client_gets_one_and_no_half_line(daemon):
    def half(message: Json, connection: Connection) -> None:
        whole = line(id=message["id"], result={"text": "ü"})
        connection.send(whole[: message["id"] - 10])

    daemon.handler = half
    cuts = range(len(line(id=10, result={"text": "ü"})))
    with many(daemon, len(cuts)) as bridges:
        for cut, bridge in zip(cuts, bridges, strict=True):
            bridge.request(10 + cut, "echo")
        wait_until(lambda: sum(len(one.lines) for one in daemon.sessions) == len(cuts), 20)
        daemon.die()
        for cut, bridge in zip(cuts, bridges, strict=True):
            answer = bridge.read()
            assert (answer["id"], kind_of(answer)) == (10 + cut, "outcome_unknown")
            bridge.request(8, "echo")
        daemon.handler = echo
        daemon.revive()
        for bridge in bridges:
            assert bridge.read(20)["id"] == 8
            assert bridge.rest() == b""


def test_wherever_a_request_of_the_client_is_cut_it_is_sent_whole_or_not_at_all(daemon):
    """
    The daemon is lost while the client is in the midst of a line: the next gets all of it.
    """
    cuts = range(len(line(id=10, method="echo", params={"text": "é"})))
    with many(daemon, len(cuts)) as bridges:
        wait_until(lambda: len(daemon.sessions) == len(cuts), 20, what="all sessions")
        before = list(daemon.sessions)
        requests = [line(id=10 + cut, method="echo", params={"text": "é"}) for cut in cuts]
        for cut, bridge in zip(cuts, bridges, strict=True):
            bridge.send(requests[cut][:cut])
            wait_until_read(bridge)
        daemon.die()
        daemon.revive()
        for cut, bridge in zip(cuts, bridges, strict=True):
            bridge.send(requests[cut][cut:])
            answer = bridge.read(20)
            assert (answer["id"], answer["result"]) == (10 + cut, {"text": "é"})
        assert not any(one.lines or one.remainder for one in before)
        assert sorted(each for one in daemon.sessions for each in one.lines) == sorted(requests)


# -- what the next daemon is told ------------------------------------------------------------------


def test_the_handshake_the_level_and_subscriptions_are_replayed_before_anything_else(
    daemon, bridge
):
    """
    With ids of the bridge's own, all else byte for byte; the client sees none of the answers.
    """
    level = line(id=1, method="logging/setLevel", params={"level": "debug"})
    follow = line(id=2, method="resources/subscribe", params={"uri": "a:1"})
    bridge.send(INITIALIZE)
    bridge.read()
    bridge.send(INITIALIZED + level + follow)
    assert [bridge.read()["id"], bridge.read()["id"]] == [1, 2]
    daemon.die()
    bridge.request(3, "echo")
    daemon.revive()
    assert bridge.read()["id"] == 3
    lines = daemon.session(1).lines
    assert daemon.session(1).methods() == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "echo",
    ]
    own = [json.loads(one).get("id") for one in lines[:4]]
    assert len(set(own)) == 4
    for number, (sent, said) in enumerate(((INITIALIZE, 0), (level, 1), (follow, 2))):
        again = lines[number + (number > 0)]
        assert again == sent.replace(
            b'"id":%d' % said, b'"id":%b' % json.dumps(json.loads(again)["id"]).encode()
        )
    assert lines[1] == INITIALIZED
    assert bridge.rest() == b""


def test_a_handshake_without_an_answer_is_made_again_under_its_own_id(daemon, bridge):
    daemon.handler = silent
    bridge.send(INITIALIZE)
    session = daemon.session()
    wait_until(lambda: session.lines, what="the handshake")
    daemon.die()
    bridge.send(INITIALIZED)
    daemon.handler = echo
    daemon.revive()
    assert bridge.read()["id"] == 0
    wait_until(lambda: len(daemon.session(1).lines) == 2, what="what followed")
    assert daemon.session(1).lines == [INITIALIZE, INITIALIZED]


def test_a_client_that_does_not_read_its_refusals_waits_and_the_bridge_does_not_grow(
    daemon, bridge
):
    """
    Each is larger than what it answers, so they are bounded as answers of a daemon are.
    """
    daemon.session()
    told = {"kind": "server_not_found", "retryable": False, "hint": "mcpctl list"}
    daemon.refusal = {"code": -32602, "message": "x" * 16_000, "data": told}
    daemon.die()
    daemon.revive()
    bridge.request(0, "a")
    assert bridge.read()["id"] == 0
    asked = [line(id=number, method="a", params={"x": "y" * 4000}) for number in range(1, 301)]
    writer = threading.Thread(target=bridge.send, args=(b"".join(asked),))
    writer.start()
    writer.join(1.5)
    assert writer.is_alive(), "the client waits"
    assert [bridge.read()["id"] for _ in asked] == [*range(1, 301)]
    writer.join()


def test_a_session_that_cannot_be_had_again_explains_itself_and_is_had_later(daemon, bridge):
    """
    Its server is gone from the configuration, say: each request gets that, until it is back.
    """
    bridge.send(INITIALIZE)
    bridge.read()
    bridge.request(1, "hang")
    session = daemon.session()
    wait_until(lambda: len(session.lines) == 2, what="the requests")
    told = {"kind": "server_not_found", "retryable": False, "hint": "mcpctl list"}
    daemon.refusal = {"code": -32602, "message": "no server is called fake", "data": told}
    daemon.die()
    daemon.revive()
    assert kind_of(bridge.read()) == "outcome_unknown"
    bridge.request(2, "echo")
    assert bridge.read() == {"jsonrpc": "2.0", "id": 2, "error": daemon.refusal}
    daemon.refusal = None
    wait_until(lambda: len(daemon.sessions) == 2, 10, what="the next try")
    bridge.request(3, "echo")
    assert bridge.read()["id"] == 3
    bridge.stdin.close()
    assert bridge.wait() == 0


def test_a_daemon_that_cannot_start_is_the_reason_until_the_next_start_is_tried(daemon):
    """
    Its configuration is broken, say: that is worth more than that nobody listens.
    """
    config = daemon.directory / "config.json"
    config.write_text("{")
    config.chmod(0o600)
    with Bridge(daemon, "fake", "--config", str(config)) as bridge:
        daemon.session()
        daemon.die()
        for number in range(20):
            bridge.request(number, "echo")
            assert "mcpd ended with" in bridge.read(15)["error"]["message"]
            with pytest.raises(subprocess.TimeoutExpired):
                bridge.process.wait(0.05)


def test_a_server_that_fails_its_handshake_explains_itself_too(daemon, bridge):
    bridge.send(INITIALIZE)
    bridge.read()
    error = {"code": -32603, "message": "it does not start", "data": {"kind": "spawn_failed"}}

    def failing(message: Json, connection: Connection) -> None:
        connection.answer(line(id=message["id"], error=error))

    daemon.handler = failing
    daemon.die()
    daemon.revive()
    bridge.request(1, "echo")
    assert bridge.read() == {"jsonrpc": "2.0", "id": 1, "error": error}
    daemon.handler = echo
    wait_until(
        lambda: any("echo" in one.methods() for one in daemon.sessions) or poke(bridge),
        20,
        what="a handshake that succeeds",
    )
    assert bridge.process.poll() is None


def poke(bridge: Bridge) -> bool:
    """Ask for something, and tell whether it was answered with a result."""
    bridge.request(9, "echo")
    return "result" in bridge.read()


def test_questions_of_a_lost_daemon_are_withdrawn_and_late_answers_go_nowhere(daemon, bridge):
    """
    The next daemon's ids begin anew: the client's answer must not reach another question.
    """
    bridge.send(INITIALIZE)
    bridge.read()
    session = daemon.session()
    session.send(line(id=1, method="elicitation/create", params={"message": "sure?"}))
    assert bridge.read()["method"] == "elicitation/create"
    daemon.die()
    told = bridge.read()
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == 1
    daemon.revive()
    again = daemon.session(1)
    wait_until(lambda: again.lines, what="the handshake")
    bridge.send(line(id=1, result={"action": "accept"}))
    bridge.request(2, "echo")
    assert bridge.read()["id"] == 2
    assert again.methods() == ["initialize", "echo"]


# -- lists -----------------------------------------------------------------------------------------


def test_only_lists_that_changed_are_told_of(daemon, bridge):
    lists: Json = {"tools/list": {"tools": [1]}, "prompts/list": {"prompts": [1]}}

    def serving(message: Json, connection: Connection) -> None:
        if "id" in message:
            connection.answer(line(id=message["id"], result=lists.get(message["method"], {})))

    daemon.handler = serving
    bridge.send(INITIALIZE)
    bridge.read()
    for number, method in enumerate(lists, 1):
        bridge.request(number, method)
        bridge.read()
    daemon.die()
    lists["tools/list"] = {"tools": [1, 2]}
    daemon.revive()
    assert bridge.read() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    daemon.die()
    daemon.revive()
    again = daemon.session(2)
    wait_until(lambda: len(again.lines) == 3, what="the lists to be looked at")
    bridge.request(5, "echo")
    assert bridge.read()["id"] == 5, "nothing else has changed"


def test_a_client_that_asked_for_no_list_causes_none(daemon, bridge):
    bridge.send(INITIALIZE)
    bridge.read()
    daemon.die()
    daemon.revive()
    bridge.request(1, "echo")
    bridge.read()
    assert daemon.session(1).methods() == ["initialize", "echo"]


# -- the end of input, or of the client, meanwhile -------------------------------------------------


def test_the_end_of_input_leaves_what_waits_its_time(daemon, bridge):
    daemon.session()
    daemon.die()
    bridge.request(1, "echo")
    bridge.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        bridge.process.wait(0.3)
    daemon.revive()
    assert bridge.read()["id"] == 1
    assert bridge.wait() == 0


def test_the_time_for_answers_counts_from_when_there_is_a_daemon(daemon):
    with Bridge(daemon, "fake", "--no-start", "--linger", "0.2") as bridge:
        daemon.session()
        daemon.die()
        bridge.request(1, "hang")
        bridge.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            bridge.process.wait(0.5)
        daemon.revive()
        assert bridge.wait() == 5
        again = daemon.session(1)
        wait_until(lambda: len(again.lines) == 2, what="the cancellation")
        assert again.methods() == ["hang", "notifications/cancelled"]


def test_with_nothing_to_wait_for_the_end_of_input_is_the_end(daemon, bridge):
    bridge.send(INITIALIZE)
    bridge.read()
    daemon.die()
    bridge.stdin.close()
    assert bridge.wait() == 0


def test_errors_instead_of_the_last_answers_are_an_exit_status(daemon, bridge):
    bridge.request(1, "hang")
    session = daemon.session()
    wait_until(lambda: session.lines, what="the call")
    bridge.stdin.close()
    wait_until(lambda: daemon.asked, what="the end of input to be read")
    daemon.die()
    assert kind_of(bridge.read()) == "outcome_unknown"
    assert bridge.wait() == 3


def test_a_client_that_goes_away_meanwhile_ends_it_at_once(daemon, bridge):
    daemon.session()
    daemon.die()
    bridge.request(1, "echo")
    wait_until_read(bridge)
    bridge.stdin.close()
    bridge.stdout.close()
    begun = time.monotonic()
    assert bridge.wait() == 0
    assert time.monotonic() - begun < scaled(2)


# -- waiting ---------------------------------------------------------------------------------------


def test_a_bridge_without_a_daemon_sleeps(daemon, bridge):
    """
    It looks every few seconds at most, however long it takes.
    """
    daemon.session()
    daemon.die()
    wait_until(lambda: select_stderr(bridge), what="the bridge to notice")
    before = cpu_ticks(bridge.process.pid)
    with pytest.raises(subprocess.TimeoutExpired):
        bridge.process.wait(1)
    assert cpu_ticks(bridge.process.pid) - before < 10


def select_stderr(bridge: Bridge) -> bytes:
    waiting = array.array("i", [0])
    fcntl.ioctl(bridge.stderr, termios.FIONREAD, waiting)
    return os.read(bridge.stderr.fileno(), waiting[0]) if waiting[0] else b""


def hang_up_on_everybody(daemon: FakeDaemon) -> int:
    """Listen for two seconds as a daemon of no use does, and return how often that was tried."""
    with socket.socket(socket.AF_UNIX) as listener:
        os.unlink(daemon.path)
        listener.bind(daemon.path)
        listener.listen(64)
        listener.settimeout(0.1)
        tries, deadline = 0, time.monotonic() + 2
        while time.monotonic() < deadline:
            try:
                accepted, _ = listener.accept()
            except TimeoutError:
                continue
            tries += 1
            accepted.close()
    return tries


@pytest.mark.parametrize("options", [(), ("--no-start",)])
def test_a_daemon_that_hangs_up_on_everybody_is_not_asked_again_and_again(daemon, options):
    """
    Neither by a bridge that would start another one if it knew that there is none.
    """
    with Bridge(daemon, "fake", *options) as bridge:
        daemon.session()
        with daemon.nobody_starts():
            daemon.die()
            assert 1 <= hang_up_on_everybody(daemon) < 15
            assert bridge.process.poll() is None


def test_a_daemon_of_another_protocol_is_the_end_and_says_so(daemon, bridge):
    """
    B120: nobody kills it; what waits is answered with what to do.
    """
    daemon.session()
    daemon.die()
    bridge.request(1, "echo")
    daemon.hello = {"version": "9", "pid": 1, "api": 2}
    daemon.revive()
    answer = bridge.read()
    assert "of the control protocol, the other side version 2" in answer["error"]["message"]
    assert "mcpctl restart --daemon" in answer["error"]["data"]["hint"]
    assert bridge.wait() == 3
    assert "version 2" in bridge.complaint()

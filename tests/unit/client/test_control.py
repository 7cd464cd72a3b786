"""The blocking client, against something that listens on a real socket."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.client import hints
from mcpd.client.control import Control
from mcpd.daemon_start import deadline
from mcpd.errors import DaemonUnavailable, RequestFailed
from tests.support.waiting import wait_until
from tests.unit.client.fakedaemon import HELLO, Caller, Failed, FakeDaemon, Silence


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon() as made:
        yield made


def silent(*_: Any) -> Any:
    raise Silence


def test_it_greets_and_asks(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/tools"] = lambda params, _: {"tools": [params]}
    with Control.open(daemon.path) as control:
        assert control.hello == HELLO
        assert control.pid == os.getpid()
        assert control.request("mcpd/tools", {"server": "x"}) == {"tools": [{"server": "x"}]}


def test_an_answer_keeps_the_spelling_it_came_with(daemon: FakeDaemon) -> None:
    def call(_: Any, caller: Caller) -> Any:
        caller.send_raw(b'{"jsonrpc":"2.0","id":%d,"result":{"n":2.50}}\n' % caller.ident)
        raise Silence

    daemon.handlers["mcpd/call"] = call
    with Control.open(daemon.path) as control:
        assert control.exchange("mcpd/call") == ({"n": 2.5}, '{"n":2.50}')


def test_a_large_answer_in_pieces_arrives_whole(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: {"text": "x" * (5 << 20)}
    with Control.open(daemon.path) as control:
        assert len(control.request("mcpd/call")["text"]) == 5 << 20
        assert control.request("mcpd/hello") == HELLO


def test_an_error_is_raised_with_what_came(daemon: FakeDaemon) -> None:
    def call(*_: Any) -> Any:
        raise Failed(-32602, "no such tool", kind="tool_not_found", near=["echo"])

    daemon.handlers["mcpd/call"] = call
    with Control.open(daemon.path) as control:
        with pytest.raises(RequestFailed, match="no such tool") as caught:
            control.request("mcpd/call")
        assert (caught.value.code, caught.value.kind) == (-32602, "tool_not_found")
        assert control.request("mcpd/hello") == HELLO


def test_notifications_are_given_while_waiting(daemon: FakeDaemon) -> None:
    def call(_: Any, caller: Caller) -> Any:
        caller.notify("mcpd/progress", {"id": caller.ident, "progress": 1})
        return {}

    daemon.handlers["mcpd/call"] = call
    told: list[Any] = []
    with Control.open(daemon.path) as control:
        control.request("mcpd/call", on_notification=lambda *one: told.append(one))
    assert told == [("mcpd/progress", {"id": 2, "progress": 1})]


def test_a_wait_that_is_watched_tells_how_long_it_has_been(daemon: FakeDaemon) -> None:
    ticked = threading.Event()

    def call(*_: Any) -> Any:
        assert ticked.wait(10)
        return {}

    daemon.handlers["mcpd/call"] = call
    with Control.open(daemon.path) as control:
        control.request("mcpd/call", on_wait=lambda waited_s: ticked.set() if waited_s else None)
    assert ticked.is_set()


def test_a_request_that_takes_too_long_is_cancelled(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = silent
    with Control.open(daemon.path) as control:
        with pytest.raises(DaemonUnavailable, match=f"pid {os.getpid()}") as caught:
            control.request("mcpd/call", timeout=0.05)
        assert caught.value.details["why"] == "unresponsive"
        wait_until(lambda: daemon.requests("notifications/cancelled"))
    assert daemon.requests("notifications/cancelled")[0]["requestId"] == 2


def test_an_interrupt_cancels_and_goes_on(daemon: FakeDaemon) -> None:
    def call(*_: Any) -> Any:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        raise Silence

    daemon.handlers["mcpd/call"] = call
    with Control.open(daemon.path) as control:
        with pytest.raises(KeyboardInterrupt):
            control.request("mcpd/call", on_wait=lambda _: None)
        wait_until(lambda: daemon.requests("notifications/cancelled"))


def test_a_daemon_that_hangs_up_is_gone(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda _, caller: caller.hang_up()
    with Control.open(daemon.path) as control:
        with pytest.raises(DaemonUnavailable) as caught:
            control.request("mcpd/call")
        assert caught.value.details["why"] == "gone"
        with pytest.raises(DaemonUnavailable):
            control.request("mcpd/call")


def test_a_stream_gives_its_result_and_what_follows(daemon: FakeDaemon) -> None:
    def events(_: Any, caller: Caller) -> Any:
        caller.notify("mcpd/event", {"seq": 1})
        caller.send({"jsonrpc": "2.0", "id": caller.ident, "result": {"seq": 2}})
        caller.notify("mcpd/log", {})
        caller.notify("mcpd/event", {"seq": 2})
        raise Silence

    daemon.handlers["mcpd/events"] = events
    with Control.open(daemon.path) as control:
        stream = control.stream("mcpd/events", notification="mcpd/event")
        assert stream.result == {"seq": 2}
        assert stream.so_far() == [{"seq": 1}, {"seq": 2}]
        assert stream.so_far() == []
        daemon.handlers["mcpd/hello"] = lambda _, caller: caller.notify("mcpd/event", {"seq": 3})
        control.request("mcpd/hello", on_notification=stream._keep)
        assert next(iter(stream)) == {"seq": 3}
        daemon.close()
        with pytest.raises(DaemonUnavailable):
            next(iter(stream))


def test_a_daemon_that_says_nothing_is_unresponsive(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    B114: within 2 s, with the pid of who holds the socket.
    """
    monkeypatch.setattr(deadline, "ANSWER_TIMEOUT_S", 0.05)
    with FakeDaemon() as daemon:
        daemon.handlers["mcpd/hello"] = silent
        began = time.monotonic()
        with pytest.raises(DaemonUnavailable, match=f"unresponsive, pid {os.getpid()}") as caught:
            Control.open(daemon.path)
        assert time.monotonic() - began < 2
        assert "--force" in hints.advice(caught.value)[0]


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        ({**HELLO, "api": 2}, "this mcpctl is too old"),
        ({**HELLO, "api": 0}, "the daemon is too old"),
        ({"api": "x"}, "does not speak"),
        ([], "does not speak"),
    ],
)
def test_another_version_of_the_protocol_is_explained(hello: Any, says: str) -> None:
    """
    B120: told, and nobody is killed for it.
    """
    with FakeDaemon() as daemon:
        daemon.handlers["mcpd/hello"] = lambda *_: hello
        with pytest.raises(DaemonUnavailable, match=says) as caught:
            Control.open(daemon.path)
        assert "restart --daemon" in hints.advice(caught.value)[0]


def test_a_listener_that_is_no_daemon_is_told_from_one(daemon: FakeDaemon) -> None:
    def hello(_: Any, caller: Caller) -> Any:
        caller.send_raw(b"HTTP/1.1 400 Bad Request\r\n")
        raise Silence

    daemon.handlers["mcpd/hello"] = hello
    with pytest.raises(DaemonUnavailable, match="HTTP"):
        Control.open(daemon.path)


def test_a_socket_that_nobody_listens_on_says_how_to_start(daemon: FakeDaemon) -> None:
    """
    B111: a socket file without a listener is a dead daemon's.
    """
    path = daemon.path + "2"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    with pytest.raises(DaemonUnavailable, match="no daemon runs") as caught:
        Control.open(path)
    assert hints.advice(caught.value) == ["to start it: mcpctl up"]

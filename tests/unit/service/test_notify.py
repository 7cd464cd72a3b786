"""What a service manager is told, datagram by datagram."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator

import pytest

from mcpd.service.notify import Notifier


@pytest.fixture
def manager() -> Iterator[tuple[str, socket.socket]]:
    with (
        tempfile.TemporaryDirectory(prefix="mcpd-", dir="/tmp") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears,
    ):
        hears.bind(f"{folder}/s")
        hears.setblocking(False)
        yield f"{folder}/s", hears


def test_what_is_said_is_one_message_each(manager: tuple[str, socket.socket]):
    address, hears = manager
    notifier = Notifier(address)
    assert notifier.ready("one\nline")
    assert hears.recv(999).decode() == f"READY=1\nMAINPID={os.getpid()}\nSTATUS=one line"
    notifier.stopping("bye", 1.5)
    assert hears.recv(999).decode() == "STOPPING=1\nSTATUS=bye\nEXTEND_TIMEOUT_USEC=1500000"
    notifier.alive()
    assert hears.recv(999) == b"WATCHDOG=1"
    notifier.reloading()
    assert hears.recv(999).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    notifier.close()
    assert not notifier.is_on
    notifier.alive()
    with pytest.raises(BlockingIOError):
        hears.recv(999)


def test_a_manager_that_does_not_read_is_not_waited_for(manager: tuple[str, socket.socket]):
    notifier = Notifier(manager[0])
    said = [notifier.alive() for _ in range(3000)]
    assert said[0]
    assert not said[-1]
    notifier.close()


def test_nobody_is_told_where_nobody_listens(tmp_path):
    notifier = Notifier()
    assert not notifier.is_on
    assert notifier.ready("x")
    gone = Notifier(str(tmp_path / "gone"))
    assert gone.ready("x")
    gone.close()


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("30000000", "ours", 30.0),
        ("30000000", "", 30.0),
        ("30000000", "1", None),
        ("0", "", None),
        ("-5", "", None),
        ("soon", "", None),
        ("", "", None),
    ],
)
def test_how_often_it_wants_a_sign_of_life(usec: str, pid: str, seconds: float | None):
    pid = pid.replace("ours", str(os.getpid()))
    env = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid, "HOME": "/"}
    assert Notifier.take(env).watchdog_s == seconds
    assert env == {"HOME": "/"}


@pytest.mark.parametrize("address", ["", "relative", "@", "/", "vsock:2:1"])
def test_an_address_that_is_none_is_nobody(address: str):
    env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}
    notifier = Notifier.take(env)
    assert not notifier.is_on
    assert notifier.watchdog_s is None
    assert not env

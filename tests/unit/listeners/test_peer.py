"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from mcpd.listeners.peer import Peer, credentials, is_allowed


def test_the_kernel_names_the_user_and_the_process_that_connected():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = credentials(ours)
    assert found == Peer(pid=os.getpid(), uid=os.geteuid(), gid=os.getegid())


def test_another_process_is_recognised_by_its_pid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        child = os.fork()
        if child == 0:
            try:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect("s")
                    client.recv(1)
            finally:
                os._exit(0)
        accepted, _ = listener.accept()
        with accepted:
            assert credentials(accepted).pid == child
        os.waitpid(child, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux's struct ucred")
def test_a_pid_that_the_kernel_does_not_know_is_none():
    """
    A peer in another pid namespace has pid 0 here.
    """

    class Foreign:
        def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
            assert (level, optname) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return (
                bytes(4)
                + (1000).to_bytes(4, sys.byteorder)
                + (4294967294).to_bytes(4, sys.byteorder)
            )

    assert credentials(Foreign()) == Peer(pid=None, uid=1000, gid=4294967294)


def test_only_our_own_user_and_root_are_let_in():
    """
    B118.
    """
    us = os.geteuid()
    assert is_allowed(Peer(pid=1, uid=us, gid=0))
    assert is_allowed(Peer(pid=1, uid=0, gid=us))
    assert not is_allowed(Peer(pid=1, uid=us + 1, gid=0))

"""A service manager for tests: it listens, starts ``mcpd`` with its socket, and writes down."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.support.daemon import Box, binary
from tests.support.waiting import wait_until

START = """
import os, sys
fds = [int(fd) for fd in sys.argv[2].split(",") if fd]
for number, fd in enumerate(fds):
    os.dup2(fd, 100 + number)
    os.close(fd)
for number in range(len(fds)):
    os.dup2(100 + number, 3 + number)
    os.close(100 + number)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[1], sys.argv[1:2] + sys.argv[3:])
"""
"""Puts descriptors where sd_listen_fds(3) has them, and is the process that they are meant for."""


class Manager:
    """What systemd is to a service: who holds the socket, and who is told."""

    def __init__(self, box: Box) -> None:
        self.box = box
        # The directory's name is short: a path of a socket holds 108 bytes.
        self._directory = tempfile.TemporaryDirectory(prefix="mcpd-", dir="/tmp")
        self.address = str(Path(self._directory.name) / "notify")
        self._hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hears.bind(self.address)
        self.heard: list[tuple[float, list[str]]] = []
        """When, on the monotonic clock, and the lines of each message."""
        threading.Thread(target=self._hear, daemon=True).start()
        self._listener: socket.socket | None = None
        self.inode = 0

    def listen(self) -> Manager:
        """Make the socket, as the socket unit does."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.box.socket))
        self.box.socket.chmod(0o600)
        self._listener.listen(64)
        self.inode = self.box.socket.stat().st_ino
        return self

    def start(
        self, *args: str, fds: list[int] | None = None, notify: str | None = None, **env: str
    ) -> subprocess.Popen[bytes]:
        """Start ``mcpd`` as the service's main process; ``notify`` is another address."""
        passed = fds
        if passed is None:
            passed = [] if self._listener is None else [self._listener.fileno()]
        told = {"NOTIFY_SOCKET": notify or self.address, **env}
        if passed:
            told["LISTEN_FDS"] = str(len(passed))
        argv = [sys.executable, "-IS", "-c", START, binary("mcpd"), ",".join(map(str, passed))]
        with self.box.log.open("ab") as log:
            process = subprocess.Popen(
                [*argv, *args],
                env=self.box.env | told,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=passed,
            )
        self.box.daemon = process
        self.box._started.append(process)
        return process

    def lines(self, name: str) -> list[str]:
        """Return the values of a variable in all messages so far."""
        return [
            line.partition("=")[2]
            for _, lines in list(self.heard)
            for line in lines
            if line.partition("=")[0] == name
        ]

    def wait_for(self, name: str, count: int = 1, timeout: float = 20) -> list[str]:
        """Wait until a variable has come so many times."""
        wait_until(
            lambda: len(self.lines(name)) >= count,
            timeout,
            what=lambda: f"{name}; heard {self.heard}; log:\n{self.box.tail()}",
        )
        return self.lines(name)

    def close(self) -> None:
        """Let everything go."""
        self._hears.shutdown(socket.SHUT_RDWR)
        self._hears.close()
        if self._listener is not None:
            self._listener.close()
        self._directory.cleanup()

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._hears.recv(8192):
                self.heard.append((time.monotonic(), data.decode().split("\n")))

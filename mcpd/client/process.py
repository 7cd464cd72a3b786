"""The daemon as a process: waiting until it is gone, and ending one that does not respond."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from mcpd import paths
from mcpd.errors import DaemonUnavailable

LOOK_AGAIN_S = 0.02
TICK_S = 0.2
TERM_GRACE_S = 10.0
"""A daemon that is well stops its servers first; that may take their grace twice."""

KILL_GRACE_S = 5.0


class Process:
    """One process, never mistaken for a later one of the same pid where the system allows."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # gone already, or a kernel without
                self._fd = os.pidfd_open(pid)

    def close(self) -> None:
        """Forget it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def is_gone(self) -> bool:
        """Tell whether it has ended, reaped or not."""
        return self.wait(0)

    def wait(self, timeout: float, on_wait: Callable[[float], None] | None = None) -> bool:
        """Tell whether it ended within ``timeout`` seconds."""
        began = time.monotonic()
        while not self._look(min(TICK_S, timeout)):
            waited = time.monotonic() - began
            if waited >= timeout:
                return False
            if on_wait is not None:
                on_wait(waited)
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal, to no other process than this one."""
        with suppress(ProcessLookupError):
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.pid, number)

    def is_mcpd(self) -> bool:
        """Tell whether it is a daemon of this user, by its owner and its command line."""
        try:
            if os.stat(f"/proc/{self.pid}").st_uid != os.geteuid():
                return False
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            words = [] if sys.platform == "linux" else _words(self.pid)
        programs = [os.path.basename(word) for word in words[:2]]
        return "mcpd" in programs or words[1:3] == ["-m", "mcpd"]

    def require_mcpd(self) -> None:
        """Raise ``DaemonUnavailable`` where it is no daemon of this user: it is left alone."""
        if not self.is_mcpd():
            message = f"pid {self.pid} has the socket, but it is no mcpd of yours: left alone"
            raise DaemonUnavailable(message, why="not_ours", pid=self.pid)

    def end(self, on_wait: Callable[[float], None] | None = None) -> None:
        """End it: SIGTERM, also for one that is suspended, then SIGKILL.

        Raises ``DaemonUnavailable`` where it is no mcpd, or does not end even so.
        """
        self.require_mcpd()
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if self.wait(TERM_GRACE_S, on_wait):
            return
        self.send(signal.SIGKILL)
        if not self.wait(KILL_GRACE_S, on_wait):
            message = f"pid {self.pid} does not end, not even when it is killed"
            raise DaemonUnavailable(message, why="stuck", pid=self.pid)

    def _look(self, timeout: float) -> bool:
        """Tell whether it has ended, now or within ``timeout`` seconds."""
        if self._fd is not None:
            return bool(select.select([self._fd], [], [], timeout)[0])
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # another user's by now, so not the one that was
            return True
        time.sleep(min(LOOK_AGAIN_S, timeout))
        return False


def pid_in_lock(socket: str) -> int | None:
    """Return what the lock of ``socket`` says about who holds it; only a hint where to look."""
    try:
        with open(paths.lock_path(socket), "rb") as file:
            digits = file.read(64).split()
    except OSError:
        return None
    return int(digits[0]) if digits and digits[0].isdigit() and int(digits[0]) > 1 else None


def lock_holder(lock: str, table: str = "/proc/locks") -> int | None:
    """Return the pid that holds the ``flock`` of a file, ``None`` for nobody and unknown.

    Not by trying to take it: a daemon that starts in that moment would find it taken.
    Source: proc(5), ``/proc/locks``. The device there may be another than ``stat``'s (overlays,
    btrfs), so a holder counts whose inode is right and that is of ours.
    """
    try:
        inode = os.lstat(lock).st_ino
        with open(table, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) < 8 or words[1] != "FLOCK" or not words[4].isdecimal():
            continue
        pid = int(words[4])
        if words[5].rpartition(":")[2] == str(inode) and pid > 0 and _is_ours(pid):
            return pid
    return None


def _is_ours(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def _words(pid: int) -> list[str]:
    """Return the words of a command line where there is no ``/proc``."""
    import subprocess

    argv = ["ps", "-o", "command=", "-U", str(os.geteuid()), "-p", str(pid)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()

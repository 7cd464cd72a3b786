"""The daemon as a process: waiting until it is gone, and ending one that does not respond."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from mcpd import daemon_process
from mcpd.errors import DaemonUnavailable

GUARDIANS = ("mcpd/supervise/cleanup/guardian.py", "mcpd/supervise/guardian.py")
"""How the path of the guardian's script ends; the second is that of older versions."""

LOOK_AGAIN_S = 0.02
TICK_S = 0.2
TERM_GRACE_S = 10.0
"""A daemon that is well stops its servers first; that may take their grace twice."""

KILL_GRACE_S = 5.0

CLEANUP_S = 12.0
"""For the guardian, which gives the servers of a killed daemon some seconds."""


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

    def require_daemon(self, socket: str) -> None:
        """Raise ``DaemonUnavailable`` where it is no mcpd of ours that holds the socket's lock."""
        if not daemon_process.is_daemon_of(self.pid, socket):
            message = f"pid {self.pid} has the socket, but it is no mcpd of yours: left alone"
            raise DaemonUnavailable(message, why="not_ours", pid=self.pid)

    def end(self, socket: str, on_wait: Callable[[float], None] | None = None) -> None:
        """End the daemon of ``socket`` and what it has started: SIGTERM, then SIGKILL.

        One that is stopped is let go on, so that it can end by itself. Of one that had to be
        killed the guardian ends the servers, and is waited for. Raises ``DaemonUnavailable`` as
        ``require_daemon`` does (nobody is signalled then), and where it does not end.
        """
        self.require_daemon(socket)
        guardians = [Process(pid) for pid in _guardians(self.pid)]
        try:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
            if not self.wait(TERM_GRACE_S, on_wait):
                self.send(signal.SIGKILL)
                if not self.wait(KILL_GRACE_S, on_wait):
                    message = f"pid {self.pid} does not end, not even when it is killed"
                    raise DaemonUnavailable(message, why="stuck", pid=self.pid)
            for guardian in guardians:
                guardian.wait(CLEANUP_S, on_wait)
        finally:
            for guardian in guardians:
                guardian.close()

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


def _guardians(pid: int) -> list[int]:
    """Return the children of a daemon that will clear up after it."""
    if sys.platform != "linux":
        import subprocess

        argv = ["ps", "-A", "-o", "pid=,ppid=,command="]
        table = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        rows = [line.split(None, 2) for line in table.splitlines()]
        return [int(row[0]) for row in rows if row[1] == str(pid) and _names_guardian(row[2])]
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            with open(f"/proc/{number}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1]
            if int(parent) == pid:
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    if _names_guardian(os.fsdecode(file.read())):
                        found.append(int(number))
    return found


def _names_guardian(command: str) -> bool:
    return any(path in command for path in GUARDIANS)

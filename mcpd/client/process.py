"""The process of the daemon: waiting until it has ended, and killing it."""

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

POLL_S = 0.02
TICK_S = 0.2
TERM_GRACE_S = 10.0
"""For a daemon that responds to SIGTERM: it stops its servers first, with twice their grace."""

KILL_GRACE_S = 5.0

CLEANUP_S = 12.0
"""For the guardian, which stops the servers of a killed daemon."""


class Process:
    """A process, by a pidfd where there are any: a later process of the same pid is another one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # gone already, or a kernel without
                self._fd = os.pidfd_open(pid)

    def close(self) -> None:
        """Close the pidfd."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def wait(self, timeout: float, on_wait: Callable[[float], None] | None = None) -> bool:
        """Wait for ``timeout`` seconds; return whether the process has ended."""
        began = time.monotonic()
        while not self._has_ended(min(TICK_S, timeout)):
            waited = time.monotonic() - began
            if waited >= timeout:
                return False
            if on_wait is not None:
                on_wait(waited)
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, and to no other one."""
        with suppress(ProcessLookupError):
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.pid, number)

    def require_daemon(self, socket: str) -> None:
        """Raise ``DaemonUnavailable`` if it is not an mcpd that holds the lock of ``socket``."""
        if not daemon_process.is_daemon_of(self.pid, socket):
            message = f"pid {self.pid} has the socket, but it is no mcpd of yours: left alone"
            raise DaemonUnavailable(message, why="not_ours", pid=self.pid)

    def end(self, socket: str, on_wait: Callable[[float], None] | None = None) -> None:
        """End the daemon of ``socket`` and its servers, with SIGTERM and then SIGKILL.

        A stopped daemon gets SIGCONT, so that it can end by itself. If it has to be killed, its
        guardian ends the servers and is waited for. Raises ``DaemonUnavailable`` as
        ``require_daemon`` does, before any signal, and if the process does not end.
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

    def _has_ended(self, timeout: float) -> bool:
        """Return whether the process has ended, now or within ``timeout`` seconds."""
        if self._fd is not None:
            return bool(select.select([self._fd], [], [], timeout)[0])
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # another user's by now, so not the one that was
            return True
        time.sleep(min(POLL_S, timeout))
        return False


def lock_holder(lock: str, table: str = "/proc/locks") -> int | None:
    """Return the pid that holds the ``flock`` of a file, ``None`` if none is known to.

    Does not try to take the lock: a daemon that starts at that moment would fail. Source: proc(5),
    ``/proc/locks``. The device there may differ from that of ``stat`` (overlays, btrfs), so a
    holder counts if the inode matches and the process is this user's.
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
    """Return the guardians among the children of a daemon."""
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

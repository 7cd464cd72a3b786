"""Reads processes from ``/proc``, and signals a process only if it is the expected one.

Standard library only and cheap to import: the guardian, which must stay small, uses it too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from typing import NamedTuple

TAG = "MCPD_INSTANCE"
"""The environment variable that marks a process as belonging to a server of a daemon."""

HAVE_PROC = os.path.exists("/proc/self/stat")

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about a process: it may exist although it cannot be read now."""

LOCK_ENDINGS = (".lock", ".guard")
"""Endings of the names of the files that daemons and guardians lock for their lifetime."""

GONE = ("Z", "X")
"""States of processes that have ended: zombies, and those being removed."""


class ProcId(NamedTuple):
    """The identity of a process: pids are reused, the pair of pid and start time is not."""

    pid: int
    started: int
    """Kernel ticks from boot to its start; independent of the wall clock."""


class Stat(NamedTuple):
    """One line of the process table."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    state: str
    started: int
    tag: str | None = None
    """The value of ``TAG`` in its environment; ``None`` if there is none, or it was not read."""

    @property
    def id(self) -> ProcId:
        """Return its identity, which no other process ever has."""
        return ProcId(self.pid, self.started)

    @property
    def lives(self) -> bool:
        """Return whether it has not ended; a zombie has."""
        return self.state not in GONE


def stat(pid: int) -> Stat | None:
    """Return the process table's line for ``pid``, or ``None`` if there is no such process.

    Source: proc(5), ``/proc/PID/stat``. The name, which may hold anything, ends at the last ``)``.
    """
    try:
        return _stat(pid)
    except OSError:
        return None


def _stat(pid: int) -> Stat | None:
    """Return what ``stat`` returns; raise ``OSError`` for one of the ``SHORTAGES``."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None if HAVE_PROC else _portable_stat(pid)
    return _parse(pid, text)


def _parse(pid: int, text: bytes) -> Stat | None:
    fields = text.rpartition(b")")[2].split(None, 20)
    if len(fields) < 20:
        return None
    return Stat(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[19])
    )


def identify(pid: int) -> ProcId | None:
    """Return the identity of ``pid``, zombies included, or ``None``."""
    found = stat(pid)
    return None if found is None else found.id


def lives(process: ProcId) -> bool:
    """Return whether exactly this process still runs; true where that cannot be determined."""
    try:
        return _lives(process)
    except OSError:
        return True


def _lives(process: ProcId) -> bool:
    found = _stat(process.pid)
    return found is not None and found.started == process.started and found.lives


def scan(*, tags_since: int | None = None) -> list[Stat]:
    """Return the process table, with the tags of those started at ``tags_since`` or later.

    Takes about ten microseconds for each process and as much again for its tag: run it in a thread.
    The newest processes are read first, because they are the most likely to end soon. Raises
    ``OSError`` for one of the ``SHORTAGES``: in half a table living processes would seem gone.
    """
    found = []
    for pid in sorted(_all_pids(), reverse=True):
        each = _stat(pid)
        if each is None:
            continue
        if tags_since is not None and each.started >= tags_since and each.lives:
            each = each._replace(tag=_tag_of(pid))
        found.append(each)
    return found


def _all_pids() -> list[int]:
    if HAVE_PROC:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    from mcpd.supervise.proctable import portable

    return portable.pids()


def tag_of(pid: int) -> str | None:
    """Return the tag that ``pid`` was started with; ``None`` without one, or when it is hidden."""
    try:
        return _tag_of(pid)
    except OSError:
        return None


def _tag_of(pid: int) -> str | None:
    if not HAVE_PROC:
        from mcpd.supervise.proctable import portable

        return portable.tag_of(pid, TAG)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None
    needle = f"{TAG}=".encode()
    for variable in environ.split(b"\0"):
        if variable.startswith(needle):
            return os.fsdecode(variable[len(needle) :])
    return None


def arguments(pid: int) -> list[str]:
    """Return the command line of ``pid``; empty when it is hidden or gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return []


def pipes(pid: int) -> set[int]:
    """Return the inode numbers of the pipes that ``pid`` has as stdin, stdout and stderr."""
    found = set()
    for fd in (0, 1, 2):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("pipe:["):
                found.add(int(target[6:-1]))
    return found


def holds_own_lock(pid: int) -> bool:
    """Return whether ``pid`` holds the lock of a daemon or of a guardian.

    That is a file ``*.lock`` or ``*.guard`` that it has locked with ``flock`` and whose first line
    is its own pid. Source: proc(5), ``/proc/PID/fdinfo``.
    """
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_is_own_lock(pid, number) for number in numbers)


def _is_own_lock(pid: int, number: str) -> bool:
    try:
        name = os.readlink(f"/proc/{pid}/fd/{number}").removesuffix(" (deleted)")
        if not name.endswith(LOCK_ENDINGS):
            return False
        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii", errors="replace") as info:
            if not any(line.startswith("lock:") and "FLOCK" in line for line in info):
                return False
        fd = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, 32).partition(b"\n")[0] == b"%d" % pid
    except OSError:
        return False
    finally:
        os.close(fd)


def send(process: ProcId, signum: int) -> bool:
    """Send a signal to exactly this process; return whether it was sent.

    A pidfd makes sure that the check and the signal concern the same process. Returns false for a
    process that we may not signal (setuid), and for one whose identity cannot be verified now.
    """
    fd = _pidfd(process.pid)
    try:
        if not _lives(process):
            return False
        if fd >= 0 and sys.platform == "linux":
            signal.pidfd_send_signal(fd, signum)
        else:
            os.kill(process.pid, signum)
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _pidfd(pid: int) -> int:
    """Return a pidfd, or -1: no such process, no descriptor left, or no pidfds on this system."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return -1


def boot_id() -> str:
    """Return the id of this boot; pids and ticks are comparable only within one boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Return the id of our pid namespace; pids are comparable only within one namespace."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def ticks_now() -> int:
    """Return the current time in kernel ticks since boot, comparable with ``ProcId.started``."""
    if sys.platform == "linux":
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    return int(time.clock_gettime(time.CLOCK_REALTIME) * 100)


def _portable_stat(pid: int) -> Stat | None:
    from mcpd.supervise.proctable import portable

    fields = portable.stat(pid)
    return None if fields is None else Stat(pid, *fields)

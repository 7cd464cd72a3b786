"""What /proc tells: memory, wake-ups and CPU time of a process, and who else is busy here."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable

TICKS = os.sysconf("SC_CLK_TCK")
QUIET_SHARE = 0.25
"""Of one core: what others may use while we measure."""


def pss_mb(pid: int) -> float:
    """Return the memory of a process in MB (10^6 bytes), pages that it shares counted in parts."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"no Pss for {pid}")


def voluntary_switches(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep so far."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status") as file:
            for line in file:
                if line.startswith("voluntary_ctxt_switches"):
                    total += int(line.split()[1])
    return total


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time that processes have used so far, in seconds, to the nanosecond."""
    total = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def children(pid: int) -> list[int]:
    """Return the processes that this one started."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += map(int, file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the whole tree under a process."""
    found = children(pid)
    for child in found:
        try:
            found += children(child)
        except OSError:  # it ended meanwhile
            continue
    return found


def guardian_of(daemon: int) -> int | None:
    """Return the pid of a daemon's guardian."""
    for pid in children(daemon):
        with open(f"/proc/{pid}/cmdline") as file:
            if "guardian" in file.read():
                return pid
    return None


def describe() -> dict[str, object]:
    """Return what a reader must know of the machine."""
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "kernel": os.uname().release}


def _busy_s() -> float:
    """Return the seconds that all cores were busy or taken away by the host."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Noise:
    """How busy others were while we measured, as a share of one core."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._busy, self._ours = _busy_s(), self._used()

    @staticmethod
    def _used() -> float:
        """Return the CPU time of this process and everything that it has started, in seconds."""
        me = os.times()
        return (
            me.user
            + me.system
            + me.children_user
            + me.children_system
            + sum(map(_used_by, descendants(os.getpid())))
        )

    def share(self) -> float:
        """Return it for the time since we were made."""
        wall = time.perf_counter() - self._since
        others = (_busy_s() - self._busy) - (self._used() - self._ours)
        return max(0.0, others / wall)


def _used_by(pid: int) -> float:
    try:
        return cpu_s([pid])
    except OSError:
        return 0.0


class Patience:
    """Waits for a quiet machine, for so many seconds in all."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    async def wait_quiet(self) -> None:
        """Return when others are quiet, or when there is no patience left."""
        while self.left_s > 0:
            noise = Noise()
            await asyncio.sleep(0.2)
            self.left_s -= 0.2
            if noise.share() < QUIET_SHARE:
                return

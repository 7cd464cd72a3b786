"""Daemons in processes of their own, to be killed, and all that they may leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
DAEMONLET = Path(__file__).with_name("daemonlet.py")


DEAF = "trap '' TERM HUP; NOTE; while :; do sleep 1; done"
TREE = "sh -c 'NOTE; sleep 60; exit' & NOTE; wait"
SETSID = "setsid -w sh -c 'NOTE; exec sleep 60' & NOTE; wait"
BARE = "(env -i setsid sh -c 'NOTE; exec sleep 60 </dev/null >/dev/null 2>&1' &); NOTE; read go"


class Daemonlet:
    """A small daemon in a process of its own, with everything it may leave behind."""

    def __init__(self, state: Path, *commands: str, scope: str = "tree") -> None:
        argv = [sys.executable, str(DAEMONLET), str(state), scope, *commands]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "MCPD_TEST_DAEMONLET": str(state)},
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.id: str = told["id"]
        self.guardian = identity(told["guardian"])
        self.children = [identity(pid) for pid in told["children"]]
        self.ledger = state / "ledger" / f"{self.id}.json"

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> float:
        """End it as the kernel does when memory runs out; return when."""
        self.process.kill()
        self.process.wait()
        return time.monotonic()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def identity(pid: int) -> ProcId:
    found = procfs.identify(pid)
    assert found is not None
    return found


class Site:
    """State directory, pid files and daemons of one test."""

    def __init__(self, path: Path) -> None:
        self.state = path / "state"
        self.pids = path / "pids"
        self.pids.mkdir()
        self.daemons: list[Daemonlet] = []

    def daemon(self, *commands: str, scope: str = "tree") -> Daemonlet:
        """Start one; in commands ``NOTE`` stands for a way to note the pid of a shell."""
        note = f"touch {self.pids}/$$"
        made = Daemonlet(
            self.state, *(each.replace("NOTE", note) for each in commands), scope=scope
        )
        self.daemons.append(made)
        return made

    def noted(self, count: int) -> list[ProcId]:
        """Return the processes that noted themselves, as soon as there are so many."""
        wait_until(lambda: len(os.listdir(self.pids)) >= count)
        return [identity(int(name)) for name in os.listdir(self.pids)]

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()
        needle = f"MCPD_TEST_DAEMONLET={self.state}".encode()
        for each in procfs.scan():
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0"):
                    procfs.send(each.id, signal.SIGKILL)
        for name in os.listdir(self.pids):
            process = procfs.identify(int(name))
            if process is not None:
                procfs.send(process, signal.SIGKILL)


def alive(processes: list[ProcId]) -> list[ProcId]:
    return [each for each in processes if procfs.lives(each)]


def kill_both(daemon: Daemonlet) -> None:
    """Kill daemon and guardian at once, before either can notice the other's end."""
    os.kill(daemon.guardian.pid, signal.SIGSTOP)
    daemon.kill()
    os.kill(daemon.guardian.pid, signal.SIGKILL)
    wait_until(lambda: not procfs.lives(daemon.guardian))

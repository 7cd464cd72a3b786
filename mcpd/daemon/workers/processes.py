"""Starts processes of the daemon's own, which are no servers: for checks, and for signing in."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable

from mcpd.schemas.channel import Process
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper


def spawn(reaper: Reaper, argv: list[str], environment: Iterable[str]) -> Process:
    """Start a process with these variables, and with pipes as its stdin and stdout.

    The reaper takes its exit status; it is not part of a server's tree. Raises ``OSError``.
    """
    popen = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env={name: os.environ[name] for name in environment if name in os.environ},
    )
    assert popen.stdin is not None
    assert popen.stdout is not None
    stdin, stdout = os.dup(popen.stdin.fileno()), os.dup(popen.stdout.fileno())
    popen.stdin.close()
    popen.stdout.close()
    identity = procfs.identify(popen.pid)
    started = procfs.ticks_now() if identity is None else identity.started
    child = reaper.register(Child(popen, started))

    def kill() -> None:
        if child.returncode is None:  # until then its pid cannot be another process's
            os.kill(child.pid, signal.SIGKILL)

    return Process(popen.pid, stdin, stdout, kill)

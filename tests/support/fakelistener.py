"""A process that listens on a daemon's socket and holds its lock, and never answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMON = """
import fcntl, socket, sys, time
lock = open(sys.argv[1] + ".lock", "w")
lock.write(str(__import__("os").getpid()))
lock.flush()
if "unlocked" not in sys.argv:
    fcntl.flock(lock, fcntl.LOCK_EX)
if "deaf" not in sys.argv:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
print("up", flush=True)
time.sleep(60)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def listeners(directory: Path, path: str) -> Iterator[Start]:
    """Give a function that starts ``python DIRECTORY/NAME``, which listens on ``path``."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str = "mcpd", *flags: str) -> subprocess.Popen[str]:
        (directory / name).write_text(DAEMON)
        argv = [sys.executable, str(directory / name), path, *flags]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout
        assert started[-1].stdout.readline() == "up\n"
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()

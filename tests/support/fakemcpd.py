"""An ``mcpd`` that behaves as it is told, and the place where clients start it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.daemon import is_alive
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent

FAKE_MCPD = """
import fcntl, json, os, socket, sys, time
path = sys.argv[sys.argv.index("--socket") + 1]
state = os.environ["MCPD_STATE_DIR"]
with open(state + "/starts", "a") as starts:
    starts.write(f"{os.getpid()}\\n")
behaviour = open(state + "/behaviour").read().split()
print("scripted complaint", file=sys.stderr, flush=True)
if behaviour[0] == "exit":
    sys.exit(int(behaviour[1]))
lock = open(path + ".lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(75)
seen = {
    "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")[:-1]},
    "sid": os.getsid(0), "pid": os.getpid(), "pgid": os.getpgid(0),
    "ignored": int(open("/proc/self/status").read().split("SigIgn:")[1].split()[0], 16),
    "blocked": int(open("/proc/self/status").read().split("SigBlk:")[1].split()[0], 16),
}
with open(state + "/seen", "w") as file:
    json.dump(seen, file)
if behaviour[0] == "silent":
    time.sleep(60)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(64)
while True:
    listener.accept()[0].close()
"""

STARTER = """
import os, socket, sys
from mcpd.daemon_start import reach, spawn
spawn.daemon_command = lambda: [sys.executable, os.environ["FAKE_MCPD"]]
reach.reach(sys.argv[1], socket.socket.close, timeout=20)
"""


class Place:
    """A socket, a state directory, and an ``mcpd`` that behaves as it is told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = str(directory / "run" / "mcpd.sock")
        self.state = directory / "state"
        self.state.mkdir(mode=0o700)
        self.mcpd = directory / "mcpd"
        self.mcpd.write_text(FAKE_MCPD)
        self.behave("listen")

    def behave(self, what: str) -> None:
        (self.state / "behaviour").write_text(what)

    def starts(self) -> list[int]:
        file = self.state / "starts"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "seen").read_text())
        return found

    def close(self) -> None:
        for pid in self.starts():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, self.starts())))
        shutil.rmtree(self.directory)

    def listen(self) -> socket.socket:
        """Listen on the socket in the daemon's place."""
        os.makedirs(os.path.dirname(self.socket), mode=0o700, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        listener.listen(1)
        return listener


def start_client(place: Place) -> subprocess.Popen[bytes]:
    """Run a client in a process of its own that reaches a daemon, or starts one."""
    return subprocess.Popen([sys.executable, "-c", STARTER, place.socket], cwd=ROOT)

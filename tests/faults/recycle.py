"""Run in a pid namespace of its own: gives the pids of dead children to strangers, many times.

``python recycle.py ROUNDS``. Prints how many rounds there were; an assertion ends it otherwise.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mcpd.supervise import spawn
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper
from tests.support.pipes import close_pipes

NEXT_PID = "/proc/sys/kernel/ns_last_pid"
TICK_S = 0.011
"""No two processes of one pid have one start time."""

SOON_S = 0.002
"""For a signal to arrive."""


def neighbour() -> None:
    """Start somebody else's process, once a line, under the pid that it names.

    Says its pid and, at the next line, whether it has ended.
    """
    for line in sys.stdin:
        time.sleep(TICK_S)
        Path(NEXT_PID).write_text(str(int(line) - 1))
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
            print(stranger.pid, flush=True)
            sys.stdin.readline()
            print(stranger.poll(), flush=True)
            stranger.kill()


class Neighbour:
    """Our side of one."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        argv = [sys.executable, __file__]
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def ask(self, line: str) -> str:
        """Write a line and return the answer."""
        assert self._process.stdin and self._process.stdout
        print(line, file=self._process.stdin)
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate()


async def main(rounds: int) -> None:
    """Have a child end, its pid given away, and everything that may signal it try to."""
    reaper = Reaper("d")
    reaper.start()
    others = Neighbour()
    for number in range(rounds):
        tag = f"d:s:{number}"
        launch = spawn.prepare("sleep", ["60"], env={}, cwd="/", tag=tag)
        child = reaper.register(spawn.spawn(launch, tag=tag))
        child.signal_group(signal.SIGKILL)
        assert await child.wait_exit(10)
        assert others.ask(str(child.pid)) == str(child.pid)
        assert not procfs.send(child.id, signal.SIGKILL), "a signal was sent"
        child.signal_group(signal.SIGKILL)
        assert not (await reaper.scan_trees())[child], (
            "a stranger was taken for a member of the tree"
        )
        time.sleep(SOON_S)
        assert others.ask("well?") == "None", "a stranger was signalled"
        close_pipes(child)
        child.ended = True
    others.close()
    reaper.close()
    print(rounds)


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(main(int(sys.argv[1])))
    else:
        neighbour()

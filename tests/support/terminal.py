"""A terminal on which ``mcpctl`` asks, and a test answers."""

from __future__ import annotations

import os
import pty
import select
import time

from tests.support.daemon import Box, binary
from tests.support.waiting import scaled


def typed(box: Box, *args: str, answers: dict[str, str]) -> tuple[int, str]:
    """Run mcpctl on a terminal, and type each answer when its question stands there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(binary("mcpctl"), ["mcpctl", *args], {**box.env, "TERM": "dumb"})
    written, left = "", dict(answers)
    until = time.monotonic() + scaled(20)
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        written += chunk.decode()
        for question, answer in list(left.items()):
            if question in written.rpartition("\n")[2]:
                del left[question]
                os.write(terminal, answer.encode() + b"\n")
                break
    os.close(terminal)
    assert not left, f"never asked: {left}\n{written}"
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.replace("\r\n", "\n")

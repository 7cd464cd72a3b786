"""Runs the user's login shell once and waits for it: for a command that ends, not for a daemon."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import time
from collections.abc import Mapping

from mcpd.supervise.loginenv import loginpath
from mcpd.supervise.loginenv.loginpath import AnswerParser
from mcpd.supervise.loginenv.loginshell import CHUNK_BYTES, TIMEOUT_S, open_pipe, start


def variables(env: Mapping[str, str], timeout: float = TIMEOUT_S) -> dict[str, str]:
    """Return the variables of the login shell; empty if it gives none within ``timeout`` seconds.

    ``env`` is that of this process. What the shell has started in its own session is ended.
    """
    shell = loginpath.shell_of(env)
    if shell is None:
        return {}
    deadline = time.monotonic() + timeout
    mark = secrets.token_hex(loginpath.MARK_BYTES)
    with contextlib.ExitStack() as undo:
        reading, writing = open_pipe(undo)
        for argv in loginpath.command_lines(shell, mark, writing):
            answer = _ask(argv, env, reading, writing, AnswerParser(mark), deadline)
            if answer is not None:
                return loginpath.variables(answer)
    return {}


def _ask(
    argv: list[str],
    env: Mapping[str, str],
    reading: int,
    writing: int,
    parser: AnswerParser,
    deadline: float,
) -> str | None:
    try:
        process = start(argv, env, writing, "")
    except OSError:
        return None
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    answer = None
    try:
        while answer is None and time.monotonic() < deadline:
            has_ended = process.poll() is not None
            if poll.poll(0 if has_ended else 50):
                answer = parser.feed(os.read(reading, CHUNK_BYTES))
            elif has_ended:
                break
        return answer
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

"""Runs the user's login shell once and waits for it: for a command that ends, not for a daemon."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Mapping

from mcpd import paths
from mcpd.supervise.loginenv import loginpath
from mcpd.supervise.loginenv.loginpath import AnswerParser
from mcpd.supervise.loginenv.loginshell import CHUNK_BYTES, LOWEST_FD, TIMEOUT_S


def variables(env: Mapping[str, str], timeout: float = TIMEOUT_S) -> dict[str, str]:
    """Return the variables of the login shell; empty if it gives none within ``timeout`` seconds.

    ``env`` is that of this process. What the shell has started in its own session is ended.
    """
    shell = loginpath.shell_of(env)
    if shell is None:
        return {}
    deadline = time.monotonic() + timeout
    mark = secrets.token_hex(loginpath.MARK_BYTES)
    reading, low = os.pipe()
    writing = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    os.close(low)
    try:
        for argv in loginpath.command_lines(shell, mark, writing):
            answer = _ask(argv, env, reading, writing, AnswerParser(mark), deadline)
            if answer is not None:
                return loginpath.variables(answer)
    finally:
        os.close(reading)
        os.close(writing)
    return {}


def _ask(
    argv: list[str],
    env: Mapping[str, str],
    reading: int,
    writing: int,
    parser: AnswerParser,
    deadline: float,
) -> str | None:
    home = paths.home(env)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            cwd=home if os.path.isdir(home) else "/",
            env=loginpath.environment(env, argv[0], ""),
            start_new_session=True,
        )
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

"""Finds, stops and removes containers through the command line of their engine.

Standard library only and blocking: the guardian and threads call it. No shell is used, and every
command has a time limit, so an engine that hangs costs a few seconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from mcpd.supervise.container import Container
from mcpd.supervise.proctable import procfs

ANSWER_S = 5.0
"""Seconds for an engine to answer; after that no further command is run."""

REMOVAL_S = 2.0
"""Seconds for an engine to remove a container that has ended (``--rm``)."""

PAUSE_S = 0.1

MOST_BYTES = 64 * 1024
"""Bytes of an answer that are read."""

ID = re.compile(r"[0-9a-f]{12,64}")
"""The form of a container id; anything else is not used as an argument."""

_GONE, _UNKNOWN = "gone", "unknown"
_ENDED = frozenset({"exited", "dead", "stopped", "removing"})
_UNBORN = frozenset({"created", "configured", "initialized"})
_MISSING = re.compile(r"no such (container|object)|no container with (name or )?id", re.IGNORECASE)


class _NoAnswer(Exception):
    """The engine gave no answer."""


class _Answer(NamedTuple):
    is_done: bool
    text: str
    complaint: str


def end(container: Container, *, grace: float, tag: str | None = None) -> str | None:
    """End a container if it still exists; return why it may still run, or ``None``.

    Call it after the process that started the container has ended. ``grace`` is in seconds, from
    SIGTERM to SIGKILL. ``tag`` marks the engine's processes, so that they are found if we die.
    Takes ``grace`` and a few seconds more at most.
    """
    engine = _Engine(container, tag)
    try:
        left = [
            ident
            for ident in engine.find()
            if not _end_one(engine, ident, removes=container.removes, grace=grace)
        ]
    except _NoAnswer as error:
        return str(error)
    if left:
        return f"container {', '.join(ident[:12] for ident in left)} cannot be ended"
    if container.is_ours:
        with contextlib.suppress(OSError):
            os.unlink(container.cidfile)
    return None


def end_all(containers: Sequence[Container], *, grace: float, tag: str | None = None) -> list[str]:
    """End several containers at the same time; return a sentence for each that may still run."""
    left: list[str] = []

    def one(container: Container) -> None:
        reason = end(container, grace=grace, tag=tag)
        if reason is not None:
            left.append(reason)

    threads = [threading.Thread(target=one, args=(each,), daemon=True) for each in containers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return left


def _end_one(engine: _Engine, ident: str, *, removes: bool, grace: float) -> bool:
    """Stop, then kill, then remove one container; return whether it has ended."""
    seconds = str(max(1, math.ceil(grace)))
    state = engine.state(ident)
    for words in (("stop", "-t", seconds), ("kill",), ("rm", "-f")):
        if words[0] == "rm" and state in _ENDED and removes:
            state = engine.wait_removed(ident)
        if _is_over(state, removes=removes):
            return True
        if words[0] != "rm" and state in _ENDED | _UNBORN:
            continue
        longer = int(seconds) if words[0] == "stop" else 0
        answer = engine.ask(*words, ident, longer=longer)
        state = engine.state(ident)
        if state == _UNKNOWN and answer.is_done:
            state = _GONE
    return _is_over(state, removes=removes)


def _is_over(state: str, *, removes: bool) -> bool:
    """Return whether a container is gone, or has ended and is kept (started without ``--rm``)."""
    return state == _GONE or (state in _ENDED and not removes)


class _Engine:
    """The command line of one container's engine."""

    def __init__(self, container: Container, tag: str | None) -> None:
        self._container = container
        self._env = dict(container.env)
        if tag is not None:
            self._env[procfs.TAG] = tag

    def find(self) -> list[str]:
        """Return the ids of the existing containers; none while the image is still pulled."""
        written = _read_id(self._container.cidfile)
        if written is not None:
            return [written]
        wanted = f"label={self._container.label}"
        listed = self.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", wanted)
        if not listed.is_done:  # a failed listing does not prove that there is none
            raise _NoAnswer(f"its container may run on: {listed.complaint.strip()}")
        return [line for line in listed.text.split() if ID.fullmatch(line)]

    def state(self, ident: str) -> str:
        """Return the engine's name of a container's state, ``gone`` or ``unknown``."""
        answer = self.ask("inspect", "--type", "container", "--format", "{{.State.Status}}", ident)
        if answer.is_done:
            return answer.text.strip().lower() or _UNKNOWN
        return _GONE if _MISSING.search(answer.complaint) else _UNKNOWN

    def wait_removed(self, ident: str) -> str:
        """Wait for the engine to remove a container that has ended; return its state then."""
        deadline = time.monotonic() + REMOVAL_S
        while (state := self.state(ident)) in _ENDED and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        return state

    def ask(self, *words: str, longer: float = 0) -> _Answer:
        """Run a command of the engine; raise ``_NoAnswer`` if it cannot run or does not end.

        ``longer`` is added to the time limit, in seconds. The process stays in our session, where
        the daemon's reaper leaves its exit status to us.
        """
        cwd, limit = self._container.cwd, ANSWER_S + longer
        try:
            process = subprocess.Popen(
                [*self._container.argv, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=cwd if os.path.isdir(cwd) else "/",
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise _NoAnswer(f"{self._container.argv[0]} cannot be run: {error}") from None
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # not reaped yet: the number is its own
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()
            raise _NoAnswer(
                f"its container may run on: `{self._container.argv[0]} {words[0]}` did not answer "
                f"within {limit:g} s"
            ) from None
        text, complaint = (part[:MOST_BYTES].decode(errors="replace") for part in (out, err))
        return _Answer(process.returncode == 0, text, complaint)


def _read_id(path: str) -> str | None:
    """Return the container id in a file, or ``None`` if there is none yet."""
    if not path:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        content = os.read(fd, 256) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    text = content.decode(errors="replace").strip()
    return text if ID.fullmatch(text) else None

"""Containers by way of their engine's own command line: found, stopped, removed.

Standard library only, and blocking: for the guardian, and for threads. No shell, and no answer of
an engine is waited for without a limit: one that hangs costs a few seconds.
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
"""For an engine to answer; after that nothing more is asked of it."""

REMOVAL_S = 2.0
"""For an engine to remove by itself a container that has ended (``--rm``)."""

PAUSE_S = 0.1

MOST_BYTES = 64 * 1024
"""Of an answer more is not looked at."""

ID = re.compile(r"[0-9a-f]{12,64}")
"""What an id is before it becomes an argument."""

_GONE, _UNKNOWN = "gone", "unknown"
_ENDED = frozenset({"exited", "dead", "stopped", "removing"})
_UNBORN = frozenset({"created", "configured", "initialized"})
_MISSING = re.compile(r"no such (container|object)|no container with (name or )?id", re.IGNORECASE)


class _Trouble(Exception):
    """The engine gave no answer."""


class _Answer(NamedTuple):
    is_done: bool
    text: str
    complaint: str


def end(container: Container, *, grace: float, tag: str | None = None) -> str | None:
    """End what was run, if it still is there; return what is left and why, or ``None``.

    To be called when the process that asked for it has gone. ``grace`` is in seconds, from
    SIGTERM to SIGKILL. ``tag`` marks the engine's command for whoever clears up after us. Takes
    ``grace`` and a few seconds more at most.
    """
    engine = _Engine(container, tag)
    try:
        left = [
            ident
            for ident in engine.find()
            if not _end_one(engine, ident, removes=container.removes, grace=grace)
        ]
    except _Trouble as trouble:
        return str(trouble)
    if left:
        return f"container {', '.join(ident[:12] for ident in left)} cannot be ended"
    if container.is_ours:
        with contextlib.suppress(OSError):
            os.unlink(container.cidfile)
    return None


def end_all(containers: Sequence[Container], *, grace: float, tag: str | None = None) -> list[str]:
    """End several at the same time; return what is left, a sentence each."""
    left: list[str] = []

    def one(container: Container) -> None:
        said = end(container, grace=grace, tag=tag)
        if said is not None:
            left.append(said)

    threads = [threading.Thread(target=one, args=(each,), daemon=True) for each in containers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return left


def _end_one(engine: _Engine, ident: str, *, removes: bool, grace: float) -> bool:
    """End one container, by ever rougher means; return whether it is over."""
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
    """Tell whether nothing runs; what the user wants kept, without ``--rm``, is kept."""
    return state == _GONE or (state in _ENDED and not removes)


class _Engine:
    """The command line of one container's engine."""

    def __init__(self, container: Container, tag: str | None) -> None:
        self._container = container
        self._env = dict(container.env)
        if tag is not None:
            self._env[procfs.TAG] = tag

    def find(self) -> list[str]:
        """Return the ids of the containers that there are; none before the image is there."""
        written = _read_id(self._container.cidfile)
        if written is not None:
            return [written]
        wanted = f"label={self._container.label}"
        listed = self.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", wanted)
        if not listed.is_done:  # an engine that cannot look has not said that there is none
            raise _Trouble(f"its container may run on: {listed.complaint.strip()}")
        return [line for line in listed.text.split() if ID.fullmatch(line)]

    def state(self, ident: str) -> str:
        """Return the engine's word for what a container does."""
        answer = self.ask("inspect", "--type", "container", "--format", "{{.State.Status}}", ident)
        if answer.is_done:
            return answer.text.strip().lower() or _UNKNOWN
        return _GONE if _MISSING.search(answer.complaint) else _UNKNOWN

    def wait_removed(self, ident: str) -> str:
        """Give the engine some time to remove what has ended; return what is true then."""
        deadline = time.monotonic() + REMOVAL_S
        while (state := self.state(ident)) in _ENDED and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        return state

    def ask(self, *words: str, longer: float = 0) -> _Answer:
        """Run a command of the engine's; raise ``_Trouble`` if it cannot be, or does not end.

        ``longer`` is in seconds, for one that is to wait itself.
        It stays in our session, where the daemon's reaper leaves its exit status to us.
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
            raise _Trouble(f"{self._container.argv[0]} cannot be run: {error}") from None
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # not reaped yet: the number is its own
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()
            raise _Trouble(
                f"its container may run on: `{self._container.argv[0]} {words[0]}` did not answer "
                f"within {limit:g} s"
            ) from None
        text, complaint = (part[:MOST_BYTES].decode(errors="replace") for part in (out, err))
        return _Answer(process.returncode == 0, text, complaint)


def _read_id(path: str) -> str | None:
    """Return the id in a file, ``None`` for anything that is none: nothing is there yet."""
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

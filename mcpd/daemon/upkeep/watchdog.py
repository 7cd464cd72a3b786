"""A thread that ends a daemon whose event loop hangs.

A daemon that hangs holds the socket and the lock, and all clients wait. When it is dead its
guardian stops its servers, and the next client, or a service manager, starts another daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import threading
import time
from typing import Final

from mcpd.logfiles.line import now
from mcpd.logfiles.stream import reopen_nonblocking
from mcpd.observe.form import Form

EVERY_S: Final = 60.0
"""Seconds between two checks of the loop. They cost an idle daemon two wake-ups a minute."""

PATIENCE_S: Final = 5.0
"""Seconds to wait for an answer that had not come when the next check was due."""

MISSES: Final = 3
"""Consecutive waits without an answer that count as a hang, each observed in full."""

OVERSLEPT_S: Final = 1.0
"""Seconds by which a wait may be longer than asked for. If it is longer, the daemon was stopped or
the machine slept or was overloaded, and the wait says nothing about the loop."""

SPIN_S: Final = 150.0
"""Seconds of processor time without an answer: more than a loop that works can use between two."""

LAST_WORDS_S: Final = 5.0
"""Seconds for writing the log line and the stacks before the end."""


class Watchdog:
    """Asks the loop for a sign of life regularly, and kills the process when none comes.

    There are two kinds of hang. While the loop waits, or runs Python code that does not end, this
    thread runs and counts the checks that were not answered. C code that never releases the
    interpreter (a regular expression that explodes) stops this thread too, but uses the processor:
    the kernel counts that, and ends the process. A process that is stopped, on a machine that
    sleeps or is overloaded, does not answer either, but uses no processor time.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        log_fd: int = 2,
        form: Form | None = None,
        every: float = EVERY_S,
        patience: float = PATIENCE_S,
        misses: int = MISSES,
        overslept: float = OVERSLEPT_S,
        spin: float = SPIN_S,
    ) -> None:
        """All times are in seconds; ``spin`` is processor time of all threads.

        One line, in its ``form``, and all stacks are written to ``log_fd`` before the end.
        """
        self._loop = loop
        # a stopped terminal, or a pipe that is not read, must not keep the process alive
        self._log_fd = reopen_nonblocking(log_fd)
        self._form = form or Form()
        self._every = every
        self._patience = patience
        self._misses = misses
        self._overslept = overslept
        self._spin = spin
        self._is_over = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch. Call it on the loop, in the main thread."""
        faulthandler.register(signal.SIGPROF, self._log_fd, all_threads=True, chain=True)
        self._rearm()
        self._thread.start()

    def close(self) -> None:
        """Watch no more. Does not wait for the thread."""
        self._is_over.set()
        self._answered.set()
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.unregister(signal.SIGPROF)

    def _rearm(self) -> None:
        """Restart the count of processor time."""
        signal.setitimer(signal.ITIMER_PROF, self._spin)

    def _sign(self) -> None:
        if self._is_over.is_set():
            return
        self._answered.set()
        self._rearm()

    def _watch(self) -> None:
        """Ask the loop, and when asking again check whether it answered: one wake-up for both."""
        self._ask()
        while not self._is_over.wait(self._every):
            if not self._is_answered():
                self._end()
            self._ask()

    def _ask(self) -> None:
        self._answered.clear()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has ended
            self._loop.call_soon_threadsafe(self._sign)

    def _is_answered(self) -> bool:
        """Wait for an answer that has not come yet. A wait that took too long resets the count."""
        missed = 0
        while missed < self._misses:
            began = time.monotonic()
            if self._answered.wait(self._patience):
                return True
            took = time.monotonic() - began
            missed = 0 if took > self._patience + self._overslept else missed + 1
        return self._answered.is_set()

    def _end(self) -> None:
        """Log the stacks of all threads and kill the process: nothing in it can be relied on."""
        # SIGALRM ends the process if writing blocks.
        signal.setitimer(signal.ITIMER_REAL, LAST_WORDS_S)
        reason = f"its loop has not turned for {self._every + self._misses * self._patience:g} s"
        with contextlib.suppress(OSError):
            line = self._form.encode(now(), "error", "loop.hung", {"reason": reason})
            os.write(self._log_fd, line)
        with contextlib.suppress(OSError):
            faulthandler.dump_traceback(self._log_fd, all_threads=True)
        os.kill(os.getpid(), signal.SIGKILL)

"""A thread that ends a daemon whose loop no longer turns.

A daemon that hangs holds the socket and the lock, and everybody who wants it waits. When it is
dead its guardian stops its servers, and the next client, or a service manager, starts another.
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
"""Between two questions to the loop: it costs an idle daemon two wake-ups a minute."""

PATIENCE_S: Final = 5.0
"""For an answer that had not come until the next question was due."""

MISSES: Final = 3
"""So many times in a row without one, each watched from its begin to its end: a hang."""

OVERSLEPT_S: Final = 1.0
"""A wait that took so much longer was not lived through: we were stopped, or the machine slept, or
it has no time for anybody. Nothing that happened meanwhile says anything about the loop."""

SPIN_S: Final = 150.0
"""Of processor time without a sign of life: more than a loop that turns can use in between."""

LAST_WORDS_S: Final = 5.0
"""For writing them."""


class Watchdog:
    """Asks the loop for a sign of life now and then, and kills the process when none comes.

    Two kinds of hang are told from each other. A loop that waits, or runs Python code that does
    not end, leaves this thread its turns: it counts the questions that were not answered. Code in
    C that keeps the interpreter to itself (a regular expression that explodes) stops this thread,
    too, but uses the processor: the kernel counts that, and ends us by itself. A process that is
    stopped, a machine that sleeps or is overloaded, answers nothing either and uses nothing.
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
        """All times are in seconds; ``spin`` counts processor time, of all threads.

        ``log_fd`` gets one line, in its ``form``, and all stacks before the end.
        """
        self._loop = loop
        # a terminal that is stopped, or a pipe that nobody reads, must not keep us alive
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
        """Begin to watch; to be called on the loop, in the main thread."""
        faulthandler.register(signal.SIGPROF, self._log_fd, all_threads=True, chain=True)
        self._rearm()
        self._thread.start()

    def close(self) -> None:
        """Watch no more. Takes no time."""
        self._is_over.set()
        self._answered.set()
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.unregister(signal.SIGPROF)

    def _rearm(self) -> None:
        """Give the processor time that may pass until the next sign of life."""
        signal.setitimer(signal.ITIMER_PROF, self._spin)

    def _sign(self) -> None:
        if self._is_over.is_set():
            return
        self._answered.set()
        self._rearm()

    def _watch(self) -> None:
        """Ask, and look a while later whether there was an answer: one wake-up for both."""
        self._ask()
        while not self._is_over.wait(self._every):
            if not self._is_answered():
                self._end()
            self._ask()

    def _ask(self) -> None:
        self._answered.clear()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon is at its end
            self._loop.call_soon_threadsafe(self._sign)

    def _is_answered(self) -> bool:
        """Wait for what has not come yet; a wait that was longer than it should be starts anew."""
        missed = 0
        while missed < self._misses:
            began = time.monotonic()
            if self._answered.wait(self._patience):
                return True
            took = time.monotonic() - began
            missed = 0 if took > self._patience + self._overslept else missed + 1
        return self._answered.is_set()

    def _end(self) -> None:
        """Say what everybody was doing, and end at once: nothing of us can be relied on."""
        signal.setitimer(signal.ITIMER_REAL, LAST_WORDS_S)  # SIGALRM ends us, should writing block
        reason = f"its loop has not turned for {self._every + self._misses * self._patience:g} s"
        with contextlib.suppress(OSError):
            line = self._form.encode(now(), "error", "loop.hung", {"reason": reason})
            os.write(self._log_fd, line)
        with contextlib.suppress(OSError):
            faulthandler.dump_traceback(self._log_fd, all_threads=True)
        os.kill(os.getpid(), signal.SIGKILL)

"""One process of a server, from its spawn until nothing of its tree is alive."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Protocol

import msgspec

from mcpd import tasks
from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.core.lifecycle.states import State
from mcpd.ids import SlotId
from mcpd.logfiles.serverlog import ServerLog
from mcpd.logfiles.splitter import LineSplitter
from mcpd.supervise import ladder
from mcpd.supervise.containers import Containers
from mcpd.supervise.process import Child
from mcpd.upstreams.host import Reports
from mcpd.upstreams.run import Run
from mcpd.upstreams.slot import Slot
from mcpd.upstreams.stdio.failures import crash
from mcpd.upstreams.stdio.pipes import Pipes

TAIL_LINES: Final = 10
"""Lines of stderr that an error shows."""

RECENT_LINES: Final = 40
"""Lines of stderr that are searched for why the process died."""

DRAIN_S: Final = 0.2
"""For the last output of the descendants of a process that has ended; all of its own is read."""

CLOSED_S: Final = 0.5
"""For a process that closed its stdin or stdout to end as well."""

PROBE_EVERY_S: Final = 0.05
"""Between two checks whether a process has read the request that may end it."""

TROUBLE_LENGTH: Final = 300
"""Characters of a container engine's message that a warning shows."""

_UNREADY: Final = ("startup_timeout", "handshake_failed")
"""Failures of a process that runs and did not become ready."""


class ProcessLedger(Protocol):
    """The record of processes, for what cleans up after a daemon that was killed."""

    def record(self, child: Child, server: str, generation: int) -> None:
        """Write down a process that was just spawned."""

    def forget(self, child: Child) -> None:
        """Remove a process whose tree is gone."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes have in common."""

    ledger: ProcessLedger
    containers: Containers
    noise_of: Callable[[SlotId], str]
    """Returns what a process that is not ready wrote that is no message, to end an error with."""

    now: Callable[[], float]
    tell: Callable[[Fact], None]
    group: tasks.Group


class ProcessRun(Run):
    """A process with its pipes and its tree."""

    def __init__(
        self,
        child: Child,
        slot: Slot,
        reports: Reports,
        surroundings: Surroundings,
        *,
        log: ServerLog,
        grace: float,
        pipes: Callable[[Callable[[bytes], None], Callable[[], None]], Pipes],
    ) -> None:
        """``pipes`` gets what takes stderr, and what is called when stdin or stdout is closed."""
        super().__init__(grace=grace)
        self.child = child
        self._slot = slot
        self._reports = reports
        self._around = surroundings
        self._log = log
        self.channel = self._pipes = pipes(self._take_stderr, self._pipe_closed)
        self._connecting: asyncio.Task[None] | None = None
        self._probe_timer: asyncio.TimerHandle | None = None
        self._recent: deque[str] = deque(maxlen=RECENT_LINES)
        """The last lines of its stderr, secrets masked."""
        self._splitter = LineSplitter(mask_cut=self._mask_cut)

    @property
    def pid(self) -> int:
        """The process."""
        return self.child.pid

    @property
    def has_output(self) -> bool:
        """Whether it has written anything on its stdout."""
        return self._pipes.has_output

    def begin(self) -> None:
        """Connect the pipes, and report when the process ends."""
        self.child.on_exit(lambda _: self._on_exit())
        self._connecting = self._spawn_task(self._connect(), "connect")

    def mute(self) -> None:
        """Deliver and report nothing more."""
        self._pipes.mute()
        self.watch_probe(is_on=False)

    def watch_probe(self, *, is_on: bool) -> None:
        """Report when the process has read the request that may end it."""
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None
        if is_on:
            loop = asyncio.get_running_loop()
            self._probe_timer = loop.call_later(PROBE_EVERY_S, self._check_probe)

    def explain(self, failure: Failure) -> Failure:
        """Return a failure to become ready, with what the process wrote on stderr and stdout."""
        if failure.kind not in _UNREADY or "stderr" in failure.details:
            return failure
        return msgspec.structs.replace(
            failure,
            message=failure.message + self._around.noise_of(self._slot.id),
            details={**failure.details, "stderr": self._tail()},
        )

    async def end(self, grace: float) -> str | None:
        """Stop the process and its tree, or the rest of the tree of one that has ended."""
        until = self._around.now() + 2 * grace
        if self._connecting is not None:
            await asyncio.wait((self._connecting,))
        if self.child.returncode is not None:
            report = await ladder.reap_rest(self.child, grace=grace)
        else:
            close_stdin = self._pipes.close_stdin
            report = await ladder.stop(self.child, close_stdin=close_stdin, grace=grace)
        await self._pipes.drain(0)
        self._pipes.close()
        if await self._end_container(min(grace, until - self._around.now())):
            self._around.ledger.forget(self.child)
        if report.left:
            text = f"{report.left} of its processes cannot be ended"
            self._around.tell(facts.ServerWarning(self._slot.server, text))
        return None if report.step == "none" else report.step

    # -- inside ------------------------------------------------------------------------------------

    def _spawn_task(self, work: Coroutine[None, None, None], what: str) -> asyncio.Task[None]:
        return self._around.group.spawn(work, name=f"stdio.{what} {self._slot.server}")

    async def _connect(self) -> None:
        child = self.child
        await self._pipes.connect(child.stdin, child.stdout, child.stderr)
        self._reports.connected(self._slot, self)

    def _check_probe(self) -> None:
        self._probe_timer = None
        # The stderr of a package runner is not yet the server's.
        pipes = self._pipes
        has_spoken = pipes.has_spoken if self._slot.package is None else pipes.has_output
        if has_spoken or not pipes.unread_bytes():
            self._reports.probe_read(self._slot)
        else:
            self.watch_probe(is_on=True)

    def _take_stderr(self, data: bytes) -> None:
        """Log what it wrote on stderr; no bytes mean that its last line has ended."""
        lines = self._splitter.feed(data) if data else self._splitter.end()
        if lines:
            self._recent.extend(self._log.add_lines("stderr", lines))

    def _mask_cut(self, text: str) -> str:
        return self._log.redactor.mask_cut(text)  # a reload may have replaced it

    def _tail(self) -> list[str]:
        return list(self._recent)[-TAIL_LINES:]

    def _on_exit(self) -> None:
        if not self.is_down:
            self._spawn_task(self._exited(), "exited")

    async def _exited(self) -> None:
        """Report that it ended, after all of its output."""
        if self._connecting is not None:
            await asyncio.wait((self._connecting,))
        await self._pipes.drain(DRAIN_S)
        self._report_end()

    def _pipe_closed(self) -> None:
        """End a process that closed its stdin or stdout, unless it ends by itself."""
        if self.child.returncode is None and not self.is_down:
            self._spawn_task(self._closed(), "closed")

    async def _closed(self) -> None:
        if not await self.child.wait_exit(CLOSED_S):
            self._report_end()

    def _report_end(self) -> None:
        if self.is_down:
            return
        is_ready = self._slot.machine.state is State.READY
        failure = crash(
            self._slot.server,
            self.child,
            tail=self._tail(),
            recent=self._recent,
            is_ready=is_ready,
        )
        if not is_ready and (noise := self._around.noise_of(self._slot.id)):
            failure = msgspec.structs.replace(failure, message=failure.message + noise)
        self._reports.ended(self._slot, self, failure, is_clean=self.child.returncode == 0)

    async def _end_container(self, grace: float) -> bool:
        """End a container that the process had run; return whether nothing is left of it."""
        if self.child.container is None:
            return True
        left = await self._around.containers.end(self.child.container, grace=grace)
        if left is not None:
            said = self._log.redactor.excerpt(left.encode(), TROUBLE_LENGTH)
            self._around.tell(facts.ServerWarning(self._slot.server, said))
        return left is None


def process_of(slot: Slot) -> Child | None:
    """Return the process of a slot, ``None`` where it has none."""
    return slot.run.child if isinstance(slot.run, ProcessRun) else None

"""A slot: where one server's process runs, with its state machine and the waiters for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from mcpd.config import workspace
from mcpd.core.facts import Failure
from mcpd.core.lifecycle.machine import Machine, Rules
from mcpd.core.lifecycle.patience import Patience
from mcpd.core.lifecycle.states import State
from mcpd.core.policy.runners import Package
from mcpd.ids import SlotId
from mcpd.supervise.lines import LineSplitter
from mcpd.supervise.logs import ServerLog
from mcpd.supervise.process import Child, Scope

LAST_LINES = 10
"""Lines of stderr that an error includes."""

RECENT_LINES = 40
"""Lines of stderr that are searched for the reason of a crash."""


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a server's process. Holds secrets, so it is never shown."""

    server: str
    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    """The entry's own variables."""

    base_env: Mapping[str, str]
    """The environment from which it inherits, as ``inherit`` allows."""

    inherit: Literal["all", "minimal", "none"]
    cwd: str
    names_cwd: bool
    """Whether the entry sets ``cwd``; otherwise a workspace's root takes precedence."""

    of_workspace: bool = False
    """Whether it has placeholders for the root of a workspace: see ``placed``."""

    rules: Rules
    grace: float
    """Seconds, as ``stop_grace``."""

    scope: Scope
    is_typed: bool = False
    """Whether it is a client's command line and environment, without an entry."""

    package: Package | None = None
    """The package that its command downloads before it runs it."""


def placed(spec: ProcessSpec, root: str | None) -> ProcessSpec:
    """Return ``spec`` for the workspace ``root``; unchanged if that is ``None``."""
    if root is None:
        return spec
    return msgspec.structs.replace(
        spec,
        command=workspace.placed(spec.command, root),
        args=tuple(workspace.placed(each, root) for each in spec.args),
        env={name: workspace.placed(value, root) for name, value in spec.env.items()},
        cwd=workspace.placed(spec.cwd, root) if spec.names_cwd else root,
    )


def no_workspace(server: str) -> Failure:
    """Return the failure of a server that needs a workspace where there is none."""
    return Failure(
        kind="spawn_failed",
        message=f"{server} is started for a workspace, and there is none here",
        server=server,
        hint="use mcpctl in the project's directory; other clients attach with `cwd` or `roots`",
    )


class Pipes(Protocol):
    """The transport over a child's stdin, stdout and stderr."""

    @property
    def has_spoken(self) -> bool:
        """Whether it has written anything."""

    @property
    def has_output(self) -> bool:
        """Whether it has written anything to its stdout."""

    def unread_bytes(self) -> int:
        """Return how many bytes in its stdin it has not read, as far as the kernel shows."""

    async def connect(self, stdin: int, stdout: int, stderr: int) -> None: ...
    def close_stdin(self) -> None: ...
    def mute(self) -> None: ...
    async def drain(self, grace: float) -> bool: ...
    def close(self) -> None: ...


class Run:
    """One process, from its spawn until no process of its tree is left."""

    def __init__(self, child: Child, log: ServerLog, *, grace: float) -> None:
        self.child = child
        self.grace = grace
        """Seconds from closing stdin to SIGTERM, and again from SIGTERM to SIGKILL."""
        self.pipes: Pipes
        self.connected: asyncio.Task[None] | None = None
        """Connects its pipes."""
        self.ending: asyncio.Task[None] | None = None
        """Stops it, or ends its descendants after its death."""
        self.watch: asyncio.TimerHandle | None = None
        """The next check whether it reads its stdin."""
        self.is_down = False
        """Whether it was reported as unusable."""
        self.was_ready = False
        """Whether it has been ready."""
        self.recent: deque[str] = deque(maxlen=RECENT_LINES)
        """The last lines of its stderr, secrets masked."""
        self._log = log
        self._splitter = LineSplitter(mask_cut=self._mask_cut)

    @property
    def tail(self) -> list[str]:
        """The last lines of its stderr, for an error."""
        return list(self.recent)[-LAST_LINES:]

    def _mask_cut(self, text: str) -> str:
        return self._log.redactor.mask_cut(text)  # a reload may have replaced it

    def hear(self, data: bytes) -> None:
        """Process bytes of its stderr; ``b""`` is the end of the stream."""
        lines = self._splitter.feed(data) if data else self._splitter.end()
        if lines:
            self.recent.extend(self._log.add_lines("stderr", lines))


class Slot:
    """Where a server's process and its successors run, one process tree at a time."""

    def __init__(
        self,
        ident: SlotId,
        server: str,
        cwd: str | None,
        before: frozenset[Slot],
        rules: Rules,
        patience: Patience,
        package: Package | None,
    ) -> None:
        self.id = ident
        self.server = server
        self.cwd = cwd
        self.before = before
        """Slots whose process trees must have ended before a process is started here."""
        self.package = package
        self.machine = Machine(server, rules, patience)
        self.run: Run | None = None
        self.reason = ""
        """The reason of the stop in progress."""
        self.version = ""
        """The MCP revision of its process."""
        self.failed_at: datetime | None = None
        """Wall-clock time of ``machine.last_error``."""
        self.step: str | None = None
        """The last step of the stop ladder that the last stop needed."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[Failure | None]]] = []

    @property
    def is_starting(self) -> bool:
        """Whether it counts against the limit of concurrent starts."""
        if self.machine.state is not State.STARTING:
            return False
        return self.machine.is_between or (self.run is not None and not self.run.is_down)

    @property
    def is_fetching(self) -> bool:
        """Whether its package runner may be writing its cache: until it was ready, or has ended."""
        if self.package is None:
            return False
        return self.machine.is_between or (self.run is not None and not self.run.was_ready)

    @property
    def is_installing(self) -> bool:
        """Whether it is starting and its package runner may not have started the server yet."""
        run = self.run
        if self.package is None or run is None or not self.is_starting:
            return False
        return not run.pipes.has_output

    @property
    def is_empty(self) -> bool:
        """Whether no process runs here, and none is being stopped."""
        return self.run is None and self.machine.state is not State.STOPPING

    def expect(self, condition: Callable[[], bool]) -> asyncio.Future[Failure | None]:
        """Return a future that resolves when ``condition`` holds after an input, or on failure."""
        future: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        return future

    def tell_waiters(self, failure: Failure | None = None) -> None:
        """Resolve the futures whose condition holds; resolve all with ``failure`` if given."""
        waiters, self._waiters = self._waiters, []
        for condition, future in waiters:
            if future.done():
                continue
            if failure is not None or condition():
                future.set_result(failure)
            else:
                self._waiters.append((condition, future))

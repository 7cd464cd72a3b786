"""One place for a process: its machine, its process while there is one, who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar, Literal, Protocol

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
"""How much of stderr an error tells."""

RECENT_LINES = 40
"""How much of it is looked through for why the process died."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """All that has to be known of a server to run it. Holds secrets: never shown."""

    transport: ClassVar[str] = "stdio"
    """What ``mcpd/status`` calls what carries the messages of such a server."""

    server: str
    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    """The entry's own."""

    base_env: Mapping[str, str]
    """What it may inherit."""

    inherit: Literal["all", "minimal", "none"]
    cwd: str
    names_cwd: bool
    """Whether the entry says where; else a workspace's root comes first."""

    of_workspace: bool = False
    """Whether some of it is known only with a workspace's root."""

    rules: Rules
    grace: float
    """Seconds, as ``stop_grace``."""

    scope: Scope
    is_typed: bool = False
    """Whether it is a command line of a client, with its environment: there is no entry to mend."""

    package: Package | None = None
    """What its command fetches before it runs it."""


def placed(spec: Spec, root: str | None) -> Spec:
    """Return a spec as it is for a place, whose ``root`` is its workspace's, if it has one."""
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
    """Say that somebody wants a server for a workspace, and has none."""
    return Failure(
        kind="spawn_failed",
        message=f"{server} is started for a workspace, and there is none here",
        server=server,
        hint="use mcpctl in the project's directory; other clients attach with `cwd` or `roots`",
    )


class Pipes(Protocol):
    """A child's stdin, stdout and stderr, however they are read."""

    @property
    def has_spoken(self) -> bool:
        """Whether it has written anything."""

    @property
    def has_output(self) -> bool:
        """Whether it has written anything on its stdout."""

    def unread_bytes(self) -> int:
        """Return how much of what was written to it has not been read, as far as that shows."""

    async def connect(self, stdin: int, stdout: int, stderr: int) -> None: ...
    def close_stdin(self) -> None: ...
    def mute(self) -> None: ...
    async def drain(self, grace: float) -> bool: ...
    def close(self) -> None: ...


class Run:
    """One process, from its spawn until nothing of its tree is alive."""

    def __init__(self, child: Child, log: ServerLog, *, grace: float) -> None:
        self.child = child
        self.grace = grace
        """Seconds that it has to end by itself, and again after SIGTERM."""
        self.pipes: Pipes
        self.connected: asyncio.Task[None] | None = None
        """The wrapping of its pipes."""
        self.ending: asyncio.Task[None] | None = None
        """The stop, or the clearing up after its death."""
        self.watch: asyncio.TimerHandle | None = None
        """The next look at whether it has read what it is being asked."""
        self.is_down = False
        """Whether it was reported as not to be used any more."""
        self.was_ready = False
        """Whether it came so far."""
        self.recent: deque[str] = deque(maxlen=RECENT_LINES)
        """The last lines of its stderr, secrets masked."""
        self._log = log
        self._splitter = LineSplitter(mask_cut=self._mask_cut)

    @property
    def tail(self) -> list[str]:
        """The last few of them."""
        return list(self.recent)[-LAST_LINES:]

    def _mask_cut(self, text: str) -> str:
        return self._log.redactor.mask_cut(text)  # a reload may have replaced it

    def hear(self, data: bytes) -> None:
        """Take what it wrote on stderr; nothing means that its last line is over."""
        lines = self._splitter.feed(data) if data else self._splitter.end()
        if lines:
            self.recent.extend(self._log.add_lines("stderr", lines))


class Slot:
    """A place for a process and its successors; at most one tree is alive there."""

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
        """Places whose trees must be gone before anything is started here."""
        self.package = package
        self.machine = Machine(server, rules, patience)
        self.run: Run | None = None
        self.reason = ""
        """Why it is being stopped."""
        self.version = ""
        """The revision of MCP that its process speaks."""
        self.failed_at: datetime | None = None
        """When ``machine.last_error`` happened, by the wall clock."""
        self.step: str | None = None
        """How far the last stop had to go."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[Failure | None]]] = []

    @property
    def is_starting(self) -> bool:
        """Whether it takes up one of the places for starts."""
        if self.machine.state is not State.STARTING:
            return False
        return self.machine.is_between or (self.run is not None and not self.run.is_down)

    @property
    def is_fetching(self) -> bool:
        """Whether it may be filling a cache: until it was ready, or nothing of it is left."""
        if self.package is None:
            return False
        return self.machine.is_between or (self.run is not None and not self.run.was_ready)

    @property
    def is_installing(self) -> bool:
        """Whether it starts, and a package runner has perhaps not come to the server yet."""
        run = self.run
        if self.package is None or run is None or not self.is_starting:
            return False
        return not run.pipes.has_output

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs here, nor is left of anything."""
        return self.run is None and self.machine.state is not State.STOPPING

    def expect(self, condition: Callable[[], bool]) -> asyncio.Future[Failure | None]:
        """Return what is done once ``condition`` holds after an input, or with what failed."""
        future: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        return future

    def tell_waiters(self, failure: Failure | None = None) -> None:
        """Let those go on whose condition holds, and all of them with ``failure``."""
        waiters, self._waiters = self._waiters, []
        for condition, future in waiters:
            if future.done():
                continue
            if failure is not None or condition():
                future.set_result(failure)
            else:
                self._waiters.append((condition, future))

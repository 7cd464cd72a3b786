"""A house for real children: spawned, registered, and gone with the test."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd.supervise import ladder, spawn
from mcpd.supervise.process import Child, Scope
from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from mcpd.supervise.reaper import Reaper
from tests.integration.supervise.site import Site
from tests.support.pipes import close_pipes
from tests.support.waiting import wait_until_async


class House:
    """A reaper and the children that a test starts."""

    def __init__(self) -> None:
        self.daemon_id = uuid.uuid4().hex[:8]
        self.orphans: list[ProcId] = []
        self.reaper = Reaper(self.daemon_id, on_orphan=self.orphans.append)
        self.children: list[Child] = []
        self.mentioned: set[ProcId] = set()
        self._buffers: dict[int, bytes] = {}

    def start(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        server: str = "fake",
        scope: Scope = "tree",
        cwd: str = "/",
        umask: int = -1,
        nofile_soft: int | None = None,
    ) -> Child:
        """Start a command as the daemon would start a server's."""
        tag = f"{self.daemon_id}:{server}:{len(self.children) + 1}"
        launch = spawn.prepare(argv[0], argv[1:], env=env or {}, cwd=cwd, tag=tag)
        child = spawn.spawn(launch, tag=tag, umask=umask, nofile_soft=nofile_soft, scope=scope)
        self.children.append(child)
        return self.reaper.register(child)

    def python(self, source: str, *args: str, **options: Any) -> Child:
        """Start a small Python program."""
        return self.start(sys.executable, "-I", "-S", "-c", source, *args, **options)

    def sh(self, source: str, *args: str, **options: Any) -> Child:
        """Start a shell script; ``$1`` and so on are ``args``."""
        return self.start("sh", "-c", source, "sh", *args, **options)

    async def line(self, fd: int) -> str:
        """Return the next line from one of a child's pipes."""

        def whole() -> bool:
            with contextlib.suppress(BlockingIOError):
                self._buffers[fd] = self._buffers.get(fd, b"") + os.read(fd, 65536)
            return b"\n" in self._buffers.get(fd, b"")

        await wait_until_async(whole, what="a line")
        line, _, self._buffers[fd] = self._buffers[fd].partition(b"\n")
        return line.decode()

    async def mentions(self, child: Child, count: int = 1) -> list[ProcId]:
        """Return the processes whose pids a child prints, one a line; they end with the test."""
        found = []
        for _ in range(count):
            identity = procfs.identify(int(await self.line(child.stdout)))
            assert identity is not None
            found.append(identity)
        self.mentioned.update(found)
        return found

    async def stop(self, child: Child, grace: float = 5.0) -> ladder.StopReport:
        """Stop a child; its stdin is closed once."""
        return await ladder.stop(child, close_stdin=lambda: self.close_stdin(child), grace=grace)

    def close_stdin(self, child: Child) -> None:
        if child.stdin >= 0:
            os.close(child.stdin)
            child.stdin = -1

    async def close(self) -> None:
        """Leave nothing behind."""
        for child in self.children:
            child.signal_group(signal.SIGKILL)
        for process in self.mentioned:
            procfs.send(process, signal.SIGKILL)
        for child in self.children:
            await child.wait_exit(5)
            close_pipes(child)
        for process in self.mentioned:
            await wait_until_async(lambda process=process: not procfs.lives(process))
        self.reaper.close()


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    made.reaper.start()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.close()

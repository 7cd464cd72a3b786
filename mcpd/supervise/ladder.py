"""The stop ladder: closes stdin, sends SIGTERM, then SIGKILL, until the whole tree is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Literal

import msgspec

from mcpd.supervise import tree
from mcpd.supervise.process import Child, Scope
from mcpd.supervise.proctable.procfs import ProcId

Step = Literal["none", "eof", "term", "kill"]

STRAGGLERS_S = 1.0
"""Seconds for descendants to end by themselves after the server; at most a fifth of the grace."""

KILL_LIMIT_S = 5.0
"""Seconds for SIGKILL to take effect; after that only processes stuck in the kernel are left."""

KILL_ROUND_S = 0.2
"""Seconds between a SIGKILL and the next scan for processes that were started before it."""


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a process tree was stopped."""

    step: Step
    """The last step that was needed; ``none``: the whole tree had ended by itself."""

    killed: int = 0
    """How many processes got SIGKILL."""

    left: int = 0
    """How many still run: stuck in the kernel, or of another user."""


async def stop(
    child: Child,
    *,
    close_stdin: Callable[[], None],
    grace: float,
    scope: Scope | None = None,
) -> StopReport:
    """End a child and its tree: close its stdin, send SIGTERM, then SIGKILL, ``grace`` s apart.

    SIGTERM goes to the process group (``npx`` and ``uvx`` run the real server as a grandchild),
    and to the rest of the tree if that outlives the child; SIGKILL goes to the whole tree.
    ``scope`` overrides the child's. Returns as soon as no process of the tree is left. After a
    cancellation the steps already taken stay in effect, and calling it again starts at the first.

    Source: MCP 2025-11-25, basic/lifecycle, "Shutdown", stdio.
    """
    child.scope = scope or child.scope
    loop = asyncio.get_running_loop()
    # Scan before anything ends: afterwards nothing shows which tree an orphan belonged to.
    await tree.members(child)
    close_stdin()
    until = loop.time() + grace
    step: Step = "eof"
    signalled: set[ProcId] = set()
    if not await child.wait_exit(grace):
        step = "term"
        signalled = {each.id for each in await tree.members(child) if each.pgid == child.pgid}
        child.signal_group(signal.SIGTERM)
        until = loop.time() + grace
        if not await child.wait_exit(grace):
            return await _kill(child)
    wait = min(grace / 5, STRAGGLERS_S)
    return await _end_rest(child, step, until=until, wait=wait, signalled=signalled)


async def reap_rest(child: Child, *, grace: float, scope: Scope | None = None) -> StopReport:
    """End the descendants of a child that has ended: SIGTERM, then SIGKILL ``grace`` seconds later.

    Until this returns no new process of the same server may start.
    """
    child.scope = scope or child.scope
    until = asyncio.get_running_loop().time() + grace
    return await _end_rest(child, "none", until=until, wait=0, signalled=set())


async def _end_rest(
    child: Child, step: Step, *, until: float, wait: float, signalled: set[ProcId]
) -> StopReport:
    """End the tree of an ended child: SIGTERM after ``wait`` seconds, SIGKILL at ``until``."""
    loop = asyncio.get_running_loop()
    left = await _left(child)
    if left and wait:
        await tree.wait_gone(left, min(wait, until - loop.time()))
        left = await _left(child)
    while left:
        step = "term"
        signalled.update(tree.signal_all(left - signalled, signal.SIGTERM))
        if loop.time() >= until:
            return await _kill(child)
        await tree.wait_gone(left, until - loop.time())
        left = await _left(child)
    return _ended(child, step)


async def _kill(child: Child) -> StopReport:
    """Send SIGKILL to the tree, and to processes started in between, until none is left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + KILL_LIMIT_S
    killed: set[ProcId] = set()
    while left := await _left(child):
        if loop.time() > deadline:
            return StopReport(step="kill", killed=len(killed - left), left=len(left))
        child.signal_group(signal.SIGKILL)
        tree.signal_all(left, signal.SIGKILL)
        killed |= left
        await tree.wait_gone(left, KILL_ROUND_S)
    await child.wait_exit(KILL_LIMIT_S)
    return _ended(child, "kill", killed=len(killed))


async def _left(child: Child) -> set[ProcId]:
    """Return the living processes of the tree.

    An empty result is verified by a second scan: one scan can miss a process whose parent started
    it and ended while the table was read.
    """
    found = await tree.members(child) or await tree.members(child)
    return {each.id for each in found}


def _ended(child: Child, step: Step, *, killed: int = 0) -> StopReport:
    child.ended = True
    return StopReport(step=step, killed=killed)

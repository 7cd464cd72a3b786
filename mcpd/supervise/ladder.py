"""The stop ladder: end of input, SIGTERM, SIGKILL, and proof that nothing is left."""

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
"""For descendants to end by themselves once the server has; at most a fifth of the grace."""

KILL_LIMIT_S = 5.0
"""For SIGKILL to take effect: longer than that only processes stuck in the kernel live on."""

KILL_ROUND_S = 0.2
"""Between a SIGKILL and the next look for what was born meanwhile."""


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree came to its end."""

    step: Step
    """The highest rung that was needed; ``none``: it had ended by itself, all of it."""

    killed: int = 0
    """How many processes got SIGKILL."""

    left: int = 0
    """How many run on in spite of it: stuck in the kernel, or not ours to signal."""


async def stop(
    child: Child,
    *,
    close_stdin: Callable[[], None],
    grace: float,
    scope: Scope | None = None,
) -> StopReport:
    """End a child and its tree: close its stdin, then SIGTERM, then SIGKILL.

    ``grace`` is in seconds, and twice that is given at most. SIGTERM goes to the process group
    (``npx`` and ``uvx`` run the real server as a grandchild), and to the rest of the tree when
    the child has gone and the rest does not follow; SIGKILL to all of it. ``scope`` overrides
    the child's. Returns when the tree is proven gone, at once for a polite server. Cancelling
    leaves it on the rung it is on; stopping again goes on from the first.

    Source: MCP 2025-11-25, basic/lifecycle, "Shutdown", stdio.
    """
    child.scope = scope or child.scope
    loop = asyncio.get_running_loop()
    # A look before anything ends: afterwards nothing shows whose child an orphan was.
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
    patience = min(grace / 5, STRAGGLERS_S)
    return await _end_rest(child, step, until=until, patience=patience, signalled=signalled)


async def reap_rest(child: Child, *, grace: float, scope: Scope | None = None) -> StopReport:
    """End what a child that has ended by itself left behind; ``grace`` seconds after SIGTERM.

    Until this returns no new process of the same server may start.
    """
    child.scope = scope or child.scope
    until = asyncio.get_running_loop().time() + grace
    return await _end_rest(child, "none", until=until, patience=0, signalled=set())


async def _end_rest(
    child: Child, step: Step, *, until: float, patience: float, signalled: set[ProcId]
) -> StopReport:
    """End the tree of a child that has ended; SIGTERM after ``patience``, SIGKILL at ``until``."""
    loop = asyncio.get_running_loop()
    left = await _left(child)
    if left and patience:
        await tree.wait_gone(left, min(patience, until - loop.time()))
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
    """Kill the tree, and what is born meanwhile, until nothing is left."""
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
    """Return what runs of the tree.

    Nothing found is looked for once more: one look can miss a process whose parent started it
    and ended while the table was read.
    """
    found = await tree.members(child) or await tree.members(child)
    return {each.id for each in found}


def _ended(child: Child, step: Step, *, killed: int = 0) -> StopReport:
    child.ended = True
    return StopReport(step=step, killed=killed)

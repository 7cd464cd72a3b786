"""Starts that wait until the login shell has answered and the configuration was read again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcpd.daemon.servers.unresolved import UnresolvedHost


class Shell:
    """A login shell that answers when it is told to."""

    def __init__(self) -> None:
        self.variables: Mapping[str, str] | None = None
        self.told = ""
        self.asked = 0

    def ask(self) -> None:
        self.asked += 1


class World:
    """A host, and what it did."""

    def __init__(self) -> None:
        self.shell: Any = Shell()
        self.may_reload = asyncio.Event()
        self.called: list[str] = []
        self.host = UnresolvedHost(self.shell, self.may_reload.wait)
        self.spec: Any = None

    def must_wait(self, name: str) -> bool:
        return self.host.must_wait(self.spec, lambda: self.called.append(name))

    async def answer(self) -> None:
        self.shell.variables = {"A": "1"}
        self.host.answered()
        await asyncio.sleep(0)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_start_has_the_shell_asked_and_waits_until_the_configuration_was_read() -> None:
    world = World()
    assert world.must_wait("one")
    assert world.shell.asked == 1
    assert world.host.login is None
    await world.answer()
    assert world.host.login is not None
    assert world.must_wait("two")
    assert world.called == []
    world.may_reload.set()
    await settled()
    assert sorted(world.called) == ["one", "two"]
    assert not world.must_wait("three")


async def test_another_answer_is_waited_for_and_nobody_is_called_twice() -> None:
    world = World()
    assert world.must_wait("one")
    world.may_reload.set()
    await world.answer()
    await settled()
    world.may_reload.clear()
    await world.answer()
    assert world.must_wait("two")
    waiting = asyncio.create_task(world.host.wait())
    await settled()
    assert not waiting.done()
    world.may_reload.set()
    await settled()
    assert world.called == ["one", "two"]
    assert waiting.done()
    await world.host.wait()

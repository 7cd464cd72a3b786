"""The front is turned on and off as the configuration says."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.config.addresses import Address
from mcpd.config.schema import HttpConfig
from mcpd.daemon.http.switch import HttpSwitch


class Front:
    """A front that only says what it was asked."""

    made: list[Front]

    def __init__(self, **_: Any) -> None:
        self.log: list[str] = []
        self.problems: list[str] = []
        self.tokens = SimpleNamespace(trouble=None)
        Front.made.append(self)

    async def listen(self, addresses: tuple[Address, ...]) -> list[str]:
        self.log.append("listen " + " ".join(address.text for address in addresses))
        return self.problems

    async def drain(self) -> None:
        self.log.append("drain")

    async def close(self, _flush_s: float) -> None:
        self.log.append("close")


@pytest.fixture(autouse=True)
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    Front.made = []

    def load(name: str) -> Any:
        names.append(name)
        return SimpleNamespace(HttpFront=Front)

    monkeypatch.setattr(importlib, "import_module", load)
    return names


async def test_it_is_imported_with_the_first_address(imported: list[str]) -> None:
    config = HttpConfig()
    switch = HttpSwitch(lambda: config, lambda _: None)
    assert await switch.apply() == []
    assert not imported
    config = HttpConfig(listen=("127.0.0.1:1",))
    assert await switch.apply() == []
    config = HttpConfig(listen=("127.0.0.1:1", "unix:/a"))
    await switch.apply()
    assert imported == ["mcpd.daemon.http.front"]
    config = HttpConfig()
    await switch.apply()
    [front] = Front.made
    assert front.log == ["listen 127.0.0.1:1", "listen 127.0.0.1:1 unix:/a", "close"]


async def test_a_problem_is_reported_once_while_it_lasts() -> None:
    told: list[str] = []
    switch = HttpSwitch(lambda: HttpConfig(listen=("127.0.0.1:1",)), told.append)
    await switch.apply()
    Front.made[0].problems = ["in use"]
    assert await switch.apply() == ["in use"]
    assert await switch.apply() == ["in use"]
    assert told == switch.problems == ["in use"]
    Front.made[0].problems = []
    Front.made[0].tokens.trouble = "unreadable"
    await switch.apply()
    assert switch.problems == ["http.auth: no token can be used: unreadable"]
    await switch.close()


async def test_a_server_that_cannot_be_loaded_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(_: str) -> Any:
        raise ImportError("no uvicorn")

    monkeypatch.setattr(importlib, "import_module", load)
    switch = HttpSwitch(lambda: HttpConfig(listen=("127.0.0.1:1",)), lambda _: None)
    [problem] = await switch.apply()
    assert "no uvicorn" in problem
    await switch.close()


async def test_a_daemon_that_ends_opens_nothing_more() -> None:
    switch = HttpSwitch(lambda: HttpConfig(listen=("127.0.0.1:1",)), lambda _: None)
    await switch.apply()
    await switch.drain()
    await switch.apply()
    await switch.close()
    assert Front.made[0].log == ["listen 127.0.0.1:1", "drain", "close"]

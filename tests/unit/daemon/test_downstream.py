"""Listeners follow the configuration; sessions last from open to close, whatever carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from mcpd.config.schema import DaemonConfig
from mcpd.core.interface.events import FrameFromSession, SessionClosed, SessionOpened
from mcpd.daemon.downstream import Listener, Listeners, Outbox, Sessions
from mcpd.ids import SessionId
from tests.support.memoryupstream import MemoryOutbox
from tests.support.transcript import USER
from tests.support.waiting import wait_until_async


class Port:
    """A listener that only says whether it accepts."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def start(self) -> None:
        self.log.append("start")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.log.append("close")


class Ports:
    """Listeners for the addresses in ``wanted``."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.made: dict[str, list[Port]] = {}
        self.listeners = Listeners(self._wanted)

    def _wanted(self, _config: DaemonConfig) -> Mapping[Hashable, Callable[[], Listener]]:
        return {address: lambda address=address: self._make(address) for address in self.wanted}

    def _make(self, address: str) -> Port:
        port = Port()
        self.made.setdefault(address, []).append(port)
        return port

    def apply(self, *addresses: str) -> None:
        self.wanted = list(addresses)
        self.listeners.apply(DaemonConfig())


async def test_a_reload_opens_closes_and_keeps_listeners():
    ports = Ports()
    ports.apply("unix")
    ports.apply("unix", "http")
    assert [port.log for port in ports.made["unix"] + ports.made["http"]] == [["start"]] * 2
    ports.apply("unix")
    await wait_until_async(lambda: ports.made["http"][0].log == ["start", "close"])
    ports.apply("unix", "http")
    assert [len(made) for made in ports.made.values()] == [1, 2]
    await ports.listeners.close()
    assert ports.made["unix"][0].log == ports.made["http"][1].log == ["start", "close"]


class Recorded:
    """A dispatcher that keeps what it gets."""

    def __init__(self) -> None:
        self.outboxes: dict[SessionId, Outbox] = {}
        self.events: list[Any] = []

    def dispatch(self, event: Any) -> None:
        self.events.append(event)


def test_a_session_lasts_from_open_to_close_and_its_id_is_never_used_again():
    events = Recorded()
    sessions = Sessions(events)
    first = sessions.open(MemoryOutbox, USER, in_reserve=True)
    sessions.take_frame(first.session, b"{}")
    sessions.close(first.session, "over")
    second = sessions.open(MemoryOutbox, USER)
    assert events.events == [
        SessionOpened(first.session, USER, True),
        FrameFromSession(first.session, b"{}"),
        SessionClosed(first.session, "over"),
        SessionOpened(second.session, USER, False),
    ]
    assert second.session != first.session
    assert events.outboxes == {second.session: second}


def test_a_notification_goes_to_the_outbox_of_its_session_and_else_nowhere():
    sessions = Sessions(Recorded())
    outbox = sessions.open(MemoryOutbox, USER)
    sessions.notify(outbox.session, b'{"method":"x"}')
    sessions.notify(SessionId(99), b'{"method":"y"}')
    assert outbox.messages == [{"method": "x"}]

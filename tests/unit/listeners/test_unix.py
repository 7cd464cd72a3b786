"""Who may come in over the socket, and how many."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId
from mcpd.listeners import unix
from mcpd.listeners.connection import Connection, Outboxes
from mcpd.listeners.peer import Peer
from tests.support.waiting import wait_until_async


class Listening:
    """A listener on a socket of its own, with what it did."""

    def __init__(self, folder: Path, most: int = 10) -> None:
        self.path = str(folder / "s")
        self.lines: list[bytes] = []
        self.refused: list[str] = []
        self.peers: list[Peer] = []
        self.usable_fds = 1 << 30
        self.control_fds = 1 << 30
        self.connections: dict[SessionId, Connection] = {}
        self.in_reserve: list[SessionId] = []
        self.admitted: list[SessionId] = []
        self.busy: set[SessionId] = set()
        self.listener = unix.UnixListener(
            self._bind(),
            most=most,
            usable_fds=lambda: (self.usable_fds, self.control_fds),
            connect=self._connect,
            admitted=lambda each: self.admitted.append(each.session),
            is_idle=lambda each: each.session not in self.busy,
            refused=self.refused.append,
        )

    def _bind(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(self.path)
        bound.listen(16)
        bound.setblocking(False)
        return bound

    def _connect(self, peer: Peer, in_reserve: bool) -> Connection:
        self.peers.append(peer)
        session = SessionId(len(self.peers))
        if in_reserve:
            self.in_reserve.append(session)
        made = self.connections[session] = Connection(
            session,
            max_frame_bytes=1000,
            outboxes=Outboxes(one_bytes=1000, memory=Memory(1000)),
            on_frame=lambda _session, frame: self.lines.append(bytes(frame)),
            on_closed=self._closed,
        )
        return made

    def _closed(self, session: SessionId, _reason: str) -> None:
        self.listener.ended(self.connections.pop(session))

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        client.connect(self.path)
        return client


@pytest.fixture
async def folder() -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mcpd-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
async def listening(folder: Path) -> AsyncIterator[Listening]:
    made = Listening(folder)
    made.listener.start()
    yield made
    await made.listener.close()


async def test_the_daemons_own_user_may_connect(listening: Listening) -> None:
    with listening.connect() as client:
        client.sendall(b"hello\n")
        await wait_until_async(lambda: listening.lines == [b"hello"])
        assert listening.listener.count == 1
    await wait_until_async(lambda: listening.listener.count == 0)


async def test_nothing_is_read_from_another_user(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B118: file modes are opened by hand, and on some systems they count for nothing.
    """
    monkeypatch.setattr(unix, "credentials", lambda _: Peer(pid=77, uid=12345, gid=1))
    with listening.connect() as client:
        client.sendall(b"hello\n")
        await wait_until_async(lambda: listening.refused)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(10) == b""
    assert "12345" in listening.refused[0]
    assert listening.lines == []
    assert listening.peers == []


async def test_a_connection_over_the_limit_is_refused(folder: Path) -> None:
    listening = Listening(folder, most=1)
    listening.listener.start()
    with contextlib.ExitStack() as clients:
        for _ in range(1 + unix.RESERVE):
            clients.enter_context(listening.connect())
        await wait_until_async(lambda: listening.listener.count == 1 + unix.RESERVE)
        told = len(listening.refused)
        late = clients.enter_context(listening.connect())
        answer = json.loads(await asyncio.to_thread(late.recv, 1 << 16))
        assert answer["error"]["data"]["kind"] == "rate_limited"
        assert len(listening.refused) == told + 1
        assert listening.listener.count == 1 + unix.RESERVE
    await wait_until_async(lambda: listening.listener.count == 0)
    with listening.connect() as client:
        client.sendall(b"now\n")
        await wait_until_async(lambda: listening.lines == [b"now"])
    await listening.listener.close()


async def test_without_descriptors_it_pauses_and_recovers(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B143: the loop would come back at once, for as long as somebody waits at the listening.
    """
    monkeypatch.setattr(unix, "PAUSE_S", 0.05)
    tries = 0
    real = listening.listener._socket

    class Exhausted:
        """A socket whose process has no descriptor left, three times."""

        def fileno(self) -> int:
            return real.fileno()

        def accept(self) -> tuple[socket.socket, object]:
            nonlocal tries
            tries += 1
            if tries <= 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

        def close(self) -> None:
            real.close()

    listening.listener.stop()
    listening.listener._socket = Exhausted()  # type: ignore[assignment]
    listening.listener.start()
    with listening.connect() as client:
        client.sendall(b"patience\n")
        await wait_until_async(lambda: listening.lines == [b"patience"])
    assert len(listening.refused) == 1, "one thing is told once"
    assert tries <= 6


async def test_no_connection_gets_a_descriptor_that_is_kept_for_the_daemon(
    listening: Listening,
) -> None:
    """
    B143: with none left, the daemon could not even see whether a process has gone.
    """
    listening.usable_fds = listening.control_fds = 0
    with listening.connect() as client, client.makefile("rb") as file:
        told = json.loads(await asyncio.to_thread(file.readline))
        assert await asyncio.to_thread(file.readline) == b""
    assert (told["id"], told["error"]["data"]["kind"]) == (None, "rate_limited")
    assert "descriptors" in told["error"]["message"]
    assert (listening.peers, listening.listener.count) == ([], 0)
    with listening.connect(), listening.connect():
        pass
    listening.usable_fds = listening.control_fds = 1 << 30
    with listening.connect() as client:
        client.sendall(b"now\n")
        await wait_until_async(lambda: listening.lines == [b"now"])
    assert len(listening.refused) == 1


async def test_another_socket_takes_the_place_of_a_lost_one(listening: Listening) -> None:
    Path(listening.path).unlink()
    listening.listener.replace(listening._bind())
    with listening.connect() as client:
        client.sendall(b"again\n")
        await wait_until_async(lambda: listening.lines == [b"again"])


async def test_connections_over_the_limit_are_accepted_for_control_alone(folder: Path) -> None:
    """
    They are as the others once one of those has ended, the oldest first.
    """
    listening = Listening(folder, most=2)
    listening.listener.start()
    first = listening.connect()
    with listening.connect(), listening.connect() as third, listening.connect():
        await wait_until_async(lambda: listening.listener.count == 4)
        assert listening.in_reserve == [3, 4]
        third.sendall(b"status\n")
        await wait_until_async(lambda: listening.lines == [b"status"])
        assert listening.admitted == []
        first.close()
        await wait_until_async(lambda: listening.admitted == [3])
        assert listening.listener.count == 3
    await wait_until_async(lambda: listening.listener.count == 0)
    await listening.listener.close()


async def test_a_served_connection_of_the_reserve_makes_room_for_the_next(folder: Path) -> None:
    """
    A connection that stays, as that of a stream, keeps nobody from looking and stopping. One that
    is owed an answer keeps its place.
    """
    listening = Listening(folder, most=0)
    listening.listener.start()
    with contextlib.ExitStack() as clients:
        held = [clients.enter_context(listening.connect()) for _ in range(unix.RESERVE)]
        for client in held[:2]:
            client.sendall(b"events\n")
        await wait_until_async(lambda: len(listening.lines) == 2)
        await wait_until_async(lambda: listening.listener.count == unix.RESERVE)
        listening.busy.add(SessionId(1))
        late = clients.enter_context(listening.connect())
        late.sendall(b"status\n")
        await wait_until_async(lambda: len(listening.lines) == 3)
        assert SessionId(1) in listening.connections
        assert SessionId(2) not in listening.connections
        told = json.loads(await asyncio.to_thread(held[1].makefile("rb").readline))
        assert told["error"]["data"]["kind"] == "rate_limited"
        assert listening.listener.count == unix.RESERVE
    await wait_until_async(lambda: listening.listener.count == 0)
    await listening.listener.close()


async def test_a_silent_connection_of_the_reserve_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "FIRST_REQUEST_S", 0.05)
    listening = Listening(folder, most=0)
    listening.listener.start()
    with listening.connect() as silent, listening.connect() as speaks:
        speaks.sendall(b"hello\n")
        assert await asyncio.to_thread(silent.recv, 10) == b""
        assert listening.listener.count == 1
    await listening.listener.close()


async def test_descriptors_that_are_kept_for_control_serve_control(listening: Listening) -> None:
    listening.usable_fds = 0
    with listening.connect() as client:
        client.sendall(b"status\n")
        await wait_until_async(lambda: listening.lines == [b"status"])
    assert listening.in_reserve == [1]

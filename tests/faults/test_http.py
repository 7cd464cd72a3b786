"""Faults of clients that speak HTTP: daemons that die under them, disks, ports, deaf readers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.test_disks import Inside, small
from tests.support.daemon import Box, Json
from tests.support.httpclient import HttpClient, token, turned_on
from tests.support.httpcrowd import STREAM, Cut, Member
from tests.support.waiting import scaled, wait_until, wait_until_async

URI = "fake://a"
SLEEP_MS = 40
AT_WORK = 50
"""Sessions that call all the time; the others have only their streams open."""

LIVES_S = 0.5
"""For how long everybody is at work between two deaths."""


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    try:
        yield made.fake()
    finally:
        made.close()


class Client:
    """A session whose stream is always open again, and which calls if it is ``at_work``."""

    def __init__(self, client: HttpClient, number: int) -> None:
        self.member = Member(client.path, client.token)
        self.number = number
        self.heard: list[str] = []
        """Methods of what came on the stream of unasked messages."""
        self.is_listening = False
        self.answers = 0
        self.unknown = 0
        """Calls whose outcome is unknown, as the daemon says after the resumption."""
        self.resumed = 0
        """Calls whose stream broke."""
        self._dice = random.Random(number)

    async def listen(self) -> None:
        """Keep the stream open; what is no stream is a session that is lost."""
        last: str | None = None
        while True:
            with contextlib.suppress(Cut, OSError):
                async with await self.member.listen(last) as wire:
                    assert wire.status == 200, f"{self.number}: {wire.status}"
                    self.is_listening = True
                    while (event := await wire.event()) is not None:
                        last = event.get("id", last)
                        if event.get("data"):
                            self.heard.append(json.loads(event["data"])["method"])
            self.is_listening = False
            await asyncio.sleep(0.05 + self._dice.random() * 0.1)

    async def work(self) -> None:
        """Call, one call after the other."""
        while True:
            await self.call()
            await asyncio.sleep(self._dice.random() * 0.1)

    async def call(self) -> None:
        """Call once: there is one answer, or the outcome is unknown, whatever breaks."""
        text = f"{self.number}/{self._dice.random()}"
        asked = self.member.request("tools/call", {"name": "echo", "arguments": {"text": text}})
        if self._dice.random() < 0.7:
            asked["params"] = {"name": "sleep", "arguments": {"ms": SLEEP_MS}}
            text = f"slept {SLEEP_MS}"
        found, last = await self._answers(asked, None)
        self.resumed += not found and last is not None
        while not found and last is not None:
            found, last = await self._answers(asked, last)
        if not found:
            return  # it was not taken, or nothing of its stream came: there is no daemon
        (answer,) = found
        assert answer["id"] == asked["id"]
        if "error" in answer:
            assert answer["error"]["data"]["kind"] == "outcome_unknown", answer
            self.unknown += 1
        else:
            assert answer["result"]["content"][0]["text"] == text
            self.answers += 1

    async def _answers(self, asked: Json, last: str | None) -> tuple[list[Json], str | None]:
        """Return what came up to the end of a stream, and the id to go on after."""
        found: list[Json] = []
        try:
            wire = await (
                self.member.post(asked, STREAM) if last is None else self.member.listen(last)
            )
        except (Cut, OSError):
            await asyncio.sleep(0.05)
            return found, last
        async with wire:
            if wire.status == 503 and last is None:
                return found, None  # it is draining
            assert wire.status == 200, f"{wire.status}: {await wire.json()}"
            with contextlib.suppress(Cut):
                while (event := await wire.event()) is not None:
                    last = event.get("id", last)
                    if event.get("data"):
                        found.append(json.loads(event["data"]))
        return found, last


async def drill(box: Box, client: HttpClient, sessions: int, rounds: int) -> str:
    """Kill the daemon ``rounds`` times and replace it as often; return the figures."""
    clients = [Client(client, number) for number in range(sessions)]
    for some in (clients[at : at + 50] for at in range(0, sessions, 50)):
        await asyncio.gather(*(each.member.begin() for each in some))
    await asyncio.gather(
        *(_ok(each.member, "resources/subscribe", {"uri": URI}) for each in clients[:AT_WORK])
    )
    loop = asyncio.get_running_loop()
    gaps: list[float] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.listen()) for each in clients]
        tasks += [group.create_task(each.work()) for each in clients[:AT_WORK]]

        def all_are_there() -> bool:
            return all(each.is_listening for each in clients)

        await wait_until_async(all_are_there, 60, what="the first streams")
        for _ in range(rounds):
            await asyncio.sleep(LIVES_S)
            before = [each.answers for each in clients[:AT_WORK]]
            assert box.daemon
            began = loop.time()
            box.daemon.send_signal(signal.SIGKILL)
            await asyncio.to_thread(box.daemon.wait)
            await asyncio.to_thread(box.up)
            await wait_until_async(
                all_are_there, 60, what=lambda: f"{_missing(clients)} streams are not open"
            )
            await wait_until_async(
                lambda before=before: all(  # type: ignore[misc]
                    each.answers > count for each, count in zip(clients, before, strict=False)
                ),
                60,
                what="answers of the next daemon",
            )
            gaps.append(loop.time() - began)
        for task in tasks[sessions:]:
            task.cancel()
        assert {method for each in clients for method in each.heard} == set(), "nothing changed"
        await _everybody_is_told(clients)
        for task in tasks:
            task.cancel()
    gaps.sort()
    found = {
        name: sum(getattr(each, name) for each in clients)
        for name in ("answers", "resumed", "unknown")
    }
    assert found["unknown"] <= found["resumed"]
    return (
        f"{sessions} sessions and streams, {rounds} kills: everybody is served again after "
        f"p50 {gaps[len(gaps) // 2]:.2f} s, max {gaps[-1]:.2f} s; {found}"
    )


async def _everybody_is_told(clients: list[Client]) -> None:
    """Change what each session listens to: it hears of it once."""
    first = clients[0].member
    await first.call("touch", uri=URI)
    await first.call("grow", name="new")
    updated, changed = "notifications/resources/updated", "notifications/tools/list_changed"

    def is_told() -> bool:
        return all(changed in each.heard for each in clients) and all(
            updated in each.heard for each in clients[:AT_WORK]
        )

    await wait_until_async(is_told, 30, what="the change on each stream")
    for number, each in enumerate(clients):
        wanted = [updated, changed] if number < AT_WORK else [changed]
        assert sorted(each.heard) == sorted(wanted), number


async def _ok(member: Member, method: str, params: Json) -> None:
    async with await member.post(member.request(method, params)) as wire:
        found = await wire.json()
    assert "result" in found, found


def _missing(clients: list[Client]) -> int:
    return sum(not each.is_listening for each in clients)


@pytest.mark.timeout(120)
async def test_no_session_is_lost_when_the_daemon_is_killed(box: Box) -> None:
    """
    Each request has one answer, or its outcome is unknown when its stream is resumed.
    """
    await drill(box, turned_on(box), sessions=100, rounds=3)


@pytest.mark.drill
@pytest.mark.timeout(3600)
async def test_the_whole_drill_over_http(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A thousand sessions with a thousand streams, fifty deaths; `make drill`.
    """
    rounds = int(os.environ.get("DRILL_ROUNDS", "50"))
    told = await drill(box, turned_on(box), sessions=1000, rounds=rounds)
    with capsys.disabled():
        print(f"\n{told}")


# -- a client that does not read ---------------------------------------------------------------


MIB = 1 << 20


def unread(client: HttpClient, headers: dict[str, str], ident: int) -> socket.socket:
    """Call for 16 MiB, and read the head of the response alone."""
    arguments = {"name": "blob", "arguments": {"bytes": 16 * MIB}}
    asked = {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": arguments}
    body = json.dumps(asked).encode()
    head = {
        "Host": "localhost",
        "Authorization": f"Bearer {client.token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(scaled(20))
    connection.connect(str(client.path))
    connection.sendall(f"POST /mcp/fake HTTP/1.1\r\n{lines}\r\n".encode() + body)
    return connection


def memory_of(box: Box) -> int:
    """Return the daemon's resident memory in bytes."""
    assert box.daemon
    status = Path(f"/proc/{box.daemon.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["session", "alone"])
def test_clients_that_read_nothing_hurt_nobody_and_cost_bounded_memory(box: Box, kind: str) -> None:
    """
    Forty results of 16 MiB that nobody reads: those that hold the most give way.
    """
    box.settings["max_buffered_bytes"] = 100 * MIB
    client = turned_on(box)
    good = client.session()
    deaf = client.session().headers if kind == "session" else {"MCP-Protocol-Version": "2025-06-18"}
    before, most = memory_of(box), 0
    connections = []
    try:
        for number in range(40):
            connections.append(unread(client, deaf, 100 + number))
            assert good.text("echo", text=str(number)) == str(number)
            most = max(most, memory_of(box))
        for number in range(20):
            assert good.text("echo", text=str(number)) == str(number)
            wait_until(lambda: box.status()["in_flight"] == 0, 60)
            most = max(most, memory_of(box))
        assert most - before < 260 * MIB, f"{(most - before) // MIB} MiB"
    finally:
        for connection in connections:
            connection.close()
    assert len(good.text("blob", bytes=16 * MIB)) == 16 * MIB


def test_results_that_nobody_fetches_are_not_held_without_end(box: Box) -> None:
    """
    A stream is held for its client to resume it. A client that never does cannot fill the memory.
    """
    box.settings["max_buffered_bytes"] = 50 * MIB
    client = turned_on(box)
    good, leaving = client.session(), client.session()
    before = memory_of(box)
    for number in range(60):
        leaving.headers["Accept"] = "text/event-stream"
        with leaving.post("tools/call", {"name": "blob", "arguments": {"bytes": 4 * MIB}}):
            pass  # the head has come
        assert good.text("echo", text=str(number)) == str(number)
        wait_until(lambda: box.status()["in_flight"] == 0, 20)
    assert memory_of(box) - before < 120 * MIB, f"{(memory_of(box) - before) // MIB} MiB"
    assert len(good.text("blob", bytes=4 * MIB)) == 4 * MIB


# -- a disk that is full -----------------------------------------------------------------------


@pytest.mark.slow
def test_sessions_live_while_the_disk_is_full_and_are_saved_later(box: Box) -> None:
    """
    What cannot be written is told once, and written as soon as there is room.
    """
    client = HttpClient(box)
    client.token = token(box)  # it is on the disk that the small one hides
    tokens = (box.state / "tokens.json").read_bytes()
    box.http = {"listen": client.address}
    box.up(through=small("size=512k", box.state))
    inside = Inside(box)
    wait_until(client.is_healthy)
    inside.state.joinpath("tokens.json").write_bytes(tokens)
    inside.state.joinpath("tokens.json").chmod(0o600)
    early = client.session()
    inside.fill()
    late = [client.session() for _ in range(5)]
    for session in (early, *late):
        assert session.text("echo", text="x") == "x"
    saved = inside.state / "http-sessions"
    assert len(list(saved.iterdir())) < 6
    log = box.tail(1 << 20)
    assert log.count("http.sessions_trouble") == 1
    assert not [path for path in saved.iterdir() if path.suffix != ".json"], "begun, not finished"
    inside.free()
    wait_until(lambda: len(list(saved.iterdir())) == 6, 20, what="the sessions on disk")
    wait_until(lambda: "http.sessions_resumed" in box.tail(1 << 20), what="the line that says so")
    late[0].client.request("DELETE", "/mcp/fake", None, late[0].headers).close()
    assert len(list(saved.iterdir())) == 5


# -- a port that another program takes ---------------------------------------------------------


def test_a_port_that_is_taken_while_the_daemon_is_down_is_named_and_taken_back(box: Box) -> None:
    """
    An error of the configuration; the sessions are there again once the port is.
    """
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
    over_unix = HttpClient(box)
    box.http = {"listen": [f"127.0.0.1:{port}", over_unix.address]}
    box.up()
    wait_until(over_unix.is_healthy)
    over_unix.token = token(box)
    session = over_unix.session()
    assert box.down(signal.SIGKILL) == -signal.SIGKILL
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        box.up()
        wait_until(over_unix.is_healthy)
        assert session.text("echo", text="x") == "x"
        assert box.session().text("echo", text="x") == "x"
        done = box.ctl("reload")
        assert done.returncode == 2
        assert f"127.0.0.1:{port}" in done.stderr
        assert f"(pid {os.getpid()})" in done.stderr
        assert f"127.0.0.1:{port}" in box.ctl("status").stderr
    assert box.ctl("reload").returncode == 0
    assert answers(port)
    assert session.text("echo", text="x") == "x"


def answers(port: int) -> bool:
    """Tell whether the daemon listens on a port."""
    with socket.create_connection(("127.0.0.1", port), scaled(5)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200")

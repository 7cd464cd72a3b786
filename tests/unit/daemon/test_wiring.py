"""A daemon's parts work together for a server that is no process and a session of no connection."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mcpd.api.requests import StatusParams
from mcpd.config.entry import ServerEntry, entry_from_json
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.lifecycle.states import State
from mcpd.daemon.servers.server import Server
from mcpd.daemon.wiring import Daemon
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.pipeline import Pipeline
from mcpd.service import bind
from mcpd.service.lock import DaemonLock
from mcpd.service.notify import Notifier
from mcpd.upstreams.run import Connection
from tests.support.memoryupstream import (
    RULES,
    Json,
    MemoryBackend,
    MemoryHost,
    MemoryOutbox,
    MemoryRun,
)
from tests.support.transcript import USER
from tests.support.waiting import wait_until_async

NAME = "far"
LAUNCH = "memory-launch"


class Wired:
    """A daemon that accepts no connections, with one server in memory and one session."""

    def __init__(self, folder: Path) -> None:
        config = folder / "empty.json"
        config.write_text('{"mcpServers": {}}')
        path = str(folder / "mcpd.sock")
        self._lock = lock = DaemonLock.acquire(f"{path}.lock")
        self._lines = DaemonLog(os.dup(2), file=str(folder / "mcpd.log"))
        pipeline = Pipeline(self._lines, level="error")
        options = SimpleNamespace(config=str(config), log_level=None)
        start: Any = SimpleNamespace(
            options=options, umask=0o22, nofile_soft=1024, signals=[], notifier=Notifier()
        )
        self.daemon = Daemon(
            start,
            pipeline,
            self._lines,
            state_dir=str(folder),
            path=path,
            lock=lock,
            listening=bind.bind_socket(path, lock),
            identity=bind.identity_of(path),
        )
        self.host = MemoryHost()
        self.daemon.servers.hosts[MemoryBackend] = self.host
        self.daemon.servers.registry.add(
            Server(
                name=NAME,
                configured=ServerEntry(name=NAME),
                entry=Entry(name=NAME, launch=LAUNCH, startup_timeout=5.0),
                backend=MemoryBackend(server=NAME, rules=RULES, grace=1.0),
                cache_key="",
            )
        )
        self.daemon.servers.applier.apply_entries()
        self.daemon.servers.applier.apply_listeners()
        self.daemon.servers.supervisor.allow_starts()
        self.client = self.daemon.clients.sessions.open(MemoryOutbox, USER)

    async def close(self) -> None:
        self.daemon.servers.reloader.close()
        self.daemon.servers.ad_hoc.close()
        await self.daemon.clients.drain.run(0.0)
        self.daemon.clients.control_server.close()
        self.daemon.servers.dispatcher.close()
        await self.daemon.servers.checks.close()
        await self.daemon.servers.cache.flush()
        await self.daemon.servers.log_quota.close()
        self.daemon.servers.registry.close()
        self._lock.release()

    @property
    def run(self) -> MemoryRun:
        return self.host.runs[-1]

    @property
    def slot(self) -> Any:
        (slot,) = self.daemon.servers.supervisor.slots()
        return slot

    def send(self, ident: int | None, method: str, **params: Any) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        if ident is not None:
            message["id"] = ident
        self.daemon.clients.sessions.take_frame(self.client.session, json.dumps(message).encode())

    async def answer(self, ident: int) -> Json:
        found = await wait_until_async(lambda: self.client.answer(ident))
        assert found is not None
        return found

    async def attach(self) -> None:
        """Attach the session to the server and do the client's handshake."""
        self.send(1, "mcpd/attach", server=NAME)
        assert "result" in await self.answer(1)
        client = {"name": "test", "version": "1"}
        self.send(2, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert (await self.answer(2))["result"]["serverInfo"]["name"] == "memory"
        self.send(None, "notifications/initialized")

    def call(self, ident: int, **arguments: Any) -> None:
        self.send(ident, "tools/call", name="echo", arguments=arguments)

    async def status(self) -> Json:
        request: Any = SimpleNamespace(session=self.client.session)
        found: Any = await self.daemon.clients.handlers.status(request, StatusParams((NAME,)))
        (server,) = found["servers"]
        return dict(server)

    def events(self) -> list[Json]:
        return [dict(event) for event in self.daemon.servers.journal.since(0)]


@pytest.fixture
async def wired(tmp_path: Path) -> AsyncIterator[Wired]:
    made = Wired(tmp_path)
    yield made
    await made.close()


async def test_a_call_reaches_a_server_that_is_no_process(wired: Wired):
    await wired.attach()
    wired.call(3, word="hello")
    found = (await wired.answer(3))["result"]["structuredContent"]
    assert found["arguments"] == {"word": "hello"}


async def test_status_and_events_show_no_pid_for_it(wired: Wired):
    await wired.attach()
    shown = await wired.status()
    assert (shown["state"], shown["pid"], shown["pids"]) == ("ready", None, [])
    assert shown["rss_bytes"] is None
    (ready,) = [event for event in wired.events() if event["event"] == "server.ready"]
    assert "pid" not in ready
    assert ready["era"] == "legacy"


async def test_when_its_connection_breaks_calls_fail_with_the_reason_and_it_starts_again(
    wired: Wired,
):
    await wired.attach()
    wired.call(3)
    await wired.answer(3)
    broken = wired.run
    broken.channel.answers_calls = False
    wired.call(4)
    await wait_until_async(lambda: broken.channel.received[-1]["method"] == "tools/call")
    broken.fail("the connection to far was reset")
    error = (await wired.answer(4))["error"]
    assert error["data"]["kind"] == "server_crashed"
    assert error["message"].startswith("the connection to far was reset")
    wired.call(5)
    assert "result" in await wired.answer(5)
    assert wired.run is not broken
    assert broken.has_ended
    names = [event["event"] for event in wired.events()]
    assert "server.crashed" in names
    assert "server.backoff" in names


async def test_one_that_cannot_be_started_backs_off_and_is_given_up(wired: Wired):
    wired.host.refusal = Failure("spawn_failed", "far cannot be reached: no route", NAME, True)
    wired.send(1, "mcpd/attach", server=NAME)
    await wired.answer(1)
    outcomes = []
    for ident in (2, 3, 4, 5):
        wired.send(ident, "initialize", protocolVersion="2025-11-25", capabilities={})
        outcomes.append((await wired.answer(ident))["error"]["data"]["kind"])
    assert outcomes[0] == "spawn_failed"
    assert outcomes[-1] == "crash_loop"
    shown = await wired.status()
    assert (shown["state"], shown["last_error_kind"]) == ("failed", "spawn_failed")


async def test_a_stop_ends_the_connection(wired: Wired):
    await wired.attach()
    run = wired.run
    reached: Any = await wired.daemon.servers.control.stop([NAME])
    assert [failure for _, failure in reached] == [None]
    assert run.has_ended
    assert wired.slot.machine.state is State.STOPPED


async def test_what_its_channel_refuses_fails(wired: Wired):
    await wired.attach()
    wired.run.channel.is_full = True
    wired.call(3)
    assert "error" in await wired.answer(3)


async def test_a_session_without_a_connection_is_closed_with_the_daemon(wired: Wired):
    await wired.attach()
    await wired.daemon.clients.drain.run(0.0)
    assert wired.client.closed == "the daemon ends"


async def test_status_has_what_a_remote_server_says_of_its_connection(wired: Wired) -> None:
    server = wired.daemon.servers.registry.get(NAME)
    assert server is not None
    entry = entry_from_json(
        {"url": "https://x.example/mcp?key=abcdefgh", "auth": "oauth"}, name=NAME, env={}, cwd="/"
    )
    wired.daemon.servers.registry.add(msgspec.structs.replace(server, configured=entry))
    before = await wired.status()
    assert (before["transport"], before["auth"], before["latency_ms"]) == ("http", "oauth", None)
    await wired.attach()
    wired.run.known = Connection(transport="sse", auth="oauth: signed in", latency_s=0.01234)
    after = await wired.status()
    assert (after["state"], after["transport"]) == ("ready", "sse")
    assert (after["url"], after["auth"]) == ("https://x.example/mcp", "oauth: signed in")
    assert after["latency_ms"] == 12.3
    assert (after["pid"], after["pids"], after["rss_bytes"]) == (None, [], None)

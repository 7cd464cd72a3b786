"""A daemon in the loop of the test, with one remote server, and clients that nothing carries."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mcpd.api.requests import StatusParams
from mcpd.daemon.wiring import Daemon
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.pipeline import Pipeline
from mcpd.service import bind
from mcpd.service.lock import DaemonLock
from mcpd.service.notify import Notifier
from tests.support.memoryupstream import Json, MemoryOutbox
from tests.support.transcript import USER
from tests.support.waiting import wait_until_async

QUICK = {"backoff": 0.01, "backoff_max": 0.05, "max_failures": 5}


class Client:
    """A session on the server ``far``."""

    def __init__(self, far: Far) -> None:
        self._far = far
        self._next = 0
        self.outbox: Any = far.daemon.clients.sessions.open(MemoryOutbox, USER)

    def start(self, method: str, **params: Any) -> int:
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    def send(self, message: Json) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._far.daemon.clients.sessions.take_frame(self.outbox.session, data)

    async def finish(self, ident: int) -> Json:
        found: Json | None = await wait_until_async(lambda: self.outbox.answer(ident))
        assert found is not None
        return found

    async def request(self, method: str, **params: Any) -> Json:
        return await self.finish(self.start(method, **params))

    async def attach(self) -> Client:
        assert "result" in await self.request("mcpd/attach", server="far")
        hello: Json = {"protocolVersion": "2025-11-25", "capabilities": {}}
        await self.request("initialize", **hello, clientInfo={"name": "test", "version": "1"})
        self.send({"method": "notifications/initialized"})
        return self

    def call(self, tool: str, **arguments: Any) -> int:
        return self.start("tools/call", name=tool, arguments=arguments)

    async def text(self, tool: str, **arguments: Any) -> str:
        answer = await self.finish(self.call(tool, **arguments))
        assert "result" in answer, answer
        return str(answer["result"]["content"][0]["text"])

    async def error(self, tool: str, **arguments: Any) -> Json:
        answer = await self.finish(self.call(tool, **arguments))
        assert "error" in answer, answer
        data: Json = answer["error"]["data"]
        return data


class Far:
    """A daemon with the server ``far`` in its configuration."""

    def __init__(self, folder: Path, entry: Json, settings: Json | None = None) -> None:
        config = folder / "mcpd.json"
        servers = {"far": {"restart": QUICK, **entry}}
        config.write_text(json.dumps({"daemon": settings or {}, "mcpServers": servers}))
        config.chmod(0o600)
        path = str(folder / "mcpd.sock")
        self._lock = lock = DaemonLock.acquire(f"{path}.lock")
        lines = DaemonLog(os.dup(2), file=str(folder / "mcpd.log"))
        options = SimpleNamespace(config=str(config), log_level=None)
        start: Any = SimpleNamespace(
            options=options, umask=0o22, nofile_soft=1024, signals=[], notifier=Notifier()
        )
        self.daemon = Daemon(
            start,
            Pipeline(lines, level="error"),
            lines,
            state_dir=str(folder),
            path=path,
            lock=lock,
            listening=bind.bind_socket(path, lock),
            identity=bind.identity_of(path),
        )
        self.daemon.servers.applier.apply_entries()
        self.daemon.servers.applier.apply_listeners()
        self.daemon.servers.supervisor.allow_starts()

    async def client(self) -> Client:
        return await Client(self).attach()

    async def status(self) -> Json:
        request: Any = SimpleNamespace(session=0)  # of no workspace
        found: Any = await self.daemon.clients.handlers.status(request, StatusParams(("far",)))
        return dict(found["servers"][0])

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

"""One connection to a remote server, from its first request until its session is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mcpd import tasks
from mcpd.core.facts import Failure
from mcpd.core.wire.memory import Memory
from mcpd.upstreams.host import Reports
from mcpd.upstreams.http import failures
from mcpd.upstreams.http.authorizer import Authorizer, CannotAuthorize
from mcpd.upstreams.http.channel import RemoteChannel
from mcpd.upstreams.http.client import HttpClient
from mcpd.upstreams.http.endpoint import Endpoint
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Connection, Run
from mcpd.upstreams.slot import Slot

SETTLE_S: Final = 1.0
"""For requests in flight to be answered, when a server has forgotten our session or wants other
credentials: those that meet the same are sent again on the next connection."""

DELETE_S: Final = 2.0
"""The longest that a server is given to end our session."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one channel, in bytes."""

    max_message_bytes: int
    max_unsent_bytes: int


class RemoteRun(Run):
    """A session with a remote server."""

    channel: RemoteChannel

    def __init__(
        self,
        spec: RemoteSpec,
        slot: Slot,
        reports: Reports,
        *,
        authorizer: Authorizer,
        environment: Mapping[str, str],
        memory: Memory,
        limits: Limits,
    ) -> None:
        super().__init__(grace=spec.grace)
        self._spec = spec
        self._slot = slot
        self._reports = reports
        self._client = HttpClient(spec.remote, environment)
        self.endpoint = Endpoint(spec, self._client, authorizer)
        self.channel = RemoteChannel(
            self.endpoint,
            self,
            frames=reports.frames(slot.id),
            memory=memory,
            max_message_bytes=limits.max_message_bytes,
            max_unsent_bytes=limits.max_unsent_bytes,
            falls_back=spec.remote.transport == "auto",
            ping_interval=spec.remote.ping_interval,
        )
        self._group = tasks.Group()
        self._unsent: dict[int, None] = {}
        self._then: Callable[[], None] | None = None
        """What is reported once the requests in flight have settled."""

    @property
    def connection(self) -> Connection:
        """What is known of the connection."""
        endpoint = self.endpoint
        return Connection(
            transport="http" if self.channel.old is None else "sse",
            auth=endpoint.authorizer.describe(),
            latency_s=endpoint.latency_s,
            waits=next(iter(endpoint.waits.values()), None),
        )

    def begin(self) -> None:
        """Connect, and report from now on."""
        self._group.spawn(self._connect(), name=f"http.connect {self._slot.server}")

    def mute(self) -> None:
        """Deliver and report nothing more."""
        self.channel.mute()
        self._then = None

    async def end(self, grace: float) -> str | None:
        """End the session, and close all connections."""
        await self._group.close()
        await self.channel.close()
        try:
            async with asyncio.timeout(min(grace, DELETE_S)):
                await self._delete()
        except TimeoutError:
            pass
        await self._client.close()
        return None

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: the network is another one."""
        self._client.drop_idle()

    # -- reports of the channel --------------------------------------------------------------------

    def failed(self, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """Note that a request will get no answer; harmless where it has one."""
        self._reports.failed(self._slot, wire_id, failure, may_repeat=may_repeat)

    def forgotten(self, wire_id: int) -> None:
        """Make another session: the server does not know this one any more."""
        why = "the server does not know our session any more"
        failure = failures.connect_failed(self._slot.server, "http", why)
        self.endpoint.is_forgotten = True
        self._wind_up(wire_id, lambda: self._reports.forgotten(self._slot, self, failure))

    def lost(self, wire_id: int, failure: Failure) -> None:
        """End the run, unless the server still answers others."""
        is_final = failure.kind != "connect_failed" or not wire_id
        others = [each for each in self.channel.answering() if each.wire_id != wire_id]
        if wire_id and not is_final and others and self._then is None:
            self._reports.failed(self._slot, wire_id, failure, may_repeat=False)
            return
        self._wind_up(wire_id, lambda: self._ended(failure))

    # -- inside ------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        try:
            await self._client.open()
            if self._spec.remote.transport == "sse":
                status = await self.channel.open_old()
                if status:
                    why = f"has no event stream of HTTP+SSE at its url (HTTP {status})"
                    hint = (
                        f'transport = "auto" in the entry of {self._slot.server} finds what it has'
                    )
                    server = self._slot.server
                    failure = failures.connect_failed(server, "http", why, status=status, hint=hint)
                    self._ended(failure)
                    return
        except Unreachable as problem:
            self._ended(failures.unreachable(self._slot.server, problem))
            return
        except CannotAuthorize as problem:
            self._ended(problem.failure)
            return
        self._reports.connected(self._slot, self)

    def _ended(self, failure: Failure) -> None:
        self._reports.ended(self._slot, self, failure, is_clean=False)

    def _wind_up(self, wire_id: int, then: Callable[[], None]) -> None:
        """Call ``then`` once the requests in flight have settled; take no more until then."""
        if wire_id:
            self._unsent[wire_id] = None
        if self._then is not None:
            return
        self._then = then
        self.channel.is_held = True
        self.channel.on_quiet = self._look
        loop = asyncio.get_running_loop()
        loop.call_later(SETTLE_S, self._wound_up)
        loop.call_soon(self._look)

    def _look(self) -> None:
        if all(each.wire_id in self._unsent for each in self.channel.answering()):
            self._wound_up()

    def _wound_up(self) -> None:
        then, self._then = self._then, None
        if then is None:
            return
        for wire_id in {**self._unsent, **dict.fromkeys(self.channel.unsent())}:
            self._reports.unsent(self._slot, wire_id)
        then()

    async def _delete(self) -> None:
        """Tell the server that the session has ended; it need not care."""
        endpoint = self.endpoint
        if not endpoint.session_id or endpoint.is_modern or endpoint.is_forgotten:
            return
        with contextlib.suppress(Unreachable, CannotAuthorize):
            response = await endpoint.send("DELETE", endpoint.headers(None))
            response.close()

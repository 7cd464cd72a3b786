"""The HTTP front of a daemon that listens for HTTP: built from its parts, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Sequence
from typing import Final

from mcpd.config.addresses import Address
from mcpd.config.schema import DaemonConfig, HttpConfig
from mcpd.core.interface.commands import KeepSession
from mcpd.core.mux.mux import Mux
from mcpd.daemon.downstream import Sessions
from mcpd.daemon.http.core import HttpCore
from mcpd.daemon.http.holder import holder_of
from mcpd.daemon.http.tokens import Record, TokenFile
from mcpd.daemon.notices import Notices
from mcpd.daemon.servers.registry import Registry
from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.ids import SessionId
from mcpd.listeners.http.application import Application
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.legacy import LegacyFront
from mcpd.listeners.http.old_sse import OldFront
from mcpd.listeners.http.server import HttpServer, Trouble
from mcpd.listeners.http.sessions import HttpSession
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.stateless import StatelessFront
from mcpd.listeners.http.store import Saved, SessionStore
from mcpd.service import bind, privatedir
from mcpd.supervise import descriptors

MOST_CONNECTIONS: Final = 4000
"""Connections of all addresses: a session of a browser or an SDK has up to three."""

REFUSED_EVERY_S: Final = 1.0
"""Between two log lines about wrong tokens."""

LIFE_BYTES: Final = 4
"""Random bytes that stand for this daemon in event ids."""


class HttpFront:
    """Everything that is loaded and kept while there is an address."""

    def __init__(
        self,
        *,
        state_dir: str,
        mux: Mux,
        sessions: Sessions,
        registry: Registry,
        notices: Notices,
        record: Record,
    ) -> None:
        self._registry = registry
        self._notices = notices
        self._record = record
        self._refused_timer: asyncio.TimerHandle | None = None
        self._refused_count = 0
        self._loaded = registry.loaded
        self._made = settings_of(registry.http, registry.daemon)
        """The settings of ``_loaded``: every request asks for them."""
        self._store = SessionStore(state_dir, notices.http_sessions_trouble)
        self._keepalive = Keepalive(self._config.keepalive)
        self.core = HttpCore(mux, sessions, registry, self._session_ended)
        self.stateless = StatelessFront(self.core, self._settings, mux.memory, self._keepalive)
        self.old = OldFront(self.core, self._settings, mux.memory, self._keepalive)
        self.legacy = LegacyFront(
            self.core,
            self._settings,
            mux.memory,
            self._keepalive,
            self._save,
            lambda session: self._store.remove(session.digest),
            secrets.token_hex(LIFE_BYTES),
        )
        self.tokens = TokenFile(state_dir, self._token_ended, record)
        application = Application(
            self.core,
            self._settings,
            mux.memory,
            self.tokens.find,
            self._refused,
            legacy=self.legacy,
            stateless=self.stateless,
            old=self.old,
        )
        self._server = HttpServer(
            application,
            request_timeout=lambda: self._config.request_timeout,
            most_connections=MOST_CONNECTIONS,
            usable_fds=descriptors.usable,
            unix=SocketFiles(),
        )
        self._restore()

    # -- settings ----------------------------------------------------------------------------------

    @property
    def _config(self) -> HttpConfig:
        return self._registry.http

    def _settings(self) -> HttpSettings:
        loaded = self._registry.loaded
        if self._loaded is not loaded:
            self._loaded = loaded
            self._made = settings_of(loaded.http, loaded.daemon)
        return self._made

    # -- addresses ---------------------------------------------------------------------------------

    async def listen(self, addresses: Sequence[Address]) -> list[str]:
        """Listen on these addresses and on no others; return why some of them are not open."""
        self._keepalive.change(self._config.keepalive)
        self._save_again()
        before = self._server.addresses
        await self._server.apply(addresses)
        for address in self._server.addresses:
            if address not in before:
                self._notices.http_listening(address.text)
        return [await _sentence(trouble) for trouble in self._server.troubles]

    @property
    def open_addresses(self) -> list[str]:
        """The addresses that it listens on."""
        return [address.text for address in self._server.addresses]

    # -- the end -----------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Accept no client, and end the streams that belong to no request."""
        await self._server.close()
        self.legacy.drain(unasked_only=True)

    async def close(self, flush_s: float) -> None:
        """End every stream and connection; ``flush_s`` seconds at most for what is queued."""
        await self._server.close()
        self.legacy.drain()
        self.old.drain()
        self.legacy.let_go("the daemon listens no more for HTTP")
        await self._server.wait_quiet(flush_s)
        self._server.abort()
        self.legacy.close()
        self._store.close()
        self._keepalive.close()
        self.tokens.close()
        if self._refused_timer is not None:
            self._refused_timer.cancel()

    # -- sessions ----------------------------------------------------------------------------------

    def keep(self, command: KeepSession) -> None:
        """Have a session saved."""
        self.core.keep(command)

    def _save(self, session: HttpSession) -> None:
        session.lists = self.core.lists_of(session.server)
        self._write(session)

    def _write(self, session: HttpSession) -> None:
        if session.state is not None:
            token = None if session.token is None else self.tokens.named(session.token)
            saved = Saved(
                token=session.token,
                token_sha256=None if token is None else token.sha256,
                server=session.server,
                state=session.state,
                lists=session.lists,
            )
            self._store.save(session.digest, saved)

    def _save_again(self) -> None:
        """Save the open sessions whose clients have just been told that lists are others now."""
        for session in self.legacy.sessions:
            if session.core is not None and session.lists != self.core.lists_of(session.server):
                self._save(session)

    def _restore(self) -> None:
        for digest, saved in self._store.load():
            token = None if saved.token is None else self.tokens.named(saved.token)
            if saved.token is not None and (token is None or token.sha256 != saved.token_sha256):
                self._store.remove(digest)
                continue
            session = self.legacy.new(digest, saved.token, saved.server)
            session.state, session.lists = saved.state, saved.lists
            session.is_restored = True
            self.legacy.restore(session)

    def _session_ended(self, session: SessionId) -> None:
        self.stateless.closed(session)

    # -- tokens ------------------------------------------------------------------------------------

    def _token_ended(self, name: str) -> None:
        self.legacy.end_of_token(name)
        self.core.end_of_token(name)

    def _refused(self) -> None:
        """Log wrong tokens, one line a second at most."""
        self._refused_count += 1
        if self._refused_timer is None:
            loop = asyncio.get_running_loop()
            self._refused_timer = loop.call_later(REFUSED_EVERY_S, self._tell_refused)

    def _tell_refused(self) -> None:
        self._refused_timer = None
        self._notices.http_refused(self._refused_count)
        self._record("token.refused", requests=self._refused_count)
        self._refused_count = 0


def settings_of(http: HttpConfig, daemon: DaemonConfig) -> HttpSettings:
    """Return what the front is given of the configuration."""
    return HttpSettings(
        allowed_origins=http.allowed_origins,
        allowed_hosts=http.allowed_hosts,
        needs_token=http.auth == "token",
        session_idle=http.session_idle,
        max_sessions=http.max_sessions,
        json_wait=http.json_wait,
        keepalive=http.keepalive,
        stream_lifetime=http.stream_lifetime,
        request_timeout=http.request_timeout,
        replay_events=http.replay_events,
        max_request_bytes=daemon.max_request_bytes,
        max_outbox_bytes=daemon.outbox_bytes,
    )


async def _sentence(trouble: Trouble) -> str:
    text = f"http.listen: cannot listen on {trouble.address.text}: {trouble.reason}"
    if not trouble.is_in_use or trouble.address.path is not None:
        return text
    holder = await asyncio.to_thread(holder_of, trouble.address.port)
    return text if holder is None else f"{text}, by {holder}"


class SocketFiles:
    """The socket files of addresses, as the daemon's own is made and removed."""

    def __init__(self) -> None:
        self._files: dict[str, bind.Identity | None] = {}

    def open(self, path: str) -> socket.socket:
        """Return a socket that listens at a path which only its owner reaches.

        Raises:
            OSError: the path cannot be used, or somebody listens there.
        """
        try:
            privatedir.ensure_private(os.path.dirname(path), own=False)
            opened = bind.listen_on(path)
        except PathRefused as refusal:
            raise OSError(refusal.message) from None
        except AlreadyRunning:
            raise OSError("a process listens there") from None
        self._files[path] = bind.identity_of(path)
        return opened

    def remove(self, path: str) -> None:
        """Remove a socket file; one that another process has put in its place stays."""
        with contextlib.suppress(OSError):
            bind.remove_socket(path, self._files.pop(path, None))

"""All servers by name: of the configuration, of projects, and those that clients brought."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

import msgspec

from mcpd import paths
from mcpd.config.load import Loaded
from mcpd.config.schema import DaemonConfig, HttpConfig
from mcpd.config.texts.secrets import secret_parts
from mcpd.core.interface.commands import KeepCatalog, KeepPins
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.offer import Verdict
from mcpd.daemon.servers.cache import CatalogCache, Remembered, program_mtime
from mcpd.daemon.servers.pinstore import PinStore, ad_hoc_name
from mcpd.daemon.servers.server import Server, assemble, redactor_of
from mcpd.ids import SlotId
from mcpd.logfiles.serverlog import ServerLog
from mcpd.redact import Redactor
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Backend


class Registry:
    """The configured servers in their order, those of projects and of clients, with their logs."""

    def __init__(
        self,
        state_dir: str,
        cache: CatalogCache,
        pins: PinStore,
        environment: Mapping[str, str],
        *,
        on_log_growth: Callable[[int], object] = lambda _: None,
        on_log_trouble: Callable[[str, OSError | None, int], object] = lambda _, __, ___: None,
    ) -> None:
        """``on_log_trouble`` gets the path of a log, then what ``ServerLog`` passes."""
        self._on_log_growth, self._on_log_trouble = on_log_growth, on_log_trouble
        self._state_dir = state_dir
        self._cache = cache
        self._pins = pins
        self.environment = environment
        """What configured servers may inherit: the daemon's, without its tag."""
        self.loaded = Loaded()
        """What is applied now, in which bad entries have been replaced by their last good ones."""
        self._servers: dict[str, Server] = {}
        self._projects: dict[str, Server] = {}
        self._ad_hoc: dict[str, Server] = {}
        self._learned: dict[str, frozenset[str]] = {}
        """What is masked of the secrets that servers were started with, by their names."""
        self._renewals: dict[str, int] = {}
        """How often each secret was set since the daemon runs."""
        self._logs: dict[str, ServerLog] = {}
        self._redactor: Redactor | None = None

    def __iter__(self) -> Iterator[Server]:
        yield from self._servers.values()
        yield from self._projects.values()
        yield from self._ad_hoc.values()

    @property
    def daemon(self) -> DaemonConfig:
        """The daemon's own settings."""
        return self.loaded.daemon

    @property
    def http(self) -> HttpConfig:
        """How clients that speak HTTP are served."""
        return self.loaded.http

    def get(self, name: str) -> Server | None:
        """Return a server by its name."""
        return self._servers.get(name) or self._projects.get(name) or self._ad_hoc.get(name)

    def apply(self, loaded: Loaded) -> None:
        """Replace the configured servers by those of a configuration."""
        self.loaded = loaded
        before, self._servers = self._servers, {}
        for configured in loaded.entries.values():
            server = assemble(
                configured,
                base_env=self.environment,
                ignore_env=loaded.daemon.ignore_env,
                trust=loaded.trust,
            )
            server = self.with_secrets(server)
            known = before.get(server.name)
            if known is not None:
                server = self._with_secrets_of(known, server)
            server = self._remembering(server, known)
            self._servers[server.name] = self._with_pins(server, known)
        for others in (self._projects, self._ad_hoc):
            for name in [name for name in others if name in self._servers]:
                del others[name]
        for log in self._logs.values():
            log.limit(max_bytes=self.daemon.log_max_bytes, backups=self.daemon.log_backups)
        self._apply_redactors()

    def apply_projects(self, servers: Iterable[Server]) -> None:
        """Replace the servers of projects."""
        before = self._projects
        self._projects = {
            server.name: self._with_pins(
                self._with_secrets_of(before.get(server.name, server), server),
                before.get(server.name),
            )
            for server in map(self.with_secrets, servers)
            if server.name not in self._servers
        }
        self._apply_redactors()

    def add(self, server: Server) -> None:
        """Add a server that a client brought."""
        self._ad_hoc[server.name] = self._with_pins(self._remembering(server, None), None)
        self._redactor = None

    def ad_hoc_count(self) -> int:
        """Return how many servers there are that clients brought."""
        return len(self._ad_hoc)

    def remove(self, name: str) -> None:
        """Remove a server that a client brought. Its log stays until its process has ended."""
        self._ad_hoc.pop(name, None)
        self._redactor = None

    def with_secrets(self, server: Server) -> Server:
        """Return a server with the launch, and what is masked, that its secrets give it."""
        names = () if server.backend is None else server.backend.secrets
        if not names:
            return server
        base, _, _ = server.entry.launch.partition(".")
        count = sum(self._renewals.get(name, 0) for name in names)
        entry = msgspec.structs.replace(
            server.entry,
            launch=f"{base}.{count}" if count else base,
            redactor=server.entry.redactor | redactor_of(self._masked_of(server)),
        )
        return msgspec.structs.replace(server, entry=entry)

    def learn(self, secrets: Mapping[str, str]) -> bool:
        """Mask secrets, by their names, from now on; return whether one was not masked yet.

        An earlier value stays masked: a process may still have it.
        """
        before = dict(self._learned)
        for name, value in secrets.items():
            self._learned[name] = self._learned.get(name, frozenset()) | secret_parts(value)
        if self._learned == before:
            return False
        for servers in (self._servers, self._projects, self._ad_hoc):
            for name, server in servers.items():
                servers[name] = self.with_secrets(server)
        self._apply_redactors()
        return True

    def renew(self, secret: str) -> list[str]:
        """Give the servers that use a secret another launch, for it was set; return their names."""
        if not any(secret in each.backend.secrets for each in self if each.backend is not None):
            return []
        self._renewals[secret] = self._renewals.get(secret, 0) + 1
        renewed = []
        for servers in (self._servers, self._projects, self._ad_hoc):
            for name, server in servers.items():
                if server.backend is not None and secret in server.backend.secrets:
                    servers[name] = self._remembering(self.with_secrets(server), None)
                    renewed.append(name)
        return renewed

    def forget_logs(self, running: Container[str]) -> None:
        """Close the logs of removed servers, except the ``running`` ones and those followed.

        Until its process has ended, a log must not be replaced: it knows the server's secrets.
        """
        for name, log in list(self._logs.items()):
            if self.get(name) is None and name not in running and not log.is_followed:
                log.close()
                del self._logs[name]

    def log_files(self) -> list[str]:
        """Return the names of the log files that may be written."""
        names = {*self._logs, *(server.name for server in self)}
        return [_log_file(name) for name in names]

    def entries(self) -> tuple[Entry, ...]:
        """Return all servers as the mux knows them."""
        return tuple(server.entry for server in self)

    def by_launch(self, launch: str) -> Server | None:
        """Return the first usable server with this launch."""
        return next((each for each in self if each.backend and each.entry.launch == launch), None)

    def backend(self, slot: SlotId) -> Backend | None:
        """Return how to reach the server of a slot, ``None`` where its entry is gone."""
        server = self.by_launch(slot.partition("@")[0])
        return None if server is None else server.backend

    def memory_max(self, slot: SlotId) -> int:
        """Return how many bytes the tree in a slot may take; 0: any number."""
        server = self.by_launch(slot.partition("@")[0])
        config = None if server is None else server.configured.config
        return 0 if config is None else config.memory_max

    def log(self, name: str) -> ServerLog:
        """Return the log of a server. Its file is created with its first line."""
        log = self._logs.get(name)
        if log is None:
            path = os.path.join(self._state_dir, "logs", _log_file(name))
            log = ServerLog(
                path,
                max_bytes=self.daemon.log_max_bytes,
                backups=self.daemon.log_backups,
                redactor=self.redactor(name),
                on_growth=self._on_log_growth,
                on_trouble=lambda error, lost: self._on_log_trouble(path, error, lost),
            )
            self._logs[name] = log
        return log

    def log_troubles(self) -> list[tuple[str, OSError]]:
        """Return the servers whose logs cannot be written, and why."""
        troubles = [(name, log.trouble) for name, log in self._logs.items()]
        return [(name, trouble) for name, trouble in troubles if trouble is not None]

    def redactor(self, name: str | None) -> Redactor:
        """Return what masks the secrets of a server, with ``None`` those of all servers."""
        if name is not None:
            server = self.get(name)
            return Redactor.NONE if server is None else server.entry.redactor
        if self._redactor is None:
            known = (server.entry.redactor.secrets for server in self)
            self._redactor = Redactor(frozenset().union(*known))
        return self._redactor

    def mask(self, name: str | None, text: str) -> str:
        """Return a text without the secrets of a server, with ``None`` without those of any."""
        if name is None:
            return self.redactor(None).mask(text)
        return self.log(name).redactor.mask(text)  # the log outlives the entry

    def note(self, name: str, source: str, text: str) -> None:
        """Write a line into the log of a server."""
        self.log(name).add(source, text)

    def keep_catalog(self, command: KeepCatalog) -> None:
        """Cache what a server listed, for each configured entry with its launch."""
        for server in self._servers.values():
            if server.backend is None or server.entry.launch != command.launch:
                continue
            said = Remembered(
                command.introduction,
                command.catalog,
                command.has_asked,
                program_mtime(server.backend),
                command.offer,
                command.capabilities,
                command.of_clients,
            )
            self._cache.keep(server.name, server.cache_key, said, server.entry.redactor)

    def has_lost_pins(self) -> bool:
        """Tell whether what is approved of a server cannot be read: it may have been mended."""
        return any(server.entry.are_pins_lost for server in self)

    def keep_pins(self, command: KeepPins) -> None:
        """Put on disk what is approved of a server, for each entry with its launch."""
        for server in self:
            if server.backend is not None and server.entry.launch == command.launch:
                self._pins.keep(pins_name(server), command.pins, server.entry.redactor)

    def close(self) -> None:
        """Close the files of the logs."""
        for log in self._logs.values():
            log.close()

    def _masked_of(self, server: Server) -> frozenset[str]:
        """Return what is masked of the secrets that a server was started with."""
        names = () if server.backend is None else server.backend.secrets
        return frozenset[str]().union(*(self._learned.get(name, ()) for name in names))

    def _with_secrets_of(self, before: Server, now: Server) -> Server:
        """Return a server that also masks what its entry had: a process may still have it."""
        older = (before.configured.secrets | self._masked_of(before)) - now.configured.secrets
        if not older:
            return now
        redactor = now.entry.redactor | redactor_of(older)
        entry = msgspec.structs.replace(now.entry, redactor=redactor)
        return msgspec.structs.replace(now, entry=entry)

    def _apply_redactors(self) -> None:
        for name, log in self._logs.items():
            if (owner := self.get(name)) is not None:
                log.redactor = owner.entry.redactor
        self._redactor = None

    def _with_pins(self, server: Server, before: Server | None) -> Server:
        """Return the server with what was approved of its definitions, if it is new to us.

        The mux remembers that of others, unless it could not be read.
        """
        mode = server.entry.rules.pin
        if server.backend is None or mode == "off":
            return server
        is_known = before is not None and before.backend is not None
        if is_known and before is not None:
            is_known = before.entry.rules.pin != "off" and not before.entry.are_pins_lost
        if is_known:
            return server
        found = self._pins.load(pins_name(server), is_held=mode == "hold")
        entry = msgspec.structs.replace(server.entry, pins=found.pins, are_pins_lost=found.is_lost)
        return msgspec.structs.replace(server, entry=entry)

    def _remembering(self, server: Server, before: Server | None) -> Server:
        """Return the server with what the cache knows of its last process."""
        if server.backend is None or not server.cache_key:
            return server
        if before is not None and before.cache_key == server.cache_key:
            return server  # the mux remembers for itself
        known = self._cache.load(server.name, server.cache_key)
        if known is None:
            return server
        is_same = isinstance(server.backend, RemoteSpec) or (
            known.stamp is not None and known.stamp == program_mtime(server.backend)
        )
        entry = msgspec.structs.replace(
            server.entry,
            introduction=known.introduction,
            catalog=known.catalog,
            capabilities=known.capabilities,
            of_clients=known.of_clients,
            has_asked=known.has_asked,
            verdict=Verdict(known.introduction.era, known.offer) if is_same else None,
        )
        return msgspec.structs.replace(server, entry=entry)


def pins_name(server: Server) -> str:
    """Return the name under which what is approved of a server is kept."""
    return ad_hoc_name(server.entry.rules.identity) if server.is_ad_hoc else server.name


def _log_file(name: str) -> str:
    return paths.file_name(name) + ".log"

"""How a client learns what it talks to: ``initialize``, or ``server/discover``."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, legacy, modern
from mcpd.core.mcp.asker import SAID_BYTES
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.versions import NEWEST_LEGACY, negotiate
from mcpd.core.mux import bridge
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.wire import envelope

Resume = Callable[[Session, Owed, str, envelope.Bytes], None]
"""Takes a request that came while ``initialize`` waited."""


class Greeting:
    """Introduces servers, and the aggregate, to sessions."""

    def __init__(self, tables: Tables, resume: Resume) -> None:
        self._tables = tables
        self._resume = resume

    def initialize(self, session: Session, owed: Owed, params: Raw | None) -> None:
        """Answer a legacy client's handshake from what its server said, once that is known."""
        if session.is_opening:
            why = "initialize is in flight already"
            self._tables.reject(session, owed, codes.INVALID_REQUEST, why)
            return
        if not session.is_session:
            self._tables.open_session(session)
        if params is not None and len(params) > SAID_BYTES:
            why = f"the params of initialize have more than {SAID_BYTES} bytes"
            self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
            return
        asked = envelope.object_of(params) if params is not None else None
        asked = asked or {}
        version = envelope.text(asked.get("protocolVersion", UNSET))
        capabilities = envelope.object_of(asked.get("capabilities", Raw(b"{}"))) or {}
        session.asker = bridge.asker_of(capabilities, asked.get("clientInfo"))
        self._tables.introduce(session, session.asker)
        if session.server is None:
            self._initialize_aggregate(session, owed, version)
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            self._tables.refuse(session, owed, entry)
            return
        known = self._tables.introduction_of(session.server)
        if known is not None:
            self._introduce(session, owed, version, known)
            return
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return
        upstream = self._tables.upstream_for(session, entry)

        def ready(failure: Failure | None) -> None:
            is_owed = session.owed.get(owed.key) is owed
            if failure is not None and is_owed and self._tables.has_left(upstream):
                session.is_opening = False
                self.initialize(session, owed, params)
                if not session.is_opening:
                    self._catch_up(session, failure)
                return
            if failure is not None and is_owed:
                self._tables.refuse(session, owed, failure)
            elif upstream.introduction is not None and is_owed:
                self._introduce(session, owed, version, upstream.introduction)
            self._catch_up(session, failure)

        session.is_opening = True
        upstream.requests.when_ready(ready)

    def _catch_up(self, session: Session, failure: Failure | None) -> None:
        """Take what a client sent while its ``initialize`` waited; without one it fails alike."""
        session.is_opening = False
        session.is_initialized = session.said_initialized and session.version is not None
        backlog, session.backlog = session.backlog, {}
        for owed, (method, raw) in backlog.items():
            if session.owed.get(owed.key) is not owed:
                continue  # cancelled meanwhile
            owed.leave = None
            if failure is not None and session.version is None:
                self._tables.refuse(session, owed, failure)
            else:
                self._resume(session, owed, method, raw)

    def _introduce(
        self, session: Session, owed: Owed, asked: str | None, known: Introduction
    ) -> None:
        session.version = negotiate(asked, known.version)
        shown = legacy.capabilities_shown(known)
        self._tables.reply(
            session,
            owed,
            legacy.initialize_result(session.version, shown, known.info, known.instructions),
        )

    def _initialize_aggregate(self, session: Session, owed: Owed, asked: str | None) -> None:
        tables = self._tables
        session.version = negotiate(asked, NEWEST_LEGACY)
        info, text = aggregate_info(self._tables), self._aggregate_instructions()
        shown = self._aggregate_capabilities()
        result = legacy.initialize_result(session.version, shown, info, text)
        tables.reply(session, owed, result)

    def discover(self, session: Session, owed: Owed) -> None:
        """Answer a modern client likewise."""
        tables = self._tables
        if session.server is None:
            info, text = aggregate_info(self._tables), self._aggregate_instructions()
            shown = self._aggregate_capabilities()
            tables.reply(session, owed, modern.discover_result(shown, info, text))
            return
        entry = tables.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            tables.refuse(session, owed, entry)
            return
        known = tables.introduction_of(session.server)
        if known is not None:
            shown = modern.capabilities_shown(known)
            result = modern.discover_result(shown, known.info, known.instructions)
            tables.reply(session, owed, result)
            return
        if isinstance(entry, Failure):
            tables.refuse(session, owed, entry)
            return
        upstream = tables.upstream_for(session, entry)

        def ready(failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if failure is None or tables.has_left(upstream):
                self.discover(session, owed)
            else:
                tables.refuse(session, owed, failure)

        tables.when_ready(owed, upstream, ready)

    def _aggregate_capabilities(self) -> bytes:
        tables = self._tables
        known = (tables.introduction_of(server) for server in tables.aggregate.servers())
        return legacy.aggregate_capabilities(each for each in known if each is not None)

    def _aggregate_instructions(self) -> bytes | None:
        tables = self._tables
        known: dict[str, bytes | None] = {}
        for server in tables.aggregate.servers():
            introduction = tables.introduction_of(server)
            known[server] = None if introduction is None else introduction.instructions
        return tables.aggregate.instructions(known)


def aggregate_info(tables: Tables) -> bytes:
    """Return what the aggregate calls itself."""
    return msgspec.json.encode({"name": "mcpd", "version": tables.fx.settings.version})

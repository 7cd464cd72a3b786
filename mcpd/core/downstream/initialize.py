"""How a client learns what it talks to: ``initialize``, or ``server/discover``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.downstream import nothing_to_offer
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp import codes, legacy, modern, translation
from mcpd.core.mcp.client_info import CLIENT_INFO_BYTES
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.versions import NEWEST_LEGACY, negotiate
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope

Resume = Callable[[ClientRequest, str, envelope.Bytes], None]
"""Takes a request that came while ``initialize`` waited."""


class Initialize:
    """Introduces servers, and the aggregate, to sessions."""

    def __init__(self, state: MuxState, slots: Slots, resume: Resume) -> None:
        """``resume`` takes what came while ``initialize`` waited."""
        self._state = state
        self._slots = slots
        self._resume = resume

    def initialize(self, request: ClientRequest) -> None:
        """Answer a legacy client's handshake from what its server said, once that is known."""
        session, params = request.session, request.params
        if session.is_opening:
            why = "initialize is in flight already"
            request.reject(codes.INVALID_REQUEST, why)
            return
        if not session.is_session:
            self._state.open_session(session)
        if params is not None and len(params) > CLIENT_INFO_BYTES:
            why = f"the params of initialize have more than {CLIENT_INFO_BYTES} bytes"
            request.reject(codes.INVALID_PARAMS, why)
            return
        asked = envelope.object_of(params) if params is not None else None
        asked = asked or {}
        version = envelope.text(asked.get("protocolVersion", UNSET))
        capabilities = envelope.object_of(asked.get("capabilities", Raw(b"{}"))) or {}
        session.client_info = translation.legacy_client_info(capabilities, asked.get("clientInfo"))
        self._state.introduce(session, session.client_info)
        if session.server is None:
            self._initialize_aggregate(request, version)
            return
        entry = self._state.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            request.refuse(entry)
            return
        known = self._state.introduction_of(session.server)
        if known is not None:
            self._introduce(request, version, known)
            return
        if isinstance(entry, Failure):
            request.refuse(entry)
            return
        upstream = self._slots.upstream_for(session, entry)
        session.is_opening = True
        upstream.calls.start_wait.when_ready(partial(self._opened, request, version, upstream))

    def _opened(
        self,
        request: ClientRequest,
        version: str | None,
        upstream: Upstream,
        failure: Failure | None,
    ) -> None:
        """Answer ``initialize`` and take what came after it, even if it was cancelled itself."""
        session = request.session
        if failure is not None and not request.is_over and self._state.has_left(upstream):
            session.is_opening = False
            self.initialize(request)
            if not session.is_opening:
                self._catch_up(session, failure)
            return
        if request.is_over:
            pass
        elif failure is not None:
            request.refuse(failure)
        elif upstream.introduction is not None:
            self._introduce(request, version, upstream.introduction)
        self._catch_up(session, failure)

    def _catch_up(self, session: Session, failure: Failure | None) -> None:
        """Take what a client sent while its ``initialize`` waited; without one it fails alike."""
        session.is_opening = False
        session.is_initialized = session.said_initialized and session.version is not None
        if session.is_initialized:
            session.keep()
        backlog, session.backlog = session.backlog, {}
        for request, (method, raw) in backlog.items():
            if request.is_over:
                continue  # cancelled meanwhile
            request.leave = None
            if failure is not None and session.version is None:
                request.refuse(failure)
            else:
                self._resume(request, method, raw)

    def _introduce(self, request: ClientRequest, asked: str | None, known: Introduction) -> None:
        session = request.session
        known = known.without(self._state.scope_of(session.principal).lacks)
        session.version = negotiate(asked, known.version)
        shown = legacy.endpoint_capabilities(known)
        result = legacy.initialize_result(session.version, shown, known.info, known.instructions)
        session.keep()
        request.reply(result)

    def _initialize_aggregate(self, request: ClientRequest, asked: str | None) -> None:
        session = request.session
        session.version = negotiate(asked, NEWEST_LEGACY)
        info, text = aggregate_info(self._state), self._aggregate_instructions(session)
        shown = self._aggregate_capabilities(session)
        result = legacy.initialize_result(session.version, shown, info, text)
        session.keep()
        request.reply(result)

    def discover(self, request: ClientRequest) -> None:
        """Answer a modern client's ``server/discover`` from what its server said."""
        state, session = self._state, request.session
        if session.server is None:
            info, text = aggregate_info(self._state), self._aggregate_instructions(session)
            shown = self._aggregate_capabilities(session)
            request.reply(modern.discover_result(shown, info, text))
            return
        entry = state.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            request.refuse(entry)
            return
        known = state.introduction_of(session.server)
        if known is not None:
            known = known.without(state.scope_of(session.principal).lacks)
            shown = modern.endpoint_capabilities(known)
            result = modern.discover_result(shown, known.info, known.instructions)
            request.reply(result)
            return
        if isinstance(entry, Failure):
            request.refuse(entry)
            return
        upstream = self._slots.upstream_for(session, entry)
        Waiting(state, request, upstream, self._introduced, self.discover).for_start()

    def _introduced(self, request: ClientRequest, upstream: Upstream) -> None:
        self.discover(request)

    def _aggregate_capabilities(self, session: Session) -> bytes:
        state = self._state
        known = (state.introduction_of(server) for server in state.servers_of(session))
        return legacy.aggregate_capabilities(each for each in known if each is not None)

    def _aggregate_instructions(self, session: Session) -> bytes | None:
        """Return what the servers say of themselves, and which of the project's are missing."""
        state = self._state
        known: dict[str, bytes | None] = {}
        for server in state.servers_of(session):
            introduction = state.introduction_of(server)
            known[server] = None if introduction is None else introduction.instructions
        empty = nothing_to_offer.notice(state, session)
        if empty is None:
            said = state.shown.ours(session.workspace).instructions(known)
        else:
            said = envelope.quote(empty)
        waiting = state.views.waiting(session.workspace)
        if not waiting:
            return said
        note = _of_waiting(session.workspace or "", waiting)
        text = None if said is None else envelope.text(Raw(said))
        return envelope.quote(note if text is None else f"{text}\n\n{note}")


def _of_waiting(workspace: str, waiting: list[Entry]) -> str:
    """Say to a model which servers it lacks, and what its user can do about it."""
    names = ", ".join(sorted(entry.shown_name for entry in waiting))
    said = (
        f"mcpd: the project in {workspace} has MCP servers that a person has not trusted yet, so "
        f"they do not run: {names}."
    )
    why = waiting[0].unavailable
    if why is None or why.hint is None:
        return said
    return f"{said} Your user can look at them, and trust them, in a terminal: {why.hint}"


def aggregate_info(state: MuxState) -> bytes:
    """Return what the aggregate calls itself."""
    return msgspec.json.encode({"name": "mcpd", "version": state.ctx.settings.version})

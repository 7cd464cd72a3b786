"""What the mux knows about its servers, as ``status`` tells it."""

from __future__ import annotations

import msgspec

from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.call_gate import TurnsReport
from mcpd.core.state.state import MuxState
from mcpd.ids import SessionId, SlotId


class SlotReport(msgspec.Struct, frozen=True):
    """One place for a process: ``key`` is ``None`` for the shared one."""

    slot: SlotId
    key: str | None
    sessions: int
    in_flight: int
    queued: int
    silent_s: float | None
    """For how long its process has said nothing while it owes an answer."""

    turns: TurnsReport
    clients: tuple[str, ...] = ()
    """The names of those who use it, where they have some."""


class EntryReport(msgspec.Struct, frozen=True):
    """One server: ``sessions`` are those on its own endpoint, ``noise`` lines of junk on stdout."""

    sessions: int
    in_flight: int
    queued: int
    calls: int
    errors: int
    noise: int
    noise_reason: str | None
    tools: int | None
    era: Era | None
    introduction: Introduction | None
    is_held: bool
    has_asked: bool
    """Whether it is known to ask questions."""
    slots: tuple[SlotReport, ...]
    left_out: tuple[str, ...] = ()
    """Capabilities that it refuses to be told of."""


class SessionReport(msgspec.Struct, frozen=True):
    """One session: the server whose endpoint it is on, and its client's name where it has one."""

    session: int
    server: str | None
    client: str | None


def sessions(state: MuxState) -> list[SessionReport]:
    """Return who there is."""
    return [SessionReport(s.id, s.server, s.label) for s in state.sessions.values() if s.is_session]


def report(state: MuxState, name: str) -> EntryReport:
    """Return what there is to say of a configured server."""
    now = state.ctx.now  # the request for this report has just caused an event
    upstreams = state.upstreams_of(name)
    slots = tuple(
        SlotReport(
            u.slot,
            state.keys.get(u.slot),
            len(u.calls.usage.users),
            u.calls.load(),
            u.calls.queued(),
            u.silent_s(),
            u.calls.gate.report(now),
            tuple(filter(None, (_label(state, user) for user in u.calls.usage.users))),
        )
        for u in upstreams
    )
    introduction = state.introduction_of(name)
    listing = state.catalog_of(name).lists
    tools = next((len(found) for kind, found in listing.items() if kind.value == "tools"), None)
    past_calls, past_errors = state.past_calls.get(name, (0, 0))
    return EntryReport(
        sessions=sum(s.server == name and s.is_session for s in state.sessions.values()),
        in_flight=sum(slot.in_flight for slot in slots),
        queued=sum(slot.queued for slot in slots),
        calls=past_calls + sum(u.calls.counts.calls for u in upstreams),
        errors=past_errors + sum(u.calls.counts.errors for u in upstreams),
        noise=sum(u.noise for u in upstreams),
        noise_reason=next((u.noise_reason for u in upstreams if u.noise_reason), None),
        tools=tools,
        era=None if introduction is None else introduction.era,
        introduction=introduction,
        is_held=name in state.held,
        has_asked=_has_asked(state, name),
        slots=slots,
        left_out=next((u.left_out for u in upstreams if u.left_out), ()),
    )


def _label(state: MuxState, user: int) -> str | None:
    session = state.sessions.get(SessionId(user))
    return None if session is None else session.label


def _has_asked(state: MuxState, name: str) -> bool:
    upstreams = state.upstreams_of(name)
    if upstreams:
        return any(upstream.has_asked for upstream in upstreams)
    entry = state.entries.get(name)
    known = None if entry is None else state.memory.get(entry.launch)
    return known.has_asked if known is not None else entry is not None and entry.has_asked

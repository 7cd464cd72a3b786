"""What a client of an aggregate without servers is told, since an empty list says nothing."""

from __future__ import annotations

from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState


def notice(state: MuxState, session: Session) -> str | None:
    """Return why the aggregate is empty; ``None`` if it is not, or is for this client alone.

    The files that were read are named to users of this machine only.
    """
    is_narrowed = state.scope_of(session.principal).servers is not None
    if is_narrowed or state.shown.ours(session.workspace).servers():
        return None
    entries = [entry for entry in state.views.of(session.workspace).values() if entry.is_listed]
    is_disabled = all(
        entry.unavailable is not None and entry.unavailable.kind == "server_disabled"
        for entry in entries
    )
    if not entries:
        why, then = "no server is configured", "mcpctl doctor shows what an entry looks like"
    elif is_disabled:
        count = len(entries)
        which = "its only server is" if count == 1 else f"all of its {count} servers are"
        why, then = f"{which} disabled", "mcpctl list shows where"
    else:
        why, then = "none of the servers can be used", "mcpctl doctor says why"
    where = f" ({state.sources})" if state.sources and session.principal.kind == "local" else ""
    return f"mcpd has no tools to offer: {why}{where}; {then}"

"""Names of tools, prompts and resources that are held back, and why: nobody has approved them."""

from __future__ import annotations

from mcpd.core.catalog.examine import KINDS
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.naming import qualify
from mcpd.core.definitions import held_refusals
from mcpd.core.facts import Failure
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState


def held_name(state: MuxState, server: str, kind: Kind, name: str) -> Failure | None:
    """Return why a name that a server lists is held; ``None`` where it is not."""
    definitions = state.definitions_of(server)
    if definitions is None or name not in definitions.approved.held_names(kind):
        return None
    return held_refusals.refusal(definitions.approved, KINDS[kind], name)


def held_in_aggregate(
    state: MuxState, kind: Kind, qualified: str, session: Session
) -> Failure | None:
    """Return why a name of the aggregate is held, or ``None`` where it is not one."""
    known = state.views.of(session.workspace)
    shown = {name: entry.shown_name for name, entry in known.items()}
    for server in state.servers_of(session):
        definitions = state.definitions_of(server)
        held = [] if definitions is None else definitions.approved.held_names(kind)
        filtered = state.filter_of(session, state.entries[server])
        if not held or kind in filtered.hidden:
            continue
        listing = state.catalog_of(server).get(kind)
        listed = [item.identity for item in listing.items] if listing else []
        names = qualify([*shown.values()], shown[server], [*listed, *held])
        for name in held:
            if names[name] == qualified and (kind is not Kind.TOOLS or filtered.may_show(name)):
                return held_name(state, server, kind, name)
    return None

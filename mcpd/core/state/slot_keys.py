"""Which slot of a server is whose: the keys of slots, made of sessions and workspaces."""

from __future__ import annotations

from typing import Final

from mcpd.core.interface.entries import Entry, Sharing
from mcpd.core.state.session import Session
from mcpd.ids import SlotId

CONTROL: Final = "control"
"""The instance of a server that is not shared which control calls have for themselves."""

KEY_KINDS: Final = {
    Sharing.SHARED: (None,),
    Sharing.SESSION: ("session", CONTROL),
    Sharing.WORKSPACE: ("workspace", CONTROL),
}
"""What the keys of an entry's slots begin with."""


def is_of_workspace(entry: Entry) -> bool:
    """Tell whether it matters to a server's processes in which workspace they are."""
    return entry.sharing is Sharing.WORKSPACE or entry.of_workspace


def slot_of(entry: Entry, key: str | None) -> SlotId:
    """Return the slot of a server that has this key; the shared one has none."""
    return SlotId(entry.launch if key is None else f"{entry.launch}@{key}")


def control_key(entry: Entry, workspace: str | None) -> str | None:
    """Return which of a server's places is for control calls that are made from a workspace."""
    if entry.sharing is Sharing.SHARED:
        return None
    if workspace is None or not is_of_workspace(entry):
        return CONTROL
    return f"{CONTROL}:{workspace}"


def key_of(session: Session, entry: Entry) -> str | None:
    """Return which of a server's places is a session's.

    Sessions of one request cannot have one each: what a server keeps for its client would be lost
    with every response. Those of one principal share it.
    """
    if entry.sharing is Sharing.SESSION and session.is_brief:
        return f"{CONTROL}:{session.principal.kind} {session.principal.name}"
    if entry.sharing is Sharing.SESSION:
        return f"session:{session.id}"
    if entry.sharing is Sharing.WORKSPACE:
        return f"workspace:{session.workspace or ''}"
    return None

"""Progress tokens, replaced on the way up and put back on the way down."""

from __future__ import annotations

from msgspec import Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.wire_ids import whole


def with_token(params: Raw | bytes | None, wire_id: int) -> bytes:
    """Return the parameters with the wire id as progress token, the rest as it came."""
    members = (envelope.object_of(params) if params is not None else None) or {}
    meta = (envelope.object_of(members["_meta"]) if "_meta" in members else None) or {}
    meta["progressToken"] = Raw(b"%d" % wire_id)
    members["_meta"] = Raw(envelope.object_from(meta))
    return envelope.object_from(members)


def token_of(raw: Raw | bytes) -> int | None:
    """Read a token of ours; ``None`` for anything else."""
    return whole(bytes(raw))


def restored(params: Raw | bytes, token: bytes) -> bytes:
    """Return a progress notification's parameters with the requester's own token in them."""
    members = envelope.object_of(params) or {}
    members["progressToken"] = Raw(token)
    return envelope.object_from(members)


def without(params: Raw | bytes, name: str) -> bytes:
    """Return an object without one of its members."""
    members = envelope.object_of(params) or {}
    members.pop(name, None)
    return envelope.object_from(members)


def with_member(params: Raw | bytes, name: str, value: bytes) -> bytes:
    """Return an object with one member exchanged, in its place."""
    members = envelope.object_of(params) or {}
    members[name] = Raw(value)
    return envelope.object_from(members)

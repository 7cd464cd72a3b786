"""The members of ``_meta`` that the modern era defines (2026-07-28, basic/index).

Each request has its protocol version, the client's capabilities and name, and the log level.
Together they are the *envelope*, which is read from a client's request and put into a server's.
Results have the server's name, and notifications the id of their subscription.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from msgspec import Raw

from mcpd.core.mcp import codes, questions
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.methods import LEVELS
from mcpd.core.mcp.versions import MODERN, NEWEST_MODERN, Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_of, text

META: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = META + "protocolVersion"
CAPABILITIES_KEY: Final = META + "clientCapabilities"
INFO_KEY: Final = META + "clientInfo"
LEVEL_KEY: Final = META + "logLevel"
SERVER_INFO_KEY: Final = META + "serverInfo"
SUBSCRIPTION_KEY: Final = META + "subscriptionId"
DRAINING_KEY: Final = "mcpd/draining"

ENVELOPE_KEYS: Final = frozenset((VERSION_KEY, CAPABILITIES_KEY, INFO_KEY, LEVEL_KEY))
"""The members of a request's ``_meta`` that make its envelope."""

_ABSENT: Final = Raw(b"null")


class EnvelopeRefused(Exception):
    """A request has an invalid envelope; holds the error to answer with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def read_envelope(meta: Raw | bytes) -> ClientInfo | None:
    """Return the client's info from the ``_meta`` of a request; ``None`` if it names no version.

    Raises:
        EnvelopeRefused: the version is not supported (-32022), or the envelope is incomplete or
            malformed (-32602).
    """
    members = object_of(meta)
    if members is None or VERSION_KEY not in members:
        return None
    version = text(members[VERSION_KEY])
    if version is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{VERSION_KEY} must be a string")
    if version not in MODERN:
        why = f"protocol version {version!r} is not supported"
        data = {"supported": list(MODERN), "requested": version}
        raise EnvelopeRefused(codes.UNSUPPORTED_VERSION, why, data)
    capabilities = members.get(CAPABILITIES_KEY)
    if capabilities is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{CAPABILITIES_KEY} is missing from _meta")
    declared = object_of(capabilities)
    if declared is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{CAPABILITIES_KEY} must be an object")
    info = bytes(members.get(INFO_KEY, b""))
    level = members.get(LEVEL_KEY, _ABSENT)
    name = text(level)
    if name not in LEVELS and bytes(level) != b"null":
        why = f"{LEVEL_KEY} must be one of {', '.join(LEVELS)}"
        raise EnvelopeRefused(codes.INVALID_PARAMS, why)
    return ClientInfo(
        era=Era.MODERN,
        capabilities=bytes(capabilities),
        info=info if info and object_of(info) is not None else None,
        answers=questions.answer_capabilities(declared),
        level=name,
    )


def with_envelope(
    params: Raw | bytes | None, client_info: ClientInfo, version: str = NEWEST_MODERN
) -> bytes:
    """Return the parameters of a request with an envelope; the rest is unchanged."""
    envelope = _envelope(client_info, version)
    if params is None:
        return b'{"_meta":{%b}}' % envelope
    return with_members(params, envelope, ENVELOPE_KEYS)


def _envelope(client_info: ClientInfo, version: str) -> bytes:
    parts = [
        b'"%b":"%b","%b":%b' % (_VERSION, version.encode(), _CAPABILITIES, client_info.capabilities)
    ]
    if client_info.info is not None:
        parts.append(b'"%b":%b' % (_INFO, client_info.info))
    if client_info.level is not None:
        parts.append(b'"%b":"%b"' % (_LEVEL, client_info.level.encode()))
    return b",".join(parts)


_VERSION, _CAPABILITIES, _INFO, _LEVEL = (
    key.encode() for key in (VERSION_KEY, CAPABILITIES_KEY, INFO_KEY, LEVEL_KEY)
)


def without_envelope(params: Raw | bytes | None) -> bytes | None:
    """Return the parameters of a request without its envelope.

    A ``_meta`` that is empty without it is left out; parameters that are then empty are ``None``.
    """
    return without_members(params, ENVELOPE_KEYS)[0]


def with_members(item: Raw | bytes, added: bytes, instead_of: Collection[str]) -> bytes:
    """Add members to ``_meta``, before its own; leave out its own that are in ``instead_of``."""
    members = object_of(item)
    if members is None:
        return bytes(item)
    if "_meta" not in members:
        return splice.in_front(item, b'"_meta":{%b}' % added)
    own = members["_meta"]
    left = splice.without(own, instead_of) if object_of(own) is not None else b"{}"
    return splice.replace(item, "_meta", splice.in_front(left, added))


def without_members(
    item: Raw | bytes | None, names: Collection[str]
) -> tuple[bytes | None, dict[str, Raw]]:
    """Remove members from ``_meta``; return the rest of the item, and the removed members."""
    if item is None:
        return None, {}
    own = (object_of(item) or {}).get("_meta", _ABSENT)
    meta = object_of(own) or {}
    removed = {name: meta[name] for name in names if name in meta}
    if not removed:
        return bytes(item), {}
    if len(removed) < len(meta):
        return splice.replace(item, "_meta", splice.without(own, names)), removed
    left = splice.without(item, ("_meta",))
    return None if splice.is_empty(left) else left, removed

"""The stateless era, as functions from message to message (revision 2026-07-28).

The parameters and the result of ``server/discover`` (server/discover), and the members that each
result has: its type, and how long a client may cache it (server/utilities/caching).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp import legacy, modern_meta
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import TASKS_EXTENSION, HandshakeRefused, Introduction
from mcpd.core.mcp.modern_meta import SERVER_INFO_KEY
from mcpd.core.mcp.versions import MODERN, Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, text

_RESULT_KEYS: Final = ("resultType", "ttlMs", "cacheScope")
_INFO_QUOTED: Final = b'"%b":' % SERVER_INFO_KEY.encode()
_ABSENT: Final = Raw(b"null")


# -- server/discover -------------------------------------------------------------------------------


def discover_params(client_info: ClientInfo) -> bytes:
    """Return the parameters of ``server/discover``."""
    return modern_meta.with_envelope(None, client_info)


def read_discover(result: Raw | bytes, server: str) -> Introduction:
    """Read a server's answer to ``server/discover``.

    Raises:
        HandshakeRefused: the result is malformed, or mcpd supports none of the server's revisions.
    """
    members = object_of(result)
    if members is None:
        raise HandshakeRefused("answered server/discover with something else than an object")
    versions = splice.texts(members.get("supportedVersions", _ABSENT))
    if versions is None:
        raise HandshakeRefused("names no supportedVersions in its answer to server/discover")
    shared = [version for version in MODERN if version in versions]
    if not shared:
        said = ", ".join(versions) or "none"
        raise HandshakeRefused(f"speaks protocol versions that mcpd does not know: {said}")
    capabilities = object_of(members.get("capabilities", _ABSENT))
    if capabilities is None:
        raise HandshakeRefused("names no capabilities in its answer to server/discover")
    meta = object_of(members.get("_meta", _ABSENT)) or {}
    info = bytes(meta.get(SERVER_INFO_KEY, b""))
    if object_of(info or b"null") is None:
        info = msgspec.json.encode({"name": server, "version": "0"})  # legacy clients need both
    instructions = members.get("instructions")
    if instructions is not None and text(instructions) is None:
        instructions = None
    return Introduction(
        version=shared[-1],
        capabilities={name: Raw(bytes(raw)) for name, raw in capabilities.items()},
        info=info,
        instructions=None if instructions is None else bytes(instructions),
    )


def discover_result(capabilities: bytes, info: bytes, instructions: bytes | None) -> bytes:
    """Return the result of a client's ``server/discover``."""
    said = b"" if instructions is None else b',"instructions":%b' % instructions
    return (
        b'{"resultType":"complete","supportedVersions":%b,"capabilities":%b%b,'
        b'"ttlMs":0,"cacheScope":"private","_meta":{"%b":%b}}'
    ) % (msgspec.json.encode(MODERN), capabilities, said, SERVER_INFO_KEY.encode(), info)


def endpoint_capabilities(introduction: Introduction) -> bytes:
    """Return the capabilities that the endpoint of one server declares to modern clients."""
    return legacy.endpoint_capabilities(introduction, has_tasks=introduction.era is Era.MODERN)


def has_tasks(introduction: Introduction) -> bool:
    """Tell whether a server has the extension for tasks."""
    extensions = introduction.capabilities.get("extensions", _ABSENT)
    return introduction.era is Era.MODERN and TASKS_EXTENSION in (object_of(extensions) or {})


def without_tasks(client_info: ClientInfo) -> ClientInfo:
    """Return the client's info without the extension for tasks, which the aggregate lacks."""
    if TASKS_EXTENSION.encode() not in client_info.capabilities:
        return client_info
    members = object_of(client_info.capabilities) or {}
    extensions = object_of(members.get("extensions", Raw(b"{}"))) or {}
    extensions.pop(TASKS_EXTENSION, None)
    if extensions:
        members["extensions"] = Raw(object_from(extensions))
    else:
        members.pop("extensions", None)
    return msgspec.structs.replace(client_info, capabilities=object_from(members))


# -- results ---------------------------------------------------------------------------------------


def result_type(result: Raw | bytes) -> str | None:
    """Return the ``resultType`` of a result, by default ``complete``.

    Return ``None`` if it is not a string, or if the result is not an object.
    """
    members = object_of(result)
    if members is None:
        return None
    return text(members["resultType"]) if "resultType" in members else "complete"


def to_modern_result(
    result: Raw | bytes, info: bytes, *, hints: tuple[int, str] | None = None
) -> bytes:
    """Return a legacy result as a complete modern one; its own members are unchanged.

    ``info`` is the server's ``Implementation``. ``hints`` are ``ttlMs`` and ``cacheScope``, for
    results that may be cached.
    """
    members = object_of(result)
    if members is None:
        return bytes(result)
    said = b'"resultType":"complete"'
    if hints is not None:
        if "ttlMs" not in members:
            said += b',"ttlMs":%d' % hints[0]
        if "cacheScope" not in members:
            said += b',"cacheScope":"%b"' % hints[1].encode()
    about = _INFO_QUOTED + info
    if "_meta" not in members and "resultType" not in members:
        return splice.in_front(result, b'%b,"_meta":{%b}' % (said, about))
    raw = splice.without(result, ("resultType",))
    return splice.in_front(modern_meta.with_members(raw, about, (SERVER_INFO_KEY,)), said)


def to_legacy_result(result: Raw | bytes) -> bytes:
    """Return a complete modern result without the members that legacy clients do not know."""
    return splice.without(result, _RESULT_KEYS)


def list_page(page: bytes, info: bytes, ttl_ms: int, scope: str) -> bytes:
    """Return a list result of our own for a modern client."""
    return to_modern_result(page, info, hints=(ttl_ms, scope))

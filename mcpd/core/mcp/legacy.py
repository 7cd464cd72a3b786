"""The handshake eras, as functions from message to message (revisions 2024-11-05 to 2025-11-25).

No other module knows the parameters and the result of ``initialize``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp.introduction import TASKS_EXTENSION, HandshakeRefused, Introduction
from mcpd.core.mcp.versions import LEGACY
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, text

LIST_CHANGED: Final = ("tools", "prompts", "resources")


def handshake_params(version: str, capabilities: Mapping[str, Raw | bytes], info: bytes) -> bytes:
    """Return the parameters of ``initialize``; ``info`` is the ``clientInfo`` as JSON."""
    return b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":%b}' % (
        version.encode(),
        object_from(capabilities),
        info,
    )


def read_handshake(result: Raw | bytes, server: str) -> Introduction:
    """Read a server's answer to ``initialize``.

    Raises:
        HandshakeRefused: the result is malformed, or mcpd does not support its revision.
    """
    members = object_of(result)
    if members is None:
        raise HandshakeRefused("answered initialize with something else than an object")
    version = text(members.get("protocolVersion", Raw(b"null")))
    if version is None:
        raise HandshakeRefused("names no protocolVersion in its answer to initialize")
    if version not in LEGACY:
        raise HandshakeRefused(f"speaks protocol version {version!r}, which mcpd does not know")
    capabilities = object_of(members.get("capabilities", Raw(b"{}"))) or {}
    info = bytes(members.get("serverInfo", Raw(b"")))
    if object_of(info or b"null") is None:
        info = msgspec.json.encode({"name": server, "version": "0"})
    instructions = members.get("instructions")
    if instructions is not None and text(instructions) is None:
        instructions = None
    return Introduction(
        version=version,
        capabilities={name: Raw(bytes(raw)) for name, raw in capabilities.items()},
        info=info,
        instructions=None if instructions is None else bytes(instructions),
    )


def initialize_result(
    version: str, capabilities: bytes, info: bytes, instructions: bytes | None
) -> bytes:
    """Return the result of a client's ``initialize``."""
    head = b'{"protocolVersion":"%b","capabilities":%b,"serverInfo":%b'
    tail = b"}" if instructions is None else b',"instructions":%b}' % instructions
    return head % (version.encode(), capabilities, info) + tail


def endpoint_capabilities(introduction: Introduction, *, has_tasks: bool = False) -> bytes:
    """Return the capabilities that the endpoint of one server declares to its clients.

    Each list has ``listChanged``, because restarts, filters and reloads change it. ``tasks`` are
    left out, because they are not relayed; the extension for tasks is, unless ``has_tasks``.
    """
    shown: dict[str, Raw | bytes] = {}
    for name, raw in introduction.capabilities.items():
        if name == "tasks":
            continue
        members = object_of(raw) if name in LIST_CHANGED else None
        if members is not None:
            shown[name] = object_from({**members, "listChanged": b"true"})
        elif name == "extensions" and not has_tasks:
            shown[name] = splice.without(raw, (TASKS_EXTENSION,))
        else:
            shown[name] = raw
    return object_from(shown)


_AGGREGATE_CAPABILITIES: Final = {
    "tools": b'{"listChanged":true}',
    "prompts": b'{"listChanged":true}',
    "resources": b'{"subscribe":true,"listChanged":true}',
    "completions": b"{}",
    "logging": b"{}",
}


def aggregate_capabilities(servers: Iterable[Introduction]) -> bytes:
    """Return the capabilities that the aggregate declares.

    They do not depend on the servers, except for the extensions. If several servers have an
    extension, the first server's settings are shown. Tasks are left out: a task id does not tell
    which server has the task.
    """
    extensions: dict[str, Raw] = {}
    for introduction in servers:
        found = object_of(introduction.capabilities.get("extensions", b"{}")) or {}
        for name, settings in found.items():
            if name != TASKS_EXTENSION:
                extensions.setdefault(name, settings)
    if not extensions:
        return object_from(_AGGREGATE_CAPABILITIES)
    return object_from({**_AGGREGATE_CAPABILITIES, "extensions": object_from(extensions)})


def level_params(level: str) -> bytes:
    """Return the parameters of ``logging/setLevel``."""
    return msgspec.json.encode({"level": level})

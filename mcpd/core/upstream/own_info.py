"""What we say of ourselves to a server, or of the client whose process it is."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from mcpd.core.interface.entries import Entry, Interactive
from mcpd.core.mcp import legacy, modern
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import TASKS_EXTENSION as TASKS
from mcpd.core.mcp.offer import Capabilities, Offer, reduce_capabilities
from mcpd.core.mcp.versions import Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of

_NAME = "mcpd"

_QUESTIONS = ("sampling", "elicitation")


def handshake_params(client_info: ClientInfo, entry: Entry, offer: Offer) -> bytes:
    """Return the parameters of ``initialize`` that make an offer."""
    declared = reduce_capabilities(declared_to_legacy(client_info, entry), offer.omission)
    return legacy.handshake_params(offer.version, declared, client_info.info or b"{}")


def declared_to_legacy(client_info: ClientInfo, entry: Entry) -> Capabilities:
    """Return the capabilities that a legacy process is told in full."""
    declared = object_of(client_info.capabilities) or {}
    if entry.asks_for_roots:  # a session says when its roots change
        declared["roots"] = Raw(b'{"listChanged":true}')
    return declared


def client_info_for(entry: Entry, client: ClientInfo | None, version: str) -> ClientInfo:
    """Return who asks a process for its lists, and whom ``initialize`` introduces.

    ``client`` is the one whose process it is, with nobody else: the process is told what that
    client declared. A process of many is told that everything can be asked, because servers hide
    tools otherwise. Roots are declared only where the entry has some, because a filesystem server
    replaces its directories with them.
    """
    declared: dict[str, Raw | bytes]
    if client is None:
        declared = {"sampling": b"{}", "elicitation": b'{"form":{},"url":{}}'}
        extensions: dict[str, Any] = {name: {} for name in entry.extensions if name != TASKS}
        if extensions:
            declared["extensions"] = msgspec.json.encode(extensions)
    else:
        declared = dict(object_of(modern.without_tasks(client).capabilities) or {})
        declared.pop("roots", None)
    if entry.interactive is Interactive.OFF:
        for name in _QUESTIONS:
            declared.pop(name, None)
    if entry.roots or entry.asks_for_roots:
        declared["roots"] = b"{}"
    info = None if client is None else client.info
    return ClientInfo(Era.LEGACY, object_from(declared), info or _info(version))


def allowed(entry: Entry, client_info: ClientInfo) -> ClientInfo:
    """Return who asks as a process is told: with ``interactive = "off"`` it can ask nothing."""
    if entry.interactive is not Interactive.OFF:
        return client_info
    declared = splice.without(client_info.capabilities, _QUESTIONS)
    return msgspec.structs.replace(client_info, capabilities=declared)


def control_client_info(version: str) -> ClientInfo:
    """Return who makes control calls: nobody who could be asked anything."""
    return ClientInfo(Era.LEGACY, b"{}", _info(version))


def _info(version: str) -> bytes:
    return msgspec.json.encode({"name": _NAME, "version": version})

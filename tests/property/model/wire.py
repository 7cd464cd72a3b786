"""Messages as the model writes and reads them: by its own hand where the eras differ."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from mcpd.core.wire import envelope

META = "io.modelcontextprotocol/"
REVISION = "2026-07-28"
VERSION = META + "protocolVersion"
CAPABILITIES = META + "clientCapabilities"
CLIENT = META + "clientInfo"
LEVEL = META + "logLevel"
SERVER = META + "serverInfo"
SUBSCRIPTION = META + "subscriptionId"
TASKS = META + "tasks"
ENVELOPE = (VERSION, CAPABILITIES, CLIENT, LEVEL)
STAMPS = ("resultType", "ttlMs", "cacheScope")
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

Json = dict[str, Any]
ODD = b'"n":1.0e400 , "s":"\\ud800"'
"""What a decoder would damage: it has to come as it went."""


id_key = envelope.id_key


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


def members(data: Any) -> dict[str, bytes]:
    """Return an object's members as they stand, in their order; what is no object has none."""
    found = envelope.object_of(data) if data is not None else None
    return {name: bytes(raw) for name, raw in (found or {}).items()}


def written(found: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(dumps(name) + b":" + raw for name, raw in found.items()) + b"}"


def rest(data: Any, *, top: Collection[str] = (), meta: Collection[str] = ()) -> list[Any]:
    """Return what is to be the same on both sides: all members but these, and those of ``_meta``."""
    found = members(data)
    inner = members(found.pop("_meta", None))
    left = [(name, raw) for name, raw in found.items() if name not in top]
    return [left, [(name, raw) for name, raw in inner.items() if name not in meta]]


def request(ident: bytes, method: str, params: bytes) -> bytes:
    line = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}'
    return line % (ident, method.encode(), params)


def notification(method: str, params: bytes | None = None) -> bytes:
    tail = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","method":"%b"%b}' % (method.encode(), tail)


def result(ident: bytes, value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (ident, value)


def error(ident: bytes, value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (ident, value)


def is_needed(method: str, params: Json) -> str:
    """Return what a client must have declared to be asked this."""
    match method:
        case "elicitation/create":
            return "elicitation.url" if params.get("mode") == "url" else "elicitation"
        case "sampling/createMessage":
            return "sampling"
    return "roots"


def can(capabilities: Json, need: str) -> bool:
    """Tell whether somebody with these capabilities can be asked what needs this."""
    name, _, member = need.partition(".")
    found = capabilities.get(name)
    if found is None:
        return False
    if name != "elicitation":
        return True
    return "url" in found if member else "form" in found or "url" not in found


def as_modern(capabilities: Json) -> Json:
    """Return what a modern server is told of a legacy client's capabilities."""
    told = {name: value for name, value in capabilities.items() if name != "tasks"}
    if "roots" in told:
        told["roots"] = {}
    return told


def without_tasks(capabilities: Json) -> Json:
    """Return what a server is told through the aggregate, where no task could be found again."""
    extensions = {k: v for k, v in capabilities.get("extensions", {}).items() if k != TASKS}
    told = {name: value for name, value in capabilities.items() if name != "extensions"}
    return {**told, "extensions": extensions} if extensions else told

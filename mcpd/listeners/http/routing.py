"""The headers that repeat parts of a modern request's body, and whether they agree with it.

Source: MCP 2026-07-28, basic/transports/streamable-http: ``MCP-Protocol-Version``, ``Mcp-Method``,
``Mcp-Name`` and ``Mcp-Param-*``. Proxies route by them, so a request whose headers say something
else than its body is refused (-32020).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.listeners.http.exchange import Headers

VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM: Final = "mcp-param-"

_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
"""Which member of ``params`` the header ``Mcp-Name`` repeats, by method."""

_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=\Z", re.DOTALL)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_INTEGER: Final = re.compile(r"-?[0-9]{1,400}\Z")
_TYPES: Final = ("string", "integer", "boolean")
_DEPTH: Final = 16
"""How deep a schema's properties are searched for annotations."""


def disagreement(headers: Headers, version: str, method: str, params: Params) -> str | None:
    """Say which routing header is missing or says something else than the body, if one does.

    ``version`` and ``method`` are the body's.
    """
    for name in (VERSION, METHOD, NAME):
        if headers.count(name) > 1:
            return f"the header {name} was sent twice"
    if headers.get(VERSION) != version:
        return f"the header {VERSION} must repeat the request's protocol version"
    if headers.get(METHOD) != method:
        return f"the header {METHOD} must repeat the request's method"
    member = _NAMED.get(method)
    if member is None:
        return None
    wanted = envelope.text(getattr(params, member))
    said = headers.get(NAME)
    if wanted is None and said is None:
        return None  # the body is refused for it
    if said is None:
        return f"the header {NAME} is missing"
    if decoded(said) != wanted:
        return f"the header {NAME} must repeat params.{'taskId' if member == 'task_id' else member}"
    return None


def decoded(value: str) -> str | None:
    """Return what a header value says; ``None`` for one that is encoded wrongly.

    Text outside of printable ASCII is written as ``=?base64?…?=``: base64 of its UTF-8.
    """
    found = _ENCODED.match(value)
    if found is None:
        return value
    try:
        raw = base64.b64decode(found[1], validate=True)
        if base64.b64encode(raw).decode() != found[1]:
            return None  # not the canonical padding
        return raw.decode()
    except (binascii.Error, ValueError):
        return None


def parameters(schema: bytes | None) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the arguments that a tool wants repeated in headers.

    The result maps the header's name, in lower case and without ``Mcp-Param-``, to the path of the
    argument and its type. A tool with an invalid annotation wants none: clients do not see it.
    """
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    if schema is None or b"x-mcp-header" not in schema:
        return found
    waiting: list[tuple[tuple[str, ...], Raw]] = [((), Raw(schema))]
    for path, raw in waiting:
        members = envelope.object_of(raw) or {}
        properties = envelope.object_of(members.get("properties", Raw(b"{}"))) or {}
        for name, each in properties.items():
            inner = envelope.object_of(each) or {}
            own = (*path, name)
            if len(own) < _DEPTH and "properties" in inner:
                waiting.append((own, each))
            if "x-mcp-header" not in inner:
                continue
            header = envelope.text(inner["x-mcp-header"])
            kind = envelope.text(inner.get("type", UNSET))
            if header is None or not _TOKEN.match(header) or kind not in _TYPES:
                return {}
            if header.lower() in found:
                return {}
            found[header.lower()] = (own, kind)
    return found


def parameter_disagreement(
    headers: Headers, wanted: Mapping[str, tuple[tuple[str, ...], str]], arguments: envelope.Bytes
) -> str | None:
    """Say which ``Mcp-Param-*`` header does not agree with the arguments, if one does not.

    A header and its argument are both there and equal, or both absent; null is absent.
    """
    for name, (path, kind) in wanted.items():
        header = PARAM + name
        if headers.count(header) > 1:
            return f"the header {header} was sent twice"
        said, given = headers.get(header), _argument(arguments, path)
        where = ".".join(path)
        if given is None and said is None:
            continue
        if given is None:
            return f"the header {header} is there, and the argument {where} is not"
        if said is None:
            return f"the header {header} must repeat the argument {where}"
        if not _agrees(decoded(said), given, kind):
            return f"the header {header} must repeat the argument {where}"
    return None


def _argument(arguments: envelope.Bytes, path: tuple[str, ...]) -> Raw | None:
    found: envelope.Bytes = arguments
    for name in path:
        members = envelope.object_of(found) if found is not UNSET else None
        found = (members or {}).get(name, UNSET)
    return None if found is UNSET or bytes(found) == b"null" else found


def _agrees(said: str | None, given: Raw, kind: str) -> bool:
    if said is None:
        return False
    text = envelope.text(given)
    if text is not None:
        return said == text
    raw = bytes(given).decode("utf-8", "replace")
    if kind == "integer" and _INTEGER.match(said) and _INTEGER.match(raw):
        return int(said) == int(raw)
    return said == raw

"""The headers that repeat parts of a modern request's body, and whether they agree with it.

Source: MCP 2026-07-28, basic/transports/streamable-http: ``MCP-Protocol-Version``, ``Mcp-Method``,
``Mcp-Name`` and ``Mcp-Param-*``. Proxies route by them, so a request whose headers say something
else than its body is refused (-32020).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from mcpd.core.mcp.routing import NAMED, argument, decoded
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.listeners.http.exchange import Headers

VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM: Final = "mcp-param-"

_INTEGER: Final = re.compile(r"-?[0-9]{1,400}\Z")


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
    member = NAMED.get(method)
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
        said, given = headers.get(header), argument(arguments, path)
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

"""Translation between the eras: a legacy client with a modern server, and the reverse.

Each function takes a message, or a part of one, and returns it as the other era has it. Which
requests are pending is kept elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from mcpd.core.mcp import codes, modern, modern_meta, questions
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.input_required import RETRY_KEYS
from mcpd.core.mcp.introduction import TASKS_EXTENSION
from mcpd.core.mcp.versions import Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, text

_HINTS: Final = (0, "private")
_CACHEABLE: Final = frozenset(
    (
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    )
)
"""Methods whose results have caching hints (2026-07-28, server/utilities/caching)."""

_OF_A_SERVER: Final = ("progressToken", modern_meta.META + "related-task")
_CANCELLED: Final = b'{"action":"cancel"}'
_NULLS: Final = (b"null", b"false")


# -- requests --------------------------------------------------------------------------------------


def legacy_client_info(
    capabilities: Mapping[str, Raw], info: Raw | None, level: str | None = None
) -> ClientInfo:
    """Return the client's info for a legacy session, from the parameters of ``initialize``.

    ``tasks`` are left out, because they are not those of the modern extension; so is the
    ``listChanged`` of ``roots``, which the modern era does not have.
    """
    declared: dict[str, Raw | bytes] = {}
    for name, raw in capabilities.items():
        if name == "tasks" or bytes(raw) in _NULLS:
            continue
        if name == "roots":
            declared[name] = b"{}"
        elif name == "extensions":
            declared[name] = splice.without(raw, (TASKS_EXTENSION,))
        else:
            declared[name] = raw
    said = None if info is None or object_of(info) is None else bytes(info)
    answers = questions.answer_capabilities(capabilities)
    return ClientInfo(Era.LEGACY, object_from(declared), said, answers, level)


def params_for_server(
    params: Raw | bytes | None, client_info: ClientInfo, era: Era
) -> bytes | None:
    """Return a client's request parameters for a server of ``era``.

    A ``task`` is left out in both directions: the tasks of 2025-11-25 are not relayed, and a
    modern client does not ask for a task with a parameter.
    """
    if era is client_info.era:
        return None if params is None else bytes(params)
    if era is Era.LEGACY:
        left = None if params is None else splice.without(params, _UNKNOWN_TO_LEGACY)
        return modern_meta.without_envelope(left)
    left = None if params is None else splice.without(params, _TASK)
    return modern_meta.with_envelope(left, client_info)


_TASK: Final = ("task",)
_UNKNOWN_TO_LEGACY: Final = (*_TASK, *RETRY_KEYS)


# -- results and errors ----------------------------------------------------------------------------


def result_for_modern(method: str, result: Raw | bytes, info: bytes) -> bytes:
    """Return a legacy server's result for a modern client."""
    hints = _HINTS if method in _CACHEABLE else None
    return modern.to_modern_result(result, info, hints=hints)


def result_for_legacy(result: Raw | bytes) -> bytes:
    """Return a modern server's complete result for a legacy client."""
    return modern.to_legacy_result(result)


def error_for_modern(error: Raw | bytes) -> bytes:
    """Return a legacy server's error for a modern client.

    A code that the modern specification reserves becomes an internal error: a legacy server does
    not mean by it what a modern client would understand.
    """
    code = _code_of(error)
    if code == codes.RESOURCE_NOT_FOUND:
        return splice.replace(error, "code", b"%d" % codes.INVALID_PARAMS)
    if code is not None and _RESERVED_FROM <= code <= _RESERVED_TO:
        return _wrapped(error)
    return bytes(error)


_RESERVED_FROM: Final = -32099
_RESERVED_TO: Final = -32020
_CODE: Final = re.compile(rb"-32[0-9]{3}\Z")


def error_for_legacy(error: Raw | bytes) -> bytes:
    """Return a modern server's error for a legacy client.

    Errors about a header or a version concern mcpd and the server, and become internal errors. So
    does that of a missing capability, which has no code in the legacy era.
    """
    if _code_of(error) == codes.MISSING_CAPABILITY:
        return splice.replace(error, "code", b"%d" % codes.INTERNAL_ERROR)
    if _code_of(error) in (codes.HEADER_MISMATCH, codes.UNSUPPORTED_VERSION):
        return _wrapped(error)
    return bytes(error)


def _code_of(error: Raw | bytes) -> int | None:
    if b"-320" not in bytes(error):
        return None
    code = bytes((object_of(error) or {}).get("code", b""))
    return int(code) if _CODE.match(code) else None


def _wrapped(error: Raw | bytes) -> bytes:
    members = object_of(error) or {}
    message = members.get("message", Raw(b"null"))
    said = bytes(message) if text(message) is not None else b'"internal error"'
    return b'{"code":%d,"message":%b,"data":{"original":%b}}' % (
        codes.INTERNAL_ERROR,
        said,
        bytes(error),
    )


# -- questions -------------------------------------------------------------------------------------


def question_for_modern(method: str, params: Raw | bytes | None) -> bytes | None:
    """Return the parameters of a legacy server's question for an input request.

    Left out is what has no meaning outside of the server's connection: the id of a URL elicitation
    (a modern client gets no notification of its completion), the progress token and the task.
    """
    if params is None:
        return None
    raw = bytes(params)
    members = object_of(raw)
    if members is None:
        return raw
    if method == questions.ELICITATION and "elicitationId" in members:
        raw = splice.without(raw, ("elicitationId",))
    meta = object_of(members["_meta"]) if "_meta" in members else None
    if meta is None or not any(name in meta for name in _OF_A_SERVER):
        return raw
    own = splice.without(members["_meta"], _OF_A_SERVER)
    if not splice.is_empty(own):
        return splice.replace(raw, "_meta", own)
    raw = splice.without(raw, ("_meta",))
    return None if method == questions.ROOTS and splice.is_empty(raw) else raw


def question_for_legacy(method: str, params: Raw | bytes | None, ident: str = "") -> bytes:
    """Return the parameters of an input request for a question to a legacy client.

    A URL elicitation gets an id, made from ``ident`` and the parameters.
    """
    raw = b"{}" if params is None else bytes(params)
    if questions.needed_capability(method, raw) != "elicitation.url":
        return raw
    if "elicitationId" in (object_of(raw) or {}):
        return raw
    digest = hashlib.sha256(ident.encode() + b"\0" + raw).hexdigest()[:32]
    return splice.in_front(raw, b'"elicitationId":"%b"' % digest.encode())


def response_for_error(method: str) -> bytes | None:
    """Return the input response for a question that a legacy client answered with an error.

    Return ``None`` if its method has none: the call fails with the client's error.
    """
    return _CANCELLED if method == questions.ELICITATION else None

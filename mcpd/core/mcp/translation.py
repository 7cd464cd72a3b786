"""What is said differently in the two eras, where a client and a process do not speak the same.

The rows of both tables of the protocol: a legacy client at a modern process, and the reverse. Who
waits for whom meanwhile is not here; all of this is from message to message.
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
"""Whose results say how long they may be kept (2026-07-28, server/utilities/caching)."""

_OF_A_SERVER: Final = ("progressToken", modern_meta.META + "related-task")
_CANCELLED: Final = b'{"action":"cancel"}'
_NULLS: Final = (b"null", b"false")


# -- requests --------------------------------------------------------------------------------------


def client_info_of(
    capabilities: Mapping[str, Raw], info: Raw | None, level: str | None = None
) -> ClientInfo:
    """Return who asks in a legacy session, from what its client said in ``initialize``.

    Its tasks are others than those of the modern extension; roots have no ``listChanged`` there.
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
    answers = questions.answers_of(capabilities)
    return ClientInfo(Era.LEGACY, object_from(declared), said, answers, level)


def params_up(params: Raw | bytes | None, client_info: ClientInfo, era: Era) -> bytes | None:
    """Return a request's parameters as a process of ``era`` takes them from this asker.

    In both directions a ``task`` goes: those of 2025-11-25 are not relayed, and no others are asked
    for by parameter.
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


# -- answers ---------------------------------------------------------------------------------------


def result_for_modern(method: str, result: Raw | bytes, info: bytes) -> bytes:
    """Return a legacy server's result as a modern client takes it."""
    hints = _HINTS if method in _CACHEABLE else None
    return modern.to_modern_result(result, info, hints=hints)


def result_for_legacy(result: Raw | bytes) -> bytes:
    """Return a modern server's complete result as a legacy client takes it."""
    return modern.to_legacy_result(result)


def error_for_modern(error: Raw | bytes) -> bytes:
    """Return a legacy server's error as a modern client takes it.

    Of the codes that the specification keeps for itself a legacy server knows none, and -32042 is
    gone: a client would read into them what was not said.
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
    """Return a modern server's error as a legacy client takes it.

    What is wrong with a header or a version is wrong between us and the server; a capability that
    was not declared has no code of its own there.
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
    """Return a legacy server's question as an input request has it.

    What only its own connection can make sense of is left out: the id of a URL elicitation, whose
    completion nobody will be told of, its progress token and its task.
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
    """Return an input request as a legacy client is asked it.

    A URL elicitation has an id there; ``ident`` tells two with the same words apart.
    """
    raw = b"{}" if params is None else bytes(params)
    if questions.needed_for(method, raw) != "elicitation.url":
        return raw
    if "elicitationId" in (object_of(raw) or {}):
        return raw
    digest = hashlib.sha256(ident.encode() + b"\0" + raw).hexdigest()[:32]
    return splice.in_front(raw, b'"elicitationId":"%b"' % digest.encode())


def refusal(method: str) -> bytes | None:
    """Return what stands for a client's error among input responses, which have no form for one.

    ``None`` where nothing does: the call fails with that error.
    """
    return _CANCELLED if method == questions.ELICITATION else None

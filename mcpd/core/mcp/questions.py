"""The requests that servers send to clients, in either era, and the capability that each needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from mcpd.core.wire import envelope

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

METHODS: Final = (ELICITATION, SAMPLING, ROOTS)
"""All requests of servers (2025-11-25), which are all input requests (2026-07-28, mrtr)."""

MOST_PER_CALL: Final = 32
"""Questions that may be open for one call."""

_NULLS: Final = (b"null", b"false")


def answer_capabilities(capabilities: Mapping[str, Raw]) -> frozenset[str]:
    """Return the capabilities to answer questions, of those that a client declares.

    They are ``elicitation`` (forms), ``elicitation.url``, ``sampling``, ``sampling.tools`` and
    ``roots``. An empty ``elicitation`` means forms (2025-11-25, client/elicitation).
    """
    found: set[str] = set()
    for name in ("elicitation", "sampling", "roots"):
        raw = capabilities.get(name)
        if raw is None or bytes(raw) in _NULLS:
            continue
        members = envelope.object_of(raw) or {}
        if name == "elicitation":
            if "url" in members:
                found.add("elicitation.url")
            if "form" in members or "url" not in members:
                found.add(name)
            continue
        found.add(name)
        if name == "sampling" and "tools" in members:
            found.add("sampling.tools")
    return frozenset(found)


def needed_capability(method: str, params: Raw | bytes | None) -> str | None:
    """Return the answer capability that a question needs; ``None`` for any other method."""
    if method not in METHODS:
        return None
    members = (envelope.object_of(params) if params is not None else None) or {}
    if method == ELICITATION:
        is_url = envelope.text(members.get("mode", Raw(b"null"))) == "url"
        return "elicitation.url" if is_url else "elicitation"
    if method == SAMPLING:
        has_tools = any(bytes(members.get(n, Raw(b"null"))) != b"null" for n in _TOOLS)
        return "sampling.tools" if has_tools else "sampling"
    return "roots"


_TOOLS: Final = ("tools", "toolChoice")


def required_capabilities(need: str) -> dict[str, Any]:
    """Return the ``requiredCapabilities`` of an error -32021 for an answer capability."""
    name, _, member = need.partition(".")
    return {name: {member: {}} if member else {}}

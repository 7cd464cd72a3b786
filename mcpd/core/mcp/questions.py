"""What a server may ask a client, in either era, and what the client must have declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from mcpd.core.wire import envelope

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

METHODS: Final = (ELICITATION, SAMPLING, ROOTS)
"""The only requests of a server (2025-11-25) and the only input requests (2026-07-28, MRTR)."""

MOST_OF_A_CALL: Final = 32
"""Questions that may be open for one call."""

_NULLS: Final = (b"null", b"false")


def answers_of(capabilities: Mapping[str, Raw]) -> frozenset[str]:
    """Return what a client with these capabilities can be asked.

    Words are ``elicitation`` (a form), ``elicitation.url``, ``sampling``, ``sampling.tools`` and
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


def needed_for(method: str, params: Raw | bytes | None) -> str | None:
    """Return the word of ``answers_of`` for a question; ``None`` for what is no question."""
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


def as_capabilities(need: str) -> dict[str, Any]:
    """Return the ``requiredCapabilities`` of an error -32021 for one word."""
    name, _, member = need.partition(".")
    return {name: {member: {}} if member else {}}

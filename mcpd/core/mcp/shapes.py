"""Checks the types of a client's parameters: some servers crash if one is wrong."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params

_BRACE: Final = ord("{")
_REFERENCES: Final = {"ref/prompt": "name", "ref/resource": "uri"}
"""The types of references in ``completion/complete``, and the member that names the target."""


def find_problem(method: str, found: Params) -> str | None:
    """Return what is wrong with a client's parameters, or ``None``.

    Servers on the Python SDK up to 1.8.1 end at such a request (measured), and with them the
    requests of all other clients.
    """
    if not is_object(found.meta):
        return "_meta must be an object"
    if method == "tools/call" and not is_object(found.arguments):
        return "arguments must be an object"
    if method == "prompts/get" and not _is_of_texts(found.arguments):
        return "arguments must be an object of strings"
    if method != "completion/complete":
        return None
    if not _is_reference(found.ref):
        return "ref must be a ref/prompt with a name or a ref/resource with a uri"
    if not _has_texts(found.argument, "name", "value"):
        return "argument must have a name and a value, both strings"
    return None


def is_object(member: envelope.Bytes) -> bool:
    """Tell whether a member is an object, null or absent."""
    return member is UNSET or memoryview(member)[0] == _BRACE or bytes(member) == b"null"


def _is_of_texts(member: envelope.Bytes) -> bool:
    if member is UNSET or bytes(member) == b"null":
        return True
    values = envelope.object_of(member)
    return values is not None and all(envelope.text(each) is not None for each in values.values())


def _is_reference(member: envelope.Bytes) -> bool:
    kind = _members(member).get("type", UNSET)
    named = _REFERENCES.get(envelope.text(kind) or "")
    return named is not None and _has_texts(member, named)


def _has_texts(member: envelope.Bytes, *names: str) -> bool:
    members = _members(member)
    return all(envelope.text(members.get(name, UNSET)) is not None for name in names)


def _members(member: envelope.Bytes) -> dict[str, Raw]:
    return (envelope.object_of(member) if member is not UNSET else None) or {}

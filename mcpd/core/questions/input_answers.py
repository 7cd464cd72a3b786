"""Looking at what a client retries a request with: whether it is the same, and its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from msgspec import UNSET, Raw

from mcpd.core.mcp import questions
from mcpd.core.wire import envelope

_ACTIONS: Final = ("accept", "decline", "cancel")
_ABSENT: Final = Raw(b"null")
_SAME: Final = ("name", "uri", "arguments")
"""The members of a request that make it the same one."""


def present(member: envelope.Bytes) -> Raw | None:
    """Return a member that says something."""
    return None if member is UNSET or bytes(member) == b"null" else member


def is_same_request(before: Raw | bytes | None, now: Raw | bytes) -> bool:
    """Tell whether parameters ask for the same as those of an earlier request."""
    earlier = envelope.params_of(before) if before is not None else None
    earlier, found = earlier or envelope.Params(), envelope.params_of(now) or envelope.Params()
    return all(same_values(getattr(earlier, name), getattr(found, name)) for name in _SAME)


def what_is_wrong(shown: Mapping[str, str], answers: envelope.Bytes) -> str | None:
    """Say what is wrong with answers to the questions that were shown: methods by their keys."""
    raw = present(answers)
    if raw is None:
        return None
    given = envelope.object_of(raw)
    if given is None:
        return "inputResponses must be an object"
    for key, method in shown.items():
        if key in given and not is_answer(method, given[key]):
            return f"inputResponses.{key} is no result of {method}"
    return None


def is_answer(method: str, result: Raw | bytes) -> bool:
    """Tell whether this has the form of a result of a question (ClientResult, 2025-11-25)."""
    members = envelope.object_of(result)
    if members is None:
        return False
    if method == questions.ELICITATION:
        content = members.get("content", _ABSENT)
        is_object = envelope.object_of(content) is not None or bytes(content) == b"null"
        return envelope.text(members.get("action", _ABSENT)) in _ACTIONS and is_object
    if method == questions.ROOTS:
        return bytes(members.get("roots", _ABSENT)).startswith(b"[")
    has_role = envelope.text(members.get("role", _ABSENT)) is not None
    return has_role and bytes(members.get("content", _ABSENT))[:1] in (b"{", b"[")


def same_values(one: envelope.Bytes, other: envelope.Bytes) -> bool:
    """Tell whether two members are the same as JSON, whatever their spelling; numbers exactly.

    Where a member is there twice two readers may see two values: only the same bytes are the same.
    """
    if one is UNSET or other is UNSET:
        return one is other
    if bytes(one) == bytes(other):
        return True
    try:
        return bool(_values(one) == _values(other))
    except (ValueError, RecursionError):
        return False


def _values(raw: Raw) -> Any:
    return json.loads(
        bytes(raw),
        object_pairs_hook=_object,
        parse_int=_number,
        parse_float=_number,
        parse_constant=_not_a_number,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is there twice")
    return found


def _number(spelling: str) -> tuple[str, object]:
    # in a tuple, because True equals 1 and JSON has no tuples
    try:
        return ("number", Decimal(spelling))
    except InvalidOperation:  # its exponent is out of all bounds
        return ("spelling", spelling)


def _not_a_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

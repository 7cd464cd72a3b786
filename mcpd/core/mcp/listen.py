"""``subscriptions/listen`` (2026-07-28, basic/patterns/subscriptions).

A client names the notifications that it wants. The server acknowledges those that it will send,
marks each with the id of the request, and sends the result when the subscription ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp.modern_meta import DRAINING_KEY, SUBSCRIPTION_KEY, with_members, without_members
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, quote

_SUBSCRIPTION_QUOTED: Final = b'"%b":' % SUBSCRIPTION_KEY.encode()
_ABSENT: Final = Raw(b"null")


class Listen(msgspec.Struct, frozen=True):
    """The notifications that a ``subscriptions/listen`` asks for, or that were acknowledged."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()


MOST_NAMES: Final = 1000
"""Resources, or tasks, that a listen may name. One more is read, so that an excess shows."""


def read_listen(params: Raw | bytes) -> Listen:
    """Read the notifications from a listen request or from its acknowledgement.

    Raises:
        ValueError: the parameters are malformed; the message names the problem.
    """
    wanted = object_of((object_of(params) or {}).get("notifications", _ABSENT))
    if wanted is None:
        raise ValueError("notifications must be an object")
    return Listen(
        tools=_flag(wanted, "toolsListChanged"),
        prompts=_flag(wanted, "promptsListChanged"),
        resources=_flag(wanted, "resourcesListChanged"),
        uris=_names(wanted, "resourceSubscriptions"),
        tasks=_names(wanted, "taskIds"),
    )


def _flag(members: Mapping[str, Raw], name: str) -> bool:
    raw = bytes(members.get(name, _ABSENT))
    if raw not in (b"true", b"false", b"null"):
        raise ValueError(f"notifications.{name} must be a boolean")
    return raw == b"true"


def _names(members: Mapping[str, Raw], name: str) -> tuple[str, ...]:
    raw = members.get(name, _ABSENT)
    found = splice.texts(raw, MOST_NAMES + 1)
    if found is None and bytes(raw) != b"null":
        raise ValueError(f"notifications.{name} must be an array of strings")
    return tuple(found or ())


def listen_params(listen: Listen) -> bytes:
    """Return the parameters of a ``subscriptions/listen``."""
    wanted: dict[str, bytes] = {}
    if listen.tools:
        wanted["toolsListChanged"] = b"true"
    if listen.prompts:
        wanted["promptsListChanged"] = b"true"
    if listen.resources:
        wanted["resourcesListChanged"] = b"true"
    if listen.uris:
        wanted["resourceSubscriptions"] = _array(listen.uris)
    if listen.tasks:
        wanted["taskIds"] = _array(listen.tasks)
    return b'{"notifications":%b}' % object_from(wanted)


def acknowledgement_params(ident: bytes, listen: Listen) -> bytes:
    """Return the parameters that acknowledge a listen; ``ident`` is the id of its request."""
    return with_subscription_id(listen_params(listen), ident)


def with_subscription_id(params: Raw | bytes | None, ident: bytes) -> bytes:
    """Return a notification's parameters with the id of the listen request that asked for it."""
    said = _SUBSCRIPTION_QUOTED + ident
    if params is None:
        return b'{"_meta":{%b}}' % said
    return with_members(params, said, (SUBSCRIPTION_KEY,))


def without_subscription_id(params: Raw | bytes | None) -> tuple[bytes | None, bytes]:
    """Return a notification's parameters without the id of its listen request, and that id.

    The id is empty if there is none. A ``_meta`` that is empty without it is left out, and
    parameters that are then empty are ``None``.
    """
    left, taken = without_members(params, (SUBSCRIPTION_KEY,))
    return left, bytes(taken.get(SUBSCRIPTION_KEY, b""))


def listen_result(ident: bytes, *, is_draining: bool = False) -> bytes:
    """Return the result that ends a listen.

    ``is_draining`` marks one that the daemon's own end caused: the bridge listens to the next
    daemon and does not pass the result on.
    """
    why = b',"%b":true' % DRAINING_KEY.encode() if is_draining else b""
    key = SUBSCRIPTION_KEY.encode()
    return b'{"resultType":"complete","_meta":{"%b":%b%b}}' % (key, ident, why)


def _array(texts: tuple[str, ...]) -> bytes:
    return b"[" + b",".join(quote(one) for one in texts) + b"]"

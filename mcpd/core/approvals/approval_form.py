"""The form in which a client's person is asked whether a call may run, and what comes back."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from mcpd import visible
from mcpd.core.wire import envelope

MOST_CHARACTERS: Final = 4000
"""The longest message of a form."""

CHOICES: Final = ("once", "session", "always", "no")

_FIELD: Final = "answer"
_NAME_LENGTH: Final = 100
_REASON_LENGTH: Final = 300
_LEFT_OUT: Final = "[the rest is left out here: mcpctl approvals show {} has all of it]"


class Refusal(Enum):
    """What a client sends instead of a choice."""

    DECLINED = "declined"
    CLOSED = "closed"
    NO_CHOICE = "no choice"
    """It was accepted without one of our choices."""


def message(ident: str, title: str, reason: str, arguments: Any) -> tuple[str, bool]:
    """Return what a form says, and whether it has all of the arguments.

    ``title`` names client, server and tool; ``arguments`` are as ``core.wire.arguments`` reads
    them.
    """
    head = f"mcpd asks: may {title}?\nWhy: {visible.text(reason, _REASON_LENGTH)}\nArguments:\n"
    left_out = _LEFT_OUT.format(ident)
    room = MOST_CHARACTERS - len(head) - len(left_out) - 1
    shown: list[str] = []
    is_whole = True
    for line in visible.lines(arguments):
        if len(line) + 1 > room:
            is_whole = False
            shown.append(left_out)
            break
        shown.append(line)
        room -= len(line) + 1
    return head + "\n".join(shown), is_whole and not visible.has_folded(arguments)


def title(client: str | None, server: str, tool: str) -> str:
    """Return client, server and tool, as a person can tell them."""
    who = "an unknown client" if client is None else visible.text(client, _NAME_LENGTH)
    return f"{who} run {visible.tool(server, tool, _NAME_LENGTH)}"


def params(said: str, *, has_always: bool) -> bytes:
    """Return the parameters of ``elicitation/create``: one choice, required, without a default."""
    choices = [each for each in CHOICES if has_always or each != "always"]
    field = {"type": "string", "title": "Your answer", "enum": choices}
    schema = {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}
    return msgspec.json.encode({"message": said, "requestedSchema": schema})


def read(result: Raw | bytes | None, *, has_always: bool) -> str | Refusal:
    """Return the choice that a client has sent, or what it sent instead of one.

    Programs accept forms that nobody has filled in: one without a choice is no answer.
    """
    members = (envelope.object_of(result) if result is not None else None) or {}
    action = envelope.text(members.get("action", UNSET))
    if action in ("decline", "cancel"):
        return Refusal.DECLINED if action == "decline" else Refusal.CLOSED
    content = envelope.object_of(members.get("content", b"null")) or {}
    choice = envelope.text(content.get(_FIELD, UNSET))
    if action != "accept" or choice not in CHOICES or (choice == "always" and not has_always):
        return Refusal.NO_CHOICE
    return choice

"""Facts of sessions, and of the questions of servers that their clients are asked."""

from __future__ import annotations

import msgspec

from mcpd.ids import SessionId


class SessionOpened(msgspec.Struct, frozen=True):
    """A connection became a session."""

    session: SessionId
    server: str | None
    client: str | None
    principal: str = "local"


class SessionNamed(msgspec.Struct, frozen=True):
    """The client of a session has sent its name for the first time."""

    session: SessionId
    server: str | None
    client: str


class SessionClosed(msgspec.Struct, frozen=True):
    """A session ended."""

    session: SessionId
    server: str | None
    reason: str
    client: str | None = None
    principal: str = "local"


class FrameRejected(msgspec.Struct, frozen=True):
    """A client sent an invalid message, and got an error from mcpd."""

    session: SessionId
    reason: str
    client: str | None = None


class QuestionAsked(msgspec.Struct, frozen=True):
    """A client is asked what a server wants to know; told only where calls are recorded.

    ``method`` is that of the server's request, as ``sampling/createMessage``.
    """

    server: str
    session: SessionId
    method: str


class QuestionAnswered(msgspec.Struct, frozen=True):
    """A question that a client was asked is over; told only where calls are recorded.

    ``outcome`` is ``answered``, ``error`` (the client's), or ``none``: no answer came.
    """

    server: str
    session: SessionId
    method: str
    outcome: str

"""How to reach a server, what carries its frames, and one start of it: the same for every kind."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, Self

import msgspec

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.mcp.routing import Routing
from mcpd.core.policy.runners import Package
from mcpd.core.wire.framing import Frame, Oversized

Frames = Callable[[Frame | Oversized], None]
"""Takes each frame of a server."""


class UnusableSecret(ValueError):
    """A secret that cannot stand where its name does; the message has no value."""


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server, whatever carries it. Each kind of upstream has a subclass.

    May hold secrets: never shown.
    """

    transport: ClassVar[str]
    """What ``mcpd/status`` calls what carries the messages of such a server."""

    server: str
    rules: Rules
    grace: float
    """Seconds that it has to end by itself, as ``stop_grace``."""

    of_workspace: bool = False
    """Whether some of it is known only with the root of a workspace."""

    package: Package | None = None
    """What a start downloads first. Starts that fill the same cache run one after the other."""

    secrets: tuple[str, ...] = ()
    """The names of the secrets for which there are placeholders in it."""

    def with_secrets(self, secrets: Mapping[str, str]) -> Self:
        """Return it with its placeholders filled; raise ``UnusableSecret``."""
        return self


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """What a run knows of its connection, as ``mcpd/status`` shows it: never a secret."""

    transport: str
    """What was found to carry the messages: ``http`` or ``sse``."""

    auth: str
    """How requests are authorised."""

    latency_s: float | None = None
    """Seconds from the last request of ours to the beginning of its response."""

    waits: str | None = None
    """What a request waits for before it is sent again, such as ``Retry-After``."""


class Channel(Protocol):
    """Carries frames to one server."""

    @property
    def is_open(self) -> bool:
        """Whether anything can be written."""

    def write(
        self,
        data: bytes,
        wire_id: int = 0,
        *,
        cancels: int = 0,
        routing: Routing | None = None,
    ) -> bool:
        """Write a frame, without blocking; return ``False`` when it was refused.

        ``wire_id`` is that of a request, 0 for any other message. ``cancels`` is the wire id of
        the request that this frame cancels: it overtakes frames that are queued, and where the
        request is one of them, neither is written. ``routing`` is what headers say of a request.
        """

    def introduced(self, version: str) -> None:
        """Note which revision of MCP the server speaks: its handshake is done."""

    def bring(self, elements: list[bytes]) -> None:
        """Deliver the elements of an array that the server sent, before any other frame."""

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of a frame that has not ended, and its bytes so far."""


class Run(abc.ABC):
    """One start of a server, from its beginning until nothing of it is left.

    For a process that is the end of its whole tree, for a connection its close.
    """

    channel: Channel

    def __init__(self, *, grace: float) -> None:
        self.grace = grace
        """Seconds that it has to end by itself, unless the configuration says otherwise now."""
        self.ending: asyncio.Task[None] | None = None
        """The stop, or the cleaning up after it ended by itself."""
        self.is_down = False
        """Whether it was reported as not usable any more."""
        self.was_ready = False

    @property
    def pid(self) -> int | None:
        """The process, ``None`` where there is none."""
        return None

    @property
    def connection(self) -> Connection | None:
        """The connection, ``None`` where there is none, or none yet."""
        return None

    @property
    def has_output(self) -> bool:
        """Whether the server itself has sent anything, and not only what installs it."""
        return True

    @abc.abstractmethod
    def begin(self) -> None:
        """Connect, and report from now on."""

    @abc.abstractmethod
    def mute(self) -> None:
        """Deliver and report nothing more."""

    @abc.abstractmethod
    async def end(self, grace: float) -> str | None:
        """End it, and return when nothing of it is left.

        ``grace`` is in seconds. Cancelling is safe: it may be called again with a shorter one.
        Returns how far the stop had to go, ``None`` where nothing had to be done.
        """

    def watch_probe(self, *, is_on: bool) -> None:  # noqa: B027 (most have nothing to watch)
        """Report when the server has read a request that may end it; without a process, never."""

    def explain(self, failure: Failure) -> Failure:
        """Return a failure to become ready, with what this run knows of its cause."""
        return failure

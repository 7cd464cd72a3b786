"""One downstream connection: what it is attached to, what it negotiated, what it is owed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw, UnsetType

from mcpd.core.catalog.model import Kind
from mcpd.core.mcp.asker import NOBODY, Asker
from mcpd.core.mcp.methods import LEVELS
from mcpd.core.mcp.versions import MAY_OMIT_ID
from mcpd.core.mux.batch import Batch
from mcpd.core.mux.changes import Changes
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.failures import MOST_FOLLOWED
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.listener import Listener
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire.memory import Kept, Share
from mcpd.ids import SessionId


class Owed(Kept):
    """One request of a session that has not been answered.

    ``ident`` is its id as it came, ``pending`` the request sent on for it, where there is one;
    ``asker`` is who asks where the request says so itself, as modern ones do, and ``batch`` what
    its answer is a part of. ``token`` is the progress token in a modern request's envelope.
    ``leave`` takes it out of where it waits for a start, for a list or for a log level.

    ``end`` gives back what is kept of it, unless a parked call, a listen or a check of arguments
    keeps that.
    """

    __slots__ = (
        "asker",
        "batch",
        "ident",
        "is_control",
        "key",
        "leave",
        "pending",
        "timer",
        "token",
    )

    def __init__(self, ident: bytes, key: bytes) -> None:
        super().__init__()
        self.ident = ident
        self.key = key
        self.leave: Callable[[], object] | None = None
        self.is_control = False
        self.pending: Pending | None = None
        self.asker: Asker | None = None
        self.token: bytes | None = None
        self.batch: Batch | None = None
        self.timer: Timer | None = None

    def end(self) -> None:
        """Forget what a request waits for, and give back what was counted: it is over."""
        if self.timer is not None:
            self.timer.cancel()
        if self.leave is not None:
            leave, self.leave = self.leave, None
            leave()
        self.pending = None  # else a circle keeps request and frame until the collector runs
        self.release()


class Session:
    """The state of one connection; what a client must not notice is that there is more of it."""

    def __init__(self, ident: SessionId, share: Share, *, in_reserve: bool = False) -> None:
        self.id = ident
        self.share = share
        """What is kept for it, in bytes, and how many of its requests something is kept for."""
        self.in_reserve = in_reserve
        """Whether it is there for control requests alone: all places for sessions are taken."""
        self.server: str | None = None
        """The server whose endpoint it is on; ``None`` is the aggregate."""
        self.is_session = False
        """Whether it has attached or spoken MCP; until then it is a control connection."""
        self.has_ended = False
        """Whether its client sends nothing more, and so answers nothing; it may still read."""
        self.may_control = True
        self.wants_farewell = False
        """Whether its client has asked to be told that all that was read is answered."""
        self.client: str | None = None
        """Name and version of its client: as it introduced itself, until then as it attached."""
        self.pid: int | None = None
        """The process that attached: the bridge, or the client itself."""
        self.has_introduced_itself = False
        self.workspace: str | None = None
        self.roots: tuple[str, ...] = ()
        self.version: str | None = None
        """The negotiated revision, once ``initialize`` was answered."""
        self.asker = NOBODY
        """What its client said of itself in ``initialize``."""
        self.is_modern = False
        """Whether it has sent a request with an envelope."""
        self.envelope: tuple[bytes, Asker, bytes | None] = (b"", NOBODY, None)
        """The last envelope that was read, its asker and progress token: most are like the last."""
        self.listens: dict[bytes, Listener] = {}
        """Its open ``subscriptions/listen``, by the key of their ids."""
        self.is_initialized = False
        self.is_opening = False
        """Whether ``initialize`` waits for a server that has never run."""
        self.said_initialized = False
        """Whether its client did not wait for the answer to that."""
        self.backlog: dict[Owed, tuple[str, Raw | UnsetType]] = {}
        """What its client sent meanwhile: requests with their method and params."""
        self.level: str | None = None
        self._levels: dict[str, int] = {}
        """Log levels that its modern requests want, and how many of them each."""
        self.owed: dict[bytes, Owed] = {}
        self.batch: Batch | None = None
        """The array that is being read: each frame that comes is one of its elements."""
        self.streams: set[bytes] = set()
        """Keys of control requests that go on as notifications."""
        self.upstreams: dict[str, Upstream] = {}
        """What it uses, by the name of the server."""
        self.subscribed: dict[str, str] = {}
        """Resource URIs it is subscribed to, each with its server."""
        self.followed = 0
        """Resources and tasks that its listens name."""
        self.incomplete: set[Kind] = set()
        """Lists of the aggregate that it got while a server had not listed yet."""
        self.changes = Changes()
        """When it was told last, as a legacy session, that a list is another one."""

    def may_follow(self, count: int) -> bool:
        """Tell whether it may be subscribed to so many resources and tasks more."""
        return len(self.subscribed) + self.followed + count <= MOST_FOLLOWED

    @property
    def label(self) -> str | None:
        """Return its client's name for people, with the pid of the process that is behind it."""
        if self.client is None:
            return None
        return self.client if self.pid is None else f"{self.client} (pid {self.pid})"

    def speaker(self) -> Asker:
        """Return what its client said of itself last: as a modern one, or in ``initialize``."""
        return self.envelope[1] if self.is_modern else self.asker

    def asker_of(self, owed: Owed) -> Asker | None:
        """Return who makes a request; ``None`` for a control call, which is nobody's."""
        return None if owed.is_control else owed.asker or self.asker

    @property
    def may_omit_id(self) -> bool:
        """Whether an error for an unreadable request goes without an id, and not with a null."""
        return self.is_modern or (self.version is not None and self.version >= MAY_OMIT_ID)

    def wants_log(self, level: str) -> bool:
        """Tell whether a log message of this level is for it; ``info`` and above by default."""
        if level not in LEVELS:
            return True
        return LEVELS.index(level) >= LEVELS.index(self.level or "info")

    def levels(self) -> list[str]:
        """Return the log levels that it wants: its own, and those of its modern requests."""
        own = [self.level] if self.level is not None else []
        return [*own, *self._levels]

    def ask_as(self, owed: Owed, asker: Asker) -> None:
        """Take who asks from a request, which is owed an answer, and the log level it wants."""
        owed.asker = asker
        if asker.level:
            self._levels[asker.level] = self._levels.get(asker.level, 0) + 1

    def forget(self, owed: Owed) -> bool:
        """Forget a request that was owed an answer; tell whether it was."""
        if self.owed.get(owed.key) is not owed:
            return False
        del self.owed[owed.key]
        level = owed.asker.level if owed.asker is not None else None
        if level:
            self._levels[level] -= 1
            if not self._levels[level]:
                del self._levels[level]
        owed.end()
        return True

    def uses(self, upstream: Upstream) -> str | None:
        """Return the name under which it uses this process, ``None`` where it does not."""
        return next((name for name, used in self.upstreams.items() if used is upstream), None)

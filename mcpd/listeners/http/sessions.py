"""Sessions of the handshake revisions over HTTP: their streams, and how many there may be."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.failures import no_room, with_details
from mcpd.core.mcp import codes
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId
from mcpd.listeners.http.streams import EventId, Line, Outbox, Stream, size_of
from mcpd.tokens import Token

LOST: Final = Failure(
    "outcome_unknown",
    "the daemon that served this request has ended",
    hint="look whether it was carried out before you repeat it",
    details={"outcome_unknown": True},
)
"""What a request gets that was in flight when the daemon was killed."""

RETENTION_S: Final = 300.0
"""How long a stream can be resumed after its end."""

_ID_BYTES: Final = 32


class HttpSession:
    """One session: what identifies it, and the streams of its requests.

    Each message goes to one stream: that of the request it belongs to, else that of unasked
    messages, which a GET carries.
    """

    def __init__(
        self,
        digest: str,
        token: str | None,
        server: str | None,
        share: Share,
        *,
        life: str,
        replay_events: int,
        now: Callable[[], float],
        changed: Callable[[HttpSession], None],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """``digest`` is the hash of its id, ``token`` the name of the token that opened it.

        ``life`` stands for the daemon; ``now`` returns monotonic seconds; ``changed`` is called
        before a change is answered; ``over`` is called when all clients together hold more than
        they may.
        """
        self.digest: Final = digest
        self.token: Final = token
        self.server: Final = server
        self.core: SessionId | None = None
        """Its session in the core; ``None`` for one of an earlier daemon until it is used."""
        self.state: SessionState | None = None
        """What the next daemon needs to take it up; ``None`` before ``initialize`` is answered."""
        self.lists: str | None = None
        """A digest of the lists that its client may have seen."""
        self.has_failed = False
        """Whether ``initialize`` was answered with an error."""
        self.is_over = False
        """Whether it was ended."""
        self.request_count = 0
        self.open_count = 0
        """Requests and streams that are open."""
        self.used_at = now()
        self.is_restored = False
        """Whether an earlier daemon opened it."""
        self.unasked: Final = Stream(0, replay_events, share, life)
        self._life = life
        self.share: Final = share
        """What is kept for its client: what its streams hold, and what is not sent yet."""
        self._replay_events = replay_events
        self._now = now
        self._changed = changed
        self._over = over
        self._connections: dict[Outbox, Stream] = {}
        self._streams: dict[int, Stream] = {0: self.unasked}
        self._requests: dict[bytes, Stream] = {}
        self._owed: dict[Stream, set[bytes]] = {}
        """The requests of each stream that were not cancelled, until it ends."""
        self._next_stream = 1

    @property
    def is_in_use(self) -> bool:
        """Whether a request or a stream is open; the client of a request may have hung up."""
        return bool(self.open_count or self._requests)

    @property
    def has_returned(self) -> bool:
        """Whether its client sent another request than ``initialize``; or that is not known."""
        return self.request_count > 1 or self.is_restored

    # -- requests ----------------------------------------------------------------------------------

    def has_request(self, key: bytes) -> bool:
        """Tell whether a request with this id is in flight."""
        return key in self._requests

    def begin(self, keys: Iterable[bytes], outbox: Outbox, ident: bytes | None = None) -> Stream:
        """Open the stream of a request, or of the requests of a batch."""
        number = self._next_stream
        stream = Stream(number, self._replay_events, self.share, self._life, ident)
        self._next_stream += 1
        self._streams[stream.number] = stream
        self._owed[stream] = set(keys)
        for key in self._owed[stream]:
            self._requests[key] = stream
        stream.attach(outbox)
        self.request_count += 1
        return stream

    def forget(self, stream: Stream) -> None:
        """Forget a stream whose client cannot resume it: it was given no event id."""
        stream.forget()
        self._streams.pop(stream.number, None)

    def give_up(self, keys: Iterable[bytes]) -> None:
        """Await no response to these requests, which their client has cancelled.

        The others of a batch are answered on its stream.
        """
        for key in keys:
            stream = self._requests.get(key)
            if stream is not None:
                self._owed[stream].discard(key)
                if not self._owed[stream]:
                    self._end(stream)

    def resumed(self, last: EventId) -> Stream | None:
        """Return the stream that an event is of, if every later event of it is still held.

        Of an earlier daemon's streams nothing is left. The response to a request that was in flight
        there is an error, and what belonged to none begins again. Which requests a batch had is not
        known.
        """
        if last.life == self._life:
            stream = self._streams.get(last.stream)
            return stream if stream is not None and stream.can_resume_after(last.number) else None
        if not self.is_restored:
            return None
        if last.ident is None:
            return None if last.stream else self.unasked
        uncounted = Share(Memory(0))  # nobody resumes it: it lasts as long as one connection
        lost = Stream(self._next_stream, 0, uncounted, self._life, last.ident)
        self._next_stream += 1
        error = codes.error_object(LOST)
        lost.add(envelope.error(last.ident, error), is_response=True)
        lost.ended_at = self._now()
        return lost

    def prune(self) -> None:
        """Forget the streams that ended too long ago to be resumed."""
        until = self._now() - RETENTION_S
        for stream in list(self._streams.values()):
            if stream.ended_at is not None and stream.ended_at <= until:
                self.forget(stream)

    # -- connections -------------------------------------------------------------------------------

    def carry(self, stream: Stream, outbox: Outbox) -> None:
        """Count a connection that carries a stream."""
        self.open_count += 1
        self._connections[outbox] = stream

    def carried(self, stream: Stream, outbox: Outbox) -> None:
        """Note that this connection has ended."""
        self.open_count -= 1
        self.used_at = self._now()
        del self._connections[outbox]
        outbox.sent()
        stream.detach(outbox)

    def give_way(self) -> None:
        """Hold less: forget the oldest stream that has ended and that nobody is being sent.

        Else cut the connection that does not read, and forget its stream.
        """
        carried = self._connections.values()
        holding = [stream for stream in self._streams.values() if stream.held_bytes]
        ended = [s for s in holding if s.ended_at is not None and s not in carried]
        if ended:
            self._shed(ended[0])
            return
        outbox = max(self._connections, key=lambda each: each.unsent_bytes, default=None)
        if outbox is not None and outbox.unsent_bytes:
            outbox.cut()
            self._shed(self._connections[outbox])
        elif holding:
            self._shed(max(holding, key=lambda stream: stream.held_bytes))

    def _shed(self, stream: Stream) -> None:
        stream.shed()
        if stream.ended_at is not None:
            self._streams.pop(stream.number, None)

    # -- what the core sends -----------------------------------------------------------------------

    def deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        """Put a message on the stream that it belongs to."""
        self._deliver(line, request, is_response=is_response)
        memory = self.share.memory
        if memory.kept_bytes > memory.most_bytes:
            self._over()

    def _deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        stream = None if request is None else self._requests.get(request)
        if stream is None:
            if not is_response:
                self._make_room(size_of(line))
                self.unasked.add(line)
            return
        self._make_room(size_of(line))
        stream.add(self._kept(stream, line) if is_response else line, is_response=is_response)
        if is_response:
            if self.state is None:
                self.has_failed = True
            self._end(stream)

    def _kept(self, stream: Stream, line: Line) -> Line:
        """Return what is held as the response of a stream: an error where there is no room for it,
        and no connection that takes it."""
        size = size_of(line)
        if stream.outbox is not None or stream.ident is None or self.share.has_room(size):
            return line
        failure = with_details(no_room(self.share, size), outcome_unknown=True)
        return envelope.error(stream.ident, codes.error_object(failure))

    def changed(self, state: SessionState) -> None:
        """Have the session saved."""
        self.state = state
        self._changed(self)

    def closed(self, reason: str) -> None:
        """End every stream: the session is over."""
        del reason
        self.core, self.is_over = None, True
        for stream in self._streams.values():
            stream.end(self._now())
            stream.forget()
        self._requests.clear()
        self._owed.clear()

    def drain(self, last: bytes, *, unasked_only: bool = False) -> None:
        """Close every connection after what is queued, and after ``last``."""
        for stream in (self.unasked,) if unasked_only else self._streams.values():
            if stream.outbox is not None:
                stream.outbox.close(last)
                stream.outbox = None

    def _end(self, stream: Stream) -> None:
        stream.end(self._now())
        self.used_at = self._now()
        self._owed.pop(stream, None)
        for key in [key for key, own in self._requests.items() if own is stream]:
            del self._requests[key]

    def _make_room(self, size: int) -> None:
        """Forget streams that have ended, the oldest first, while there is no room for a message.

        Else responses that no client asks for again would fill the memory of all.
        """
        while not self.share.has_room(size):
            ended = (each for each in self._streams.values() if each.ended_at is not None)
            oldest = next(ended, None)
            if oldest is None:
                return
            self.forget(oldest)


class Sessions:
    """The sessions that there are, by the hashes of their ids."""

    def __init__(self) -> None:
        self._all: dict[str, HttpSession] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._all.values()))

    def add(self, session: HttpSession) -> None:
        """Take in a session."""
        self._all[session.digest] = session

    def remove(self, session: HttpSession) -> None:
        """Forget a session; harmless where it is forgotten already."""
        self._all.pop(session.digest, None)

    def find(self, ident: str, token: Token | None, server: str | None) -> HttpSession | None:
        """Return the session with this id, if it was opened with this token on this endpoint."""
        session = self._all.get(digest_of(ident))
        name = None if token is None else token.name
        if session is None or session.token != name or session.server != server:
            return None
        return session

    def least_needed(self) -> HttpSession | None:
        """Return the session that makes room for another, ``None`` where all are in use.

        That is one that never sent a second request, else the one that is idle longest; never one
        with an open request or stream.
        """
        idle = [session for session in self._all.values() if not session.is_in_use]
        return min(idle, key=lambda s: (s.has_returned, s.used_at), default=None)


def new_id() -> str:
    """Return a session id: 256 random bits, in characters that a header can hold."""
    return secrets.token_urlsafe(_ID_BYTES)


def digest_of(ident: str) -> str:
    """Return what is kept of a session id."""
    return hashlib.sha256(ident.encode("utf-8", "surrogateescape")).hexdigest()

"""Sessions of the handshake revisions over HTTP: their streams, and how many there may be."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.failures import no_room
from mcpd.core.mcp import codes
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share
from mcpd.ids import SessionId
from mcpd.listeners.http.streams import EventId, Line, Outbox, Stream
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
    ) -> None:
        """``digest`` is the hash of its id, ``token`` the name of the token that opened it.

        ``life`` stands for the daemon; ``now`` returns monotonic seconds; ``changed`` is called
        before a change is answered.
        """
        self.digest: Final = digest
        self.token: Final = token
        self.server: Final = server
        self.core: SessionId | None = None
        """Its session in the core; ``None`` for one of an earlier daemon until it is used."""
        self.state: SessionState | None = None
        """What the next daemon needs to take it up; ``None`` before ``initialize`` is answered."""
        self.lists: str | None = None
        """What stands for the lists that its client may have seen."""
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
        self._streams: dict[int, Stream] = {0: self.unasked}
        self._requests: dict[bytes, Stream] = {}
        self._cancelled: set[bytes] = set()
        """Those of a batch that were cancelled, until the others have their responses."""
        self._next_stream = 1

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
        for key in keys:
            self._requests[key] = stream
        stream.attach(outbox)
        self.request_count += 1
        return stream

    def forget(self, stream: Stream) -> None:
        """Forget a stream whose client cannot resume it: it was given no event id."""
        stream.forget()
        self._streams.pop(stream.number, None)

    def give_up(self, keys: Iterable[bytes]) -> None:
        """End the streams whose requests get no response: their client has cancelled them all."""
        for key in keys:
            stream = self._requests.get(key)
            if stream is not None:
                self._cancelled.add(key)
                if self._cancelled.issuperset(self._keys_of(stream)):
                    self._end(stream)

    def resumed(self, last: EventId) -> Stream | None:
        """Return the stream that an event is of, if every later event of it is still held.

        Of an earlier daemon's streams nothing is left. The response to a request that was in flight
        there is an error, and what belonged to none begins again.
        """
        if last.life == self._life:
            stream = self._streams.get(last.stream)
            return stream if stream is not None and stream.can_resume_after(last.number) else None
        if not self.is_restored:
            return None
        if last.ident is None:
            return None if last.stream else self.unasked
        lost = Stream(self._next_stream, 0, self.share, self._life, last.ident)
        self._next_stream += 1
        error = codes.error_object(LOST)
        lost.add(envelope.error(last.ident, error), is_response=True)
        lost.ended_at = self._now()
        return lost

    def let_go(self, stream: Stream) -> None:
        """Give back what is counted of a stream that the session does not hold."""
        if self._streams.get(stream.number) is not stream:
            stream.forget()

    def prune(self) -> None:
        """Forget the streams that ended too long ago to be resumed."""
        until = self._now() - RETENTION_S
        for stream in list(self._streams.values()):
            if stream.ended_at is not None and stream.ended_at <= until:
                self.forget(stream)

    # -- what the core sends -----------------------------------------------------------------------

    def deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        """Put a message on the stream that it belongs to."""
        stream = None if request is None else self._requests.get(request)
        if stream is None:
            if not is_response:
                self.unasked.add(line)
            return
        if is_response:
            line = self._response(stream, line)
        stream.add(line, is_response=is_response)
        if is_response:
            if self.state is None:
                self.has_failed = True
            self._end(stream)

    def _response(self, stream: Stream, line: Line) -> Line:
        """Return what is held as the response of a stream, for which older ones make room.

        Where there is none, and no connection that takes it, that is an error.
        """
        size = len(line) if isinstance(line, bytes) else sum(map(len, line))
        for each in [each for each in self._streams.values() if each.ended_at is not None]:
            if self.share.has_room(size):
                break
            self.forget(each)
        if self.share.has_room(size) or stream.outbox is not None or stream.ident is None:
            return line
        return envelope.error(stream.ident, codes.error_object(no_room(self.share, size)))

    def changed(self, state: SessionState) -> None:
        """Have the session saved."""
        self.state = state
        self._changed(self)

    def closed(self, reason: str) -> None:
        """End every stream: the session is over."""
        del reason
        self.core, self.is_over = None, True
        for stream in {*self._streams.values(), *self._requests.values()}:
            stream.end(self._now())
            stream.forget()
        self._requests.clear()

    def drain(self, last: bytes, *, unasked_only: bool = False) -> None:
        """Close every connection after what is queued, and after ``last``."""
        for stream in (self.unasked,) if unasked_only else self._streams.values():
            if stream.outbox is not None:
                stream.outbox.close(last)
                stream.outbox = None

    def _end(self, stream: Stream) -> None:
        stream.end(self._now())
        for key in self._keys_of(stream):
            del self._requests[key]
            self._cancelled.discard(key)
        self.let_go(stream)

    def _keys_of(self, stream: Stream) -> list[bytes]:
        return [key for key, own in self._requests.items() if own is stream]


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
        idle = [session for session in self._all.values() if not session.open_count]
        return min(idle, key=lambda s: (s.request_count > 1, s.used_at), default=None)


def new_id() -> str:
    """Return a session id: 256 random bits, in characters that a header can hold."""
    return secrets.token_urlsafe(_ID_BYTES)


def digest_of(ident: str) -> str:
    """Return what is kept of a session id."""
    return hashlib.sha256(ident.encode("utf-8", "surrogateescape")).hexdigest()

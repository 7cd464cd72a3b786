"""The bridge's loop: whole frames from the client to the daemon, and back."""

from __future__ import annotations

import errno
import math
import select
import time

from mcpd import exits
from mcpd.bridge import scan, streams
from mcpd.bridge.error_responses import (
    MAX_REQUEST_BYTES,
    OUTCOME_UNKNOWN,
    TOO_LARGE,
    Error,
    failure,
)
from mcpd.bridge.frames import UTF_16, Frames, without_bom
from mcpd.bridge.session.replay import Replay
from mcpd.bridge.session.state import SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpd.bridge.linger import Linger
    from mcpd.bridge.link import Link

QUEUED_BYTES = 1 << 20
"""Bytes that wait for one side before the other is read no more; one frame may exceed it."""

RECEIVED_BYTES = 1 << 16
"""Bytes received at a time. malloc maps larger buffers, at three system calls for each."""

FAREWELL_S = 1.0
"""Seconds for the cancellations to reach a daemon that does not read."""

POLLIN, POLLOUT = select.POLLIN, select.POLLOUT
GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Pump:
    """One session between a client and the daemon, or the daemons that replace it.

    Neither side ever gets a part of a frame: a frame is queued once its end has been read, and the
    rest of a frame is never sent to another daemon. The two directions do not wait for each other:
    a client that writes and does not read, or the reverse, stops that direction alone.
    """

    def __init__(
        self,
        link: Link,
        source: streams.Source,
        client: streams.Outbox,
        linger: Linger,
    ) -> None:
        self._link = link
        self._source = source
        self._client = client
        self._linger = linger
        self._state = SessionState()
        self._queue = self._state.queue
        self._queue.is_open = True
        self._replay = Replay(
            self._state, send=self._send_to_client, done=self._resume, refused=self._refuse_session
        )
        self._from_client = Frames(MAX_REQUEST_BYTES)
        self._from_daemon = Frames()
        self._poll = select.poll()
        self._watched: dict[int, int] = {}
        self._daemon_fd = -1
        self._is_flowing = False
        """Both sides are polled for reading alone, and there is no timer.

        While nothing waits for either side, there is nothing to register or to check."""
        self._is_write_closed = False
        """The daemon reads no more. What it has sent before is still to be read."""
        self._has_input = True
        self._closing_at = math.inf  # monotonic; the latest end, if the daemon does not read
        self._reported = ""  # the last obstacle that stderr reported
        # Exit statuses, with when the bridge ends with them:
        self._end_status = exits.DONE  # once stdin has ended and every request is answered
        self._final_status: int | None = None  # once what is queued has been written
        self._status: int | None = None  # without writing any more

    def run(self) -> int:
        """Pump until the client is done, and return the exit status."""
        queue, client, source_fd = self._queue, self._client, self._source.fd
        while True:
            if client.size or queue.size or not self._is_flowing:
                status = self._exit_status()
                if status is not None:
                    return status
                self._register()
            for fd, events in self._poll.poll(None if self._is_flowing else self._timeout_ms()):
                if fd == source_fd:
                    self._on_source()
                elif fd == client.fd:
                    if events & GONE:
                        return exits.DONE
                    self._flush_client(is_ready=True)
                elif self._link.is_attached:
                    self._on_daemon(events)
            if not self._is_flowing and not self._link.is_attached and self._final_status is None:
                self._advance()

    def _register(self) -> None:
        """Register the events to poll for: each side is read while the other has room.

        Without a daemon the bridge answers requests itself, so stdout must have room too.
        """
        link, client = self._link, self._client
        connection = link.connection
        is_client_full = client.size >= QUEUED_BYTES
        daemon = 0
        if connection is not None and not link.is_attached:
            daemon = link.events
        elif connection is not None:
            if self._final_status is None and not is_client_full:
                daemon = POLLIN
            if self._queue and not self._is_write_closed:
                daemon |= POLLOUT
        reads_source = (
            self._has_input
            and self._final_status is None
            and self._queue.size < QUEUED_BYTES
            and (link.is_attached or not is_client_full)
        )
        fd = -1 if connection is None else connection.fileno()
        if fd != self._daemon_fd:
            self._watch(self._daemon_fd, 0)
            self._daemon_fd = fd
        if fd >= 0:
            self._watch(fd, daemon)
        self._watch(self._source.fd, POLLIN if reads_source else 0)
        self._watch(client.fd, POLLOUT if client.size else 0, always=True)
        self._is_flowing = bool(daemon == POLLIN and reads_source and not client.size) and (
            link.is_attached and not self._is_write_closed
        )

    def _watch(self, fd: int, events: int, *, always: bool = False) -> None:
        """Poll ``fd`` for ``events``; without any, for a hang-up if ``always``, else not at all."""
        if not (events or always):
            if self._watched.pop(fd, None) is not None:
                self._poll.unregister(fd)  # or a hang-up would be reported again and again
        elif self._watched.get(fd) != events:
            self._poll.register(fd, events)
            self._watched[fd] = events

    def _timeout_ms(self) -> int | None:
        now = time.monotonic()
        at = math.inf
        if self._final_status is not None:
            at = self._closing_at if self._is_sending() else math.inf
        elif not self._link.is_attached:
            at, ends_at = self._link.next_at(), self._link.answer_at()
            if now < ends_at < at:
                at = ends_at
        elif not self._has_input and not self._queue and self._state.pending_count():
            at = self._linger.next_at(now)
        return None if at == math.inf else math.ceil(max(0.0, at - now) * 1000)

    def _is_sending(self) -> bool:
        """Return whether something is being sent to an attached daemon."""
        return self._link.is_attached and bool(self._queue)

    def _exit_status(self) -> int | None:
        if self._status is not None or (self._has_input and self._final_status is None):
            return self._status
        is_up = self._link.is_attached and not self._queue
        if self._final_status is None and is_up and self._state.pending_count():
            self._cancel_late_requests()
        is_sent = not self._is_sending() or time.monotonic() >= self._closing_at
        if self._client.size or not is_sent:
            return None
        if self._final_status is not None:
            return self._final_status
        return None if self._state.pending_count() else self._end_status

    def _cancel_late_requests(self) -> None:
        """Cancel the unanswered requests once the time to wait after the end of stdin is over."""
        now = time.monotonic()
        is_behind = self._client.size >= QUEUED_BYTES
        if not self._linger.is_over(now, self._link.server, is_behind=is_behind):
            return
        count = self._state.pending_count()
        streams.report(
            f"{count} {'answer' if count == 1 else 'answers'} did not come within "
            f"{self._linger.seconds:g} s after the end of input: cancelled"
        )
        self._queue.clear()
        for frame in self._state.cancellations():
            self._queue.put_own(frame)
        self._state.in_flight.clear()
        self._final_status = exits.TIMED_OUT
        self._closing_at = now + FAREWELL_S
        self._flush_daemon()

    # -- the client --------------------------------------------------------------------------------

    def _on_source(self) -> None:
        data = self._source.read()
        if data is None:
            return
        if data:
            is_up = self._link.is_attached and self._queue.is_open
            for frame in self._from_client.feed(data):
                if not frame[0].startswith(b'{"'):  # a byte order mark, UTF-16, or other JSON
                    frame = without_bom(frame)  # noqa: PLW2901
                    if self._is_utf_16(frame[0]):
                        break
                self._state.from_client(frame, is_up=is_up)
            if self._from_client.cut:
                for head, tail in self._from_client.cut:
                    self._refuse_oversized(without_bom([head])[0], tail)
                self._from_client.cut.clear()
        else:
            self._has_input = self._is_flowing = False
            self._linger.begin()
            rest = without_bom([b"".join(self._from_client.rest())])[0]
            if scan.is_whole(rest):
                is_up = self._link.is_attached and self._queue.is_open
                self._state.from_client([rest + b"\n"], is_up=is_up)
            elif rest.strip() and not self._is_utf_16(rest):
                streams.report(
                    f"the last {len(rest)} bytes of the input are no whole message: left out"
                )
        self._flush_daemon()

    def _is_utf_16(self, data: bytes) -> bool:
        """Return whether ``data`` begins in UTF-16; if so, report it and end the session."""
        if not data.startswith(UTF_16):
            return False
        streams.report("the input is UTF-16, and MCP is UTF-8: have the client write UTF-8")
        self._final_status, self._closing_at = exits.USAGE, time.monotonic() + FAREWELL_S
        self._is_flowing = False
        return True

    def _refuse_oversized(self, head: bytes, tail: bytes) -> None:
        """Answer a frame that was too large to keep, if its id is known."""
        ident, method = scan.by_ends(head, tail) or (None, None)
        if ident is not None and method is not None:
            self._send_to_client([failure(ident, TOO_LARGE)])

    def _send_to_client(self, frames: list[bytes]) -> None:
        self._client.put(frames)
        self._flush_client()

    def _flush_client(self, *, is_ready: bool = False) -> None:
        try:
            self._client.flush(is_ready=is_ready)
        except OSError as error:
            self._is_flowing = False
            if isinstance(error, ConnectionError) or error.errno == errno.EIO:
                self._status = (
                    exits.DONE
                )  # the client is gone: a closed pipe, or a terminal that hung up
            else:
                streams.report(f"cannot write to stdout: {error.strerror}")
                self._status = exits.FAILED

    # -- the daemon --------------------------------------------------------------------------------

    def _on_daemon(self, events: int) -> None:
        if events & POLLOUT:
            self._flush_daemon()
        if events & POLLIN:
            self._read_daemon()
        elif events & GONE and not self._watched[self._daemon_fd] & POLLIN:
            # The rest of what it has sent is read once the client has room.
            self._is_write_closed, self._is_flowing = True, False
        elif events & GONE:
            self._lose_daemon()

    def _read_daemon(self) -> None:
        connection = self._link.connection
        assert connection is not None  # it is attached
        try:
            data = connection.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose_daemon()
            return
        for frame in self._from_daemon.feed(data):
            if self._state.from_daemon(frame):
                self._client.put(frame)
            if self._link.connection is None:  # the session was refused
                break
        if self._client.size:
            self._flush_client()
        if self._queue.size:
            self._flush_daemon()

    def _flush_daemon(self) -> None:
        connection = self._link.connection
        if connection is None or not self._link.is_attached or self._is_write_closed:
            return
        try:
            self._queue.flush(connection)
        except OSError:  # the connection is still read to its end
            self._is_write_closed, self._is_flowing = True, False

    def _lose_daemon(self) -> None:
        """Answer the requests in flight with an error; the queued ones wait for the next daemon."""
        errors = self._state.daemon_lost(OUTCOME_UNKNOWN)
        self._link.lost(time.monotonic())
        self._reset()
        if errors and not self._has_input:
            self._end_status = exits.NO_DAEMON
        if errors or self._has_input or self._state.pending_count():
            fate = f": {len(errors)} in flight, answered with outcome_unknown" if errors else ""
            streams.report(f"the daemon went away{fate}")
        self._send_to_client(errors)
        self._send_to_client(self._state.questions.withdraw_all())

    def _refuse_session(self, error: Error) -> None:
        """Give up the connection, because the server refused to initialize again."""
        self._state.daemon_lost(OUTCOME_UNKNOWN)
        self._link.refused(error, time.monotonic())
        self._reset()

    def _reset(self) -> None:
        self._is_write_closed = self._is_flowing = False
        self._linger.restart()
        self._from_daemon = Frames()  # the rest of half a line will never come

    def _advance(self) -> None:
        """Do the next step towards a session; answer queued requests if waiting cannot help."""
        now = time.monotonic()
        if self._link.advance(now):
            self._replay.begin()
            self._flush_daemon()
            return
        obstacle = self._link.obstacle
        if obstacle is None or not (obstacle.is_firm or now >= self._link.answer_at()):
            return
        if self._reported != obstacle.text():
            self._reported = obstacle.text()
            streams.report(self._reported)
        errors = self._state.fail_queued(obstacle.error)
        if errors and not self._has_input:
            self._end_status = obstacle.status
        if self._link.is_incompatible:
            self._final_status = obstacle.status
        self._send_to_client(errors)

    def _resume(self) -> None:
        """Report that the session continues with the new daemon."""
        self._link.resumed(time.monotonic())
        self._reported = ""
        streams.report(f"the session continues with another daemon (pid {self._link.pid})")

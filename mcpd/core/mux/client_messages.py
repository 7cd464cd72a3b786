"""Messages of clients, line by line: requests, answers, notifications and batches."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from mcpd.core.downstream.client_subscriptions import DRAINING, ClientSubscriptions
from mcpd.core.downstream.request_router import RequestRouter
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.facts import Failure, FrameRejected
from mcpd.core.interface.commands import (
    CloseSession,
    Control,
    ControlCancelled,
    SessionElements,
    ToSession,
)
from mcpd.core.interface.failures import no_room, too_large, too_many
from mcpd.core.mcp import codes
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.versions import HAS_BATCHES
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.questions import Questions
from mcpd.core.requests.inflight import End, Outcome
from mcpd.core.state.batch import Batch
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.principal import Right

NO_SESSION: Final = "all connections for sessions are taken; this one is for control requests alone"
_CONTROL: Final = "mcpd/"


class ClientMessages:
    """Takes each line of a client to the part that handles it. What is no message is refused."""

    def __init__(
        self,
        state: MuxState,
        *,
        downstream: RequestRouter,
        settings: SessionSettings,
        listens: ClientSubscriptions,
        parked: ParkedCalls,
        asked: Questions,
    ) -> None:
        self.is_draining = False
        """Whether the daemon is about to end, and takes no requests any more."""
        self._state = state
        self._ctx = state.ctx
        self._downstream = downstream
        self._settings = settings
        self._client_subscriptions = listens
        self._parked_calls = parked
        self._questions = asked

    def receive(
        self, session: Session, frame: Frame | Oversized, batch: Batch | None = None
    ) -> None:
        """Handle one line of a client, or one message of its ``batch``."""
        if isinstance(frame, Oversized):
            self._refuse_oversized(session, frame)
            return
        try:
            message = envelope.decode(frame)
        except envelope.Malformed as problem:
            if batch is None and problem.elements and session.version == HAS_BATCHES:
                self._begin_batch(session, problem.elements)
                return
            if self._spoil_answer(session, frame[:4096], frame[-4096:], problem.reason):
                return
            code = codes.INVALID_REQUEST if problem.is_json else codes.PARSE_ERROR
            self._refuse_frame(session, problem.id, code, problem.reason, batch)
            return
        if message.id is UNSET:
            if message.method is not UNSET:
                if message.jsonrpc == "2.0":
                    self._notification(session, str(message.method), message.params)
            elif message.result is UNSET and message.error is UNSET:
                why = "not a JSON-RPC message"
                self._refuse_frame(session, None, codes.INVALID_REQUEST, why, batch)
            return
        ident = bytes(message.id)
        if message.method is UNSET:
            if message.result is UNSET and message.error is UNSET:
                usable = ident if envelope.is_id(ident) else None
                why = "a request needs a method"
                self._refuse_frame(session, usable, codes.INVALID_REQUEST, why, batch)
            else:
                self._questions.hear_answer(session, message)
            return
        key = envelope.key_of_id(ident)
        if key is None:
            why = f"id must be a string or an integer of at most {envelope.ID_BYTES} bytes"
            self._refuse_frame(session, None, codes.INVALID_REQUEST, why, batch)
            return
        if message.jsonrpc != "2.0":
            why = 'jsonrpc must be "2.0"'
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        method = str(message.method)
        self._request(session, ident, key, method, message.params, len(frame), batch)

    def _begin_batch(self, session: Session, elements: list[bytes]) -> None:
        """Have the messages of an array brought one by one; its answers go out as one array."""
        session.batch = Batch(session.send_answers, session.share, len(elements))
        self._ctx.emit(SessionElements(session.id, elements))

    def _request(
        self,
        session: Session,
        ident: bytes,
        key: bytes,
        method: str,
        params: envelope.Bytes,
        size: int,
        batch: Batch | None,
    ) -> None:
        if key in session.requests or key in session.streams or key in session.listens:
            why = "a request with this id is in flight already"
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        if batch is not None and method == "initialize":
            why = "initialize must not be part of a batch"
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        request = ClientRequest(session, ident, key)
        if batch is not None:
            request.batch = batch
            batch.expect(key)
        # a ping is answered at once: nothing of it waits
        if method != "ping" and not self._has_place(request, method, params, size):
            return
        session.requests[key] = request
        if not method.startswith(_CONTROL):
            if not session.is_session:
                if session.in_reserve:
                    self.refuse_session(request)
                    return
                self._state.open_session(session)
            if self.is_draining and method != "ping":  # else there would be no end to it
                _note_method(request, method)
                request.refuse(DRAINING)
            else:
                self._downstream.request(request, method, params)
        elif not session.principal.may(Right.CONTROL):
            failure = Failure("unknown_method", f"unknown method {method!r}")
            request.refuse(failure)
        else:
            request.is_control = True
            raw = None if params is UNSET else bytes(params)
            self._ctx.emit(Control(session.id, key, method, raw, session.principal))

    def _has_place(
        self, request: ClientRequest, method: str, params: envelope.Bytes, size: int
    ) -> bool:
        """Count a request that may have to wait; tell whether it is not one too many."""
        session, most = request.session, self._ctx.settings.max_in_flight
        share = session.share
        if share.count + len(session.streams) >= most and not (
            params is not UNSET and self._parked_calls.is_retry(session, params)
        ):
            why = "requests of this session are in flight"
            _note_method(request, method)
            request.refuse(too_many(why, most, "in_flight"))
            return False
        if not request.enter(share, size):
            _note_method(request, method)
            request.refuse(no_room(share, size))
            return False
        return True

    def refuse_session(self, request: ClientRequest) -> None:
        """Refuse what only a session may ask, and end a connection that cannot become one."""
        hint = "mcpctl status shows who is there"
        request.refuse(Failure("rate_limited", NO_SESSION, None, True, hint))
        session = request.session
        self._ctx.emit(CloseSession(session.id, NO_SESSION))

    def _notification(self, session: Session, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._questions.hear_progress(session, params)
        elif method == "notifications/roots/list_changed":
            self._settings.roots_changed(session)
        elif method == "notifications/initialized":
            session.said_initialized = session.is_opening
            session.is_initialized = session.version is not None and not session.is_opening
            session.keep()
        elif method == "notifications/cancelled" and params is not UNSET:
            found = envelope.params_of(params)
            if found is not None and found.request_id is not UNSET:
                ident = bytes(found.request_id)
                key = envelope.key_of_id(ident)
                if key is not None:
                    why = None if found.reason is UNSET else bytes(found.reason)
                    self.cancel(session, key, why)

    def cancel(self, session: Session, key: bytes, reason: bytes | None) -> None:
        """Give up what a client asked under an id, if it is under way; ``reason`` is JSON."""
        if self._client_subscriptions.cancel(session, key):
            return
        if key in session.streams:
            session.streams.discard(key)
            self._ctx.emit(ControlCancelled(session.id, key))
            return
        request = session.requests.get(key)
        if request is None:
            return
        leg = request.leg
        request.drop()
        if leg is not None and leg.holder is not None:
            leg.holder.end(leg, Outcome(End.CANCELLED, reason=reason))
        elif request.is_control:
            self._ctx.emit(ControlCancelled(session.id, key))

    def _spoil_answer(self, session: Session, head: Frame, tail: Frame, why: str) -> bool:
        """Tell whether a frame that cannot be taken is an answer: its id is not of the client's."""
        ident = envelope.find_id(bytes(head), bytes(tail), of_answer=True)
        if ident is None or not head.lstrip().startswith(b"{"):
            return False
        self._ctx.tell(FrameRejected(session.id, why, session.label))
        self._questions.spoil_answer(session, ident)
        return True

    def _refuse_oversized(self, session: Session, frame: Oversized) -> None:
        limit = self._ctx.settings.max_request_bytes
        why = f"an answer of {frame.size_bytes} bytes is larger than max_request_bytes"
        if self._spoil_answer(session, frame.head, frame.tail, why):
            return
        failure = too_large("", limit)
        failure = Failure(failure.kind, failure.message, None, False, failure.hint, failure.details)
        ident = envelope.find_id(frame.head, frame.tail)
        self._send_error(session, ident, codes.error_object(failure))

    def _refuse_frame(
        self,
        session: Session,
        ident: bytes | None,
        code: int,
        reason: str,
        batch: Batch | None = None,
    ) -> None:
        self._ctx.tell(FrameRejected(session.id, reason, session.label))
        failure = Failure("invalid_message", reason)
        self._send_error(session, ident, codes.error_object(failure, code), batch)

    def _send_error(
        self, session: Session, ident: bytes | None, error: bytes, batch: Batch | None = None
    ) -> None:
        if ident is None and not session.may_omit_id:
            ident = b"null"
        line = envelope.error(ident, error)
        key = None if ident is None else envelope.key_of_id(ident)
        if batch is not None:
            batch.take(line, key or b"")
            return
        if key is None or key in session.requests:
            self._ctx.emit(ToSession(session.id, line))
        else:
            self._ctx.emit(ToSession(session.id, line, request=key, is_response=True))


def _note_method(request: ClientRequest, name: str) -> None:
    """Note what a request asks for that is refused before it is read, for the record of it."""
    if (method := CLIENT_REQUESTS.get(name)) is not None:
        request.method = method

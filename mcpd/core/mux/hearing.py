"""What a server's process says, line by line: answers, questions, notices, and noise."""

from __future__ import annotations

import re
from typing import Final, Generic, Protocol, TypeVar

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import ServerNoise
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.versions import HAS_BATCHES, MODERN
from mcpd.core.mux import progress
from mcpd.core.mux.commands import ServerElements
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import invalid_answer, too_large
from mcpd.core.mux.feeds import Feeds
from mcpd.core.mux.lists import Lists
from mcpd.core.mux.noise import LSP, NO_ID, SPREAD
from mcpd.core.mux.requests import Requests
from mcpd.core.mux.subscriptions import Task, Topic
from mcpd.core.mux.wire_ids import wire_id_of
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SlotId

_CHANGES: Final = {
    "notifications/tools/list_changed": (Kind.TOOLS,),
    "notifications/prompts/list_changed": (Kind.PROMPTS,),
    "notifications/resources/list_changed": (Kind.RESOURCES, Kind.TEMPLATES),
}
_NOISE_LENGTH: Final = 2000
_CONTENT_LENGTH: Final = b"content-length:"
_BOM: Final = b"\xef\xbb\xbf"
_CLIENTS: Final = ("notifications/cancelled", "notifications/initialized")
"""Notifications of ours that a server may log."""

_GLUED: Final = re.compile(rb'\{\s*"jsonrpc"')
_PIECE: Final = re.compile(rb'\s*(?:[{}\]],?|"(?:jsonrpc|id|result|error|method)"\s*:.*)\s*\Z')


class Speaker(Protocol):
    """The server that speaks."""

    slot: SlotId
    requests: Requests
    lists: Lists
    heard_at: float
    noise: int
    noise_reason: str | None

    @property
    def entry(self) -> Entry: ...
    @property
    def is_modern(self) -> bool: ...
    @property
    def version(self) -> str | None: ...
    def answer(
        self, ident: bytes, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None: ...
    def warn(self, text: str) -> None: ...


S = TypeVar("S", bound=Speaker)
S_contra = TypeVar("S_contra", bound=Speaker, contravariant=True)


class Told(Protocol[S_contra]):
    """Those to whom what a server says unasked is told."""

    def heard_update(self, upstream: S_contra, topic: Topic, params: Raw) -> None:
        """A resource, or a task, has changed."""

    def heard_log(self, upstream: S_contra, params: Raw) -> None:
        """The server logged something."""

    def heard_question(self, upstream: S_contra, ident: bytes, method: str, params: Raw) -> None:
        """The server asks; ``ident`` is its own id."""

    def heard_completion(self, upstream: S_contra, params: Raw) -> None:
        """What somebody was to do elsewhere is done."""

    def heard_withdrawal(self, upstream: S_contra, ident: bytes) -> None:
        """The server does not want to know any more."""


class Hearing(Generic[S]):
    """Takes each line of a process to whom it concerns."""

    def __init__(self, effects: Effects, upstream: S, feeds: Feeds, told: Told[S]) -> None:
        self._fx = effects
        self._upstream = upstream
        self._requests = upstream.requests
        self._feeds = feeds
        self._told = told

    @property
    def _name(self) -> str:
        return self._upstream.entry.name

    def hear(self, frame: Frame | Oversized) -> None:
        """React to one line of the process. Whatever it is, nobody's session ends of it."""
        self._upstream.heard_at = self._fx.now
        if isinstance(frame, Oversized):
            self._hear_oversized(frame)
            return
        try:
            message = envelope.decode(frame)
        except envelope.Malformed as problem:
            self._hear_malformed(frame, problem)
            return
        if message.method is UNSET:
            self._hear_answer(message, frame)
        elif message.id is UNSET:
            self._hear_notification(str(message.method), message.params)
        else:
            params = message.params if message.params is not UNSET else Raw(b"{}")
            self._hear_request(bytes(message.id), str(message.method), params)

    def _hear_request(self, ident: bytes, method: str, params: Raw) -> None:
        if not self._upstream.is_modern:
            self._told.heard_question(self._upstream, ident, method, params)
        elif envelope.is_id(ident):
            why = f"no request comes from a server in revision {MODERN[-1]}: {method}"
            error = codes.plain_error(codes.METHOD_NOT_FOUND, why)
            self._upstream.answer(ident, result=None, error=error)

    def _hear_answer(self, message: envelope.Message, frame: Frame) -> None:
        wire_id = wire_id_of(message.id)
        pending = None if wire_id is None else self._requests.take(wire_id)
        if pending is None:
            why = None if message.error is UNSET else message.error
            if wire_id is not None and self._feeds.ended(wire_id, why):
                return
            if wire_id is not None and self._requests.was_used(wire_id):
                return
            reason = "no answer that anybody waits for"
            if why is None:
                self._hear_noise(frame, reason)
            else:
                said = envelope.text((envelope.object_of(why) or {}).get("message", UNSET))
                self._hear_noise(frame, reason, NO_ID, said)
            return
        result, error = message.result, message.error
        if result is not UNSET and error is not UNSET:  # some libraries write one as null
            if bytes(error) == b"null":
                error = UNSET
            elif bytes(result) == b"null":
                result = UNSET
        if result is not UNSET and error is UNSET:
            self._requests.finish(pending, result, None, frame)
        elif error is not UNSET and result is UNSET:
            self._requests.finish(pending, None, error, frame)
        else:
            both = "both a result and an error"
            if result is UNSET:
                both = "neither a result nor an error"
            self._requests.spoil(pending, invalid_answer(self._name, f"its answer has {both}"))

    def _hear_oversized(self, frame: Oversized) -> None:
        ident = envelope.find_id(frame.head, frame.tail, of_answer=True)
        wire_id = None if ident is None else wire_id_of(Raw(ident))
        pending = None if wire_id is None else self._requests.take(wire_id)
        if pending is None:
            self._upstream.warn(
                f"a line of {frame.size_bytes} bytes was over max_message_bytes; skipped"
            )
            return
        self._requests.spoil(pending, too_large(self._name, frame.size_bytes, is_answer=True))

    def _hear_malformed(self, frame: Frame, problem: envelope.Malformed) -> None:
        if frame.startswith(_BOM):  # some runtimes write one before every message
            if not frame[len(_BOM) :].isspace() and len(frame) > len(_BOM):
                self.hear(frame[len(_BOM) :])
            return
        if not problem.is_json and self._hear_glued(frame):
            return
        reason = "not JSON-RPC" if problem.reason != envelope.TOO_MANY else problem.reason
        elements = problem.elements or []
        if elements and self._upstream.version != HAS_BATCHES:
            reason = f"an array of messages, which revision {HAS_BATCHES} alone has"
        elif elements and all(element.startswith(b"{") for element in elements):
            self._fx.emit(ServerElements(self._upstream.slot, elements))
            return
        ident = envelope.find_id(bytes(frame[:4096]), bytes(frame[-4096:]), of_answer=True)
        wire_id = None if ident is None else wire_id_of(Raw(ident))
        pending = None if wire_id is None else self._requests.take(wire_id)
        if pending is not None:
            why = f"its answer cannot be read: {problem.reason}"
            self._requests.spoil(pending, invalid_answer(self._name, why))
            return
        if frame[:15].lower() == _CONTENT_LENGTH:
            reason = LSP
        elif _PIECE.match(frame[:2000]):
            reason = SPREAD
        self._hear_noise(frame, reason)

    def _hear_glued(self, frame: Frame) -> bool:
        """Hear a message that text without a newline stands before; tell whether there was one.

        Not a request: servers log what they read and write, and would be answered twice.
        """
        found = _GLUED.search(frame)
        if found is None or not found.start() or frame.lstrip().startswith((b"{", b"[")):
            return False
        rest = frame[found.start() :]
        try:
            message = envelope.decode(rest)
        except envelope.Malformed:
            return False
        method = message.method
        if method is not UNSET and (message.id is not UNSET or method in _CLIENTS):
            return False
        self._hear_noise(frame[: found.start()], "text before a message on its line")
        if method is UNSET:
            self._hear_answer(message, rest)
        else:
            self._hear_notification(str(method), message.params)
        return True

    def _hear_noise(
        self, frame: Frame, reason: str, quoted: str | None = None, said: str | None = None
    ) -> None:
        """Count a line; ``quoted`` and ``said`` are its reason and text in errors, if others."""
        self._upstream.noise += 1
        self._upstream.noise_reason = reason
        line = self._upstream.entry.redactor.excerpt(frame, _NOISE_LENGTH)
        self._requests.hear_noise(quoted or reason, said or line)
        self._fx.tell(ServerNoise(self._name, reason, line, self._upstream.noise == 1))

    def _hear_notification(self, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._hear_progress(params)
        elif (kinds := _CHANGES.get(method)) is not None:
            if not self._upstream.is_modern or params is UNSET or self._feeds.carries(params):
                self._upstream.lists.changed(kinds)
        elif params is UNSET:
            return
        elif method == "notifications/message":
            self._told.heard_log(self._upstream, params)
        elif method == "notifications/resources/updated":
            self._hear_update(params)
        elif method == "notifications/tasks":
            self._hear_task(params)
        elif method == "notifications/elicitation/complete":
            self._told.heard_completion(self._upstream, params)
        elif method == "notifications/subscriptions/acknowledged":
            self._feeds.acknowledged(params)
        elif method == "notifications/cancelled":
            found = envelope.params_of(params)
            if found is None or found.request_id is UNSET:
                return
            if self._upstream.is_modern:
                self._feeds.ended(wire_id_of(found.request_id) or 0)
            else:
                self._told.heard_withdrawal(self._upstream, bytes(found.request_id))

    def _hear_update(self, params: Raw) -> None:
        found = envelope.params_of(params)
        uri = envelope.text(found.uri) if found is not None else None
        if uri is None:
            return
        if self._upstream.is_modern:
            if not self._feeds.carries_update(params, uri):
                return
            params = Raw(modern.untagged(params)[0] or b"{}")
        self._told.heard_update(self._upstream, uri, params)

    def _hear_task(self, params: Raw) -> None:
        found = envelope.params_of(params)
        ident = envelope.text(found.task_id) if found is not None else None
        if ident is None or not self._feeds.carries_update(params, Task(ident)):
            return
        told = Raw(modern.untagged(params)[0] or b"{}")
        self._told.heard_update(self._upstream, Task(ident), told)

    def _hear_progress(self, params: Raw) -> None:
        found = envelope.params_of(params)
        if found is None or found.progress_token is UNSET:
            return
        wire_id = progress.token_of(found.progress_token)
        pending = None if wire_id is None else self._requests.get(wire_id)
        if pending is None:
            return  # finished or never given: real clients close the connection on one
        self._requests.restart_timer(pending)
        if pending.on_progress is not None:
            pending.on_progress(params)

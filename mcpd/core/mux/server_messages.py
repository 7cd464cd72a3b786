"""Messages of servers, line by line: answers, questions, notifications, and noise."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import ServerNoise
from mcpd.core.interface.commands import ServerElements
from mcpd.core.interface.context import Context
from mcpd.core.interface.failures import invalid_answer, too_large
from mcpd.core.mcp import codes, questions
from mcpd.core.mcp.listen import without_subscription_id
from mcpd.core.mcp.versions import HAS_BATCHES, MODERN
from mcpd.core.mux.notifier import Notifier
from mcpd.core.mux.result_cleaning import ResultCleaning
from mcpd.core.questions.input_rounds import InputRounds
from mcpd.core.questions.questions import Questions
from mcpd.core.questions.roots import Roots
from mcpd.core.requests.inflight import End, Outcome, failed
from mcpd.core.requests.noise import LSP, NO_ID, SPREAD
from mcpd.core.upstream.subscriptions import Task
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope, progress
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.wire_ids import wire_id_of

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

_BRACKET: Final = re.compile(rb"\s*[\[{]")
_GLUED: Final = re.compile(rb'\{\s*"jsonrpc"')
_PIECE: Final = re.compile(rb'\s*(?:[{}\]],?|"(?:jsonrpc|id|result|error|method)"\s*:.*)\s*\Z')


class ServerMessages:
    """Takes each line of a process to the part that handles it. No line ends a session."""

    def __init__(
        self,
        ctx: Context,
        *,
        asked: Questions,
        roots: Roots,
        rounds: InputRounds,
        notifier: Notifier,
    ) -> None:
        self._ctx = ctx
        self._questions = asked
        self._roots = roots
        self._input_rounds = rounds
        self._notifier = notifier
        self.results = ResultCleaning(ctx)
        """Answers of servers whose results are looked at."""

    def receive(self, upstream: Upstream, frame: Frame | Oversized) -> None:
        """Handle one line of a process."""
        upstream.heard_at = self._ctx.now
        if isinstance(frame, Oversized):
            self._oversized(upstream, frame)
            return
        try:
            message = envelope.decode(frame)
        except envelope.Malformed as problem:
            self._malformed(upstream, frame, problem)
            return
        if message.method is UNSET:
            self._answer(upstream, message, frame)
        elif message.id is UNSET:
            self._notification(upstream, str(message.method), message.params)
        else:
            params = message.params if message.params is not UNSET else Raw(b"{}")
            self._request(upstream, bytes(message.id), str(message.method), params)

    def _request(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        if not upstream.is_modern:
            if method != questions.ROOTS or not self._roots.ask(upstream, ident, params):
                self._questions.ask(upstream, ident, method, params)
        elif envelope.is_id(ident):
            why = f"no request comes from a server in revision {MODERN[-1]}: {method}"
            error = codes.plain_error(codes.METHOD_NOT_FOUND, why)
            upstream.answer(ident, result=None, error=error)

    def _answer(self, upstream: Upstream, message: envelope.Message, frame: Frame) -> None:
        wire_id = wire_id_of(message.id)
        leg = None if wire_id is None else upstream.calls.take(wire_id)
        if leg is None:
            why = None if message.error is UNSET else message.error
            if wire_id is not None and upstream.listen_streams.ended(wire_id, why):
                return
            if wire_id is not None and upstream.calls.inflight.was_used(wire_id):
                return
            reason = "no answer that anybody waits for"
            if why is None:
                self._noise(upstream, frame, reason)
            else:
                said = envelope.text((envelope.object_of(why) or {}).get("message", UNSET))
                self._noise(upstream, frame, reason, NO_ID, said)
            return
        result, error = message.result, message.error
        if result is not UNSET and error is not UNSET:  # some libraries write one as null
            if bytes(error) == b"null":
                error = UNSET
            elif bytes(result) == b"null":
                result = UNSET
        if (result is UNSET) == (error is UNSET):
            both = (
                "neither a result nor an error" if result is UNSET else "both a result and an error"
            )
            failure = invalid_answer(upstream.entry.name, f"its answer has {both}")
            upstream.calls.end(leg, failed(failure))
            return
        answer = None if result is UNSET else result
        wrong = None if error is UNSET else error
        calls, outcome = upstream.calls, None
        if leg.owner:
            if not calls.has_answered:
                calls.mark_answered()
            if calls.is_modern or leg.is_modern or wrong is not None:
                outcome = self._input_rounds.answered(upstream, leg, answer, wrong)
                if outcome is None:  # its client has to be asked something first
                    calls.room.fill()
                    return
        if outcome is None:
            outcome = Outcome(End.ANSWERED, answer, wrong)
        if leg.entry is not None and leg.entry.rules.results != "off":
            self.results.take(calls, leg, answer, frame, outcome)
        else:
            calls.finish(leg, answer, frame, outcome)

    def _oversized(self, upstream: Upstream, frame: Oversized) -> None:
        ident = envelope.find_id(frame.head, frame.tail, of_answer=True)
        wire_id = None if ident is None else wire_id_of(Raw(ident))
        leg = None if wire_id is None else upstream.calls.take(wire_id)
        if leg is None:
            upstream.warn(f"a line of {frame.size_bytes} bytes was over max_message_bytes; skipped")
            return
        failure = too_large(upstream.entry.name, frame.size_bytes, is_answer=True)
        upstream.calls.end(leg, failed(failure))

    def _malformed(self, upstream: Upstream, frame: Frame, problem: envelope.Malformed) -> None:
        if frame.startswith(_BOM):  # some runtimes write one before every message
            if not frame[len(_BOM) :].isspace() and len(frame) > len(_BOM):
                self.receive(upstream, frame[len(_BOM) :])
            return
        if not problem.is_json and self._glued(upstream, frame):
            return
        reason = "not JSON-RPC" if problem.reason != envelope.TOO_MANY else problem.reason
        elements = problem.elements or []
        if elements and upstream.version != HAS_BATCHES:
            reason = f"an array of messages, which revision {HAS_BATCHES} alone has"
        elif elements and all(element.startswith(b"{") for element in elements):
            self._ctx.emit(ServerElements(upstream.slot, elements))
            return
        ident = envelope.find_id(bytes(frame[:4096]), bytes(frame[-4096:]), of_answer=True)
        wire_id = None if ident is None else wire_id_of(Raw(ident))
        leg = None if wire_id is None else upstream.calls.take(wire_id)
        if leg is not None:
            why = f"its answer cannot be read: {problem.reason}"
            upstream.calls.end(leg, failed(invalid_answer(upstream.entry.name, why)))
            return
        if frame[:15].lower() == _CONTENT_LENGTH:
            reason = LSP
        elif _PIECE.match(frame[:2000]):
            reason = SPREAD
        self._noise(upstream, frame, reason)

    def _glued(self, upstream: Upstream, frame: Frame) -> bool:
        """Hear a message that text without a newline stands before; tell whether there was one.

        Not a request: servers log what they read and write, and would be answered twice.
        """
        if _BRACKET.match(frame):
            return False
        found = _GLUED.search(frame)
        if found is None:
            return False
        rest = frame[found.start() :]
        try:
            message = envelope.decode(rest)
        except envelope.Malformed:
            return False
        method = message.method
        if method is not UNSET and (message.id is not UNSET or method in _CLIENTS):
            return False
        self._noise(upstream, frame[: found.start()], "text before a message on its line")
        if method is UNSET:
            self._answer(upstream, message, rest)
        else:
            self._notification(upstream, str(method), message.params)
        return True

    def _noise(
        self,
        upstream: Upstream,
        frame: Frame,
        reason: str,
        quoted: str | None = None,
        said: str | None = None,
    ) -> None:
        """Count a line; ``quoted`` and ``said`` are its reason and text in errors, if others."""
        upstream.noise += 1
        upstream.noise_reason = reason
        line = upstream.entry.redactor.excerpt(frame, _NOISE_LENGTH)
        owner = upstream.calls.inflight.sole_owner()
        upstream.calls.noise.note(quoted or reason, said or line, owner)
        self._ctx.tell(ServerNoise(upstream.entry.name, reason, line, upstream.noise == 1))

    def _notification(self, upstream: Upstream, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._progress(upstream, params)
        elif (kinds := _CHANGES.get(method)) is not None:
            if not upstream.is_modern or params is UNSET or upstream.listen_streams.carries(params):
                upstream.lists.changed(kinds)
        elif params is UNSET:
            return
        elif method == "notifications/message":
            self._notifier.log(upstream, params)
        elif method == "notifications/resources/updated":
            self._update(upstream, params)
        elif method == "notifications/tasks":
            self._task(upstream, params)
        elif method == "notifications/elicitation/complete":
            self._questions.url_elicitations.completed(upstream, params)
        elif method == "notifications/subscriptions/acknowledged":
            upstream.listen_streams.acknowledged(params)
        elif method == "notifications/cancelled":
            found = envelope.params_of(params)
            if found is None or found.request_id is UNSET:
                return
            if upstream.is_modern:
                upstream.listen_streams.ended(wire_id_of(found.request_id) or 0)
            else:
                self._questions.withdraw(upstream, bytes(found.request_id))

    def _update(self, upstream: Upstream, params: Raw) -> None:
        found = envelope.params_of(params)
        uri = envelope.text(found.uri) if found is not None else None
        if uri is None:
            return
        if upstream.is_modern:
            if not upstream.listen_streams.carries_update(params, uri):
                return
            params = Raw(without_subscription_id(params)[0] or b"{}")
        self._notifier.resource_updated(upstream, uri, params)

    def _task(self, upstream: Upstream, params: Raw) -> None:
        found = envelope.params_of(params)
        ident = envelope.text(found.task_id) if found is not None else None
        if ident is None or not upstream.listen_streams.carries_update(params, Task(ident)):
            return
        told = Raw(without_subscription_id(params)[0] or b"{}")
        self._notifier.resource_updated(upstream, Task(ident), told)

    def _progress(self, upstream: Upstream, params: Raw) -> None:
        found = envelope.params_of(params)
        if found is None or found.progress_token is UNSET:
            return
        wire_id = progress.token_of(found.progress_token)
        leg = None if wire_id is None else upstream.calls.inflight.get(wire_id)
        if leg is None:
            return  # finished or never given: real clients close the connection on one
        upstream.calls.timeouts.restart(leg)
        leg.recipient.take_progress(leg, params)

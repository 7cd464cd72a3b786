"""What sessions ask in MCP, in either era, and which rule each request follows."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.mcp import codes, modern, shapes
from mcpd.core.mcp.asker import SAID_BYTES, Asker
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method, Route
from mcpd.core.mux import progress
from mcpd.core.mux.forward import CheckArguments, Forward, token_of
from mcpd.core.mux.greeting import Greeting
from mcpd.core.mux.listens import Listens
from mcpd.core.mux.parked import Parked
from mcpd.core.mux.served import Served
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.wishes import Wishes
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.core.wire.scan import MOST_PARTS

_TOOLS_CALL: Final = CLIENT_REQUESTS["tools/call"]
_NOTHING: Final = Params()


class Downstream:
    """Routes the requests of sessions; each rule is a few lines that end in an answer."""

    def __init__(
        self, tables: Tables, check: CheckArguments, *, listens: Listens, parked: Parked
    ) -> None:
        self.served = Served(tables)
        self.wishes = Wishes(tables, self.served)
        self.forward = Forward(tables, check, served=self.served, wishes=self.wishes, parked=parked)
        self._tables = tables
        self._listens = listens
        self._greeting = Greeting(tables, self.request)

    def request(self, session: Session, owed: Owed, method: str, raw: envelope.Bytes) -> None:
        """Answer an MCP request, now or later, exactly once."""
        rule = CLIENT_REQUESTS.get(method)
        params = None if raw is UNSET or (len(raw) == 4 and bytes(raw) == b"null") else raw
        found = _NOTHING
        if params is not None:
            looked = envelope.params_of(params)
            if looked is None:
                why = "params must be an object"
                if len(params) > envelope.LARGE_BYTES:  # it may be one
                    why += f" of at most {MOST_PARTS} members"
                self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
                return
            found = looked
            if (
                rule is _TOOLS_CALL
                and found.meta is UNSET
                and found.task is UNSET
                and found.name is not UNSET
                and shapes.is_object(found.arguments)
                and session.version is not None
                and not session.is_opening
            ):  # the usual call, past the rest
                self.forward.call(session, owed, rule, params, found)
                return
            if found.meta is not UNSET:
                if len(found.meta) > SAID_BYTES:
                    why = f"_meta has more than {SAID_BYTES} bytes"
                    self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
                    return
                try:
                    asker = _asker(session, found.meta)
                except modern.EnvelopeRefused as refusal:
                    self._refuse_envelope(session, owed, refusal)
                    return
                if asker is not None:
                    session.ask_as(owed, asker)
        if owed.asker is not None:
            if not session.is_modern:
                session.is_modern = True
                self._tables.introduce(session, owed.asker)
            owed.token = session.envelope[2]
            self._request_modern(session, owed, method, rule, params, found)
        else:
            self._request_legacy(session, owed, method, rule, params, found)

    def _refuse_envelope(
        self, session: Session, owed: Owed, refusal: modern.EnvelopeRefused
    ) -> None:
        if refusal.data is None:
            self._tables.reject(session, owed, refusal.code, refusal.message)
        else:  # what the specification says is in it
            error = codes.plain_error(refusal.code, refusal.message, refusal.data)
            self._tables.pass_error(session, owed, error)

    def _request_modern(
        self,
        session: Session,
        owed: Owed,
        method: str,
        rule: Method | None,
        params: Raw | None,
        found: Params,
    ) -> None:
        if rule is None or not rule.is_modern:
            why = f"there is no method {method!r} in revision {modern.VERSION}"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
        elif rule.route is Route.DISCOVER:
            self._greeting.discover(session, owed)
        elif self._is_whole(session, owed, rule, found):
            self._route(session, owed, rule, params, found)

    def _request_legacy(
        self,
        session: Session,
        owed: Owed,
        method: str,
        rule: Method | None,
        params: Raw | None,
        found: Params,
    ) -> None:
        if rule is not None and not rule.is_legacy and session.version is None:
            self._reject_without_version(session, owed, method)
            return
        if rule is None or not rule.is_legacy:
            why = f"unknown method {method!r}"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        if rule.route is Route.PING:
            self._tables.reply(session, owed, b"{}")
            return
        if rule.route is Route.INITIALIZE:
            self._greeting.initialize(session, owed, params)
            return
        if session.is_opening:
            session.backlog[owed] = (method, UNSET if params is None else params)
            owed.leave = lambda: session.backlog.pop(owed, None)
            return
        if session.version is None and _means_to_be_modern(session, found):
            self._reject_without_version(session, owed, method)
            return
        if session.version is None:
            why = "the session is not initialized: send initialize first"
            self._tables.reject(session, owed, codes.INVALID_REQUEST, why)
            return
        if not self._is_whole(session, owed, rule, found):
            return
        if found.task is not UNSET and params is not None:
            params = Raw(progress.without(params, "task"))  # tasks are not relayed
        self._route(session, owed, rule, params, found)

    def _reject_without_version(self, session: Session, owed: Owed, method: str) -> None:
        why = f"{method} needs {modern.VERSION_KEY!r} in the _meta of its params"
        self._tables.reject(session, owed, codes.INVALID_PARAMS, why)

    def _is_whole(self, session: Session, owed: Owed, rule: Method, found: Params) -> bool:
        for name in rule.required:
            value = getattr(found, name)
            if value is UNSET or (len(value) == 4 and bytes(value) == b"null"):
                why = f"{rule.name} needs {_spelling(name)!r} in its params"
                self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
                return False
        wrong = shapes.misfit(rule.name, found)
        if wrong is not None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, wrong)
        return wrong is None

    def _route(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        match rule.route:
            case Route.TOOL:
                self.forward.call(session, owed, rule, params, found)
            case Route.LIST:
                self.served.answer(session, owed, rule, found)
            case Route.PROMPT:
                self.forward.prompt(session, owed, rule, params, found)
            case Route.READ:
                self.forward.read(session, owed, rule, params, found)
            case Route.REFERENCE:
                self.forward.complete(session, owed, rule, params, found)
            case Route.LEVEL:
                self.wishes.set_level(session, owed, found)
            case Route.SUBSCRIBE | Route.UNSUBSCRIBE:
                self.wishes.subscribe(session, owed, rule, found)
            case Route.LISTEN if params is not None:
                self._listens.open(session, owed, params, self.served.owners)
            case Route.TASK:
                self.forward.task(session, owed, rule, params, found)


def _means_to_be_modern(session: Session, found: Params) -> bool:
    if session.is_modern:
        return True
    meta = envelope.object_of(found.meta) if found.meta is not UNSET else None
    return not modern.ENVELOPE_KEYS.isdisjoint(meta or ())


def _asker(session: Session, meta: Raw) -> Asker | None:
    """Read the envelope of a request; ``None`` where it has none. Most are like the last one.

    Raises:
        EnvelopeRefused: the client's fault.
    """
    raw = bytes(meta)
    if raw == session.envelope[0]:
        return session.envelope[1]
    asker = modern.read_envelope(meta)
    if asker is not None:
        session.envelope = (raw, asker, token_of(meta))
    return asker


def _spelling(field: str) -> str:
    return "taskId" if field == "task_id" else field

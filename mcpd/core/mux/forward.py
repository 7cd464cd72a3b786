"""Requests that a server answers: found by name, by URI or by endpoint, and sent on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.methods import Method
from mcpd.core.mcp.versions import Era
from mcpd.core.mux import ourselves, progress
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.parked import Parked
from mcpd.core.mux.served import Served
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.mux.wishes import Wishes
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params

_PROMPT_REF: Final = "ref/prompt"
_TEXTS: Final = ("name", "uri")

CheckArguments = Callable[[Session, Owed, Entry, Upstream, Pending], None]


class Forward:
    """Sends requests of sessions to servers, so that each gets its one answer."""

    def __init__(
        self,
        tables: Tables,
        check: CheckArguments,
        *,
        served: Served,
        wishes: Wishes,
        parked: Parked,
    ) -> None:
        self._tables = tables
        self._check = check
        self._served = served
        self._wishes = wishes
        self._parked = parked

    def call(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Send a ``tools/call`` to the session's server, or to the one whose tool it names."""
        name = envelope.text(found.name)
        if name is None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, "name must be a string")
            return
        if session.server is not None:
            entry = self._tables.entry(session.server)
            if isinstance(entry, Failure):
                self._refuse(session, owed, session.server, rule, params, found, entry)
                return
            if not entry.filter.admits(name):
                self._tables.refuse(session, owed, self.tool_not_found(entry.name, name))
                return
            self._forward(session, owed, entry, rule, params, found, tool=name)
            return
        self._by_name(session, owed, rule, params, found, Kind.TOOLS, name)

    def prompt(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Likewise a ``prompts/get``."""
        if session.server is not None:
            self._forward_own(session, owed, rule, params, found)
            return
        name = envelope.text(found.name)
        if name is None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, "name must be a string")
            return
        self._by_name(session, owed, rule, params, found, Kind.PROMPTS, name)

    def _by_name(
        self,
        session: Session,
        owed: Owed,
        rule: Method,
        params: Raw | None,
        found: Params,
        kind: Kind,
        qualified: str,
        *,
        failures: list[Failure] | None = None,
    ) -> None:
        """Send a request of the aggregate to the server whose tool or prompt it names.

        With ``failures`` all who could have it were asked, and these did not come.
        """
        tables = self._tables
        aggregate = tables.aggregate_for(tables.client_of(session, owed))
        route = aggregate.route(kind, qualified)
        if route is not None and params is not None:
            server, name = route
            entry = tables.entry(server)
            own = Raw(progress.with_member(params, "name", envelope.quote(name)))
            if isinstance(entry, Failure):
                self._refuse(session, owed, server, rule, own, found, entry)
                return
            tool = name if kind is Kind.TOOLS else None
            self._forward(session, owed, entry, rule, own, found, tool=tool)
            return
        if failures is None:
            candidates = aggregate.candidates(qualified)
            failed: list[Failure] = []

            def again() -> None:
                if session.owed.get(owed.key) is owed:
                    self._by_name(
                        session, owed, rule, params, found, kind, qualified, failures=failed
                    )

            served = self._served
            served.gather(session, owed, (kind,), again, candidates, failed, is_fresh=True)
            return
        if failures:
            tables.refuse(session, owed, failures[0])
            return
        near = tables.fx.suggest(qualified, aggregate.names(kind))
        tables.refuse(session, owed, _not_found(None, qualified, near, kind))

    def read(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Send a ``resources/read`` to the owner of its URI."""
        if session.server is not None:
            self._forward_own(session, owed, rule, params, found)
            return
        self._served.by_uri(
            session,
            owed,
            envelope.text(found.uri),
            lambda entry: self._forward(session, owed, entry, rule, params, found),
            lambda server, why: self._refuse(session, owed, server, rule, params, found, why),
        )

    def complete(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Send a ``completion/complete`` where its reference leads."""
        if session.server is not None or params is None:
            self._forward_own(session, owed, rule, params, found)
            return
        ref = envelope.object_of(found.ref) if found.ref is not UNSET else None
        ref = ref or {}
        if envelope.text(ref.get("type", UNSET)) != _PROMPT_REF:
            self._served.by_uri(
                session,
                owed,
                envelope.text(ref.get("uri", UNSET)),
                lambda entry: self._forward(session, owed, entry, rule, params, found),
                template=True,
            )
            return
        qualified = envelope.text(ref.get("name", UNSET)) or ""

        client = self._tables.client_of(session, owed)

        def routed() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            aggregate = self._tables.aggregate_for(client)
            route = aggregate.route(Kind.PROMPTS, qualified)
            if route is None:
                near = self._tables.fx.suggest(qualified, aggregate.names(Kind.PROMPTS))
                self._tables.refuse(session, owed, _not_found(None, qualified, near, Kind.PROMPTS))
                return
            entry = self._tables.entry(route[0])
            if isinstance(entry, Failure):
                self._tables.refuse(session, owed, entry)
                return
            own = progress.with_member(found.ref, "name", envelope.quote(route[1]))  # type: ignore[arg-type]
            renamed = Raw(progress.with_member(params, "ref", own))
            self._forward(session, owed, entry, rule, renamed, found)

        known = self._tables.aggregate_for(client)
        is_unknown = known.route(Kind.PROMPTS, qualified) is None
        self._served.gather(session, owed, (Kind.PROMPTS,), routed, is_fresh=is_unknown)

    def _forward_own(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        server = session.server or ""
        entry = self._tables.entry(server)
        if isinstance(entry, Failure):
            self._refuse(session, owed, server, rule, params, found, entry)
            return
        if rule.capability is not None and not self._served.has(entry.name, rule.capability):
            why = f"{entry.name} has no {rule.capability}"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        for name in rule.required:
            if name in _TEXTS and envelope.text(getattr(found, name)) is None:
                self._tables.reject(session, owed, codes.INVALID_PARAMS, f"{name} must be a string")
                return
        self._forward(session, owed, entry, rule, params, found)

    def _forward(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        rule: Method,
        params: Raw | None,
        found: Params,
        tool: str | None = None,
    ) -> None:
        tables = self._tables
        token: bytes | None = None
        asker = owed.asker
        if asker is not None:
            token = owed.token
            able = asker if session.server is not None else modern.without_tasks(asker)
            able = ourselves.allowed(entry, able)
            if able is not asker:
                asker = able
                params = Raw(modern.with_envelope(params, asker))
        else:
            asker = ourselves.allowed(entry, session.asker)
            if found.meta is not UNSET:
                token = token_of(found.meta)
        if token is not None and len(token) > envelope.ID_BYTES:
            why = f"progressToken has more than {envelope.ID_BYTES} bytes"
            tables.reject(session, owed, codes.INVALID_PARAMS, why)
            return
        upstream = tables.upstream_for(session, entry)
        if self._is_retry(session, owed, entry.name, upstream, rule, params, found, token):
            return
        done = tables.outcome(session, owed)
        pending = Pending(session.id, rule, params, done, entry=entry, token=token, tool=tool)
        pending.asker = asker
        if asker.answers and rule.is_input_capable:
            pending.is_asking = True
        if owed.asker is not None:
            pending.is_modern = True
        if token is not None:
            is_modern = pending.is_modern
            pending.on_progress = self._progress_to(session, token, is_modern=is_modern)
        pending.kept, pending.key = owed, owed.key
        owed.pending = pending

        if asker.level is not None and pending.is_modern:
            self._with_level(session, owed, entry, upstream, pending, found)
        else:
            self._submit(session, owed, entry, upstream, pending)

    def _is_retry(
        self,
        session: Session,
        owed: Owed,
        server: str,
        upstream: Upstream | None,
        rule: Method,
        params: Raw | None,
        found: Params,
        token: bytes | None = None,
    ) -> bool:
        """Have a parked call take what is its retry; tell whether it was one."""
        return (
            owed.asker is not None
            and params is not None
            and (found.state is not UNSET or found.answers is not UNSET)
            and self._parked.retry(session, owed, server, upstream, rule, params, token)
        )

    def _refuse(
        self,
        session: Session,
        owed: Owed,
        server: str,
        rule: Method,
        params: Raw | None,
        found: Params,
        failure: Failure,
    ) -> None:
        """Say why a server is not to be used, but to who only fetches what it said before."""
        if not self._is_retry(session, owed, server, None, rule, params, found):
            self._tables.refuse(session, owed, failure)

    def _submit(
        self, session: Session, owed: Owed, entry: Entry, upstream: Upstream, pending: Pending
    ) -> None:
        if pending.tool is not None and entry.validates:
            self._check(session, owed, entry, upstream, pending)
        else:
            upstream.requests.submit(pending)

    def _progress_to(
        self, session: Session, token: bytes, *, is_modern: bool
    ) -> Callable[[Raw], None]:
        def on_progress(said: Raw) -> None:
            params = progress.restored(said, token)
            if is_modern:
                self._tables.notify_modern(session, "notifications/progress", params)
            else:
                self._tables.notify(session, "notifications/progress", params)

        return on_progress

    def _with_level(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        upstream: Upstream,
        pending: Pending,
        found: Params,
    ) -> None:
        """Have a legacy process log as much as a modern request wants, before it is sent."""

        def again() -> None:
            now = self._tables.entry(entry.name)
            params = None if pending.params is None else Raw(pending.params)
            if isinstance(now, Failure):
                self._tables.refuse(session, owed, now)
            else:
                self._forward(session, owed, now, pending.method, params, found, pending.tool)

        def leveled(_: object) -> None:
            owed.leave = None
            if session.owed.get(owed.key) is not owed:
                return
            usable = self._tables.entry(entry.name)
            if isinstance(usable, Failure):
                self._tables.refuse(session, owed, usable)
            elif self._tables.has_left(upstream):
                again()
            else:
                self._submit(session, owed, entry, upstream, pending)

        def ready(failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if failure is not None and self._tables.has_left(upstream):
                again()
            elif failure is not None:
                self._tables.refuse(session, owed, failure)
            elif upstream.requests.era is Era.LEGACY:
                owed.leave = lambda: upstream.wait_for_no_level(leveled)
                self._wishes.apply_levels(upstream, leveled)
            else:
                self._submit(session, owed, entry, upstream, pending)

        self._tables.when_ready(owed, upstream, ready)

    def task(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Pass on what belongs to the tasks extension, where the server has it."""
        known = None if session.server is None else self._tables.introduction_of(session.server)
        if known is None or not modern.has_tasks(known):
            name = session.server or "the aggregate"
            failure = Failure(
                kind="unsupported",
                message=f"{name} has no tasks: they are passed on between modern peers alone",
                server=session.server,
                hint="attach to the server's own endpoint" if session.server is None else None,
            )
            self._tables.refuse(session, owed, failure, codes.METHOD_NOT_FOUND)
            return
        self._forward_own(session, owed, rule, params, found)

    def tool_not_found(self, server: str, name: str) -> Failure:
        """Say that a server has no such tool, or that it is hidden, and what is like it."""
        listing = self._tables.catalog_of(server).get(Kind.TOOLS)
        shown = self._tables.entries[server].filter
        known = [i.identity for i in listing.items if shown.admits(i.identity)] if listing else []
        return _not_found(server, name, self._tables.fx.suggest(name, known), Kind.TOOLS)


def _not_found(server: str | None, name: str, near: list[str], kind: Kind) -> Failure:
    what = "tool" if kind is Kind.TOOLS else "prompt"
    where = f"{server} has no {what}" if server is not None else f"there is no {what}"
    hint = f"did you mean {' or '.join(near)}?" if near else None
    if hint is None and server is not None:
        hint = f"mcpctl {what}s {server}"
    return Failure("tool_not_found", f"{where} {name!r}", server, False, hint, {"near": near})


def token_of(meta: Raw) -> bytes | None:
    """Return the progress token in a ``_meta``, as it came."""
    raw = (envelope.object_of(meta) or {}).get("progressToken")
    if raw is None or bytes(raw) == b"null":
        return None
    return bytes(raw)  # whatever it is: upstream it could be taken for one of ours

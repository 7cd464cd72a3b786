"""Control requests that need servers: calls, lists, reads and prompts, for people and scripts."""

from __future__ import annotations

import itertools

from msgspec import Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mux import progress
from mcpd.core.mux.commands import ToSession, Validate
from mcpd.core.mux.downstream import Downstream
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.events import CallTool, GetPrompt, ListItems, ReadResource, Validated
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

_KINDS = {kind.value: kind for kind in Kind}
_NO_ARGUMENTS = b"{}"
_REASON_LENGTH = 300  # characters of why arguments were not checked that are told


class ControlDesk:
    """Serves ``mcpd/call`` and its like; holds what waits for a check of arguments."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.downstream: Downstream
        self._tickets = itertools.count(1)
        self._checks: dict[int, tuple[Session, Owed, Entry, Upstream, Pending]] = {}

    def __len__(self) -> int:
        return len(self._checks)

    # -- calls -----------------------------------------------------------------------------------

    def call(self, event: CallTool) -> None:
        """Call a tool; its arguments are checked against its schema first."""
        found = self._owed(event.session, event.key)
        if found is None:
            return
        session, owed = found
        entry = self._entry(session, owed, event.server)
        if entry is None:
            return
        self._limit(session, owed, entry, event.tool, event.timeout)
        upstream = self._tables.control_upstream(entry, session.workspace)
        if self._knows(upstream, entry, event.tool):
            self._call_known(session, owed, entry, upstream, event)
            return

        def ready(failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if failure is not None and self._tables.has_left(upstream):
                self.call(event)
            elif failure is not None:
                self._tables.refuse(session, owed, failure)
            else:
                upstream.lists.fresh(Kind.TOOLS, decide)

        def decide() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if self._tables.has_left(upstream) or not upstream.is_ready:
                self.call(event)
            elif self._knows(upstream, entry, event.tool):
                self._call_known(session, owed, entry, upstream, event)
            else:
                missing = self.downstream.forward.tool_not_found(entry.name, event.tool)
                self._tables.refuse(session, owed, missing)

        self._tables.when_ready(owed, upstream, ready)

    def _knows(self, upstream: Upstream, entry: Entry, tool: str) -> bool:
        return upstream.catalog.tool(tool) is not None and entry.filter.admits(tool)

    def _call_known(
        self, session: Session, owed: Owed, entry: Entry, upstream: Upstream, event: CallTool
    ) -> None:
        arguments = event.arguments or _NO_ARGUMENTS
        params = b'{"name":%b,"arguments":%b}' % (envelope.quote(event.tool), arguments)
        pending = self._pending(session, owed, entry, "tools/call", params, tool=event.tool)
        pending.timeout = entry.call_timeout or self._tables.fx.settings.control_timeout
        if event.wants_progress:
            pending.on_progress = lambda said: self._progress(session, owed, said)
        self.check(session, owed, entry, upstream, pending, arguments)

    def _progress(self, session: Session, owed: Owed, said: Raw) -> None:
        if owed.key not in session.owed:
            return
        params = progress.with_member(progress.without(said, "progressToken"), "id", owed.ident)
        line = envelope.notification(b'"mcpd/progress"', params)
        self._tables.fx.emit(ToSession(session.id, line, is_notification=True))

    def check(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        upstream: Upstream,
        pending: Pending,
        arguments: bytes | None = None,
    ) -> None:
        """Have a call's arguments checked, then send it."""
        name = pending.tool or ""
        item = upstream.catalog_for(pending.asker).tool(name) or upstream.catalog.tool(name)
        schema = item.input_schema() if item is not None else None
        if arguments is None and pending.params is not None:
            found = envelope.params_of(pending.params)
            raw = found.arguments if found is not None else None
            arguments = bytes(raw) if isinstance(raw, Raw) else _NO_ARGUMENTS
        if schema is None or arguments is None:
            upstream.requests.submit(pending)
            return
        ticket = next(self._tickets)
        self._checks[ticket] = (session, owed, entry, upstream, pending)
        owed.keep()  # the arguments are being looked at, whoever waits for that
        upstream.requests.hold(pending)
        self._tables.fx.emit(Validate(ticket, schema, arguments))

    def validated(self, event: Validated) -> None:
        """The check is done: send the call, or say what does not fit."""
        waiting = self._checks.pop(event.ticket, None)
        if waiting is None:
            return
        upstream, pending = waiting[3:]
        self._send_checked(event, *waiting)
        waiting[1].release()
        upstream.requests.let_go(pending)

    def _send_checked(
        self,
        event: Validated,
        session: Session,
        owed: Owed,
        entry: Entry,
        upstream: Upstream,
        pending: Pending,
    ) -> None:
        if session.owed.get(owed.key) is not owed:
            return
        if event.note is not None:
            why = entry.redactor.excerpt(event.note.encode(errors="replace"), _REASON_LENGTH)
            text = f"arguments of {pending.tool} were sent unchecked: {why}"
            self._tables.fx.tell(ServerWarning(entry.name, text))
        if not event.violations:
            usable = self._tables.entry(entry.name)
            if isinstance(usable, Failure):
                self._tables.refuse(session, owed, usable)
            elif self._tables.upstreams.get(upstream.slot) is upstream:
                upstream.requests.submit(pending)
            else:
                self._tables.resubmit(pending)
            return
        said = "; ".join(_sentence(v.path, v.message) for v in event.violations)
        details = {
            "path": event.violations[0].path,
            "violations": [{"path": v.path, "message": v.message} for v in event.violations],
        }
        message = f"{entry.name}.{pending.tool}: {said}"
        hint = f"mcpctl tools {entry.name} --schema shows what it takes"
        failure = Failure("invalid_arguments", message, entry.name, False, hint, details)
        self._tables.refuse(session, owed, failure)

    # -- lists -----------------------------------------------------------------------------------

    def lists(self, event: ListItems) -> None:
        """Answer with everything of some kinds, of one server or of all."""
        found = self._owed(event.session, event.key)
        if found is None:
            return
        session, owed = found
        kinds = [_KINDS[name] for name in event.kinds]
        if event.server is None:
            self.downstream.served.gather(
                session,
                owed,
                kinds,
                lambda: self._answer_lists(session, owed, kinds, None),
                is_fresh=True,
            )
            return
        usable = self._tables.entry(event.server)
        entry = self._tables.entries.get(event.server)
        if entry is None or (isinstance(usable, Failure) and usable.kind != "server_stopped"):
            failure = usable if isinstance(usable, Failure) else None
            self._tables.refuse(session, owed, failure or self._tables.not_found(event.server))
            return
        if isinstance(usable, Failure):  # it is held: what it listed before is known
            self._answer_lists(session, owed, kinds, entry.name)
            return
        name, failed = entry.name, list[Failure]()

        def listed() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            now = self._tables.entry(name)
            failure = now if isinstance(now, Failure) else next(iter(failed), None)
            if failure is not None:
                self._tables.refuse(session, owed, failure)
            else:
                self._answer_lists(session, owed, kinds, name)

        served = self.downstream.served
        served.gather(session, owed, kinds, listed, (name,), failed, is_fresh=True)

    def _answer_lists(
        self, session: Session, owed: Owed, kinds: list[Kind], server: str | None
    ) -> None:
        if session.owed.get(owed.key) is not owed:
            return
        names = self._tables.aggregate.servers() if server is None else [server]
        members = []
        for kind in kinds:
            items = (raw for name in names for raw in self._described(name, kind))
            members.append(b'"%b":[%b]' % (kind.key.encode(), b",".join(items)))
        missing = self._missing(kinds, server)
        if missing:
            members.append(b'"missing":[%b]' % b",".join(map(envelope.quote, missing)))
        self._tables.reply(session, owed, b"{" + b",".join(members) + b"}")

    def _missing(self, kinds: list[Kind], server: str | None) -> list[str]:
        """Return the servers of which a list is not known, that may have one: none disabled."""
        entries = self._tables.entries
        asked = (
            [e for e in entries.values() if e.is_listed] if server is None else [entries[server]]
        )
        return [
            entry.name
            for entry in asked
            if (entry.unavailable is None or entry.unavailable.kind != "server_disabled")
            and any(self._is_unknown(entry.name, kind) for kind in kinds)
        ]

    def _is_unknown(self, server: str, kind: Kind) -> bool:
        is_known = self._tables.catalog_of(server).get(kind) is not None
        return not is_known and self.downstream.served.has(server, kind.capability)

    def _described(self, server: str, kind: Kind) -> list[bytes]:
        listing = self._tables.catalog_of(server).get(kind)
        entry = self._tables.entries[server]
        if listing is None:
            return []
        if kind is Kind.TOOLS:
            listing = entry.filter.apply(listing)
        names = self._tables.aggregate.qualified(server, kind)
        where = b'{"server":' + envelope.quote(server)
        described = []
        for item in listing.items:
            own = where
            if item.identity in names:
                own += b',"qualified_name":' + envelope.quote(names[item.identity])
            body = item.raw.strip()[1:].lstrip()
            described.append(own + (b"}" if body == b"}" else b"," + body))
        return described

    # -- reads and prompts -------------------------------------------------------------------------

    def read(self, event: ReadResource) -> None:
        """Read a resource of a server, or of whichever has it."""
        found = self._owed(event.session, event.key)
        if found is None:
            return
        session, owed = found
        params = b'{"uri":%b}' % envelope.quote(event.uri)

        def submit(entry: Entry) -> None:
            self._submit(session, owed, entry, "resources/read", params)

        if event.server is None:
            self.downstream.served.by_uri(session, owed, event.uri, submit)
            return
        entry = self._entry(session, owed, event.server)
        if entry is not None:
            submit(entry)

    def prompt(self, event: GetPrompt) -> None:
        """Get a prompt of a server."""
        found = self._owed(event.session, event.key)
        if found is None:
            return
        session, owed = found
        entry = self._entry(session, owed, event.server)
        if entry is None:
            return
        params = b'{"name":%b' % envelope.quote(event.name)
        params += b',"arguments":%b}' % event.arguments if event.arguments is not None else b"}"
        self._submit(session, owed, entry, "prompts/get", params)

    def _submit(
        self, session: Session, owed: Owed, entry: Entry, method: str, params: bytes
    ) -> None:
        pending = self._pending(session, owed, entry, method, params)
        pending.timeout = entry.call_timeout or self._tables.fx.settings.control_timeout
        self._tables.control_upstream(entry, session.workspace).requests.submit(pending)

    # -- inside ------------------------------------------------------------------------------------

    def _owed(self, ident: SessionId, key: bytes) -> tuple[Session, Owed] | None:
        session = self._tables.sessions.get(ident)
        owed = session.owed.get(key) if session is not None else None
        return None if session is None or owed is None else (session, owed)

    def _entry(self, session: Session, owed: Owed, name: str) -> Entry | None:
        entry = self._tables.entry(name)
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return None
        return entry

    def _pending(
        self,
        session: Session,
        owed: Owed,
        entry: Entry,
        method: str,
        params: bytes,
        tool: str | None = None,
    ) -> Pending:
        def done(
            _: Pending,
            result: Raw | bytes | None,
            error: Raw | bytes | None,
            failure: Failure | None,
        ) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if result is not None:
                self._tables.reply(session, owed, result)
            elif error is not None:
                self._tables.pass_error(session, owed, error)
            elif failure is not None:
                self._tables.refuse(session, owed, failure)

        rule = CLIENT_REQUESTS[method]
        pending = Pending(session.id, rule, params, done, entry=entry, tool=tool)
        pending.kept, pending.key = owed, owed.key
        owed.pending = pending
        return pending

    def _limit(
        self, session: Session, owed: Owed, entry: Entry, tool: str, timeout: float | None
    ) -> None:
        if timeout is None:
            return

        def give_up() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            pending = owed.pending
            meanwhile = ""
            if pending is not None and pending.upstream is not None:
                meanwhile = pending.upstream.meanwhile(pending)
                pending.upstream.expire(pending, envelope.quote(f"timeout of {timeout:g} s"))
            failure = Failure(
                kind="call_timeout",
                message=(
                    f"{entry.name}.{tool} did not answer within {timeout:g} s (timeout){meanwhile}"
                ),
                server=entry.name,
                hint="--timeout S gives it more time",
                details={
                    "limit": "timeout",
                    "seconds": timeout,
                    "outcome_unknown": pending is not None and pending.is_written,
                },
            )
            self._tables.refuse(session, owed, failure)

        owed.timer = self._tables.fx.after(timeout, give_up)


def _sentence(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message

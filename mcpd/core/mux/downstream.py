"""What sessions ask in MCP, and how each request finds its answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.facts import Failure, FrameRejected, SessionOpened
from mcpd.core.mcp import codes, legacy, modern
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS, Method, Route
from mcpd.core.mcp.versions import NEWEST_LEGACY, Era, negotiate
from mcpd.core.mux import bridge, progress
from mcpd.core.mux.asker import Asker
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.listens import Listens
from mcpd.core.mux.parked import Parked
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream, most_verbose
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.ids import SessionId, SlotId

_NO_HINTS: Final = (0, "private")
_KINDS: Final = {kind.value: kind for kind in Kind}
_TOOLS_CALL: Final = CLIENT_REQUESTS["tools/call"]
_NOTHING: Final = Params()
_PROMPT_REF: Final = "ref/prompt"
_TEXTS: Final = ("name", "uri")

CheckArguments = Callable[[Session, Owed, Entry, Upstream, Pending], None]


class Downstream:
    """Routes the requests of sessions; each rule is a few lines that end in an answer."""

    def __init__(
        self, tables: Tables, check: CheckArguments, *, listens: Listens, parked: Parked
    ) -> None:
        self._tables = tables
        self._check = check
        self._listens = listens
        self._parked = parked

    # -- one request -----------------------------------------------------------------------------

    def request(self, session: Session, owed: Owed, method: str, raw: envelope.Bytes) -> None:
        """Answer an MCP request, now or later, exactly once."""
        rule = CLIENT_REQUESTS.get(method)
        if rule is _TOOLS_CALL and raw is not UNSET and self._call_plainly(session, owed, raw):
            return
        params = None if raw is UNSET or (len(raw) == 4 and bytes(raw) == b"null") else raw
        found = _NOTHING
        if params is not None:
            looked = envelope.params_of(params)
            if looked is None:
                self._refuse_plain(session, owed, codes.INVALID_PARAMS, "params must be an object")
                return
            found = looked
            if found.meta is not UNSET:
                try:
                    owed.asker = _asker(session, found.meta)
                except modern.EnvelopeRefused as refusal:
                    error = codes.plain_error(refusal.code, refusal.message, refusal.data)
                    self._tables.pass_error(session, owed, error)
                    return
        if owed.asker is not None:
            session.is_modern = True
            owed.token = session.envelope[2]
            self._request_modern(session, owed, method, rule, params, found)
        else:
            self._request_legacy(session, owed, method, rule, params, found)

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
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
        elif rule.route is Route.DISCOVER:
            self._discover(session, owed)
        elif self._has_required(session, owed, rule, found):
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
            why = f"{method} needs {modern.VERSION_KEY!r} in the _meta of its params"
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, why)
            return
        if rule is None or not rule.is_legacy:
            why = f"unknown method {method!r}"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        if rule.route is Route.PING:
            self._tables.reply(session, owed, b"{}")
            return
        if rule.route is Route.INITIALIZE:
            self._initialize(session, owed, params)
            return
        if session.is_opening:
            session.backlog.append((owed, method, UNSET if params is None else params))
            return
        if session.version is None:
            why = "the session is not initialized: send initialize first"
            self._refuse_plain(session, owed, codes.INVALID_REQUEST, why)
            return
        if not self._has_required(session, owed, rule, found):
            return
        if found.task is not UNSET and params is not None:
            params = Raw(progress.without(params, "task"))  # tasks are not relayed
        self._route(session, owed, rule, params, found)

    def _has_required(self, session: Session, owed: Owed, rule: Method, found: Params) -> bool:
        for name in rule.required:
            value = getattr(found, name)
            if value is UNSET or (len(value) == 4 and bytes(value) == b"null"):
                why = f"{rule.name} needs {_spelling(name)!r} in its params"
                self._refuse_plain(session, owed, codes.INVALID_PARAMS, why)
                return False
        return True

    def _call_plainly(self, session: Session, owed: Owed, raw: Raw) -> bool:
        """Take the usual call, past all that it does not need; tell whether it was one."""
        if session.version is None or session.is_opening:
            return False
        found = envelope.params_of(raw)
        if (
            found is None
            or found.meta is not UNSET
            or found.task is not UNSET
            or found.name is UNSET
        ):
            return False
        self._call(session, owed, _TOOLS_CALL, raw, found)
        return True

    def _route(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        match rule.route:
            case Route.TOOL:
                self._call(session, owed, rule, params, found)
            case Route.LIST:
                self._list(session, owed, rule, found)
            case Route.PROMPT:
                self._prompt(session, owed, rule, params, found)
            case Route.READ:
                self._read(session, owed, rule, params, found)
            case Route.REFERENCE:
                self._complete(session, owed, rule, params, found)
            case Route.LEVEL:
                self._set_level(session, owed, found)
            case Route.SUBSCRIBE | Route.UNSUBSCRIBE:
                self._subscribe(session, owed, rule, found)
            case Route.LISTEN if params is not None:
                self._listens.open(session, owed, params, self.by_uri)
            case Route.TASK:
                self._task(session, owed, rule, params, found)

    def _refuse_plain(self, session: Session, owed: Owed, code: int, why: str) -> None:
        self._tables.fx.tell(FrameRejected(session.id, why))
        kind = {
            codes.METHOD_NOT_FOUND: "unknown_method",
            codes.INVALID_PARAMS: "invalid_params",
        }.get(code, "invalid_message")
        self._tables.refuse(session, owed, Failure(kind, why), code)

    # -- the handshake ---------------------------------------------------------------------------

    def _initialize(self, session: Session, owed: Owed, params: Raw | None) -> None:
        if not session.is_session:
            self.open(session)
        asked = envelope.object_of(params) if params is not None else None
        asked = asked or {}
        version = envelope.text(asked.get("protocolVersion", UNSET))
        capabilities = envelope.object_of(asked.get("capabilities", Raw(b"{}"))) or {}
        session.asker = bridge.asker_of(capabilities, asked.get("clientInfo"))
        if session.server is None:
            self._initialize_aggregate(session, owed, version)
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            self._tables.refuse(session, owed, entry)
            return
        known = self._tables.introduction_of(session.server)
        if known is not None:
            self._introduce(session, owed, version, known)
            return
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return
        upstream = self._tables.upstream_for(session, entry)

        def ready(failure: Failure | None) -> None:
            is_owed = session.owed.get(owed.key) is owed
            if failure is not None and is_owed and self._tables.has_left(upstream):
                session.is_opening = False
                self._initialize(session, owed, params)
                if not session.is_opening:
                    self._catch_up(session, failure)
                return
            if failure is not None and is_owed:
                self._tables.refuse(session, owed, failure)
            elif upstream.introduction is not None and is_owed:
                self._introduce(session, owed, version, upstream.introduction)
            self._catch_up(session, failure)

        session.is_opening = True
        upstream.requests.when_ready(ready)

    def _catch_up(self, session: Session, failure: Failure | None) -> None:
        """Take what a client sent while its ``initialize`` waited; without one it fails alike."""
        session.is_opening = False
        session.is_initialized = session.said_initialized and session.version is not None
        backlog, session.backlog = session.backlog, []
        for owed, method, raw in backlog:
            if session.owed.get(owed.key) is not owed:
                continue  # cancelled meanwhile
            if failure is not None and session.version is None:
                self._tables.refuse(session, owed, failure)
            else:
                self.request(session, owed, method, raw)

    def _introduce(
        self, session: Session, owed: Owed, asked: str | None, known: Introduction
    ) -> None:
        session.version = negotiate(asked, known.version)
        shown = legacy.capabilities_shown(known)
        self._tables.reply(
            session,
            owed,
            legacy.initialize_result(session.version, shown, known.info, known.instructions),
        )

    def _initialize_aggregate(self, session: Session, owed: Owed, asked: str | None) -> None:
        tables = self._tables
        session.version = negotiate(asked, NEWEST_LEGACY)
        info, text = self._aggregate_info(), self._aggregate_instructions()
        shown = legacy.AGGREGATE_CAPABILITIES
        result = legacy.initialize_result(session.version, shown, info, text)
        tables.reply(session, owed, result)

    def _discover(self, session: Session, owed: Owed) -> None:
        tables = self._tables
        if session.server is None:
            info, text = self._aggregate_info(), self._aggregate_instructions()
            shown = legacy.AGGREGATE_CAPABILITIES
            tables.reply(session, owed, modern.discover_result(shown, info, text))
            return
        entry = tables.entry(session.server)
        if isinstance(entry, Failure) and entry.kind != "server_stopped":
            tables.refuse(session, owed, entry)
            return
        known = tables.introduction_of(session.server)
        if known is not None:
            shown = modern.capabilities_shown(known)
            result = modern.discover_result(shown, known.info, known.instructions)
            tables.reply(session, owed, result)
            return
        if isinstance(entry, Failure):
            tables.refuse(session, owed, entry)
            return
        upstream = tables.upstream_for(session, entry)

        def ready(failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if failure is None or tables.has_left(upstream):
                self._discover(session, owed)
            else:
                tables.refuse(session, owed, failure)

        upstream.requests.when_ready(ready)

    def _aggregate_info(self) -> bytes:
        return msgspec.json.encode({"name": "mcpd", "version": self._tables.fx.settings.version})

    def _aggregate_instructions(self) -> bytes | None:
        tables = self._tables
        known: dict[str, bytes | None] = {}
        for server in tables.aggregate.servers():
            introduction = tables.introduction_of(server)
            known[server] = None if introduction is None else introduction.instructions
        return tables.aggregate.instructions(known)

    def open(self, session: Session) -> None:
        """The connection is a session from now on."""
        session.is_session = True
        self._tables.fx.tell(SessionOpened(session.id, session.server, session.client))

    # -- lists -----------------------------------------------------------------------------------

    def _list(self, session: Session, owed: Owed, rule: Method, found: Params) -> None:
        kind = _KINDS[rule.kind or ""]
        if found.cursor is not UNSET and bytes(found.cursor) != b"null":
            why = "there are no further pages: the first is the whole list"
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            self.gather(
                session,
                (kind,),
                lambda: self._reply_aggregate_list(session, owed, kind),
            )
            return
        entry = self._tables.entries.get(session.server)
        usable = self._tables.entry(session.server)
        if entry is None or (isinstance(usable, Failure) and usable.kind != "server_stopped"):
            failure = usable if isinstance(usable, Failure) else None
            self._tables.refuse(session, owed, failure or self._tables.not_found(session.server))
            return
        if not self._has(session.server, kind.capability):
            why = f"{session.server} has no {kind.capability}"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        current = session.upstreams.get(session.server)
        known = current.catalog.get(kind) if current is not None else None
        known = known or self._tables.catalog_of(session.server).get(kind)
        if known is not None:
            self._reply_list(session, owed, entry, kind, known)
            return
        if isinstance(usable, Failure):
            self._tables.refuse(session, owed, usable)
            return

        def listed(listing: Listing | None, failure: Failure | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if listing is not None:
                self._reply_list(session, owed, entry, kind, listing)
            elif failure is not None and self._tables.has_left(upstream):
                self._list(session, owed, rule, found)
            elif failure is not None:
                self._tables.refuse(session, owed, failure)

        upstream = self._tables.upstream_for(session, usable)
        upstream.lists.listing(kind, listed)

    def _reply_list(
        self, session: Session, owed: Owed, entry: Entry, kind: Kind, listing: Listing
    ) -> None:
        shown = entry.filter.apply(listing) if kind is Kind.TOOLS else listing
        page = shown.page()
        if owed.asker is not None:
            known = self._tables.introduction_of(entry.name)
            info = known.info if known is not None else envelope.object_from({})
            page = modern.list_page(page, info, *self._hints(session, entry.name, kind))
        self._tables.reply(session, owed, page)

    def _reply_aggregate_list(self, session: Session, owed: Owed, kind: Kind) -> None:
        if session.owed.get(owed.key) is not owed:
            return
        page = self._tables.aggregate.page(kind)
        if owed.asker is not None:
            servers = self._tables.aggregate.servers()
            hints = [self._hints(session, server, kind) for server in servers] or [_NO_HINTS]
            ttl_ms = min(ttl for ttl, _ in hints)
            is_private = any(scope == "private" for _, scope in hints)
            scope = "private" if is_private else "public"
            page = modern.list_page(page, self._aggregate_info(), ttl_ms, scope)
        self._tables.reply(session, owed, page)

    def _hints(self, session: Session, server: str, kind: Kind) -> tuple[int, str]:
        """Return for how many milliseconds a list may be kept, and by whom."""
        entry = self._tables.entries[server]
        upstream = session.upstreams.get(server)
        upstream = upstream or self._tables.upstreams.get(SlotId(entry.launch))
        return _NO_HINTS if upstream is None else upstream.hints(kind)

    def gather(
        self,
        session: Session,
        kinds: Iterable[Kind],
        then: Callable[[], None],
        servers: Iterable[str] | None = None,
        failures: list[Failure] | None = None,
    ) -> None:
        """Wait, a while at most, until every server of the aggregate has listed some kinds.

        With ``servers`` only these are waited for, until each has started or failed to; why is
        put into ``failures``.
        """
        tables = self._tables
        missing: set[tuple[str, Kind]] = set()
        is_done = False

        def finish() -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                if timer is not None:
                    timer.cancel()
                then()

        wait = tables.fx.settings.list_wait
        timer = tables.fx.after(wait, finish) if servers is None else None
        is_asked = False
        names = tables.aggregate.servers() if servers is None else servers
        for part in itertools.product(names, kinds):
            server, kind = part
            entry = self._unlisted(server, kind)
            if entry is None:
                continue
            missing.add(part)
            upstream = session.upstreams.get(server) or tables.control_upstream(entry)

            def arrived(
                listing: Listing | None,
                failure: Failure | None,
                part: tuple[str, Kind] = part,
            ) -> None:
                if listing is not None:
                    tables.aggregate.forget(*part)
                if failure is not None and failures is not None:
                    failures.append(failure)
                missing.discard(part)
                if not missing and is_asked:
                    finish()

            upstream.lists.listing(kind, arrived)
        is_asked = True
        if not missing:
            finish()

    def _unlisted(self, server: str, kind: Kind) -> Entry | None:
        """Return the entry of a server that may list something, and has not done it yet."""
        entry = self._tables.entry(server)
        if isinstance(entry, Failure) or self._tables.catalog_of(server).get(kind) is not None:
            return None
        return entry if self._has(server, kind.capability) else None

    def _has(self, server: str, capability: str, member: str | None = None) -> bool:
        known = self._tables.introduction_of(server)
        return known is None or known.has(capability, member)

    # -- requests that a server answers -----------------------------------------------------------

    def _call(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        name = envelope.text(found.name)
        if name is None:
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, "name must be a string")
            return
        if session.server is not None:
            entry = self._tables.entry(session.server)
            if isinstance(entry, Failure):
                self._tables.refuse(session, owed, entry)
                return
            if not entry.filter.admits(name):
                self._tables.refuse(session, owed, self.tool_not_found(entry.name, name))
                return
            self._forward(session, owed, entry, rule, params, found, tool=name)
            return
        self._by_name(session, owed, rule, params, found, Kind.TOOLS, name)

    def _prompt(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        if session.server is not None:
            self._forward_own(session, owed, rule, params, found)
            return
        name = envelope.text(found.name)
        if name is None:
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, "name must be a string")
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
        route = tables.aggregate.route(kind, qualified)
        if route is not None and params is not None:
            server, name = route
            entry = tables.entry(server)
            if isinstance(entry, Failure):
                tables.refuse(session, owed, entry)
                return
            own = Raw(progress.with_member(params, "name", envelope.quote(name)))
            tool = name if kind is Kind.TOOLS else None
            self._forward(session, owed, entry, rule, own, found, tool=tool)
            return
        if failures is None:
            candidates = tables.aggregate.unlisted_candidates(kind, qualified)
            failed: list[Failure] = []

            def again() -> None:
                if session.owed.get(owed.key) is owed:
                    self._by_name(
                        session, owed, rule, params, found, kind, qualified, failures=failed
                    )

            self.gather(session, (kind,), again, candidates, failed)
            return
        if failures:
            tables.refuse(session, owed, failures[0])
            return
        near = tables.fx.suggest(qualified, tables.aggregate.names(kind))
        tables.refuse(session, owed, _not_found(None, qualified, near, kind))

    def _read(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        if session.server is not None:
            self._forward_own(session, owed, rule, params, found)
            return
        self.by_uri(
            session,
            owed,
            envelope.text(found.uri),
            lambda entry: self._forward(session, owed, entry, rule, params, found),
        )

    def by_uri(
        self,
        session: Session,
        owed: Owed,
        uri: str | None,
        then: Callable[[Entry], None],
        *,
        template: bool = False,
    ) -> None:
        """Find the server a resource URI belongs to; the lists are read first where unknown."""
        if uri is None:
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, "uri must be a string")
            return
        tables = self._tables

        def find() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            aggregate = tables.aggregate
            server = aggregate.template_owner(uri) if template else aggregate.owner(uri)
            if server is None:
                asked = ", ".join(aggregate.servers()) or "none"
                why = f"Resource not found: {uri} (servers asked: {asked})"
                data = {"uri": uri, "servers": aggregate.servers()}
                is_modern = owed.asker is not None
                code = codes.INVALID_PARAMS if is_modern else codes.RESOURCE_NOT_FOUND
                error = codes.plain_error(code, why, data)
                tables.pass_error(session, owed, error)
                return
            entry = tables.entry(server)
            if isinstance(entry, Failure):
                tables.refuse(session, owed, entry)
            else:
                then(entry)

        if not template and self._is_owned(uri):
            find()
            return
        self.gather(session, (Kind.RESOURCES, Kind.TEMPLATES), find)

    def _is_owned(self, uri: str) -> bool:
        """Tell whether a server lists this, and none before it could still do so."""
        for server in self._tables.aggregate.servers():
            known = self._tables.catalog_of(server).get(Kind.RESOURCES)
            if known is not None and known.get(uri) is not None:
                return True
            if self._unlisted(server, Kind.RESOURCES) is not None:
                return False
        return False

    def _complete(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        if session.server is not None or params is None:
            self._forward_own(session, owed, rule, params, found)
            return
        ref = envelope.object_of(found.ref) if found.ref is not UNSET else None
        ref = ref or {}
        if envelope.text(ref.get("type", UNSET)) != _PROMPT_REF:
            self.by_uri(
                session,
                owed,
                envelope.text(ref.get("uri", UNSET)),
                lambda entry: self._forward(session, owed, entry, rule, params, found),
                template=True,
            )
            return
        qualified = envelope.text(ref.get("name", UNSET)) or ""

        def routed() -> None:
            if session.owed.get(owed.key) is not owed:
                return
            route = self._tables.aggregate.route(Kind.PROMPTS, qualified)
            if route is None:
                near = self._tables.fx.suggest(
                    qualified, self._tables.aggregate.names(Kind.PROMPTS)
                )
                self._tables.refuse(session, owed, _not_found(None, qualified, near, Kind.PROMPTS))
                return
            entry = self._tables.entry(route[0])
            if isinstance(entry, Failure):
                self._tables.refuse(session, owed, entry)
                return
            own = progress.with_member(found.ref, "name", envelope.quote(route[1]))  # type: ignore[arg-type]
            renamed = Raw(progress.with_member(params, "ref", own))
            self._forward(session, owed, entry, rule, renamed, found)

        self.gather(session, (Kind.PROMPTS,), routed)

    def _forward_own(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        entry = self._tables.entry(session.server or "")
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return
        if rule.capability is not None and not self._has(entry.name, rule.capability):
            why = f"{entry.name} has no {rule.capability}"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        for name in rule.required:
            if name in _TEXTS and envelope.text(getattr(found, name)) is None:
                self._refuse_plain(session, owed, codes.INVALID_PARAMS, f"{name} must be a string")
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
            if session.server is None:
                asker = _without_tasks(asker)
        else:
            asker = session.asker
            if found.meta is not UNSET:
                token = _token(found.meta)
        upstream = tables.upstream_for(session, entry)
        if (
            owed.asker is not None
            and params is not None
            and (found.state is not UNSET or found.answers is not UNSET)
            and self._parked.retry(session, owed, upstream, rule, params, token)
        ):
            return
        done = tables.outcome(session, owed)
        pending = Pending(session.id, rule, params, done, entry=entry, token=token, tool=tool)
        pending.asker = asker
        pending.is_asking = rule.is_input_capable and bool(asker.answers)
        if token is not None:
            is_modern = owed.asker is not None
            pending.on_progress = self._progress_to(session, token, is_modern=is_modern)
        owed.pending = pending
        if tool is not None and entry.validates:
            self._check(session, owed, entry, upstream, pending)
        elif asker.level is not None and asker.era is Era.MODERN:
            self._with_level(session, owed, upstream, pending)
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
        self, session: Session, owed: Owed, upstream: Upstream, pending: Pending
    ) -> None:
        """Have a legacy process log as much as a modern request wants, before it is sent."""

        def submit(_: object) -> None:
            if session.owed.get(owed.key) is owed:
                upstream.requests.submit(pending)

        def ready(failure: Failure | None) -> None:
            if failure is None and upstream.requests.era is Era.LEGACY:
                self.apply_levels(upstream, submit)
            else:
                submit(failure)

        upstream.requests.when_ready(ready)

    def _task(
        self, session: Session, owed: Owed, rule: Method, params: Raw | None, found: Params
    ) -> None:
        """Pass on what belongs to the tasks extension, where the server has it."""
        known = None if session.server is None else self._tables.introduction_of(session.server)
        if known is None or not modern.has_tasks(known):
            why = f"{session.server or 'the aggregate'} has no tasks"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        self._forward_own(session, owed, rule, params, found)

    def roots_changed(self, session: Session) -> None:
        """A client has other roots: a process of its own that asks for them is told."""
        for name, upstream in session.upstreams.items():
            entry = self._tables.entries.get(name)
            if entry is not None and entry.asks_for_roots and upstream.is_ready:
                upstream.notify(b'"notifications/roots/list_changed"')

    def tool_not_found(self, server: str, name: str) -> Failure:
        """Say that a server has no such tool, or that it is hidden, and what is like it."""
        listing = self._tables.catalog_of(server).get(Kind.TOOLS)
        shown = self._tables.entries[server].filter
        known = [i.identity for i in listing.items if shown.admits(i.identity)] if listing else []
        return _not_found(server, name, self._tables.fx.suggest(name, known), Kind.TOOLS)

    # -- levels and subscriptions ------------------------------------------------------------------

    def _set_level(self, session: Session, owed: Owed, found: Params) -> None:
        level = envelope.text(found.level)
        if level not in LEVELS:
            why = f"level must be one of {', '.join(LEVELS)}"
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            session.level = level
            session.asker = msgspec.structs.replace(session.asker, level=level)
            for upstream in session.upstreams.values():
                self.apply_levels(upstream)
            self._tables.reply(session, owed, b"{}")
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return
        if not self._has(entry.name, "logging"):
            why = f"{entry.name} has no logging"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        before, session.level = session.level, level
        session.asker = msgspec.structs.replace(session.asker, level=level)

        def applied(error: Raw | bytes | None) -> None:
            if session.owed.get(owed.key) is not owed:
                return
            if error is not None:
                session.level = before
                session.asker = msgspec.structs.replace(session.asker, level=before)
                self._tables.pass_error(session, owed, error)
            else:
                self._tables.reply(session, owed, b"{}")

        self.apply_levels(self._tables.upstream_for(session, entry), applied)

    def apply_levels(
        self, upstream: Upstream, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set a process to the most verbose level that any of its sessions wants."""
        sessions = (
            self._tables.sessions.get(SessionId(ident)) for ident in upstream.requests.users
        )
        wanted = most_verbose([level for s in sessions if s is not None for level in s.levels()])
        known = upstream.introduction
        if wanted is None or (known is not None and not known.has("logging")):
            if then is not None:
                then(None)
            return
        upstream.set_level(wanted, then)

    def _subscribe(self, session: Session, owed: Owed, rule: Method, found: Params) -> None:
        uri = envelope.text(found.uri)
        if uri is None:
            self._refuse_plain(session, owed, codes.INVALID_PARAMS, "uri must be a string")
            return
        if rule.route is Route.UNSUBSCRIBE:
            server = session.subscribed.pop(uri, None)
            upstream = session.upstreams.get(server or "")
            if upstream is not None:
                upstream.subscriptions.remove(uri, session.id, is_up=upstream.is_ready)
            self._tables.reply(session, owed, b"{}")
            return
        if session.server is None:
            self.by_uri(
                session, owed, uri, lambda entry: self._subscribe_at(session, owed, entry, uri)
            )
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
        elif not self._has(entry.name, "resources", "subscribe"):
            why = f"{entry.name} has no subscriptions to resources"
            self._refuse_plain(session, owed, codes.METHOD_NOT_FOUND, why)
        else:
            self._subscribe_at(session, owed, entry, uri)

    def _subscribe_at(self, session: Session, owed: Owed, entry: Entry, uri: str) -> None:
        upstream = self._tables.upstream_for(session, entry)

        def subscribed(error: Raw | bytes | None, failure: Failure | None) -> None:
            if error is not None or failure is not None:
                session.subscribed.pop(uri, None)
            if session.owed.get(owed.key) is not owed:
                return
            if error is not None:
                self._tables.pass_error(session, owed, error)
            elif failure is not None:
                self._tables.refuse(session, owed, failure)
            else:
                self._tables.reply(session, owed, b"{}")

        session.subscribed[uri] = entry.name
        upstream.subscriptions.add(uri, session.id, subscribed, is_up=upstream.is_ready)
        if not upstream.is_ready:
            upstream.requests.when_ready(lambda failure: None)


def _not_found(server: str | None, name: str, near: list[str], kind: Kind) -> Failure:
    what = "tool" if kind is Kind.TOOLS else "prompt"
    where = f"{server} has no {what}" if server is not None else f"there is no {what}"
    hint = f"did you mean {' or '.join(near)}?" if near else None
    if hint is None and server is not None:
        hint = f"mcpctl {what}s {server}"
    return Failure("tool_not_found", f"{where} {name!r}", server, False, hint, {"near": near})


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
        session.envelope = (raw, asker, _token(meta))
    return asker


def _token(meta: Raw) -> bytes | None:
    raw = (envelope.object_of(meta) or {}).get("progressToken")
    if raw is None or bytes(raw) == b"null":
        return None
    return bytes(raw)  # whatever it is: upstream it could be taken for one of ours


def _without_tasks(asker: Asker) -> Asker:
    """Return who asks through the aggregate, where a task could not be found again."""
    if modern.TASKS.encode() not in asker.capabilities:
        return asker
    members = envelope.object_of(asker.capabilities) or {}
    extensions = envelope.object_of(members.get("extensions", Raw(b"{}"))) or {}
    extensions.pop(modern.TASKS, None)
    members["extensions"] = Raw(envelope.object_from(extensions))
    return msgspec.structs.replace(asker, capabilities=envelope.object_from(members))


def _spelling(field: str) -> str:
    return "taskId" if field == "task_id" else field

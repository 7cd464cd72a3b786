"""Records calls and events in the audit, where the configuration asks for one.

What is an event on the socket and in ``RECORDED`` is recorded by being one. Other parts record with
``AuditKeeper.event``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpd.api import results
from mcpd.api.requests import AuditParams
from mcpd.core.facts import CallEnded, Failure, QuestionAnswered, QuestionAsked
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.daemon.notices import Notices
from mcpd.daemon.servers.registry import Registry
from mcpd.observe.journal import Event, Journal
from mcpd.visible import encodable

if TYPE_CHECKING:
    from mcpd.audit.settings import Settings
    from mcpd.audit.writer import Writer

RECORDED: Final = frozenset({
    "approval", "budget", "config", "inspect", "limit", "pin", "profile", "project", "result",
    "rule", "sanitised", "secret", "session", "token",
})  # fmt: skip
"""The first words of the events of ``mcpd/events`` that are recorded."""

REQUIRED_S: Final = 5.0
"""Seconds without a row written after which ``audit_required`` refuses calls."""

TOLD_EVERY_S: Final = 60.0
"""Seconds between two log lines about an audit that cannot be written."""

FLUSH_S: Final = 2.0
"""Seconds that a reader waits for the rows that were not written yet."""

_SUBJECTS: Final = ("id", "rule", "tool", "token", "name", "session")
"""The members of an event that say what it is about, the most exact first."""

_PLACES: Final = frozenset({"seq", "time", "event", "server", "principal"})
"""Members that have columns of their own."""

_REFUSAL: Final = Failure(
    kind="denied",
    message="calls are refused while they cannot be recorded (audit_required): say so to your user",
    hint="mcpctl doctor says why the audit cannot be written",
    details={"reason": "audit"},
)


class AuditKeeper:
    """Begins and ends the audit as the configuration says, and stops calls that need one."""

    def __init__(
        self,
        state_dir: str,
        *,
        dispatcher: Dispatcher,
        registry: Registry,
        notices: Notices,
        journal: Journal,
    ) -> None:
        self._state_dir = state_dir
        self._dispatcher = dispatcher
        self._mux = dispatcher.mux
        self._registry = registry
        self._notices = notices
        self._journal = journal
        self._writer: Writer | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._trouble: str | None = None
        self._trouble_s = 0.0
        self._told_at: float | None = None
        self._gaps = [0, 0]

    @property
    def problems(self) -> list[str]:
        """What is wrong with the audit, a sentence each."""
        found = []
        if self._trouble is not None:
            what = "calls are refused" if self._mux.context.suspension else "calls go on"
            found.append(f"the audit is not written: {self._trouble}; {what}")
        rows, hashes = self._gaps
        if rows or hashes:
            found.append(
                f"the audit has a gap: {rows} rows, and the hashes of {hashes} calls, are missing"
            )
        return found

    def apply(self) -> None:
        """Do what the configuration says."""
        trust = self._registry.loaded.trust
        if not trust.audit:
            self._end()
            return
        if self._writer is None:
            self._begin()
        else:
            self._writer.settings = self._settings()
        self._decide()

    def event(
        self,
        what: str,
        *,
        principal: str | None = None,
        server: str | None = None,
        subject: str | None = None,
        files: Sequence[str] = (),
        **detail: object,
    ) -> None:
        """Record that something happened which is no event on the socket.

        Values of the configuration are masked in ``detail``. ``files`` are paths, whose hashes are
        recorded with them. Does nothing where there is no audit.
        """
        if self._writer is not None:
            self._writer.add_event(
                what,
                principal=principal,
                server=server,
                subject=subject,
                detail=self._masked(detail),
                files=files,
            )

    def asked(self, fact: QuestionAsked | QuestionAnswered) -> None:
        """Record that a client is asked something for a server, or that this is over."""
        if isinstance(fact, QuestionAsked):
            more = {}
            what = "question.asked"
        else:
            more = {"outcome": fact.outcome}
            what = "question.answered"
        self.event(what, server=fact.server, subject=fact.method, session=int(fact.session), **more)

    async def calls(self, params: AuditParams) -> results.Audit | Failure:
        """Return calls that were recorded, up to those that have just ended."""
        written = None if self._writer is None else self._writer.flush()
        return await asyncio.to_thread(self._read, written, params)

    async def close(self) -> None:
        """Write what waits, and close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.close)

    # -- inside ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        from mcpd.audit.settings import Reports  # where there is no audit nothing is imported
        from mcpd.audit.writer import Writer

        loop = asyncio.get_running_loop()

        def on_loop(report: Callable[..., None]) -> Callable[..., None]:
            def tell(*args: Any) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(report, *args)

            return tell

        reports = Reports(on_loop(self._troubled), on_loop(self._gap), on_loop(self._set_aside))
        self._writer = Writer(self._state_dir, self._settings(), reports)
        self._dispatcher.route({CallEnded: self._writer.add_call})
        self._mux.context.tells_calls = True
        self._stop_listening = self._journal.listen(self._heard)

    def _end(self) -> None:
        self._mux.context.tells_calls = False
        writer, self._writer = self._writer, None
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if writer is not None:
            writer.end()
        self._trouble, self._trouble_s, self._gaps = None, 0.0, [0, 0]
        self._decide()

    def _read(
        self, written: threading.Event | None, params: AuditParams
    ) -> results.Audit | Failure:
        if written is not None:
            written.wait(FLUSH_S)
        if not params.lines:
            return {"calls": []}
        from mcpd.audit.reader import Filter, Reader
        from mcpd.audit.schema import AuditError, NoAudit

        wanted = Filter(
            params.since,
            params.server,
            params.tool,
            params.client,
            params.token,
            params.outcome,
            None if params.slow is None else round(params.slow * 1000),
        )
        try:
            reader = Reader(self._state_dir)
            try:
                return {"calls": reader.newest(wanted, params.lines)}
            finally:
                reader.close()
        except NoAudit:
            return {"calls": []}
        except AuditError as error:
            return Failure(error.slug, error.message, hint="mcpctl doctor")

    def _settings(self) -> Settings:
        from mcpd.audit.settings import Settings

        trust, recorded = self._registry.loaded.trust, {}
        for server in self._registry:
            config = server.configured.config
            if config is not None and config.policy.record != "none":
                from mcpd.audit.payloads import Recorded

                recorded[server.name] = Recorded(config.policy.record, server.entry.redactor)
        return Settings(trust.audit_days, trust.audit_max, recorded)

    def _heard(self, event: Event) -> None:
        name: str = event["event"]
        if name.partition(".")[0] not in RECORDED or self._writer is None:
            return
        subject = next((event[each] for each in _SUBJECTS if each in event), None)
        is_reload = name == "config.reloaded"
        self.event(
            name,
            principal=event.get("principal"),
            server=event.get("server"),
            subject=None if subject is None else str(subject),
            files=self._registry.loaded.found if is_reload else (),
            **{member: value for member, value in event.items() if member not in _PLACES},
        )

    def _masked(self, detail: dict[str, object]) -> dict[str, Any]:
        text = msgspec.json.encode(encodable(detail), enc_hook=str)
        masked: dict[str, Any] = msgspec.json.decode(self._registry.redactor(None).mask_bytes(text))
        return masked

    def _troubled(self, why: str | None, seconds: float) -> None:
        """Take from the thread why nothing is written, and since when."""
        if self._writer is None:
            return
        was = self._trouble
        self._trouble, self._trouble_s = why, seconds
        self._decide()
        if why is None:
            if was is not None:
                self._told_at = None
                self._notices.audit_resumed()
            return
        now = asyncio.get_running_loop().time()
        if self._told_at is None or now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            self._notices.audit_trouble(why, is_required=self._registry.loaded.trust.audit_required)

    def _decide(self) -> None:
        """Refuse calls, or let them pass again."""
        is_late = self._trouble is not None and self._trouble_s >= REQUIRED_S
        is_required = self._writer is not None and self._registry.loaded.trust.audit_required
        self._mux.context.suspension = _REFUSAL if is_late and is_required else None

    def _gap(self, rows: int, hashes: int) -> None:
        self._gaps[0] += rows
        self._gaps[1] += hashes
        self._notices.audit_gap(rows, hashes)
        self._journal.add("audit.gap", rows=rows, hashes=hashes)

    def _set_aside(self, path: str, why: str) -> None:
        self._notices.audit_set_aside(path, why)

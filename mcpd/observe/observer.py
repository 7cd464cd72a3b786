"""Turns facts into log lines, events and notes in a server's log; the one place for their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from mcpd.config.problems import printable
from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Logger

_SHOWN = 10  # definitions in one line of the log

Note = Callable[[str, str, str], None]
"""Takes a server's name, a source and a text."""

Mask = Callable[[str | None, str], str]
"""Takes a server's name and a text about it; returns the text without the server's secrets.

Without a name, the secrets of all servers are hidden.
"""


_KINDS = {
    "ServerNoise": "lines on its stdout that are no messages",
    "ServerWarning": "warnings",
    "ServerLogged": "log messages",
    "FrameRejected": "messages that were answered with an error",
}
"""Kinds of facts that are counted instead of reported when too many come within a second."""


class Observer:
    """Reports every fact; decides on names and levels, and on nothing else."""

    def __init__(self, log: Logger, journal: Journal, note: Note, mask: Mask) -> None:
        """``note`` writes into the log of a server, which hides secrets by itself."""
        self._log = log
        self._event = journal.add
        self._note = note
        self._mask = mask

    def report(self, fact: Fact) -> None:
        """Report a fact."""
        match fact:
            case (
                facts.SessionOpened()
                | facts.SessionNamed()
                | facts.SessionClosed()
                | facts.FrameRejected()
            ):
                self._report_session(fact)
            case (
                facts.ServerNoise()
                | facts.ServerWarning()
                | facts.ServerLogged()
                | facts.CatalogChanged()
            ):
                self._report_said(fact)
            case (
                facts.DefinitionsPinned()
                | facts.DefinitionsChanged()
                | facts.DefinitionsAccepted()
                | facts.DefinitionVolatile()
                | facts.DefinitionsFound()
                | facts.DefinitionsSanitised()
                | facts.ResultFlagged()
            ):
                self._report_definitions(fact)
            case facts.FactsOmitted():
                self._report_omitted(fact)
            case facts.SignedIn():
                self._report_sign_in(fact)
            case facts.SecretUnavailable():
                self._report_secret(fact)
            case facts.ServerOverMemory():
                self._report_memory(fact)
            case facts.BudgetUsedUp():
                of = {"server": fact.server, "limit": fact.limit, "most": fact.most}
                self._log.warning("budget.used_up", **of)
                self._event("budget.used_up", **of)
            case facts.StrayEnded():
                self._log.warning("stray.ended", pid=fact.pid)
            case (
                facts.ApprovalAsked()
                | facts.ApprovalAnswered()
                | facts.ApprovalOver()
                | facts.ClientDeclines()
            ):
                self._report_approval(fact)
            case facts.RuleRemembered() | facts.RuleForgotten() | facts.RuleLapsed():
                self._report_rule(fact)
            case facts.RuleUsed() | facts.QuestionAsked() | facts.QuestionAnswered():
                pass  # for the audit, or to be counted, alone
            case _:
                self._report_lifecycle(fact)

    def _report_session(
        self,
        fact: facts.SessionOpened | facts.SessionNamed | facts.SessionClosed | facts.FrameRejected,
    ) -> None:
        match fact:
            case facts.SessionOpened():
                of = {"session": fact.session, "server": fact.server, "client": fact.client}
                self._log.debug("session.opened", **of)
                self._event("session.opened", **of, principal=fact.principal)
            case facts.SessionNamed():
                of = {"session": fact.session, "server": fact.server, "client": fact.client}
                self._log.debug("session.named", **of)
                self._event("session.named", **of)
            case facts.SessionClosed():
                of = {"session": fact.session, "server": fact.server, "client": fact.client}
                self._log.debug("session.closed", **of, reason=fact.reason)
                self._event("session.closed", **of, reason=fact.reason, principal=fact.principal)
            case facts.FrameRejected():
                reason = self._mask(None, fact.reason)
                of = {"session": fact.session, "client": fact.client}
                self._log.debug("frame.rejected", **of, reason=reason)
            case _:
                assert_never(fact)

    def _report_said(
        self,
        fact: facts.ServerNoise | facts.ServerWarning | facts.ServerLogged | facts.CatalogChanged,
    ) -> None:
        """Report what a server wrote, and that it lists something else."""
        match fact:
            case facts.ServerNoise():
                self._note(fact.server, "stdout", fact.text)
                if fact.is_first:
                    self._log.warning("server.noise", server=fact.server, reason=fact.reason)
                    self._note(
                        fact.server, "mcpd", f"its stdout holds more than MCP: {fact.reason}"
                    )
                    text = self._mask(fact.server, fact.text)
                    self._event("server.noise", server=fact.server, reason=fact.reason, text=text)
            case facts.ServerWarning():
                text = self._mask(fact.server, fact.text)
                self._log.warning("server.warning", server=fact.server, text=text)
                self._note(fact.server, "mcpd", text)
                self._event("server.warning", server=fact.server, text=text)
            case facts.ServerLogged():
                self._note(fact.server, "mcpd", f"log message, {fact.level}: {fact.text}")
            case facts.CatalogChanged():
                kind, count = fact.kind, fact.count
                self._log.debug(
                    "server.catalog_changed", server=fact.server, kind=kind, count=count
                )
                self._event("server.catalog_changed", server=fact.server, kind=kind, count=count)
            case _:
                assert_never(fact)

    def _report_definitions(
        self,
        fact: facts.DefinitionsPinned
        | facts.DefinitionsChanged
        | facts.DefinitionsAccepted
        | facts.DefinitionVolatile
        | facts.DefinitionsFound
        | facts.DefinitionsSanitised
        | facts.ResultFlagged,
    ) -> None:
        server = fact.server
        log = self._log.bind(server=server)
        match fact:
            case facts.DefinitionsPinned():
                kind, count, after = fact.kind, fact.count, fact.after
                log.info("pin.baseline", kind=kind, count=count, after_edit=after)
                self._event("pin.baseline", server=server, kind=kind, count=count, after=after)
            case facts.DefinitionsChanged() | facts.DefinitionsAccepted():
                is_change = isinstance(fact, facts.DefinitionsChanged)
                name = "pin.changed" if is_change else "pin.accepted"
                items = [msgspec.to_builtins(each) for each in fact.items]
                (log.warning if is_change else log.info)(name, items=_named(items, "state"))
                self._note(server, "mcpd", f"{name}: {_named(items, 'state')}")
                self._event(name, server=server, items=items)
            case facts.DefinitionVolatile():
                log.warning("pin.volatile", kind=fact.kind, name=fact.name)
                self._event("pin.volatile", server=server, kind=fact.kind, name=fact.name)
            case facts.DefinitionsFound():
                found = list(fact.findings)
                log.warning("inspect.finding", findings=_named(found, "class"))
                self._event("inspect.finding", server=server, findings=found)
            case facts.DefinitionsSanitised():
                removed = list(fact.notices)
                log.warning("sanitised", removed=_named(removed, "class"))
                self._event("sanitised", server=server, removed=removed)
            case facts.ResultFlagged():
                classes, is_clean = list(fact.classes), fact.is_clean
                name = "sanitised" if is_clean else "result.flagged"
                log.warning("result.flagged", tool=fact.tool, classes=classes, cleaned=is_clean)
                self._event(name, server=server, tool=fact.tool, classes=classes)
            case _:
                assert_never(fact)

    def _report_approval(
        self,
        fact: facts.ApprovalAsked
        | facts.ApprovalAnswered
        | facts.ApprovalOver
        | facts.ClientDeclines,
    ) -> None:
        if isinstance(fact, facts.ClientDeclines):
            client = self._mask(None, fact.client)
            self._log.warning("approval.client_declines", session=fact.session, client=client)
            return
        asked = fact.question
        of: dict[str, object] = {
            "id": asked.id,
            "server": asked.server,
            "tool": self._mask(asked.server, asked.tool),
            "principal": asked.principal,
            "session": asked.session,
            "client": None if asked.client is None else self._mask(None, asked.client),
        }
        match fact:
            case facts.ApprovalAsked():
                name = "approval.asked"
                of |= {"reason": asked.reason, "asked_in": list(asked.asked_in)}
            case facts.ApprovalAnswered():
                name = "approval.answered"
                of |= {
                    "answer": fact.answer,
                    "surface": fact.surface,
                    "pid": fact.pid,
                    "program": fact.program,
                    "ms": round(asked.age_s * 1000),
                    "applies": fact.applies,
                }
            case facts.ApprovalOver():
                name = "approval.over"
                of["how"] = fact.how
            case _:
                assert_never(fact)
        self._log.info(name, **of)
        self._event(name, **of)

    def _report_rule(
        self, fact: facts.RuleRemembered | facts.RuleForgotten | facts.RuleLapsed
    ) -> None:
        rule = fact.rule
        of: dict[str, object] = {
            "rule": rule.id,
            "answer": rule.answer,
            "server": rule.server,
            "tool": self._mask(rule.server, rule.tool),
            "principal": rule.principal,
            "session": rule.session or None,
        }
        match fact:
            case facts.RuleRemembered():
                name = "rule.remembered"
                of["by"] = rule.by
            case facts.RuleForgotten():
                name = "rule.forgotten"
                of["why"] = fact.why
            case facts.RuleLapsed():
                name = "rule.lapsed"
                of["why"] = rule.lapsed
            case _:
                assert_never(fact)
        self._log.info(name, **of)
        self._event(name, **of)

    def _report_omitted(self, fact: facts.FactsOmitted) -> None:
        what, count = _KINDS[fact.kind], fact.count
        if fact.server is None:
            self._log.debug("session.flooded", session=fact.session, what=what, count=count)
            return
        self._log.warning("server.flooded", server=fact.server, what=what, count=count)
        self._note(fact.server, "mcpd", f"{count} more {what} within a second")

    def _report_sign_in(self, fact: facts.SignedIn) -> None:
        server, issuer, until = fact.server, fact.issuer, fact.until
        self._log.info("server.signed_in", server=server, issuer=issuer, until=until)
        self._note(server, "mcpd", f"somebody has signed in at {issuer}")
        self._event("server.signed_in", server=server, issuer=issuer, until=until)

    def _report_secret(self, fact: facts.SecretUnavailable) -> None:
        server, name, reason = fact.server, fact.name, fact.reason
        self._log.warning("secret.unavailable", server=server, name=name, reason=reason)
        self._note(server, "mcpd", f"not started: {fact.message}")
        self._event("secret.unavailable", server=server, name=name, reason=reason)

    def _report_memory(self, fact: facts.ServerOverMemory) -> None:
        then = "restarted when idle" if fact.is_busy else "restarted"
        taken, limit = fact.memory_bytes, fact.limit_bytes
        self._log.warning(
            "server.over_memory",
            server=fact.server,
            memory_bytes=taken,
            limit_bytes=limit,
            then=then,
        )
        self._note(fact.server, "mcpd", f"takes {taken} bytes, memory_max is {limit}: {then}")
        self._event(
            "server.over_memory",
            server=fact.server,
            memory_bytes=taken,
            limit_bytes=limit,
            then=then,
        )

    def _report_lifecycle(
        self,
        fact: facts.ServerStarting
        | facts.ServerReady
        | facts.ServerCrashed
        | facts.ServerBackoff
        | facts.ServerFailed
        | facts.LoginRequired
        | facts.ServerStopping
        | facts.ServerStopped,
    ) -> None:
        server = fact.server
        log = self._log.bind(server=server)
        match fact:
            case facts.ServerStarting():
                log.info("server.starting", generation=fact.generation)
                self._note(server, "mcpd", f"starting, process {fact.generation}")
                self._event("server.starting", server=server, generation=fact.generation)
            case facts.ServerReady():
                self._report_ready(fact)
            case facts.ServerCrashed():
                text = self._mask(server, fact.failure.message)
                log.warning("server.crashed", reason=text)
                self._note(server, "mcpd", text)
                self._event(
                    "server.crashed",
                    server=server,
                    generation=fact.generation,
                    message=text,
                    kind=fact.failure.kind,
                    **_exit(fact.failure),
                )
            case facts.ServerBackoff():
                wait = round(fact.delay_s, 3)
                log.info("server.backoff", delay_s=wait)
                self._note(server, "mcpd", f"starts again in {wait:g} s")
                self._event("server.backoff", server=server, delay_s=wait, failures=fact.failures)
            case facts.ServerFailed():
                text = self._mask(server, fact.failure.message)
                log.error("server.failed", reason=text)
                self._note(server, "mcpd", "failed too often, is not started any more by itself")
                self._event("server.failed", server=server, message=text, kind=fact.failure.kind)
            case facts.LoginRequired():
                text = self._mask(server, fact.failure.message)
                log.warning("server.login_required", reason=text)
                self._note(server, "mcpd", text)
                self._event("server.login_required", server=server, message=text)
            case facts.ServerStopping():
                text = self._mask(server, fact.reason)
                log.info("server.stopping", reason=text)
                self._note(server, "mcpd", f"stopping: {text}")
                self._event("server.stopping", server=server, reason=text)
            case facts.ServerStopped():
                text = self._mask(server, fact.reason)
                log.info("server.stopped", reason=text, step=fact.step)
                how = f" ({fact.step})" if fact.step else ""
                self._note(server, "mcpd", f"stopped{how}: {text}")
                self._event("server.stopped", server=server, reason=text, step=fact.step)
            case _:
                assert_never(fact)

    def _report_ready(self, fact: facts.ServerReady) -> None:
        log = self._log.bind(server=fact.server)
        took, version = round(fact.duration_s, 3), fact.protocol_version
        log.info(
            "server.ready", pid=fact.pid, duration_s=took, era=fact.era, protocol_version=version
        )
        pid = "" if fact.pid is None else f"pid {fact.pid}, "
        self._note(fact.server, "mcpd", f"ready after {took:g} s, {pid}{version} ({fact.era})")
        self._event(
            "server.ready",
            server=fact.server,
            generation=fact.generation,
            pid=fact.pid,
            duration_s=took,
            era=fact.era,
            protocol_version=version,
        )


def _named(items: list[dict[str, object]], member: str) -> str:
    """Return what was said of definitions, in one line for a person."""
    shown = [f"{each['name'] or each['kind']}: {each[member]}" for each in items[:_SHOWN]]
    more = len(items) - len(shown)
    return printable(", ".join(shown)) + (f" and {more} more" if more > 0 else "")


def _exit(failure: Failure) -> dict[str, object]:
    return {
        name: failure.details[name] for name in ("exit_code", "signal") if name in failure.details
    }

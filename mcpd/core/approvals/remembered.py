"""Answers that are remembered: for a session, an hour, or for good; and a yes that came late."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from msgspec import structs

from mcpd.core.approvals.call_identity import Call
from mcpd.core.facts import (
    AskedCall,
    Rule,
    RuleForgotten,
    RuleLapsed,
    RuleRemembered,
    RuleUsed,
)
from mcpd.core.interface.commands import KeepRules
from mcpd.core.interface.context import Context
from mcpd.ids import SessionId

HOUR_S: Final = 3600.0

REFUSED_S: Final = 600.0
"""For how long the same call of a session is refused without a question, after a no."""

MOST: Final = 10_000
"""Answers that are remembered. The oldest gives way."""

MOST_OF_SESSION: Final = 256
"""Answers that are remembered of one session alone."""

MOST_LATE: Final = 1000
"""Answers that wait for the next call of their kind."""

_CHANGED: Final = "its definition changed"
_OTHER: Final = "what is started for it changed"


class Found(NamedTuple):
    """What is remembered of a call."""

    rule: Rule | None = None
    """The answer, if there is one that holds."""
    lapsed: Rule | None = None
    """A yes that held for another definition, or for another command."""


class Remembered:
    """Which answers are remembered, and which calls they are for."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._ids = itertools.count(1)
        self._tickets = itertools.count(1)
        self._rules: dict[int, Rule] = {}
        self._of_tool: dict[tuple[str, str], dict[int, None]] = {}
        self._unkept: set[int] = set()
        """Those that are not on disk yet, and so do not hold."""
        self._waiting: dict[int, Callable[[str | None], None]] = {}
        """What goes on when the disk has what it was given, by ticket."""
        self._late: dict[Call, list[tuple[float, int]]] = {}
        """For how long a yes is good that no call has used, with the number of its question."""

    def __len__(self) -> int:
        return len(self._rules) + len(self._late)

    def all(self) -> list[Rule]:
        """Return what is remembered, the oldest first, without what has ended."""
        now = self._ctx.now
        ended = [each for each in self._rules.values() if _is_over(each, now)]
        for rule in ended:
            self._drop(rule, "its time is over")
        return [each for each in self._rules.values() if each.id not in self._unkept]

    def has(self, rule: int) -> bool:
        """Tell whether an answer is remembered, by its number."""
        return rule in self._rules

    # -- looking ---------------------------------------------------------------------------------

    def look(
        self, session: SessionId, principal: str, server: str, identity: str, tool: str, pin: bytes
    ) -> Found:
        """Return what is remembered of calls of a tool, whatever their arguments.

        A no is stronger than a yes, whichever came first.
        """
        found = lapsed = None
        for rule in self._rules_of(server, tool):
            if not _is_of(rule, session, principal) or rule.digest is not None:
                continue
            if rule.answer == "no":
                found = rule
                break
            if not rule.lapsed and (rule.identity, rule.pin) != (identity, pin):
                lapsed = self._lapse(rule, _CHANGED if rule.identity == identity else _OTHER)
            elif rule.lapsed:
                lapsed = rule
            else:
                found = found or rule
        if found is None:
            return Found(lapsed=lapsed)
        self._ctx.tell(RuleUsed(found))
        return Found(found)

    def has_refused(self, session: SessionId, server: str, tool: str) -> bool:
        """Tell whether calls of a tool were refused in a session a short time ago."""
        rules = self._rules_of(server, tool)
        return any(rule.session == session and rule.digest is not None for rule in rules)

    def is_refused(self, session: SessionId, call: Call) -> Rule | None:
        """Return the no that a session got for the same call a short time ago."""
        for rule in self._rules_of(call.server, call.tool):
            if rule.session == session and rule.digest == call.digest:
                self._ctx.tell(RuleUsed(rule))
                return rule
        return None

    def take_late(self, call: Call) -> int | None:
        """Return the number of the question whose late yes lets a call through, this once."""
        found = self._late.get(call)
        if found is None:
            return None
        until, number = found.pop(0)
        if not found:
            del self._late[call]
        return number if until > self._ctx.now else self.take_late(call)

    def _rules_of(self, server: str, tool: str) -> list[Rule]:
        ids = self._of_tool.get((server, tool))
        if ids is None:
            return []
        now, found = self._ctx.now, [self._rules[each] for each in ids if each not in self._unkept]
        return [rule for rule in found if not _is_over(rule, now)]

    # -- remembering -----------------------------------------------------------------------------

    def add_late(self, call: Call, number: int, keep_s: float) -> None:
        """Let one call through that is made within ``keep_s`` seconds."""
        if keep_s <= 0:
            return
        self._forget_late()
        self._late.setdefault(call, []).append((self._ctx.now + keep_s, number))

    def _forget_late(self) -> None:
        now = self._ctx.now
        for call in list(self._late):
            self._late[call] = [each for each in self._late[call] if each[0] > now]
            if not self._late[call]:
                del self._late[call]
        while len(self._late) >= MOST_LATE:
            del self._late[next(iter(self._late))]

    def add(
        self,
        question: AskedCall,
        answer: str,
        by: str,
        tools: Iterable[tuple[str, bytes, bytes | None]],
        *,
        digest: bytes | None = None,
        then: Callable[[str | None], None],
    ) -> None:
        """Remember an answer for tools: their names, pins and definitions.

        ``then`` is called once the answer holds, or with what keeps it from being written.
        """
        of_session = answer in ("session", "no")
        until = {"1h": HOUR_S, "no": None if digest is None else REFUSED_S}.get(answer)
        made = [
            Rule(
                id=next(self._ids),
                answer=answer,
                principal=question.principal,
                server=question.server,
                identity=question.identity,
                tool=tool,
                pin=pin,
                by=by,
                session=question.session if of_session else SessionId(0),
                definition=None if of_session else definition,
                digest=digest,
                until=None if until is None else self._ctx.now + until,
            )
            for tool, pin, definition in tools
        ]
        for rule in made:
            self._put(rule)
        if of_session:
            self._replace_older(made)
            self._tell(made)
            self._bound(question.session)
            then(None)
            return
        self._unkept.update(rule.id for rule in made)

        def kept(problem: str | None) -> None:
            self._unkept.difference_update(rule.id for rule in made)
            if problem is None:
                self._replace_older(made)
                self._tell(made)
            else:
                for rule in made:
                    self._take(rule)
                if self._waiting:  # what is being written has them still
                    self._keep(lambda problem: None)
            then(problem)

        self._keep(kept)

    def take_up(self, rules: Iterable[Rule]) -> None:
        """Take what an earlier daemon remembered; ``until`` counts from now."""
        for rule in rules:
            ends = None if rule.until is None else self._ctx.now + rule.until
            self._put(structs.replace(rule, until=ends))
        self._ids = itertools.count(max(self._rules, default=0) + 1)

    def _tell(self, made: list[Rule]) -> None:
        for rule in made:
            self._ctx.tell(RuleRemembered(rule))

    def _replace_older(self, made: Iterable[Rule]) -> None:
        """Forget older answers for the same, as those that have lapsed."""
        for rule in made:
            own = [self._rules[each] for each in self._of_tool.get((rule.server, rule.tool), ())]
            for other in own:
                if other.id < rule.id and _same(other) == _same(rule):
                    self._take(other)

    def _bound(self, session: SessionId) -> None:
        own = [rule for rule in self._rules.values() if rule.session == session]
        for rule in own[: max(0, len(own) - MOST_OF_SESSION)]:
            self._take(rule)

    def _put(self, rule: Rule) -> None:
        self._rules[rule.id] = rule
        self._of_tool.setdefault((rule.server, rule.tool), {})[rule.id] = None
        if len(self._rules) > MOST:
            self._drop(next(iter(self._rules.values())), "there are too many")

    def _take(self, rule: Rule) -> None:
        if self._rules.pop(rule.id, None) is None:
            return
        own = self._of_tool[rule.server, rule.tool]
        del own[rule.id]
        if not own:
            del self._of_tool[rule.server, rule.tool]

    # -- forgetting ------------------------------------------------------------------------------

    def forget(
        self,
        ids: Iterable[int] | None,
        server: str | None,
        tool: str | None,
        then: Callable[[str | None, int], None],
    ) -> set[int]:
        """Forget answers, and return their numbers.

        ``then`` gets what keeps that from being written, and how many there were.
        """
        named = None if ids is None else set(ids)
        gone = [
            rule
            for rule in self.all()
            if (named is None or rule.id in named)
            and (server is None or rule.server == server)
            and (tool is None or rule.tool == tool)
        ]
        for rule in gone:
            self._drop(rule, "somebody has taken it back")
        if named is None and server is None:
            self._late.clear()
        if any(rule.is_lasting for rule in gone):
            self._keep(lambda problem: then(problem, len(gone)))
        else:
            then(None, len(gone))
        return {rule.id for rule in gone}

    def session_gone(self, session: SessionId) -> None:
        """Forget what was said for a session that has ended."""
        for rule in [each for each in self._rules.values() if each.session == session]:
            self._drop(rule, "its session has ended")

    def _drop(self, rule: Rule, why: str) -> None:
        self._take(rule)
        self._ctx.tell(RuleForgotten(rule, why))

    def _lapse(self, rule: Rule, why: str) -> Rule:
        lapsed = structs.replace(rule, lapsed=why)
        self._rules[rule.id] = lapsed
        self._ctx.tell(RuleLapsed(lapsed))
        if lapsed.is_lasting:
            self._keep(lambda problem: None)
        return lapsed

    # -- the disk --------------------------------------------------------------------------------

    def _keep(self, then: Callable[[str | None], None]) -> None:
        ticket = next(self._tickets)
        self._waiting[ticket] = then
        newest = {_same(rule): rule for rule in self._rules.values() if rule.is_lasting}
        self._ctx.emit(KeepRules(ticket, tuple(newest.values())))

    def kept(self, ticket: int, problem: str | None) -> None:
        """Go on with what waited for the disk."""
        then = self._waiting.pop(ticket, None)
        if then is not None:
            then(problem)


def _is_over(rule: Rule, now: float) -> bool:
    return rule.until is not None and rule.until <= now


def _is_of(rule: Rule, session: SessionId, principal: str) -> bool:
    return rule.session == session if rule.session else rule.principal == principal


def _same(rule: Rule) -> tuple[object, ...]:
    """Return what an answer is for: a newer one for the same takes its place."""
    return rule.session, rule.principal, rule.server, rule.tool, rule.digest

"""Questions whether calls may run, outside the mux: who is told, who may answer, what is kept."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from mcpd import tasks
from mcpd.api import requests as api
from mcpd.api.approvals import Approvals, RuleList
from mcpd.core.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    AskedCall,
    ClientDeclines,
    Failure,
    Rule,
    RuleForgotten,
    RuleRemembered,
    RuleUsed,
)
from mcpd.core.interface.commands import KeepRules
from mcpd.core.interface.events import Answerer, Approve, Forget, RulesKept, RulesKnown
from mcpd.core.mux.mux import Mux
from mcpd.daemon.approvals import rules_file
from mcpd.daemon.approvals.desktop import Desktop
from mcpd.ids import SessionId
from mcpd.listeners.requests import Json, Request, Send, Unsubscribe
from mcpd.logfiles.line import stamp
from mcpd.supervise.proctable import ancestry, procfs
from mcpd.supervise.proctable.procfs import ProcId

MOST_LISTED: Final = 65536
"""Bytes of arguments that are part of a list of questions; ``mcpctl approvals show`` has all."""

CLOSE_S: Final = 5.0
"""How long the end of the daemon waits for the disk."""

MOST_DECLINING: Final = 50
"""Clients that are known to refuse by themselves."""

BRIDGE: Final = "mcpctl connect"
"""How a bridge calls itself when it attaches: who asks is the program that started it."""

_ASKER: Final = Failure(
    kind="denied",
    message="this was asked by the program you are in: answer in another terminal",
    hint="open a terminal that was not started by it, and type the command there",
    details={"reason": "asker"},
)


class _Asker(msgspec.Struct):
    """The processes that made a call."""

    pid: int | None
    processes: frozenset[ProcId]


class ApprovalKeeper:
    """Tells listeners of questions, checks who answers, and keeps the rules on disk."""

    def __init__(
        self,
        state_dir: str,
        *,
        mux: Mux,
        desktop: Desktop,
        now: Callable[[], float],
        dispatch: Callable[[Any], None],
        peer_of: Callable[[SessionId], int | None],
        notify: Callable[[SessionId, bytes], None],
    ) -> None:
        """``now`` is the mux's clock, ``peer_of`` returns the process at the end of a connection.

        ``notify`` writes a line to a connection.
        """
        self._state_dir = state_dir
        self._mux = mux
        self._desktop = desktop
        self._now = now
        self._dispatch = dispatch
        self._peer_of = peer_of
        self._notify = notify
        self._followers: list[Send] = []
        self._askers: dict[int, _Asker] = {}
        self._uses: dict[int, rules_file.Uses] = {}
        self._declining: dict[str, None] = {}
        self._queue: list[KeepRules] = []
        self._has_unkept_uses = False
        self._numbers_up_to = 0
        self._writing: asyncio.Task[None] | None = None
        self.trouble: str | None = None
        """Why the rules cannot be read, or written."""

    # -- the rules on disk -------------------------------------------------------------------------

    def load(self) -> None:
        """Take up what an earlier daemon remembered. What cannot be read is not remembered."""
        try:
            kept = rules_file.read(self._state_dir)
            wall = rules_file.wall_clock()
            rules = [rules_file.rule_of(each, wall) for each in kept]
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self.trouble = f"what was answered before cannot be read, and is asked again: {error}"
            return
        for each in kept:
            self._uses[each.id] = rules_file.Uses(each.since, each.uses, each.last)
        if kept:
            self._dispatch(RulesKnown(tuple(rule for rule in rules if rule is not None)))

    def keep(self, command: KeepRules) -> None:
        """Write the rules, and say so when they are on the disk."""
        self._queue.append(command)
        if self._writing is None:
            self._writing = tasks.spawn(self._write(), name="approvals.write")

    async def close(self) -> None:
        """Write how often rules were used, if nothing else has."""
        self._desktop.close()
        if self._writing is not None:
            await asyncio.wait((self._writing,), timeout=CLOSE_S)
        lasting = [rule for rule in self._mux.approvals.rules() if rule.is_lasting]
        if self._has_unkept_uses and lasting:
            await asyncio.to_thread(self._replace, self._encoded(lasting))

    async def _write(self) -> None:
        try:
            while self._queue:
                commands, self._queue = self._queue, []
                content = self._encoded(commands[-1].rules)  # it has those of the others
                problem = await asyncio.to_thread(self._replace, content)
                self.trouble = None if problem is None else f"answers are not kept: {problem}"
                for command in commands:
                    self._dispatch(RulesKept(command.ticket, problem))
        finally:
            self._writing = None

    def _encoded(self, rules: tuple[Rule, ...] | list[Rule]) -> bytes:
        self._has_unkept_uses = False
        return rules_file.encoded(rules, self._uses_of, self._now())

    def _replace(self, content: bytes) -> str | None:
        try:
            rules_file.write(self._state_dir, content)
        except OSError as error:
            return error.strerror or str(error)
        return None

    def _uses_of(self, rule: int) -> rules_file.Uses:
        return self._uses.setdefault(rule, rules_file.Uses(rules_file.wall_clock()))

    # -- what happens ------------------------------------------------------------------------------

    def heard(self, fact: object) -> None:
        """Take a fact about questions and rules; any other is ignored."""
        match fact:
            case ApprovalAsked(question=question):
                asker, before = self._asker_of(question), self._askers.get(question.number)
                if before is not None:  # it is asked again, for another session perhaps
                    asker.processes |= before.processes
                self._askers[question.number] = asker
                self._take_numbers(question.number)
                self._desktop.asked(question)
                self._tell("asked", question)
            case ApprovalAnswered(question=question):
                self._tell("answered", question, answer=fact.answer)
                self._end(question)
            case ApprovalOver(question=question):
                self._tell("over", question, how=fact.how)
                self._end(question)
            case RuleRemembered(rule=rule):
                self._uses_of(rule.id)
            case RuleUsed(rule=rule):
                uses = self._uses_of(rule.id)
                uses.uses += 1
                uses.last = rules_file.wall_clock()
                self._has_unkept_uses = self._has_unkept_uses or rule.is_lasting
            case RuleForgotten(rule=rule):
                self._uses.pop(rule.id, None)
            case ClientDeclines(client=client) if len(self._declining) < MOST_DECLINING:
                self._declining[client] = None
            case _:
                pass

    def _take_numbers(self, number: int) -> None:
        """Have the next daemon number its questions from another number on."""
        if number > self._numbers_up_to:
            up_to = self._numbers_up_to = number + rules_file.BLOCK
            tasks.spawn(self._write_numbers(up_to), name="approvals.numbers")

    async def _write_numbers(self, up_to: int) -> None:
        try:
            await asyncio.to_thread(rules_file.take_numbers, self._state_dir, up_to)
        except OSError as error:
            self.trouble = f"the numbers of questions are not kept: {error.strerror or error}"

    @property
    def declining(self) -> list[str]:
        """The clients that were seen to refuse questions by themselves."""
        return list(self._declining)

    def _end(self, question: AskedCall) -> None:
        self._askers.pop(question.number, None)
        self._desktop.over(question.number)

    def _tell(self, what: str, question: AskedCall, **more: str) -> None:
        if not (self._followers or question.of_call):
            return
        told = {"what": what, "question": self._document(question), **more}
        for send in list(self._followers):
            send(told)
        if question.of_call:
            body = msgspec.json.encode(told)
            line = b'{"jsonrpc":"2.0","method":"mcpd/approval","params":%b}\n' % body
            self._notify(question.session, line)

    # -- who may answer ----------------------------------------------------------------------------

    def _asker_of(self, question: AskedCall) -> _Asker:
        """Find the processes that made a call: they, and what they started, may not answer it."""
        peer = self._peer_of(question.session)
        if peer is None:
            return _Asker(None, frozenset())
        client = self._client_of(peer, question.attached)
        named = question.client_pid
        pids = {peer, client, None if named is None or ancestry.is_manager(named) else named}
        found = (procfs.identify(pid) for pid in pids if pid is not None)
        processes = {each for each in found if each is not None}
        if question.attached is None:
            processes |= self._clients_above(peer)
        return _Asker(client, frozenset(processes))

    @staticmethod
    def _client_of(peer: int, attached: str | None) -> int:
        """Return the program behind a connection: what has started a bridge, else its peer."""
        is_bridge = attached is not None and attached.startswith(BRIDGE)
        return (ancestry.parent(peer) if is_bridge else None) or peer

    def _clients_above(self, peer: int) -> set[ProcId]:
        """Return the clients of sessions below which a command was typed: one may have typed it."""
        pids = set()
        for session, attached in self._mux.attached():
            its = self._peer_of(session)
            if its is not None:
                pids.add(self._client_of(its, attached))
        return {each for each in ancestry.chain(peer) if each.pid in pids}

    def _may_answer(self, question: AskedCall, session: SessionId) -> bool:
        """Tell whether a connection is of nobody who has made the call.

        The connection of an ``mcpd/call`` that asks for it answers for the person at its terminal.
        """
        asker, peer = self._askers.get(question.number), self._peer_of(session)
        if asker is None:
            return False
        if not asker.processes:
            return True
        processes = asker.processes
        if question.of_call and question.session == session:
            processes = frozenset(each for each in processes if each.pid != peer)
        return peer is not None and not ancestry.is_below(peer, processes)

    # -- control requests --------------------------------------------------------------------------

    def approvals(
        self, request: Request, params: api.ApprovalsParams, seq: int
    ) -> Approvals | Failure:
        """List the open questions; with ``follow``, tell what happens to them from now on."""
        found = self._mux.approvals.open()
        if params.id is not None:
            found = [each for each in found if each.id == params.id]
        if params.follow:
            refusal = request.follow("mcpd/approval", self._follow)
            if refusal is not None:
                return refusal
        is_whole = params.id is not None
        return {"seq": seq, "open": [self._document(each, is_whole=is_whole) for each in found]}

    def _follow(self, send: Send) -> Unsubscribe:
        context = self._mux.context
        self._followers.append(send)
        context.approval_listeners += 1

        def leave() -> None:
            self._followers.remove(send)
            context.approval_listeners -= 1

        return leave

    def approve(self, request: Request, params: api.ApproveParams) -> Approve | Failure:
        """Answer a question, unless it is one's own."""
        number = params.id.removeprefix("a")
        if not number.isdecimal() or len(number) > 15:
            why = f"mcpd/approve: params.id: {params.id[:50]!r} is no question"
            return Failure("invalid_params", why, None, False, "mcpctl approvals")
        question = next((q for q in self._mux.approvals.open() if q.number == int(number)), None)
        if question is not None and not self._may_answer(question, request.session):
            return _ASKER
        pid = self._peer_of(request.session)
        is_own = question is not None and question.session == request.session
        by = Answerer(
            "call" if is_own else "control", pid, None if pid is None else ancestry.program(pid)
        )
        return Approve(
            request.session,
            request.key,
            int(number),
            params.answer,
            by,
            all_tools=params.all_tools,
            of_session=params.session,
        )

    def rules(self) -> RuleList:
        """List what is remembered."""
        return {"rules": [self._rule(rule) for rule in self._mux.approvals.rules()]}

    def forget(self, request: Request, params: api.ForgetParams) -> Forget | Failure:
        """Forget what is remembered, by number, by server and tool, or all."""
        if not (params.all or params.ids is not None or params.server is not None):
            why = "mcpd/forget: params: `ids`, `server` or `all` says what to forget"
            return Failure("invalid_params", why)
        return Forget(request.session, request.key, params.ids, params.server, params.tool)

    def _document(self, question: AskedCall, *, is_whole: bool = False) -> Json:
        asker = self._askers.get(question.number)
        size = len(question.arguments)
        told: dict[str, Any] = {
            "id": question.id,
            "session": question.session,
            "principal": question.principal,
            "client": {
                "name": _text(question.client),
                "version": _text(question.version),
                "pid": None if asker is None else asker.pid,
            },
            "server": question.server,
            "tool": _text(question.tool),
            "reason": _text(question.reason),
            "arguments": Raw(question.arguments) if is_whole or size <= MOST_LISTED else None,
            "arguments_bytes": size,
            "shown_all": question.shown_all,
            "asked_in": list(question.asked_in),
            "waits": question.waits,
            "age_s": round(question.age_s, 3),
            "expires_s": None if question.expires_s == math.inf else round(question.expires_s, 3),
        }
        if is_whole:
            told["definition"] = None if question.definition is None else Raw(question.definition)
            told["before"] = None if question.before is None else _raw(question.before)
        return told

    def _rule(self, rule: Rule) -> Json:
        uses = self._uses_of(rule.id)
        told: dict[str, Any] = {
            "id": rule.id,
            "answer": rule.answer,
            "server": rule.server,
            "tool": _text(rule.tool),
            "principal": rule.principal,
            "session": rule.session or None,
            "since": stamp(_instant(uses.since)),
            "by": _text(rule.by),
            "uses": uses.uses,
            "last": None if uses.last is None else stamp(_instant(uses.last)),
        }
        if rule.until is not None:
            told["ends_s"] = round(max(0.0, rule.until - self._now()), 3)
        if rule.lapsed:
            told["lapsed"] = rule.lapsed
        return told


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _text(text: str | None) -> str | None:
    """Return a name that a peer gave in a form that UTF-8 has."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _raw(definition: bytes) -> Raw | None:
    """Return a definition of the file on disk, ``None`` where it is no JSON: it was cut."""
    try:
        msgspec.json.decode(definition, type=Raw)
    except msgspec.MsgspecError:
        return None
    return Raw(definition)

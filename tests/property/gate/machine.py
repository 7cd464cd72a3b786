"""What may happen to the gate: deeds, each told by its name and a seed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from msgspec import structs

from mcpd.core.approvals.client_forms import BY_ITSELF_S
from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.pins import Rules
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Interactive, Policy, Profile, Sharing
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.offer import Verdict
from mcpd.core.mcp.versions import NEWEST_MODERN, Era
from mcpd.core.policy.rates import Rate
from mcpd.ids import SessionId
from mcpd.principal import EVERYTHING, Principal, Scope, bearer
from tests.property.gate.rules import (
    CYRILLIC,
    PATTERNS,
    SERVERS,
    TOOLS,
    Form,
    is_asked,
    number_in,
    spaces,
    value_of,
)
from tests.property.gate.world import FORGED, USER, Call, Client, Question, World

STEPS: Final = 60
"""Of a story."""

MODES = (None, None, "auto", "ask", "ask", "trusted", "writes")
MOST_CLIENTS = 9
PROFILES = ("narrow", "wide")
ARGUMENTS = (
    b'{"n":1', b'{"n" : 1.0', b'{"n":1e0', b'{"n":2', b'{"n":2', b'{"n":{"a":[1,2]}',
    b'{"n":1,"n":1', b'{"n":{"a":1,"a":2}', b'{"n":"\\u0061"', b'{"n":"a"',
)  # fmt: skip


class Machine(World):
    """Each deed makes up what it does from a seed; one that is impossible does nothing."""

    # -- the configuration -------------------------------------------------------------------------

    def begin(self, seed: int) -> None:
        random = Random(seed)
        self.is_plain = random.random() < 0.1
        for name in SERVERS:
            self.forms[name] = {
                tool: Form(0, 0, read_only=tool in ("read", "READ", CYRILLIC))
                for tool in TOOLS
                if random.random() < 0.9
            }
            self.entries[name] = self.entry(random, name)
        self.policy = self.some_policy(random)
        self.apply()
        for name in SERVERS:
            if random.random() < 0.6:
                self.handle(ev.StartUnasked(name))
        for slot in sorted(self.wanted):
            self.start(slot)
        for _ in range(3):
            self.comes(random)

    def entry(self, random: Random, name: str) -> Entry:
        era = Era.MODERN if name == "delta" else Era.LEGACY
        is_private = name == "gamma"
        return self.ruled(
            random,
            Entry(
                name=name,
                launch=f"{name}-1",
                identity=f"{name}-i",
                sharing=Sharing.SESSION if is_private else Sharing.SHARED,
                verdict=Verdict(era),
                interactive=random.choice([Interactive.SHARED, Interactive.AUTO]),
                parked_timeout=random.choice([20.0, 600.0, 0.0]),
                call_timeout=200.0,
                may_repeat=True,
                validates=random.random() < 0.2,
            ),
        )

    def ruled(self, random: Random, entry: Entry) -> Entry:
        """Give an entry other rules."""
        off = Rules(identity=entry.identity)
        if self.is_plain and random.random() < 0.8:
            return structs.replace(entry, approval=None, filter=Filter.ALL, rules=off)
        some = self.patterns
        is_private = entry.sharing is Sharing.SESSION
        allow = random.choice([("*",), ("*",), ("*",), some(random)])
        deny = random.choice([(), (), some(random)[:1]])
        pin = random.choice(["off", "warn", "hold", "hold"]) if not is_private else "off"
        return structs.replace(
            entry,
            approval=random.choice(MODES),
            trusted=random.choice([(), some(random)]),
            ask=random.choice([(), (), some(random)[:1]]),
            filter=Filter(allow, [each for each in deny if each != "*"]),
            rules=Rules(identity=entry.identity, pin=pin),
            rate=random.choice([None, None, Rate(60, 60.0), Rate(600, 60.0)]),
            rate_wait=random.choice([0.0, 5.0]),
            max_concurrency=random.choice([0, 0, 1, 2]),
        )

    def patterns(self, random: Random) -> tuple[str, ...]:
        return tuple(random.sample(PATTERNS[1:], random.choice([1, 1, 2])))

    def some_policy(self, random: Random) -> Policy:
        def profile() -> Profile:
            mode = random.choice(MODES) or "auto"
            return Profile(scope=self.some_scope(random), approval=mode)

        if self.is_plain:
            return Policy(profiles={name: Profile() for name in PROFILES})
        return Policy(
            profiles={name: profile() for name in PROFILES if random.random() < 0.9},
            client_rate=random.choice([None, None, None, Rate(300, 60.0)]),
            approval=random.choice(MODES) or "auto",
            approval_timeout=random.choice([300.0, 5.0, 0.0]),
            approval_keep=random.choice([600.0, 600.0, 8.0, 0.0]),
        )

    def some_scope(self, random: Random) -> Scope:
        if random.random() < 0.3:
            return EVERYTHING
        servers = random.choice([None, frozenset(random.sample(SERVERS, 3))])
        groups = [("*",), ("read", "write"), ("alpha.*", "re*"), ("*.send", "w*")]
        tools = random.choice([(), (random.choice(groups),)])
        return Scope(
            servers,
            tools,
            read_only=random.random() < 0.2,
            resources=random.random() < 0.8,
            prompts=random.random() < 0.8,
        )

    def apply(self) -> None:
        """Have the mux take the configuration; what was approved is forgotten without pins."""
        self.is_endless = self.is_endless or not self.policy.approval_timeout
        rates = {("server", name): entry.rate for name, entry in self.entries.items()}
        for key, rate in {**rates, "client": self.policy.client_rate}.items():
            if key not in self.rated or self.rated[key][2] != rate:
                self.rated[key] = self.now, next(self.numbers), rate
        for name, entry in self.entries.items():
            if entry.rules.pin == "off":
                self.approved.pop(name, None)
                continue
            known, listed = self.approved.get(name), self.current.get(name)
            if (known is None or known[0] != entry.identity) and listed is not None:
                is_held = entry.rules.pin == "hold"
                odd = (CYRILLIC,) if is_held else ()
                first = {n: f for n, f in listed.items() if n not in odd}
                self.approved[name] = entry.identity, first
        self.handle(ev.EntriesChanged(tuple(self.entries.values()), self.policy))
        for question in self.questions.values():
            asked = question.asked
            client, entry = self.clients.get(asked.session), self.entries.get(asked.server)
            if question.said is not None:
                continue  # it goes on once the disk has its answer
            assert entry is not None and entry.identity == asked.identity, "of what is gone"
            opened = self.mux.approvals.questions.find(asked.number)
            assert opened is not None, "nothing is known of it"
            if opened.leg is not None and client is not None:
                call = (client.principal, self.policy, entry, asked.tool, question.form)
                assert is_asked(*call), "it waits, and is not asked about any more"

    def the_configuration_changes(self, seed: int) -> None:
        random = Random(seed)
        name = random.choice(SERVERS)
        entry = self.entries.get(name)
        number = next(self.numbers)
        match random.choice(["rules", "rules", "rules", "policy", "policy", "other", "gone"]):
            case "policy":
                self.policy = self.some_policy(random)
            case "gone" if entry is not None:
                del self.entries[name]
                self.forget_pins(name)
            case _ if entry is None:
                self.entries[name] = self.entry(random, name)
            case "rules":
                self.entries[name] = self.ruled(random, entry)
            case "other" if random.random() < 0.5:
                self.entries[name] = structs.replace(entry, launch=f"{name}-{number}")
            case _:
                self.start_another(entry)
        self.apply()

    def start_another(self, entry: Entry) -> None:
        """Give an entry another command."""
        name, number = entry.name, next(self.numbers)
        identity = f"{name}-i{number}"
        rules = structs.replace(entry.rules, identity=identity)
        self.entries[name] = structs.replace(
            entry, launch=f"{name}-{number}", identity=identity, rules=rules
        )
        self.current.pop(name, None)

    def forget_pins(self, name: str) -> None:
        self.approved.pop(name, None)
        self.current.pop(name, None)
        self.pins.pop(name, None)

    # -- clients -----------------------------------------------------------------------------------

    def comes(self, random: Random) -> None:
        kind = random.choice(["legacy", "legacy", "modern", "brief", "control"])
        server = random.choice([*self.entries, *self.entries, None])
        name = random.choice(["one", "two"])
        if kind == "control":
            self.connect("control", None, USER, "mcpctl", can_ask=False)
            return
        principal: Principal = USER
        draw = random.random()
        if draw < 0.2 and self.policy.profiles and kind != "brief":
            principal = USER.in_profile(random.choice(sorted(self.policy.profiles)))
        elif draw < 0.5 or kind == "brief":
            profile = random.choice([None, *PROFILES])
            scope = random.choice([EVERYTHING, self.some_scope(random)])
            principal = bearer(random.choice(["t1", "t2", None]), scope, profile)
        self.connect(kind, server, principal, name, can_ask=random.random() < 0.6)

    def a_client_comes(self, seed: int) -> None:
        if len(self.clients) < MOST_CLIENTS:
            self.comes(Random(seed))

    def others(self, *kinds: str) -> list[Client]:
        return [
            each
            for each in self.clients.values()
            if each is not self.person and (not kinds or each.kind in kinds)
        ]

    def a_client_goes(self, seed: int) -> None:
        clients = self.others()
        if len(clients) > 2:
            self.leave(Random(seed).choice(clients).session)

    def clients_call(self, seed: int) -> None:
        """Each of the calls may have been made before."""
        random = Random(seed)
        clients = self.others()
        if not clients:
            return
        client = random.choice(clients)
        server = client.server or random.choice(SERVERS)
        tool = random.choice(TOOLS)
        for _ in range(random.choice([1, 1, 1, 2, 3, 14])):
            if client.session in self.clients:
                self.calls_tool(random, client, server, tool)

    def the_same_is_called_again(self, seed: int) -> None:
        """A client calls what was called before, perhaps by another."""
        random = Random(seed)
        calls = [each for each in self.calls.values() if each.method == "tools/call"]
        clients = self.others()
        if not calls or not clients:
            return
        call = random.choice(calls[-5:])
        mine = [c for c in clients if c.session == call.session]
        client = random.choice(mine or clients) if random.random() < 0.7 else random.choice(clients)
        if client.server in (None, call.server):
            number = next(self.numbers)
            again = copy_of(call, client, number, self.now)
            self.calls[number] = again
            if client.kind == "control":
                self.control_call(random, client, again)
            else:
                self.request(random, client, again)

    def calls_tool(self, random: Random, client: Client, server: str, tool: str) -> None:
        if random.random() < 0.3:
            tool = random.choice(TOOLS)
        number = next(self.numbers)
        args = random.choice(ARGUMENTS) + spaces(number) + b"}"
        name = "mcpctl" if client.kind == "control" else client.name
        method = random.choice(["tools/call"] * 8 + ["resources/read", "prompts/get"])
        if method == "resources/read":
            args, tool = b'"%b://%d"' % (server.encode(), number), ""
        elif method == "prompts/get":
            args, tool = b'{"a":"x"' + spaces(number) + b"}", "greet"
        call = Call(
            number, client.session, client.principal, name, server, method, tool, args, self.now,
            value_of(args),
        )  # fmt: skip
        self.calls[number] = call
        if client.kind == "control":
            self.control_call(random, client, call)
        else:
            self.request(random, client, call)

    def control_call(self, random: Random, client: Client, call: Call) -> None:
        call.made += 1
        server, tool, args = call.server, call.tool, call.args
        timeout = random.choice([None, None, 3.0])
        asks = random.random() < 0.3

        def event(ident: SessionId, key: bytes) -> ev.Event:
            match call.method:
                case "tools/call":
                    return ev.CallTool(ident, key, server, tool, args, timeout, False, asks)
                case "prompts/get":
                    return ev.GetPrompt(ident, key, server, tool, args)
            return ev.ReadResource(ident, key, server, json.loads(args))

        self.control(client, "mcpd/call", event, call)

    def request(
        self, random: Random, client: Client, call: Call, more: bytes = b"", args: bytes = b""
    ) -> None:
        """Make a request for a call, with ``more`` members of its parameters."""
        is_far = client.server is None
        if call.method == "resources/read":
            params = b'{"uri":%b' % call.args
        else:
            name = f"{call.server}__{call.tool}" if is_far else call.tool
            if is_far and call.tool == CYRILLIC:
                name = f"{call.server}__re_d"
            params = b'{"name":%b,"arguments":%b' % (json.dumps(name).encode(), args or call.args)
        meta: dict[str, Any] = {}
        if random.random() < 0.3:
            meta["progressToken"] = f"p{next(self.numbers)}"
        if client.kind != "legacy":
            able = {"elicitation": {}} if client.can_ask else {}
            meta[modern_meta.VERSION_KEY] = NEWEST_MODERN
            meta[modern_meta.CAPABILITIES_KEY] = able
            meta[modern_meta.INFO_KEY] = {"name": client.name, "version": "1"}
        params += more
        params += b',"_meta":%b}' % json.dumps(meta).encode() if meta else b"}"
        ident = f"r{next(self.numbers)}"
        call.made += 1
        client.owed[ident] = call
        line = b'{"jsonrpc":"2.0","id":"%b","method":"%b","params":%b}'
        self.send(client, line % (ident.encode(), call.method.encode(), params))

    def a_client_cancels(self, seed: int) -> None:
        random = Random(seed)
        owed = [
            (client, ident)
            for client in self.others()
            for ident, each in client.owed.items()
            if isinstance(each, Call)
        ]
        if owed:
            self.cancel(*random.choice(owed))

    # -- answers -----------------------------------------------------------------------------------

    def a_person_answers(self, seed: int) -> None:
        random = Random(seed)
        if not self.questions:
            return
        number = random.choice(sorted(self.questions))
        answers = ["once", "once", "session", "1h", "always", "no", "no"]
        answer, all_tools = random.choice(answers), random.random() < 0.2
        self.approve(random, number, answer, all_tools=all_tools)

    def approve(self, random: Random, number: int, answer: str, *, all_tools: bool) -> None:
        of_session = answer == "no" and random.random() < 0.5
        question = self.questions.get(number)
        if question is not None and question.said is None:
            self.say(question, answer, all_tools=all_tools, of_session=of_session)
        by = ev.Answerer("control")
        self.control(
            self.person,
            "mcpd/approve",
            lambda ident, key: ev.Approve(
                ident, key, number, answer, by, all_tools=all_tools, of_session=of_session
            ),
            "approve",
        )
        self.take_unheard_back()

    def say(
        self,
        question: Question,
        answer: str,
        *,
        all_tools: bool = False,
        of_session: bool = False,
        by_client: bool = False,
    ) -> None:
        """Note that somebody with a right to it answers a question, before the mux hears it."""
        question.said, question.before = (answer, all_tools), list(self.grants)
        question.no_to_session, question.by_client = of_session, by_client
        if answer in ("1h", "always"):
            question.ticket = 0
            self.remember(answer, question, all_tools)
            for grant in self.grants:
                if grant not in question.before:
                    grant.ticket = 0

    def a_person_answers_what_is_over(self, seed: int) -> None:
        random = Random(seed)
        known = sorted({*self.over, *self.stale}) or [10_000]
        number = random.choice(known)
        if number not in self.questions:
            self.approve(random, number, "always", all_tools=True)

    def a_client_answers_a_form(self, seed: int) -> None:
        random = Random(seed)
        asked = [c for c in self.clients.values() if c.forms or c.their_forms]
        if not asked:
            return
        client = random.choice(asked)
        if client.their_forms:
            ident = client.their_forms.pop()
            self.reply(client, ident, {"action": "accept", "content": {"answer": "always"}})
            return
        ident, number = random.choice(sorted(client.forms.items()))
        del client.forms[ident]
        client.old_forms.append((ident, number))
        self.reply(client, ident, self.filled(random, number))
        self.take_unheard_back()

    def filled(self, random: Random, number: int) -> dict[str, Any]:
        """Fill in a form of ours, one way or another."""
        question = self.questions.get(number)
        content: dict[str, Any] = {
            "answer": random.choice(["once", "once", "session", "always", "no", "yes", True, None])
        }
        action = random.choice(["accept"] * 5 + ["decline", "cancel"])
        if random.random() < 0.1:
            content = {}
        choice = content.get("answer")
        if question is not None and question.said is None:
            if action == "accept" and choice in ("once", "session", "always", "no"):
                self.say(question, choice, by_client=True)
            elif action == "decline" and self.now - question.shown_at >= BY_ITSELF_S:
                self.say(question, "no", by_client=True)
        return {"action": action, **({"content": content} if action == "accept" else {})}

    def reply(self, client: Client, ident: int, result: Any) -> None:
        self.send(client, {"jsonrpc": "2.0", "id": ident, "result": result})

    def a_liar_answers(self, seed: int) -> None:
        """One who was not asked says yes, or one who has answered does so again."""
        random = Random(seed)
        yes = {"action": "accept", "content": {"answer": "always"}}
        asked = [(c, f) for c in self.clients.values() for f in c.forms]
        for client, ident in asked:
            for other in self.others():
                if other is not client and ident not in other.their_forms:
                    self.reply(other, ident, yes)
        old = [(c, i) for c in self.clients.values() for i, _ in c.old_forms]
        if old:
            client, ident = random.choice(old)
            self.reply(client, ident, yes)

    def a_client_comes_back(self, seed: int) -> None:
        """A modern client calls again, with the answers that it was asked for, or with others."""
        random = Random(seed)
        handles = [
            (call, *each)
            for call in self.calls.values()
            if call.session in self.clients
            for each in call.handles
        ]
        if not handles:
            return
        call, state, asks, number = random.choice(handles[-6:])
        self.comes_back(random, call, state, asks, number)

    def comes_back(
        self, random: Random, call: Call, state: str, asks: dict[str, Any], number: str
    ) -> None:
        client = self.clients[call.session]
        how = random.choice(
            ["right"] * 3 + ["stranger", "stranger", "arguments", "tool", "twice", "twice"]
        )
        args = call.args
        is_current = call.handles[-1][0] == state and call.handles[-1][2] != "used"
        other = call
        if how != "right":
            other, args = self.another(random, call, how)
            strangers = [
                c
                for c in self.others("modern", "brief")
                if c is not client and c.server in (None, call.server)
            ]
            if how == "stranger" and strangers:
                client = random.choice(strangers)
                other = copy_of(call, client, next(self.numbers), self.now)
                self.calls[other.number] = other
                args = other.args
            if client.server is not None and other.server != client.server:
                return
        said: dict[str, Any] = {}
        is_same = other is call or (
            client.session == call.session
            and (other.tool, other.value) == (call.tool, call.value or "")
        )  # it may be spelled otherwise
        for key in asks:
            if number:
                is_taken = is_same and is_current
                said[key] = self.filled(random, int(number) if is_taken else 0)
            else:
                said[key] = {"action": "accept", "content": {"answer": "always"}}
        if is_same:
            other.same_as = call.same_as or call.number
            call.handles = [h if h[0] != state else (state, asks, "used") for h in call.handles]
            if number == "used":
                said = {key: {"action": "accept", "content": {"answer": "always"}} for key in asks}
        more = b',"inputResponses":%b,"requestState":%b'
        more %= (json.dumps(said).encode(), json.dumps(state).encode())
        self.request(random, client, other, more, args)
        self.take_unheard_back()

    def take_unheard_back(self) -> None:
        """Forget answers that did not count: those that do, do so at once, or are being written."""
        for question in self.questions.values():
            if question.said is not None and not question.ticket:
                question.said = question.ticket = None
                self.grants = question.before

    def another(self, random: Random, call: Call, how: str) -> tuple[Call, bytes]:
        """Return a call that is not the one that was asked about."""
        number = next(self.numbers)
        head = call.args[: call.args.rindex(b"}") - 16] if call.method != "resources/read" else b""
        tool = call.tool
        if call.method != "tools/call":
            return call, call.args
        if how == "arguments":
            head = random.choice(ARGUMENTS)
        elif how == "tool":
            tool = random.choice(TOOLS)
        elif how == "twice":
            head = b'{"n":"evil",' + head[1:]
        args = head + spaces(number) + b"}"
        other = Call(
            number, call.session, call.principal, call.client, call.server, call.method, tool,
            args, self.now, value_of(args),
        )  # fmt: skip
        self.calls[number] = other
        return other, args

    def rules_are_forgotten(self, seed: int) -> None:
        random = Random(seed)
        rules = self.mux.approvals.rules()
        if not rules:
            return
        one = random.choice(rules)
        if random.random() < 0.5:
            ids, server, tool = (one.id,), None, None
        else:
            ids, server, tool = None, one.server, one.tool

        def is_its(rule: Any) -> bool:
            return rule.id == one.id if ids else (rule.server, rule.tool) == (server, tool)

        for gone in filter(is_its, rules):
            self.grants = [
                g
                for g in self.grants
                if (g.kind, g.label, g.server, g.tool, g.ticket)
                != (gone.answer, gone.principal, gone.server, gone.tool, None)
                or (g.kind == "session" and g.session != gone.session)
            ]
            self.denials = [
                d
                for d in self.denials
                if gone.answer != "no"
                or (d.session, d.server, d.tool) != (gone.session, gone.server, gone.tool)
            ]
        self.control(
            self.person,
            "mcpd/forget",
            lambda ident, key: ev.Forget(ident, key, ids, server, tool),
            "forget",
        )

    def a_yes_and_the_same_call(self, seed: int) -> None:
        """Somebody answers, and the client calls again at once, in the same words or others."""
        random = Random(seed)
        waiting = [q for q in self.questions.values() if q.asked.session in self.clients]
        if not waiting:
            return
        question = random.choice(waiting)
        call = self.calls[number_in(question.asked.arguments) or 0]
        answer = random.choice(["once", "once", "once", "session", "always", "no", "no"])
        self.approve(random, question.asked.number, answer, all_tools=False)
        for _ in range(random.choice([1, 2])):
            client = self.clients.get(question.asked.session)
            if client is None or client.server not in (None, call.server):
                return
            again = copy_of(call, client, next(self.numbers), self.now)
            self.calls[again.number] = again
            if client.kind == "control":
                self.control_call(random, client, again)
            else:
                self.request(random, client, again)

    def listeners_come_and_go(self, seed: int) -> None:
        self.mux.context.approval_listeners = Random(seed).choice([0, 0, 1, 2])

    # -- servers -----------------------------------------------------------------------------------

    def servers_start(self, seed: int) -> None:
        random = Random(seed)
        for slot in sorted(self.wanted):
            if random.random() < 0.8:
                self.start(slot, is_slow=random.random() < 0.2)

    def servers_answer(self, seed: int) -> None:
        random = Random(seed)
        for slot, process in sorted(self.processes.items()):
            lists, process.lists = process.lists, []
            for line in lists:
                if self.processes.get(slot) is process:
                    self.serve(slot, line)
            for wire_id in sorted(process.open):
                if wire_id in process.open and random.random() < 0.6:
                    self.answer(random, slot, wire_id)

    def answer(self, random: Random, slot: Any, wire_id: int) -> None:
        process = self.processes[slot]
        call = process.open[wire_id]
        client = self.clients.get(call.session)
        draw = random.random()
        if draw < 0.15 and not process.is_modern and not self.is_ending:
            ident = 9_000_000 + next(self.numbers)
            process.questions.append(ident)
            params = {"message": f"{FORGED}", "requestedSchema": {"type": "object"}}
            method = "elicitation/create"
            self.from_server(
                slot, {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
            )
            return
        del process.open[wire_id]
        is_asking = draw < 0.3 and process.is_modern and client is not None
        if is_asking and client and client.can_ask and call.method == "tools/call":
            call.state = "wanting"
            params = {"message": f"{FORGED}", "requestedSchema": {"type": "object"}}
            asks = {"k": {"method": "elicitation/create", "params": params}}
            state = f"S{next(self.numbers)}"
            result: dict[str, Any] = {
                "resultType": "input_required", "inputRequests": asks, "requestState": state,
            }  # fmt: skip
        else:
            call.state = "done"
            result = {"content": [], "nonce": call.number}
        self.from_server(slot, {"jsonrpc": "2.0", "id": wire_id, "result": result})

    def something_goes_wrong(self, seed: int) -> None:
        random = Random(seed)
        if not self.processes:
            return
        slot = random.choice(sorted(self.processes))
        is_planned = random.random() < 0.3
        self.go_down(slot, is_planned=is_planned, comes_back=random.random() < 0.9)

    def definitions_change(self, seed: int) -> None:
        random = Random(seed)
        name = random.choice(SERVERS)
        forms = dict(self.forms[name])
        tool = random.choice(TOOLS)
        form = forms.get(tool)
        match random.choice(["text", "schema", "hints", "gone", "back", "back"]):
            case "text" if form is not None:
                forms[tool] = form._replace(text=form.text + 1)
            case "schema" if form is not None:
                forms[tool] = form._replace(schema=form.schema + 1)
            case "hints" if form is not None:
                forms[tool] = form._replace(read_only=not form.read_only)
            case "gone":
                forms.pop(tool, None)
            case _:
                forms[tool] = Form(0, 0, read_only=tool in ("read", "READ", CYRILLIC))
        self.forms[name] = forms
        if random.random() < 0.5:
            self.tell_change(name)

    def what_was_allowed_changes(self, seed: int) -> None:
        """A tool that somebody has allowed for good becomes another one, and is called."""
        random = Random(seed)
        lasting = [g for g in self.grants if g.kind in ("session", "1h", "always")]
        if not lasting:
            return
        grant = random.choice(lasting)
        forms = self.forms[grant.server]
        form = forms.get(grant.tool)
        if form is None:
            return
        entry = self.entries.get(grant.server)
        if entry is not None and random.random() < 0.3:
            self.start_another(entry)
            self.apply()
        else:
            other = random.choice([form._replace(text=form.text + 1), form._replace(text=0)])
            self.forms[grant.server] = {**forms, grant.tool: other}
            self.tell_change(grant.server)
        mine = [c for c in self.others() if c.server in (None, grant.server)]
        clients = [c for c in mine if c.principal.label == grant.label] or mine
        if clients:
            self.tool_is_called(random, random.choice(clients), grant.server, grant.tool)

    def tool_is_called(self, random: Random, client: Client, server: str, tool: str) -> None:
        number = next(self.numbers)
        args = random.choice(ARGUMENTS[:6]) + spaces(number) + b"}"
        name = "mcpctl" if client.kind == "control" else client.name
        call = Call(
            number, client.session, client.principal, name, server, "tools/call", tool, args,
            self.now, value_of(args),
        )  # fmt: skip
        self.calls[number] = call
        if client.kind == "control":
            self.control_call(random, client, call)
        else:
            self.request(random, client, call)

    def tell_change(self, name: str) -> None:
        """Have the processes of a server list what it has now, where that can be told at once."""
        forms = self.forms[name]
        if name == "delta":
            return
        for slot, process in sorted(self.processes.items()):
            if process.server == name and process.listed is not None:
                process.forms = dict(forms)
                method = "notifications/tools/list_changed"
                self.from_server(slot, {"jsonrpc": "2.0", "method": method})

    def pins_are_accepted(self, seed: int) -> None:
        random = Random(seed)
        name = random.choice(SERVERS)
        definitions = self.mux.definitions(name)
        entry = self.entries.get(name)
        if definitions is None or definitions.approved.pins is None or entry is None:
            return
        waiting = [
            (kind, tool, pin.hash)
            for (kind, tool), pin in definitions.approved.pins.merged().items()
            if kind == "tool" and not pin.is_same
        ]
        if not waiting:
            return
        items = tuple(random.sample(waiting, random.randint(1, len(waiting))))
        is_stale = random.random() < 0.2
        if is_stale:
            items = (*items[1:], (*items[0][:2], "0" * 64))
        elif (known := self.approved.get(name)) is not None:
            approved, now = dict(known[1]), self.current.get(name, {})
            for _, tool, _ in items:
                approved.pop(tool, None)
                if tool in now:
                    approved[tool] = now[tool]
            self.approved[name] = entry.identity, approved
        self.control(
            self.person,
            "mcpd/pin_accept",
            lambda ident, key: ev.AcceptPins(ident, key, name, items),
            "accept",
        )

    def arguments_are_checked(self, seed: int) -> None:
        random = Random(seed)
        if not self.tickets:
            return
        ticket = self.tickets.pop(random.randrange(len(self.tickets)))
        violations = () if random.random() < 0.9 else (ev.Violation("n", "is odd"),)
        self.handle(ev.Validated(ticket, violations))

    # -- the daemon --------------------------------------------------------------------------------

    def the_disk_is_slow_or_full(self, seed: int) -> None:
        how = Random(seed).choice(["fast", "slow", "slow", "full", "write", "write"])
        if how != "write":
            self.disk_is = how
        while self.writes and self.disk_is != "slow":
            self.write()
        if how == "write" and self.writes:
            self.write()

    def a_while_passes(self, seed: int) -> None:
        whiles = [0.05, 0.05, 0.2, 0.4, 0.4, 2.0, 2.0, 9.0, 30.0, 299.0, 700.0, 3600.0]
        self.time_passes(Random(seed).choice(whiles))

    def the_daemon_is_killed(self, seed: int) -> None:
        """What the disk has is all that the next one knows."""
        random = Random(seed)
        if self.writes and random.random() < 0.5:  # it was written, and nobody was told
            self.disk = self.writes[-1].rules
        self.writes.clear()
        written = {(r.principal, r.server, r.tool, r.answer, r.pin): r for r in self.disk}
        self.grants = [
            kept(g)
            for g in self.grants
            if g.kind in ("1h", "always")
            and any(key[:4] == (g.label, g.server, g.tool, g.kind) for key in written)
        ]
        self.denials.clear()
        self.stale |= self.questions | self.over
        self.over = {}
        self.rated.clear()
        for call in self.calls.values():
            call.state = "dead"
        disk = [
            structs.replace(r, until=None if r.until is None else r.until - self.now)
            for r in self.disk
        ]
        self.begin_life()
        for name, entry in self.entries.items():
            catalog = self.catalogs.get(entry.launch)
            known = {} if catalog is None else {
                "catalog": catalog.catalog, "introduction": catalog.introduction,
            }  # fmt: skip
            self.entries[name] = structs.replace(entry, pins=self.pins.get(name), **known)
        self.handle(ev.RulesKnown(tuple(disk)))
        self.apply()

    # -- the end -----------------------------------------------------------------------------------

    def end(self) -> None:
        """See that everybody gets an answer, and that nothing is left."""
        self.disk_is = "fast" if self.disk_is == "slow" else self.disk_is
        if next(self.numbers) % 2:
            self.settle()
        else:
            self.handle(ev.Draining())
            waiting = [q for q in self.mux.approvals.questions if q.leg and not q.answer]
            assert not waiting, "a call waits for an answer while the daemon ends"
        self.is_ending = True
        for _ in range(4):
            while self.writes:
                self.write()
            for slot in sorted(self.places):
                if slot in self.places:
                    self.go_down(slot, is_planned=False, comes_back=False)
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            self.time_passes(300.0)
        for client in [*self.clients.values()]:
            if client.session in self.clients:
                left = [each for each in client.owed.values() if isinstance(each, Call)]
                assert self.is_endless or not left, f"no answer: {left}"
                self.leave(client.session)
        self.time_passes(10_000.0)
        sizes = {name: size for name, size in self.mux.table_sizes().items() if size}
        assert not sizes, sizes
        assert self.mux.next_deadline() is None and self.mux.memory.kept_bytes == 0
        assert not [rule for rule in self.mux.approvals.rules() if rule.session]
        alike: dict[int, list[Call]] = {}
        for call in self.calls.values():
            if call.state != "dead":
                alike.setdefault(call.same_as or call.number, []).append(call)
        for calls in alike.values():
            self.are_recorded(calls)

    def are_recorded(self, calls: list[Call]) -> None:
        """See that a call was recorded once for each of its requests that has ended."""
        over, recorded = (sum(getattr(c, what) for c in calls) for what in ("over", "recorded"))
        spare = sum(call.parked for call in calls)
        assert over <= recorded <= over + spare, f"{recorded} records of {over} ends of {calls}"

    def settle(self) -> None:
        """Have everybody do what is waited for."""
        random = Random(0)
        for _ in range(12):
            for slot in sorted(self.wanted):
                self.start(slot)
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            for slot, process in sorted(self.processes.items()):
                lists, process.lists = process.lists, []
                for line in lists:
                    self.serve(slot, line)
                for wire_id in sorted(process.open):
                    if wire_id in process.open:
                        self.answer(random, slot, wire_id)
            self.time_passes(60.0)


def copy_of(call: Call, client: Client, number: int, now: float) -> Call:
    """Return the same call as another client makes it."""
    args = call.args
    if call.method == "tools/call":
        args = args[: args.rindex(b"}") - 16] + spaces(number) + b"}"
    elif call.method == "prompts/get":
        args = b'{"a":"x"' + spaces(number) + b"}"
    else:
        args = b'"%b://%d"' % (call.server.encode(), number)
    name = "mcpctl" if client.kind == "control" else client.name
    return Call(
        number, client.session, client.principal, name, call.server, call.method, call.tool,
        args, now, value_of(args),
    )  # fmt: skip


def kept(grant: Any) -> Any:
    grant.ticket = None
    return grant


DEEDS = {
    "the_configuration_changes": 4,
    "a_client_comes": 5,
    "a_client_goes": 2,
    "clients_call": 12,
    "the_same_is_called_again": 8,
    "a_client_cancels": 2,
    "a_person_answers": 8,
    "a_yes_and_the_same_call": 6,
    "a_person_answers_what_is_over": 1,
    "a_client_answers_a_form": 6,
    "a_liar_answers": 1,
    "a_client_comes_back": 6,
    "rules_are_forgotten": 2,
    "listeners_come_and_go": 2,
    "servers_start": 6,
    "servers_answer": 8,
    "something_goes_wrong": 3,
    "definitions_change": 5,
    "what_was_allowed_changes": 5,
    "pins_are_accepted": 2,
    "arguments_are_checked": 4,
    "the_disk_is_slow_or_full": 2,
    "a_while_passes": 5,
    "the_daemon_is_killed": 1,
}
"""How often each is done."""


class Story(NamedTuple):
    """What happens in one life of a model."""

    begin: int
    deeds: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"begin {self.begin}" + "".join(f"\n  {name} {seed}" for name, seed in self.deeds)


def made_up(seed: str, steps: int) -> Story:
    """Make a story up."""
    random = Random(seed)
    names = random.choices(list(DEEDS), list(DEEDS.values()), k=steps)
    return Story(random.getrandbits(32), tuple((name, random.getrandbits(32)) for name in names))


def play(story: Story, machine: Callable[[], Machine] = Machine) -> None:
    """Have it happen; raise what the model finds."""
    world = machine()
    world.begin(story.begin)
    for name, seed in story.deeds:
        getattr(world, name)(seed)
    world.end()


def problem_of(story: Story) -> str | None:
    """Return in a line what the model finds, ``None`` where it finds nothing."""
    try:
        play(story)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is found
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return None


def found(seed: str, stories: int, steps: int = STEPS) -> tuple[Story, str] | None:
    """Return the first story in which the model finds something, and what."""
    for number in range(stories):
        story = made_up(f"{seed}/{number}", steps)
        problem = problem_of(story)
        if problem is not None:
            return story, problem
    return None


def shortened(story: Story, seconds: float = 20.0) -> Story:
    """Leave out what does not matter to what the model finds."""
    until, size = time.monotonic() + seconds, len(story.deeds) // 2
    while size and time.monotonic() < until:
        at, is_shorter = 0, False
        while at < len(story.deeds) and time.monotonic() < until:
            less = story._replace(deeds=story.deeds[:at] + story.deeds[at + size :])
            if problem_of(less) is None:
                at += size
            else:
                story, is_shorter = less, True
        size = size if is_shorter and size == 1 else size // 2
    return story

"""What clients do, as rules; what matters most has more than one."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.property.model.acting import VENDOR
from tests.property.model.drawing import CAN, IDS, KINDS, SERVERS, TOKENS, VERSIONS, Drawing
from tests.property.model.peers import TOOLS, URIS, Batch, Client, Listening
from tests.property.model.wire import Json, dumps, id_key, members, notification, written

METHODS = ["tools/call"] * 5 + ["prompts/get", "resources/read", "completion/complete", "tasks/get"]


class ClientRules(Drawing):
    """Clients come, ask, listen, answer, give up, and go."""

    @precondition(lambda self: len(self.clients) < 9)
    @rule(
        server=st.sampled_from(["alpha", "alpha", "alpha", "beta", "gamma", None, "control"]),
        kind=st.sampled_from(KINDS),
        capabilities=st.sampled_from(CAN),
        version=st.sampled_from(VERSIONS),
    )
    def a_client_comes(
        self, server: str | None, kind: str, capabilities: Json, version: str
    ) -> None:
        if server == "control":
            self.come(None, "control", {}, version)
        else:
            self.come(server, kind, {} if kind == "modern" else capabilities, version)

    @precondition(lambda self: self.talking())
    @rule(
        data=st.data(),
        idents=st.lists(st.sampled_from(IDS), min_size=1, max_size=3),
        token=st.sampled_from(TOKENS),
        tool=st.sampled_from([*TOOLS]),
        method=st.sampled_from(METHODS),
        server=st.sampled_from(SERVERS),
        vendor=st.sampled_from([b"{}", VENDOR]),
    )
    def clients_call(
        self,
        data: st.DataObject,
        idents: list[bytes],
        token: bytes | None,
        tool: str,
        method: str,
        server: str,
        vendor: bytes,
    ) -> None:
        for ident in idents:
            client = self.pick(data, self.talking())
            asker = self.asker(data, client)
            server = client.server or server
            call = self.make_call(
                client, method, server=server, tool=tool, asker=asker, vendor=vendor
            )
            self.ask(
                client,
                ident,
                method,
                call.params,
                call=call,
                asker=asker,
                token=token,
                vendor=vendor,
            )

    @precondition(lambda self: self.talking())
    @rule(
        idents=st.lists(st.sampled_from(IDS), min_size=2, max_size=4),
        tool=st.sampled_from([*TOOLS]),
        server=st.sampled_from(["alpha", "alpha", "alpha", "beta"]),
        token=st.sampled_from(TOKENS),
        capabilities=st.sampled_from(CAN[:2]),
        turn=st.integers(0, 5),
    )
    def many_clients_call_one_server(
        self,
        idents: list[bytes],
        tool: str,
        server: str,
        token: bytes | None,
        capabilities: Json,
        turn: int,
    ) -> None:
        """Several sessions, one call each, at the same time."""
        users = [c for c in self.talking() if c.uses(server)]
        users = list(dict.fromkeys(users))
        if not users:
            return
        for number, ident in enumerate(idents):
            client = users[(turn + number) % len(users)]
            asker = (capabilities, None) if client.is_modern else None
            call = self.make_call(client, "tools/call", server=server, tool=tool, asker=asker)
            self.ask(client, ident, "tools/call", call.params, call=call, asker=asker, token=token)

    @precondition(lambda self: self.talking())
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        what=st.sampled_from(
            ["list", "subscribe", "subscribe", "unsubscribe", "level", "discover"]
        ),
        method=st.sampled_from(["tools/list", "prompts/list", "resources/list"]),
        uri=st.sampled_from(URIS),
        level=st.sampled_from(["debug", "info", "warning", "error"]),
    )
    def a_client_asks_something_else(
        self, data: st.DataObject, ident: bytes, what: str, method: str, uri: str, level: str
    ) -> None:
        client = self.pick(data, self.talking())
        asker = self.asker(data, client)
        if what == "discover" and client.is_modern:
            asker = asker or ({}, None)
            self.ask(client, ident, "server/discover", b"{}", asker=asker)
        elif what == "list" or asker is not None:
            self.ask(client, ident, method, b"{}", asker=asker)
        elif what == "level":
            if id_key(ident) not in client.owed:
                client.tried_level = level
            self.ask(client, ident, "logging/setLevel", dumps({"level": level}))
        elif id_key(ident) not in client.owed:
            if what == "subscribe":
                client.wants.add(uri)
            self.ask(client, ident, f"resources/{what}", dumps({"uri": uri}))
            if what == "unsubscribe":
                client.wants.discard(uri)

    @precondition(lambda self: any(c.is_modern for c in self.clients.values()))
    @rule(
        data=st.data(),
        ident=st.sampled_from([*IDS, b'"listen"', b"7", b'"7"']),
        flags=st.sets(st.sampled_from(["tools", "prompts", "resources"])),
        uris=st.lists(st.sampled_from(URIS), unique=True, max_size=2),
    )
    def a_client_listens(
        self, data: st.DataObject, ident: bytes, flags: set[str], uris: list[str]
    ) -> None:
        client = self.pick(data, [c for c in self.clients.values() if c.is_modern])
        wants: Json = {f"{flag}ListChanged": True for flag in sorted(flags)}
        if uris:
            wants["resourceSubscriptions"] = uris
        self.ask(
            client,
            ident,
            "subscriptions/listen",
            dumps({"notifications": wants}),
            asker=({}, None),
            listening=Listening(ident, wants),
        )

    @precondition(lambda self: self.batching() or self.scripts())
    @rule(
        data=st.data(),
        what=st.lists(st.sampled_from(["ping", "call", "list", "notice"]), min_size=1, max_size=3),
        tool=st.sampled_from([*TOOLS]),
        server=st.sampled_from(SERVERS),
        timeout=st.sampled_from([None, 3.0]),
    )
    def a_batch_or_a_script(
        self,
        data: st.DataObject,
        what: list[str],
        tool: str,
        server: str,
        timeout: float | None,
    ) -> None:
        """An array of requests of 2025-03-26, or a control call."""
        client = self.pick(data, self.batching() + self.scripts())
        if client.kind == "control":
            self.script(client, b"%d" % next(self.numbers), server, tool, timeout)
            return
        batch, lines = Batch(), []
        for element in what:
            ident = b'"b%d"' % next(self.numbers)
            if element == "notice":
                lines.append(notification("notifications/of/no/account"))
            elif element == "call":
                call = self.make_call(client, "tools/call", server=client.server or "alpha")
                lines.append(
                    self.ask(client, ident, "tools/call", call.params, call=call, batch=batch)
                )
            else:
                method = "ping" if element == "ping" else "tools/list"
                lines.append(self.ask(client, ident, method, b"{}", batch=batch))
        self.send(client.session, b"[" + b",".join(lines) + b"]")

    def scripts(self) -> list[Client]:
        return [c for c in self.clients.values() if c.kind == "control"]

    def batching(self) -> list[Client]:
        return [
            c
            for c in self.clients.values()
            if c.is_initialized and c.version == "2025-03-26" and c.is_legacy
        ]

    @precondition(lambda self: any(c.owed or c.listens for c in self.clients.values()))
    @rule(data=st.data(), is_wrong=st.sampled_from([False, False, True]))
    def a_client_cancels(self, data: st.DataObject, is_wrong: bool) -> None:
        """Cancel something that is in flight, or that is not, or was another's."""
        owed = [
            (client, asked.ident)
            for client in self.clients.values()
            for asked in [*client.owed.values(), *client.listens.values()]
        ]
        client, ident = self.pick(data, owed)
        if is_wrong:
            client = self.pick(data, [*self.clients.values()])
        self.give_up(client, ident)

    @precondition(lambda self: len(self.clients) > 3)
    @rule(data=st.data())
    def a_client_goes(self, data: st.DataObject) -> None:
        self.go(self.pick(data, [*self.clients.values()]))

    # -- answers ----------------------------------------------------------------------------------

    @precondition(lambda self: any(c.questions for c in self.clients.values()))
    @rule(
        data=st.data(),
        how=st.sampled_from(["well", "well", "well", "well", "error", "progress"]),
        times=st.integers(1, 3),
    )
    def clients_answer(self, data: st.DataObject, how: str, times: int) -> None:
        for _ in range(times):
            asked = [(c, key) for c in self.clients.values() for key in c.questions]
            if not asked:
                return
            client, key = self.pick(data, asked)
            if how == "progress" and client.questions[key].token is not None:
                self.tell_progress(client, key)
            else:
                self.reply(client, key, is_error=how == "error")

    @precondition(lambda self: any(c.questions for c in self.clients.values()))
    @rule()
    def liars_answer(self) -> None:
        """Everybody answers what somebody else was asked, or what is no question any more."""
        asked = [(k, q) for c in self.clients.values() for k, q in [*c.questions.items()]]
        late = [(k, q) for c in self.clients.values() for k, q in [*c.withdrawn.items()][-2:]]
        for key, question in [*asked, *late]:
            for other in [*self.clients.values()]:
                self.lie(other, key, question)

    @precondition(lambda self: self.waiting_calls())
    @rule(
        data=st.data(),
        ident=st.sampled_from(IDS),
        how=st.sampled_from(["right", "right", "right", "right", "respelled", "partly"]),
        token=st.sampled_from(TOKENS),
        level=st.sampled_from([None, "info"]),
    )
    def a_client_comes_back(
        self, data: st.DataObject, ident: bytes, how: str, token: bytes | None, level: str | None
    ) -> None:
        call = self.pick(data, self.waiting_calls())
        client = self.clients[call.session]
        if id_key(ident) in client.owed or id_key(ident) in client.listens:
            return
        but = data.draw(st.integers(0, 1)) if how == "partly" else None
        asker = (call.capabilities, level)
        self.come_back(call, ident, asker, token=token, but=but, is_respelled=how == "respelled")

    @precondition(lambda self: self.handles)
    @rule(
        data=st.data(),
        how=st.sampled_from(["stranger", "arguments", "method", "forged", "used", "used"]),
        number=st.integers(1, 20),
    )
    def a_client_comes_back_wrong(self, data: st.DataObject, how: str, number: int) -> None:
        """A handle that is somebody else's, or of another call, or used, or was never given."""
        known = [
            (call, handle)
            for call, handle in self.handles
            if call.session in self.clients
            and (call.handle != handle or call.is_over if how == "used" else call.is_parked)
            and self.is_at_a_legacy_process(call)
        ]
        if not known:
            return
        call, handle = self.pick(data, known)
        client = self.clients[call.session]
        if how == "stranger":
            others = [
                c
                for c in self.clients.values()
                if c is not client and c.is_modern and c.server == client.server
            ]
            if not others:
                return
            client = self.pick(data, others)
        params = members(call.params)
        params["inputResponses"] = b"{}"
        params["requestState"] = handle
        method = call.method
        if how == "forged":
            params["requestState"] = b'"mcpd1.%d.AAAA"' % number
        elif how == "arguments":
            name = "uri" if method == "resources/read" else "arguments"
            params[name] = dumps("nonce://x/N0") if name == "uri" else b'{"nonce":"N0"}'
        elif how == "method":
            method = "prompts/get" if method == "tools/call" else "tools/call"
            if client.server is None or "name" not in params:
                return
        self.come_back_wrong(client, call, b'"w%d"' % next(self.numbers), method, written(params))

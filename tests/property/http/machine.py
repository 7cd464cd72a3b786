"""The machine that hypothesis drives: clients that come, call, lose their connections and go."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.http.clients import PRIMED, Client, Script, View, is_answer
from tests.property.http.world import SERVERS, SOCKETS, World
from tests.support.asgi import MODERN, STREAM, message, notification
from tests.support.virtualtime import settle

VERSIONS = (PRIMED, PRIMED, "2025-06-18", "2025-03-26")
picks = st.integers(0, 999)


class Machine(RuleBasedStateMachine):
    """Sessions and requests without one over HTTP, and sessions on the socket."""

    world: World

    @initialize(replay=st.sampled_from([256, 256, 3]), json_wait=st.sampled_from([5.0, 0.0]))
    def begin(self, replay: int, json_wait: float) -> None:
        self.replay = replay
        self.world = World(replay_events=replay, json_wait=json_wait)
        self.clients: list[Client] = []
        self.scripts: list[Script] = []
        self.left: list[Script] = []
        self.deleted: list[Client] = []
        self.next_tag = 1
        self.socket_tags: dict[int, str] = {}
        self.come(0, "plain", 0)

    def _tag(self) -> int:
        self.next_tag += 1
        return self.next_tag

    def _client(self, pick: int) -> Client:
        return self.clients[pick % len(self.clients)]

    def _views(self, *, is_open: bool) -> list[tuple[Client, View]]:
        return [
            (client, view)
            for client in self.clients
            for view in client.views
            if not view.is_over and bool(view.connections) == is_open
        ]

    # -- clients -----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 4)
    @rule(who=picks, server=st.sampled_from([*SERVERS, ""]), version=picks)
    def come(self, who: int, server: str, version: int) -> None:
        """A client opens a session."""
        token = ("ada", "bob")[who % 2]
        client = Client(self.world, token, server, VERSIONS[version % len(VERSIONS)])
        client.initialize()
        self.clients.append(client)

    @precondition(lambda self: self.clients)
    @rule(
        who=picks, server=st.sampled_from([*SERVERS]), accept=st.sampled_from([None, None, STREAM])
    )
    def call(self, who: int, server: str, accept: str | None) -> None:
        """A client calls a tool."""
        client, tag = self._client(who), self._tag()
        view = View(f"call {tag}", (tag,))
        client.views.append(view)
        more = {} if accept is None else {"accept": accept}
        view.open(client.send("POST", client.call(tag, client.server or server), **more))

    @precondition(lambda self: any(each.version == "2025-03-26" for each in self.clients))
    @rule(who=picks, server=st.sampled_from([*SERVERS]), count=st.integers(1, 3))
    def batch(self, who: int, server: str, count: int) -> None:
        """A client calls several tools with one request."""
        able = [each for each in self.clients if each.version == "2025-03-26"]
        client, tags = able[who % len(able)], tuple(self._tag() for _ in range(count))
        view = View(f"calls {tags}", tags)
        client.views.append(view)
        calls = [client.call(tag, client.server or server) for tag in tags]
        view.open(client.send("POST", calls))

    @rule(
        who=st.sampled_from(["ada", "bob"]),
        server=st.sampled_from([*SERVERS]),
        version=st.sampled_from(["2025-06-18", MODERN]),
    )
    def script(self, who: str, server: str, version: str) -> None:
        """Somebody calls a tool without a session."""
        client = Client(self.world, who, server, version)
        self.scripts.append(Script(client, self._tag(), server))

    @rule(who=st.sampled_from([*SOCKETS]), server=st.sampled_from([*SERVERS]))
    def socket_call(self, who: str, server: str) -> None:
        """A session on the socket calls a tool."""
        tag, endpoint = self._tag(), SOCKETS[who]
        self.socket_tags[tag] = who
        name = "echo" if endpoint else f"{server}__echo"
        arguments = {"tag": tag}
        body = message(
            "tools/call", tag, name=name, arguments=arguments, _meta={"progressToken": tag}
        )

        async def say() -> None:
            import json

            self.world.say(who, json.dumps(body).encode())

        self.world.go(say())

    @precondition(lambda self: self.clients)
    @rule(who=picks)
    def listen(self, who: int) -> None:
        """A client opens the stream of unasked messages, or opens it once more."""
        client = self._client(who)
        view = client.unasked
        if view.now is not None and not view.now.reads.is_set():
            return
        view.read()
        if not view.connections and view.seen != client.expected(view)[: len(view.seen)]:
            view.is_exact = False
        if len(view.seen) != len(client.expected(view)) and not view.connections:
            view.is_exact = False  # what was lost on its way is not sent again without an id
        opened = client.send("GET", accept=STREAM)
        assert opened.status == 200
        view.open(opened)

    @precondition(lambda self: self._views(is_open=False))
    @rule(which=picks)
    def resume(self, which: int) -> None:
        """A client comes back for the rest of a stream."""
        views = self._views(is_open=False)
        self._resume(*views[which % len(views)])

    def _resume(self, client: Client, view: View) -> None:
        if view.last_id is None:
            if view is client.unasked:
                view.is_exact = view.is_exact and not view.seen and not client.expected(view)
                view.open(client.send("GET", accept=STREAM))
            else:
                view.is_over = True  # it has no event id to come back with
            return
        opened = client.send("GET", accept=STREAM, last_event_id=view.last_id)
        if view.is_exact and client.can_resume(view, self.replay):
            assert opened.status == 200, (view.name, opened.body)
        if opened.status != 200:
            assert opened.status == 404
            if view is client.unasked:
                view.is_exact = False
                view.last_id = None
            else:
                view.is_over = True
            return
        view.open(opened)

    @precondition(lambda self: self._views(is_open=True))
    @rule(which=picks, unseen=st.sampled_from([0, 0, 1, 2, 9]))
    def lose(self, which: int, unseen: int) -> None:
        """A connection is lost."""
        views = self._views(is_open=True)
        _, view = views[which % len(views)]
        view.read()
        view.lose(unseen)
        self.world.go(settle())

    @precondition(lambda self: self._views(is_open=True))
    @rule(which=picks, unseen=st.sampled_from([0, 1]), times=st.integers(1, 5))
    def be_away(self, which: int, unseen: int, times: int) -> None:
        """A connection is lost, much is said meanwhile, and its client comes back for it."""
        views = self._views(is_open=True)
        client, view = views[which % len(views)]
        self.lose(which, unseen)
        self.tell(client.server or "plain", times)
        self._resume(client, view)

    @precondition(lambda self: self._views(is_open=True))
    @rule(which=picks)
    def stall(self, which: int) -> None:
        """A client reads nothing for a while, or goes on to read."""
        views = self._views(is_open=True)
        _, view = views[which % len(views)]
        assert view.now is not None
        if view.now.reads.is_set():
            view.now.reads.clear()
        else:
            view.now.reads.set()
            self.world.go(settle())

    @precondition(lambda self: self.scripts)
    @rule(which=picks)
    def leave(self, which: int) -> None:
        """Somebody without a session closes the connection, which cancels the request."""
        script = self.scripts.pop(which % len(self.scripts))
        script.check()
        if script.view.now is not None:
            script.view.now.lose()
        self.world.go(settle())
        if not script.view.is_over:
            self.left.append(script)

    @precondition(lambda self: any(v.tags for _, v in self._views(is_open=True)))
    @rule(which=picks, one=picks)
    def cancel(self, which: int, one: int) -> None:
        """A client cancels a call."""
        views = [each for each in self._views(is_open=True) if each[1].tags]
        client, view = views[which % len(views)]
        view.read()
        tag = view.tags[one % len(view.tags)]
        if any(map(is_answer, view.seen)) or (view.now and not view.now.reads.is_set()):
            return
        is_answered = any(map(is_answer, client.expected(view)))
        view.given_up.add(tag)
        body = notification("notifications/cancelled", requestId=tag)
        assert client.send("POST", body).status == 202
        if not is_answered and tag not in self.world.answered:
            view.cancelled.add(tag)
        if view.given_up == set(view.tags):
            assert view.now is None or view.now.is_over, "its response is awaited no more"

    @precondition(lambda self: self.clients)
    @rule(who=picks)
    def reply(self, who: int) -> None:
        """A client answers what it was asked."""
        client = self._client(who)
        for view in client.views:
            view.read()
            for said in view.seen:
                if not is_answer(said) and "id" in said and said["id"] not in client.answered:
                    client.answered.add(said["id"])
                    text = said["params"]["message"]
                    result = {"action": "accept", "content": {"answers": text}}
                    body = {"jsonrpc": "2.0", "id": said["id"], "result": result}
                    assert client.send("POST", body).status == 202
                    became = self.world.questions[text]
                    assert became != "open", "its answer has not arrived"
                    is_withdrawn = view.given_up and became == '{"action": "cancel"}'
                    assert text in became or became in ('"refused"', "withdrawn") or is_withdrawn

    @precondition(lambda self: self.clients)
    @rule(who=picks)
    def delete(self, who: int) -> None:
        """A client ends its session."""
        client = self.clients.pop(who % len(self.clients))
        client.check()
        for view in client.views:
            for each in view.connections:
                each.reads.set()
        self.world.go(settle())
        client.check()
        for view in client.views:
            view.given_up = set(view.tags)
            view.is_ended = True
        assert client.send("DELETE").status == 204
        client.check()
        assert client.send("POST", message("ping", 1)).status == 404
        assert client.send("GET", accept=STREAM).status == 404
        for view in client.views:
            assert all(each.is_over for each in view.connections), view.name
        self.deleted.append(client)

    @precondition(lambda self: self.clients)
    @rule(who=picks, view=picks, how=picks)
    def steal(self, who: int, view: int, how: int) -> None:
        """A stranger shows somebody's session, or somebody's event id."""
        client = self._client(who)
        stolen = client.views[view % len(client.views)]
        stranger = {"ada": "bob", "bob": "ada"}[client.token]
        if how % 2:
            assert client.send("GET", accept=STREAM, token=stranger).status == 404
            body = message("ping", 1)
            assert client.send("POST", body, token=stranger).status == 404
            assert client.send("DELETE", token=stranger).status == 404
            return
        others = [each for each in self.clients if each is not client]
        if stolen.last_id is None or not others:
            return
        other = others[how % len(others)]
        before = {id(each): each for view in other.views for each in view.connections}
        if any(not each.reads.is_set() for each in before.values()):
            return
        opened = other.send("GET", accept=STREAM, last_event_id=stolen.last_id)
        if opened.status == 404:
            return
        mine = [said for view in other.views for said in other.expected(view)]
        assert all(said in mine for said in opened.messages)
        opened.lose()
        self.world.go(settle())
        for view_ in other.views:  # it may have taken the place of one of its own connections
            view_.read()
            now = view_.now
            if now is not None and now.is_over and not view_.is_over:
                view_.connections.clear()

    # -- servers, and time -------------------------------------------------------------------------

    @precondition(lambda self: self.world.calls)
    @rule(which=picks)
    def answer(self, which: int) -> None:
        """A server answers a call."""
        call = self.world.calls[which % len(self.world.calls)]
        self._act(self.world.answer, call)

    @precondition(lambda self: any(each.token is not None for each in self.world.calls))
    @rule(which=picks, times=st.integers(1, 5))
    def report(self, which: int, times: int) -> None:
        """A server reports progress of a call."""
        able = [each for each in self.world.calls if each.token is not None]
        for _ in range(times):
            self._act(self.world.report, able[which % len(able)])

    @precondition(lambda self: any(each.server == "asking" for each in self.world.calls))
    @rule(which=picks)
    def ask(self, which: int) -> None:
        """A server asks something for a call; it has one call at a time."""
        able = [each for each in self.world.calls if each.server == "asking"]
        if len(able) == 1:
            self._act(self.world.ask, able[0])

    @rule(server=st.sampled_from(["plain", "plain", "asking"]), times=st.integers(1, 5))
    def tell(self, server: str, times: int) -> None:
        """A server says something to everybody."""
        for _ in range(times):
            self._act(self.world.tell, server)

    @rule(seconds=st.sampled_from([0.1, 6.0, 6.0, 16.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        import asyncio

        self.world.go(asyncio.sleep(seconds))

    def _act(self, what: Any, *args: Any) -> None:
        async def act() -> None:
            what(*args)

        self.world.go(act())

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_repeated_or_mixed_up(self) -> None:
        if not hasattr(self, "world"):
            return
        for client in self.clients:
            client.check()
            for view in client.views:
                if view.tags and any(map(is_answer, view.seen)):
                    view.is_over = True
                if view.tags and view.given_up == set(view.tags):
                    view.is_over = True
        for script in self.scripts:
            script.check()
        self._check_sockets()

    def _check_sockets(self) -> None:
        for who in SOCKETS:
            for _, said, _ in self.world.written.get(who, []):
                assert isinstance(said, dict)
                if is_answer(said):
                    assert said["result"]["structuredContent"] == {"tag": said["id"]}
                    assert self.socket_tags[said["id"]] == who
                elif said["method"] == "notifications/progress":
                    assert self.socket_tags[int(said["params"]["message"].split()[1])] == who

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        try:
            self._finish()
        finally:
            for client in (*self.clients, *self.deleted):
                client.end()
            for script in (*self.scripts, *self.left):
                if script.view.now is not None:
                    script.view.now.lose()
            world.go(settle())
            world.end()

    def _finish(self) -> None:
        """Everybody reads, comes back, and gets what is missing; then all leave, and nothing is left."""
        world = self.world
        for client in self.clients:
            for view in client.views:
                for each in view.connections:
                    each.reads.set()
        world.go(settle())
        while world.calls:
            self._act(world.answer, world.calls[0])
        for client in self.clients:
            for view in client.views:
                view.read()
                for _ in range(3):
                    is_done = view.tags and any(map(is_answer, view.seen))
                    if view.is_over or is_done:
                        break
                    if view.now is not None and not view.now.is_over:
                        break
                    view.connections.clear()
                    self._resume(client, view)
                    view.read()
            client.check()
            for view in client.views:
                if view.is_exact and not view.is_over:
                    assert view.seen == client.expected(view), (view.name, view.seen)
                    assert not view.tags or is_answer(view.seen[-1]), view.name
        for script in self.scripts:
            script.check()
            assert script.view.is_over, script.view.name
        for tag, who in self.socket_tags.items():
            said = [each for _, each, _ in world.written.get(who, []) if is_answer(each)]
            assert len([each for each in said if each["id"] == tag]) == 1, tag  # type: ignore[call-overload]
        for script in self.left:
            assert script.view.now is None or not any(map(is_answer, script.view.seen))
        for client in self.clients:
            client.end()
            assert client.send("DELETE").status == 204
        for who in SOCKETS:
            self._act(world.do_close, who)
        assert world.mux.memory.kept_bytes == 0, "memory is counted for nobody"
        assert not world.front.application._in_flight
        assert not world.front.stateless._carriers
        assert not world.core._outboxes, "a session of nobody goes on"

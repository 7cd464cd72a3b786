"""Clients of the front, and what each of them may expect on its streams.

A ``View`` is one stream as its client sees it, over as many connections as it takes. What it must
show is what the core has said for it, in that order, nothing twice, and nothing of anybody else.
"""

from __future__ import annotations

from typing import Any, Final

from mcpd.ids import SessionId
from tests.property.http.world import World
from tests.support.asgi import BOTH, META, MODERN, STREAM, Exchanged, message, notification
from tests.support.virtualtime import settle

Json = dict[str, Any]

PRIMED: Final = "2025-11-25"
HELLO: Final = {"elicitation": {}}
ALONE: Final = 7
"""The id of every request without a session."""


class View:
    """One stream: that of a request or of a batch, or of what belongs to none."""

    def __init__(self, name: str, tags: tuple[int, ...] = ()) -> None:
        self.name = name
        self.tags = tags
        self.connections: list[Exchanged] = []
        """The present one is the last; those before it are read to their ends."""
        self._taken: dict[Exchanged, int] = {}
        self.seen: list[Any] = []
        self.last_id: str | None = None
        self.is_over = False
        """Whether the client expects nothing more: it has the response, or has given up."""
        self.is_exact = True
        """Whether nothing may be missing."""
        self.cancelled: set[int] = set()
        """Tags of calls that get no answer, because they were cancelled before they had one."""
        self.given_up: set[int] = set()
        """Tags of calls that were cancelled, perhaps too late."""
        self.is_ended = False
        """Whether its session was ended."""

    @property
    def now(self) -> Exchanged | None:
        return self.connections[-1] if self.connections else None

    def open(self, exchanged: Exchanged) -> None:
        self.connections.append(exchanged)
        self._taken[exchanged] = 0

    def read(self) -> None:
        """Take what has come on every connection."""
        for exchanged in list(self.connections):
            if exchanged.headers.get("content-type", "").startswith(STREAM):
                events = exchanged.events[self._taken[exchanged] :]
                self._taken[exchanged] += len(events)
            elif exchanged.status == 202:
                assert self.given_up == set(self.tags), f"{self.name} is not answered"
                events = []
            elif exchanged.status == 404 and self.is_ended:
                events = []
            elif exchanged.is_complete and not self._taken[exchanged]:
                self._taken[exchanged] = 1
                events = [(None, each) for each in exchanged.messages]
            else:
                events = []
            for ident, said in events:
                self.last_id = ident or self.last_id
                if said is not None:
                    self.seen.append(said)
            if exchanged.is_over and exchanged is not self.now:
                self.connections.remove(exchanged)

    def lose(self, unseen: int) -> None:
        """Lose the connection, and of what has come some events that were on their way."""
        exchanged = self.now
        if exchanged is None:
            return
        if len(self.connections) > 1:
            unseen = 0
        exchanged.lose()
        taken = [each for each in exchanged.events[: self._taken[exchanged]] if each[0] is not None]
        while unseen and len(taken) > 1:
            unseen -= 1
            _, said = taken.pop()
            self.last_id = taken[-1][0]
            if said is not None:
                assert self.seen.pop() == said
        self.connections.clear()


class Client:
    """A client of one token on one endpoint."""

    def __init__(self, world: World, token: str, server: str, version: str) -> None:
        self.world = world
        self.token = token
        self.server = server
        self.path = f"/mcp/{server}" if server else "/mcp"
        self.version = version
        self.ident: str | None = None
        self.core: SessionId | None = None
        self.unasked = View("unasked")
        self.views: list[View] = [self.unasked]
        self.answered: set[Any] = set()
        """Ids of the questions it has answered."""

    def tool(self, server: str) -> str:
        return "echo" if self.server else f"{server}__echo"

    def call(self, tag: int, server: str) -> Json:
        arguments, meta = {"tag": tag}, {"progressToken": tag}
        return message("tools/call", tag, name=self.tool(server), arguments=arguments, _meta=meta)

    def headers(self) -> Json:
        found: Json = {"token": self.token, "mcp_protocol_version": self.version}
        if self.ident is not None:
            found["mcp_session_id"] = self.ident
        return found

    def send(self, method: str, body: Any = None, **more: Any) -> Exchanged:
        async def sent() -> Exchanged:
            headers = {**self.headers(), **more}
            return self.world.front.send(method, self.path, body, **headers)

        found: Exchanged = self.world.go(sent())
        return found

    # -- a session ---------------------------------------------------------------------------------

    def initialize(self) -> None:
        """Open a session."""
        body = message("initialize", 0, protocolVersion=self.version, capabilities=HELLO)
        answer = self.send("POST", body)
        assert answer.status == 200, answer.body
        self.ident = answer.headers["mcp-session-id"]
        assert self.send("POST", notification("notifications/initialized")).status == 202
        session = self.world.front.legacy.sessions.find(
            self.ident, self._token, self.server or None
        )
        assert session is not None and session.core is not None
        self.core = session.core

    @property
    def _token(self) -> Any:
        from tests.support.asgi import TOKENS

        return TOKENS[self.token]

    def expected(self, view: View) -> list[Any]:
        """Return what the core has said for a stream, in its order."""
        keys = {str(tag) for tag in view.tags}
        asked = {str(tag) for each in self.views for tag in each.tags}
        found = []
        for key, said, is_response in self.world.written.get(str(self.core), []):
            is_ours = key in keys if view.tags else not is_response and key not in asked
            if is_ours:
                found.append(said)
        return found

    def can_resume(self, view: View, most: int) -> bool:
        """Tell whether the front must still have everything that the client has not seen."""
        expected = self.expected(view)
        told = [each for each in expected if not is_answer(each)]
        return len(view.seen) >= len(told) - most or len(view.seen) == len(expected)

    def check(self) -> None:
        """Nothing comes twice, nothing in another order, and nothing of anybody else."""
        for view in self.views:
            view.read()
            expected = self.expected(view) if self.core is not None else None
            if expected is None:
                continue
            if view.is_exact:
                assert view.seen == expected[: len(view.seen)], (view.name, view.seen, expected)
            else:
                rest = iter(expected)
                assert all(each in rest for each in view.seen), (view.name, view.seen, expected)
            for said in view.seen:
                mine = set(view.tags)
                assert tags_in(said) <= mine, (view.name, said)
                assert not view.cancelled & answers_in(said), ("cancelled", said)

    def end(self) -> None:
        """Close every connection."""
        for view in self.views:
            for exchanged in view.connections:
                exchanged.lose()
            view.connections.clear()
        self.world.go(settle())


def is_answer(said: Any) -> bool:
    """Tell whether it answers a request, or several."""
    return isinstance(said, list) or "method" not in said


def answers_in(said: Any) -> set[int]:
    """Return the ids that it answers."""
    found = said if isinstance(said, list) else [said]
    return {each["id"] for each in found if is_answer(each)}


def tags_in(said: Any) -> set[int]:
    """Return the tags of the calls that it belongs to."""
    if is_answer(said):
        found = said if isinstance(said, list) else [said]
        for each in found:
            if "result" in each:
                assert each["result"]["structuredContent"] == {"tag": each["id"]}, each
        return answers_in(said)
    text = str(said["params"].get("message", ""))
    return {int(text.split()[1])} if text.startswith(("progress", "question")) else set()


class Script:
    """Requests without a session: those of scripts and of modern clients."""

    def __init__(self, client: Client, tag: int, server: str) -> None:
        self.client = client
        self.view = View(f"lone {tag}", (tag,))
        self.tag = tag
        body = client.call(tag, server)
        body["id"] = body["params"]["_meta"]["progressToken"] = ALONE
        more: Json = {"accept": BOTH}
        if client.version == MODERN:
            body["params"]["_meta"].update(META)
            more |= {"mcp_method": "tools/call", "mcp_name": client.tool(server)}
        self.view.open(client.send("POST", body, **more))

    def check(self) -> None:
        view = self.view
        view.read()
        answers = [each for each in view.seen if is_answer(each)]
        assert len(answers) <= 1
        for each in answers:
            assert each["id"] == ALONE
            assert each["result"]["structuredContent"] == {"tag": self.tag}, each
        told = [each for each in view.seen if not is_answer(each)]
        texts = [each["params"]["message"] for each in told if "message" in each["params"]]
        assert texts == [f"progress {self.tag} {n + 1}" for n in range(len(texts))]
        if any(map(is_answer, view.seen)):
            assert is_answer(view.seen[-1])
            view.is_over = True

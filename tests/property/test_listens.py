"""Whoever listens, and whatever servers do: each listen hears what is its own, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpd.core.interface import commands as cmd
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.versions import NEWEST_MODERN
from tests.support.transcript import Conversation

SESSIONS = st.sampled_from(["1", "2", "3"])
IDENTS = st.sampled_from([0, 1, "1", "a"])
URIS = st.lists(st.sampled_from(["r:a", "r:b", "r:a/x", "r:no"]), max_size=3)
RESOURCES = [{"uri": uri, "name": uri} for uri in ("r:a", "r:b", "r:a/x", "r:no")]
LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": RESOURCES},
    "resources/templates/list": {"resourceTemplates": []},
}
Key = tuple[str, str]
"""A session, and the id of a listen as JSON."""


class _Open:
    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted
        self.honoured: dict[str, Any] | None = None  # once it is acknowledged


class Listening(RuleBasedStateMachine):
    """Sessions 1 and 2 are on the server's own endpoint, 3 on the aggregate."""

    era = "legacy"

    def __init__(self) -> None:
        super().__init__()
        self.play = Conversation()
        self.open: dict[Key, _Open] = {}
        self.heard: list[tuple[Key, str, Any]] = []
        self.asked: list[dict[str, Any]] = []  # what the server has not answered
        self.subscribed: dict[Any, str] = {}  # what it will tell of, by the listen if it is modern
        self.lists_by: int | None = None  # the listen for its lists
        self.launch = 1
        self.is_up = False
        self.listing = 0
        self.configure()
        for session in ("1", "2", "3"):
            self.join(session)
        self.start()

    # -- both ends -------------------------------------------------------------------------------

    def configure(self) -> None:
        name = f"echo-{self.launch}"
        self.take(self.play.do_server("echo", f"era={self.era}", f"launch={name}"))

    def join(self, session: str) -> None:
        self.take(self.play.do_attach(session, *(["echo"] if session != "3" else [])))

    def take(self, done: list[cmd.Command]) -> None:
        """Look at all that the mux does."""
        for command in done:
            if isinstance(command, cmd.ToServer):
                self.at_server(command)
            elif isinstance(command, cmd.ToSession):
                self.at_session(command)

    def at_server(self, command: cmd.ToServer) -> None:
        if command.slot != f"echo-{self.launch}":
            return  # to the one that was replaced
        assert self.is_up, "nobody is there to be asked"
        said = json.loads(command.data)
        if "id" in said:
            self.asked.append(said)
        elif said["method"] == "notifications/cancelled":
            ident = said["params"]["requestId"]
            self.subscribed.pop(ident, None)
            self.asked = [one for one in self.asked if one["id"] != ident]

    def at_session(self, command: cmd.ToSession) -> None:
        assert isinstance(command.data, bytes)
        said, session = json.loads(command.data), str(command.session)
        if "method" not in said:
            if said["id"] != "attach":
                raise AssertionError(f"a listen was answered: {said}")
            return
        key = (session, json.dumps(said["params"]["_meta"][modern_meta.SUBSCRIPTION_KEY]))
        found = self.open.get(key)
        assert found is not None, f"for a listen that is over, or never was: {said}"
        method = said["method"].removeprefix("notifications/")
        if method == "subscriptions/acknowledged":
            assert found.honoured is None, "acknowledged twice"
            found.honoured = said["params"]["notifications"]
            honoured = found.honoured.get("resourceSubscriptions", ())
            missing = {*found.wanted.get("resourceSubscriptions", ())} - {*honoured}
            assert missing <= {"r:no"}
            return
        assert found.honoured is not None, "something came before the acknowledgement"
        self.heard.append((key, method, said["params"].get("uri")))

    # -- clients ---------------------------------------------------------------------------------

    @rule(session=SESSIONS, ident=IDENTS, tools=st.booleans(), uris=URIS)
    def listen(self, session: str, ident: Any, tools: bool, uris: list[str]) -> None:
        key = (session, json.dumps(ident))
        if key in self.open:
            return
        wanted: dict[str, Any] = {"toolsListChanged": True} if tools else {}
        if uris:
            wanted["resourceSubscriptions"] = uris
        self.open[key] = _Open(wanted)
        about = {modern_meta.VERSION_KEY: NEWEST_MODERN, modern_meta.CAPABILITIES_KEY: {}}
        params = {"notifications": wanted, "_meta": about}
        line = {"jsonrpc": "2.0", "id": ident, "method": "subscriptions/listen", "params": params}
        self.take(self.play.say(session, json.dumps(line).encode()))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        session, ident = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[session, ident]
        params = {"requestId": json.loads(ident)}
        line = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        self.take(self.play.say(session, json.dumps(line).encode()))

    @rule(session=SESSIONS)
    def leave(self, session: str) -> None:
        self.open = {key: found for key, found in self.open.items() if key[0] != session}
        self.take(self.play.do_close(session))
        self.join(session)

    # -- the server ------------------------------------------------------------------------------

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.answer_one(data.draw(st.sampled_from(self.asked)))

    def answer_one(self, asked: dict[str, Any]) -> None:
        self.asked.remove(asked)
        ident, method, params = asked["id"], asked["method"], asked.get("params") or {}
        answer: dict[str, Any] = {"result": LISTS.get(method, {})}
        if method == "tools/list":
            answer = {"result": {"tools": [{"name": f"t{self.listing}", "inputSchema": {}}]}}
        elif method in ("initialize", "server/discover"):
            has = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
            said = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "e", "version": "1"}}
            modern_said = {"supportedVersions": [NEWEST_MODERN]}
            shown = said if method == "initialize" else modern_said
            answer = {"result": {"capabilities": has, **shown}}
        elif method == "resources/subscribe":
            if params["uri"] == "r:no":
                answer = {"error": {"code": -32602, "message": "no"}}
            else:
                self.subscribed[params["uri"]] = params["uri"]
        elif method == "resources/unsubscribe":
            self.subscribed.pop(params["uri"], None)
        elif method == "subscriptions/listen":
            self.acknowledge(ident, params["notifications"])
            return
        line = {"jsonrpc": "2.0", "id": ident, **answer}
        self.take(self.play.say("echo", json.dumps(line).encode()))

    def acknowledge(self, ident: int, wanted: dict[str, Any]) -> None:
        uris = [uri for uri in wanted.get("resourceSubscriptions", ()) if uri != "r:no"]
        for uri in uris:
            self.subscribed[ident] = uri
        if "toolsListChanged" in wanted:
            self.lists_by = ident
        honoured = {**wanted, "resourceSubscriptions": uris} if uris else {}
        self.notify("subscriptions/acknowledged", {"notifications": honoured}, ident)

    def notify(self, method: str, params: dict[str, Any], by: int | None) -> None:
        if self.era == "modern":
            params = {**params, "_meta": {modern_meta.SUBSCRIPTION_KEY: by}}
        line = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        self.take(self.play.say("echo", json.dumps(line).encode()))

    @precondition(lambda self: self.is_up)
    @rule(uri=st.sampled_from(["r:a", "r:b", "r:a/x", "r:a/x/y", "r:ab", "r:no"]))
    def touch(self, uri: str) -> None:
        """A resource changes: who follows it, or what it is a part of, hears of it once."""
        telling = {by: own for by, own in self.subscribed.items() if _covers(own, uri)}
        following = {
            key: [
                own
                for own in (found.honoured or {}).get("resourceSubscriptions", ())
                if _covers(own, uri)
            ]
            for key, found in self.open.items()
        }
        expected = {k for k, own in following.items() if set(own) & set(telling.values())}
        self.heard.clear()
        for by in telling if self.era == "modern" else list(telling)[:1]:
            self.notify("resources/updated", {"uri": uri}, by)
        told = [key for key, method, said in self.heard if (method, said) == (_UPDATED, uri)]
        assert len(told) == len(self.heard) == len(set(told))
        # what is told because of one subscription is for another, too, that is still under way
        assert expected <= set(told) <= {key for key, own in following.items() if own}

    @precondition(lambda self: self.is_up)
    @rule()
    def grow(self) -> None:
        self.listing += 1
        if self.era == "legacy" or self.lists_by is not None:
            self.notify("tools/list_changed", {}, self.lists_by)

    @precondition(lambda self: self.is_up)
    @rule()
    def restart(self) -> None:
        self.stop()
        self.take(self.play.do_down("echo", "restarting"))
        self.start()

    @precondition(lambda self: self.is_up)
    @rule()
    def reload(self) -> None:
        self.stop()
        self.launch += 1
        self.configure()
        self.start()

    def stop(self) -> None:
        self.is_up = False
        self.asked.clear()
        self.subscribed.clear()
        self.lists_by = None

    def start(self) -> None:
        self.is_up = True
        self.take(self.play.do_up("echo"))

    @rule()
    def time_passes(self) -> None:
        """It is enough for every notice, and the server is never so slow that it is given up."""
        while self.asked:
            self.answer_one(self.asked[0])
        self.heard.clear()
        self.take(self.play._wait(1.0))
        told = [(key, method) for key, method, _ in self.heard]
        assert all(told.count(one) <= 1 + 4 for one in told)
        for key, method in told:
            if method == "tools/list_changed":
                assert self.open[key].wanted.get("toolsListChanged"), "nobody asked for it"

    # -- in the end ------------------------------------------------------------------------------

    @invariant()
    def the_server_tells_of_what_is_followed(self) -> None:
        if self.asked or not self.is_up:
            return
        wanted = {
            uri
            for found in self.open.values()
            for uri in (found.honoured or {}).get("resourceSubscriptions", ())
        }
        assert {*self.subscribed.values()} == wanted - {"r:no"}
        assert all(found.honoured is not None for found in self.open.values()), "kept waiting"

    def teardown(self) -> None:
        for session in ("1", "2", "3"):
            self.open = {key: found for key, found in self.open.items() if key[0] != session}
            self.take(self.play.do_close(session))
        self.play.do_down("echo", "stopped")
        sizes = self.play.mux.table_sizes()
        assert not any(sizes.values()), sizes


_UPDATED = "resources/updated"


def _covers(own: str, uri: str) -> bool:
    return uri == own or uri.startswith(own.rstrip("/") + "/")


class ListeningToModern(Listening):
    """Likewise in front of a modern server."""

    era = "modern"


TestListening = Listening.TestCase
TestListening.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestListeningToModern = ListeningToModern.TestCase
TestListeningToModern.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_owner_of_a_resource_is_found_after_two_restarts_while_it_lists() -> None:
    """
    The resource was left out of the acknowledgement, as one that nobody has.
    """
    world = ListeningToModern()
    while world.asked:
        world.answer_one(world.asked[0])
    world.listen("3", 0, False, ["r:a"])
    for _ in range(2):
        world.restart()
        while not any(each["method"] == "resources/list" for each in world.asked):
            world.answer_one(world.asked[0])
    while world.asked:
        world.answer_one(world.asked[0])
    honoured = world.open["3", "0"].honoured
    assert honoured is not None and honoured["resourceSubscriptions"] == ["r:a"]

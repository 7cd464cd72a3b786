"""What modern clients listen to, in front of servers of either era."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import ToSession
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.versions import NEWEST_MODERN
from tests.unit.core.mux.world import World

ERAS = ["legacy", "modern"]


class Listeners(World):
    """A world with one server, whose sessions listen."""

    def __init__(self, era: str = "legacy", *kinds: str, **fields: str) -> None:
        super().__init__()
        self.run(f"!! server echo era={era}" + "".join(f" {k}={v}" for k, v in fields.items()))
        self.run(" ".join(("!! start echo", *kinds)))

    def listen(self, session: int, ident: Any, **wanted: Any) -> list[cmd.Command]:
        """Have a session listen; the server grants what it is asked for it."""
        about = {modern_meta.VERSION_KEY: NEWEST_MODERN, modern_meta.CAPABILITIES_KEY: {}}
        done = self.say(
            str(session),
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": ident,
                    "method": "subscriptions/listen",
                    "params": {"notifications": wanted, "_meta": about},
                }
            ).encode(),
        )
        return done + self.grant(done)

    def grant(self, done: list[cmd.Command]) -> list[cmd.Command]:
        """Have the server answer what it was asked."""
        more: list[cmd.Command] = []
        for command in done:
            if not isinstance(command, cmd.ToServer):
                continue
            asked = json.loads(command.data)
            if asked["method"] == "subscriptions/listen":
                about = {modern_meta.SUBSCRIPTION_KEY: asked["id"]}
                heard = {"notifications": asked["params"]["notifications"], "_meta": about}
                more += self.notify("subscriptions/acknowledged", heard)
            elif "id" in asked:
                more += self.answer("echo", asked["id"])
        return more

    def notify(self, method: str, params: Any) -> list[cmd.Command]:
        """Have the server say something."""
        said = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        return self.say("echo", json.dumps(said).encode())

    def filters(self, era: str, deny: str) -> list[cmd.Command]:
        """Change what is shown of the server's tools."""
        return self.do_server("echo", f"era={era}", f"deny={deny}")


def heard(done: list[cmd.Command], session: int) -> list[tuple[str, Any]]:
    """Return what a session was told, by the last word of the method, and with whose id."""
    told = [
        json.loads(b"".join(c.data) if isinstance(c.data, tuple) else c.data)
        for c in done
        if isinstance(c, ToSession) and c.session == session
    ]
    return [
        (m["method"].rsplit("/", 1)[1], m["params"]["_meta"][modern_meta.SUBSCRIPTION_KEY])
        for m in told
        if "method" in m
    ]


@pytest.mark.parametrize("era", ERAS)
def test_the_acknowledgement_comes_first_and_is_not_for_losing(era: str):
    """
    A slow client loses notifications: without this one it would wait for ever.
    """
    world = Listeners(era)
    world.run("!! attach 1 echo")
    done = world.listen(1, "l", toolsListChanged=True, resourceSubscriptions=["a:b"])
    assert heard(done, 1) == [("acknowledged", "l")]
    assert not [c for c in done if isinstance(c, ToSession) and c.is_notification]
    told = world.filters(era, "write")
    assert heard(told, 1) == [("list_changed", "l")]
    assert all(c.is_notification for c in told if isinstance(c, ToSession))


@pytest.mark.parametrize("era", ERAS)
def test_listens_of_one_session_with_ids_that_look_alike_are_apart(era: str):
    world = Listeners(era)
    world.run("!! attach 1 echo")
    for ident in (1, "1", 0, "ü-1"):
        world.listen(1, ident, toolsListChanged=True)
    assert heard(world.filters(era, "write"), 1) == [
        ("list_changed", ident) for ident in (1, "1", 0, "ü-1")
    ]
    cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    assert world.run(f">> 1 {cancelled}") == []
    assert world.run("!! +1") == []
    assert [ident for _, ident in heard(world.filters(era, "echo"), 1)] == ["1", 0, "ü-1"]


def test_a_listen_is_not_in_flight_and_no_load():
    """
    B148: an idle server may be stopped whoever listens to it.
    """
    world = Listeners()
    world.run("!! open 1")
    world.listen(1, 1, toolsListChanged=True, promptsListChanged=True)
    assert world.mux.in_flight_count() == 0
    sizes = world.mux.table_sizes()
    assert sizes["listens"] == 1
    assert sizes["owed"] == sizes["users"] == sizes["in_flight"] == 0


def test_who_listens_too_much_is_told_so():
    """
    ClientSubscriptions count with the requests of a session: their number is bounded alike.
    """
    world = Listeners()
    world.mux.context.settings = type(world.mux.context.settings)(version="1", max_in_flight=3)
    world.run("!! open 1")
    for ident in range(3):
        world.listen(1, ident, toolsListChanged=True)
    [command] = world.listen(1, 3, toolsListChanged=True)
    assert isinstance(command, ToSession) and isinstance(command.data, bytes)
    assert json.loads(command.data)["error"]["data"]["kind"] == "rate_limited"


@pytest.mark.parametrize("era", ERAS)
def test_a_refused_resource_leaves_the_others(era: str):
    world = Listeners(era)
    world.run("!! attach 1 echo")
    about = {modern_meta.VERSION_KEY: NEWEST_MODERN, modern_meta.CAPABILITIES_KEY: {}}
    wanted = {"resourceSubscriptions": ["a:no", "a:b"]}
    params = {"notifications": wanted, "_meta": about}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    first, second = world.say("1", json.dumps(request).encode())
    assert isinstance(first, cmd.ToServer)
    error = {"code": -32602, "message": "no"}
    answer = {"jsonrpc": "2.0", "id": json.loads(first.data)["id"], "error": error}
    assert heard(world.say("echo", json.dumps(answer).encode()), 1) == []
    [told] = world.grant([second])
    assert isinstance(told, ToSession) and isinstance(told.data, bytes)
    honoured = json.loads(told.data)["params"]["notifications"]
    assert honoured == {"resourceSubscriptions": ["a:b"]}
    assert world.mux.table_sizes()["subscriptions"] == 1


def test_a_session_of_both_eras_hears_each_in_its_words():
    world = Listeners()
    world.run("!! join 1 echo")
    world.listen(1, "l", toolsListChanged=True)
    lines = world.run("!! server echo deny=write")
    assert len(lines) == 2
    assert sum('"l"' in line for line in lines) == 1


def test_one_that_comes_after_a_subscription_stands_does_not_wait():
    world = Listeners()
    world.run("!! join 1 echo", "!! attach 2 echo")
    world.request(1, 1, "resources/subscribe", uri="a:b")
    world.answer("echo", 3)
    done = world.listen(2, 1, resourceSubscriptions=["a:b"])
    assert heard(done, 2) == [("acknowledged", 1)]
    assert not [c for c in done if isinstance(c, cmd.ToServer)]
    params = {"requestId": 1}
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert world.say("2", json.dumps(gone).encode()) == [], "the other session is still there"


@pytest.mark.parametrize("era", ERAS)
def test_an_unfinished_listen_survives_a_crash(era: str):
    """
    A server that comes back within its start is waited for; the next process is asked again.
    """
    world = Listeners(era)
    world.run("!! attach 1 echo")
    about = {modern_meta.VERSION_KEY: NEWEST_MODERN, modern_meta.CAPABILITIES_KEY: {}}
    params = {"notifications": {"resourceSubscriptions": ["a:b"]}, "_meta": about}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    world.say("1", json.dumps(request).encode())
    world.run("!! down echo crashed")
    assert heard(world.do_start("echo"), 1) == [("acknowledged", 1)]


def test_when_the_daemon_ends_every_listen_ends_with_its_result():
    world = Listeners()
    world.run("!! attach 1 echo", "!! open 2")
    for session in (1, 2):
        world.listen(session, "l", toolsListChanged=True)
    done = world.handle(ev.Draining())
    told = [json.loads(c.data) for c in done if isinstance(c, ToSession) and c.data]  # type: ignore[arg-type]
    meta = {modern_meta.SUBSCRIPTION_KEY: "l", modern_meta.DRAINING_KEY: True}
    result = {"resultType": "complete", "_meta": meta}
    assert [(m["id"], m["result"]) for m in told] == [("l", result), ("l", result)]
    assert world.mux.table_sizes()["listens"] == 0
    assert world.handle(ev.Draining()) == []


def test_a_notice_that_is_due_later_is_not_for_who_has_left_meanwhile():
    world = Listeners()
    world.run("!! attach 1 echo", "!! attach 2 echo")
    for session in (1, 2):
        world.listen(session, 1, toolsListChanged=True)
    for deny in ("write", "echo"):
        world.filters("legacy", deny)
    world.run('>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    world.run("!! close 2")
    assert world.run("!! +1") == []

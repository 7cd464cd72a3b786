"""Cases from the field: many clients of one process, and who gets what."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, installed
from tests.support.daemon import Box, Peer, RpcError
from tests.support.waiting import scaled, wait_until

CLIENTS = CALLS = 20
LIST_CHANGED = "notifications/tools/list_changed"
HANG = {"name": "hang"}


def configure(box: Box) -> None:
    for name in ("echo", "cancels", "grows", "parallel", "levels"):
        box.fake(name)
    for name in ("single", "queue"):
        box.fake(name, max_concurrency=1)
    box.fake("base", env={"A": "1", "B": "2"}, cwd=str(box.root))
    base = box.servers["base"]
    box.servers |= {
        "other value": base | {"env": {"A": "1", "B": "3"}},
        "other directory": base | {"cwd": str(box.root / "home")},
        "other order": base | {"args": [*base["args"][:1], *_turned(base["args"][1:])]},
        "other order of variables": base | {"env": {"B": "2", "A": "1"}},
        "other settings": base | {"startup_timeout": 29, "tools": {"deny": ["crash"]}},
    }
    for number in range(8):
        box.fake(f"start{number}")


def _turned(args: list[str]) -> list[str]:
    return [*args[2:], *args[:2]]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with a server for each test."""
    with installed(configure) as made:
        yield made


def test_clients_with_the_same_ids_get_their_own_answers(box: Box):
    """
    B076: one client got another's result. Here all use ids 1 to 20, and the order is random.
    """
    pauses = random.Random(1).sample(range(CLIENTS * CALLS), CLIENTS * CALLS)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(box.session("echo")) for _ in range(CLIENTS)]
        wanted = {}
        for ident in range(1, CALLS + 1):
            for client in clients:
                wanted[client, ident] = pause = pauses.pop()
                call = {"name": "sleep", "arguments": {"ms": pause}}
                client.start("tools/call", call, ident=ident)
        for (client, ident), pause in wanted.items():
            assert client.finish(ident)["content"][0]["text"] == f"slept {pause}"


def test_an_id_that_is_in_flight_is_refused_and_the_first_goes_on(box: Box):
    """
    B076: a client that uses an id twice must hurt itself at most.
    """
    with box.session("echo") as session:
        session.start("tools/call", {"name": "sleep", "arguments": {"ms": 200}}, ident=1)
        session.start("ping", ident=1)
        with pytest.raises(RpcError) as caught:
            session.finish(1)
        assert caught.value.code == -32600
        assert session.finish(1)["content"][0]["text"] == "slept 200"


def test_a_cancellation_reaches_the_callers_own_call_at_once(box: Box):
    """
    B078: it was queued behind the call, or sent with the client's id, or to another's call.
    """
    with box.session("cancels") as one, box.session("cancels") as two:
        two.start("tools/call", HANG, ident=5)
        wait_until(lambda: box.messages("cancels", "tools/call"))
        one.start("tools/call", HANG, ident=5)
        for number in range(100):
            one.start("tools/call", HANG, ident=100 + number)
        one.notify("notifications/cancelled", {"requestId": 5})
        watch = Watch()
        one.notify("notifications/cancelled", {"requestId": 987})
        wait_until(lambda: box.messages("cancels", "notifications/cancelled"))
        assert watch.seconds < scaled(1)
        second_call = box.messages("cancels", "tools/call")[1]["id"]
        assert two.request("tools/call", {"name": "cancelled"})["content"][0]["text"] == json.dumps(
            [second_call]
        )


def test_a_cancellation_does_not_wait_for_the_calls_before_it(box: Box):
    """
    B078: with one call at a time, others stand in the queue before it.
    """
    with box.session("queue") as session, box.session("queue") as other:
        session.start("tools/call", HANG, ident="runs")
        wait_until(lambda: box.messages("queue", "tools/call"))
        waits = [other.start("tools/call", {"name": "pid"}) for _ in range(20)]
        session.start("tools/call", HANG, ident="never sent")
        session.notify("notifications/cancelled", {"requestId": "never sent"})
        session.notify("notifications/cancelled", {"requestId": "runs"})
        for ident in waits:
            other.finish(ident)
    named = [m["params"]["name"] for m in box.messages("queue", "tools/call")]
    assert named.count("hang") == 1


def notices(session: Peer) -> int:
    """Return how many list changes have come; whoever answers a ping has sent all before."""
    session.request("ping")
    return sum(1 for message in session.inbox if message.get("method") == LIST_CHANGED)


def test_each_client_hears_of_a_change_once_and_then_sees_it(box: Box):
    """
    B082: it reached the last client alone, or came before the list was another one.
    """
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(box.session("grows", handshake=False)) for _ in range(3)]
        for session in sessions:
            assert session.initialize()["capabilities"]["tools"] == {"listChanged": True}
        sessions[0].call("grow", name="learned")
        for session in sessions:
            session.take_notification(LIST_CHANGED)
            tools = session.request("tools/list", {})["tools"]
            assert tools[-1]["name"] == "learned"
        assert [notices(session) for session in sessions] == [0, 0, 0]
        line = json.dumps({"jsonrpc": "2.0", "method": LIST_CHANGED})
        sessions[0].call("raw_line", line="\n".join([line] * 50))
        for session in sessions:
            session.take_notification(LIST_CHANGED)
        lists = len(box.messages("grows", "tools/list"))
        assert lists <= 5
        assert all(notices(session) <= 2 for session in sessions)


def test_what_makes_two_entries_one_process(box: Box):
    """
    B085: two projects shared a process, because its key ignored the directory or the variables.
    """
    names = [name for name in box.servers if name == "base" or name.startswith("other ")]
    pids = {}
    for name in names:
        with box.session(name) as session:
            pids[name] = session.text("pid")
    assert pids["other order of variables"] == pids["other settings"] == pids["base"]
    assert len(set(pids.values())) == 4
    with box.session("other directory") as session:
        assert session.text("cwd") == str(box.root / "home")
    with box.session("other settings") as session, box.session("base") as base:
        assert "crash" not in [t["name"] for t in session.request("tools/list", {})["tools"]]
        assert "crash" in [t["name"] for t in base.request("tools/list", {})["tools"]]


def test_parallel_calls_are_parallel(box: Box):
    """
    B088: they ran one after another, and behind the slowest, which here never ends.
    """
    with box.session("parallel") as session:
        session.start("tools/call", HANG, ident="slow")
        nap = {"name": "sleep", "arguments": {"ms": 100}}
        watch = Watch()
        for ident in [session.start("tools/call", nap) for _ in range(50)]:
            session.finish(ident)
        assert watch.seconds < 50 * 0.1


def test_a_fragile_server_gets_one_call_at_a_time(box: Box):
    """
    B088: some servers need that, and who waits is to be seen.
    """
    with box.session("single") as session, box.session("single") as other:
        watch = Watch()
        nap = {"name": "sleep", "arguments": {"ms": 100}}
        calls = [(peer, peer.start("tools/call", nap)) for peer in (session, other) * 3]
        wait_until(lambda: box.status("single")["in_flight"] > 1, 1)
        for peer, ident in calls:
            peer.finish(ident)
        assert watch.seconds > 6 * 0.1


def test_a_client_that_stops_reading_is_let_go_and_delays_nobody():
    """
    B089: it stalled the daemon, or made it grow.
    """

    def low(box: Box) -> None:
        box.fake().fake("other")
        box.settings |= {"max_message_bytes": 2 << 20, "max_outbox_bytes": 4 << 20}

    with installed(low) as box, box.session() as paused, box.session("other") as fine:
        for _ in range(30):
            paused.start("tools/call", {"name": "blob", "arguments": {"bytes": 1 << 20}})
        worst = 0.0
        while "connection.closed" not in box.tail():
            watch = Watch()
            assert fine.text("echo", text="x") == "x"
            worst = max(worst, watch.seconds)
        assert worst < scaled(1)
        assert "does not read" in box.tail() or "outbox" in box.tail(), box.tail()
        assert box.status()["state"] == "ready"


def test_new_clients_are_let_in_while_servers_start(box: Box):
    """
    B089: they waited for 15 s while a healthy daemon was busy.
    """
    with box.peer() as starter:
        names = [f"start{number}" for number in range(8)]
        starting = starter.start("mcpd/start", {"servers": names})
        waits = []
        while not waits or any(box.status(name)["state"] != "ready" for name in names):
            watch = Watch()
            with box.peer() as peer:
                peer.request("mcpd/hello")
            waits.append(watch.seconds)
        assert sorted(waits)[len(waits) // 2] < scaled(0.3)
        assert max(waits) < scaled(1.5)
        starter.finish(starting)


def test_a_log_level_is_each_clients_own(box: Box):
    """
    B090: what one client set was set for all of them.
    """
    with box.session("levels") as errors:
        with box.session("levels") as everything:
            everything.request("logging/setLevel", {"level": "debug"})
            errors.request("logging/setLevel", {"level": "error"})
            everything.call("log", level="debug", text="mine")
            assert everything.take_notification("notifications/message")["data"] == "mine"
            errors.call("log", level="info", text="too little")
            errors.call("log", level="critical", text="enough")
            assert errors.take_notification("notifications/message")["data"] == "enough"
            for session in (everything, errors):
                session.request("ping")
                assert not session.inbox
        wait_until(lambda: len(box.messages("levels", "logging/setLevel")) == 2)
    set_to = [m["params"]["level"] for m in box.messages("levels", "logging/setLevel")]
    assert set_to == ["debug", "error"]


def test_subscriptions_are_counted(box: Box):
    """
    B090: who unsubscribed first did so for everybody.
    """
    uri = {"uri": "fake://a"}
    updated = "notifications/resources/updated"
    with box.session("levels") as first:
        with box.session("levels") as second:
            for session in (first, second):
                session.request("resources/subscribe", uri)
            first.call("touch", uri="fake://a")
            assert first.take_notification(updated) == second.take_notification(updated) == uri
        first.call("touch", uri="fake://a")
        assert first.take_notification(updated) == uri
    wait_until(lambda: box.messages("levels", "resources/unsubscribe"))
    assert len(box.messages("levels", "resources/subscribe")) == 1
    assert len(box.messages("levels", "resources/unsubscribe")) == 1

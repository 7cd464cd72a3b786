"""Real servers behind mcpd are what they are without it, and one process each."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.real.calling import (
    answer,
    by_command,
    differing,
    masked,
    outcomes,
    over,
    raw,
    unsigned,
)
from tests.real.ground import Ground
from tests.real.popular import NPM, PYPI, STATEFUL
from tests.real.record import ENVELOPE
from tests.real.servers import CAPABILITIES, REFERENCE, Server
from tests.support.daemon import Box, Peer
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]
Direct = Callable[[Server], Peer]
Expected = Callable[[str], Json]

SHARED = tuple(name for name in (*REFERENCE, *NPM, *PYPI) if name not in STATEFUL)

LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""Method to capability and member."""

LEFT_BEHIND = re.compile(r',\{[^{}]*"demo://resource/session/[^{}]*\}')
"""What a call of one of the servers adds to its list of resources."""


def introduced(told: Json) -> Json:
    """Return what a server says of itself; of what it is able to, what mcpd passes on."""
    return {**told, "capabilities": set(told["capabilities"]) - {"tasks"}}


def lists(peer: Peer, capabilities: Json, meta: Json | None = None) -> dict[str, str]:
    """Return what a session lists, byte for byte; ``meta`` goes with each request."""
    params = {} if meta is None else {"_meta": meta}
    return {
        method: LEFT_BEHIND.sub("", raw(peer, method, params, member))
        for method, (capability, member) in LISTS.items()
        if capability in capabilities
    }


@pytest.fixture(scope="module")
def expected(servers: dict[str, Server], ground: Ground, direct: Direct) -> Expected:
    """What a direct client gets from a server: asked once, then known."""
    known: dict[str, Json] = {}

    def ask(name: str) -> Json:
        if name not in known:
            ground.reset()
            chosen = servers[name]
            with contextlib.closing(direct(chosen)) as peer:
                told = peer.initialize(capabilities=CAPABILITIES)
                known[name] = {
                    "initialize": told,
                    "lists": lists(peer, told["capabilities"]),
                    "requests": [
                        (method, answer(peer, method, asked)) for method, asked in chosen.requests
                    ],
                    "calls": outcomes(over(peer), chosen.calls),
                }
                known[name]["at_once"] = known[name]["calls"][0][1]
                known[name]["tools"] = json.loads(known[name]["lists"]["tools/list"])
        return known[name]

    return ask


@pytest.fixture(scope="module")
def listed(house: Box, servers: dict[str, Server], direct: Direct, expected: Expected) -> Expected:
    """What a direct client lists in the era in which mcpd speaks to a server that runs.

    Servers on the newest SDK write the same schemas with their members in another order in each.
    """

    @functools.cache
    def ask(name: str) -> Json:
        known = expected(name)
        if status(house, name)["era"] != "modern":
            return known["lists"]
        with contextlib.closing(direct(servers[name])) as peer:
            return lists(peer, known["initialize"]["capabilities"], ENVELOPE)

    return ask


@pytest.fixture(params=["socket", "bridge"])
def session(request: pytest.FixtureRequest, house: Box, name: str) -> Iterator[Peer]:
    """A session on the server, by either way."""
    with house.session(name) if request.param == "socket" else house.bridge(name) as peer:
        yield peer


def is_of(process: psutil.Process, chosen: Server) -> bool:
    """Say whether a process, which may have ended by now, was started for a server."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return chosen.program in process.cmdline()
    return False


def status(house: Box, name: str) -> Json:
    """Return what ``mcpctl status`` says of one server."""
    told: Json = json.loads(house.ctl("status", "--json", name).stdout)["servers"][0]
    return told


@pytest.mark.parametrize("name", REFERENCE, indirect=True)
def test_every_tool_is_called_or_left_out_for_a_reason(
    name: str, servers: dict[str, Server], expected: Expected
) -> None:
    """
    A server that gained a tool must not pass unseen.
    """
    listed = {tool["name"] for tool in expected(name)["tools"]}
    called = {call.tool for call in servers[name].calls}
    assert called | set(servers[name].left_out) == listed
    assert not called & set(servers[name].left_out)
    assert all(servers[name].left_out.values())


@pytest.mark.parametrize("name", SHARED, indirect=True)
def test_twenty_sessions_share_one_process(
    name: str, house: Box, servers: dict[str, Server], ground: Ground, expected: Expected
) -> None:
    """
    Ten on the socket and ten bridges, all calling at the same time: the promise of the product.
    """
    without, chosen = expected(name), servers[name]
    ground.reset()
    with contextlib.ExitStack() as stack:
        sockets = [house.session(name, handshake=False) for _ in range(10)]
        peers = sockets + [house.bridge(name, handshake=False) for _ in range(10)]
        for peer in peers:
            stack.callback(peer.close)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
        hello["clientInfo"] = {"name": "tests", "version": "1"}
        greeted = [(peer, peer.start("initialize", hello)) for peer in peers]
        for peer, ident in greeted:
            assert introduced(peer.finish(ident, 30.0)) == introduced(without["initialize"])
            peer.notify("notifications/initialized")

        once = {"name": chosen.at_once.tool, "arguments": chosen.at_once.arguments}
        called = [(peer, peer.start("tools/call", once)) for peer in peers]
        for peer, ident in called:
            got = {"result": unsigned(peer.finish(ident, 30.0))}
            assert masked(got, chosen.at_once.mask) == without["at_once"]

        now = status(house, name)
        assert now["sessions"] == 20
        assert (now["restarts"], now["in_flight"]) == (0, 0)
        # What the question after the era killed was a process, too.
        assert now["generation"] == (2 if name == "old" else 1)
        assert house.daemon
        tree = psutil.Process(house.daemon.pid).children(recursive=True)
        (process,) = [one for one in tree if is_of(one, chosen)]
        assert process.pid == now["pid"]

        def agree() -> bool:
            below = [one.pid for one in process.children(recursive=True)]
            return sorted(status(house, name)["pids"]) == sorted([process.pid, *below])

        wait_until(agree, 30, what="the end of children that run for a moment")
        leaving = time.monotonic()
    assert time.monotonic() - leaving < scaled(9), "a bridge had to be killed"
    wait_until(lambda: status(house, name)["sessions"] == 0, what="the end of all sessions")


def test_every_tool_answers_as_without_mcpd(
    name: str, servers: dict[str, Server], ground: Ground, session: Peer, expected: Expected
) -> None:
    """
    The reference servers' own results, errors included, by the socket and by the bridge.
    """
    without = expected(name)["calls"]
    ground.reset()
    assert differing(outcomes(over(session), servers[name].calls), without) == []


def test_every_tool_answers_mcpctl_as_without_mcpd(
    name: str, house: Box, servers: dict[str, Server], ground: Ground, expected: Expected
) -> None:
    """
    From a shell: words to arguments by the tool's schema, the result as the server gave it.
    """
    without = expected(name)["calls"]
    ground.reset()
    assert differing(outcomes(by_command(house, name), servers[name].calls), without) == []


@pytest.mark.parametrize("way", ["socket", "bridge"])
def test_a_session_is_told_what_the_server_says_of_itself(
    name: str, way: str, house: Box, expected: Expected
) -> None:
    """
    Name, version, instructions and whatever else there is, in the revision that it would choose.
    """
    open_session = house.session if way == "socket" else house.bridge
    with open_session(name, handshake=False) as peer:
        assert introduced(peer.initialize()) == introduced(expected(name)["initialize"])


def test_lists_are_the_servers_own(
    name: str, session: Peer, expected: Expected, listed: Expected
) -> None:
    """
    Byte for byte: order, schemas and annotations included.
    """
    capabilities = expected(name)["initialize"]["capabilities"]
    assert lists(session, capabilities) == listed(name)


def test_mcpctl_lists_the_servers_own_tools(name: str, house: Box, expected: Expected) -> None:
    """
    With two names more: of the server, and of the tool in the aggregate.
    """
    listed = json.loads(house.ctl("tools", name, "--json").stdout)["tools"]
    for tool in listed:
        assert tool.pop("server") == name
        assert tool.pop("qualified_name") == f"{name}__{tool['name']}"
    assert listed == expected(name)["tools"]


def test_the_aggregate_holds_all_of_them(
    house: Box, servers: dict[str, Server], ground: Ground, expected: Expected
) -> None:
    """
    One session, every server: each tool under its qualified name, each call at its server.
    """
    without = {name: expected(name) for name in servers}
    ground.reset()
    started = house.ctl("start", "--all")  # a list does not wait for all that start slowly
    assert started.returncode == 0, started.stderr
    with house.session(None) as peer:
        named = [tool["name"] for tool in peer.request("tools/list", {}, 30.0)["tools"]]
        ours = [n for n in named if not n.startswith("fake__")]
        assert ours == [
            f"{name}__{tool['name']}" for name, known in without.items() for tool in known["tools"]
        ]
        for name, chosen in servers.items():
            once = chosen.at_once
            called = {"name": f"{name}__{once.tool}", "arguments": once.arguments}
            result = unsigned(peer.request("tools/call", called, 30.0))
            assert masked({"result": result}, once.mask) == without[name]["at_once"]


@pytest.mark.parametrize("name", ["everything", "memory", "fetch", *NPM, *PYPI], indirect=True)
def test_prompts_resources_and_errors_come_as_without_mcpd(
    name: str, servers: dict[str, Server], ground: Ground, session: Peer, expected: Expected
) -> None:
    """
    A server's own errors keep code, text and data.
    """
    without = expected(name)["requests"]
    ground.reset()
    got = [(method, answer(session, method, asked)) for method, asked in servers[name].requests]
    assert differing(got, without) == []


@pytest.mark.parametrize("name", ["time"], indirect=True)
def test_a_command_in_no_configuration_is_shared(
    name: str, make_box: Callable[[], Box], servers: dict[str, Server], expected: Expected
) -> None:
    """
    What a client's own configuration becomes by putting ``mcpctl connect --`` before it.
    """
    chosen, box = servers[name], make_box()
    box.up()
    bridges = [box.bridge("--", chosen.program, handshake=False) for _ in range(5)]
    for bridge in bridges:
        told = bridge.initialize()
        assert told["serverInfo"] == expected(name)["initialize"]["serverInfo"]
    got = [masked(over(bridge)(chosen.at_once), chosen.at_once.mask) for bridge in bridges]
    assert got == [expected(name)["at_once"]] * 5
    processes = [pid for pid, line in box.survivors().items() if f"python {chosen.program}" in line]
    told = json.loads(box.ctl("status", "--json").stdout)["servers"]
    assert [(each["pid"], each["sessions"]) for each in told] == [(processes[0], 5)]
    assert len(processes) == 1
    assert told[0]["name"].startswith("mcp-server-time-")


PROGRESS = {
    "everything": {"name": "trigger-long-running-operation", "arguments": {"duration": 0.2}},
    "old": {"name": "count", "arguments": {"to": 4}},
}


@pytest.mark.parametrize("name", list(PROGRESS), indirect=True)
@pytest.mark.parametrize("token", ["a text", 17, 0])
def test_progress_comes_as_without_mcpd(
    name: str, token: object, session: Peer, servers: dict[str, Server], direct: Direct
) -> None:
    """
    All of it, before the answer, under the client's own token in its own type.
    """
    asked = {**PROGRESS[name], "_meta": {"progressToken": token}}

    def heard(peer: Peer) -> list[Json]:
        peer.request("tools/call", asked, 30.0)
        return [m["params"] for m in peer.inbox if m.get("method") == "notifications/progress"]

    with contextlib.closing(direct(servers[name])) as peer:
        peer.initialize(capabilities=CAPABILITIES)
        without = heard(peer)
    assert len(without) >= 4
    assert heard(session) == without


@pytest.mark.parametrize("name", ["memory"], indirect=True)
def test_an_update_reaches_those_who_subscribed(
    name: str, session: Peer, house: Box, ground: Ground
) -> None:
    """
    The one server of them that has updates of its own, and only while somebody wants them.
    """
    ground.reset()
    uri = "memory://knowledge-graph"
    entity = {"name": "news", "entityType": "paper", "observations": []}
    with house.session(name) as writer:
        session.request("resources/subscribe", {"uri": uri})
        writer.call("create_entities", entities=[entity])
        assert session.take_notification("notifications/resources/updated") == {"uri": uri}
        session.request("resources/unsubscribe", {"uri": uri})
        writer.call("delete_entities", entityNames=["news"])
        session.request("ping")
        updates = "notifications/resources/updated"
        assert not [m for m in session.inbox + writer.inbox if m.get("method") == updates]


def test_a_killed_server_comes_back_for_its_sessions(
    make_box: Callable[[], Box], servers: dict[str, Server], npm: Path, ground: Ground
) -> None:
    """
    The graph lies in a file: the new process goes on where the old one was killed.
    """
    ground.reset()
    box = make_box()
    box.servers["memory"] = servers["memory"].entry
    box.up()
    with box.session("memory") as peer, box.bridge("memory") as other:
        entity = {"name": "kept", "entityType": "thing", "observations": []}
        peer.call("create_entities", entities=[entity])
        first = status(box, "memory")["pid"]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: status(box, "memory")["restarts"] == 1, 15, what="the new process")
        for one in (peer, other):
            graph = one.call("read_graph", 30.0)["structuredContent"]
            assert graph == {"entities": [entity], "relations": []}
        now = status(box, "memory")
        assert (now["generation"], now["state"]) == (2, "ready")
        assert now["pid"] != first


def test_a_server_under_npx_is_one_tree_that_ends_whole(
    make_box: Callable[[], Box], npm: Path, real: Path
) -> None:
    """
    As most configurations start it: npm, a shell and Node below it.
    """
    box = make_box()
    box.servers["everything"] = {
        "command": "npx",
        "args": ["--no-install", "mcp-server-everything"],
        "cwd": str(real),
        "stop_grace": 1,
    }
    box.up()
    with box.session("everything") as peer:
        assert peer.text("echo", 30.0, message="through npx") == "Echo: through npx"
        pids = status(box, "everything")["pids"]
        assert len(pids) > 1
        assert sorted(pids) == sorted(
            pid for pid, line in box.survivors().items() if "mcp-server-everything" in line
        )
        assert box.ctl("stop", "everything").returncode == 0
        assert not set(pids) & set(box.survivors())


@pytest.mark.parametrize("way", ["socket", "bridge"])
def test_a_process_of_its_own_lists_what_its_client_can_use(
    way: str, make_box: Callable[[], Box], servers: dict[str, Server], npm: Path, direct: Direct
) -> None:
    """
    To a client that cannot be asked, without roots either, the server offers fewer tools.
    """
    chosen, box = servers["everything"], make_box()
    with contextlib.closing(direct(chosen)) as peer:
        capabilities = peer.initialize()["capabilities"]
        without = lists(peer, capabilities)
    assert len(json.loads(without["tools/list"])) == 13
    box.servers["everything"] = {**chosen.entry, "sharing": "session"}
    box.up()
    with box.session("everything") if way == "socket" else box.bridge("everything") as session:
        assert lists(session, capabilities) == without


def test_nothing_is_left_of_them_when_the_daemon_ends(
    make_box: Callable[[], Box], servers: dict[str, Server]
) -> None:
    """
    Two languages, many SDKs, a second or less each after their input ends.
    """
    box = make_box()
    box.servers |= {name: each.entry for name, each in servers.items()}
    box.up()
    started = box.ctl("start", "--all")
    assert started.returncode == 0, started.stderr
    told = json.loads(box.ctl("status", "--json").stdout)["servers"]
    assert {each["name"]: each["state"] for each in told} == dict.fromkeys(servers, "ready")
    assert box.down(timeout=30) == 0
    assert box.survivors() == {}

"""Real servers that are reached by URL are what they are for a client that reaches them itself."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real.calling import answer, masked
from tests.real.cells import Cell, check
from tests.real.matrix import cannot
from tests.real.peers import CLIENTS, MODERN, Client, environment
from tests.real.remotes import REMOTES
from tests.real.servers import CAPABILITIES, Call, Server
from tests.real.test_servers import introduced, lists
from tests.support.daemon import Box, Peer, RpcError, binary
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

SESSIONS: Final = 20
ONCE: Final = ("generation", "restarts", "last_error")
"""What of its status stays when a server is connected to once."""

TIMES: Final = 50
"""Questions to each of two clients."""
FLEETING: Final = r"\d{1,2}:\d\d:\d\d [AP]M|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""In texts: the time, and the id of a session."""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class House:
    """A daemon with an entry for every server, and those servers that a test has asked for."""

    def __init__(self, box: Box, real: Path, stack: contextlib.ExitStack) -> None:
        self.box, self.real, self.stack = box, real, stack
        self.ports: dict[str, int] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for name, remote in REMOTES.items():
            # Kept until the end, so that no connection takes the port before the server starts.
            held = stack.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self.ports[name] = held.getsockname()[1]
            box.servers[name.replace(" ", "-")] = {"url": self.url(name), **remote.entry}
        box.up()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}{REMOTES[name].path}"

    def has(self, name: str) -> str:
        """Start the server, unless it runs; return the name of its entry."""
        if name not in self.running:
            self.running[name] = self.started(name)
        return name.replace(" ", "-")

    def replaced(self, name: str) -> None:
        """Kill the server, and start it again."""
        self.running[name].kill()
        self.running[name].wait()
        self.running[name] = self.started(name)

    def started(self, name: str) -> subprocess.Popen[bytes]:
        port = self.ports[name]
        command, variables = REMOTES[name].started(self.real, port)
        log = self.stack.enter_context((self.box.root / f"{name}.log").open("ab"))
        server = subprocess.Popen(
            command,
            env={**self.box.env, **environment(self.real), **variables},
            cwd=self.box.env["HOME"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self.stack.callback(server.wait)
        self.stack.callback(server.kill)
        wait_until(lambda: listens(port), 30, what=f"the port of {name}")
        return server

    def run(self, client: Client, words: list[str], asked: Json, **variables: str) -> Json:
        """Run a client on a command or a URL, and return what it printed."""
        ran = subprocess.run(
            [*client.command(self.real), *words],
            env={**self.box.env, **environment(self.real), **variables},
            cwd=self.box.env["HOME"],
            input=json.dumps(asked),
            text=True,
            capture_output=True,
            timeout=scaled(60),
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        got: Json = json.loads(ran.stdout)
        return got

    def directly(self, name: str, steps: list[Json]) -> list[Any]:
        """Return what a client on the server's SDK that reaches it itself gets."""
        client = REMOTES[name].direct
        asked = {"mode": client.mode, "probe_ms": 4_000, "steps": steps}
        results: list[Any] = self.run(client, [self.url(name)], asked, MCPD_TOKEN="none")["results"]
        return results


@pytest.fixture(scope="module")
def house(npm: Path, box: Box, real: Path) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        yield House(box, real, stack)


def finished(peer: Peer, ident: Any) -> Json:
    """Return what came of a call in the form of all clients."""
    try:
        result = peer.finish(ident, 30.0)
    except RpcError as error:
        return {"error": {"code": error.code, "message": error.message}}
    kept = {key: result[key] for key in ("content", "structuredContent") if key in result}
    return {**kept, "isError": bool(result.get("isError"))}


def start(peer: Peer, call: Call) -> Any:
    return peer.start("tools/call", {"name": call.tool, "arguments": call.arguments})


def lasting(value: Any) -> Any:
    """Return a result without what differs from call to call."""
    return masked(value, lambda text: re.sub(FLEETING, "*", text))


def steady(tools: list[Json]) -> list[Json]:
    """Return the tools without the one that comes and goes."""
    return [tool for tool in tools if tool["name"] != "extra"]


@pytest.mark.parametrize("name", REMOTES)
def test_twenty_sessions_get_what_a_direct_client_gets(name: str, house: House) -> None:
    """
    The tools, and what comes of a call of each: one session with the server for all of them.
    """
    entry, remote = house.has(name), REMOTES[name]
    steps = [{"do": "call", "name": c.tool, "arguments": c.arguments} for c in remote.calls]
    tools, *wanted = house.directly(name, [{"do": "list"}, *steps])
    with contextlib.ExitStack() as stack:
        sessions = [house.box.session(entry) for _ in range(SESSIONS)]
        for session in sessions:
            stack.callback(session.close)
        for session in sessions:
            assert steady(session.request("tools/list", timeout=30.0)["tools"]) == steady(tools)
        begun = house.box.status(entry)
        at_once = [(session, start(session, remote.calls[0])) for session in sessions]
        for session, ident in at_once:
            assert finished(session, ident) == wanted[0]
        for session in sessions:
            for call, result in zip(remote.calls, wanted, strict=True):
                got = finished(session, start(session, call))
                assert lasting(got) == lasting(result), call.tool
        gone = "the end of the sessions before"
        wait_until(lambda: house.box.status(entry)["sessions"] == SESSIONS, what=gone)
        now = house.box.status(entry)
        assert (now["state"], now["sessions"], now["era"]) == (
            "ready",
            SESSIONS,
            "modern" if remote.era == MODERN else "legacy",
        )
        assert [now[key] for key in ONCE] == [begun[key] for key in ONCE]
        assert now["protocol_version"] == (
            MODERN if remote.era == MODERN else remote.server.speaks[0]
        )
        assert now["transport"] == ("sse" if remote.way == "sse" else "http")


def pairs() -> list[Any]:
    """Return every client with every server; few of them are tested for each change.

    Those are the client on the server's SDK, and one of the other era.
    """
    found = []
    for name, remote in REMOTES.items():
        other = "typescript-1.32" if remote.direct.is_modern else "python-2.3-auto"
        for client in CLIENTS:
            few = client in (remote.client, other)
            marks = [] if few else [pytest.mark.matrix]
            found.append(pytest.param(client, name, id=f"{client} on {name}", marks=marks))
    return found


@pytest.mark.parametrize(("client", "name"), pairs())
def test_a_client_uses_a_server_by_its_entry(client: str, name: str, house: House) -> None:
    """
    Lists, calls, progress, questions, cancellation, log messages and changes, in either era.
    """
    entry, remote = house.has(name), REMOTES[name]
    modern = remote.era == MODERN
    chosen = CLIENTS[client]
    left_out = remote.left_out(chosen)
    cell = Cell(client, chosen, remote.name, remote.server, modern, True, left_out)
    got = house.run(chosen, [binary("mcpctl"), "connect", entry], cell.asked())
    check(cell, got, cannot(remote.name, modern))
    wait_until(lambda: house.box.status(entry)["in_flight"] == 0, what="the end of all calls")


@pytest.mark.parametrize("name", [n for n, remote in REMOTES.items() if remote.way != "sse"])
def test_no_session_notices_that_its_server_was_replaced(name: str, house: House) -> None:
    """
    The next call of each is answered, whatever the new server says of the session it does not know.
    HTTP+SSE has no session but its stream: its end counts as a crash.
    """
    entry, echo = house.has(name), REMOTES[name].calls[0]
    with contextlib.ExitStack() as stack:
        sessions = [house.box.session(entry) for _ in range(SESSIONS)]
        for session in sessions:
            stack.callback(session.close)
        before = finished(sessions[0], start(sessions[0], echo))
        house.replaced(name)
        at_once = [(session, start(session, echo)) for session in sessions]
        for session, ident in at_once:
            assert finished(session, ident) == before


@pytest.mark.parametrize("name", ["typescript-1.32 stateful", "python-1.30 sse"])
def test_no_answer_goes_to_the_wrong_client(
    name: str, house: House, make_box: Callable[[], Box]
) -> None:
    """
    Two clients are asked at the same time, in the one session that they share with the server.
    """
    house.has(name)
    box = make_box()
    # Without turns the first question of all may have two owners.
    box.servers["asking"] = {"url": house.url(name), "interactive": "exclusive"}
    box.up()

    def asks(client: str) -> Json:
        step = {"name": "ask", "arguments": {"question": client + " {n}?"}, "times": TIMES}
        steps = [{"do": "call", **step, "at_once": 2}]
        asked = {"mode": CLIENTS[client].mode, "answer": client, "steps": steps}
        connect = [binary("mcpctl"), "connect", "asking"]
        return house.run(CLIENTS[client], connect, asked, **box.env)

    clients = ("python-1.30", "typescript-2.4-modern")
    with ThreadPoolExecutor() as pool:
        for client, got in zip(clients, pool.map(asks, clients), strict=True):
            questions = [f"{client} {number}?" for number in range(TIMES)]
            texts = [result["content"][0]["text"] for result in got["results"][0]]
            assert texts == [f"{question} {client}" for question in questions]
            assert sorted(got["questions"]) == sorted(questions)


def test_everything_is_by_url_what_it_is_over_stdio(
    house: House, servers: dict[str, Server], direct: Callable[[Server], Peer]
) -> None:
    """
    All its lists, byte for byte, and prompts, resources and completions, errors included.
    """
    chosen = servers["everything"]
    with direct(chosen) as peer:
        told = peer.initialize(capabilities=CAPABILITIES)
        listed = lists(peer, told["capabilities"])
        wanted = [answer(peer, method, asked) for method, asked in chosen.requests]
    for name in ("everything http", "everything sse"):
        with house.box.session(house.has(name), handshake=False) as session:
            assert introduced(session.initialize()) == introduced(told)
            assert lists(session, told["capabilities"]) == listed
            got = [answer(session, method, asked) for method, asked in chosen.requests]
            assert lasting(got) == lasting(wanted)

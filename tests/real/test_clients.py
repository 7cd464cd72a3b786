"""Real clients get through the bridge what they get from the server itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.calling import masked, unsigned
from tests.real.peers import CLIENTS, MODERN
from tests.real.servers import CAPABILITIES, Server
from tests.support.daemon import Box, Peer, binary
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

QUESTIONS: Json = {
    "trigger-sampling-request": {"prompt": "Who shares?", "maxTokens": 5},
    "trigger-elicitation-request": {},
    "trigger-url-elicitation": {"url": "https://example.org/", "elicitationId": "e1"},
}
"""The calls in which the server asks its client: these clients answer."""

PYTHON = ("python-1.30", "python-2.3-auto")


@pytest.fixture(params=PYTHON)
def client(request: pytest.FixtureRequest) -> str:
    """Each generation of the Python SDK in turn."""
    chosen: str = request.param
    return chosen


Run = Callable[[str, list[str], Json], Json]


@pytest.fixture(scope="module")
def run(real: Path, box: Box) -> Run:
    """Run a client on a command, and return what it got."""

    def run(client: str, command: list[str], asked: Json) -> Json:
        ran = subprocess.run(
            [*CLIENTS[client].command(real), *command],
            env=box.env,
            cwd=box.env["HOME"],
            input=json.dumps({"mode": CLIENTS[client].mode, **asked}),
            text=True,
            capture_output=True,
            timeout=scaled(50),
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        got: Json = json.loads(ran.stdout)
        return got

    return run


def call(name: str, **arguments: Any) -> Json:
    """Return the step that calls a tool."""
    return {"do": "call", "name": name, "arguments": arguments}


def asking(server: Server) -> Json:
    """Return what a client is asked to do with a server."""
    questions = [call(name, **QUESTIONS[name]) for name in server.left_out]
    once = call(server.at_once.tool, **server.at_once.arguments)
    return {"steps": [{"do": "list"}, once, *questions]}


@pytest.fixture(scope="module")
def without(run: Run, box: Box, servers: dict[str, Server]) -> Callable[[str], Json]:
    """What a client gets that starts the server itself: asked once, then known."""
    known: dict[str, Json] = {}

    def ask(name: str) -> Json:
        if name not in known:
            entry = servers[name].entry
            assignments = [f"{key}={value}" for key, value in entry["env"].items()]
            command = ["env", *assignments, entry["command"], *entry["args"]]
            known[name] = run("python-1.30", command, asking(servers[name]))
        return known[name]

    return ask


@pytest.mark.parametrize("name", ["everything", "git", "old"], indirect=True)
def test_a_client_of_the_python_sdk_gets_what_the_server_says(
    client: str, name: str, house: Box, run: Run, servers: dict[str, Server], without: Any
) -> None:
    """
    Of both generations; the second is of the newer era, and none of these servers is but git's. It
    can use the server on the SDK 1.8.1, too, which dies of its first question when asked directly.
    """
    command = [binary("mcpctl"), "connect", name]
    mask = servers[name].at_once.mask
    got = run(client, command, asking(servers[name]))
    wanted = without(name)
    if CLIENTS[client].is_modern:
        wanted = {**wanted, "version": MODERN}
    assert masked(got, mask) == masked(wanted, mask)


def test_a_client_of_the_python_sdk_uses_the_aggregate(
    client: str, house: Box, run: Run, servers: dict[str, Server]
) -> None:
    """
    All servers in one session, which says that it is mcpd.
    """
    started = house.ctl("start", "--all")  # a list does not wait for all that start slowly
    assert started.returncode == 0, started.stderr
    asked = {"steps": [{"do": "list"}, call("old__divide", a=1, b=8)]}
    got = run(client, [binary("mcpctl"), "connect"], asked)
    assert got["server"] == "mcpd"
    listed, divided = got["results"]
    assert divided["content"] == [{"type": "text", "text": "0.125"}]
    prefixes = {tool["name"].split("__")[0] for tool in listed}
    assert prefixes == {*servers, "fake"}


def test_a_client_of_the_python_sdk_sees_progress_and_cancels(
    client: str, house: Box, run: Run
) -> None:
    """
    The first generation sends its cancellation when told to, the second by itself.
    """
    endless = {"steps": 100_000}
    steps = [
        {"do": "progress", "name": "progress", "arguments": {"steps": 3}},
        {"do": "cancel", "name": "progress", "arguments": endless},
        call("echo", text="still here"),
    ]
    before = len(house.messages(method="notifications/cancelled"))
    got = run(client, [binary("mcpctl"), "connect", "fake"], {"steps": steps})
    progress, cancelled, echoed = got["results"]
    reports = [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
    done = {"content": [{"type": "text", "text": "done"}], "isError": False}
    assert progress == {"result": done, "reports": reports}
    assert cancelled["given_up"] is True
    assert echoed["structuredContent"] == {"text": "still here"}

    heard = house.messages(method="notifications/cancelled")[before:]
    called = house.messages(method="tools/call")
    called = [m for m in called if m["params"]["arguments"] == endless]
    assert [note["params"]["requestId"] for note in heard] == [called[-1]["id"]]
    assert house.status()["in_flight"] == 0
    wait_until(lambda: house.status()["sessions"] == 0, what="the end of the client's session")


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_inspector_lists_and_calls_through_the_bridge(
    era: str, npm: Path, house: Box, servers: dict[str, Server], direct: Callable[[Server], Peer]
) -> None:
    """
    Its command line, on the server with the most of everything; `auto` probes for the newer era.
    """

    def inspect(*words: str) -> Json:
        # It starts servers with a few variables of its own choice and those it is told.
        told = ("MCPD_SOCKET", "MCPD_STATE_DIR", "MCPD_CONFIG", "XDG_RUNTIME_DIR")
        given = [word for name in told for word in ("-e", f"{name}={house.env[name]}")]
        command = [binary("mcpctl"), "connect", "everything", "--protocol-era", era]
        ran = subprocess.run(
            [str(npm / "mcp-inspector"), "--cli", *given, *command, *words],
            env=house.env,
            cwd=house.env["HOME"],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=scaled(25),
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        said: Json = json.loads(ran.stdout)
        return said

    peer = direct(servers["everything"])
    peer.initialize(capabilities=CAPABILITIES)
    listed = peer.request("tools/list", {})
    if era == "auto":
        for tool in listed["tools"]:
            del tool["execution"]  # says how a tool wants tasks of 2025-11-25; later tools do not
    assert inspect("--method", "tools/list") == listed
    arguments: Json = {"messageType": "success", "includeImage": True}
    call = ["--method", "tools/call", "--tool-name", "get-annotated-message"]
    got = unsigned(inspect(*call, "--tool-args-json", json.dumps(arguments)))
    assert got == peer.call("get-annotated-message", **arguments)

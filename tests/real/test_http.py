"""Real clients reach the daemon by URL, and go on when it is killed and replaced."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real.cells import Cell, check
from tests.real.matrix import USED, cannot
from tests.real.peers import CLIENTS, HERE, SERVERS, Client, environment
from tests.support.daemon import Box
from tests.support.httpclient import token
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

BY_URL: Final = {
    **CLIENTS,
    "fastmcp-4.2-auto": Client("fastmcp", HERE / "clients/fastmcp4.py", "auto"),
    "fastmcp-4.2-legacy": Client("fastmcp", HERE / "clients/fastmcp4.py", "legacy"),
}
NEVER_LISTENS: Final = "fastmcp-4.2-auto"
TRIES_AGAIN_S: Final = 1.0
"""After this time the SDKs of Python open a stream again that broke, once and never again."""

SERVED: Final = ("python-2.3", pytest.param("typescript-1.32", marks=pytest.mark.matrix))
"""A server of both eras, and one of the legacy era alone."""


class House:
    """A daemon that listens at a port."""

    def __init__(self, box: Box, real: Path) -> None:
        self.box = box
        self.real = real
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name in ("python-2.3", "typescript-1.32"):
            command = SERVERS[name].command(real)
            entry = {"command": command[0], "args": command[1:], "env": environment(real)}
            box.servers[name] = {**entry, "stop_grace": 1}
        box.http = {"listen": f"127.0.0.1:{self.port}"}
        box.up()
        self.token = token(box)
        wait_until(self.listens, 10, what="the port")

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, server: str) -> str:
        return f"http://127.0.0.1:{self.port}/mcp/{server}"

    def start(self, client: Client, server: str, asked: Json) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [*client.command(self.real), self.url(server)],
            env={**self.box.env, **environment(self.real), "MCPD_TOKEN": self.token},
            cwd=self.box.env["HOME"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert started.stdin
        started.stdin.write(json.dumps(asked))
        started.stdin.close()
        started.stdin = None  # `communicate` would close it again
        return started

    def run(self, *command: str) -> str:
        """Run a command line, and return what it prints."""
        ran = subprocess.run(
            command,
            env=self.box.env,
            cwd=self.box.env["HOME"],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=scaled(40),
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def house(npm: Path, box: Box, real: Path) -> House:
    return House(box, real)


def finished(client: subprocess.Popen[str]) -> Json:
    """Return what a client printed."""
    said, errors = client.communicate(timeout=scaled(80))
    assert client.returncode == 0, errors[-3000:]
    got: Json = json.loads(said)
    return got


@pytest.mark.parametrize("server", SERVED)
@pytest.mark.parametrize("client", BY_URL)
def test_a_client_uses_a_server_by_url(client: str, server: str, house: House) -> None:
    """
    Lists, calls, progress, questions, cancellation, log messages and changes, in either era.
    """
    name, modern = USED[server]
    served = SERVERS[name]
    if client == NEVER_LISTENS:
        served = replace(served, lacks={**served.lacks, "change": "its client opens no listen"})
    cell = Cell(client, BY_URL[client], name, served, modern, bridged=True)
    check(cell, finished(house.start(cell.client, server, cell.asked())), cannot(name, modern))
    wait_until(lambda: house.box.status(server)["in_flight"] == 0, what="the end of all calls")


@pytest.mark.parametrize("client", BY_URL)
def test_a_client_goes_on_when_the_daemon_is_killed(
    client: str, npm: Path, real: Path, make_box: Callable[[], Box]
) -> None:
    """
    No client does a second handshake: its session is there, and so is its stream once it opens it.
    """
    house = House(make_box(), real)
    server = "python-2.3"
    here, go = house.box.root / "here", house.box.root / "go"
    echo = {"do": "call", "name": "echo", "arguments": {"text": "still here"}}
    meet = {"do": "meet", "here": str(here), "go": str(go)}
    steps = [echo, meet, echo, {"do": "change", "name": "toggle"}]
    asked = {"mode": BY_URL[client].mode, "probe_ms": 60_000, "steps": steps}
    started = house.start(BY_URL[client], server, asked)
    wait_until(here.exists, 30, what="the client")
    killed_at = time.monotonic()
    assert house.box.down(signal.SIGKILL) == -signal.SIGKILL
    house.box.up(wait=False)
    wait_until(house.listens, 20, what="the port")
    was_quick = time.monotonic() - killed_at < TRIES_AGAIN_S
    go.touch()
    before, _, after, change = finished(started)["results"]
    assert before["content"] == [{"type": "text", "text": "still here"}]
    assert after == before
    assert change["changed"]
    if client != NEVER_LISTENS and (was_quick or not client.startswith(("python", "fastmcp"))):
        assert change["told"]


def test_the_inspector_lists_and_calls_by_url(npm: Path, house: House) -> None:
    """
    Its command line, with the header that carries the token.
    """

    def inspect(*words: str) -> Json:
        header = ("--header", f"Authorization: Bearer {house.token}")
        inspector = str(npm / "mcp-inspector")
        url = house.url("python-2.3")
        found: Json = json.loads(
            house.run(inspector, "--cli", url, "--transport", "http", *header, *words)
        )
        return found

    assert "echo" in {tool["name"] for tool in inspect("--method", "tools/list")["tools"]}
    call = ("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello")
    assert inspect(*call)["content"] == [{"type": "text", "text": "hello"}]


def test_mcporter_lists_and_calls_by_url(npm: Path, house: House) -> None:
    """
    An entry of its configuration, with a header from the environment.
    """
    place = house.box.root / "mcporter.json"
    headers = {"Authorization": f"Bearer {house.token}"}
    entry = {"baseUrl": house.url("python-2.3"), "headers": headers}
    place.write_text(json.dumps({"mcpServers": {"matrix": entry}, "imports": []}))
    mcporter = (str(npm / "mcporter"), "--config", str(place))
    listed = json.loads(house.run(*mcporter, "list", "matrix", "--json"))
    assert "echo" in {tool["name"] for tool in listed["tools"]}
    called = json.loads(
        house.run(*mcporter, "call", "matrix.echo", "text=hello", "--output", "json")
    )
    assert called == {"result": "hello"}, "its structured content"

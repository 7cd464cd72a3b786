"""Every client on every SDK with every server on every SDK: directly where the two speak one era, and
through mcpd all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real.cells import ACTIONS, GIVEN_UP, Cell, check
from tests.real.matrix import DIRECT_CANNOT, USED, cannot, pairs
from tests.real.peers import CLIENTS, MODERN, SERVERS, environment
from tests.real.table import NOTES, table
from tests.support.daemon import Box, RpcError, binary
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

TEE = Path(__file__).with_name("tee.py")
OLDEST: Final = "python-1.8.1"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(npm: Path, real: Path, box: Box) -> Run:
    """Run a client on a command."""

    def run(
        cell: Cell, command: list[str], timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*cell.client.command(real), *command],
            env={**box.env, **environment(real)},
            cwd=box.env["HOME"],
            input=json.dumps(cell.asked()),
            text=True,
            capture_output=True,
            timeout=scaled(timeout),
            check=False,
        )

    return run


def results(ran: subprocess.CompletedProcess[str]) -> Json:
    """Return what a client that did all it was told printed."""
    assert ran.returncode == 0, ran.stderr[-3000:]
    got: Json = json.loads(ran.stdout)
    return got


def cancelled(record: Path, arguments: Json) -> bool:
    """Say whether the wire shows that the last call with these arguments was cancelled."""
    said = [json.loads(line[2:]) for line in record.read_text().splitlines() if line[0] == ">"]
    calls = [m["id"] for m in said if m.get("params", {}).get("arguments") == arguments]
    notes = [m["params"] for m in said if m.get("method") == "notifications/cancelled"]
    return calls[-1] in [note["requestId"] for note in notes]


@pytest.mark.matrix
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_and_a_server_speak_directly(
    client: str, server: str, real: Path, run: Run, tmp_path: Path
) -> None:
    """
    What the fixtures and the SDKs can without mcpd: a pair that cannot must fail, and be listed.
    """
    chosen = SERVERS[server]
    modern = CLIENTS[client].is_modern and MODERN in chosen.speaks
    cell = Cell(client, CLIENTS[client], server, chosen, modern, bridged=False)
    record = tmp_path / "record"
    command = [sys.executable, str(TEE), str(record), *chosen.command(real)]
    if (client, server) in DIRECT_CANNOT:
        with pytest.raises((subprocess.TimeoutExpired, AssertionError)):
            results(run(cell, command, 8.0))
        return
    check(cell, results(run(cell, command)), cannot(server, modern))
    if server == "everything":
        assert cancelled(record, GIVEN_UP)


@pytest.fixture(scope="module")
def house(box: Box, real: Path) -> Box:
    """A daemon with every server, those of two eras once in each."""
    for name, (server, modern) in USED.items():
        command = SERVERS[server].command(real)
        if server == "everything":
            command = [sys.executable, str(TEE), str(box.root / server), *command]
        entry = {"command": command[0], "args": command[1:], "env": environment(real)}
        era = {"era": "legacy"} if not modern and MODERN in SERVERS[server].speaks else {}
        box.servers[name] = {**entry, **era, "stop_grace": 1}
    return box.up()


@pytest.mark.parametrize(
    ("client", "server"),
    [
        pytest.param(*pair, id=" on ".join(pair), marks=[] if is_one else pytest.mark.matrix)
        for pair, is_one in pairs().items()
    ],
)
def test_a_client_and_a_server_speak_through_mcpd(
    client: str, server: str, house: Box, run: Run
) -> None:
    """
    Every pair, whatever the two speak: calls, lists, progress, cancellation, a question, and more.
    """
    name, modern = USED[server]
    cell = Cell(client, CLIENTS[client], name, SERVERS[name], modern, bridged=True)
    got = results(run(cell, [binary("mcpctl"), "connect", server]))
    check(cell, got, cannot(name, modern))
    if name == "everything":
        record = house.root / name
        wait_until(lambda: cancelled(record, GIVEN_UP), what="the cancellation on the wire")
    wait_until(lambda: house.status(server)["in_flight"] == 0, what="the end of all calls")


def test_each_server_was_one_process_in_its_era(house: Box) -> None:
    """
    However many clients there were, and of whichever era.
    """
    for name, (server, modern) in USED.items():
        now = house.status(name)
        if now["state"] == "stopped":
            continue  # this test alone was asked for
        assert (now["state"], now["restarts"], now["last_error"]) == ("ready", 0, None), name
        assert now["era"] == ("modern" if modern else "legacy"), name
        assert now["protocol_version"] == (MODERN if modern else SERVERS[server].speaks[0]), name


@pytest.mark.matrix
def test_the_oldest_server_ends_when_a_call_is_cancelled(real: Path, run: Run) -> None:
    """
    Why cancellation is no part of its cells: the next call finds nobody, with or without mcpd.
    """
    kept = {action: why for action, why in SERVERS[OLDEST].lacks.items() if action != "cancel"}
    server = replace(SERVERS[OLDEST], lacks=kept)
    cell = Cell("python-1.30", CLIENTS["python-1.30"], OLDEST, server, modern=False, bridged=False)
    with pytest.raises((subprocess.TimeoutExpired, AssertionError)):
        results(run(cell, server.command(real), 8.0))


def test_a_server_that_a_cancellation_ended_is_there_again(
    real: Path, make_box: Callable[[], Box]
) -> None:
    """
    Its next caller may get an error, and then it works, for whoever calls.
    """
    box = make_box()
    command = SERVERS[OLDEST].command(real)
    box.servers[OLDEST] = {"command": command[0], "args": command[1:]}
    box.up()
    with box.session(OLDEST) as one, box.session(OLDEST) as other:
        hang = {"name": "hang", "arguments": {"label": "x"}, "_meta": {"progressToken": "p"}}
        given_up = one.start("tools/call", hang)
        one.take_notification("notifications/progress")
        one.notify("notifications/cancelled", {"requestId": given_up})

        def works() -> bool:
            try:
                return other.text("echo", text="hello") == "hello"
            except RpcError:
                return False

        wait_until(works, what="the server")
        assert one.text("echo", text="hello") == "hello"


def test_what_a_server_lacks_is_said() -> None:
    """
    A cell is left out for a reason alone, and every action of the matrix is some server's.
    """
    for server in SERVERS.values():
        assert set(server.lacks) <= set(ACTIONS)
        assert all(server.lacks.values())
    for action in ACTIONS:
        assert any(action not in server.lacks for server in SERVERS.values())


def test_the_documentation_shows_what_is_tested() -> None:
    """
    The tables of docs/revisions.md are made from what the tests expect: ``tests/real/table.py``.
    """
    page = (Path(__file__).parents[2] / "docs" / "revisions.md").read_text("utf-8")
    assert table(bridged=True) in page
    assert table(bridged=False) in page
    assert all(f"- {letter}: {note}" in page for letter, note in NOTES.items())

"""Two clients on one legacy process answer its questions at the same time, a thousand times."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real.peers import CLIENTS, SERVERS, environment
from tests.support.daemon import Box, binary
from tests.support.waiting import scaled

Json = dict[str, Any]

TEE = Path(__file__).with_name("tee.py")
ELICIT: Final = "elicitation/create"
TIMES: Final = 500
"""Questions to each of the two."""


@pytest.mark.parametrize(
    ("first", "second", "server"),
    [
        ("python-1.30", "typescript-1.32", "typescript-1.32"),
        ("python-2.3-modern", "typescript-2.4-legacy", "python-1.30"),
    ],
)
def test_no_answer_goes_to_the_wrong_client(
    first: str, second: str, server: str, npm: Path, real: Path, make_box: Callable[[], Box]
) -> None:
    """
    Each asks two questions at a time, of its own: it must be asked exactly those, and the tool must
    be told its answers. Nothing in a legacy server's question says whose call it belongs to.
    """
    box = make_box()
    record = box.root / "record"
    box.servers["asking"] = {
        "command": sys.executable,
        "args": [str(TEE), str(record), *SERVERS[server].command(real)],
        "env": environment(real),
        "interactive": "exclusive",  # else the first question of all may have two owners
    }
    box.up()
    clients = {name: _start(name, real, box) for name in (first, second)}
    try:
        for name, client in clients.items():
            said, _ = client.communicate(timeout=scaled(80))
            assert client.returncode == 0, name
            got = json.loads(said)
            asked = [f"{name} {number}?" for number in range(TIMES)]
            texts = [result["content"][0]["text"] for result in got["results"][0]]
            assert texts == [f"{question} {name}" for question in asked]
            assert sorted(got["questions"]) == sorted(asked)
    finally:
        for client in clients.values():
            client.kill()
            client.communicate()
    said = [json.loads(line[2:]) for line in record.read_text().splitlines() if line[0] == "<"]
    whose = [m["params"]["message"].split()[0] for m in said if m.get("method") == ELICIT]
    assert len(whose) == 2 * TIMES
    turns = sum(one != next_one for one, next_one in pairwise(whose))
    assert turns > TIMES / 5, "the two did not ask at the same time"


def _start(name: str, real: Path, box: Box) -> subprocess.Popen[str]:
    """Start a client that asks and answers."""
    step = {"name": "ask", "arguments": {"question": name + " {n}?"}, "times": TIMES, "at_once": 2}
    asked = {"mode": CLIENTS[name].mode, "answer": name, "steps": [{"do": "call", **step}]}
    client = subprocess.Popen(
        [*CLIENTS[name].command(real), binary("mcpctl"), "connect", "asking"],
        env={**box.env, **environment(real)},
        cwd=box.env["HOME"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert client.stdin
    client.stdin.write(json.dumps(asked))
    client.stdin.close()
    client.stdin = None  # `communicate` would close it again
    return client

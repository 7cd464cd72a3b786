"""What a server wrote before it died is delivered, whoever holds its pipes and however busy mcpd is."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.support.daemon import Box, Peer, RpcError

SERVER = r"""
import json, os, subprocess, sys
count, size, noise, stays = map(int, sys.argv[1:])
asked = []
for line in sys.stdin.buffer:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "dies", "version": "1"}}
        case "tools/list":
            result = {"tools": [{"name": "die", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            asked.append(message["id"])
            if len(asked) == count:
                break
            continue
        case _:
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
if stays:
    subprocess.Popen(["sleep", "987"])
text = json.dumps({"content": [{"type": "text", "text": "x" * size}]})
os.set_blocking(1, True)
with open(2, "wb", closefd=False) as err:
    err.write((b"e" * 1023 + b"\n") * (noise // 1024) + b"the last words")
with open(1, "wb", closefd=False) as out:
    out.write((b"x" * 19 + b"\n") * 10_000 + b"".join(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (each, text.encode())
                       for each in asked[:-1]))
os._exit(9)
"""

SESSIONS = 4
CALLS = 125
"""Of each session; what all of them are owed fits into a pipe at once, if answers are small."""


@contextlib.contextmanager
def busy(box: Box) -> Iterator[None]:
    """Keep the daemon's loop busy: two clients send as fast as they can, and take their turns."""
    is_over = threading.Event()
    line = b'{"jsonrpc":"2.0","method":"notifications/nothing"}\n' * 1000

    def flood(peer: Peer) -> None:
        while not is_over.is_set():
            peer.send_raw(line)

    threads = [threading.Thread(target=flood, args=(box.session(None),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("stays", [0, 1], ids=["alone", "with_a_descendant"])
@pytest.mark.parametrize("size", [1, 16_000], ids=["in_the_pipe", "eight_mebibytes"])
def test_all_answers_and_the_last_words_of_a_server_that_died_arrive(
    box: Box, size: int, stays: int
) -> None:
    """
    It writes 8 MiB on stderr, noise that takes long to read, and 499 answers, and ends at once.
    """
    total = SESSIONS * CALLS
    args = ["-IS", "-c", SERVER, *map(str, (total, size, 8 << 20, stays))]
    entry = {"command": sys.executable, "args": args, "era": "legacy", "restart": {"backoff": 30}}
    box.servers["dies"] = entry
    box.up()
    sessions = [box.session("dies") for _ in range(SESSIONS)]
    failed: list[RpcError] = []
    lengths: set[int] = set()
    with busy(box):
        asked = [
            (each, [each.start("tools/call", {"name": "die"}) for _ in range(CALLS)])
            for each in sessions
        ]
        for session, idents in asked:
            for ident in idents:
                try:
                    result = session.finish(ident, 50)
                    lengths.add(len(result["content"][0]["text"]))
                except RpcError as error:
                    failed.append(error)
    assert lengths == {size}
    assert [(error.kind, error.data["stderr"][-1]) for error in failed] == [
        ("server_crashed", "the last words")
    ]

"""Hostile clients and servers, in processes of their own, on a real daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.size.ground import HOLDS_MIB, MESSAGE_BYTES, MIB, Arena
from tests.support.waiting import scaled

PEERS: Final = Path(__file__).with_name("peers.py")
CLIENTS: Final = 3

MOST_MIB: Final = HOLDS_MIB + 2 * MESSAGE_BYTES // MIB + 40
"""What the daemon's memory may grow by: all that it holds for peers, and a line of each server."""


def storm(messages: int, seed: int) -> None:
    """Have hostile peers say so much in all, while a good session calls; judge that."""
    arena = Arena()
    share = messages // (CLIENTS + 2)
    for name, era in (("bad", "legacy"), ("worse", "modern")):
        args = ["-I", "-S", str(PEERS), "server", era, f"{seed}/{name}", str(share)]
        entry = {"command": sys.executable, "args": args, "era": era, "idle_timeout": 0}
        arena.box.servers[name] = {**entry, "queue_timeout": 2, "stop_grace": 0.3}
    try:
        arena.up()
        with arena.measured(MOST_MIB) as measure:
            argv = [sys.executable, "-I", "-S", str(PEERS), "client", str(arena.box.socket)]
            clients = [
                subprocess.Popen([*argv, f"{seed}/{number}", str(share)])
                for number in range(CLIENTS)
            ]
            try:
                for client in clients:
                    assert client.wait(scaled(30 + messages / 50)) == 0
            finally:
                for client in clients:
                    client.kill()
                    client.wait()
            assert len(measure.latencies()) > 10
        assert "loop.hung" not in arena.box.tail(1 << 20)
    finally:
        arena.close()

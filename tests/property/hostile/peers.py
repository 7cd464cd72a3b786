"""Hostile processes: ``server ERA SEED MESSAGES`` on a pipe, ``client SOCKET SEED MESSAGES``.

Standard library only. A server answers what it is asked at its start, and then says whatever comes
to it. A client comes, says whatever comes to it, and goes, again and again.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.property.hostile.messages import CLIENT, SERVER, Seen, line, size_of

ANSWERS: Final = {
    "protocolVersion": "2025-11-25",
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
    "serverInfo": {"name": "hostile", "version": "1"},
    "tools": [
        {"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "write", "run")
    ],
    "resources": [],
    "resourceTemplates": [],
    "prompts": [],
}
"""What answers everything that is asked at the start."""

POLITE: Final = 5
"""So many requests are answered like this."""

STAYS: Final = 300
"""Messages of a client until it hangs up, about."""


class Pipe:
    """Lines in and bytes out, without ever waiting for one of them alone."""

    def __init__(self, reading: int, writing: int, seen: Seen) -> None:
        self._reading, self._writing, self._seen = reading, writing, seen
        self._rest = b""
        self.lines: list[bytes] = []
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)

    def write(self, data: bytes, patience: float = 5.0) -> None:
        """Write all of it, and read meanwhile. Raises ``EOFError`` when the other side is gone."""
        view, until = memoryview(data), time.monotonic() + patience
        while view:
            readable, writable, _ = select.select([self._reading], [self._writing], [], 1.0)
            if readable:
                self.read()
            if writable:
                try:
                    view = view[os.write(self._writing, view) :]
                except OSError:
                    raise EOFError from None
            elif time.monotonic() > until:
                raise EOFError

    def read(self, wait: float = 0.0) -> None:
        """Take what is there, of which requests are remembered."""
        if not select.select([self._reading], [], [], wait)[0]:
            return
        try:
            data = os.read(self._reading, 1 << 20)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest[-100_000:] + data).split(b"\n")
        for each in lines:
            if len(each) < 100_000:
                with contextlib.suppress(ValueError):
                    self._seen.hear(each)
        self.lines += lines


def serve(seed: str, messages: int) -> None:
    """Be a server until the end of its input."""
    dice, seen = random.Random(seed), Seen()
    pipe = Pipe(0, 1, seen)
    for _ in range(POLITE):
        while not seen.asked:
            pipe.read(60.0)
        pipe.write(line(id=seen.asked.pop(0), result=ANSWERS) + b"\n")
        if pipe.lines and any(b'"tools/list"' in each for each in pipe.lines):
            break
    kinds = list(SERVER.values())
    for _ in range(messages):
        pipe.write(dice.choice(kinds)(dice, size_of(dice), seen) + b"\n", 600.0)
    while True:
        pipe.read(600.0)


def speak(path: str, seed: str, messages: int) -> None:
    """Be one client after the other."""
    dice, left = random.Random(seed), messages
    kinds = list(CLIENT.values())
    while left > 0:
        seen = Seen()
        with contextlib.suppress(EOFError, OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            pipe = Pipe(sock.fileno(), sock.fileno(), seen)
            server = dice.choice(("bad", "worse", "calm", None))
            said = [line(id="a", method="mcpd/attach", params={"server": server})]
            version = dice.choice(("2025-03-26", "2025-11-25"))
            capabilities = {"elicitation": {}, "sampling": {}}
            told = {"protocolVersion": version, "capabilities": capabilities}
            said.append(line(id="i", method="initialize", params=told))
            said.append(line(method="notifications/initialized"))
            if dice.random() < 0.8:
                pipe.write(b"\n".join(said) + b"\n")
            stays = dice.randrange(1, 2 * STAYS)
            while left > 0 and stays > 0:
                left, stays = left - 1, stays - 1
                pipe.write(dice.choice(kinds)(dice, size_of(dice), seen) + b"\n")
            pipe.write(dice.choice((b"", b'{"jsonrpc":', b"x" * 100_000)))
            if dice.random() < 0.5:
                pipe.read(0.05)


def main() -> None:
    """Be what the arguments say."""
    os.nice(19)  # what is measured is the daemon, not who gets a processor
    what, where, seed, messages = sys.argv[1:]
    with contextlib.suppress(EOFError):
        if what == "server":
            serve(seed, int(messages))
        else:
            speak(where, seed, int(messages))


if __name__ == "__main__":
    main()

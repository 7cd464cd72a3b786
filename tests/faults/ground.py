"""What the field tests share: a daemon for a whole file, odd servers, looks at processes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.daemon import Box, Json, Peer, RpcError, is_alive
from tests.support.waiting import wait_until

ODD_SERVER = Path(__file__).with_name("oddserver.py")


NPX = '#!/bin/sh\nsh -c \'"$@"; exit $?\' sh "$@"\nexit $?\n'
"""As npx does: a launcher, a shell, and the server, which is nobody's direct child."""


@contextlib.contextmanager
def installed(configure: Callable[[Box], object], *, up: bool = True) -> Iterator[Box]:
    """Give a box whose daemon runs; several tests share it, each with servers of its own."""
    box = Box()
    try:
        configure(box)
        yield box.up() if up else box
    finally:
        box.close()


def launched(
    box: Box, name: str, *launcher: str, flags: tuple[str, ...] = (), **entry: Any
) -> None:
    """Add a fake server behind a launcher."""
    box.fake(name, *flags, **entry)
    launch = box.servers[name]
    launch["args"] = [*launcher[1:], launch["command"], *launch["args"]]
    launch["command"] = launcher[0]


def npx(box: Box) -> str:
    """Return the path of a program that is to its argument what ``npx`` is to a server."""
    program = box.root / "npx"
    program.write_text(NPX)
    program.chmod(0o755)
    return str(program)


def odd(box: Box, name: str, *flags: object, **entry: Any) -> None:
    """Add an odd server, which knows the older era alone."""
    args = ["-I", "-S", str(ODD_SERVER), *map(str, flags)]
    box.servers[name] = {"command": sys.executable, "args": args, "era": "legacy", **entry}


def answered(result: str) -> str:
    """Return the line by which an odd server answers what it was asked."""
    return '{"jsonrpc":"2.0","id":$ID,"result":' + result + "}\n"


def text_result(text: str) -> str:
    """Return a result of one text, which must need no escapes."""
    return '{"content":[{"type":"text","text":"' + text + '"}]}'


def tree(box: Box, *names: str) -> list[int]:
    """Start servers and return the pids of their trees."""
    with box.peer() as peer:
        peer.request("mcpd/start", {"servers": list(names)}, 20)
    return [pid for name in names for pid in box.status(name)["pids"]]


def wait_gone(pids: Iterable[int], timeout: float) -> None:
    """Wait until none of these processes runs any more."""
    wait_until(
        lambda: not any(map(is_alive, pids)),
        timeout,
        what=lambda: f"the end of {[pid for pid in pids if is_alive(pid)]}",
    )


def children_of(parent: int, states: str = "RSDZT") -> list[int]:
    """Return the children of a process, those in one of these states; ``Z`` is a zombie."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, ppid = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state in states and int(ppid) == parent:
                found.append(int(entry))
    return found


def memory_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no VmRSS for {pid}")


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def up_by(box: Box, script: str) -> Box:
    """Start the daemon from a shell that runs ``script`` first: limits, mounts."""
    return box.up(through=["sh", "-e", "-c", f'{script}\nexec "$@"', "sh"])


def hold(box: Box, count: int) -> list[Peer]:
    """Connect so many times, and greet on each."""
    crowd = [box.peer() for _ in range(count)]
    for peer in crowd:
        with contextlib.suppress(OSError):  # it has been turned away already
            peer.start("mcpd/hello")
    return crowd


def answered_by(peer: Peer) -> bool:
    """Tell whether a greeting was answered; else the connection was refused."""
    try:
        peer.finish(1)
    except (RpcError, EOFError, TimeoutError):
        return False
    return True


def let_go(crowd: Iterable[Peer]) -> None:
    """Hang up, half of them in the middle of a line."""
    for number, peer in enumerate(crowd):
        with contextlib.suppress(OSError):
            if number % 2:
                peer.send_raw(b'{"jsonrpc":"2.0","id":2,"met')
        peer.close()


def notes(box: Box, name: str) -> list[str]:
    """Return what the daemon noted in a server's log."""
    with box.peer() as peer:
        lines = peer.request("mcpd/logs", {"server": name})["lines"]
    return [line["text"] for line in lines if line["source"] == "mcpd"]


def events(peer: Peer, *names: str) -> None:
    """Have a connection told of all that happens to servers, from the beginning."""
    peer.request("mcpd/events", {"servers": list(names), "since": 0})


def take_event(peer: Peer, event: str, timeout: float = 10.0) -> Json:
    """Return the next event of that name."""

    def is_it(message: Json) -> bool:
        return message.get("method") == "mcpd/event" and message["params"]["event"] == event

    params: Json = peer.take(is_it, timeout, event)["params"]
    return params


class Watch:
    """A stopwatch; reads as the seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds so far."""
        return time.monotonic() - self._began

"""Count the functions, files and moves between files on the paths of common requests.

    .venv/bin/python -m benchmarks.paths [--calls]
    .venv/bin/python -m benchmarks.paths --time [--recorded]

A daemon is started whose dispatcher is profiled. For each path the client sends its messages while
the daemon counts the Python functions that are called between an event and its last command.
``--calls`` prints each function in order. ``--time`` measures calls of a tool in the mux alone,
without a daemon and without the profiler; with ``--recorded`` also what is done for the audit on
the loop.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.client import environment
from benchmarks.routes import ECHO, directory, running
from mcpd.ids import SessionId

HERE = Path(__file__).parent
ASKING = HERE.parent / "tests" / "support" / "fakeserver.py"
LABEL = "MCPD_PATHS_LABEL"
"""Names the file with the label of the path that is counted; empty while nothing is."""

ROUNDS = 200
CALLS = 300
ANSWER_BYTES = 4096

Json = dict[str, Any]


# -- inside the daemon -----------------------------------------------------------------------------


def profiled() -> None:
    """Run the daemon, and write the functions of each dispatch beside the label's file."""
    from mcpd import cli
    from mcpd.daemon.dispatcher import Dispatcher

    label = Path(os.environ[LABEL])
    root = str(HERE.parent) + "/"
    original = Dispatcher.dispatch
    depth = 0

    def dispatch(self: Dispatcher, event: Any) -> None:
        nonlocal depth
        name = "" if depth else label.read_text()
        if depth or not name:
            original(self, event)
            return
        called: list[str] = []

        def count(frame: FrameType, what: str, argument: object) -> None:
            code = frame.f_code
            if what == "call" and code.co_filename.startswith(root):
                called.append(f"{code.co_filename.removeprefix(root)}:{code.co_qualname}")

        depth = 1
        sys.setprofile(count)
        try:
            original(self, event)
        finally:
            sys.setprofile(None)
            depth = 0
        line = json.dumps({"path": name, "event": type(event).__name__, "called": called})
        with open(f"{label}.calls", "a") as file:
            file.write(line + "\n")

    Dispatcher.dispatch = dispatch  # type: ignore[method-assign]
    cli.main()


# -- the client ------------------------------------------------------------------------------------


class Peer:
    """A client on the daemon's socket, which waits for each answer."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(path)
        self._lines = self._socket.makefile("rb")
        self._number = 0

    def send(self, message: Json) -> None:
        """Send a message."""
        self._socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def receive(self) -> Json:
        """Return the next message."""
        line = self._lines.readline()
        if not line:
            raise RuntimeError("the daemon has closed the connection")
        message: Json = json.loads(line)
        return message

    def ask(self, method: str, **params: object) -> Json:
        """Send a request, answer questions, and return the result."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        while True:
            message = self.receive()
            if "method" in message and "id" in message:
                answer = {"action": "accept", "content": {"answer": "yes"}}
                self.send({"id": message["id"], "result": answer})
            elif message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                result: Json = message["result"]
                return result

    def attach(self, server: str | None, **capabilities: object) -> Peer:
        """Make the connection an initialized session on an endpoint."""
        self.ask("mcpd/attach", **({} if server is None else {"server": server}))
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities=capabilities,
            clientInfo={"name": "paths", "version": "1"},
        )
        self.send({"method": "notifications/initialized"})
        return self


@contextmanager
def daemon(place: str) -> Iterator[tuple[str, Path]]:
    """Run a daemon with two servers; yield its socket and the label's file."""
    label = Path(place, "label")
    label.touch()
    write_config(place)
    env = environment(place) | {LABEL: str(label), "PYTHONPATH": str(HERE.parent)}
    path = f"{place}/run/mcpd.sock"
    argv = (sys.executable, "-m", "benchmarks.paths", "--daemon", "--socket", path)
    with running(argv, env, f"{place}/log") as process:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(Path(f"{place}/log").read_text()[-2000:]) from None
                time.sleep(0.01)
        yield path, label


def reload(place: str, control: Peer) -> None:
    """Change an entry of the configuration, and have it read again."""
    write_config(place, CHANGED="1")
    control.ask("mcpd/reload")


def write_config(place: str, **variables: str) -> None:
    """Write the configuration: an echo server, and one that asks."""
    servers = {
        "echo": {"command": ECHO[0], "args": [*ECHO[1:]], "env": variables},
        "asks": {"command": sys.executable, "args": [str(ASKING)]},
    }
    path = Path(place, "mcp.json")
    path.write_text(json.dumps({"mcpServers": servers}))
    path.chmod(0o600)


def counted(label: Path, name: str, act: Callable[[], object]) -> tuple[list[str], list[str]]:
    """Do something; return the events that were dispatched and the functions that were called."""
    out = Path(f"{label}.calls")
    out.unlink(missing_ok=True)
    label.write_text(name)
    act()
    time.sleep(0.3)  # what comes after the answer
    label.write_text("")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    return [each["event"] for each in found], [call for each in found for call in each["called"]]


def row(name: str, events: list[str], called: list[str]) -> str:
    """Return one line of the table."""
    files = [call.partition(":")[0] for call in called]
    moves = sum(one != other for one, other in itertools.pairwise(files))
    figures = (len(events), len(called), len(set(called)), len(set(files)), moves)
    return f"| {name} | " + " | ".join(map(str, figures)) + " |"


def table(*, shows_calls: bool) -> None:
    """Print what each path takes."""
    print("| path | events | calls | functions | files | moves between files |")
    print("|---|---|---|---|---|---|")
    with directory() as place, daemon(place) as (path, label):
        own, aggregate = Peer(path).attach("echo"), Peer(path).attach(None)
        asked, control = Peer(path).attach("asks", elicitation={}), Peer(path)
        aggregate.ask("tools/list")
        echo = {"arguments": {"text": "x"}}
        paths: dict[str, Callable[[], object]] = {
            "tools/call, warm, own endpoint": lambda: own.ask("tools/call", name="echo", **echo),
            "tools/call, aggregate": lambda: aggregate.ask("tools/call", name="echo__echo", **echo),
            "one elicitation, there and back": lambda: asked.ask(
                "tools/call", name="ask", arguments={"question": "?"}
            ),
            "restart (with its connection)": lambda: Peer(path).ask(
                "mcpd/restart", servers=["echo"]
            ),
            "reload, one entry changed": lambda: reload(place, control),
        }
        for name, act in paths.items():
            if "restart" not in name and "reload" not in name:
                act()
            events, called = counted(label, name, act)
            print(row(name, events, called), flush=True)
            if shows_calls:
                print(*(f"    {call}" for call in called), sep="\n")


def time_calls(*, is_recorded: bool) -> None:
    """Print how much CPU time the loop takes for a call, where nobody else wants any.

    One kind of calls in a process: a second one was seen to take half a microsecond longer.
    """
    rounds = sorted(timed_rounds(is_recorded=is_recorded))
    best, good = rounds[0], rounds[ROUNDS // 4]
    print(f"{best:.2f} us of CPU per call at best, {good:.2f} us in a good round")


def timed_rounds(*, is_recorded: bool) -> list[float]:
    """Return what a call took in each of many short rounds: in the mux, and for its record."""
    from mcpd import tasks
    from mcpd.audit.queue import Queue
    from mcpd.core.facts import CallEnded
    from mcpd.core.interface import commands, events
    from tests.unit.core.mux.world import World

    world = World()
    world.run("!! server echo", "!! start echo", "!! join 7 echo")
    slot, session = world.slot("echo"), SessionId(7)
    handle, do, queue = world.mux.handle, tasks.attempt_each, Queue()
    world.mux.context.tells_calls = is_recorded
    handlers: dict[type[Any], Callable[[Any], object]] = {
        commands.ToServer: lambda command: None,
        commands.ToSession: lambda command: None,
        CallEnded: queue.add_call,
    }
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}'
    params = b'{"name":"echo","arguments":{"text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}'
    text = b"x" * ANSWER_BYTES
    answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}'
    sent = handle(events.FrameFromSession(session, request % (1, params)), 1.0)[-1]
    wire_id = sent.wire_id  # type: ignore[union-attr]
    handle(events.FrameFromServer(slot, answer % (wire_id, text)), 1.0)
    rounds = []
    for _ in range(ROUNDS):
        ids = range(wire_id + 1, wire_id + 1 + CALLS)
        lines = [(request % (each, params), answer % (each, text)) for each in ids]
        wire_id += CALLS
        began = time.process_time()
        for line, answered in lines:
            do(handlers, handle(events.FrameFromSession(session, line), 1.0))
            do(handlers, handle(events.FrameFromServer(slot, answered), 1.0))
        rounds.append((time.process_time() - began) / CALLS * 1e6)
        while (row := queue.take()) is not None:
            queue.mark_read(row[1].request_bytes + row[1].result_bytes)
            queue.mark_written(1)
    return rounds


def main() -> None:
    """Run one of the two measurements."""
    if "--daemon" in sys.argv:
        sys.argv.remove("--daemon")
        profiled()
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="print the functions of each path")
    parser.add_argument("--time", action="store_true", help="time calls in the mux alone")
    parser.add_argument("--recorded", action="store_true", help="of calls that are recorded")
    options = parser.parse_args()
    if options.time:
        time_calls(is_recorded=options.recorded)
    else:
        table(shows_calls=options.calls)


if __name__ == "__main__":
    main()

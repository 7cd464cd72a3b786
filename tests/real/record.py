"""Records what the SDKs say to each other, for tests/transcripts/recorded: its README says how to run it.

Each conversation is a client and a server on an SDK, directly, with every line that passes between
them; each topic is a pair of processes of its own. Some topics no client would begin: those are
lines typed here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.real.peers import CLIENTS, MODERN, SERVERS, variables
from tests.support.waiting import can_read

Json = dict[str, Any]

HERE = Path(__file__).parent
WHERE = HERE.parent / "transcripts" / "recorded" / "peers"

PAIRS = {
    "python-1.8.1": ("python-1.30", "python-1.8.1"),
    "python-1.26": ("python-1.30", "python-1.26"),
    "python-1.30": ("python-1.30", "python-1.30"),
    "python-2.3-legacy": ("python-2.3-legacy", "python-2.3"),
    "python-2.3-modern": ("python-2.3-auto", "python-2.3"),
    "typescript-1.32": ("typescript-1.32", "typescript-1.32"),
    "typescript-2.4-legacy": ("typescript-2.4-legacy", "typescript-2.4"),
    "typescript-2.4-modern": ("typescript-2.4-auto", "typescript-2.4"),
    "everything": ("typescript-1.32", "everything"),
}
"""By the name of the file: the client and the server."""

STEPS: dict[str, Json] = {
    "the tools": {"do": "list"},
    "a call": {"do": "call", "name": "echo", "arguments": {"text": "naïve ☃"}},
    "a call of a tool that is not there": {"do": "call", "name": "no-such-tool"},
    "progress": {"do": "progress", "name": "count", "arguments": {"to": 2}},
    "a cancellation": {"do": "cancel", "name": "hang", "arguments": {"label": "a"}},
    "a question (ask)": {"do": "call", "name": "ask", "arguments": {"question": "Who?"}},
    "a question of the legacy kind (ask_back)": {
        "do": "call",
        "name": "ask_back",
        "arguments": {"question": "Who?"},
    },
    "log messages": {"do": "log", "name": "tell", "arguments": {"text": "x"}, "level": "debug"},
    "a change of the list": {"do": "change", "name": "toggle"},
}
EVERYTHING_STEPS: dict[str, Json] = {
    "the tools": STEPS["the tools"],
    "a call": {"do": "call", "name": "echo", "arguments": {"message": "naïve ☃"}},
    "a call of a tool that is not there": STEPS["a call of a tool that is not there"],
    "progress": {
        "do": "progress",
        "name": "trigger-long-running-operation",
        "arguments": {"duration": 0.2, "steps": 2},
    },
    "a cancellation": {
        "do": "cancel",
        "name": "trigger-long-running-operation",
        "arguments": {"duration": 1, "steps": 10},
    },
    "a question": {"do": "call", "name": "trigger-elicitation-request"},
    "a question for a model": {
        "do": "call",
        "name": "trigger-sampling-request",
        "arguments": {"prompt": "Who?", "maxTokens": 5},
    },
    "log messages": {"do": "log", "name": "toggle-simulated-logging", "level": "debug"},
}
LEFT_OUT = {
    "python-1.8.1": ("a question (ask)", "a question of the legacy kind (ask_back)"),
    "python-1.26": ("a question of the legacy kind (ask_back)",),
    "python-1.30": ("a question of the legacy kind (ask_back)",),
    "typescript-1.32": ("a question of the legacy kind (ask_back)",),
}

P = "io.modelcontextprotocol"
ENVELOPE = {
    f"{P}/protocolVersion": MODERN,
    f"{P}/clientInfo": {"name": "typed", "version": "1"},
    f"{P}/clientCapabilities": {"elicitation": {"form": {}}},
}
BARE = {**ENVELOPE, f"{P}/clientCapabilities": {}}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "typed", "version": "1"},
}


def request(ident: Any, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
    """Return a request to type."""
    whole = {**(params or {}), **({"_meta": meta} if meta else {})}
    given = {"params": whole} if whole or params is not None else {}
    return {"jsonrpc": "2.0", "id": ident, "method": method, **given}


ASK = {"name": "ask", "arguments": {"question": "Who?"}}
ECHO = {"name": "echo", "arguments": {"text": "x"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LISTEN = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["no://such"]}}

TYPED: dict[str, list[Json]] = {
    "server/discover first, then initialize": [
        request("probe", "server/discover", meta=ENVELOPE),
        request(2, "initialize", INITIALIZE),
    ],
    "initialize first, then an envelope": [
        request(1, "initialize", INITIALIZE),
        INITIALIZED,
        request(2, "tools/call", ECHO, ENVELOPE),
        request(3, "server/discover", meta=ENVELOPE),
    ],
}
TYPED_MODERN: dict[str, list[Json]] = {
    "envelopes that are wrong": [
        request(1, "tools/call", ECHO, {f"{P}/protocolVersion": MODERN}),
        request(2, "tools/call", ECHO, {**ENVELOPE, f"{P}/protocolVersion": "2099-01-01"}),
        request(3, "tools/call", ECHO, {**ENVELOPE, f"{P}/logLevel": "loud"}),
    ],
    "methods that were removed, and one that never was": [
        request(1, "ping", meta=ENVELOPE),
        request(2, "logging/setLevel", {"level": "info"}, ENVELOPE),
        request(3, "resources/subscribe", {"uri": "no://such"}, ENVELOPE),
        request(4, "no/such", meta=ENVELOPE),
    ],
    "a resource that is not there": [
        request(1, "resources/read", {"uri": "no://such"}, ENVELOPE),
    ],
    "a question to a client that declared nothing": [request(1, "tools/call", ASK, BARE)],
    "a retry with a state that was not given": [
        request(1, "tools/call", ASK, ENVELOPE),
        request(2, "tools/call", {**ASK, "requestState": "forged", "inputResponses": {}}, ENVELOPE),
    ],
    "a listen that is cancelled, and one that the end of the input ends": [
        request("one", "subscriptions/listen", LISTEN, ENVELOPE),
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "one", "_meta": ENVELOPE},
        },
        request(2, "subscriptions/listen", LISTEN, ENVELOPE),
    ],
}


def conversation(real: Path, client: list[str], server: list[str], asked: Json) -> list[str]:
    """Return what passed between a client and a server."""
    with tempfile.TemporaryDirectory(prefix="mcpd-") as place:
        record = Path(place) / "record"
        tee = [sys.executable, str(HERE / "tee.py"), str(record)]
        ran = subprocess.run(
            [*client, *tee, *server],
            input=json.dumps(asked),
            env=variables(real),
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        failed = [] if ran.returncode == 0 else [f"= the client fails: {ran.stderr.strip()[-300:]}"]
        return record.read_text().splitlines() + failed


def typed(real: Path, server: list[str], messages: list[Json]) -> list[str]:
    """Return what a server says to lines that are typed; each is given a moment to be answered."""
    process = subprocess.Popen(
        server,
        env=variables(real),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    assert process.stdin and process.stdout
    lines = ["= the server starts"]
    rest = b""

    def read(seconds: float, ident: Any = None) -> None:
        nonlocal rest
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            assert process.stdout
            if not can_read(process.stdout.fileno(), left):
                return
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                return
            *whole, rest = (rest + chunk).split(b"\n")
            lines.extend(f"< {line.decode()}" for line in whole)
            if ident is not None and any(json.loads(line).get("id") == ident for line in whole):
                return

    for message in messages:
        lines.append(f"> {json.dumps(message, ensure_ascii=False)}")
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            lines.append("= the server is gone")
            break
        read(3.0 if "id" in message else 0.3, message.get("id"))
    lines.append("= the client closes its end")
    process.stdin.close()
    read(2.0)
    try:
        process.wait(2)
        lines.append(f"= the server ends with {process.returncode}")
    except subprocess.TimeoutExpired:
        lines.append("= the server does not end by itself")
        process.kill()
        process.wait()
    process.stdout.close()
    return lines


def recording(real: Path, name: str) -> str:
    """Return a file whole: every topic of one conversation."""
    client, server = CLIENTS[PAIRS[name][0]], SERVERS[PAIRS[name][1]]
    start, steps = server.command(real), EVERYTHING_STEPS if name == "everything" else STEPS
    parts = [f"A client on {PAIRS[name][0]} and the server {PAIRS[name][1]}.\n"]
    for topic, step in steps.items():
        if topic not in LEFT_OUT.get(name, ()):
            asked = {"steps": [step], "mode": client.mode}
            lines = conversation(real, client.command(real), start, asked)
            parts.append(f"## {topic}\n\n" + "\n".join(lines) + "\n")
    topics = {**TYPED, **(TYPED_MODERN if name.endswith("modern") else {})}
    for topic, messages in topics.items():
        lines = typed(real, start, messages)
        parts.append(f"## typed: {topic}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Record all, or those that are named."""
    real = Path(os.environ["MCPD_REAL"]).absolute()
    WHERE.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PAIRS:
        (WHERE / f"{name}.txt").write_text(recording(real, name))
        print(name)


if __name__ == "__main__":
    main()

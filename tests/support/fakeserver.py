"""A scriptable MCP server over stdio (legacy revisions): standard library only, a thread per call.

Flags script its faults. ``--journal FILE`` appends each message it reads, and how it ended, as one
JSON object a line: ``{"pid", "message"}`` or ``{"pid", "bye": "eof"|"term"}``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

Json = dict[str, Any]

REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
NOISE = b"Fake server is starting...\n\n   \n\x1b[32mready\x1b[0m\r\n[]\n42\n{not json}\n"


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the flags; a wrong one ends the process with 2, as a user's typing mistake would."""
    ap = argparse.ArgumentParser(description="A scriptable MCP server.")
    add = ap.add_argument
    add("--name", default="fake", help="what serverInfo says")
    add("--version", help="the only revision it speaks")
    add("--instructions")
    add("--journal", help="a file that gets every message read")
    add("--pidfile", help="a file that gets its pid, and those of its descendants")
    add("--tools", type=int, default=0, help="more tools: dummy_0, dummy_1 ...")
    add("--page-size", type=int, default=0, help="entries of a page of every list")
    add("--stuck-cursor", action="store_true", help="the second page leads to itself")
    add("--no-resources", action="store_true")
    add("--no-prompts", action="store_true")
    add("--noise", action="store_true", help="lines on stdout that are no JSON-RPC")
    add("--stderr", type=int, default=0, metavar="BYTES", help="written at start")
    add("--start-delay", type=float, default=0.0, metavar="S", help="before the first read")
    add("--crash-at-start", type=int, metavar="CODE")
    add("--crash-if", metavar="FILE", help="crash at start while this file exists")
    add("--mute", action="store_true", help="reads, and answers nothing")
    add("--ignore-eof", action="store_true")
    add("--ignore-term", action="store_true")
    add("--busy-on-eof", action="store_true", help="spins, as servers with a lost client do")
    add("--stop-reading", type=int, metavar="K", help="reads nothing after its K-th call")
    add("--die-after-calls", type=int, metavar="K", help="exits at its K-th call, unanswered")
    add("--group-child", action="store_true", help="leaves a sleeping descendant in its group")
    add("--setsid-child", action="store_true", help="leaves one in a session of its own")
    return ap.parse_args(argv)


class Refused(Exception):
    """A JSON-RPC error on its way out."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Stopped(Exception):
    """The call was cancelled: it gets no answer."""


def schema(required: tuple[str, ...] = (), **properties: str) -> Json:
    """Return an object schema; the values of ``properties`` are JSON types."""
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": list(required)}


READ_ONLY = {"readOnlyHint": True}
TOOLS: dict[str, tuple[Json, Json]] = {
    "echo": (schema(("text",), text="string"), READ_ONLY),
    "add": (schema(("a", "b"), a="number", b="number"), READ_ONLY),
    "pid": (schema(), READ_ONLY),
    "env": (schema(("name",), name="string"), READ_ONLY),
    "cwd": (schema(), READ_ONLY),
    "count": (schema(), {}),
    "sleep": (schema(("ms",), ms="integer"), {}),
    "hang": (schema(), {}),
    "blob": (schema(("bytes",), bytes="integer"), READ_ONLY),
    "progress": (schema(("steps",), steps="integer", ms="integer"), {}),
    "log": (schema(("level", "text"), level="string", text="string"), {}),
    "touch": (schema(("uri",), uri="string"), {}),
    "grow": (schema(("name",), name="string"), {}),
    "ask": (schema(("question",), question="string"), {}),
    "fail": (schema(text="string"), {}),
    "crash": (schema(code="integer"), {}),
    "raw_line": (schema(("line",), line="string"), {}),
    "cancelled": (schema(), READ_ONLY),
    "subscriptions": (schema(), READ_ONLY),
}


def text(value: object, **more: Any) -> Json:
    """Return a tool's result of one text."""
    told = value if isinstance(value, str) else json.dumps(value)
    return {"content": [{"type": "text", "text": told}], **more}


class Server:
    """One conversation over stdin and stdout."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.writing = threading.Lock()
        self.level: str | None = None
        self.subscribed: set[str] = set()
        self.cancelled: list[Any] = []
        self.running: dict[Any, threading.Event] = {}
        self.questions: dict[Any, tuple[threading.Event, list[Json]]] = {}
        self.more_tools = [f"dummy_{i}" for i in range(options.tools)]
        self.resources = ["fake://a", "fake://b"]
        self.counter = 0
        self.calls_read = 0

    # -- the wire ------------------------------------------------------------------------------

    def journal(self, **entry: Any) -> None:
        """Append to the journal, if there is one; one write, so that a signal may come anywhere."""
        if self.options.journal:
            line = json.dumps({"pid": os.getpid(), **entry}) + "\n"
            with open(self.options.journal, "ab", buffering=0) as file:
                file.write(line.encode())

    def write(self, data: bytes) -> None:
        with self.writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def read(self) -> None:
        """Serve until end of file, or until the script says to stop reading."""
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                self.journal(unparsable=line.decode("utf-8", "replace"))
                self.send(id=None, error={"code": -32700, "message": "Parse error"})
                continue
            self.journal(message=message)
            if not isinstance(message, dict):
                self.send(id=None, error={"code": -32600, "message": "Invalid Request"})
            elif not self.options.mute:
                self.take(message)
            if self.calls_read == self.options.stop_reading:
                threading.Event().wait()

    def take(self, message: Json) -> None:
        """React to one message; requests are served in threads of their own."""
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            event, answers = self.questions.get(message.get("id"), (None, []))
            answers.append(message)
            if event:
                event.set()
        elif "id" not in message:
            if method == "notifications/cancelled":
                self.cancelled.append(params.get("requestId"))
                if stop := self.running.get(params.get("requestId")):
                    stop.set()
        else:
            if method == "tools/call":
                self.calls_read += 1
                if self.calls_read == self.options.die_after_calls:
                    os._exit(11)
            self.running[message["id"]] = threading.Event()
            serve = (message["id"], method, params)
            threading.Thread(target=self.serve, args=serve, daemon=True).start()

    def serve(self, ident: Any, method: str, params: Json) -> None:
        """Answer one request; nothing that goes wrong inside ends the process."""
        try:
            self.send(id=ident, result=self.answer(ident, method, params))
        except Stopped:
            pass
        except Refused as refusal:
            self.send(id=ident, error=refusal.error)
        except Exception as error:
            self.send(id=ident, error={"code": -32603, "message": repr(error)})
        finally:
            self.running.pop(ident, None)

    # -- MCP -----------------------------------------------------------------------------------

    def answer(self, ident: Any, method: str, params: Json) -> Json:
        """Return the result of a request, or raise ``Refused``."""
        opt = self.options
        match method:
            case "initialize":
                return self.initialize(params)
            case "ping":
                return {}
            case "logging/setLevel":
                self.level = params["level"]
                return {}
            case "tools/list":
                return self.page("tools", [self.tool(n) for n in self.names()], params)
            case "tools/call":
                return self.call(ident, params)
            case "completion/complete":
                value = params["argument"]["value"]
                return {"completion": {"values": [f"{value}-1", f"{value}-2"], "hasMore": False}}
            case "prompts/list" if not opt.no_prompts:
                greet = {"name": "greet", "arguments": [{"name": "who", "required": True}]}
                return self.page("prompts", [greet], params)
            case "prompts/get" if not opt.no_prompts:
                who = (params.get("arguments") or {}).get("who", "you")
                said = {"type": "text", "text": f"{opt.name} greets {who}"}
                return {"messages": [{"role": "user", "content": said}]}
            case _ if method.startswith("resources/") and not opt.no_resources:
                return self.resource(method, params)
        raise Refused(-32601, f"Method not found: {method}")

    def initialize(self, params: Json) -> Json:
        asked, only = params.get("protocolVersion"), self.options.version
        capabilities: Json = {"tools": {"listChanged": True}, "logging": {}, "completions": {}}
        if not self.options.no_resources:
            capabilities["resources"] = {"subscribe": True, "listChanged": True}
        if not self.options.no_prompts:
            capabilities["prompts"] = {"listChanged": True}
        result = {
            "protocolVersion": only or (asked if asked in REVISIONS else REVISIONS[0]),
            "capabilities": capabilities,
            "serverInfo": {"name": self.options.name, "version": "1.2.3"},
        }
        return result | (
            {"instructions": self.options.instructions} if self.options.instructions else {}
        )

    def resource(self, method: str, params: Json) -> Json:
        name = self.options.name
        match method:
            case "resources/list":
                return self.page(
                    "resources", [{"uri": u, "name": u} for u in self.resources], params
                )
            case "resources/templates/list":
                template = {"uriTemplate": f"{name}://item/{{id}}", "name": "item"}
                return self.page("resourceTemplates", [template], params)
            case "resources/read":
                uri = params["uri"]
                if uri not in self.resources and not uri.startswith(f"{name}://item/"):
                    raise Refused(-32002, "Resource not found", {"uri": uri})
                return {"contents": [{"uri": uri, "text": f"{name} has {uri}"}]}
            case "resources/subscribe":
                self.subscribed.add(params["uri"])
                return {}
            case "resources/unsubscribe":
                self.subscribed.discard(params["uri"])
                return {}
        raise Refused(-32601, f"Method not found: {method}")

    def names(self) -> list[str]:
        return [*TOOLS, *self.more_tools]

    def tool(self, name: str) -> Json:
        wants, hints = TOOLS.get(name, (schema(), {}))
        told = {"name": name, "description": f"Does {name}.", "inputSchema": wants}
        return told | ({"annotations": hints} if hints else {})

    def page(self, key: str, items: list[Json], params: Json) -> Json:
        """Return the page that the cursor of ``params`` names."""
        cursor = params.get("cursor")
        if cursor is not None and not cursor.removeprefix("c").isdigit():
            raise Refused(-32602, "Invalid cursor")
        start = int(cursor[1:]) if cursor else 0
        size = self.options.page_size or max(len(items), 1)
        result: Json = {key: items[start : start + size]}
        if self.options.stuck_cursor and start:
            result["nextCursor"] = cursor
        elif start + size < len(items):
            result["nextCursor"] = f"c{start + size}"
        return result

    def ask(self, ident: Any, question: str) -> Json:
        """Ask the client in the middle of a call, and return what it answered."""
        event, answers = threading.Event(), list[Json]()
        key = f"q{ident}"
        self.questions[key] = (event, answers)
        wants = schema(("answer",), answer="string")
        asked = {"message": question, "requestedSchema": wants}
        self.send(id=key, method="elicitation/create", params=asked)
        event.wait()
        del self.questions[key]
        return answers[0]

    # -- the tools -----------------------------------------------------------------------------

    def call(self, ident: Any, params: Json) -> Json:
        """Do what the tool is called for."""
        name, args = params.get("name"), params.get("arguments") or {}
        if name not in self.names():
            raise Refused(-32602, f"Unknown tool: {name}")
        match name:
            case "echo":
                return text(args["text"], structuredContent={"text": args["text"]})
            case "add":
                return text(args["a"] + args["b"])
            case "pid":
                return text(os.getpid())
            case "env":
                return text(os.environ.get(args["name"], "<unset>"))
            case "cwd":
                return text(os.getcwd())
            case "count":
                with self.writing:
                    self.counter += 1
                    return text(self.counter)
            case "sleep":
                self.pause(ident, args["ms"] / 1000)
                return text(f"slept {args['ms']}")
            case "hang":
                self.pause(ident, None)
            case "blob":
                return text("x" * args["bytes"])
            case "progress":
                self.progress(ident, args, (params.get("_meta") or {}).get("progressToken"))
                return text("done")
            case "log":
                if LEVELS.index(args["level"]) >= LEVELS.index(self.level or "debug"):
                    said = {"level": args["level"], "logger": "fake", "data": args["text"]}
                    self.notify("notifications/message", **said)
                return text("logged")
            case "touch":
                if args["uri"] in self.subscribed:
                    self.notify("notifications/resources/updated", uri=args["uri"])
                return text("touched")
            case "grow":
                self.more_tools.append(args["name"])
                self.notify("notifications/tools/list_changed")
                return text("grown")
            case "ask":
                return text(self.ask(ident, args["question"]))
            case "fail":
                return text(args.get("text", "the tool failed"), isError=True)
            case "crash":
                print("the last words on stderr", file=sys.stderr, flush=True)
                os._exit(args.get("code", 7))
            case "raw_line":
                self.write(args["line"].encode() + b"\n")
                return text("written")
            case "cancelled":
                return text(self.cancelled)
            case "subscriptions":
                return text(sorted(self.subscribed))
        return text(f"{name} called")

    def pause(self, ident: Any, seconds: float | None) -> None:
        """Wait (for ever, if None); a cancellation ends the call."""
        if self.running[ident].wait(seconds):
            raise Stopped

    def progress(self, ident: Any, args: Json, token: Any) -> None:
        for step in range(1, args["steps"] + 1):
            self.pause(ident, args.get("ms", 10) / 1000)
            if token is not None:
                told = {"progress": step, "total": args["steps"], "message": f"step {step}"}
                self.notify("notifications/progress", progressToken=token, **told)


def note_pid(options: argparse.Namespace, pid: int) -> None:
    """Append a pid to the pid file, if there is one."""
    if options.pidfile:
        with open(options.pidfile, "a") as file:
            file.write(f"{pid}\n")


def leave_child(options: argparse.Namespace, *, own_session: bool) -> None:
    """Start a descendant that sleeps and that nobody here will ever stop."""
    null = subprocess.DEVNULL
    child = subprocess.Popen(
        ["sleep", "987"], stdin=null, stdout=null, stderr=null, start_new_session=own_session
    )
    child.returncode = 0  # it is left on purpose: no warning about it
    note_pid(options, child.pid)


def main(argv: list[str]) -> None:
    """Do what the flags say, then serve."""
    options = parse(argv)
    server = Server(options)
    time.sleep(options.start_delay)
    if options.crash_at_start is not None or (
        options.crash_if and os.path.exists(options.crash_if)
    ):
        print("fatal: scripted crash at start", file=sys.stderr, flush=True)
        os._exit(9 if options.crash_at_start is None else options.crash_at_start)

    def terminated(*_: object) -> None:
        server.journal(bye="term")
        if not options.ignore_term:
            os._exit(0)

    signal.signal(signal.SIGTERM, terminated)
    note_pid(options, os.getpid())
    if options.group_child:
        leave_child(options, own_session=False)
    if options.setsid_child:
        leave_child(options, own_session=True)
    line = b"noise " * 20 + b"\n"
    for _ in range(-(-options.stderr // len(line))):
        os.write(2, line)
    if options.noise:
        server.write(NOISE)

    server.read()
    server.journal(bye="eof")
    while options.busy_on_eof:
        pass
    while options.ignore_eof:
        time.sleep(60)
    os._exit(0)  # without waiting for calls that still run


if __name__ == "__main__":
    main(sys.argv[1:])

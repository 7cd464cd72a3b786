"""Plays a conversation with the mux that is written down as text.

A file is read line by line. What starts a step is kept as it is; what the mux did is compared with
the lines that follow, or written there with ``MCPD_REWRITE_TRANSCRIPTS=1``::

    # Anything: a comment.
    !! server echo call_timeout=5      a server of the configuration, with fields of its Entry
    !! start echo                      its process comes up, shakes hands and lists, unseen
    !! join 7 echo                     a session on its endpoint (none: the aggregate), initialized
    >> 7 {"id": 1, …}                  session 7 sends a line, byte for byte as it stands here
    >>m 7 elicitation {"id": 1, …}     the same from a modern client that declares so, or nothing: -
    << echo {"id": 3, …}               the mux writes to the server; compared as JSON
    <<! 7 {"id":1,…}                   the same, compared byte for byte
    !! +1.5                            1.5 seconds pass
    -- want echo                       anything else the mux asks for, or says that it happened

``>>b`` takes a Python literal, for bytes that are no text. All commands with ``!!`` are methods of
``Conversation`` called ``do_…``; each docstring shows one.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import structs

from mcpd.core.catalog.filters import Filter
from mcpd.core.facts import Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Interactive, Settings, Sharing
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.offer import Verdict
from mcpd.core.mcp.versions import NEWEST_MODERN, Era
from mcpd.core.mux.mux import Mux
from mcpd.core.wire.framing import Oversized
from mcpd.ids import SessionId, SlotId
from mcpd.principal import local

USER: Final = local(1000)
"""Whose all sessions are."""

TOOLS: Final = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": {"type": "object"}},
]
"""What a server lists that was started with ``!! start`` and nothing more."""

CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
}

FAILURES: Final = {
    "crashed": ("server_crashed", False, True),
    "refused": ("handshake_failed", False, True),
    "crashed-for-good": ("server_crashed", False, False),
    "restarting": ("server_stopped", True, True),
    "stopped": ("server_stopped", True, False),
    "crash-loop": ("crash_loop", False, False),
    "probed": ("server_crashed", True, True),
}
"""Ways to go down: the kind of failure, whether it was planned, whether a start follows."""

_QUIET: Final = {
    "open", "close-slot", "busy", "idle", "answered", "keep", "session-opened", "session-named",
    "session-closed",
    "frame-rejected", "catalog-changed", "probing", "introduced",
    "approval-asked", "approval-answered", "approval-over", "client-declines",
    "rule-remembered", "rule-used", "rule-forgotten", "rule-lapsed", "keeprules",
}  # fmt: skip


def play(text: str) -> str:
    """Play a transcript and return it with what the mux did; equal text means that it passed.

    A line that says the same in another spelling is kept.
    """
    return "".join(f"{line}\n" for line in Conversation().play(text.splitlines()))


def same(expected: str, actual: str) -> bool:
    """Tell whether a line says what happened: JSON as values, after ``<<!`` as bytes."""
    if expected == actual:
        return True
    if expected.startswith("<<!"):
        return False
    head, payload = _split_line(expected)
    actual_head, actual_payload = _split_line(actual)
    if head != actual_head:
        return False
    try:
        return bool(_typed(payload) == _typed(actual_payload))
    except ValueError:
        return False


def _split_line(line: str) -> tuple[str, str]:
    mark, who, *rest = (*line.split(" ", 2), "", "")
    return f"{mark} {who}", rest[0]


def _typed(text: str) -> Any:
    """Read JSON so that 1, 1.0 and true stay different, and names that come twice are kept."""
    return json.loads(
        text,
        parse_int=lambda spelling: ("number", spelling),
        parse_float=lambda spelling: ("number", spelling),
        object_pairs_hook=lambda pairs: ("object", sorted(pairs, key=lambda pair: pair[0])),
    )


class Conversation:
    """One mux, and everybody it talks to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.mux = Mux(Settings(version="1.0"), suggest=lambda name, known: [])
        self.entries: dict[str, Entry] = {}
        self.shown: set[str] = set()
        self.slots: dict[str, str] = {}
        self.deaf: set[str] = set()
        self.disk: str | None = ""
        """What is wrong with the disk; nothing if empty, and ``None`` for one that is slow."""

    # -- the file ------------------------------------------------------------------------------

    def play(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines as they should be."""
        step: Callable[[], list[str]] | None = None
        expected: list[str] = []
        for line in [*lines, None]:
            if line is not None and line.startswith(("<<", "--")):
                expected.append(line)
                continue
            if step is not None:
                yield from self._compared(step(), expected)
            step, expected = None, []
            if line is None:
                return
            yield line
            if line.startswith((">>", "!!")):
                step = self._step(line)

    def _compared(self, actual: list[str], expected: list[str]) -> Iterator[str]:
        for number, line in enumerate(actual):
            wanted = expected[number] if number < len(expected) else ""
            exact = line.replace("<<", "<<!", 1) if wanted.startswith("<<!") else None
            if exact is not None:
                yield exact
            else:
                pretty = _pretty(line)
                yield wanted if same(wanted, pretty) else pretty

    def _step(self, line: str) -> Callable[[], list[str]]:
        mark, who, rest = (*line.split(" ", 2), "")[:3]
        if mark == "!!":
            if who.startswith("+"):
                return lambda: self.render(self._wait(float(who[1:])))
            if who == "tables":
                return self._tables
            do = getattr(self, f"do_{who}")
            return lambda: self.render(do(rest) if who in _WHOLE else do(*rest.split()))
        if mark == ">>m":
            data = _enveloped(*rest.split(" ", 1))
        elif mark == ">>b":
            data = ast.literal_eval(rest)
        else:
            data = rest.encode("utf-8", "surrogatepass")
        return lambda: self.render(self.say(who, data))

    # -- what happens --------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        """Have the mux react; control requests that need servers are passed on as the daemon does.

        Pings are answered at once, and not written down.
        """
        done: list[cmd.Command] = []
        for command in self.mux.handle(event, self.now):
            if isinstance(command, cmd.SessionElements):
                for element in command.elements:
                    done += self.handle(ev.FrameFromSession(command.session, element))
                continue
            if isinstance(command, cmd.ServerElements):
                for element in command.elements:
                    done += self.handle(ev.FrameFromServer(command.slot, element))
                continue
            if isinstance(command, cmd.KeepRules) and self.disk is not None:
                done.append(command)
                done += self.handle(ev.RulesKept(command.ticket, self.disk or None))
                continue
            if isinstance(command, cmd.Control):
                known = _control_event(command)
            else:
                known = self._pong(command)
            if isinstance(command, cmd.OpenSlot):
                self.slots[command.server if command.key is None else str(command.slot)] = (
                    command.slot
                )
            if known is None:
                done.append(command)
            else:
                done += self.handle(known)
        return done

    def _pong(self, command: cmd.Command) -> ev.Event | None:
        if not isinstance(command, cmd.ToServer) or self._name(command.slot) in self.deaf:
            return None
        message = json.loads(command.data) if b'"ping"' in command.data[:80] else {}
        if message.get("method") != "ping":
            return None
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
        return ev.FrameFromServer(command.slot, json.dumps(answer).encode())

    def say(self, who: str, data: bytes | Oversized) -> list[cmd.Command]:
        """A session (a number) or a server sends a line."""
        if who.isdigit():
            return self.handle(ev.FrameFromSession(SessionId(int(who)), data))
        return self.handle(ev.FrameFromServer(self.slot(who), data))

    def slot(self, server: str) -> SlotId:
        """Return where the process of a server is."""
        entry = self.entries.get(server)
        return SlotId(self.slots.get(server) or (entry.launch if entry else server))

    def _wait(self, seconds: float) -> list[cmd.Command]:
        done: list[cmd.Command] = []
        until = self.now + seconds
        while (due := self.mux.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            done += self.handle(ev.Tick())
        self.now = until
        return done

    def do_server(self, name: str, *fields: str) -> list[cmd.Command]:
        """``!! server echo max_concurrency=1 deny=write launch=other``: the last of a name counts.

        It is one that spoke a legacy revision last time, or as ``era=modern`` says;
        ``era=probed`` is one of which nothing is known. With ``speaks=legacy`` its entry says so.
        ``echo@/a`` is a server of the project in ``/a``, which is called ``echo`` there.
        """
        given = dict(field.split("=", 1) for field in fields)
        values: dict[str, Any] = {"name": name, "launch": given.pop("launch", f"{name}-1")}
        local_name, _, workspace = name.partition("@")
        if workspace:
            values |= {"workspace": workspace, "local_name": local_name}
        if "deny" in given or "allow" in given:
            allow, deny = given.pop("allow", "*"), given.pop("deny", "")
            values["filter"] = Filter(allow.split(","), [d for d in deny.split(",") if d])
        if "unavailable" in given:
            kind = given.pop("unavailable")
            values["unavailable"] = Failure(kind, f"{name} is {kind}", name)
        if "speaks" in given:
            values["era"] = Era(given.pop("speaks"))
        known_era = given.pop("era", None)
        if known_era == "probed":
            values["verdict"] = None  # nothing is known: it is asked which it speaks
        else:
            values["verdict"] = Verdict(Era(known_era or "legacy"))
        if "sharing" in given:
            values["sharing"] = Sharing(given.pop("sharing"))
        if "interactive" in given:
            values["interactive"] = Interactive(given.pop("interactive"))
        values |= {key: json.loads(value) for key, value in given.items()}
        self.entries[name] = Entry(**values)
        return self.handle(ev.EntriesChanged(tuple(self.entries.values())))

    def do_remove(self, name: str) -> list[cmd.Command]:
        """``!! remove echo``: its entry is not in the configuration any more."""
        del self.entries[name]
        return self.handle(ev.EntriesChanged(tuple(self.entries.values())))

    def do_open(self, session: str, *reserve: str) -> list[cmd.Command]:
        """``!! open 7``: a connection, and nothing more; ``!! open 7 reserve``: for control."""
        return self.handle(ev.SessionOpened(SessionId(int(session)), USER, bool(reserve)))

    def do_workspace(self, session: str, workspace: str) -> list[cmd.Command]:
        """``!! workspace 7 /a``: where the control calls of a connection are made."""
        return self.handle(ev.WorkspaceKnown(SessionId(int(session)), workspace))

    def do_admit(self, session: str) -> list[cmd.Command]:
        """``!! admit 7``: a connection has left the reserve."""
        return self.handle(ev.LeftReserve(SessionId(int(session))))

    def do_end(self, session: str) -> list[cmd.Command]:
        """``!! end 7``: the client sends nothing more; it still reads."""
        return self.handle(ev.InputEnded(SessionId(int(session))))

    def do_close(self, session: str) -> list[cmd.Command]:
        """``!! close 7``: the client is gone."""
        return self.handle(ev.SessionClosed(SessionId(int(session)), "gone"))

    def do_attach(self, session: str, server: str = "", *details: str) -> list[cmd.Command]:
        """``!! attach 7 echo roots=file:///a workspace=/a``: and it has not said anything yet."""
        ident = SessionId(int(session))
        done = self.handle(ev.SessionOpened(ident, USER))
        params: dict[str, Any] = {"server": server or None, "control": False}
        params |= dict(detail.split("=", 1) for detail in details)
        done += self.say(session, _line("mcpd/attach", params, ident="attach"))
        return [c for c in done if not isinstance(c, cmd.ToSession) or c.session != ident]

    def do_join(self, session: str, server: str = "", *options: str) -> list[cmd.Command]:
        """``!! join 7 echo sampling 2025-06-18``: attached and initialized, with capabilities."""
        done = self.do_attach(session, server)
        version = next((o for o in options if o[:2] == "20"), "2025-11-25")
        params = {
            "protocolVersion": version,
            "capabilities": {name: {} for name in options if name[:2] != "20"},
            "clientInfo": {"name": "test", "version": "1"},
        }
        done += self.say(session, _line("initialize", params, ident="init"))
        done += self.say(session, _line("notifications/initialized"))
        ident = SessionId(int(session))
        return [c for c in done if not isinstance(c, cmd.ToSession) or c.session != ident]

    def do_up(self, server: str) -> list[cmd.Command]:
        """``!! up echo``: its process runs."""
        done = self.handle(ev.StartUnasked(server))  # as for one that starts with the daemon
        return done + self.handle(ev.ServerUp(self.slot(server)))

    def do_deaf(self, server: str) -> list[cmd.Command]:
        """``!! deaf echo``: it reads nothing for now, so that pings are shown, and not answered."""
        self.deaf.add(server)
        return []

    def do_read(self, server: str) -> list[cmd.Command]:
        """``!! read echo``: it has read what it was asked, or has written something."""
        return self.handle(ev.ProbeRead(self.slot(server)))

    def do_start(self, server: str, *kinds: str) -> list[cmd.Command]:
        """``!! start echo``: up, and all that the mux asks is answered until it is ready.

        Kinds that are named are its capabilities, else it has all of them. One that begins with
        ``20`` is its revision.
        """
        todo = self.do_up(server)
        seen: list[cmd.Command] = []
        while todo:
            command = todo.pop(0)
            if isinstance(command, cmd.ToServer) and command.slot == self.slot(server):
                answer = stock_answer(server, json.loads(command.data), kinds)
                todo += [] if answer is None else self.say(server, answer)
            elif not isinstance(command, cmd.Ready):
                seen.append(command)
            else:
                return seen + todo
        raise AssertionError(f"{server} did not become ready")

    def do_down(self, server: str, how: str, *details: str) -> list[cmd.Command]:
        """``!! down echo crashed signal=SIGKILL``: see ``FAILURES`` for the ways to go."""
        kind, planned, back = FAILURES[how]
        given: dict[str, Any] = {}
        for detail in details:
            name, _, value = detail.partition("=")
            given[name] = value
        what = how.replace("-", " ")
        failure = Failure(kind, f"{server} {what}", server, True, None, given)
        return self.handle(ev.ServerDown(self.slot(server), failure, planned, back))

    def do_hold(self, server: str) -> list[cmd.Command]:
        """``!! hold echo``: a person has stopped it."""
        failure = Failure("server_stopped", f"{server} was stopped", server, False)
        return self.handle(ev.UserStop(server, failure))

    def do_release(self, server: str) -> list[cmd.Command]:
        """``!! release echo``: a person lets it go on."""
        return self.handle(ev.UserStop(server, None))

    def do_drain(self) -> list[cmd.Command]:
        """``!! drain``: the daemon is about to end."""
        return self.handle(ev.Draining())

    def do_farewell(self) -> list[cmd.Command]:
        """``!! farewell``: the connections are about to be closed."""
        return self.handle(ev.Farewell())

    def do_oversized(self, text: str) -> list[cmd.Command]:
        """``!! oversized echo 70000000 {"id":3,"result":{…``: the ends of a line that was skipped."""
        who, size, ends = text.split(" ", 2)
        head, _, tail = ends.partition("…")
        return self.say(who, Oversized(head.encode(), (tail or head).encode(), int(size)))

    def do_refuse(self, server: str, wire_id: str) -> list[cmd.Command]:
        """``!! refuse echo 3``: the server does not read, so request 3 was not written."""
        return self.handle(ev.WriteRefused(self.slot(server), int(wire_id)))

    def do_done(self, text: str) -> list[cmd.Command]:
        """``!! done 7 1 {"seq":3} stream``: the daemon has answered a control request."""
        session, key, result = text.split(" ", 2)
        is_stream = result.endswith(" stream")
        result = result.removesuffix(" stream")
        ident = SessionId(int(session))
        done = ev.ControlDone(ident, key.encode(), result.encode(), is_stream=is_stream)
        return self.handle(done)

    def do_fail(self, session: str, key: str, kind: str) -> list[cmd.Command]:
        """``!! fail 7 1 denied``: the daemon has answered a control request with an error."""
        failure = Failure(kind, f"it is {kind}")
        return self.handle(ev.ControlDone(SessionId(int(session)), key.encode(), failure=failure))

    def do_valid(self, ticket: str) -> list[cmd.Command]:
        """``!! valid 1``: the arguments fit their schema."""
        return self.handle(ev.Validated(int(ticket)))

    def do_unchecked(self, text: str) -> list[cmd.Command]:
        """``!! unchecked 1 the schema is too deep``: nobody can tell whether they fit."""
        ticket, note = text.split(" ", 1)
        return self.handle(ev.Validated(int(ticket), note=note))

    def do_invalid(self, text: str) -> list[cmd.Command]:
        """``!! invalid 1 text: must be a string``: they do not fit."""
        ticket, path, message = text.split(" ", 2)
        violation = ev.Violation(path.removesuffix(":"), message)
        return self.handle(ev.Validated(int(ticket), (violation,)))

    def do_show(self, *names: str) -> list[cmd.Command]:
        """``!! show idle answered``: write down what is usually left out."""
        self.shown.update(names)
        return []

    # -- what the mux did ------------------------------------------------------------------------

    def _tables(self) -> list[str]:
        """``!! tables``: write down how much is still kept of what."""
        sizes = self.mux.table_sizes()
        return [f"-- {name} {size}" for name, size in sizes.items() if size] or ["-- nothing"]

    def render(self, commands: Iterable[cmd.Command]) -> list[str]:
        """Return one line for each command that a reader wants to see."""
        lines = (self._line(command) for command in commands)
        return [line for line in lines if line is not None]

    def _line(self, command: cmd.Command) -> str | None:
        match command:
            case cmd.ToSession():
                data = command.data if isinstance(command.data, bytes) else b"".join(command.data)
                return f"<< {command.session} {_shown(data)}"
            case cmd.ToServer():
                return f"<< {self._name(command.slot)} {_shown(command.data)}"
            case cmd.Tell():
                name, *words = _fact(command.fact)
            case _:
                name, *words = self._words(command)
        if name in _QUIET and name not in self.shown:
            return None
        return " ".join(("--", name, *words))

    def _words(self, command: cmd.Command) -> tuple[str, ...]:
        match command:
            case cmd.OpenSlot():
                key = command.key or "shared"
                after = () if command.after is None else (f"after={command.after}",)
                return ("open", str(command.slot), key, *after)
            case cmd.CloseSlot():
                return ("close-slot", str(command.slot), command.reason)
            case cmd.Probing():
                return ("probing", self._name(command.slot), "on" if command.is_on else "off")
            case cmd.StartOver():
                return ("afresh", self._name(command.slot), command.reason)
            case cmd.StartRefused():
                name = self._name(command.slot)
                return ("start-refused", name, f"{command.failure.kind}: {command.failure.message}")
            case cmd.Control():
                params = () if command.params is None else (command.params.decode(),)
                key = command.key.decode()
                return ("control", str(command.session), key, command.method, *params)
            case cmd.ControlCancelled():
                return ("control-cancelled", str(command.session), command.key.decode())
            case cmd.Validate():
                arguments = command.arguments.decode()
                return ("validate", str(command.ticket), command.schema.decode(), arguments)
            case cmd.CloseSession():
                return ("close-session", str(command.session), command.reason)
            case cmd.KeepCatalog():
                return ("keep", command.server)
            case _:
                slot = getattr(command, "slot", "")
                return (type(command).__name__.lower(), self._name(slot))

    def _name(self, slot: str) -> str:
        return next((name for name, known in self.slots.items() if known == slot), slot)


_WHOLE: Final = {"oversized", "done", "unchecked", "invalid"}  # take the rest of the line as it is


def _control_event(command: cmd.Control) -> ev.Event | None:
    params = json.loads(command.params or b"{}")
    session, key, server = command.session, command.key, params.get("server")
    arguments = json.dumps(params["arguments"]).encode() if "arguments" in params else None
    match command.method:
        case "mcpd/attach":
            control = params.get("control", True)
            roots = tuple(params.get("roots", "").split())
            where = params.get("workspace")
            attach = ev.Attach(session, key, server, "test", where, roots, may_control=control)
            return structs.replace(attach, wants_farewell=params.get("farewell") == "yes")
        case "mcpd/call":
            progress = params.get("progress", False)
            timeout = params.get("timeout")
            tool = params["tool"]
            asks = params.get("approvals", False)
            return ev.CallTool(session, key, server, tool, arguments, timeout, progress, asks)
        case "mcpd/approve":
            number, answer = int(params["id"][1:]), params["answer"]
            by = ev.Answerer("control", 1, "mcpctl")
            all_tools, of_session = params.get("all_tools", False), params.get("session", False)
            return ev.Approve(
                session, key, number, answer, by, all_tools=all_tools, of_session=of_session
            )
        case "mcpd/forget":
            return ev.Forget(session, key, params.get("ids"), server, params.get("tool"))
        case "mcpd/tools":
            return ev.ListItems(session, key, ("tools",), server)
        case "mcpd/prompts":
            return ev.ListItems(session, key, ("prompts",), server)
        case "mcpd/resources":
            return ev.ListItems(session, key, ("resources", "templates"), server)
        case "mcpd/read":
            return ev.ReadResource(session, key, server, params["uri"])
        case "mcpd/prompt":
            return ev.GetPrompt(session, key, server, params["name"], arguments)
    return None


def stock_answer(server: str, message: Any, kinds: tuple[str, ...]) -> bytes | None:
    """Return what a server answers that was started with ``!! start``."""
    lists: dict[str, dict[str, Any]] = {
        "tools/list": {"tools": TOOLS},
        "prompts/list": {"prompts": []},
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
    }
    if "id" not in message:
        return None
    if message["method"] == "subscriptions/listen":
        about = {modern_meta.SUBSCRIPTION_KEY: message["id"]}
        heard = {"notifications": message["params"]["notifications"], "_meta": about}
        return _line("notifications/subscriptions/acknowledged", heard)
    result: dict[str, Any] = dict(lists.get(message["method"], {}))
    version = next((kind for kind in kinds if kind[:2] == "20"), "2025-11-25")
    kinds = tuple(kind for kind in kinds if kind != version)
    if message["method"] in ("initialize", "server/discover"):
        has = {name: value for name, value in CAPABILITIES.items() if not kinds or name in kinds}
        info = {"name": server, "version": "1"}
        result = {"protocolVersion": version, "capabilities": has, "serverInfo": info}
    if message["method"] == "server/discover":
        about = {modern_meta.SERVER_INFO_KEY: info}
        result = {"supportedVersions": [NEWEST_MODERN], "capabilities": has, "_meta": about}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def _enveloped(declared: str, request: str) -> bytes:
    """Put the envelope of a modern client into a request; nothing else of it changes."""
    capabilities: dict[str, Any] = {}
    for word in declared.strip("-").split(",") if declared != "-" else ():
        name, _, member = word.partition(".")
        capabilities.setdefault(name, {}).update({member: {}} if member else {})
    about = {modern_meta.VERSION_KEY: NEWEST_MODERN, modern_meta.CAPABILITIES_KEY: capabilities}
    message = json.loads(request)
    params = message.setdefault("params", {})
    params["_meta"] = about | params.get("_meta", {})
    return json.dumps(message).encode()


def _line(method: str, params: Any = None, ident: Any = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if ident is not None:
        message["id"] = ident
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode()


def _shown(data: bytes) -> str:
    assert data.endswith(b"\n") and data.count(b"\n") == 1, data
    return data[:-1].decode()


def _pretty(line: str) -> str:
    """Write an output line as a reader likes it, if it can be written back without loss."""
    if not line.startswith("<<"):
        return line
    head, payload = _split_line(line)
    try:
        pretty = json.dumps(json.loads(payload), ensure_ascii=False)
        pretty.encode()
        return f"{head} {pretty}" if _typed(pretty) == _typed(payload) else line
    except ValueError:
        return line


def _fact(fact: Any) -> tuple[str, ...]:
    kebab = "".join(f"-{c.lower()}" if c.isupper() else c for c in type(fact).__name__).strip("-")
    values = [getattr(fact, name) for name in fact.__struct_fields__]
    return (
        kebab,
        *(str(value) if isinstance(value, str | int) else repr(value) for value in values),
    )

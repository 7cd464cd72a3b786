"""Who takes part, as the model knows them: clients, their calls, processes and their questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from mcpd.ids import SlotId
from tests.property.model.wire import LEVELS, ODD, TASKS, Json, can, dumps, is_needed

TOOLS: Final = {"safe": True, "once": False}
"""The tools of every server, and whether calling one twice does no harm."""

URIS: Final = ["file:///a", "file:///a/b", "file:///c"]

QUESTIONS: Final = {
    "form": ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object"}}),
    "url": ("elicitation/create", {"mode": "url", "message": "?", "url": "https://example.org"}),
    "sampling": ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
    "roots": ("roots/list", {}),
}
"""What a server may want to know, by a word of ours."""


class Shown:
    """What a falsifying example shows in a word."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(eq=False, repr=False)
class Question(Shown):
    """Something that a server wants to know; ``number`` is in its payload, as is its call's nonce.

    ``is_strict``: a call of somebody who can be asked has caused it and was in flight, so that it
    may reach nobody else. ``ident`` is a legacy server's own id, ``key`` a modern one's.
    """

    number: int
    method: str
    need: str
    params: bytes
    call: Call | None
    slot: SlotId
    at: float
    is_strict: bool
    ident: bytes = b""
    key: str = ""
    token: bytes | None = None
    may_be_put: bool = True
    """Whether its server was to ask somebody when it came."""
    rivals: list[Call] = field(default_factory=list)
    """Calls of others in flight that could have caused it."""
    asked: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    may_be_late: bool = False
    """Whether its answer waits for a new process, whose names must be known, and it is of the old."""

    def __repr__(self) -> str:
        return f"question {self.number} ({self.need}) of {self.call}"

    @property
    def is_open(self) -> bool:
        return self.result is None and self.error is None


@dataclass(eq=False, repr=False)
class Call(Shown):
    """What a client wants of a server, over all requests that it takes to get it.

    ``params`` are the client's own, with no ``_meta``, and ``sent`` those of its latest request;
    ``capabilities`` and ``level`` are what it said with them. A ``round`` ends with a modern server's wish for input.
    """

    nonce: str
    session: int
    server: str
    method: str
    params: bytes
    capabilities: Json
    level: str | None
    is_modern: bool
    may_repeat: bool
    info: Json | None = None
    was_off: bool = False
    """Whether its server might ask nothing when its latest request came."""
    meta: bytes = b"{}"
    sent: bytes = b"{}"
    asked: Asked | None = None
    round: int = 0
    seen: dict[int, int] = field(default_factory=dict)
    place: tuple[SlotId, int] | None = None
    wants: dict[str, Question] = field(default_factory=dict)
    state: bytes | None = None
    """What the server's wish for input had beside its questions."""
    handle: bytes | None = None
    """What the client was given to come back with, where it has to come back."""
    is_parked: bool = False
    is_between: bool = False
    """Whether a modern server waits for input, and has not got it."""
    is_over: bool = False
    kept: Answer | None = None
    """What the server answered while the client was to come back."""

    def __repr__(self) -> str:
        return f"{self.method} {self.nonce} of {self.session}"

    def can_be_asked(self, need: str) -> bool:
        return can(self.capabilities, need)

    def is_ending(self) -> bool:
        """Tell whether its server has answered it, or it was given up."""
        is_answered = self.asked is not None and self.asked.answer is not None
        return self.is_over or is_answered or self.kept is not None

    @property
    def wants_more(self) -> bool:
        """Whether its client has been told to make it again, with answers."""
        return self.asked is None and not self.is_over

    @property
    def is_asking(self) -> bool:
        """Whether a server could ask its client anything before it answers."""
        may = self.method in ("tools/call", "prompts/get", "resources/read")
        return may and any(n in self.capabilities for n in ("elicitation", "sampling", "roots"))


@dataclass(eq=False, repr=False)
class Answer:
    """What a process has answered."""

    is_modern: bool
    result: bytes | None = None
    error: bytes | None = None


@dataclass(eq=False, repr=False)
class Batch:
    """An array of requests, whose answers come as one."""

    keys: set[bytes] = field(default_factory=set)
    is_told: bool = False


@dataclass(eq=False, repr=False)
class Asked(Shown):
    """A request of a client that is owed an answer."""

    ident: bytes
    method: str
    call: Call | None = None
    token: bytes | None = None
    is_modern: bool = False
    level: str | None = None
    batch: Batch | None = None
    answer: Answer | None = None
    is_optional: bool = False
    code: int | None = None
    """The error that is due, where it is to be refused."""

    def __repr__(self) -> str:
        return f"{self.ident!r} {self.method} ({self.call})"


@dataclass(eq=False, repr=False)
class Listening(Shown):
    """A modern client's ``subscriptions/listen``."""

    ident: bytes
    wants: Json
    may_end: bool = False
    granted: Json | None = None

    def __repr__(self) -> str:
        return f"listen {self.ident!r} for {self.wants}"

    def hears(self, method: str, uri: str | None) -> bool:
        granted = self.granted or {}
        match method:
            case "notifications/tools/list_changed":
                return bool(granted.get("toolsListChanged"))
            case "notifications/prompts/list_changed":
                return bool(granted.get("promptsListChanged"))
            case "notifications/resources/list_changed":
                return bool(granted.get("resourcesListChanged"))
            case "notifications/resources/updated":
                return any(
                    covers(own, uri or "") for own in granted.get("resourceSubscriptions", [])
                )
        return False


@dataclass(eq=False, repr=False)
class Client(Shown):
    """One connection: ``kind`` is legacy, modern, both or control."""

    session: int
    server: str | None
    kind: str
    capabilities: Json = field(default_factory=dict)
    version: str = "2025-11-25"
    declared: Json = field(default_factory=dict)
    """What it declared last: in its ``initialize``, or with a modern request."""
    level: str | None = None
    tried_level: str | None = None
    perhaps_level: str | None = None
    """One whose request was cancelled: it may have been taken."""
    is_initialized: bool = False
    owed: dict[bytes, Asked] = field(default_factory=dict)
    questions: dict[bytes, Question] = field(default_factory=dict)
    withdrawn: dict[bytes, Question] = field(default_factory=dict)
    wants: set[str] = field(default_factory=set)
    listens: dict[bytes, Listening] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"client {self.session} ({self.kind}) of {self.server}"

    @property
    def info(self) -> Json:
        return {"name": f"client {self.session}", "version": "1"}

    @property
    def is_legacy(self) -> bool:
        return self.kind in ("legacy", "both")

    @property
    def is_modern(self) -> bool:
        return self.kind in ("modern", "both")

    def uses(self, server: str) -> bool:
        return self.server is None or self.server == server

    def flying(self) -> list[Call]:
        return [a.call for a in self.owed.values() if a.call is not None]

    def hears_level(self, level: str, server: str) -> bool:
        """Tell whether a log message of this level of that server may reach it."""
        floors = [a.level for a in self.owed.values() if a.is_modern and a.level is not None]
        if self.is_initialized:
            floors += [self.level or "info", self.perhaps_level or "emergency"]
            if any(a.method == "logging/setLevel" for a in self.owed.values()):
                floors.append(self.tried_level or "info")  # on its way
        return self.uses(server) and any(
            LEVELS.index(level) >= LEVELS.index(floor) for floor in floors
        )


@dataclass(eq=False, repr=False)
class Work(Shown):
    """A request that a process has read and not answered."""

    wire_id: int
    method: str
    params: bytes
    call: Call | None
    token: int | None
    round: int = 0

    def __repr__(self) -> str:
        return f"{self.wire_id}: {self.method} ({self.call})"


@dataclass(eq=False, repr=False)
class Process(Shown):
    """What runs in a slot. ``nature`` is what it can speak, ``lock`` what it has begun to speak."""

    server: str
    nature: str
    lock: str | None = None
    last_id: int = 0
    is_mute: bool = False
    is_introduced: bool = False
    level: str | None = None
    open: dict[int, Work] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    told: Json = field(default_factory=dict)
    """The capabilities that were declared to it, or are when we ask it for something ourselves."""
    questions: dict[bytes, Question] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    is_level_refused: bool = False
    """Whether it did not read when it was to be told a level, and keeps another."""
    nonsense: set[bytes] = field(default_factory=set)
    listens: dict[int, Json] = field(default_factory=dict)
    unheard: dict[int, Json] = field(default_factory=dict)
    """Listens that it has not acknowledged."""
    unread: list[tuple[int, Work]] = field(default_factory=list)
    """Calls that were cancelled, as it has not read yet, each with the last id before that."""

    def read_all_before(self, number: int) -> None:
        """It has read all that was written before this request: what was cancelled asks no more."""
        self.unread = [(last, work) for last, work in self.unread if last >= number]

    def own_open(self) -> list[int]:
        """Return what the mux itself has asked and is to be answered."""
        if self.is_mute:
            return []
        return [n for n, work in self.open.items() if work.call is None] + [*self.unheard]

    def is_waiting(self, work: Work) -> bool:
        """Tell whether it has asked something and cannot go on before it knows."""
        return any(q.call is work.call and work.call is not None for q in self.questions.values())

    def answerable(self) -> list[int]:
        waits = [work for work in self.open.values() if self.is_waiting(work)]
        return [n for n, work in self.open.items() if not self.is_mute and work not in waits]


def covers(own: str, uri: str) -> bool:
    """Tell whether somebody subscribed to ``own`` is told of ``uri``: it, or a part of it."""
    return uri == own or uri.startswith(own.rstrip("/") + "/")


def asked_for(kind: str, nonce: str, number: int, *, odd: bool = True) -> tuple[str, str, bytes]:
    """Return a question's method, what it needs and its params, with the nonce of its cause."""
    method, base = QUESTIONS[kind]
    body = dumps({"from": nonce, "number": number, **base})
    params = body[:-1] + b", " + ODD + b"}" if odd else body
    return method, is_needed(method, base), params


def server_capabilities(*, is_modern: bool) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "tools": {},
        "prompts": {},
        "resources": {"subscribe": True},
        "completions": {},
        "logging": {},
    }
    if is_modern:
        shared["tools"] = shared["prompts"] = {"listChanged": True}
        shared["resources"] = {"subscribe": True, "listChanged": True}
        shared["extensions"] = {TASKS: {}}
    return shared


def listed(method: str, server: str, number: int) -> dict[str, Any]:
    """Return what a server lists; prompts are others each time."""
    schema = {"type": "object"}
    results: dict[str, Any] = {
        "tools/list": {
            "tools": [
                {"name": n, "inputSchema": schema, "annotations": {"readOnlyHint": hint}}
                for n, hint in TOOLS.items()
            ]
        },
        "prompts/list": {"prompts": [{"name": "write"}, {"name": f"p{number}"}]},
        "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in URIS]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": f"nonce://{server}/{{id}}", "name": "n"}]
        },
    }
    found: dict[str, Any] = results.get(method, {})
    return found

"""What there is in the model's world, and how events and lines get into the mux."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import Any, NamedTuple

from mcpd.core.facts import Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.mux.mux import Mux
from mcpd.ids import SessionId, SlotId
from tests.property.model import memory
from tests.property.model.peers import Call, Client, Process, Question
from tests.property.model.wire import Json

TALLY: Counter[str] = Counter()
"""How often each kind of message was seen, over all worlds: that a rule never applies is a fault."""


class Said(NamedTuple):
    """A notification of a process: where, about what, and whose call it belongs to for certain."""

    slot: SlotId
    uri: str | None = None
    level: str = "info"
    owner: int | None = None


class Ground:
    """The tables of the model."""

    def __init__(self) -> None:
        super().__init__()
        settings = Settings(version="1", secret=b"secret", list_wait=5.0)
        self.mux = Mux(settings, suggest=lambda name, known: [])
        self.now = 1000.0
        self.numbers = itertools.count(1)
        self.events: deque[ev.Event] = deque()
        self.handled = 0
        self.entries: dict[str, Entry] = {}
        self.natures: dict[str, str] = {}
        self.clients: dict[int, Client] = {}
        self.declared: list[Json] = []  # capabilities of clients, as modern servers are told
        self.processes: dict[SlotId, Process] = {}
        self.places: dict[SlotId, tuple[str, str | None]] = {}
        self.closed: dict[SlotId, tuple[str, str | None]] = {}
        """Places of which something may still be told that was said there."""
        self.wanted: set[SlotId] = set()
        self.probing: dict[SlotId, bool] = {}  # and whether the process has read the probe
        self.again: dict[SlotId, int] = {}  # further processes of one attempt to start
        self.clogged: set[SlotId] = set()
        self.tickets: list[int] = []
        self.calls: dict[str, Call] = {}
        self.questions: dict[int, Question] = {}
        self.said: dict[int, Said] = {}
        self.handles: list[tuple[Call, bytes]] = []
        self.removed: dict[str, Entry] = {}
        self.mixed: set[str] = set()  # servers whose interactive mode was another before
        self.limited: set[str] = set()  # servers that ever had a `max_concurrency`
        self.given_up: list[Call] = []
        self.refusal: bytes | None = None  # the id that is to be refused just now, and only refused
        self.is_broken = False  # something was found: the rest would only hide it
        self.is_ending = False
        self.is_draining = False

    def handle(self, event: ev.Event) -> None:
        """Have the mux react; what its commands bring about waits for its turn, as in the daemon."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        self.is_broken = True  # unless it comes to its end
        while self.events:
            self.handled += 1
            for command in self.mux.handle(self.events[0], self.now):
                self.perform(command)
            self.events.popleft()
            self.nobody_was_left_waiting()
            memory.check(self.mux)
        self.is_broken = False

    def perform(self, command: cmd.Command) -> None:
        raise NotImplementedError

    def nobody_was_left_waiting(self) -> None:
        """Whatever was given up in a process was given up by its client, or answered for it."""
        for call in self.given_up:
            asked = call.asked
            is_kept = asked is not None and asked.batch is not None  # for the others of its array
            assert asked is None or is_kept, (
                f"{call.nonce} was cancelled, and its client waits for {asked}"
            )
        self.given_up.clear()

    def send(self, session: int, line: bytes) -> None:
        self.handle(ev.FrameFromSession(SessionId(session), line))

    def from_server(self, slot: SlotId, line: bytes) -> None:
        self.handle(ev.FrameFromServer(slot, line))

    def running(self) -> list[SlotId]:
        return sorted(self.processes)

    def startable(self) -> list[SlotId]:
        return sorted(slot for slot in self.wanted if slot not in self.processes)

    def is_served_by(self, client: Client, slot: SlotId) -> bool:
        """Tell whether what runs there may say anything to this client."""
        server, key = self.places.get(slot) or self.closed[slot]
        if not any(client.uses(name) for name in self.names_of(server)):
            return False
        return key is None or key == f"session:{client.session}"

    def entry_of(self, server: str) -> Entry | None:
        """Return a server's entry; when it was removed its process finishes its calls with that."""
        return self.entries.get(server) or self.removed.get(server)

    def is_for_its_roots(self, question: Question) -> bool:
        """Tell whether it is for the only session of its process, in a call or outside of one."""
        server, key = self.places.get(question.slot) or self.closed[question.slot]
        entry = self.entry_of(server)
        is_asked = entry is not None and entry.asks_for_roots
        return question.method == "roots/list" and is_asked and key is not None

    def is_current(self, call: Call) -> bool:
        """Tell whether its server still is where it is parked."""
        entry = self.entries.get(call.server)
        return (
            call.place is not None and entry is not None and call.place[0].startswith(entry.launch)
        )

    def names_of(self, server: str) -> list[str]:
        """Return the entries that a process may be of: those with equal launches share one."""
        launch = self.entries[server].launch if server in self.entries else None
        return [server, *(n for n, entry in self.entries.items() if entry.launch == launch)]


def failure(kind: str) -> Failure:
    return Failure(kind, kind, None, True)


def nonce_of(method: str, params: dict[str, Any]) -> str | None:
    """Return what tells one call of a client from all others."""
    match method:
        case "tools/call" | "mcpd/call" | "prompts/get":
            return str(params["arguments"]["nonce"])
        case "resources/read":
            return str(params["uri"].rpartition("/")[2])
        case "completion/complete":
            return str(params["argument"]["value"])
        case "tasks/get":
            return str(params["taskId"])
    return None

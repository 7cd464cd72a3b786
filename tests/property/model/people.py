"""What goes wrong, what people do, and time, as rules."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Interactive
from tests.property.model.drawing import NATURES, SERVERS, Drawing
from tests.property.model.ground import failure


class PeopleRules(Drawing):
    """Crashes, restarts, reloads, and waiting."""

    @rule(
        data=st.data(),
        what=st.sampled_from(
            ["dies", "dies", "dies", "does not start", "restarts", "restarts", "stops", "clogs"]
        ),
        comes_back=st.sampled_from([True, True, False]),
    )
    def something_goes_wrong(self, data: st.DataObject, what: str, comes_back: bool) -> None:
        slots = self.startable() if what == "does not start" else self.running()
        if not slots:
            return
        slot = self.pick(data, slots)
        match what:
            case "dies" | "does not start":
                self.lose(slot, is_planned=False, comes_back=comes_back)
            case "restarts" | "stops":
                self.lose(slot, is_planned=True, comes_back=what == "restarts")
            case "clogs" if slot in self.clogged:
                self.clogged.discard(slot)
            case "clogs" if self.is_up(self.processes[slot]):
                self.clogged.add(slot)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), fits=st.sampled_from([True, True, False]))
    def arguments_are_checked(self, data: st.DataObject, fits: bool) -> None:
        ticket = self.tickets.pop(data.draw(st.integers(0, len(self.tickets) - 1)))
        violations = () if fits else (ev.Violation("nonce", "is odd"),)
        self.handle(ev.Validated(ticket, violations))

    @rule(
        name=st.sampled_from(SERVERS),
        what=st.sampled_from(
            ["room", "mode", "mode", "launch", "upgrade", "hold", "release", "remove"]
        ),
        limit=st.sampled_from([0, 1, 2]),
        mode=st.sampled_from([*Interactive]),
        nature=st.sampled_from(NATURES),
    )
    def a_person_does_something(
        self, name: str, what: str, limit: int, mode: Interactive, nature: str
    ) -> None:
        entry = self.entries.get(name)
        match what:
            case "hold":
                self.handle(ev.UserStop(name, failure("server_stopped")))
                for slot in [*self.places]:
                    if slot in self.places and self.places[slot][0] == name:
                        self.lose(slot, is_planned=True, comes_back=False)
            case "release":
                self.handle(ev.UserStop(name, None))
            case "upgrade":  # in place: nothing tells that it is another program
                if entry is not None and entry.era is None:
                    self.natures[name] = nature
            case "remove" if entry is not None:
                self.removed[name] = self.entries.pop(name)
                self.reconfigure(removed=name)
            case _ if entry is None:
                self.entries[name] = self.removed.pop(name)
                self.entries = {n: self.entries[n] for n in SERVERS if n in self.entries}
                self.reconfigure()
            case "launch":
                launch = f"{name}-{next(self.numbers)}"
                self.entries[name] = msgspec.structs.replace(entry, launch=launch)
                self.reconfigure()
            case "mode":
                self.entries[name] = msgspec.structs.replace(entry, interactive=mode)
                self.mixed.add(name)
                self.reconfigure()
            case _:
                self.entries[name] = msgspec.structs.replace(entry, max_concurrency=limit)
                self.limited |= {name} if limit else set()
                self.reconfigure()

    def reconfigure(self, removed: str | None = None) -> None:
        for client in self.clients.values():
            if removed is not None and client.server == removed:
                for listening in client.listens.values():
                    listening.may_end = True
        self.handle(ev.EntriesChanged(tuple(self.entries.values())))

    @rule(seconds=st.sampled_from([0.05, 0.05, 0.3, 2.0, 2.0, 9.0, 30.0, 120.0]))
    def a_while_passes(self, seconds: float) -> None:
        self.time_passes(seconds)

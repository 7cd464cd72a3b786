"""The machine that hypothesis drives: how it begins, and what must be at the end."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry, Interactive, Sharing
from mcpd.core.mcp.offer import Verdict
from mcpd.core.mcp.versions import Era
from tests.property.model.clients import ClientRules
from tests.property.model.drawing import EVERYTHING, KINDS, NATURES, SERVERS, VERSIONS
from tests.property.model.people import PeopleRules
from tests.property.model.servers import ServerRules

SPOKEN: Final = {"legacy", "silent", "dying"}
WAIT: Final = 8.0
PARKED: Final = 200.0
"""Seconds that a question is held."""


class Machine(ClientRules, ServerRules, PeopleRules):
    """Sessions of both eras on servers of both, and everything that can happen to them."""

    # -- the setting ------------------------------------------------------------------------------

    @initialize(
        natures=st.tuples(
            st.sampled_from(["legacy", "legacy", "legacy", "silent", "dying", "modern", "dual"]),
            st.sampled_from(["modern", "modern", "dual", "legacy", "silent"]),
            st.sampled_from(NATURES),
        ),
        known=st.tuples(*[st.sampled_from(["given", "right", "wrong", "none"])] * 3),
        modes=st.tuples(
            st.sampled_from(["exclusive", "exclusive", "auto", "auto", "shared", "off"]),
            st.sampled_from(["auto", "exclusive"]),
            st.sampled_from(["auto", "exclusive"]),
        ),
        limit=st.sampled_from([0, 0, 2]),
        roots=st.sampled_from(["", "", "given", "session"]),
        is_warm=st.sampled_from([True, True, True, False]),
        crowd=st.lists(st.sampled_from(KINDS), min_size=2, max_size=4),
        is_able=st.lists(st.sampled_from([True, True, True, False]), min_size=4, max_size=4),
    )
    def begin(
        self,
        natures: tuple[str, ...],
        known: tuple[str, ...],
        modes: tuple[str, ...],
        limit: int,
        roots: str,
        is_warm: bool,
        crowd: list[str],
        is_able: list[bool],
    ) -> None:
        self.natures = dict(zip(SERVERS, natures, strict=True))
        for name, how, mode in zip(SERVERS, known, modes, strict=True):
            speaks = {Era.LEGACY} if self.natures[name] in SPOKEN else {Era.MODERN}
            right = Era.LEGACY if speaks == {Era.LEGACY} else Era.MODERN
            wrong = Era.MODERN if right is Era.LEGACY else Era.LEGACY
            self.entries[name] = Entry(
                name=name,
                launch=f"{name}-1",
                era=right if how == "given" else None,
                verdict={"right": Verdict(right), "wrong": Verdict(wrong)}.get(how),
                interactive=Interactive(mode),
                question_wait=WAIT,
                question_timeout=100.0,
                parked_timeout=PARKED,
                max_concurrency=limit if name == "alpha" else 0,
                queue_timeout=20.0,
                call_timeout=15.0 if name == "beta" else 0.0,
                call_timeout_max=40.0,
                sharing=Sharing.SESSION if name == "gamma" else Sharing.SHARED,
                validates=name == "gamma",
                roots=("file:///given",) if name == "alpha" and roots == "given" else (),
                asks_for_roots=name == "gamma" and roots == "session",
            )
        self.limited |= {"alpha"} if limit else set()
        self.handle(ev.EntriesChanged(tuple(self.entries.values())))
        if is_warm:
            for number, kind in enumerate(crowd):
                can = EVERYTHING if is_able[number] else {}
                self.come("alpha", kind, can, VERSIONS[number % 4])
            self.come("beta", crowd[0], EVERYTHING, VERSIONS[0])
            self.come(None, crowd[1], EVERYTHING, VERSIONS[0])
            for client in [*self.clients.values()]:
                if client.server is not None and client.is_modern:
                    self.ask(client, b'"d"', "server/discover", b"{}", asker=(EVERYTHING, None))
            for _ in range(8):
                self.start_all()
                self.time_passes(0.5)

    # -- what must hold at the end ------------------------------------------------------------------

    def teardown(self) -> None:
        """Whoever waits is answered; then everything ends, and nothing is kept."""
        if not self.entries or self.is_broken:
            return
        self.come_to_rest()
        self.end_it_all()

    def come_to_rest(self) -> None:
        """Everybody does what is to be done: no request stays unanswered, nor any question."""
        self.clogged.clear()
        quiet = 0.0
        for _ in range(400):
            before = self.handled
            self.start_all()
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            for slot, number in self.works():
                if slot in self.processes and (slot, number) in self.works():
                    self.answer(slot, number)
            for client in [*self.clients.values()]:
                for key in [*client.questions]:
                    if key in client.questions:
                        self.reply(client, key)
            for call in self.waiting_calls():
                ident = b'"back %d"' % next(self.numbers)
                if call.wants_more:
                    self.come_back(call, ident, (call.capabilities, call.level))
            if self.handled != before:
                quiet = 0.0
                continue
            if not self.left() or quiet > 4 * WAIT + PARKED:
                break
            step = 0.5 if quiet < 4 * WAIT else 50.0  # then for what is parked for nobody
            quiet += step
            self.time_passes(step)
        assert not self.left(), f"nothing goes on, and there is left {self.left()}"

    def left(self) -> list[object]:
        """Return what is owed to anybody."""
        return [
            *(
                (c.session, a.ident, a.method)
                for c in self.clients.values()
                for a in c.owed.values()
                if not a.is_optional
            ),
            *(
                (c.session, x)
                for c in self.clients.values()
                for x in c.listens.values()
                if x.granted is None
            ),
            *(
                ("question", q.number, q.method)
                for p in self.processes.values()
                for q in p.questions.values()
            ),
            *(("work", n) for p in self.processes.values() for n in p.open),
        ]

    def end_it_all(self) -> None:
        listening = [c for c in self.clients.values() if c.listens]
        self.is_draining = True
        self.handle(ev.Draining())
        assert not [c.listens for c in listening if c.listens], "a listen outlived the daemon"
        self.is_ending = True
        for _ in range(4):
            for slot in [*self.places]:
                if slot in self.places:
                    self.lose(slot, is_planned=False, comes_back=False)
            while self.tickets:
                self.handle(ev.Validated(self.tickets.pop()))
            self.time_passes(100.0)
        for client in [*self.clients.values()]:
            left = {k: a.method for k, a in client.owed.items() if not a.is_optional}
            assert not left, f"session {client.session} is still owed {left}"
            self.go(client)
        assert {k: v for k, v in self.mux.table_sizes().items() if v} == {}
        self.time_passes(1000.0)
        assert self.mux.next_deadline() is None
        assert self.mux.in_flight_count() == 0
        assert self.mux.memory.kept_bytes == 0

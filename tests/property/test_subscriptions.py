"""Whatever subscribers and processes do: in the end the process knows what is wanted, and no more."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpd.core.facts import Failure
from mcpd.core.upstream.subscriptions import Subscriptions

URIS = st.sampled_from(["a", "b"])
SESSIONS = st.integers(1, 3)
GONE = Failure("server_crashed", "gone")


class Subscribers(RuleBasedStateMachine):
    """Invariant: requests about one resource do not overlap, and who waits is told once."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = Subscriptions(self.send)
        self.is_up = True
        self.known: set[str] = set()  # by the process
        self.moving: dict[str, bool] = {}
        self.wanted: dict[str, set[int]] = {"a": set(), "b": set()}
        self.owed: set[int] = set()
        self.numbers = 0

    def send(self, uri: str, wanted: bool) -> None:
        assert self.is_up, "nobody is there to be asked"
        assert uri not in self.moving, "two requests about one resource"
        assert wanted != (uri in self.known), "what is so already"
        self.moving[uri] = wanted

    @rule(uri=URIS, session=SESSIONS)
    def subscribe(self, uri: str, session: int) -> None:
        self.numbers += 1
        number = self.numbers
        self.owed.add(number)
        self.wanted[uri].add(session)

        def told(error: object, failure: object) -> None:
            self.owed.remove(number)
            if error is not None or failure is not None:
                self.wanted[uri].discard(session)

        self.subscriptions.add(uri, session, told, is_up=self.is_up)

    @rule(uri=URIS, session=SESSIONS)
    def unsubscribe(self, uri: str, session: int) -> None:
        self.wanted[uri].discard(session)
        self.subscriptions.remove(uri, session, is_up=self.is_up)

    @rule(session=SESSIONS)
    def leave(self, session: int) -> None:
        for sessions in self.wanted.values():
            sessions.discard(session)
        self.subscriptions.leave(session, is_up=self.is_up)
        assert self.subscriptions.of(session) == []

    @precondition(lambda self: self.moving)
    @rule(data=st.data(), refuses=st.booleans())
    def the_process_answers(self, data: st.DataObject, refuses: bool) -> None:
        uri = data.draw(st.sampled_from(sorted(self.moving)))
        wanted = self.moving.pop(uri)
        if not refuses:
            (self.known.add if wanted else self.known.discard)(uri)
        elif wanted:
            self.wanted[uri].clear()
        else:
            self.known.discard(uri)
        self.subscriptions.moved(uri, wanted, b"{}" if refuses else None)

    @precondition(lambda self: self.is_up)
    @rule(comes_back=st.booleans())
    def the_process_ends(self, comes_back: bool) -> None:
        self.is_up = False
        self.known.clear()
        self.moving.clear()
        self.subscriptions.down()
        if not comes_back:
            self.subscriptions.fail(GONE)
            assert not self.owed

    @precondition(lambda self: not self.is_up)
    @rule()
    def a_process_comes(self) -> None:
        self.is_up = True
        self.subscriptions.renew()

    @invariant()
    def what_differs_is_on_its_way(self) -> None:
        for uri, sessions in self.wanted.items():
            assert self.subscriptions.subscribers(uri) == sessions
            if self.is_up and bool(sessions) != (uri in self.known):
                assert uri in self.moving
        if not self.moving and self.is_up:
            assert not self.owed, "somebody waits for nothing"

    def teardown(self) -> None:
        for session in (1, 2, 3):
            self.leave(session)
        while self.moving:
            uri, wanted = self.moving.popitem()
            (self.known.add if wanted else self.known.discard)(uri)
            self.subscriptions.moved(uri, wanted, None)
        assert not self.known and not self.owed
        assert len(self.subscriptions) == 0


TestSubscribers = Subscribers.TestCase
TestSubscribers.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

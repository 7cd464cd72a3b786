"""Hostile peers on the core alone: as many messages as are wanted, and each reaction timed."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.property.hostile import strategies
from tests.property.hostile.world import BAD, SESSIONS, Hostile

steps = st.one_of(
    strategies.clients(list(SESSIONS)),
    strategies.servers(list(BAD)),
    strategies.clients(list(SESSIONS)),
    strategies.servers(list(BAD)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.3, 2.0, 70.0])),
    st.tuples(st.just("crash"), st.sampled_from(BAD)),
    st.tuples(st.just("leave"), st.sampled_from(list(SESSIONS))),
)


def follow(world: Hostile, some: list[Any]) -> None:
    """Have all of that happen."""
    for step in some:
        match step:
            case ("wait", float(seconds)):
                world.go_on(seconds)
            case ("crash", str(who)):
                world.crash(who)
            case ("leave", str(who)):
                world.leave(who)
            case _:
                world.burst(step)
        world.go_on(0.01)
    world.echo()
    world.end()


class Run:
    """A run of many examples, and its figures."""

    def __init__(self) -> None:
        self.messages = 0
        self.examples = 0
        self.times: list[float] = []
        self.slowest: tuple[float, str] = (0.0, "")

    def one(self, some: list[Any]) -> None:
        world = Hostile()
        try:
            follow(world, some)
        finally:
            self.messages += world.messages
            self.examples += 1
            self.times += world.times
            self.slowest = max(self.slowest, world.slowest)

    def chunk(self, number: int, examples: int) -> None:
        """Try some examples; the same number tries the same."""

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(st.lists(steps, min_size=5, max_size=40))
        def attempt(some: list[Any]) -> None:
            self.one(some)

        attempt()

    def percentile(self, share: float) -> float:
        """Return the seconds that so large a share of all reactions does not exceed."""
        return sorted(self.times)[min(len(self.times) - 1, int(len(self.times) * share))]

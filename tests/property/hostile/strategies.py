"""What a hostile client and a hostile server do, as hypothesis draws it: bursts of messages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from tests.property.hostile.messages import CLIENT, SERVER, Make, Seen, size_of


class Burst(NamedTuple):
    """Messages of one kind, one after the other."""

    who: str
    """A session, or a server."""

    kind: str
    count: int
    seed: int

    def lines(self, kinds: Mapping[str, Make], seen: Seen) -> Iterator[bytes]:
        """Yield each message when it is wanted: what was seen meanwhile counts."""
        dice = random.Random(f"{self.kind}/{self.seed}")
        for _ in range(self.count):
            yield kinds[self.kind](dice, size_of(dice), seen)


def bursts(who: list[str], kinds: Mapping[str, Make], most: int) -> st.SearchStrategy[Burst]:
    """Draw bursts of any of these peers."""
    return st.builds(
        Burst,
        st.sampled_from(who),
        st.sampled_from(sorted(kinds)),
        st.integers(1, most),
        st.integers(0, 2**32),
    )


def clients(who: list[str], most: int = 100) -> st.SearchStrategy[Burst]:
    """Draw what hostile clients do."""
    return bursts(who, CLIENT, most)


def servers(who: list[str], most: int = 100) -> st.SearchStrategy[Burst]:
    """Draw what hostile servers do."""
    return bursts(who, SERVER, most)

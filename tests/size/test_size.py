"""Whatever one peer makes many or large of, the others' calls go on and the memory is bounded.

What each row is about, its bound and what happens over it is in ``docs/limits.md``. ``make size``
repeats each row for some seconds, and then judges the latency strictly.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.size import clients, servers
from tests.size.ground import Arena
from tests.size.rows import ROWS

pytestmark = pytest.mark.long  # `make size` runs them
_WRITTEN = (clients, servers)  # imported for the rows that they write down


class Keeper:
    """Gives the same daemon to all rows, and another one where that has suffered."""

    def __init__(self) -> None:
        self._arena: Arena | None = None

    def give(self) -> Arena:
        if self._arena is not None and not self._arena.is_well():
            self.close()
        if self._arena is None:
            self._arena = Arena()
            self._arena.up()
        return self._arena

    def close(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("name", ROWS)
def test_size(keeper: Keeper, name: str) -> None:
    arena = keeper.give()
    row = ROWS[name]
    try:
        with arena.measured(row.most_mib) as measure:
            row.attack(arena)
            while measure.goes_on:
                arena.let_go()
                row.attack(arena)
    except BaseException:
        keeper.close()
        raise

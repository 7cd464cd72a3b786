"""How the rows of the table are written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.size.ground import Arena


class Row(NamedTuple):
    """One thing that a peer makes many or large of."""

    attack: Callable[[Arena], None]
    """Does it once, and asserts what becomes of it."""

    most_mib: float
    """What the daemon's memory may grow by meanwhile."""


ROWS: Final[dict[str, Row]] = {}


def row(most_mib: float) -> Callable[[Callable[[Arena], None]], Callable[[Arena], None]]:
    """Add a row to the table under the name of the function."""

    def add(attack: Callable[[Arena], None]) -> Callable[[Arena], None]:
        assert attack.__name__ not in ROWS
        ROWS[attack.__name__] = Row(attack, most_mib)
        return attack

    return add

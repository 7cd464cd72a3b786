"""One list of a server while it is read, with the requests that wait for it."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.catalog.model import Listing
from mcpd.core.facts import Failure

ListWaiter = Callable[[Listing | None, Failure | None], None]
"""Called with a list, or with why there is none; with neither if this client's cannot be read."""


class ListReading:
    """One list that is being read.

    ``before`` is our copy when it was begun. ``waiters`` wait for the list, each with whether it
    may be read once more for them by the next process. All clients are notified of the list if it
    ``is_announced``, or ``is_compared`` and differs; those whose list it is, if it ``is_verified``
    and differs. Nobody is notified of a list that ``hides`` what has changed, and so is the same
    as before. It ``is_outdated`` if all were notified of another change since it was begun.
    """

    def __init__(self, began_at: float, before: Listing | None) -> None:
        self.began_at = began_at
        self.before = before
        self.waiters: dict[ListWaiter, bool] = {}
        self.is_compared = False
        self.is_announced = False
        self.is_verified = False
        self.is_outdated = False
        self.hides = False

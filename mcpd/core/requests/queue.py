"""Requests of sessions that wait for room at a server: one of each session in turn."""

from __future__ import annotations

from collections import OrderedDict

from mcpd.core.requests.inflight import UpstreamRequest


class FairQueue:
    """Requests that wait for room at a server: one of each owner in turn.

    Pushing, taking the next and removing any take constant time.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, OrderedDict[UpstreamRequest, None]] = OrderedDict()
        self.length = 0
        """How many requests wait."""

    def push(self, leg: UpstreamRequest) -> None:
        """Put a request behind those of its owner."""
        line = self._lines.get(leg.owner)
        if line is None:
            line = self._lines[leg.owner] = OrderedDict()
        line[leg] = None
        self.length += 1

    def pop(self) -> UpstreamRequest | None:
        """Take the next owner's oldest request."""
        if not self._lines:
            return None
        owner, line = next(iter(self._lines.items()))
        leg, _ = line.popitem(last=False)
        self.length -= 1
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return leg

    def remove(self, leg: UpstreamRequest) -> bool:
        """Take out a request that is given up; tell whether it was there."""
        line = self._lines.get(leg.owner)
        if line is None or leg not in line:
            return False
        del line[leg]
        self.length -= 1
        if not line:
            del self._lines[leg.owner]
        return True

    def take(self, owner: int) -> list[UpstreamRequest]:
        """Take out all of one owner."""
        taken = list(self._lines.pop(owner, ()))
        self.length -= len(taken)
        return taken

    def drain(self) -> list[UpstreamRequest]:
        """Take out everything."""
        lines, self._lines, self.length = self._lines, OrderedDict(), 0
        return [leg for line in lines.values() for leg in line]

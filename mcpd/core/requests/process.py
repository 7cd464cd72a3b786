"""What the parts of a server's protocol side know of the process in its slot."""

from __future__ import annotations

from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.ids import SlotId


class Process:
    """The process of a slot, or the lack of one."""

    def __init__(self, slot: SlotId, entry: Entry) -> None:
        self.slot = slot
        self.entry = entry
        """The entry, or the first of those, whose process this is."""
        self.is_ready = False
        """Whether requests of clients may be sent."""
        self.is_overrun = False
        """Whether so many requests were given up, unread, that the process gets no more."""
        self.is_modern = False
        """Whether it speaks a revision without a handshake, once it has introduced itself."""
        self._era = Era.LEGACY

    @property
    def era(self) -> Era:
        """What the process speaks, once it has introduced itself."""
        return self._era

    @era.setter
    def era(self, era: Era) -> None:
        self._era = era
        self.is_modern = era is Era.MODERN

    def name_for(self, leg: UpstreamRequest) -> str:
        """Return what the client of a request calls the server: entries may share a process."""
        return self.entry.name if leg.entry is None else leg.entry.name

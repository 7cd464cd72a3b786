"""The definitions of all servers, each judged by the first entry that has its launch."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from mcpd.core.definitions.definitions import Definitions
from mcpd.core.definitions.examinations import Examinations
from mcpd.core.definitions.findings import AllFindings
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry


class AllDefinitions:
    """The definitions of all servers, by the first entry that has a launch."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._servers: dict[str, Definitions] = {}
        self._first: dict[str, str] = {}
        """The name of the first entry with a launch."""
        self._findings = AllFindings()
        self.examinations = Examinations(ctx)
        self.is_holding = False
        """Whether anything of any server can be held."""

    def configure(self, entries: Iterable[Entry]) -> list[Definitions]:
        """Take the entries; return those whose clients may get something else now."""
        changed: list[Definitions] = []
        before, self._servers, self._first = self._servers, {}, {}
        entries = list(entries)
        for entry in _judged(entries).values():
            self._first[entry.launch] = entry.name
            known = before.get(entry.name)
            if known is None:
                known = self._made(entry)
            elif known.configure(entry):
                changed.append(known)
            self._servers[entry.name] = known
        findings = {name: each.findings for name, each in self._servers.items()}
        self._findings.configure((entry.name for entry in entries), findings)
        self.is_holding = any(each.approved.holds for each in self._servers.values())
        return changed

    def _made(self, entry: Entry) -> Definitions:
        return Definitions(self._ctx, entry, self.examinations, self._findings)

    def of(self, entry: Entry) -> Definitions | None:
        """Return the definitions of the server of an entry; ``None`` where none are judged.

        A process of an entry that has changed since is judged by itself, and nothing is kept of it.
        """
        if not entry.rules.identity:
            return None
        found = self._servers.get(self._first.get(entry.launch, entry.name))
        if found is not None and found.rules.identity == entry.rules.identity:
            return found
        alone = structs.replace(entry.rules, pin="off")
        return self._made(structs.replace(entry, rules=alone, pins=None))


def _judged(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the first entry of each launch, with the strictest rules of all of them."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.rules.identity or entry.unavailable is not None:
            continue
        first = found.setdefault(entry.launch, entry)
        if first is entry:
            continue
        mine, others = first.rules, entry.rules
        rules = structs.replace(
            mine,
            pin=max(mine.pin, others.pin, key=("off", "warn", "hold").index),
            sanitise=max(mine.sanitise, others.sanitise, key=("off", "invisible", "strict").index),
        )
        found[entry.launch] = structs.replace(first, rules=rules)
    return found

"""What is approved of the definitions of one server: its pins, and what they are compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import structs

from mcpd.core.catalog.canonical import PINNED
from mcpd.core.catalog.examine import INSTRUCTIONS, KINDS, Examined
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.patterns import Patterns
from mcpd.core.catalog.pins import Counts, Pin, Pins, Seen, Table, accepted, compare, counts
from mcpd.core.definitions.recent_forms import RecentForms
from mcpd.core.definitions.reports import NAME_LENGTH, DefinitionReports, changed_definition
from mcpd.core.interface.commands import KeepPins
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.wire import envelope

_VERSION_LENGTH: Final = 100  # characters


class ApprovedDefinitions:
    """The pins of one server. They change by what it lists, and by what a person accepts."""

    def __init__(self, ctx: Context, entry: Entry, reports: DefinitionReports) -> None:
        self.name = entry.name
        self.launch = entry.launch
        self.rules = entry.rules
        self.pins = entry.pins
        self.is_lost = entry.are_pins_lost
        """Whether they cannot be read from the disk, and so nothing is known to be approved."""
        self.version = ""
        """What the server says its version is."""
        self._ctx = ctx
        self._reports = reports
        self._forms = RecentForms()
        self._volatile = Patterns(entry.rules.volatile)
        self._is_unwritten = False
        """Whether the pins go to the disk with the next list."""
        self._before: Pins | None = None
        """What was approved of what the entry said before."""
        self._take_identity()

    @property
    def holds(self) -> bool:
        """Whether what nobody has approved is kept from clients."""
        return self.rules.pin == "hold"

    def configure(self, entry: Entry) -> bool:
        """Take over what the entry says now; tell whether clients may get something else."""
        self.launch = entry.launch
        if self.is_lost and not entry.are_pins_lost:
            self.is_lost, self.pins = False, entry.pins
        elif entry.rules == self.rules:
            return False
        self.rules = entry.rules
        self._volatile = Patterns(entry.rules.volatile)
        self._take_identity()
        return True

    def _take_identity(self) -> None:
        """Forget pins of another command, or those that are not wanted any more."""
        if self.rules.pin == "off":
            if self.pins is not None:
                self._keep(None)
            self.is_lost = False
        elif self.pins is not None and self.pins.identity != self.rules.identity:
            self._before, self.pins = self.pins, None
            self._forms.clear()

    def take_version(self, info: bytes) -> None:
        """Note which version of itself the server says that it is, in its ``Implementation``."""
        found = (envelope.object_of(info) or {}).get("version")
        self.version = "" if found is None else (envelope.text(found) or "")[:_VERSION_LENGTH]

    def _keep(self, pins: Pins | None) -> None:
        self.pins, self._is_unwritten = pins, False
        self._ctx.emit(KeepPins(self.name, self.launch, pins))

    # -- what a server lists -----------------------------------------------------------------------

    def compare(
        self, key: str, kind: str, seen: Mapping[str, Seen], withheld: Collection[str] = ()
    ) -> None:
        """Compare what a server has of a kind with what is approved, and note what differs.

        The first definitions are approved as they are, but for those that are ``withheld``.
        """
        pins = self.pins or Pins(self.rules.identity, version=self.version)
        before = pins.table(key, kind)
        others = [tables[kind] for tables in pins.tables.values() if kind in tables]
        volatile = {name for name in seen if self._volatile.matches(name)}
        after = compare(before, seen, others=others, withheld=withheld, volatile=volatile)
        if after is before:
            return
        if before is not None:
            after = self._notice_changes(kind, before, after)
        elif not others:
            note = None if self._before is None else _difference(kind, self._before, seen)
            if after or note is not None:
                self._reports.pinned(kind, len(after), note)
            self._reports.changed(kind, {n: pin for n, pin in after.items() if not pin.is_same})
        pins = pins.with_table(key, kind, after)
        if before is None and kind == INSTRUCTIONS:
            self.pins, self._is_unwritten = pins, True  # its lists follow
        else:
            self._keep(pins)

    def write(self) -> None:
        """Put on disk what waited for the first list."""
        if self._is_unwritten:
            self._keep(self.pins)

    def _notice_changes(self, kind: str, before: Table, after: Table) -> Table:
        """Report what has changed, except what changes all the time; return the pins with that."""
        changed: dict[str, Pin] = {}
        marked: dict[str, Pin] = {}
        for name, pin in after.items():
            old = before.get(name)
            if old is pin or (old is not None and old.hash == pin.hash and old.state == pin.state):
                continue
            if not pin.is_volatile and self._forms.has_many(kind, name, pin, self._ctx.now):
                marked[name] = structs.replace(pin, is_volatile=True)
                self._reports.volatile(kind, name)
            elif not pin.is_volatile:
                changed[name] = pin
        self._forms.keep_only(kind, after)
        self._reports.changed(kind, changed)
        return {**after, **marked} if marked else after

    # -- what a person accepts -----------------------------------------------------------------

    def accept(self, wanted: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
        """Approve what waits with these hashes, by kind and name; return what was approved."""
        pins = self.pins
        if pins is None:
            return set()
        changed = []
        names: set[tuple[str, str]] = set()
        for key, tables in pins.tables.items():
            for kind, table in tables.items():
                found = [
                    name
                    for name, pin in table.items()
                    if wanted.get((kind, name)) == pin.hash and not pin.is_same
                ]
                changed += [changed_definition(kind, name, table[name]) for name in found]
                names.update((kind, name) for name in found)
                if found:
                    pins = pins.with_table(key, kind, accepted(table, found))
        if changed:
            self._keep(structs.replace(pins, version=self.version or pins.version))
            self._reports.accepted(changed, names)
        return names

    # -- looking ---------------------------------------------------------------------------------

    def table(self, key: str, kind: Kind) -> Table | None:
        """Return the pins of a list; those of our own where clients with ``key`` have none."""
        if self.pins is None or kind not in PINNED:
            return None
        found = self.pins.table(key, KINDS[kind])
        return self.pins.table("", KINDS[kind]) if found is None else found

    def instructions_pin(self, key: str) -> Pin | None:
        """Return the pin of the instructions."""
        table = None if self.pins is None else self.pins.table(key, INSTRUCTIONS)
        return None if table is None else table.get("")

    def is_approved(self, pin: Pin | None, each: Examined) -> bool:
        """Tell whether a definition is as it was approved, or differs in a text that may change."""
        if pin is None or pin.approved is None or each.seen is None or each.is_broken:
            return False
        if pin.is_same and pin.approved.hash != each.seen.hash:
            return (
                self._volatile.matches(each.item.identity)
                and pin.approved.schema == each.seen.schema
            )
        return pin.approved.hash == each.seen.hash

    def is_volatile(self, name: str) -> bool:
        """Tell whether the text of a tool may change by itself."""
        return self._volatile.matches(name)

    def merged(self) -> Mapping[tuple[str, str], Pin]:
        """Return all pins by kind and name."""
        return {} if self.pins is None else self.pins.merged()

    def counts(self) -> Counts:
        """Return how many definitions differ from what is approved."""
        return counts(self.pins, self.rules.pin)

    def waiting(self) -> list[str]:
        """Return the names of what differs from what is approved, those that are held first."""
        found = [
            (not pin.is_refused, name[:NAME_LENGTH] or kind)
            for (kind, name), pin in self.merged().items()
            if pin.state not in ("approved", "gone")
        ]
        return [name for _, name in sorted(found)]

    def volatile_names(self) -> list[str]:
        """Return the names of what changes all the time, and is not said to do so."""
        return [
            name
            for (_, name), pin in self.merged().items()
            if pin.is_volatile and not self._volatile.matches(name)
        ]

    def held_names(self, kind: Kind) -> list[str]:
        """Return the names that are not listed, because nobody has approved them."""
        if not self.holds:
            return []
        what = KINDS[kind]
        merged = self.merged().items()
        return [name for (each, name), pin in merged if each == what and pin.approved is None]


def _difference(kind: str, before: Pins, seen: Mapping[str, Seen]) -> str | None:
    """Return in a few words how a new baseline differs from what was approved before."""
    old = {name: pin.approved for (each, name), pin in before.merged().items() if each == kind}
    known = {name: each for name, each in old.items() if each is not None}
    if not known:
        return None
    changed = [name for name in known if name in seen and known[name].hash != seen[name].hash]
    added = [name for name in seen if name not in known]
    removed = [name for name in known if name not in seen]
    parts = (("changed", changed), ("new", added), ("gone", removed))
    said = [f"{len(names)} {what}" for what, names in parts if names]
    return ", ".join(said) or "nothing changed"

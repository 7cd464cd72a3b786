"""Pins: the definitions of a server that a person approved, and what the server says now.

All values are immutable. ``compare`` takes a list that has arrived, ``accepted`` a person's yes;
nothing else changes a pin::

    pins = compare(pins, seen, holds=…)       # the first list is the baseline
    pins = accepted(pins, {"send"})           # what waits is approved from now on

A server may list something else for clients that declare something else, so there is a table for
each set of capabilities that it was asked with; ``""`` is our own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import msgspec

from mcpd.core.catalog.canonical import Form
from mcpd.core.catalog.sanitise import Level

State = Literal["approved", "changed", "new", "renamed", "gone"]
Mode = Literal["off", "warn", "hold"]

MOST_TABLES: Final = 32
"""Sets of capabilities of a server that are kept."""

TABLES_BYTES: Final = 8 * 1024 * 1024
"""How long the definitions are together that are kept for them: all are written at each change."""

_PARTS: Final = ("text", "schema", "hints", "output")


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A definition as its server wrote it, with the digests of its canonical form."""

    hash: str
    text: str
    schema: str
    hints: str
    output: str
    raw: str

    @classmethod
    def of(cls, form: Form, raw: bytes) -> Seen:
        """Return a definition with its canonical form."""
        return cls(form.hash, form.text, form.schema, form.hints, form.output, raw.decode())


class Pin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One definition: as it was approved, and as the server has it now; ``None`` where it has not.

    ``current`` is ``approved`` itself while nothing has changed.
    """

    approved: Seen | None = None
    current: Seen | None = None
    is_same: bool = False
    """Whether ``current`` is what was approved; it is not written twice then."""
    is_volatile: bool = False
    """Whether its text changes by itself: that was told, and is not told again."""
    before: str | None = None
    """The name that it had, as far as that can be told."""

    @property
    def now(self) -> Seen | None:
        """Return the definition as the server has it now; ``None`` where it is gone."""
        return self.approved if self.is_same else self.current

    @property
    def state(self) -> State:
        """Return what has become of the approved definition."""
        if self.is_same:
            return "approved"
        if self.current is None:
            return "gone"
        if self.approved is None:
            return "new" if self.before is None else "renamed"
        return "changed"

    @property
    def seen(self) -> list[Seen]:
        """Return the definitions that are kept."""
        return [each for each in (self.approved, self.current) if each is not None]

    @property
    def parts(self) -> tuple[str, ...]:
        """Return which parts have changed: ``text``, ``schema``, ``hints``, ``output``."""
        if self.is_same or self.approved is None or self.current is None:
            return ()
        before, now = self.approved, self.current
        return tuple(part for part in _PARTS if getattr(before, part) != getattr(now, part))

    @property
    def is_refused(self) -> bool:
        """Whether a call is refused where definitions are held: nobody approved what it takes."""
        return self.state in ("new", "renamed") or "schema" in self.parts

    @property
    def hash(self) -> str:
        """Return the digest of what waits for a yes, or of what was approved."""
        now = self.now
        return "" if now is None else now.hash


Table = Mapping[str, Pin]
"""The pins of one kind, by the names that the server gave."""

Tables = Mapping[str, Mapping[str, Table]]
"""The pins of a server: by capabilities, then by kind."""


def _size_bytes(tables: Mapping[str, Table]) -> int:
    seen = (each for table in tables.values() for pin in table.values() for each in pin.seen)
    return sum(len(each.raw) for each in seen)


class Pins(msgspec.Struct, frozen=True):
    """All pins of a server. ``identity`` is that of what was started: its command, or its URL."""

    identity: str
    tables: Tables = {}
    version: str = ""
    """What the server said its version was when its definitions were last approved."""

    def table(self, key: str, kind: str) -> Table | None:
        """Return the pins of one list, ``None`` before it was listed."""
        return self.tables.get(key, {}).get(kind)

    def with_table(self, key: str, kind: str, table: Table) -> Pins:
        """Return these pins with one list replaced; the oldest lists give way, but not ours."""
        tables = {**self.tables, key: {**self.tables.get(key, {}), kind: table}}
        others = [each for each in tables if each and each != key]
        sizes = {each: _size_bytes(tables[each]) for each in tables if each} if others else {}
        for oldest in others:
            if len(tables) <= MOST_TABLES and sum(sizes.values()) <= TABLES_BYTES:
                break
            del tables[oldest], sizes[oldest]
        return msgspec.structs.replace(self, tables=tables)

    def find(self, kind: str, name: str) -> list[Pin]:
        """Return the pins of a name, whatever capabilities it was listed for."""
        found = []
        for tables in self.tables.values():
            table = tables.get(kind)
            if table is not None and (pin := table.get(name)) is not None:
                found.append(pin)
        return found

    def merged(self) -> dict[tuple[str, str], Pin]:
        """Return a pin for each kind and name: of several the one that differs most."""
        found: dict[tuple[str, str], Pin] = {}
        for tables in self.tables.values():
            for kind, table in tables.items():
                for name, pin in table.items():
                    known = found.get((kind, name))
                    if known is None or _urgency(pin) > _urgency(known):
                        found[kind, name] = pin
        return found


def _urgency(pin: Pin) -> int:
    return ("approved", "gone", "changed", "renamed", "new").index(pin.state) + pin.is_refused


def compare(
    before: Table | None,
    seen: Mapping[str, Seen],
    *,
    others: Iterable[Table] = (),
    withheld: Collection[str] = (),
    volatile: Collection[str] = (),
) -> Table:
    """Return the pins after a whole list has arrived; ``before`` itself where nothing differs.

    The first list is the baseline, except ``withheld`` names. What another table knows is not new
    to this one, and is compared with that: ``others`` are those of the same kind for other
    capabilities. ``volatile`` names
    may change their texts.
    """
    if before is None:
        known = list(others)
        return {name: _first(name, each, known, name in withheld) for name, each in seen.items()}
    after: dict[str, Pin] = {}
    for name, each in seen.items():
        pin = before.get(name, _NONE)
        after[name] = _after(pin, each, is_volatile=name in volatile)
    gone = {
        name: pin
        if pin.state == "gone"
        else msgspec.structs.replace(pin, current=None, is_same=False)
        for name, pin in before.items()
        if name not in after and pin.approved is not None
    }
    after.update(gone)
    _find_renamed(after, gone)
    is_same = after.keys() == before.keys() and all(after[name] is before[name] for name in after)
    return before if is_same else after


_NONE: Final = Pin()


def _first(name: str, seen: Seen, others: list[Table], is_withheld: bool) -> Pin:
    found = [known.approved for table in others if (known := table.get(name)) is not None]
    approved = [each for each in found if each is not None]
    same = next((each for each in approved if each.hash == seen.hash), None)
    if same is not None:
        return Pin(same, is_same=True)
    if found:  # it has another form than what was approved, or waits there
        return Pin(approved[0] if approved else None, seen)
    return Pin(None, seen) if is_withheld else Pin(seen, is_same=True)


def _after(pin: Pin, seen: Seen, *, is_volatile: bool) -> Pin:
    approved = pin.approved
    is_same = approved is not None and _is_equal(approved, seen, is_volatile=is_volatile)
    if is_same:
        if pin.is_same:
            return pin
        return msgspec.structs.replace(pin, current=None, is_same=True, before=None)
    if pin.current is not None and pin.current.hash == seen.hash and not pin.is_same:
        return pin
    return msgspec.structs.replace(pin, current=seen, is_same=False)


def _is_equal(approved: Seen, seen: Seen, *, is_volatile: bool) -> bool:
    if not is_volatile:
        return approved.hash == seen.hash
    return all(getattr(approved, part) == getattr(seen, part) for part in _PARTS[1:])


def _find_renamed(after: dict[str, Pin], gone: Mapping[str, Pin]) -> None:
    """Name what a new definition was called, where one is gone that takes or says the same."""
    taken = {pin.before for pin in after.values()}
    left = {
        name: pin.approved
        for name, pin in gone.items()
        if pin.approved is not None and name not in taken
    }
    fresh = {
        name: pin.current
        for name, pin in after.items()
        if pin.approved is None and pin.current is not None and pin.before is None
    }
    for alike in (_both, _text, _schema):  # first what is the same but for its name
        names: dict[object, list[str]] = {}
        for old in sorted(left):
            names.setdefault(alike(left[old]), []).append(old)
        for name in list(fresh):
            found = names.get(alike(fresh[name]))
            if found:
                before = found.pop()
                after[name] = msgspec.structs.replace(after[name], before=before)
                del left[before], fresh[name]


def _both(seen: Seen) -> object:
    return seen.text, seen.schema


def _text(seen: Seen) -> object:
    return seen.text


def _schema(seen: Seen) -> object:
    return seen.schema


def accepted(table: Table, names: Collection[str]) -> Table:
    """Return the pins once a person has approved what waits under these names."""
    after = dict(table)
    for name in names:
        pin = table.get(name)
        if pin is None:
            continue
        now = pin.now
        if now is None:
            del after[name]
        else:
            after[name] = Pin(now, is_same=True, before=pin.before)  # its old name stays taken
    return after


class Rules(msgspec.Struct, frozen=True):
    """What is done with the definitions of a server. Without an ``identity`` nothing is."""

    identity: str = ""
    """Of what is started or connected to: a changed one is a new baseline."""
    pin: Mode = "off"
    sanitise: Level = "off"
    volatile: tuple[str, ...] = ()
    """Patterns of tools whose texts change by themselves."""
    results: Literal["off", "flag", "clean"] = "off"
    """Whether what nobody can see in results is told, or removed."""


class Counts(msgspec.Struct, frozen=True):
    """How many definitions differ from what was approved."""

    changed: int = 0
    """What is told: under ``hold`` the approved form of these is served."""
    held: int = 0
    """What is not listed, or refused when it is called."""


def counts(pins: Pins | None, mode: Mode) -> Counts:
    """Return how many definitions differ. What is gone is no difference that is counted."""
    if pins is None or mode == "off":
        return Counts()
    waiting = [pin for pin in pins.merged().values() if pin.state not in ("approved", "gone")]
    held = sum(pin.is_refused for pin in waiting) if mode == "hold" else 0
    return Counts(len(waiting) - held, held)


def digest_of(items: Iterable[tuple[str, str, str]]) -> str:
    """Return a digest of definitions that are accepted together: kind, name and hash of each."""
    text = "".join(f"{kind}\0{name}\0{each}\n" for kind, name, each in sorted(items))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

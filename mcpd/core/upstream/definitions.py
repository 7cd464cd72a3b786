"""What servers say of themselves, judged before any client gets it: pinned, sanitised, scanned."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from mcpd.core.catalog import sanitise, scan
from mcpd.core.catalog.canonical import PINNED, digest_of, text_hash
from mcpd.core.catalog.examine import (
    INSTRUCTIONS,
    KINDS,
    Examined,
    Job,
    Notice,
    crossed,
    examine,
    notices_of,
    shadows,
)
from mcpd.core.catalog.model import Catalog, Item, Kind, Listing
from mcpd.core.catalog.patterns import Patterns
from mcpd.core.catalog.pins import Counts, Pin, Pins, Seen, Table, accepted, compare, counts
from mcpd.core.catalog.sanitise import Removed
from mcpd.core.catalog.scan import Finding
from mcpd.core.facts import (
    ChangedDefinition,
    DefinitionsAccepted,
    DefinitionsChanged,
    DefinitionsFound,
    DefinitionsPinned,
    DefinitionsSanitised,
    DefinitionVolatile,
    Failure,
    ServerWarning,
)
from mcpd.core.interface.commands import Examine, KeepPins
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.methods import Route
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.wire import envelope

AT_ONCE: Final = 32 * 1024
"""Bytes of definitions that are looked at on the loop; more of them elsewhere."""

TELL_EVERY: Final = 10.0
"""Seconds between two reports of changed definitions of one server."""

FORMS: Final = 5
"""Distinct forms of one definition within ``FORMS_WITHIN`` after which it is volatile."""

FORMS_WITHIN: Final = 3600.0
"""Seconds."""

_FACT_ITEMS: Final = 50  # of one report
_SHOWN: Final = 200  # characters of a name that are told
_LISTS: Final = 64  # for clients with other capabilities that are remembered as examined
_TOLD: Final = 10_000  # findings and notices that are remembered as told
_KIND_OF: Final = {name: kind for kind, name in KINDS.items()}


class Heard(NamedTuple):
    """A list as the server sent it, and what was seen in it."""

    listing: Listing
    examined: tuple[Examined, ...] = ()


class Reviewed(NamedTuple):
    """A list as clients get it. ``hides``: what differs from the last one may be held back."""

    listing: Listing
    heard: Heard
    hides: bool = False


Then = Callable[[Reviewed], None]


class Definitions:
    """The definitions of one server: what is approved of them, what was found, what is served."""

    def __init__(self, ctx: Context, entry: Entry, all_of_them: AllDefinitions) -> None:
        self.name = entry.name
        self.rules = entry.rules
        self.pins = entry.pins
        self.is_lost = entry.are_pins_lost
        self.version = ""
        """What the server says its version is."""
        self._ctx = ctx
        self.launch = entry.launch
        self._all = all_of_them
        self._examined: dict[tuple[str, Kind], tuple[Examined, ...]] = {}
        self._instructions: dict[str, tuple[list[Finding], tuple[Notice, ...]]] = {}
        self._forms: dict[tuple[str, str], dict[str, float]] = {}
        """When each form of a definition was first seen, in monotonic seconds."""
        self._told: set[Finding | Notice] = set()
        self._is_unwritten = False
        """Whether the pins go to the disk with the next list."""
        self._changes: dict[tuple[str, str], ChangedDefinition] = {}
        self._told_at = -TELL_EVERY
        self._volatile = Patterns(entry.rules.volatile)
        self._found: tuple[int, list[Finding]] | None = None
        """All findings, and at which generation of all definitions they were made."""
        self._before: Pins | None = None
        """What was approved of what the entry said before."""
        self._take_identity()

    def configure(self, entry: Entry) -> bool:
        """Take over what the entry says now; tell whether clients may get something else."""
        self.launch = entry.launch
        if self.is_lost and not entry.are_pins_lost:
            self.is_lost, self.pins = False, entry.pins
        elif entry.rules == self.rules:
            return False
        if entry.rules.sanitise != self.rules.sanitise:
            self._examined.clear()
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

    # -- lists -----------------------------------------------------------------------------------

    def review(
        self,
        key: str,
        listing: Listing,
        served: Listing | None,
        then: Then,
        *,
        is_whole: bool = True,
    ) -> None:
        """Judge a list that has arrived, then call ``then`` with what clients get of it.

        ``key`` are the capabilities that it was asked with, empty for ours, and ``served`` is what
        clients got until now. A long list is looked at elsewhere; ``then`` is called later. One
        that could not be read to its end is compared with nothing.
        """
        kind = listing.kind
        known = {each.item.raw: each for each in self._examined.get((key, kind), ())}
        fresh = sum(len(item.raw) for item in listing.items if item.raw not in known)
        job = Job(kind, listing.items, self.rules.sanitise, known)
        take = partial(self._take, key, listing, served, then, is_whole)
        if fresh <= AT_ONCE:
            take(examine(job))
        else:
            self._all.examine(job, take)

    def _take(
        self,
        key: str,
        listing: Listing,
        served: Listing | None,
        then: Then,
        is_whole: bool,
        examined: tuple[Examined, ...] | None,
    ) -> None:
        kind = listing.kind
        if examined is None:  # it could not be looked at
            self._warn(f"{kind.value} could not be examined")
            is_held = self.rules.pin == "hold"
            kept = (served or Listing.empty(kind)) if is_held else listing
            then(Reviewed(kept, Heard(listing), hides=is_held))
            return
        self._examined.pop((key, kind), None)  # the newest is the last
        self._examined[key, kind] = examined
        for oldest in [each for each in self._examined if each[0]][:-_LISTS]:
            del self._examined[oldest]
        self._all.generation += 1
        heard = Heard(listing, examined)
        if kind in PINNED and self.rules.pin != "off" and is_whole and not self.is_lost:
            self._judge(key, kind, examined)
            if self._is_unwritten:
                self._keep(self.pins)
        self._report(
            (*crossed(kind, examined, self._all.tools_beside(self)), *_findings(examined)),
            tuple(notice for each in examined for notice in each.notices),
        )
        then(self.serve(key, heard, served))

    def serve(self, key: str, heard: Heard, served: Listing | None) -> Reviewed:
        """Return what clients get of a list that was heard."""
        kind = heard.listing.kind
        if self.is_lost and kind in PINNED:
            return Reviewed(served or Listing.empty(kind), heard, hides=True)
        table = self._table(key, kind)
        is_held = self.rules.pin == "hold" and table is not None
        items: list[Item] = []
        hides = False
        names: set[str] = set()
        for each in heard.examined:
            name, raw = each.item.identity, each.clean
            if kind in PINNED and name in names:
                continue  # of a name that is listed twice the first is served
            names.add(name)
            pin = None if table is None or not is_held else table.get(name)
            if is_held and each.seen is not None and not self._is_approved(pin, each):
                hides = True
                if pin is None or pin.approved is None or each.is_broken:
                    continue
                raw = self._clean(pin.approved)
            items.append(each.item if raw == each.item.raw else Item(name, raw))
        if served is not None and _is_same(items, served.items):
            return Reviewed(served, heard, hides)
        if _is_same(items, heard.listing.items):
            return Reviewed(heard.listing, heard, hides)
        return Reviewed(Listing(kind, items), heard, hides)

    def recalled(
        self, key: str, kind: Kind, listing: Listing, fresh: Collection[str] = ()
    ) -> Listing:
        """Return what clients get of a list of an earlier process, which they got until now.

        ``fresh`` are the names of definitions that have been approved since.
        """
        if self.is_lost:
            return listing
        table, is_held = self._table(key, kind), self.rules.pin == "hold"
        items: list[Item] = []
        for item in listing.items:
            pin = None if table is None else table.get(item.identity)
            raw: bytes | None = self._clean_bytes(item.raw)
            if pin is not None and (pin.state != "approved" or item.identity in fresh):
                seen = pin.approved if is_held else pin.now
                raw = None if seen is None else self._clean(seen)
            if raw is not None:
                items.append(item if raw == item.raw else Item(item.identity, raw))
        known = {item.identity for item in listing.items}
        for name, pin in ({} if table is None else table).items():
            seen = pin.approved if is_held else pin.now
            if name not in known and pin.now is not None and seen is not None:
                items.append(Item(name, self._clean(seen)))
        return listing if _is_same(items, listing.items) else Listing(kind, items)

    def _table(self, key: str, kind: Kind) -> Table | None:
        if self.pins is None or kind not in PINNED:
            return None
        found = self.pins.table(key, KINDS[kind])
        return self.pins.table("", KINDS[kind]) if found is None else found

    def _is_approved(self, pin: Pin | None, each: Examined) -> bool:
        if pin is None or pin.approved is None or each.seen is None or each.is_broken:
            return False
        if pin.is_same and pin.approved.hash != each.seen.hash:
            return (
                self._volatile.matches(each.item.identity)
                and pin.approved.schema == each.seen.schema
            )
        return pin.approved.hash == each.seen.hash

    def _clean(self, seen: Seen) -> bytes:
        return self._clean_bytes(seen.raw.encode())

    def _clean_bytes(self, raw: bytes) -> bytes:
        try:
            return sanitise.clean_json(raw, self.rules.sanitise, Removed())
        except (ValueError, RecursionError):
            return raw

    def _judge(self, key: str, kind: Kind, examined: tuple[Examined, ...]) -> None:
        """Compare a list with what is approved."""
        seen: dict[str, Seen] = {}
        for each in examined:
            if each.seen is not None:
                seen.setdefault(each.item.identity, each.seen)
        withheld: set[str] = set()
        if self.rules.pin == "hold":
            alike = crossed(kind, examined, self._all.tools_beside(self))
            withheld = {finding.name for finding in alike}
            withheld |= {e.item.identity for e in examined if e.is_hard or e.is_broken}
            ours = None if self.pins is None else self.pins.table("", KINDS[kind])
            if key and ours is not None:  # not the first list: what only some clients get is new
                withheld |= seen.keys()
        self._compare(key, KINDS[kind], seen, withheld)

    def _compare(
        self, key: str, kind: str, seen: Mapping[str, Seen], withheld: Collection[str] = ()
    ) -> None:
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
            fact = DefinitionsPinned(self.name, kind, len(after), note)
            if after or note is not None:
                self._ctx.tell(fact)
            self._change(kind, {name: pin for name, pin in after.items() if not pin.is_same})
        pins = pins.with_table(key, kind, after)
        if before is None and kind == INSTRUCTIONS:
            self.pins, self._is_unwritten = pins, True  # its lists follow
        else:
            self._keep(pins)

    def _notice_changes(self, kind: str, before: Table, after: Table) -> Table:
        """Report what has changed, except what changes all the time; return the pins with that."""
        changed: dict[str, Pin] = {}
        marked: dict[str, Pin] = {}
        for name, pin in after.items():
            old = before.get(name)
            if old is pin or (old is not None and old.hash == pin.hash and old.state == pin.state):
                continue
            if not pin.is_volatile and self._has_many_forms(kind, name, pin):
                marked[name] = structs.replace(pin, is_volatile=True)
                self._ctx.tell(DefinitionVolatile(self.name, kind, name[:_SHOWN]))
            elif not pin.is_volatile:
                changed[name] = pin
        for gone in [each for each in self._forms if each[0] == kind and each[1] not in after]:
            del self._forms[gone]
        self._change(kind, changed)
        return {**after, **marked} if marked else after

    def _has_many_forms(self, kind: str, name: str, pin: Pin) -> bool:
        """Tell whether a definition has had too many forms lately."""
        forms, now = self._forms.setdefault((kind, name), {}), self._ctx.now
        if pin.hash and not pin.is_same:
            forms.setdefault(pin.hash, now)
        for each in [each for each, at in forms.items() if at < now - FORMS_WITHIN]:
            del forms[each]
        return len(forms) >= FORMS

    def _change(self, kind: str, changed: Mapping[str, Pin]) -> None:
        for name, pin in itertools.islice(changed.items(), _FACT_ITEMS):
            what = ChangedDefinition(kind, name[:_SHOWN], pin.state, pin.parts)
            self._changes[kind, name] = what
        if not self._changes:
            return
        if self._ctx.now >= self._told_at + TELL_EVERY:
            self._tell_changes()
        elif len(self._changes) == len(changed):  # the first since they were told
            self._ctx.after(self._told_at + TELL_EVERY - self._ctx.now, self._tell_changes)

    def _tell_changes(self) -> None:
        changes, self._changes = tuple(self._changes.values()), {}
        if changes:
            self._told_at = self._ctx.now
            self._ctx.tell(DefinitionsChanged(self.name, changes[:_FACT_ITEMS]))

    def _keep(self, pins: Pins | None) -> None:
        self.pins, self._is_unwritten = pins, False
        self._ctx.emit(KeepPins(self.name, self.launch, pins))

    def _report(self, findings: Iterable[Finding], notices: tuple[Notice, ...]) -> None:
        """Tell what was found and removed, of each thing once."""
        found = [each for each in findings if each.weight != "noted" and each not in self._told]
        removed = [each for each in notices if each not in self._told]
        if len(self._told) > _TOLD:
            self._told.clear()
        self._told.update(found)
        self._told.update(removed)
        if found:
            shown = tuple(_finding(each) for each in found[:_FACT_ITEMS])
            self._ctx.tell(DefinitionsFound(self.name, shown))
        if removed:
            told = tuple(_notice(each) for each in removed[:_FACT_ITEMS])
            self._ctx.tell(DefinitionsSanitised(self.name, told))

    def _warn(self, text: str) -> None:
        self._ctx.tell(ServerWarning(self.name, text))

    def take_version(self, info: bytes) -> None:
        """Note which version of itself the server says that it is, in its ``Implementation``."""
        found = (envelope.object_of(info) or {}).get("version")
        self.version = "" if found is None else (envelope.text(found) or "")[:100]

    # -- instructions ----------------------------------------------------------------------------

    def instructions(self, key: str, raw: bytes | None, served: bytes | None) -> bytes | None:
        """Judge the instructions of a server, a JSON string; return those that clients get.

        ``served`` are those that they got until now.
        """
        if self.is_lost:
            return served
        text = None if raw is None else envelope.text(msgspec.Raw(raw))
        if text is not None and raw is not None:
            removed = Removed()
            sanitise.clean_text(text, self.rules.sanitise, removed)
            findings, _, _ = scan.scan_text(INSTRUCTIONS, "", text)
            notices = notices_of(INSTRUCTIONS, "", removed)
            self._instructions[key] = findings, notices
            self._all.generation += 1
            self._report(findings, notices)
        else:
            self._instructions.pop(key, None)
        if self.rules.pin != "off":
            seen = {}
            if text is not None and raw is not None:
                digest = text_hash(text)
                nothing = digest_of(b"")
                seen[""] = Seen(digest, digest, nothing, nothing, nothing, raw.decode())
            self._compare(key, INSTRUCTIONS, seen)
        pin = self._instructions_pin(key)
        is_held = self.rules.pin == "hold" and pin is not None and pin.state != "approved"
        return self.instructions_again(key, raw) if is_held else self._clean_text(raw)

    def instructions_again(self, key: str, served: bytes | None) -> bytes | None:
        """Return the instructions that clients get now, who got ``served`` until now."""
        pin = self._instructions_pin(key)
        if pin is None or self.is_lost:
            return self._clean_text(served)
        seen = pin.approved if self.rules.pin == "hold" else pin.now
        is_gone = seen is None or pin.state == "gone"
        return None if is_gone or seen is None else self._clean_text(seen.raw.encode())

    def _instructions_pin(self, key: str) -> Pin | None:
        table = None if self.pins is None else self.pins.table(key, INSTRUCTIONS)
        return None if table is None else table.get("")

    def _clean_text(self, raw: bytes | None) -> bytes | None:
        found: bytes | None = sanitise.clean_value(raw, self.rules.sanitise, Removed())
        return found

    # -- what is refused, and what a person accepts ----------------------------------------------

    def refusal_of(self, leg: UpstreamRequest) -> Failure | None:
        """Return why a request to the server is refused, or ``None`` where it is not."""
        if self.rules.pin != "hold":
            return None
        if leg.tool is not None:
            return self.refusal("tool", leg.tool)
        if leg.method.route is not Route.PROMPT or leg.params is None:
            return None
        found = envelope.params_of(leg.params)
        name = None if found is None else envelope.text(found.name)
        return None if name is None else self.refusal("prompt", name)

    def refusal(self, kind: str, name: str) -> Failure | None:
        """Return why a definition may not be used, or ``None`` where it may.

        Where some are approved, a name that has never been listed is not: it may be new.
        """
        if self.rules.pin != "hold":
            return None
        if self.is_lost:
            what = "its approved definitions cannot be read"
            return self._denied(name, what, f"mcpctl pins {_word(self.name)}")
        if self.pins is None:
            return None
        found = self.pins.find(kind, name)
        if not found and any(kind in tables for tables in self.pins.tables.values()):
            what = f"it is not among the approved {kind}s"
            return self._denied(name, what, f"mcpctl pins diff {_word(self.name)}")
        for refused in found:
            if not refused.is_same and refused.is_refused:
                break
        else:
            return None
        what = "what it takes has changed since it was approved"
        if refused.approved is None:
            what = "nobody has approved it yet"
        target = f"{self.name}.{name}" if kind != INSTRUCTIONS else self.name
        return self._denied(name, what, f"mcpctl pins diff {_word(target)}")

    def _denied(self, name: str, what: str, hint: str) -> Failure:
        message = (
            f"{self.name}.{name} is held: {what}. Do not call it again; tell your user, who can "
            "look at it and accept it."
        )
        return Failure("denied", message, self.name, False, hint, {"reason": "pin"})

    def is_volatile(self, name: str) -> bool:
        """Tell whether the text of a tool may change by itself."""
        return self._volatile.matches(name)

    def accept(self, items: Iterable[tuple[str, str, str]]) -> Failure | set[tuple[str, str]]:
        """Approve what waits under a kind and a name, where its hash is what was shown.

        Return what was approved, or why nothing was.
        """
        wanted = {(kind, name): digest for kind, name, digest in items}
        pins = self.pins
        known = {} if pins is None else pins.merged()
        for (kind, name), digest in wanted.items():
            pin = known.get((kind, name))
            if pin is None or pin.hash != digest:
                where = f"{self.name}.{name}" if name else self.name
                return Failure(
                    "denied",
                    f"{where} is not what was shown: nothing is accepted",
                    self.name,
                    False,
                    f"mcpctl pins diff {_word(where)}",
                    {"reason": "pin"},
                )
        if pins is None:
            return set()
        changed: list[ChangedDefinition] = []
        accepted_names: set[tuple[str, str]] = set()
        for key, tables in pins.tables.items():
            for kind, table in tables.items():
                names = [
                    name
                    for name, pin in table.items()
                    if wanted.get((kind, name)) == pin.hash and not pin.is_same
                ]
                changed += [
                    ChangedDefinition(kind, name[:_SHOWN], table[name].state, table[name].parts)
                    for name in names
                ]
                accepted_names.update((kind, name) for name in names)
                if names:
                    pins = pins.with_table(key, kind, accepted(table, names))
        if changed:
            self._keep(structs.replace(pins, version=self.version or pins.version))
            self._ctx.tell(DefinitionsAccepted(self.name, tuple(changed[:_FACT_ITEMS])))
            for each in accepted_names:
                self._changes.pop(each, None)
        return accepted_names

    # -- reports ---------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Return how many definitions differ from what is approved."""
        return counts(self.pins, self.rules.pin)

    def waiting(self) -> list[str]:
        """Return the names of what differs from what is approved, those that are held first."""
        merged = {} if self.pins is None else self.pins.merged()
        found = [
            (not pin.is_refused, name[:_SHOWN] or kind)
            for (kind, name), pin in merged.items()
            if pin.state not in ("approved", "gone")
        ]
        return [name for _, name in sorted(found)]

    def volatile_names(self) -> list[str]:
        """Return the names of what changes all the time, and is not said to do so."""
        merged = {} if self.pins is None else self.pins.merged()
        return [
            name
            for (_, name), pin in merged.items()
            if pin.is_volatile and not self._volatile.matches(name)
        ]

    def held_names(self, kind: Kind) -> list[str]:
        """Return the names that are not listed, because nobody has approved them."""
        if self.rules.pin != "hold" or self.pins is None:
            return []
        merged = self.pins.merged().items()
        what = KINDS[kind]
        return [name for (each, name), pin in merged if each == what and pin.approved is None]

    def findings(self) -> list[Finding]:
        """Return all that was found, the worst first, of each thing once."""
        if self._found is None or self._found[0] != self._all.generation:
            self._found = self._all.generation, self._all_findings()
        return self._found[1]

    def _all_findings(self) -> list[Finding]:
        found: list[Finding] = []
        others = self._all.tools_beside(self)
        for (_, kind), examined in self._examined.items():
            found += crossed(kind, examined, others)
            found += _findings(examined)
        found += shadows(self.tools(), self._all.listed_beside(self))
        for each, _ in self._instructions.values():
            found += each
        found += self._all.server_alike(self.name)
        weights = ("hard", "soft", "noted")
        return sorted(dict.fromkeys(found), key=lambda each: weights.index(each.weight))

    def notices(self) -> list[Notice]:
        """Return what was removed, of each thing once."""
        lists = (each.notices for examined in self._examined.values() for each in examined)
        all_of_them = itertools.chain(
            lists, (notices for _, notices in self._instructions.values())
        )
        return list(dict.fromkeys(itertools.chain.from_iterable(all_of_them)))

    @property
    def is_whole(self) -> bool:
        """Whether all definitions could be looked at wholly."""
        return all(each.is_whole for found in self._examined.values() for each in found)

    @property
    def is_examined(self) -> bool:
        """Whether anything was listed in this life of the daemon."""
        return bool(self._examined)

    def tools(self) -> list[Examined]:
        """Return the tools that were examined in this life of the daemon."""
        found = (each for (_, kind), each in self._examined.items() if kind is Kind.TOOLS)
        return [*itertools.chain.from_iterable(found)]


class AllDefinitions:
    """The definitions of all servers, by the first entry that has a launch."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._servers: dict[str, Definitions] = {}
        self._first: dict[str, str] = {}
        """The name of the first entry with a launch."""
        self._names: list[str] = []
        self.generation = 0
        """Counts what was examined, so that findings are made once of it."""
        self.is_holding = False
        """Whether anything of any server can be held."""
        self._tickets = itertools.count(1)
        self._waiting: dict[int, Callable[[tuple[Examined, ...] | None], None]] = {}

    def __len__(self) -> int:
        """Return how many lists are being looked at elsewhere."""
        return len(self._waiting)

    def configure(self, entries: Iterable[Entry]) -> list[Definitions]:
        """Take the entries; return those whose clients may get something else now."""
        changed: list[Definitions] = []
        before, self._servers, self._first = self._servers, {}, {}
        entries = list(entries)
        self._names = [entry.name for entry in entries]
        for entry in _judged(entries).values():
            self._first[entry.launch] = entry.name
            known = before.get(entry.name)
            if known is None:
                known = Definitions(self._ctx, entry, self)
            elif known.configure(entry):
                changed.append(known)
            self._servers[entry.name] = known
        self.generation += 1
        self.is_holding = any(each.rules.pin == "hold" for each in self._servers.values())
        return changed

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
        return Definitions(self._ctx, structs.replace(entry, rules=alone, pins=None), self)

    def named(self, name: str) -> Definitions | None:
        """Return the definitions of a server by its name."""
        return self._servers.get(name)

    def examine(self, job: Job, then: Callable[[tuple[Examined, ...] | None], None]) -> None:
        """Have a long list looked at elsewhere."""
        ticket = next(self._tickets)
        self._waiting[ticket] = then
        self._ctx.emit(Examine(ticket, job))

    def examined(self, ticket: int, found: tuple[Examined, ...] | None) -> None:
        """Take what was seen in a list."""
        then = self._waiting.pop(ticket, None)
        if then is not None:
            then(found)

    def tools_beside(self, own: Definitions) -> list[str]:
        """Return the names of the tools of all other servers."""
        others = (each for each in self._servers.values() if each is not own)
        return [examined.item.identity for each in others for examined in each.tools()]

    def listed_beside(self, own: Definitions) -> dict[str, list[Examined]]:
        """Return the tools of all servers that are started from something else."""
        return {
            name: each.tools()
            for name, each in self._servers.items()
            if each.rules.identity != own.rules.identity
        }

    def server_alike(self, name: str) -> list[Finding]:
        """Return a finding where the name of a server looks like another one's."""
        alike = scan.look_alikes(self._names).get(name)
        found: list[Finding] = []
        if alike is not None:
            evidence = f"looks like {scan.visible(alike)}"
            found.append(Finding("server", name, "name.lookalike", "hard", evidence, "name"))
        return found


def recalled(
    definitions: Definitions, key: str, catalog: Catalog, fresh: Collection[tuple[str, str]] = ()
) -> Catalog:
    """Return what clients get of lists of an earlier process."""
    lists = {
        kind: definitions.recalled(
            key, kind, listing, [name for what, name in fresh if what == KINDS[kind]]
        )
        for kind, listing in catalog.lists.items()
    }
    is_same = all(lists[kind] is listing for kind, listing in catalog.lists.items())
    return catalog if is_same else Catalog(lists)


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


def _findings(examined: Iterable[Examined]) -> list[Finding]:
    return [finding for each in examined for finding in each.findings]


def _finding(finding: Finding) -> dict[str, str]:
    """Return a finding without its evidence, which may be the attack itself."""
    return {
        "kind": finding.kind,
        "name": finding.name[:_SHOWN],
        "class": finding.cls,
        "weight": finding.weight,
        "place": finding.place,
    }


def _notice(notice: Notice) -> dict[str, object]:
    return {
        "kind": notice.kind,
        "name": notice.name[:_SHOWN],
        "class": notice.cls,
        "count": notice.count,
        "characters": list(notice.characters),
    }


def _difference(kind: str, before: Pins, seen: Mapping[str, Seen]) -> str | None:
    """Return in a few words how a new baseline differs from what was approved before."""
    old = {name: pin.approved for (each, name), pin in before.merged().items() if each == kind}
    old = {name: each for name, each in old.items() if each is not None}
    if not old:
        return None
    known = {name: each for name, each in old.items() if each is not None}
    changed = [name for name in known if name in seen and known[name].hash != seen[name].hash]
    added = [name for name in seen if name not in known]
    removed = [name for name in known if name not in seen]
    parts = (("changed", changed), ("new", added), ("gone", removed))
    said = [f"{len(names)} {what}" for what, names in parts if names]
    return ", ".join(said) or "nothing changed"


def _word(text: str) -> str:
    """Return a word of a command line, quoted where a shell would read it otherwise."""
    if re.fullmatch(r"[\w./@:+-]+", text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def _is_same(new: Sequence[Item], old: Sequence[Item]) -> bool:
    """Tell whether two lists have the same entries, however their pages are written."""
    return len(new) == len(old) and all(
        each.raw == other.raw for each, other in zip(new, old, strict=True)
    )


def kind_of(name: str) -> Kind | None:
    """Return the list that a kind of definitions is in, ``None`` for instructions."""
    return _KIND_OF.get(name)

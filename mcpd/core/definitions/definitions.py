"""The definitions of one server: what it says of itself, judged before any client gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec

from mcpd.core.catalog import sanitise, scan
from mcpd.core.catalog.canonical import PINNED, digest_of, text_hash
from mcpd.core.catalog.examine import INSTRUCTIONS, KINDS, Examined, Job, examine, notices_of
from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.catalog.pins import Rules, Seen
from mcpd.core.catalog.sanitise import Removed
from mcpd.core.definitions import held_refusals
from mcpd.core.definitions.approved import ApprovedDefinitions
from mcpd.core.definitions.examinations import Examinations
from mcpd.core.definitions.findings import AllFindings, ServerFindings, findings_of
from mcpd.core.definitions.reports import DefinitionReports
from mcpd.core.definitions.served import Heard, Reviewed, ServedDefinitions
from mcpd.core.facts import Failure
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.wire import envelope

AT_ONCE: Final = 32 * 1024
"""Bytes of definitions that are looked at on the loop; more of them elsewhere."""

Then = Callable[[Reviewed], None]


class Definitions:
    """What a server says of itself: what is approved of it, what was found, what is served."""

    def __init__(
        self, ctx: Context, entry: Entry, examinations: Examinations, all_findings: AllFindings
    ) -> None:
        self._examinations = examinations
        self._reports = DefinitionReports(ctx, entry.name)
        self.approved = ApprovedDefinitions(ctx, entry, self._reports)
        self.findings = ServerFindings(entry.name, entry.rules, all_findings)
        self.served = ServedDefinitions(self.approved)

    @property
    def rules(self) -> Rules:
        """What the entry says about them."""
        return self.approved.rules

    def configure(self, entry: Entry) -> bool:
        """Take over what the entry says now; tell whether clients may get something else."""
        if not self.approved.configure(entry):
            return False
        self.findings.configure(entry.rules)
        return True

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
        known = self.findings.known(key, listing.kind)
        fresh = sum(len(item.raw) for item in listing.items if item.raw not in known)
        job = Job(listing.kind, listing.items, self.rules.sanitise, known)
        take = partial(self._take, key, listing, served, then, is_whole)
        if fresh <= AT_ONCE:
            take(examine(job))
        else:
            self._examinations.begin(job, take)

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
            self._reports.warn(f"{kind.value} could not be examined")
            then(self.served.unexamined(listing, served))
            return
        self.findings.take_list(key, kind, examined)
        is_pinned = kind in PINNED and self.rules.pin != "off"
        if is_pinned and is_whole and not self.approved.is_lost:
            self._compare(key, kind, examined)
            self.approved.write()
        self._reports.found(
            (*self.findings.crossed(kind, examined), *findings_of(examined)),
            tuple(notice for each in examined for notice in each.notices),
        )
        then(self.served.of(key, Heard(listing, examined), served))

    def _compare(self, key: str, kind: Kind, examined: tuple[Examined, ...]) -> None:
        """Compare a list with what is approved."""
        seen: dict[str, Seen] = {}
        for each in examined:
            if each.seen is not None:
                seen.setdefault(each.item.identity, each.seen)
        withheld: set[str] = set()
        if self.approved.holds:
            withheld = {finding.name for finding in self.findings.crossed(kind, examined)}
            withheld |= {e.item.identity for e in examined if e.is_hard or e.is_broken}
            pins = self.approved.pins
            ours = None if pins is None else pins.table("", KINDS[kind])
            if key and ours is not None:  # not the first list: what only some clients get is new
                withheld |= seen.keys()
        self.approved.compare(key, KINDS[kind], seen, withheld)

    # -- instructions ----------------------------------------------------------------------------

    def instructions(self, key: str, raw: bytes | None, served: bytes | None) -> bytes | None:
        """Judge the instructions of a server, a JSON string; return those that clients get.

        ``served`` are those that they got until now.
        """
        if self.approved.is_lost:
            return served
        text = None if raw is None else envelope.text(msgspec.Raw(raw))
        if text is None:
            self.findings.drop_instructions(key)
        else:
            removed = Removed()
            sanitise.clean_text(text, self.rules.sanitise, removed)
            findings, _, _ = scan.scan_text(INSTRUCTIONS, "", text)
            notices = notices_of(INSTRUCTIONS, "", removed)
            self.findings.take_instructions(key, findings, notices)
            self._reports.found(findings, notices)
        if self.rules.pin != "off":
            seen = {}
            if text is not None and raw is not None:
                digest = text_hash(text)
                nothing = digest_of(b"")
                seen[""] = Seen(digest, digest, nothing, nothing, nothing, raw.decode())
            self.approved.compare(key, INSTRUCTIONS, seen)
        return self.served.instructions(key, raw)

    # -- what a person accepts ---------------------------------------------------------------------

    def accept(self, items: Iterable[tuple[str, str, str]]) -> Failure | set[tuple[str, str]]:
        """Approve what waits under a kind and a name, where its hash is what was shown.

        Return what was approved, or why nothing was.
        """
        wanted = {(kind, name): digest for kind, name, digest in items}
        return held_refusals.not_as_shown(self.approved, wanted) or self.approved.accept(wanted)

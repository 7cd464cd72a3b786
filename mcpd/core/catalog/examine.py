"""One look at a list that has arrived: its canonical forms, what is removed, what is found.

This is the part that takes time, and it needs nothing but the list: it can be done in a thread.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

import msgspec

from mcpd.core.catalog import sanitise, scan
from mcpd.core.catalog.canonical import PINNED, form_of, tree_of
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.catalog.pins import Seen
from mcpd.core.catalog.sanitise import Level, Removed
from mcpd.core.catalog.scan import Finding

KINDS: Final = {
    Kind.TOOLS: "tool",
    Kind.PROMPTS: "prompt",
    Kind.RESOURCES: "resource",
    Kind.TEMPLATES: "template",
}
"""What one entry of a list is called."""

_KIND_OF: Final = {name: kind for kind, name in KINDS.items()}

INSTRUCTIONS: Final = "instructions"

_CLONE: Final = 120  # bytes of a definition whose text may be compared with others


class Notice(msgspec.Struct, frozen=True):
    """What was removed from the texts of one definition."""

    kind: str
    name: str
    cls: str = msgspec.field(name="class")
    count: int
    characters: tuple[str, ...] = ()
    """Those that were removed, as ``U+200B``; at most a few."""
    hidden: str = ""
    """What TAG characters spelt."""


class Examined(msgspec.Struct, frozen=True, gc=False):
    """One definition of a list."""

    item: Item
    seen: Seen | None
    """``None`` for what is not pinned."""
    clean: bytes
    """The definition as clients may get it."""
    findings: tuple[Finding, ...] = ()
    notices: tuple[Notice, ...] = ()
    is_whole: bool = True
    """Whether all of it could be looked at."""
    mentions: frozenset[str] = frozenset()
    """Names that look like those of tools, where the text says when to use one."""
    is_broken: bool = False
    """Whether it could not be read, so that nothing was removed."""

    @property
    def is_hard(self) -> bool:
        """Whether something was found that has no honest use."""
        return any(each.weight == "hard" for each in self.findings)


class Job(msgspec.Struct, frozen=True):
    """What there is to do with a list."""

    kind: Kind
    items: tuple[Item, ...]
    level: Level = "invisible"
    known: Mapping[bytes, Examined] = {}
    """What was examined before, by its bytes: it is not looked at again."""


def examine(job: Job) -> tuple[Examined, ...]:
    """Return each definition of a list with what is found. Pure, and it never raises."""
    steps = examining(job)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[Examined, ...] = end.value
            return found


def examining(job: Job) -> Generator[None, None, tuple[Examined, ...]]:
    """Examine a list step by step, a definition each; the generator returns what was found."""
    budget = scan.SERVER_MOST
    found: list[Examined] = []
    for item in job.items:
        known = job.known.get(item.raw)
        if known is None:
            known, used = _examined(job.kind, item, job.level, budget)
            budget -= used
            yield
        found.append(known)
    return tuple(found)


def _examined(kind: Kind, item: Item, level: Level, budget: int) -> tuple[Examined, int]:
    name, what = item.identity, KINDS[kind]
    try:
        tree = tree_of(item.raw)
    except (ValueError, RecursionError):
        seen = Seen.of(form_of(kind, item.raw), item.raw) if kind in PINNED else None
        clean, notices, is_broken = _cleaned(what, item, level)
        broken = Examined(item, seen, clean, (), notices, is_whole=False, is_broken=is_broken)
        return broken, len(item.raw)
    seen = Seen.of(form_of(kind, item.raw, tree), item.raw) if kind in PINNED else None
    findings, used, is_whole = scan.scan_definition(what, name, tree, budget=budget)
    mentions = scan.mentions(tree) if kind is Kind.TOOLS else frozenset()
    clean, notices, is_broken = _cleaned(what, item, level)
    examined = Examined(item, seen, clean, tuple(findings), notices, is_whole, mentions, is_broken)
    return examined, used


def _cleaned(what: str, item: Item, level: Level) -> tuple[bytes, tuple[Notice, ...], bool]:
    removed = Removed()
    try:
        clean = sanitise.clean_json(item.raw, level, removed)
    except (ValueError, RecursionError):
        return item.raw, (), True
    return clean, notices_of(what, item.identity, removed), False


def notices_of(kind: str, name: str, removed: Removed) -> tuple[Notice, ...]:
    """Return what was removed, a notice for each class."""
    if not removed:
        return ()
    characters = tuple(sorted(removed.characters))[:16]
    hidden = "".join(removed.hidden)[:1000]
    return tuple(
        Notice(
            kind,
            name,
            cls,
            count,
            characters if "." in cls or cls == "control" else (),
            hidden if cls == "unicode.tag" else "",
        )
        for cls, count in sorted(removed.counts.items())
    )


def crossed(kind: Kind, examined: Iterable[Examined], others: Iterable[str] = ()) -> list[Finding]:
    """Return what is found by comparing the names of a list with each other and with ``others``.

    ``others`` are names of tools of other servers.
    """
    what, found = KINDS[kind], list[Finding]()
    seen: set[str] = set()
    for each in examined:
        name = each.item.identity
        if name in seen and kind in PINNED:
            evidence = "listed twice; the first is served"
            found.append(Finding(what, name, "duplicate.name", "hard", evidence, "name"))
        seen.add(name)
    if kind in (Kind.TOOLS, Kind.PROMPTS):
        alike = scan.look_alikes(seen, others if kind is Kind.TOOLS else ())
        found += [
            Finding(
                what, name, "name.lookalike", "hard", f"looks like {scan.visible(known)}", "name"
            )
            for name, known in sorted(alike.items())
        ]
    return found


def shadows(own: Iterable[Examined], others: Mapping[str, Iterable[Examined]]) -> list[Finding]:
    """Return the tools that say what another server's tool says, or tell when to use one of those.

    A server that repeats most of another one is the same program twice, and no clone.
    """
    tools = list(own)
    found: list[Finding] = []
    for server, listed in others.items():
        theirs = list(listed)
        texts = {
            each.seen.text: each for each in theirs if each.seen and len(each.seen.raw) >= _CLONE
        }
        same = [each for each in tools if each.seen is not None and each.seen.text in texts]
        if same and len(same) * 2 < len(tools):
            found += [
                Finding(
                    "tool", each.item.identity, "shadow.clone", "soft", f"says what {server} says"
                )
                for each in same
            ]
        names = {each.item.identity for each in theirs} - {each.item.identity for each in tools}
        found += [
            Finding("tool", each.item.identity, "shadow.reference", "soft", f"{server}: {name}")
            for each in tools
            for name in sorted(each.mentions & names)
        ]
    return found


def kind_of(name: str) -> Kind | None:
    """Return the list that a kind of definitions is in, ``None`` for instructions."""
    return _KIND_OF.get(name)

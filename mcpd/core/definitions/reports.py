"""Facts that are told of the definitions of one server: changes, findings, what was removed."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mcpd.core.catalog.examine import Notice
from mcpd.core.catalog.pins import Pin
from mcpd.core.catalog.scan import Finding
from mcpd.core.facts import (
    ChangedDefinition,
    DefinitionsAccepted,
    DefinitionsChanged,
    DefinitionsFound,
    DefinitionsPinned,
    DefinitionsSanitised,
    DefinitionVolatile,
    ServerWarning,
)
from mcpd.core.interface.context import Context

TELL_EVERY: Final = 10.0
"""Seconds between two reports of changed definitions of one server."""

NAME_LENGTH: Final = 200
"""Characters of a name that are told."""

_FACT_ITEMS: Final = 50  # of one report
_TOLD: Final = 10_000  # findings and notices that are remembered as told


class DefinitionReports:
    """Tells of changes at most once in ten seconds, and of each finding once."""

    def __init__(self, ctx: Context, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._told: set[Finding | Notice] = set()
        self._changes: dict[tuple[str, str], ChangedDefinition] = {}
        """Those that are not told yet."""
        self._told_at = -TELL_EVERY

    def warn(self, text: str) -> None:
        """Tell that something is wrong with the server."""
        self._ctx.tell(ServerWarning(self._name, text))

    def found(self, findings: Iterable[Finding], notices: tuple[Notice, ...]) -> None:
        """Tell what was found and removed, of each thing once."""
        found = [each for each in findings if each.weight != "noted" and each not in self._told]
        removed = [each for each in notices if each not in self._told]
        if len(self._told) > _TOLD:
            self._told.clear()
        self._told.update(found)
        self._told.update(removed)
        if found:
            shown = tuple(_finding(each) for each in found[:_FACT_ITEMS])
            self._ctx.tell(DefinitionsFound(self._name, shown))
        if removed:
            told = tuple(_notice(each) for each in removed[:_FACT_ITEMS])
            self._ctx.tell(DefinitionsSanitised(self._name, told))

    def pinned(self, kind: str, count: int, note: str | None) -> None:
        """Tell that the first definitions of a kind were taken as approved."""
        self._ctx.tell(DefinitionsPinned(self._name, kind, count, note))

    def volatile(self, kind: str, name: str) -> None:
        """Tell that a definition changes all the time."""
        self._ctx.tell(DefinitionVolatile(self._name, kind, name[:NAME_LENGTH]))

    def changed(self, kind: str, changed: Mapping[str, Pin]) -> None:
        """Tell of changes, now or with others that come soon."""
        for name, pin in itertools.islice(changed.items(), _FACT_ITEMS):
            self._changes[kind, name] = changed_definition(kind, name, pin)
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
            self._ctx.tell(DefinitionsChanged(self._name, changes[:_FACT_ITEMS]))

    def accepted(
        self, changes: list[ChangedDefinition], names: Collection[tuple[str, str]]
    ) -> None:
        """Tell what a person accepted; it is no change any more."""
        self._ctx.tell(DefinitionsAccepted(self._name, tuple(changes[:_FACT_ITEMS])))
        for each in names:
            self._changes.pop(each, None)


def changed_definition(kind: str, name: str, pin: Pin) -> ChangedDefinition:
    """Return what is told of a definition that differs from what is approved."""
    return ChangedDefinition(kind, name[:NAME_LENGTH], pin.state, pin.parts)


def _finding(finding: Finding) -> dict[str, str]:
    """Return a finding without its evidence, which may be the attack itself."""
    return {
        "kind": finding.kind,
        "name": finding.name[:NAME_LENGTH],
        "class": finding.cls,
        "weight": finding.weight,
        "place": finding.place,
    }


def _notice(notice: Notice) -> dict[str, object]:
    return {
        "kind": notice.kind,
        "name": notice.name[:NAME_LENGTH],
        "class": notice.cls,
        "count": notice.count,
        "characters": list(notice.characters),
    }

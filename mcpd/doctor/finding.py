"""One thing that is to be said, and what to type about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "note", "ok"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note", "ok")
"""The worst first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line. It holds no value of a variable, and of arguments only what ``list`` shows."""

    id: str
    """Stable: what scripts match on. They are in docs/doctor.md."""

    severity: Severity
    message: str
    remedy: str | None = None
    """What to type, or to change; an ``ok`` has none."""

    server: str | None = None


def error(ident: str, message: str, remedy: str, server: str | None = None) -> Finding:
    """Say what does not work."""
    return Finding(id=ident, severity="error", message=message, remedy=remedy, server=server)


def warning(ident: str, message: str, remedy: str, server: str | None = None) -> Finding:
    """Say what works, and may soon not, or not as its user thinks."""
    return Finding(id=ident, severity="warning", message=message, remedy=remedy, server=server)


def note(ident: str, message: str, remedy: str | None = None, server: str | None = None) -> Finding:
    """Say what is good to know."""
    return Finding(id=ident, severity="note", message=message, remedy=remedy, server=server)


def fine(ident: str, message: str, server: str | None = None) -> Finding:
    """Say what was looked at and is in order."""
    return Finding(id=ident, severity="ok", message=message, server=server)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the worst first, each kind in the order in which they came."""
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))

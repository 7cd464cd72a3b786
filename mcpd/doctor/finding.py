"""A finding of the doctor: what is wrong, how severe it is, and what to type about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "note", "ok"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note", "ok")
"""The worst first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output, without values of variables; arguments are masked as in ``list``."""

    id: str
    """Stable, so that scripts can match on it; listed in docs/doctor.md."""

    severity: Severity
    message: str
    remedy: str | None = None
    """What to type or to change; an ``ok`` has none."""

    server: str | None = None


def error(ident: str, message: str, remedy: str, server: str | None = None) -> Finding:
    """Return a finding about something that does not work."""
    return Finding(id=ident, severity="error", message=message, remedy=remedy, server=server)


def warning(ident: str, message: str, remedy: str, server: str | None = None) -> Finding:
    """Return a finding about something that works, but may fail soon or surprise its user."""
    return Finding(id=ident, severity="warning", message=message, remedy=remedy, server=server)


def note(ident: str, message: str, remedy: str | None = None, server: str | None = None) -> Finding:
    """Return a finding that is only information."""
    return Finding(id=ident, severity="note", message=message, remedy=remedy, server=server)


def fine(ident: str, message: str, server: str | None = None) -> Finding:
    """Return a finding about something that was checked and is in order."""
    return Finding(id=ident, severity="ok", message=message, server=server)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by severity, the worst first, otherwise in their order."""
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))

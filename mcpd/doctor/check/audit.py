"""Checks whether calls are recorded, and whether any are missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from mcpd.doctor.facts import Audit, Talk
from mcpd.doctor.finding import Finding, note, warning

AUDIT: Final = "the audit "
"""How the sentences of a daemon's status begin that are reported here."""

NOT_WRITTEN: Final = "the audit is not written"


def check(found: Audit | None, talk: Talk | None, *, is_on: bool) -> Iterator[Finding]:
    """Yield the findings; none where calls are not to be recorded."""
    if not is_on:
        return
    if found is not None:
        yield from _of_file(found)
        if found.is_newer:
            return
    for problem in ((talk and talk.status) or {}).get("daemon", {}).get("problems", ()):
        if problem.startswith(NOT_WRITTEN):
            yield warning(
                "audit_not_written",
                problem,
                "mend that: the daemon tries again all the time; its log: mcpctl logs",
            )


def _of_file(found: Audit) -> Iterator[Finding]:
    path = shlex.quote(found.path)
    if found.is_newer:
        yield warning(
            "audit_newer",
            f"calls are not recorded: {found.trouble}",
            f"use that release; or begin another audit: mv {path} {path}.newer, "
            "then: mcpctl restart --daemon",
        )
    elif found.trouble is not None:
        yield warning("audit_unreadable", found.trouble, "its log: mcpctl logs")
    for at, rows, hashes in found.gaps[-1:]:
        more = f"; there are {len(found.gaps)} gaps" if len(found.gaps) > 1 else ""
        yield warning(
            "audit_gap",
            f"the audit has a gap before {at}: {rows} rows, and the hashes of {hashes} calls, are "
            f"missing{more}",
            "mcpctl audit events --what audit.gap; the daemon's log says why: mcpctl logs",
        )
    if found.aside:
        yield note(
            "audit_set_aside",
            f"broken files of the audit were moved, and another begun: {', '.join(found.aside)}",
            "remove what you do not want to look at",
        )

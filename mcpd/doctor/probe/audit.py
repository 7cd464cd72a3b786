"""Reads what the audit says of itself: whether it can be read, and what is missing in it."""

from __future__ import annotations

import glob
import os
from datetime import UTC, datetime

from mcpd.audit import record
from mcpd.doctor.facts import Audit

GAP_DAYS = 7
"""How long a gap is reported."""

MOST_GAPS = 20


def audit(state_dir: str) -> Audit:
    """Return what is known of the audit in a state directory; nothing is written."""
    path = record.path_in(state_dir)
    beginning = glob.escape(os.path.join(state_dir, record.BAD))
    aside = tuple(
        sorted(each for each in glob.glob(beginning + "*") if not each.endswith(("-wal", "-shm")))
    )
    if not os.path.exists(path):
        return Audit(path=path, aside=aside)
    from mcpd.audit.reader import Reader
    from mcpd.audit.schema import AuditError, NewerFile, NoAudit

    since_ms = round(datetime.now(UTC).timestamp() * 1000) - GAP_DAYS * 86_400_000
    try:
        reader = Reader(state_dir)
        try:
            events = reader.events(since_ms=since_ms, what=record.GAP, count=MOST_GAPS)
        finally:
            reader.close()
    except NoAudit:
        return Audit(path=path, aside=aside)
    except AuditError as error:
        return Audit(
            path=path,
            aside=aside,
            trouble=error.message,
            remedy=error.hint,
            is_newer=isinstance(error, NewerFile),
        )
    gaps = ((e["at"], e["detail"].get("rows", 0), e["detail"].get("hashes", 0)) for e in events)
    return Audit(path=path, aside=aside, gaps=tuple(gaps))

"""Removes old rows when a person asks for it; the daemon may be writing meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3

from mcpd.audit import record, retention
from mcpd.audit.schema import AuditError
from mcpd.audit.store import EventRow, Store

WAIT_S = 10
"""Seconds that one step waits for the daemon's turn to end."""


def prune(state_dir: str, before_ms: int, now_ms: int) -> int:
    """Remove what ended before an instant; return how many rows that were.

    An event says so. Times are milliseconds since the epoch. Raises ``AuditError``.
    """
    path = record.path_in(state_dir)
    if not os.path.exists(path):
        return 0
    try:
        with contextlib.closing(Store(path)) as store:
            store.connection.execute(f"PRAGMA busy_timeout={WAIT_S * 1000}")
            removed = sum(retention.before(store.connection, before_ms))
            detail = json.dumps({"rows": removed, "before": before_ms})
            store.write([EventRow(now_ms, record.PRUNED, "local", None, None, detail)])
    except (sqlite3.Error, OSError) as error:
        raise AuditError(f"cannot change {path}: {error}", hint="mcpctl doctor") from None
    return removed

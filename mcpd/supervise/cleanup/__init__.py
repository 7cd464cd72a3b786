"""Ends the servers of a daemon that died.

A running daemon records its processes in a ``ledger`` (``ledgerfile`` is the format). When it dies,
its ``guardian``, a separate process that ``keeper`` starts and restarts, ends the recorded
processes; if that one is killed too, the next daemon does it in ``sweep``. Both use ``orphans``.
"""

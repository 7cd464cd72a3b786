"""What the daemon looks after while it runs, beside its servers and sessions.

``socket_keeper`` its socket and lock, ``ledger_keeper`` its record of processes,
``manager_status`` what its service manager shows, ``watchdog`` its own event loop. ``problems``
says for ``status`` what cannot be written.
"""

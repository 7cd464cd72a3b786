"""The daemon, wired together: ``wiring`` builds its parts, ``run`` starts and stops them.

``dispatcher`` passes events to the core and performs its commands. ``downstream`` holds the
sessions of clients and the listeners they come from, ``servers`` what is configured and brought,
and ``backend`` and ``status`` answer control requests. Each other module looks after one thing
while the daemon runs: its clock, socket, ledger, configuration, service manager, watchdog.
"""

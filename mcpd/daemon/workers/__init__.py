"""Work that would hold up the event loop: in processes of the daemon's own, or in threads.

``argument_checks`` checks calls in the validator's process, ``examination`` looks at lists and
results in a thread. ``processes`` starts the daemon's own processes.
"""

"""Who gets which message: the top of the core, which knows both sides.

``mux`` takes events and returns commands. ``client_messages`` and ``server_messages`` read the
lines that arrive, ``connections`` has what happens to a client's connection, ``reconfiguration``
what a change of the configured servers does, ``notifier`` passes on what servers say without being
asked, and ``report`` is what ``status`` shows.
"""

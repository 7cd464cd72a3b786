"""Who gets which message: the top of the core, which knows both sides.

``mux`` takes events and returns commands. ``client_messages`` and ``server_messages`` read the
lines that arrive, ``notifier`` passes on what servers say without being asked, and ``report`` is
what ``status`` shows.
"""

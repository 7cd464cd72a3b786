"""A blocking client of the daemon's socket, for command-line programs.

``control`` sends requests and reads notifications, ``process`` ends a daemon that does not respond,
and ``hints`` has what to type when none answers. ``mcpctl`` reaches the daemon by this package
alone. Standard library only.
"""

"""The environment of the user's login shell.

A daemon started by a service manager has a ``PATH`` without the user's own directories, and one
started by a client or a desktop lacks variables that a terminal has. ``loginshell`` runs the login
shell once and reads its environment, which ``printenv`` prints there; ``loginpath`` holds the
rules: which shell, which command line, how the two ``PATH`` are merged.
"""

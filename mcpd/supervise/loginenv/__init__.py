"""The ``PATH`` of the user's login shell.

A daemon started by a service manager has a ``PATH`` without the user's own directories.
``loginshell`` runs the login shell once and reads its ``PATH``, which ``printpath`` prints there;
``loginpath`` holds the rules: which shell, which command line, how the two ``PATH`` are merged.
"""

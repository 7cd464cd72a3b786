"""``mcpctl doctor``: finds what is wrong on this machine and what to do about it.

It must work where the daemon does not, so it inspects files, processes and limits itself and only
then asks the daemon. ``probe`` gathers facts without judging them, and ``check`` turns facts into
findings without any I/O.
"""

"""Log files: writing, rotating, bounding and reading back.

Both kinds of log are kept here, the daemon's own and the one of each server. A log never blocks its
writer: what a disk, a pipe or a terminal does not take is counted, and the log tells how many lines
are missing. What is written into the daemon's log is decided in ``mcpd.observe``.
"""

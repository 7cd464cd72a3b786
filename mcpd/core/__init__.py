"""Decides: events and the time go in, commands come out; no I/O."""

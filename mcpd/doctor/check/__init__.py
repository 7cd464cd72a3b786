"""Turns facts into findings.

Each module has one ``check`` function, which reads ``mcpd.doctor.facts`` and yields findings; none
of them does I/O.
"""

"""Clients that speak HTTP: when the daemon listens for them, and the sessions that they have.

``switch`` is always there; it imports ``front``, and with it the HTTP server, once an address is
configured. ``core`` is what the front asks of the daemon, ``tokens`` who may.
"""

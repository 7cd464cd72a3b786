"""Accepts clients: the Unix socket, its connections, and control requests of every transport."""

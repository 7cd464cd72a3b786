"""Gathers the facts for ``mcpctl doctor``.

Each probe examines one thing (the socket, the files, the machine, the ledgers, the daemon's
answers), changes nothing, and runs in a thread with a time limit that ``runner`` enforces.
"""

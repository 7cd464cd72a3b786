"""The control protocol as types: parameters, results, the status and the version.

A public contract, which neither the daemon's core nor ``mcpctl`` may change on its own: it imports
nothing of either.
"""

"""The control command line of mcpd.

Beside the packages there are fifteen modules: the program, and what commands ask, read and print
with.
"""

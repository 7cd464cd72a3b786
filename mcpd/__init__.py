"""The one daemon for every MCP server on a machine.

Beside the packages there are fifteen modules: the two of the program, and small ones that packages
share which do not know each other.
"""

__version__ = "0.1.0"

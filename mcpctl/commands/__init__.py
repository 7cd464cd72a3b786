"""The commands of ``mcpctl``: a module for each, or for a few that belong together.

The package is flat and long because who looks for a command looks for a module of its name;
``mcpctl.cli.COMMANDS`` is the table of them, and imports only the one that is used.
"""

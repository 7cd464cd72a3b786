"""The commands of ``mcpctl``: a module for each, or for a few that belong together."""

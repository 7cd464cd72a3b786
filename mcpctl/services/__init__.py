"""The service managers that ``mcpctl service`` supports, systemd and launchd.

Each knows the files to install, the commands to run, and how to read its state and its log.
"""

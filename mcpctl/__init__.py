"""The control command line of mcpd."""

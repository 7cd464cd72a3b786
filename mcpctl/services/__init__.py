"""Service managers as `mcpctl service` sees them: the files they read, the commands they take."""
